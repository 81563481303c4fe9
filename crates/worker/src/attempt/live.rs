//! Live output and progress of running attempts: buffered briefly, written for all attempts at once.
//!
//! Handlers put events into the [`LiveBuffer`], in memory and within bounds. One task per process
//! ([`run`]) writes new events every [`GATHER`] and deletes the rows of ended attempts. So an
//! attempt that ends sooner costs the database nothing, and storing results
//! ([`crate::completion`]) does not depend on live output. The answer of a write names the claims
//! that held. A claim that did not hold was taken away: the worker kills its attempt at once.
//! (Attempts without live output learn it from a heartbeat.)
//!
//! Live output never delays an attempt. While the database is unavailable, events beyond the bounds
//! are dropped; the result of the attempt contains the output anyway. If the process dies, the
//! leader deletes its rows.

mod live_buffer;

use std::sync::Arc;
use std::time::Duration;

use sched_model::domain::ids::ClaimToken;
use sched_runtime::tasks::BoxError;
use tokio_util::sync::CancellationToken;

pub(crate) use crate::attempt::live::live_buffer::{AttemptKey, LiveBuffer};

use crate::attempt::counters::{self, Counters};
use crate::backend::{Backend, DbError};

/// Time between two writes. Live output lags by half of it on average. An attempt that ends sooner is
/// never written.
const GATHER: Duration = Duration::from_millis(400);
/// Time between two writes while the database fails.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// A write that takes longer is abandoned and repeated.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// Writes live events until `stop`.
///
/// # Errors
/// Never.
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
        // Logged once per outage: the completer and the heartbeat log the rest.
        if !std::mem::replace(&mut failing, true) {
            tracing::warn!(error, "failed to write live output; retrying");
        }
    }
}

async fn write(buffer: &LiveBuffer, backend: &Backend, counters: &Counters) -> Result<(), DbError> {
    let news = buffer.news();
    let over = buffer.over();
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
