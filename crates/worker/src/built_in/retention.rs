//! `sched.retention`: removes old finished rows, page by page.
//!
//! Each page is a short transaction that does not wait for locks. A run ends when no old row is
//! left, its time is up or it is cancelled. Only a run that leaves no old row stores the mark that
//! relieves the leader of this work. Without that mark, the leader removes the rows itself.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::cluster::housekeeping::{self, Housekeeping};
use sched_model::domain::retention::Cutoffs;
use sched_model::retention::retain;
use sched_model::{Conn, DbError, connection::database_clock, transact};
use sched_runtime::monotonic_clock::monotonic;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{System, housekeeping_settings};
use crate::handlers::native::{Ctx, HandlerError};

/// Leaves capacity for other work on a busy database.
const PAUSE: Duration = Duration::from_millis(50);

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Args {
    page_rows: u32,
    /// A run ends between two pages after this.
    work_seconds: u32,
}

impl Default for Args {
    fn default() -> Self {
        Self { page_rows: 1000, work_seconds: 300 }
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(super) struct RemovedRows {
    dispatches: u64,
    skips: u64,
    idempotency_keys: u64,
    audit: u64,
    terms: u64,
    workers: u64,
    attempts: u64,
    output: u64,
    events: u64,
    is_complete: bool,
}

/// The state of a run between two rounds of pages.
struct Pruning {
    settings: Housekeeping,
    limit: i64,
    position: Position,
    deleted: RemovedRows,
}

/// Keys after which a run continues, `None` at the end.
struct Position {
    dispatches: Option<Uuid>,
    skips: Option<i64>,
    keys: Option<Uuid>,
    history: bool,
}

impl Position {
    fn is_at_end(&self) -> bool {
        self.dispatches.is_none() && self.skips.is_none() && self.keys.is_none() && !self.history
    }
}

pub(super) async fn run(system: &System, ctx: &Ctx, args: Args) -> Result<RemovedRows, HandlerError> {
    if args.page_rows == 0 || args.page_rows > 100_000 {
        return Err(HandlerError::invalid_args("page_rows must be 1 to 100000"));
    }
    let mut conn = system.conn().await?;
    let settings = housekeeping_settings(&mut conn).await?;
    let started = monotonic();
    let position =
        Position { dispatches: Some(Uuid::nil()), skips: Some(0), keys: Some(Uuid::nil()), history: true };
    let limit = i64::from(args.page_rows);
    let mut pruning = Pruning { settings, limit, position, deleted: RemovedRows::default() };
    let result = loop {
        if let Err(error) = pruning.round(&mut conn).await {
            break Err(error);
        }
        if pruning.position.is_at_end() {
            break Ok(());
        }
        ctx.progress(None, format!("{} dispatches removed", pruning.deleted.dispatches));
        let is_over = started.elapsed() >= Duration::from_secs(args.work_seconds.into());
        if is_over || ctx.is_cancelled() {
            break Ok(());
        }
        tokio::select! {
            () = ctx.cancelled() => {}
            () = tokio::time::sleep(PAUSE) => {}
        }
    };
    let Pruning { position, mut deleted, .. } = pruning;
    // Also for a run that failed midway: its pages are committed.
    deleted.measure();
    result?;
    if position.is_at_end() {
        housekeeping::note_retained(&mut conn).await?;
        deleted.is_complete = true;
    }
    ctx.log(format!(
        "removed {} dispatches, {} skips, {} events",
        deleted.dispatches, deleted.skips, deleted.events
    ));
    Ok(deleted)
}

impl Pruning {
    async fn round(&mut self, conn: &mut Conn) -> Result<(), DbError> {
        let Self { settings, limit, position, deleted } = self;
        let limit = *limit;
        let now = database_clock::now(conn).await?;
        let cutoffs = settings.retention.cutoffs(now);
        if let Some(after) = position.dispatches {
            let page = transact(conn, "prune_dispatches", async |conn: &mut Conn| {
                retain::dispatches(conn, &cutoffs, after, limit).await
            });
            let page = page.await?;
            (position.dispatches, deleted.dispatches) = (page.next, deleted.dispatches + page.deleted);
        }
        if let Some(after) = position.skips {
            let page = transact(conn, "prune_skips", async |conn: &mut Conn| {
                retain::skips(conn, &cutoffs, after, limit).await
            });
            let page = page.await?;
            (position.skips, deleted.skips) = (page.next, deleted.skips + page.deleted);
        }
        if let Some(after) = position.keys {
            let before = instant_before(now, settings.idempotency_keys);
            let cleared = transact(conn, "clear_idempotency_keys", async |conn: &mut Conn| {
                let answers = retain::answers(conn, before, limit).await?;
                let page = retain::idempotency_keys(conn, before, after, limit).await?;
                Ok::<_, DbError>((page, answers))
            });
            let (page, answers) = cleared.await?;
            // The last page of keys is scanned again, which is cheap.
            let has_more = answers >= u64::try_from(limit).unwrap_or(0);
            position.keys = page.next.or(has_more.then_some(after));
            deleted.idempotency_keys += page.deleted + answers;
        }
        if position.history {
            position.history = prune_history(conn, &cutoffs, limit, deleted).await?;
        }
        Ok(())
    }
}

/// Audit log, terms, dead workers and orphaned rows. Returns whether there may be more.
async fn prune_history(
    conn: &mut Conn,
    cutoffs: &Cutoffs,
    limit: i64,
    deleted: &mut RemovedRows,
) -> Result<bool, DbError> {
    let (past, strays) = transact(conn, "prune_history", async |conn: &mut Conn| {
        let past = retain::delete_expired(conn, cutoffs, limit).await?;
        Ok::<_, DbError>((past, retain::strays(conn, cutoffs, limit).await?))
    })
    .await?;
    deleted.audit += past.entries;
    deleted.terms += past.terms;
    deleted.workers += past.workers;
    deleted.attempts += strays.attempts;
    deleted.output += strays.output;
    deleted.events += strays.events;
    Ok(past.may_be_more(limit) || strays.may_be_more(limit))
}

fn instant_before(now: DateTime<Utc>, time: Duration) -> DateTime<Utc> {
    TimeDelta::from_std(time)
        .ok()
        .and_then(|time| now.checked_sub_signed(time))
        .unwrap_or(DateTime::<Utc>::MIN_UTC)
}

impl RemovedRows {
    fn measure(&self) {
        for (kind, count) in [
            ("dispatches", self.dispatches),
            ("skips", self.skips),
            ("idempotency_keys", self.idempotency_keys),
            ("audit", self.audit),
            ("terms", self.terms),
            ("workers", self.workers),
            ("attempts", self.attempts),
            ("output", self.output),
            ("events", self.events),
        ] {
            metrics::counter!("sched_rows_pruned_total", "kind" => kind).increment(count);
        }
    }
}
