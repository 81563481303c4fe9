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
//! - Leads but gets nothing done: [`Leadership::run`] is told by the dispatcher's status and resigns.
//! - Stops in order: [`Leadership::resign`] hands over at once, and tells the standbys.

use std::time::{Duration, Instant};

use sched_model::db::instances::{self, Heartbeat, NewInstance, TakeOver};
use sched_model::db::{Conn, Database, DbError, notify};
use sched_model::domain::ids::{InstanceId, Term};
use sched_model::domain::lease::{Lease, Trust};
use sched_runtime::clock::monotonic;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long resigning, and unregistering, may take: whoever stops us will not wait for ever.
const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// What this scheduler is at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Waits to take over.
    Standby,
    /// Leads with this term.
    Leader(Term),
}

impl Role {
    /// The term, if it leads.
    #[must_use]
    pub const fn term(self) -> Option<Term> {
        match self {
            Self::Standby => None,
            Self::Leader(term) => Some(term),
        }
    }
}

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

/// Tells when the leader's work last succeeded; `None` before the first time.
pub type Progress = Box<dyn Fn() -> Option<Duration> + Send + Sync>;

/// The one who knows whether we lead.
pub struct Leadership {
    database: Database,
    instance: NewInstance,
    timing: Timing,
    role: watch::Sender<Role>,
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

impl Leadership {
    /// A scheduler that is not registered yet and stands by.
    #[must_use]
    pub fn new(database: Database, instance: NewInstance, timing: Timing) -> Self {
        let (role, _) = watch::channel(Role::Standby);
        Self {
            database,
            instance,
            timing,
            role,
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

    /// Our identity.
    #[must_use]
    pub fn id(&self) -> InstanceId {
        self.instance.id
    }

    /// Heartbeats until `stop`, then returns itself for [`Self::resign`]. `wake` ends a pause early: a leader resigned.
    pub async fn run(mut self, wake: ElectionWake, progress: Progress, stop: CancellationToken) -> Self {
        loop {
            self.beat().await;
            self.resign_if_stalled(&progress).await;
            let next_beat = tokio::time::sleep(self.timing.heartbeat);
            tokio::pin!(next_beat);
            loop {
                let trust_ends = self.held.as_ref().map(|held| held.trust.until().into());
                tokio::select! {
                    () = stop.cancelled() => return self,
                    () = &mut next_beat => break,
                    () = wake.notified() => break,
                    () = sleep_until(trust_ends) => self.stand_down("its lease could not be renewed in time"),
                }
            }
        }
    }

    /// One heartbeat, and a take-over where that is due. Every doubt ends in standing by.
    pub async fn beat(&mut self) {
        let sent_at = monotonic();
        let mut limit = self.timing.lease.margin().max(Duration::from_millis(100)) * 2;
        if let Some(held) = &self.held {
            // A renewal that hangs must not outlast the trust it is to renew.
            limit = limit.min(held.trust.until().saturating_duration_since(sent_at));
        }
        match tokio::time::timeout(limit, self.try_beat(sent_at)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.failed(&error.with_causes()),
            Err(_elapsed) => self.failed("the database did not answer in time"),
        }
        if self.held.as_ref().is_some_and(|held| !held.trust.holds(monotonic())) {
            self.stand_down("its lease could not be renewed in time");
        }
    }

    fn failed(&mut self, cause: &str) {
        metrics::counter!("sched_leader_heartbeat_failures_total").increment(1);
        tracing::warn!(error = cause, "A heartbeat of the scheduler failed; trying again.");
        // The connection may be in the middle of an answer: take a new one.
        self.conn = None;
    }

    async fn try_beat(&mut self, sent_at: Instant) -> Result<(), DbError> {
        let mut conn = match self.conn.take() {
            Some(conn) => conn,
            None => self.database.dedicated().await?,
        };
        if !self.is_registered {
            instances::register(&mut conn, &self.instance).await?;
            self.is_registered = true;
        }
        let heartbeat = instances::heartbeat(&mut conn, self.instance.id).await?;
        match (heartbeat, self.held.as_mut()) {
            (Heartbeat::Unregistered, _) => {
                self.is_registered = false;
                self.stand_down("it was taken for dead");
            }
            (Heartbeat::Recorded { term, .. }, Some(held)) if term == Some(held.term) => {
                held.trust.renewed(sent_at)
            }
            (Heartbeat::Recorded { .. }, Some(_)) => self.stand_down("another scheduler has taken over"),
            // The row is ours from a term we have stopped trusting: leave it to expire, or take it over from ourselves.
            (Heartbeat::Recorded { term, .. }, None) => self.stand_for_election(&mut conn, term).await?,
        }
        self.conn = Some(conn);
        Ok(())
    }

    async fn stand_for_election(&mut self, conn: &mut Conn, stale: Option<Term>) -> Result<(), DbError> {
        if self.no_candidate_before.is_some_and(|instant| monotonic() < instant) {
            return Ok(());
        }
        if let Some(term) = stale {
            instances::resign(conn, self.instance.id, term).await?;
        }
        let sent_at = monotonic();
        if let TakeOver::Leading(term) =
            instances::take_over(conn, self.instance.id, self.timing.lease.duration()).await?
        {
            tracing::info!(leader.term = term.0, instance.id = %self.instance.id, "Leading.");
            metrics::counter!("sched_leader_changes_total").increment(1);
            self.held = Some(Held { term, trust: Trust::begin(self.timing.lease, sent_at), since: sent_at });
            self.role.send_replace(Role::Leader(term));
        }
        Ok(())
    }

    fn stand_down(&mut self, reason: &str) {
        if let Some(held) = self.held.take() {
            tracing::warn!(leader.term = held.term.0, reason, "No longer leading.");
            self.role.send_replace(Role::Standby);
        }
    }

    async fn resign_if_stalled(&mut self, progress: &Progress) {
        let Some(held) = &self.held else { return };
        let led_for = monotonic().saturating_duration_since(held.since);
        let idle_for = progress().map_or(led_for, |since_success| since_success.min(led_for));
        if idle_for > self.timing.stalled_after {
            tracing::error!(leader.term = held.term.0, idle_for = ?idle_for, "The leader gets no work done and resigns.");
            self.resign().await;
            self.no_candidate_before = Some(monotonic() + self.timing.lease.duration() * 2);
        }
    }

    /// Gives up leadership if we hold it, and tells the standbys.
    pub async fn resign(&mut self) {
        let Some(term) = self.held.as_ref().map(|held| held.term) else { return };
        self.held = None;
        self.role.send_replace(Role::Standby);
        match tokio::time::timeout(LEAVE_WITHIN, self.try_resign(term)).await {
            Ok(Ok(())) => tracing::info!(leader.term = term.0, "Resigned."),
            Ok(Err(error)) => {
                let error = error.with_causes();
                tracing::warn!(error, "Resigning failed; a standby takes over when the lease expires.");
            }
            Err(_elapsed) => {
                tracing::warn!("Resigning took too long; a standby takes over when the lease expires.");
            }
        }
    }

    async fn try_resign(&self, term: Term) -> Result<(), DbError> {
        let mut conn = self.database.conn().await?;
        if instances::resign(&mut conn, self.instance.id, term).await? {
            notify::leader_resigned(&mut conn).await?;
        }
        Ok(())
    }

    /// Resigns, and removes the registration.
    pub async fn leave(mut self) {
        self.resign().await;
        let removed = async {
            let mut conn = self.database.conn().await?;
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

/// Wakes the election task: its handle is shared with the listener.
pub type ElectionWake = std::sync::Arc<tokio::sync::Notify>;

async fn sleep_until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}
