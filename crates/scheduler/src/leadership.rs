//! Leader election: registration, heartbeats, take-over, and the trust window.
//!
//! One task decides whether this process leads and publishes the [`Role`]. It has its own
//! connection, so no amount of work delays a renewal. Leadership avoids duplicate work; it is not
//! what makes dispatching safe: the tick proves its term inside its own transaction. The trust
//! window stops a leader whose renewals fail before a standby may take over. It ends one lease,
//! less a margin, after the monotonic instant *before* the last successful renewal was sent. Any
//! doubt means standby: an error, a time-out, a missing row.
//!
//! - Crash at any line: heartbeats stop, the lease expires, a standby takes over with a new term.
//! - Hang in a call: every call has a time limit, and the trust window ends meanwhile.
//! - Leader without progress: it reads that from the board of its tasks and resigns.
//! - Step-down request: the answer to the heartbeat contains it, and the leader resigns. A
//!   notification triggers that heartbeat early.
//! - Jump of the database's clock against the own monotonic clock (see [`ClockWatch`]): that
//!   heartbeat neither renews nor justifies a candidacy. A leader resigns. The next heartbeat
//!   counts again.
//! - Resignation: the work stops, then the term ends, then the leader notifies the standbys, and
//!   one leads at once. A scheduler that gave way is no candidate for two leases.
//!
//! A term that this process holds in the database but does not trust (a failed resignation, a late
//! renewal) is given up first, because the heartbeats would keep it alive.

use std::time::{Duration, Instant};

use sched_model::cluster::leadership::{self, NewInstance, TakeOver};
use sched_model::domain::clock_jump::ClockWatch;
use sched_model::domain::ids::{InstanceId, Term};
use sched_model::domain::lease::{Lease, Trust};
use sched_model::{Conn, Database, DbError};
use sched_runtime::monotonic_clock::monotonic;
use sched_runtime::service_manager::Turns;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::leader_scope::{Running, since_last_dispatch};

mod heartbeat;
mod resigning;
mod vitals;

pub use crate::role::Role;
pub use vitals::{Loss, Vitals};

/// Longest time that a resigning leader waits for the end of its tasks, and a margin.
const SLACK: Duration = Duration::from_secs(30);
/// Lower bound of the time limit of a heartbeat or a take-over.
const SHORTEST_LIMIT: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
pub struct Timing {
    pub heartbeat: Duration,
    pub lease: Lease,
    /// A leader whose tasks have not succeeded for this long resigns.
    pub stalled_after: Duration,
}

pub struct Leadership {
    database: Database,
    instance: NewInstance,
    timing: Timing,
    work: watch::Receiver<Vec<Running>>,
    role: watch::Sender<Role>,
    vitals: watch::Sender<Vitals>,
    clock: ClockWatch,
    conn: Option<Conn>,
    held: Option<Held>,
    is_registered: bool,
    no_candidate_before: Option<Instant>,
    turns: Option<Turns>,
}

impl std::fmt::Debug for Leadership {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Leadership")
            .field("instance", &self.instance)
            .field("held", &self.held)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Held {
    term: Term,
    trust: Trust,
    since: Instant,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Waits for the next heartbeat.
    Rest,
    /// Gives up the present term.
    Resign(Loss),
    /// Gives up a term that the database assigns to this process, though the process does not lead.
    GiveUp(Term),
    /// Gives up such a term, then takes over if no scheduler leads.
    GiveUpAndStand(Term),
    /// Take over if no scheduler leads.
    Stand,
}

impl Leadership {
    /// Not registered yet. `work` is the board of the leader's tasks.
    #[must_use]
    pub fn new(
        database: Database,
        instance: NewInstance,
        timing: Timing,
        work: watch::Receiver<Vec<Running>>,
    ) -> Self {
        vitals::describe();
        Self {
            database,
            instance,
            timing,
            work,
            role: watch::channel(Role::Standby).0,
            vitals: watch::channel(Vitals::default()).0,
            clock: ClockWatch::default(),
            conn: None,
            held: None,
            is_registered: false,
            no_candidate_before: None,
            turns: None,
        }
    }

    /// Marks each turn of [`Self::run`], for the watchdog.
    #[must_use]
    pub fn supervised(mut self, turns: Turns) -> Self {
        self.turns = Some(turns);
        self
    }

    /// A turn that takes longer is stuck: every call within it has a time limit.
    #[must_use]
    pub fn longest_turn(&self) -> Duration {
        self.timing.heartbeat + self.timing.lease.duration() * 2 + SLACK
    }

    #[must_use]
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// As of the latest heartbeat.
    #[must_use]
    pub fn vitals(&self) -> watch::Receiver<Vitals> {
        self.vitals.subscribe()
    }

    #[must_use]
    pub fn id(&self) -> InstanceId {
        self.instance.id
    }

    /// Sends heartbeats until `stop`; then [`Self::leave`] follows. `wake` ends a pause early: a
    /// leader resigned, or a step-down was requested.
    pub async fn run(mut self, wake: ElectionWake, stop: CancellationToken) -> Self {
        loop {
            if let Some(turns) = &self.turns {
                turns.turned();
            }
            let has_led = self.held.is_some();
            self.beat().await;
            if self.held.is_some() && !has_led {
                // The answer to the first renewal has the start of the term.
                self.beat().await;
            }
            self.resign_if_stalled().await;
            let next_beat = tokio::time::sleep(self.timing.heartbeat);
            tokio::pin!(next_beat);
            loop {
                let trust_ends = self.held.as_ref().map(|held| held.trust.until().into());
                tokio::select! {
                    () = stop.cancelled() => return self,
                    () = &mut next_beat => break,
                    () = wake.notified() => break,
                    () = sleep_until(trust_ends) => self.stand_down(Loss::NotRenewed),
                }
            }
        }
    }

    /// Every doubt ends in standby.
    pub async fn beat(&mut self) {
        let sent_at = monotonic();
        let mut limit = self.limit();
        if let Some(held) = &self.held {
            // A renewal that hangs must not outlast the trust that it would renew.
            limit = limit.min(held.trust.until().saturating_duration_since(sent_at));
        }
        let next = match tokio::time::timeout(limit, self.try_beat(sent_at)).await {
            Ok(Ok(next)) => next,
            Ok(Err(error)) => self.failed(BEAT_FAILED, &error.with_causes()),
            Err(_elapsed) => self.failed(BEAT_FAILED, NO_ANSWER),
        };
        if self.held.as_ref().is_some_and(|held| !held.trust.holds(monotonic())) {
            self.stand_down(Loss::NotRenewed);
        }
        match next {
            Next::Rest => {}
            Next::Resign(loss) => self.step_aside(loss).await,
            Next::GiveUp(_) | Next::GiveUpAndStand(_) | Next::Stand => self.elect(next).await,
        }
        self.publish(|_| {});
    }

    /// Time limit of a heartbeat or a take-over, connecting included.
    fn limit(&self) -> Duration {
        (self.timing.lease.margin() * 2).max(SHORTEST_LIMIT)
    }

    fn failed(&mut self, what: &'static str, cause: &str) -> Next {
        metrics::counter!("sched_leader_heartbeat_failures_total").increment(1);
        tracing::warn!(error = cause, "{what}");
        // The connection may be in the middle of an answer.
        self.conn = None;
        Next::Rest
    }

    async fn conn(&mut self) -> Result<Conn, DbError> {
        match self.conn.take() {
            Some(conn) => Ok(conn),
            None => self.database.dedicated().await,
        }
    }

    async fn try_beat(&mut self, sent_at: Instant) -> Result<Next, DbError> {
        let mut conn = self.conn().await?;
        if !self.is_registered {
            leadership::register(&mut conn, &self.instance).await?;
            self.is_registered = true;
        }
        let next = self.heartbeat(&mut conn, sent_at).await?;
        self.conn = Some(conn);
        Ok(next)
    }

    /// Gives up a term held by mistake, or takes over if no scheduler leads.
    async fn elect(&mut self, next: Next) {
        let elected = tokio::time::timeout(self.limit(), self.try_elect(next)).await;
        let cause = match elected {
            Ok(Ok(())) => return,
            Ok(Err(error)) => error.with_causes(),
            Err(_elapsed) => NO_ANSWER.to_owned(),
        };
        self.failed("Taking over failed; trying again.", &cause);
    }

    async fn try_elect(&mut self, next: Next) -> Result<(), DbError> {
        let mut conn = self.conn().await?;
        if let Next::GiveUp(term) | Next::GiveUpAndStand(term) = next {
            self.end_term(&mut conn, term).await?;
        }
        let is_candidate = self.no_candidate_before.is_none_or(|instant| monotonic() >= instant);
        if is_candidate && matches!(next, Next::Stand | Next::GiveUpAndStand(_)) {
            self.stand_for_election(&mut conn).await?;
        }
        self.conn = Some(conn);
        Ok(())
    }

    async fn stand_for_election(&mut self, conn: &mut Conn) -> Result<(), DbError> {
        let sent_at = monotonic();
        let lease = self.timing.lease;
        if let TakeOver::Leading(term) =
            leadership::take_over(conn, self.instance.id, lease.duration()).await?
        {
            tracing::info!(leader.term = term.0, instance.id = %self.instance.id, "Leading.");
            metrics::counter!("sched_leader_changes_total").increment(1);
            self.no_candidate_before = None;
            self.held = Some(Held { term, trust: Trust::begin(lease, sent_at), since: sent_at });
            self.role.send_replace(Role::Leader(term));
        }
        Ok(())
    }

    /// Stops leading now; the row in the database stays unchanged.
    fn stand_down(&mut self, loss: Loss) {
        if let Some(held) = self.held.take() {
            tracing::warn!(leader.term = held.term.0, reason = loss.as_str(), "No longer leading.");
            self.lost(loss);
        }
    }

    fn lost(&self, loss: Loss) {
        metrics::counter!("sched_leader_lost_total", "reason" => loss.as_str()).increment(1);
        self.role.send_replace(Role::Standby);
        self.publish(|_| {});
    }

    fn publish(&self, change: impl FnOnce(&mut Vitals)) {
        self.vitals.send_modify(|vitals| {
            change(vitals);
            vitals.trusted_until = self.held.as_ref().map(|held| held.trust.until());
            vitals.leader_since = vitals.leader_since.filter(|_| self.held.is_some());
            vitals.measure(*self.role.borrow());
        });
    }

    async fn resign_if_stalled(&mut self) {
        let Some(held) = &self.held else { return };
        let led_for = monotonic().saturating_duration_since(held.since);
        let since_success = since_last_dispatch(&self.work.borrow());
        let idle_for = since_success.map_or(led_for, |since_success| since_success.min(led_for));
        if idle_for > self.timing.stalled_after {
            tracing::error!(leader.term = held.term.0, idle_for = ?idle_for, "The leader gets no work done and resigns.");
            self.step_aside(Loss::Stalled).await;
        }
    }
}

const BEAT_FAILED: &str = "A heartbeat of the scheduler failed; trying again.";
const NO_ANSWER: &str = "the database did not answer in time";

/// Shared with the notification listener.
pub type ElectionWake = std::sync::Arc<tokio::sync::Notify>;

async fn sleep_until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
