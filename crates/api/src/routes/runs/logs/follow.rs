//! One reader of a run's output: the output since its last poll. Read only.
//!
//! A poll reads the state of the run first, then attempts that have ended since, with their stored
//! output, and the live output of the running one. In this order nothing is missed: an attempt that
//! has ended at the first read is in the history of the second. Losing a reader loses nothing.

use chrono::{DateTime, Utc};
use sched_model::domain::ids::{ClaimToken, DispatchId, ExecutionId, TenantId};
use sched_model::domain::run_state::DispatchStatus;
use sched_model::running::live_output::{self, Finished, FollowedRun};
use sched_model::{Conn, DbError, DbResult, running::executions};
use sched_wire::LogEvent;

use super::LogEvents;
use super::position::{Position, STREAMS, placed};
use crate::convert::{IntoWire, response};

/// Limit of finished attempts per poll; the next poll continues.
const ATTEMPTS_AT_ONCE: usize = 10;

/// Limit of stored output per poll; the next poll continues. Escaping in JSON multiplies the sent
/// bytes.
const BYTES_AT_ONCE: usize = 1 << 20;

/// A piece of a stream, with its offset.
#[derive(Debug, Clone, Copy)]
struct Piece<'a> {
    stream: &'a str,
    starts_at: u64,
    content: &'a str,
}

#[derive(Debug, Clone)]
pub(super) struct Follower {
    tenant: TenantId,
    dispatch: DispatchId,
    position: Position,
    status: DispatchStatus,
    /// Status, number of attempts and running attempt at the last read of history. While they are
    /// unchanged, no attempt has ended. Only the number shows a whole attempt between two polls.
    read_at: Option<(DispatchStatus, i32, Option<ExecutionId>)>,
    /// The running attempt and its last read piece. A position alone would require reading all
    /// pieces again.
    last_piece: Option<(ClaimToken, i64)>,
    progress_of: Option<DateTime<Utc>>,
    has_more: bool,
}

impl Follower {
    pub(super) fn new(tenant: TenantId, dispatch: DispatchId, position: Position) -> Self {
        Self {
            tenant,
            dispatch,
            position,
            status: DispatchStatus::Pending,
            read_at: None,
            last_piece: None,
            progress_of: None,
            has_more: false,
        }
    }

    pub(super) fn status(&self) -> DispatchStatus {
        self.status
    }

    /// Whether the last poll left something for the next one.
    pub(super) fn has_more(&self) -> bool {
        self.has_more
    }

    pub(super) fn end(&self) -> (LogEvent, Position) {
        (LogEvent::End { status: self.status.into_wire() }, self.position)
    }

    /// `NotFound` if the tenant has no such run.
    pub(super) async fn poll(&mut self, conn: &mut Conn) -> DbResult<LogEvents> {
        let run =
            live_output::followed_run(conn, self.tenant, self.dispatch).await?.ok_or(DbError::NotFound)?;
        self.status = run.status;
        self.has_more = false;
        let mut events = Vec::new();
        self.ended(conn, &run, &mut events).await?;
        if !self.has_more {
            self.running(conn, &run, &mut events).await?;
        }
        Ok(events)
    }

    async fn ended(&mut self, conn: &mut Conn, run: &FollowedRun, events: &mut LogEvents) -> DbResult<()> {
        let state = (run.status, run.attempt, run.running.map(|(execution, _)| execution));
        if self.read_at == Some(state) {
            return Ok(());
        }
        let from = self.position.execution;
        let finished = live_output::finished(conn, self.tenant, run, from).await?;
        let mut new = finished.into_iter().filter(|one| !(self.position.is_done && from == Some(one.id)));
        let page: Vec<Finished> = new.by_ref().take(ATTEMPTS_AT_ONCE).collect();
        self.has_more = new.next().is_some();
        let mut bytes = 0;
        for one in page {
            if bytes >= BYTES_AT_ONCE {
                self.has_more = true;
                break;
            }
            self.begin(one.id, one.attempt, events);
            let stored = executions::output(conn, self.tenant, one.id).await?;
            for stream in STREAMS {
                for (starts_at, content) in placed(&stored, stream) {
                    bytes += self.output(one.id, Piece { stream, starts_at, content }, events);
                }
            }
            self.position.is_done = true;
            let status = one.status.into_wire();
            let end = LogEvent::AttemptEnd {
                attempt_id: one.id.0,
                status,
                error_message: one.error_message,
                is_output_incomplete: one.status.has_incomplete_output(),
            };
            events.push((end, self.position));
        }
        if !self.has_more {
            self.read_at = Some(state);
        }
        Ok(())
    }

    /// New live output of the running attempt, if there is one.
    async fn running(&mut self, conn: &mut Conn, run: &FollowedRun, events: &mut LogEvents) -> DbResult<()> {
        let Some((execution, token)) = run.running else { return Ok(()) };
        // It has ended meanwhile and was read to its end; the next poll finds the run in another
        // state.
        if self.position.is_done && self.position.execution >= Some(execution) {
            return Ok(());
        }
        self.begin(execution, run.attempt, events);
        let after = self.last_piece.filter(|(of, _)| *of == token).map_or(0, |(_, seq)| seq);
        let pieces = live_output::pieces(conn, self.tenant, (self.dispatch, token), after).await?;
        self.has_more = pieces.len() >= live_output::PIECES_AT_ONCE;
        for piece in pieces {
            self.last_piece = Some((token, piece.seq));
            let starts_at = u64::try_from(piece.starts_at).unwrap_or(0);
            let piece = Piece { stream: &piece.stream, starts_at, content: &piece.content };
            self.output(execution, piece, events);
        }
        if let Some(progress) = &run.progress
            && self.progress_of != Some(progress.updated_at)
        {
            self.progress_of = Some(progress.updated_at);
            let progress = response::progress(progress.clone());
            events.push((LogEvent::Progress { attempt_id: execution.0, progress }, self.position));
        }
        Ok(())
    }

    /// Does nothing if the reader is at this attempt already.
    fn begin(&mut self, execution: ExecutionId, attempt: i32, events: &mut LogEvents) {
        if self.position.execution != Some(execution) {
            self.position = Position::at(execution);
            events.push((LogEvent::Attempt { attempt_id: execution.0, attempt }, self.position));
        }
    }

    /// Passes a piece of output. Returns the number of its new bytes.
    fn output(&mut self, execution: ExecutionId, piece: Piece<'_>, events: &mut LogEvents) -> usize {
        let Piece { stream, starts_at, content } = piece;
        let Some((dropped_bytes, text)) = self.position.pass(stream, starts_at, content) else { return 0 };
        let event = LogEvent::Output {
            attempt_id: execution.0,
            stream: stream.to_owned(),
            text: text.to_owned(),
            dropped_bytes,
        };
        events.push((event, self.position));
        text.len()
    }
}
