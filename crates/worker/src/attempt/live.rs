//! Live output and progress of running attempts: buffered briefly, written for all attempts at
//! once.
//!
//! One task per process ([`run`]) writes new events every [`GATHER`] and deletes the rows of ended
//! attempts. A shorter attempt costs the database nothing. The answer of a write names the claims
//! that held; the worker kills the attempt of any other claim at once.
//!
//! Live output never delays an attempt. While the database is unavailable, events beyond the bounds
//! are dropped. If the process dies, the leader deletes its rows.

mod live_buffer;

use std::sync::Arc;
use std::time::Duration;

use sched_model::domain::ids::ClaimToken;
use sched_runtime::tasks::BoxError;
use tokio_util::sync::CancellationToken;

pub(crate) use crate::attempt::live::live_buffer::{AttemptKey, LiveBuffer};

use crate::attempt::counters::{self, Counters};
use crate::backend::{Backend, DbError};

/// Live output lags by half of it on average.
const GATHER: Duration = Duration::from_millis(400);
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// A write that takes longer is aborted and repeated.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

pub(crate) async fn run(
    buffer: Arc<LiveBuffer>,
    backend: Backend,
    counters: Arc<Counters>,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let mut failing = false;
    let mut pause = GATHER;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = buffer.has_work() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        let written = tokio::time::timeout(WRITE_WITHIN, write(&buffer, &backend, &counters)).await;
        let error = match written {
            Ok(Ok(())) => {
                failing = false;
                pause = GATHER;
                continue;
            }
            Ok(Err(error)) => error.with_causes(),
            Err(_elapsed) => format!("no answer within {WRITE_WITHIN:?}"),
        };
        pause = AFTER_FAILURE;
        // Logged once per outage.
        if !std::mem::replace(&mut failing, true) {
            tracing::warn!(error, "failed to write live output; retrying");
        }
    }
}

async fn write(buffer: &LiveBuffer, backend: &Backend, counters: &Counters) -> Result<(), DbError> {
    let news = buffer.news();
    let over = buffer.ended();
    if !news.is_empty() {
        let held = backend.write_live(&news).await?;
        buffer.written(&news);
        for one in news.iter().filter(|one| !held.contains(&one.token)) {
            lost(buffer, counters, one.token);
        }
    }
    if !over.is_empty() {
        let gone = backend.forget_live(&over).await?;
        buffer.forgotten(&gone);
    }
    Ok(())
}

/// Handles a claim that does not hold: its attempt has just ended, or another worker has the run.
fn lost(buffer: &LiveBuffer, counters: &Counters, token: ClaimToken) {
    if buffer.close(token)
        && let Some(job) = counters.running.lose(token)
    {
        counters::log_loss(&job, token);
    }
}
