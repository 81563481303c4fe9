//! Retention: deletes old finished rows, one page at a time.
//!
//! Each call works for a few seconds: one page, one short fenced transaction, a pause, the next
//! page. If rows remain, the task requests an early next call. The position stays in memory for the
//! term, so that rows with a longer retention are not read repeatedly. Once an hour the task
//! restarts at the oldest row, because rows kept earlier may have expired. A crash leaves only
//! whole pages deleted.
//!
//! # Design notes
//! - The built-in job `sched.retention` does this on a worker, with the same functions. If it has
//!   removed all expired rows within the last hour, the leader does only the rest: live data of
//!   attempts of dead workers, old notifications, and sessions and keys, so that workers need no
//!   rights on them. Otherwise the leader does everything.
//! - A pause between pages leaves room for ticks and completions on a busy database. The limit is
//!   the time of a call, not the number of pages, so that a slow database gets less work.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::retention::{Cutoffs, Retention};
use sched_model::events::notifications::follow;
use sched_model::retention::retain::{self, DeletedCredentials, Page, Strays};
use sched_model::{Conn, DbError, cluster::housekeeping, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;
use uuid::Uuid;

use super::{Scope, within};

/// A few minutes of delay are harmless, and each call costs an idle database several transactions.
pub const PERIOD: Duration = Duration::from_secs(300);
/// Time limit of a run of this task. Committed pages stay.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this time a call ends between two pages.
const WORK_FOR: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(50);
/// Time until the next call when rows remain.
const SOON: Duration = Duration::from_secs(5);
/// Time between two passes from the oldest row.
const PASS: Duration = Duration::from_secs(3600);
/// If the built-in job has removed everything within this time, the leader leaves the work to it.
const LEFT_TO_JOB: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ages {
    pub retention: Retention,
    /// Retention of idempotency keys of finished runs.
    pub idempotency_keys: Duration,
}

#[derive(Debug)]
pub struct Retain {
    scope: Scope,
    ages: Ages,
    page_rows: i64,
    position: Position,
    pass_started: Option<Instant>,
}

/// Position of the present pass: the last keys already visited.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    dispatches: Uuid,
    skips: i64,
    keys: Uuid,
}

/// Deleted rows of a call.
#[derive(Debug, Clone, Copy, Default)]
struct DeletedCounts {
    dispatches: u64,
    skips: u64,
    keys: u64,
    audit: u64,
    terms: u64,
    workers: u64,
    credentials: DeletedCredentials,
    strays: Strays,
}

impl Activation for Retain {
    fn name(&self) -> &'static str {
        "retain"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Retain {
    /// Starts at the oldest row.
    #[must_use]
    pub fn new(scope: Scope, ages: Ages, page_rows: i64) -> Self {
        Self { scope, ages, page_rows, position: Position::default(), pass_started: None }
    }

    async fn run(&mut self) -> Result<Report, DbError> {
        let started = monotonic();
        if self.pass_started.is_none_or(|pass| started.duration_since(pass) >= PASS) {
            self.position = Position::default();
            self.pass_started = Some(started);
        }
        let mut conn = self.scope.database.conn().await?;
        let (credentials, has_more) = self.leftovers(&mut conn).await?;
        let mut deleted = DeletedCounts { credentials, ..DeletedCounts::default() };
        let result = match housekeeping::was_retained_within(&mut conn, LEFT_TO_JOB).await {
            Ok(false) => self.work(&mut conn, started, &mut deleted).await,
            other => other,
        };
        // The pages of a failed call are committed too.
        deleted.measure();
        let is_done = result? && !has_more;
        let report = if deleted.is_nothing() { Report::idle() } else { Report::worked(deleted.counts()) };
        Ok(if is_done { report } else { report.next_in(SOON) })
    }

    /// Live data of attempts of dead workers, old totals, notifications, sessions and keys. The
    /// built-in job does not do this. Returns also whether more may be left of totals, sessions or
    /// keys.
    async fn leftovers(&self, conn: &mut Conn) -> Result<(DeletedCredentials, bool), DbError> {
        let limit = self.page_rows;
        transact(conn, "prune_live", async |conn: &mut Conn| {
            let (cutoffs, now) = self.cutoffs(conn).await?;
            retain::live(conn, limit).await?;
            let minutes = retain::minutes(conn, now, limit).await?;
            follow::prune(conn, cutoffs.finished, limit).await?;
            let ended = retain::credentials(conn, &cutoffs, limit).await?;
            let pages = [minutes, ended.sessions, ended.api_keys];
            Ok((ended, pages.into_iter().any(|rows| rows >= limit.unsigned_abs())))
        })
        .await
    }

    /// Returns whether nothing remains.
    async fn work(
        &mut self,
        conn: &mut Conn,
        started: Instant,
        deleted: &mut DeletedCounts,
    ) -> Result<bool, DbError> {
        loop {
            let mut is_done = true;
            is_done &= self.dispatches(conn, deleted).await?;
            // A hand-over waits for this task.
            if self.scope.stop.is_cancelled() {
                return Ok(false);
            }
            is_done &= self.skips(conn, deleted).await?;
            is_done &= self.keys(conn, deleted).await?;
            if self.scope.stop.is_cancelled() {
                return Ok(false);
            }
            is_done &= self.others(conn, deleted).await?;
            if is_done || started.elapsed() >= WORK_FOR {
                return Ok(is_done);
            }
            tokio::select! {
                () = self.scope.stop.cancelled() => return Ok(false),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    async fn dispatches(&mut self, conn: &mut Conn, deleted: &mut DeletedCounts) -> Result<bool, DbError> {
        let (after, limit) = (self.position.dispatches, self.page_rows);
        let page: Page<Uuid> = transact(conn, "prune_dispatches", async |conn: &mut Conn| {
            let cutoffs = self.cutoffs(conn).await?.0;
            retain::dispatches(conn, &cutoffs, after, limit).await
        })
        .await?;
        deleted.dispatches += page.deleted;
        self.position.dispatches = page.next.unwrap_or(after);
        Ok(page.next.is_none())
    }

    async fn skips(&mut self, conn: &mut Conn, deleted: &mut DeletedCounts) -> Result<bool, DbError> {
        let (after, limit) = (self.position.skips, self.page_rows);
        let page: Page<i64> = transact(conn, "prune_skips", async |conn: &mut Conn| {
            let cutoffs = self.cutoffs(conn).await?.0;
            retain::skips(conn, &cutoffs, after, limit).await
        })
        .await?;
        deleted.skips += page.deleted;
        self.position.skips = page.next.unwrap_or(after);
        Ok(page.next.is_none())
    }

    async fn keys(&mut self, conn: &mut Conn, deleted: &mut DeletedCounts) -> Result<bool, DbError> {
        let (after, limit) = (self.position.keys, self.page_rows);
        let (page, answers) = transact(conn, "clear_idempotency_keys", async |conn: &mut Conn| {
            let (_, now) = self.cutoffs(conn).await?;
            let before = now - TimeDelta::from_std(self.ages.idempotency_keys).unwrap_or(TimeDelta::MAX);
            let answers = retain::answers(conn, before, limit).await?;
            let page: Page<Uuid> = retain::idempotency_keys(conn, before, after, limit).await?;
            Ok::<_, DbError>((page, answers))
        })
        .await?;
        deleted.keys += page.deleted + answers;
        self.position.keys = page.next.unwrap_or(after);
        Ok(page.next.is_none() && answers < u64::try_from(limit).unwrap_or(0))
    }

    async fn others(&self, conn: &mut Conn, deleted: &mut DeletedCounts) -> Result<bool, DbError> {
        let limit = self.page_rows;
        let (past, strays) = transact(conn, "prune_history", async |conn: &mut Conn| {
            let cutoffs = self.cutoffs(conn).await?.0;
            let past = retain::delete_expired(conn, &cutoffs, limit).await?;
            Ok::<_, DbError>((past, retain::strays(conn, &cutoffs, limit).await?))
        })
        .await?;
        deleted.audit += past.entries;
        deleted.terms += past.terms;
        deleted.workers += past.workers;
        deleted.strays.attempts += strays.attempts;
        deleted.strays.output += strays.output;
        deleted.strays.events += strays.events;
        Ok(!past.may_be_more(limit) && !strays.may_be_more(limit))
    }

    /// Fences the transaction. Also returns the database clock.
    async fn cutoffs(&self, conn: &mut Conn) -> Result<(Cutoffs, DateTime<Utc>), DbError> {
        let now = tick::fence(conn, self.scope.instance, self.scope.term).await?;
        Ok((self.ages.retention.cutoffs(now), now))
    }
}

impl DeletedCounts {
    const fn named(&self) -> [(&'static str, u64); 11] {
        [
            ("dispatches", self.dispatches),
            ("skips", self.skips),
            ("idempotency_keys", self.keys),
            ("audit", self.audit),
            ("terms", self.terms),
            ("workers", self.workers),
            ("sessions", self.credentials.sessions),
            ("api_keys", self.credentials.api_keys),
            ("attempts", self.strays.attempts),
            ("output", self.strays.output),
            ("events", self.strays.events),
        ]
    }

    fn is_nothing(&self) -> bool {
        self.named().iter().all(|(_, count)| *count == 0)
    }

    fn measure(&self) {
        for (kind, count) in self.named() {
            metrics::counter!("sched_rows_pruned_total", "kind" => kind).increment(count);
        }
    }

    fn counts(&self) -> serde_json::Value {
        let counts = self.named().into_iter().filter(|(_, count)| *count > 0);
        counts.map(|(kind, count)| (kind.to_owned(), json!(count))).collect()
    }
}
