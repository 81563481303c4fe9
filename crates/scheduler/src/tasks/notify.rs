//! Notifications: creates a delivery for each event that a rule matches, dispatches it, and records
//! the end of its run in the delivery.
//!
//! This task reads the event stream from a stored position
//! ([`sched_model::events::notifications`]). Each step is a fenced transaction with a constant
//! number of round trips. If the process dies, the next leader does the uncommitted work. Only the
//! period, a new rule and a requested delivery wake this task; events do not. So neither the tick
//! nor the end of an attempt pays for it. Without rules and open deliveries, a check is one
//! statement, and checks are rare.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sched_model::events::notifications::follow::{self, CleanupResult, Limits, StepResult, StepSettings};
use sched_model::events::stream::{self, Running, WRITES_WITHIN};
use sched_model::{Conn, DbError, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, notify_workers, within};

/// Time between two checks without rules or open deliveries. An idle leader must cost almost
/// nothing.
pub const PERIOD: Duration = Duration::from_secs(20);
/// Time between two checks with rules or open deliveries.
const NEXT: Duration = Duration::from_secs(2);
/// Time limit of a run of this task. Committed steps stay.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this time the task starts again at once, so that a long burst still reports success.
const RUN_FOR: Duration = Duration::from_secs(3);
/// `room` is small: the deliveries of one channel with a hanging endpoint must not use all slots of
/// the workers.
const LIMITS: Limits = Limits { events: 5_000, dispatches: 500, room: 8 };
/// How long the stream is blocked before a query of the blocking transactions.
const ASK_AFTER: Duration = Duration::from_secs(5);
/// How long the stream is blocked before a log entry.
const TELL_AFTER: Duration = Duration::from_secs(60);
/// Time between two checks for deliveries that nothing else would end.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of such deliveries ended at once.
const MOST_ENDED: i64 = 1_000;
/// Added to [`WRITES_WITHIN`] for clocks that run at different speeds.
const MARGIN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct Notify {
    scope: Scope,
    limits: Limits,
    /// Public URL of the API.
    public_url: Option<String>,
    /// Number of events per step. A failed step reduces it, so that the event that causes the
    /// failure delays few other events.
    events: i64,
    held: Held,
    last_cleanup: Option<Instant>,
}

impl Activation for Notify {
    fn name(&self) -> &'static str {
        "notify"
    }

    async fn run_once(&mut self) -> Result<Report, BoxError> {
        within(RUN_LIMIT, self.run()).await
    }
}

impl Notify {
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self::with_limits(scope, LIMITS)
    }

    /// Creates the task with other limits, for tests.
    #[must_use]
    pub fn with_limits(scope: Scope, limits: Limits) -> Self {
        let (held, events) = (Held::default(), limits.events);
        Self { scope, limits, public_url: None, events, held, last_cleanup: None }
    }

    /// Messages contain the URLs of runs below `url`.
    #[must_use]
    pub fn with_public_url(self, url: Option<String>) -> Self {
        Self { public_url: url, ..self }
    }

    async fn run(&mut self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let started = monotonic();
        let (mut sum, mut is_wanted) = (StepResult::default(), false);
        loop {
            let work = follow::pending_work(&mut conn).await?;
            let is_any = work.has_rules || work.has_waiting || work.has_sending;
            is_wanted |= is_any;
            if !(is_any || work.is_stale) {
                break;
            }
            let limits = Limits { events: self.events, ..self.limits };
            // Halved before the step, which the time limit may cut off.
            self.events = (limits.events / 2).max(1);
            let scope = &self.scope;
            let settings =
                StepSettings { limits, ignored: &self.held.ignored, public_url: self.public_url.as_deref() };
            let done = transact(&mut conn, "notify", async |conn: &mut Conn| {
                tick::fence(conn, scope.instance, scope.term).await?;
                follow::step(conn, work, settings).await
            })
            .await;
            match &done {
                Ok(_) => self.events = (limits.events * 2).min(self.limits.events),
                Err(error) if error.is_outage() => self.events = limits.events,
                Err(_) => {}
            }
            let done = done?;
            measure(&done);
            notify_workers(&mut conn, &done.queues).await;
            if work.has_waiting || work.has_sending {
                self.end_stale(&mut conn).await?;
            }
            self.held.update(&mut conn, &done).await?;
            let is_full = done.is_full;
            add(&mut sum, done);
            if !is_full {
                break;
            }
            if started.elapsed() > RUN_FOR || self.scope.stop.is_cancelled() {
                return Ok(report(&sum).next_in(Duration::ZERO));
            }
        }
        let report = report(&sum);
        Ok(if is_wanted { report.next_in(NEXT) } else { report })
    }

    async fn end_stale(&mut self, conn: &mut Conn) -> Result<(), DbError> {
        let now = monotonic();
        if self.last_cleanup.is_some_and(|last| now.saturating_duration_since(last) < TIDY_EVERY) {
            return Ok(());
        }
        let scope = &self.scope;
        self.last_cleanup = Some(now);
        let cleanup = transact(conn, "notify_tidy", async |conn: &mut Conn| {
            tick::fence(conn, scope.instance, scope.term).await?;
            follow::end_stale(conn, MOST_ENDED).await
        })
        .await;
        let CleanupResult { expired, unreported } = match cleanup {
            Ok(cleanup) => cleanup,
            Err(error @ DbError::TermOver) => return Err(error),
            // New deliveries have priority, so this failure does not fail the run.
            Err(error) => {
                tracing::warn!(error = error.with_causes(), "Old notifications could not be ended.");
                return Ok(());
            }
        };
        if expired >= MOST_ENDED || unreported >= MOST_ENDED {
            self.last_cleanup = None;
        }
        metrics::counter!("sched_notifications_expired_total").increment(u64::try_from(expired).unwrap_or(0));
        if expired > 0 {
            tracing::warn!(messages = expired, "Notifications waited for too long and are given up.");
        }
        if unreported > 0 {
            tracing::info!(messages = unreported, "The ends of notifications were found without the stream.");
        }
        Ok(())
    }
}

fn add(sum: &mut StepResult, done: StepResult) {
    sum.events += done.events;
    sum.deliveries += done.deliveries;
    sum.held_back += done.held_back;
    sum.dispatched += done.dispatched;
}

fn report(sum: &StepResult) -> Report {
    if sum.deliveries == 0 && sum.held_back == 0 && sum.dispatched == 0 {
        return Report::idle();
    }
    Report::worked(json!({
        "events": sum.events, "deliveries": sum.deliveries, "held_back": sum.held_back, "dispatched": sum.dispatched,
    }))
}

pub(super) fn show_counters() {
    metrics::counter!("sched_notifications_total").increment(0);
    metrics::counter!("sched_notifications_held_back_total").increment(0);
    metrics::counter!("sched_notifications_expired_total").increment(0);
}

fn measure(done: &StepResult) {
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    metrics::counter!("sched_notifications_total").increment(count(done.deliveries));
    metrics::counter!("sched_notifications_held_back_total").increment(count(done.held_back));
    if done.stuck > 0 {
        tracing::error!(
            messages = done.stuck,
            "Notifications cannot be sent: the built-in job sched.notify is missing; `schedctl migrate up` makes it."
        );
    }
    if done.is_anew {
        tracing::warn!(
            "The database is another server than before; its events that are not yet sent are not sent."
        );
    }
}

#[derive(Debug, Default)]
struct Held {
    /// The blocking transaction, and since when.
    by: Option<(i64, Instant)>,
    is_told: bool,
    /// When each running transaction was first seen.
    seen: HashMap<i64, Instant>,
    /// Transactions that the stream does not wait for.
    ignored: Vec<i64>,
}

impl Held {
    /// Checks whether a long-blocking transaction can be ignored. A step also waits for its own
    /// transaction, but that is a different one each time.
    async fn update(&mut self, conn: &mut Conn, done: &StepResult) -> Result<(), DbError> {
        let now = monotonic();
        let since = match (self.by, done.waits_for) {
            (Some((by, since)), Some(waits_for)) if by == waits_for => since,
            (_, waits_for) => {
                self.by = waits_for.map(|by| (by, now));
                self.is_told = false;
                return Ok(());
            }
        };
        let held = now.saturating_duration_since(since);
        if held < ASK_AFTER {
            return Ok(());
        }
        let running = stream::running(conn).await?;
        self.ignored = self.harmless(&running, now);
        if held >= TELL_AFTER && !self.is_told {
            self.is_told = true;
            tracing::warn!(
                transaction = done.waits_for,
                held_seconds = held.as_secs(),
                "A transaction that has run for long holds up notifications."
            );
        }
        Ok(())
    }

    /// Transactions that will never write new events. The event streams of the API use the same
    /// rule.
    fn harmless(&mut self, running: &[Running], now: Instant) -> Vec<i64> {
        self.seen.retain(|transaction, _| running.iter().any(|one| one.transaction == *transaction));
        let mut harmless = Vec::new();
        for one in running {
            let since = *self.seen.entry(one.transaction).or_insert(now);
            let is_old = now.saturating_duration_since(since) > WRITES_WITHIN + MARGIN;
            if one.is_found && (one.is_elsewhere || (is_old && !one.has_events)) {
                harmless.push(one.transaction);
            }
        }
        harmless
    }
}
