//! Notifications: what rules want told gets a message, each message its dispatch, and each dispatch its end in the record of the message.
//!
//! Reads on in the stream of events after a position that is stored ([`sched_model::events::notifications`]), in steps that are each a fenced
//! transaction of a constant number of round trips. If the process dies, what is not committed is done by the next leader. No event
//! wakes this task, but its period, a new rule and a message that was asked for, so that neither the tick nor the end of an attempt pays anything for it. Where there is neither a rule nor a
//! message under way, a look is one statement, and there are few of them.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use sched_model::events::notifications::follow::{self, Limits, Stepped, Tidied};
use sched_model::events::stream::{self, Running, WRITES_WITHIN};
use sched_model::{Conn, DbError, dispatching::tick, transact};
use sched_runtime::driver::{Activation, Report};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::tasks::BoxError;
use serde_json::json;

use super::{Scope, tell_waiting, within};

/// Time between two looks where nobody wants anything told: an idle leader is to cost next to nothing.
pub const PERIOD: Duration = Duration::from_secs(20);
/// Time between two looks where somebody does.
const NEXT: Duration = Duration::from_secs(2);
/// A run may take no longer; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// After this a run ends between two steps and begins anew at once, so that its success is seen while it works off a burst.
const RUN_FOR: Duration = Duration::from_secs(3);
/// What one step takes. Little room: the messages of one channel whose other side hangs must not take all slots of the workers.
const LIMITS: Limits = Limits { events: 5_000, dispatches: 500, room: 8 };
/// How long the stream may stand before it is asked who holds it up.
const ASK_AFTER: Duration = Duration::from_secs(5);
/// How long before that is told.
const TELL_AFTER: Duration = Duration::from_secs(60);
/// Time between two looks for messages that nothing else would end.
const TIDY_EVERY: Duration = Duration::from_secs(60);
/// Most of them that are ended at once.
const MOST_TIDIED: i64 = 1_000;
/// Beyond [`WRITES_WITHIN`], so that clocks which do not run alike do not matter.
const MARGIN: Duration = Duration::from_secs(10);

/// Makes messages and has them sent.
#[derive(Debug)]
pub struct Notify {
    scope: Scope,
    limits: Limits,
    /// How many events a step reads now: fewer after one that failed, so that what it stumbles over holds up as little else as can be.
    events: i64,
    held: Held,
    tidied: Option<Instant>,
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
    /// For a term.
    #[must_use]
    pub fn new(scope: Scope) -> Self {
        Self::with_limits(scope, LIMITS)
    }

    /// The same with other limits, for tests.
    #[must_use]
    pub fn with_limits(scope: Scope, limits: Limits) -> Self {
        Self { scope, limits, events: limits.events, held: Held::default(), tidied: None }
    }

    async fn run(&mut self) -> Result<Report, DbError> {
        let mut conn = self.scope.database.conn().await?;
        let started = monotonic();
        let (mut sum, mut is_wanted) = (Stepped::default(), false);
        loop {
            let work = follow::look(&mut conn).await?;
            let is_any = work.has_rules || work.has_waiting || work.has_sending;
            is_wanted |= is_any;
            if !(is_any || work.is_stale) {
                break;
            }
            let limits = Limits { events: self.events, ..self.limits };
            // Until it is known how it ends: it may be cut off.
            self.events = (limits.events / 2).max(1);
            let (scope, ignored) = (&self.scope, &self.held.ignored);
            let done = transact(&mut conn, "notify", async |conn: &mut Conn| {
                tick::fence(conn, scope.instance, scope.term).await?;
                follow::step(conn, work, ignored, limits).await
            })
            .await;
            match &done {
                Ok(_) => self.events = (limits.events * 2).min(self.limits.events),
                Err(error) if error.is_outage() => self.events = limits.events,
                Err(_) => {}
            }
            let done = done?;
            measure(&done);
            tell_waiting(&mut conn, &done.queues).await;
            if work.has_waiting || work.has_sending {
                self.tidy(&mut conn).await?;
            }
            self.held.look(&mut conn, &done).await?;
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

    async fn tidy(&mut self, conn: &mut Conn) -> Result<(), DbError> {
        let now = monotonic();
        if self.tidied.is_some_and(|last| now.saturating_duration_since(last) < TIDY_EVERY) {
            return Ok(());
        }
        let scope = &self.scope;
        self.tidied = Some(now);
        let tidied = transact(conn, "notify_tidy", async |conn: &mut Conn| {
            tick::fence(conn, scope.instance, scope.term).await?;
            follow::tidy(conn, MOST_TIDIED).await
        })
        .await;
        let Tidied { expired, untold } = match tidied {
            Ok(tidied) => tidied,
            Err(error @ DbError::TermOver) => return Err(error),
            // What is to be told goes before.
            Err(error) => {
                tracing::warn!(error = error.with_causes(), "Old notifications could not be ended.");
                return Ok(());
            }
        };
        if expired >= MOST_TIDIED || untold >= MOST_TIDIED {
            self.tidied = None;
        }
        metrics::counter!("sched_notifications_expired_total").increment(u64::try_from(expired).unwrap_or(0));
        if expired > 0 {
            tracing::warn!(messages = expired, "Notifications waited for too long and are given up.");
        }
        if untold > 0 {
            tracing::info!(messages = untold, "The ends of notifications were found without the stream.");
        }
        Ok(())
    }
}

fn add(sum: &mut Stepped, done: Stepped) {
    sum.events += done.events;
    sum.deliveries += done.deliveries;
    sum.held_back += done.held_back;
    sum.dispatched += done.dispatched;
}

fn report(sum: &Stepped) -> Report {
    if sum.deliveries == 0 && sum.held_back == 0 && sum.dispatched == 0 {
        return Report::idle();
    }
    Report::worked(json!({
        "events": sum.events, "deliveries": sum.deliveries, "held_back": sum.held_back, "dispatched": sum.dispatched,
    }))
}

/// Shows the counters before anything is told.
pub(super) fn show_counters() {
    metrics::counter!("sched_notifications_total").increment(0);
    metrics::counter!("sched_notifications_held_back_total").increment(0);
    metrics::counter!("sched_notifications_expired_total").increment(0);
}

fn measure(done: &Stepped) {
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
            "The database is another server than before; what came with it and was not told yet is not told."
        );
    }
}

/// Whether the stream goes on.
#[derive(Debug, Default)]
struct Held {
    /// The transaction that is waited for, and since when.
    by: Option<(i64, Instant)>,
    is_told: bool,
    /// Since when transactions have been seen to run.
    seen: HashMap<i64, Instant>,
    /// Transactions that are not waited for.
    ignored: Vec<i64>,
}

impl Held {
    /// Finds out, of a transaction that is waited for and waited for, whether it has to be. A step is waited for by itself, and is another one
    /// each time.
    async fn look(&mut self, conn: &mut Conn, done: &Stepped) -> Result<(), DbError> {
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

    /// Those that need not be waited for, because they will never write events that are not there yet; as the streams of the API decide it.
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
