//! Who leads: registering, heartbeating, taking over, and distrusting oneself in time.
//!
//! One task owns the question and answers it through a `watch` channel of [`Role`]. It uses a connection of its own,
//! so that no amount of work can keep it from renewing. Leadership saves work; it is not what makes dispatching safe: the
//! tick proves its term inside its own transaction. What this module adds is that a leader whose renewals no longer get
//! through stops by itself, before a standby may take over: it trusts itself until the monotonic instant *before* its last
//! successful renewal was sent, plus the lease, less a margin. Any doubt means standby: an error, a time-out, a missing row.
//!
//! - Dies at any line: the heartbeat stops, the lease expires, a standby takes over with a new term.
//! - Hangs in a call: every call has a time limit, and the trust window ends meanwhile.
//! - Leads but gets nothing done: it sees that on the board of the leader's tasks and resigns.
//! - Is asked to step down: it finds the request in the answer to its heartbeat, which a notification hastens, and resigns.
//! - Sees the database's clock jump against its own monotonic clock (see [`ClockWatch`]): that heartbeat is no renewal, and no
//!   ground to stand for election on. A leader resigns. The next heartbeat counts again.
//! - Resigns: the work stops first, then the term ends, then the standbys are told, and one of them leads at once. One that had to
//!   give way does not stand again for two leases; then it does, if nobody leads.
//!
//! A term that we hold in the database but do not trust (a resignation that failed, a lease that was renewed too late) is given up
//! before anything else: our heartbeats would keep it alive.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sched_model::db::instances::{self, Heartbeat, NewInstance, TakeOver};
use sched_model::db::{Conn, Database, DbError, notify};
use sched_model::domain::clock::{ClockWatch, Reading};
use sched_model::domain::ids::{InstanceId, Term};
use sched_model::domain::lease::{Lease, Trust};
use sched_runtime::clock::{monotonic, wall};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::leader_scope::{Running, since_last_dispatch};

mod vitals;

pub use vitals::{Loss, Role, Vitals};

/// How long resigning, and unregistering, may take: whoever stops us will not wait for ever.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);
/// How long a resigning leader waits for its work to stop. What is still in flight then holds up the end of the term by its
/// lock, and what comes later is refused.
const STOP_WORK_WITHIN: Duration = Duration::from_secs(2);
/// A heartbeat, and an attempt to take over, may always take this long.
const SHORTEST_LIMIT: Duration = Duration::from_millis(200);

/// Times of an election.
#[derive(Debug, Clone, Copy)]
pub struct Timing {
    /// Between heartbeats.
    pub heartbeat: Duration,
    /// The lease.
    pub lease: Lease,
    /// A leader that has not succeeded with its work for this long resigns.
    pub stalled_after: Duration,
}

/// The one who knows whether we lead.
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

/// What follows from a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Nothing until the next one.
    Rest,
    /// Give up the term we lead with.
    Resign(Loss),
    /// Give up a term that is ours in the database although we do not lead.
    GiveUp(Term),
    /// Give up such a term, and take over if nobody leads then.
    GiveUpAndStand(Term),
    /// Take over if nobody leads.
    Stand,
}

impl Leadership {
    /// A scheduler that is not registered yet and stands by. `work` shows what is done under its lead.
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
        }
    }

    /// The answer, as it changes.
    #[must_use]
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.subscribe()
    }

    /// What else is known, as of the last heartbeat.
    #[must_use]
    pub fn vitals(&self) -> watch::Receiver<Vitals> {
        self.vitals.subscribe()
    }

    /// Our identity.
    #[must_use]
    pub fn id(&self) -> InstanceId {
        self.instance.id
    }

    /// Heartbeats until `stop`, then returns itself for [`Self::leave`]. `wake` ends a pause early: a leader resigned, or is
    /// asked to.
    pub async fn run(mut self, wake: ElectionWake, stop: CancellationToken) -> Self {
        loop {
            let has_led = self.held.is_some();
            self.beat().await;
            if self.held.is_some() && !has_led {
                // The answer to the first renewal tells since when we lead.
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

    /// One heartbeat, and what follows from it. Every doubt ends in standing by.
    pub async fn beat(&mut self) {
        let sent_at = monotonic();
        let mut limit = self.limit();
        if let Some(held) = &self.held {
            // A renewal that hangs must not outlast the trust it is to renew.
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
            Next::Resign(loss) => self.give_way(loss).await,
            Next::GiveUp(_) | Next::GiveUpAndStand(_) | Next::Stand => self.elect(next).await,
        }
        self.publish(|_| {});
    }

    /// Longest wait for a heartbeat or a take-over, connecting included.
    fn limit(&self) -> Duration {
        (self.timing.lease.margin() * 2).max(SHORTEST_LIMIT)
    }

    fn failed(&mut self, what: &'static str, cause: &str) -> Next {
        metrics::counter!("sched_leader_heartbeat_failures_total").increment(1);
        tracing::warn!(error = cause, "{what}");
        // The connection may be in the middle of an answer: take a new one.
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
            instances::register(&mut conn, &self.instance).await?;
            self.is_registered = true;
        }
        let next = self.heartbeat(&mut conn, sent_at).await?;
        self.conn = Some(conn);
        Ok(next)
    }

    async fn heartbeat(&mut self, conn: &mut Conn, sent_at: Instant) -> Result<Next, DbError> {
        let clock_offset = self.vitals.borrow().clock_offset.map(vitals::seconds);
        let (sent, wall) = (monotonic(), DateTime::<Utc>::from(wall()));
        let heartbeat = instances::heartbeat(conn, self.instance.id, clock_offset).await?;
        let Heartbeat::Recorded { term, leader_since, step_down, at } = heartbeat else {
            self.is_registered = false;
            self.stand_down(Loss::TakenForDead);
            return Ok(Next::Rest);
        };
        let reading = Reading { sent, received: monotonic(), database: at };
        let is_steady = self.observe_clock(reading, wall);
        self.publish(|vitals| vitals.leader_since = leader_since);
        Ok(match (self.held.as_mut(), term) {
            (Some(held), Some(term)) if held.term == term => {
                if !is_steady {
                    Next::Resign(Loss::ClockJumped)
                } else if step_down {
                    Next::Resign(Loss::SteppedDown)
                } else {
                    held.trust.renewed(sent_at);
                    Next::Rest
                }
            }
            (Some(_), _) => {
                self.stand_down(Loss::Replaced);
                Next::Rest
            }
            (None, Some(term)) if step_down || !is_steady => {
                self.hold_back_if(step_down);
                Next::GiveUp(term)
            }
            (None, Some(term)) => Next::GiveUpAndStand(term),
            (None, None) if is_steady => Next::Stand,
            (None, None) => Next::Rest,
        })
    }

    /// Takes note of the database's clock. Returns whether it has advanced as ours has since the heartbeat before.
    fn observe_clock(&mut self, reading: Reading, wall: DateTime<Utc>) -> bool {
        metrics::histogram!("sched_db_round_trip_seconds").record(reading.round_trip().as_secs_f64());
        self.publish(|vitals| {
            vitals.clock_offset = Some(reading.offset(wall));
            vitals.round_trip = Some(reading.round_trip());
            vitals.last_heartbeat = Some(reading.received);
        });
        let jump = self.clock.observe(reading);
        if let Some(jump) = jump {
            metrics::counter!("sched_clock_jumps_total").increment(1);
            tracing::error!(
                clock.jumped_seconds = vitals::seconds(jump.by),
                "The database's clock jumped against this host's monotonic clock since the last heartbeat, which is refused."
            );
        }
        jump.is_none()
    }

    /// Gives up a term that is ours by mistake, or takes over where nobody leads.
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
            instances::take_over(conn, self.instance.id, lease.duration()).await?
        {
            tracing::info!(leader.term = term.0, instance.id = %self.instance.id, "Leading.");
            metrics::counter!("sched_leader_changes_total").increment(1);
            self.no_candidate_before = None;
            self.held = Some(Held { term, trust: Trust::begin(lease, sent_at), since: sent_at });
            self.role.send_replace(Role::Leader(term));
        }
        Ok(())
    }

    /// Leads no longer, from now on; the row is left as it is.
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
            self.give_way(Loss::Stalled).await;
        }
    }

    /// Resigns; where another is to lead, gives it time to.
    async fn give_way(&mut self, loss: Loss) {
        self.resign(loss).await;
        self.hold_back_if(matches!(loss, Loss::SteppedDown | Loss::Stalled));
    }

    fn hold_back_if(&mut self, is_for_another: bool) {
        if is_for_another {
            self.no_candidate_before = Some(monotonic() + self.timing.lease.duration() * 2);
        }
    }

    /// Gives up leadership if we hold it: stops the work, ends the term, tells the standbys.
    pub async fn resign(&mut self, loss: Loss) {
        let Some(held) = self.held.take() else { return };
        let term = held.term;
        self.lost(loss);
        // Beyond our trust somebody else may lead already; waiting would only delay what we know.
        let patience = held.trust.until().saturating_duration_since(monotonic()).min(STOP_WORK_WITHIN);
        let idle = self.work.wait_for(|running| running.is_empty());
        if tokio::time::timeout(patience, idle).await.is_err() {
            tracing::warn!(
                leader.term = term.0,
                "The work of the term has not stopped yet; what it still writes is refused."
            );
        }
        match tokio::time::timeout(LEAVE_WITHIN, self.try_resign(term)).await {
            Ok(Ok(())) => tracing::info!(leader.term = term.0, reason = loss.as_str(), "Resigned."),
            Ok(Err(error)) => {
                let error = error.with_causes();
                tracing::warn!(error, "Resigning failed; a standby takes over when the lease expires.");
            }
            Err(_elapsed) => {
                tracing::warn!("Resigning took too long; a standby takes over when the lease expires.");
            }
        }
    }

    /// On the connection of the heartbeats, which no work can have used up.
    async fn try_resign(&mut self, term: Term) -> Result<(), DbError> {
        let mut conn = self.conn().await?;
        self.end_term(&mut conn, term).await?;
        self.conn = Some(conn);
        Ok(())
    }

    async fn end_term(&self, conn: &mut Conn, term: Term) -> Result<(), DbError> {
        if instances::resign(conn, self.instance.id, term).await? {
            notify::leader_resigned(conn).await?;
        }
        Ok(())
    }

    /// Resigns, and removes the registration.
    pub async fn leave(mut self) {
        self.resign(Loss::Stopped).await;
        let removed = async {
            let mut conn = self.conn().await?;
            instances::unregister(&mut conn, self.instance.id).await
        };
        match tokio::time::timeout(LEAVE_WITHIN, removed).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = error.with_causes();
                tracing::warn!(error, "Removing the registration failed; it is removed as stale later.");
            }
            Err(_elapsed) => {
                tracing::warn!("Removing the registration took too long; it is removed as stale later.");
            }
        }
    }
}

const BEAT_FAILED: &str = "A heartbeat of the scheduler failed; trying again.";
const NO_ANSWER: &str = "the database did not answer in time";

/// Wakes the election task: its handle is shared with the listener.
pub type ElectionWake = std::sync::Arc<tokio::sync::Notify>;

async fn sleep_until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
