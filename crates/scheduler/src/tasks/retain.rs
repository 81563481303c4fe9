//! Retention: what is finished and old goes, a page at a time.
//!
//! Each run works through finished dispatches, skips, idempotency keys, the audit log and stray rows of history for a few
//! seconds: one page, one short fenced transaction, a pause, the next page. If more is left it asks to be run again soon. Where
//! it stands is kept in memory for the term, so that what must stay longer is not read again and again; once an hour it starts over at
//! the oldest, for the sake of what had to stay then and may go now. A run that dies has removed whole pages, and the next leader starts
//! at the oldest.
//!
//! # Design notes
//! - The built-in job `sched.retention` does this on a worker, with the same functions. While it has removed all that was due within the last hour,
//!   the leader leaves it to the job, all but what attempts of dead workers told while they ran; otherwise (no worker serves its queue, the job is paused, or it cannot keep up) the leader does it too.
//! - A pause between pages costs nobody anything and leaves room for ticks and completions on a busy database; the time a run takes is
//!   bounded, and not the number of pages, so that a slow database gets less to do.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use sched_model::domain::retention::{Cutoffs, Retention};
use sched_model::events::notifications::follow;
use sched_model::retention::retain::{self, Page, Strays};
use sched_model::{Conn, DbError, cluster::housekeeping, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;
use uuid::Uuid;

use super::{Scope, within};

/// Time between two runs: nothing hangs on a few minutes, and each costs an idle database half a dozen transactions.
pub const PERIOD: Duration = Duration::from_secs(300);
/// A run may take no longer; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this a run ends between two pages.
const WORK_FOR: Duration = Duration::from_secs(10);
/// Time between two pages.
const PAUSE: Duration = Duration::from_millis(50);
/// Time until the next run when there was too much for one.
const SOON: Duration = Duration::from_secs(5);
/// Time between two passes from the oldest on.
const PASS: Duration = Duration::from_secs(3600);
/// A built-in job that has removed everything this short a time ago is doing it.
const LEFT_TO_JOB: Duration = Duration::from_secs(3600);

/// What is kept for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ages {
    /// Finished things.
    pub retention: Retention,
    /// Idempotency keys of finished dispatches.
    pub idempotency_keys: Duration,
}

/// Removes what is finished and old.
#[derive(Debug)]
pub struct Retain {
    scope: Scope,
    ages: Ages,
    page_rows: i64,
    position: Position,
    pass_started: Option<Instant>,
}

/// Where the present pass stands: after these.
#[derive(Debug, Clone, Copy, Default)]
struct Position {
    dispatches: Uuid,
    skips: i64,
    keys: Uuid,
}

/// What a run removed.
#[derive(Debug, Clone, Copy, Default)]
struct Gone {
    dispatches: u64,
    skips: u64,
    keys: u64,
    audit: u64,
    terms: u64,
    workers: u64,
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
    /// A pass that starts at the oldest, in pages of `page_rows` rows.
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
        self.leftovers(&mut conn).await?;
        if housekeeping::was_retained_within(&mut conn, LEFT_TO_JOB).await? {
            return Ok(Report::idle());
        }
        let mut gone = Gone::default();
        let result = self.work(&mut conn, started, &mut gone).await;
        // Also of a run that failed half-way: its pages are committed.
        gone.measure();
        let is_done = result?;
        let report = if gone.is_nothing() { Report::idle() } else { Report::worked(gone.counts()) };
        Ok(if is_done { report } else { report.next_in(SOON) })
    }

    /// Removes what dead workers have left of what their attempts told, and old notifications; nobody would miss a count of it. The built-in
    /// job does not.
    async fn leftovers(&self, conn: &mut Conn) -> Result<(), DbError> {
        let limit = self.page_rows;
        transact(conn, "prune_live", async |conn: &mut Conn| {
            let cutoffs = self.cutoffs(conn).await?.0;
            retain::live(conn, limit).await?;
            follow::prune(conn, cutoffs.finished, limit).await.map(drop)
        })
        .await
    }

    /// Goes on until all is done or the time is over; returns which.
    async fn work(&mut self, conn: &mut Conn, started: Instant, gone: &mut Gone) -> Result<bool, DbError> {
        loop {
            let mut is_done = true;
            is_done &= self.dispatches(conn, gone).await?;
            // A leader that hands over is waited for: it stops between two pages.
            if self.scope.stop.is_cancelled() {
                return Ok(false);
            }
            is_done &= self.skips(conn, gone).await?;
            is_done &= self.keys(conn, gone).await?;
            if self.scope.stop.is_cancelled() {
                return Ok(false);
            }
            is_done &= self.others(conn, gone).await?;
            if is_done || started.elapsed() >= WORK_FOR {
                return Ok(is_done);
            }
            tokio::select! {
                () = self.scope.stop.cancelled() => return Ok(false),
                () = tokio::time::sleep(PAUSE) => {}
            }
        }
    }

    async fn dispatches(&mut self, conn: &mut Conn, gone: &mut Gone) -> Result<bool, DbError> {
        let (after, limit) = (self.position.dispatches, self.page_rows);
        let page: Page<Uuid> = transact(conn, "prune_dispatches", async |conn: &mut Conn| {
            let cutoffs = self.cutoffs(conn).await?.0;
            retain::dispatches(conn, &cutoffs, after, limit).await
        })
        .await?;
        gone.dispatches += page.gone;
        self.position.dispatches = page.next.unwrap_or(after);
        Ok(page.next.is_none())
    }

    async fn skips(&mut self, conn: &mut Conn, gone: &mut Gone) -> Result<bool, DbError> {
        let (after, limit) = (self.position.skips, self.page_rows);
        let page: Page<i64> = transact(conn, "prune_skips", async |conn: &mut Conn| {
            let cutoffs = self.cutoffs(conn).await?.0;
            retain::skips(conn, &cutoffs, after, limit).await
        })
        .await?;
        gone.skips += page.gone;
        self.position.skips = page.next.unwrap_or(after);
        Ok(page.next.is_none())
    }

    async fn keys(&mut self, conn: &mut Conn, gone: &mut Gone) -> Result<bool, DbError> {
        let (after, limit) = (self.position.keys, self.page_rows);
        let (page, answers) = transact(conn, "clear_idempotency_keys", async |conn: &mut Conn| {
            let (_, now) = self.cutoffs(conn).await?;
            let before = now - TimeDelta::from_std(self.ages.idempotency_keys).unwrap_or(TimeDelta::MAX);
            let answers = retain::answers(conn, before, limit).await?;
            let page: Page<Uuid> = retain::idempotency_keys(conn, before, after, limit).await?;
            Ok::<_, DbError>((page, answers))
        })
        .await?;
        gone.keys += page.gone + answers;
        self.position.keys = page.next.unwrap_or(after);
        Ok(page.next.is_none() && answers < u64::try_from(limit).unwrap_or(0))
    }

    async fn others(&self, conn: &mut Conn, gone: &mut Gone) -> Result<bool, DbError> {
        let limit = self.page_rows;
        let (past, strays) = transact(conn, "prune_history", async |conn: &mut Conn| {
            let cutoffs = self.cutoffs(conn).await?.0;
            let past = retain::past(conn, &cutoffs, limit).await?;
            Ok::<_, DbError>((past, retain::strays(conn, &cutoffs, limit).await?))
        })
        .await?;
        gone.audit += past.entries;
        gone.terms += past.terms;
        gone.workers += past.workers;
        gone.strays.attempts += strays.attempts;
        gone.strays.output += strays.output;
        gone.strays.events += strays.events;
        Ok(!past.may_be_more(limit) && !strays.may_be_more(limit))
    }

    /// Fences the transaction; what may go in it, and the database's clock.
    async fn cutoffs(&self, conn: &mut Conn) -> Result<(Cutoffs, DateTime<Utc>), DbError> {
        let now = tick::fence(conn, self.scope.instance, self.scope.term).await?;
        Ok((self.ages.retention.cutoffs(now), now))
    }
}

impl Gone {
    /// The counts under the names of metrics and reports.
    const fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("dispatches", self.dispatches),
            ("skips", self.skips),
            ("idempotency_keys", self.keys),
            ("audit", self.audit),
            ("terms", self.terms),
            ("workers", self.workers),
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
