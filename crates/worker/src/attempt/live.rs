//! Shows what running attempts tell, while they run: gathered for a moment, written for all attempts at once.
//!
//! Handlers put what they tell on the [`Board`], in memory and within bounds; one task for the whole process ([`run`]) writes what is
//! new every [`GATHER`] and takes away what attempts that are over have left. So an attempt that is over sooner costs the database
//! nothing, and the write of results ([`crate::completion`]) knows nothing of this. The database's answer says which claims held. One
//! that did not was taken away: the work under it is killed at once. (Attempts that tell nothing learn it with a heartbeat.)
//!
//! Nothing here may hold up work: a database that is away costs what is told meanwhile, beyond the bounds. The record of the attempt
//! has it all the same. A process that dies leaves rows, which the leader removes.

mod live_buffer;

use std::sync::Arc;
use std::time::Duration;

use sched_model::domain::ids::ClaimToken;
use sched_model::{Database, DbError, running::live_output};
use sched_runtime::tasks::BoxError;
use tokio_util::sync::CancellationToken;

pub(crate) use crate::attempt::live::live_buffer::Board;

use crate::attempt::counters::{self, Seen};

/// Time between two writes. Half of it is what watching lags behind on average; an attempt that is over sooner is never written.
const GATHER: Duration = Duration::from_millis(400);
/// The same while the database fails.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// A write that takes longer is given up; it is made again.
const WRITE_WITHIN: Duration = Duration::from_secs(10);

/// Writes what is told until `stop`.
///
/// # Errors
/// Never.
pub(crate) async fn run(
    board: Arc<Board>,
    database: Database,
    seen: Arc<Seen>,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    let mut failing = false;
    let mut pause = GATHER;
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = board.has_work() => {}
        }
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(pause) => {}
        }
        let written = tokio::time::timeout(WRITE_WITHIN, write(&board, &database, &seen)).await;
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
        // Once for an outage: the completer and the heartbeat say the rest.
        if !std::mem::replace(&mut failing, true) {
            tracing::warn!(error, "Showing what attempts tell failed; trying again.");
        }
    }
}

async fn write(board: &Board, database: &Database, seen: &Seen) -> Result<(), DbError> {
    let told = board.news();
    let over = board.over();
    if told.is_empty() && over.is_empty() {
        return Ok(());
    }
    let mut conn = database.conn().await?;
    if !told.is_empty() {
        let held = live_output::write(&mut conn, &told).await?;
        board.written(&told);
        for one in told.iter().filter(|one| !held.contains(&one.token)) {
            lost(board, seen, one.token);
        }
    }
    if !over.is_empty() {
        let gone = live_output::forget(&mut conn, &over).await?;
        board.forgotten(&gone);
    }
    Ok(())
}

/// A claim that does not hold: its attempt has just ended, or it belongs to somebody else by now.
fn lost(board: &Board, seen: &Seen, token: ClaimToken) {
    if board.close(token)
        && let Some(job) = seen.running.lose(token)
    {
        counters::tell_loss(&job, token);
    }
}
