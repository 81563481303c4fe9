//! The trust of the session in its lease.
//!
//! The registration announces one of two leases: the ordinary one, or after a quiet time the idle
//! one, which is longer and renewed less often. Recovery waits for the announced lease. Attempts
//! trust only the ordinary lease, counted from the departure of the latest renewal of either kind,
//! because a claim may have announced it since. The idle lease only keeps a session without
//! attempts.
//!
//! A heartbeat that announces the idle lease may reach the database after a claim that announced
//! the ordinary one. Then recovery waits longer than needed until the next heartbeat, which follows
//! at once.

use std::time::{Duration, Instant};

use sched_model::domain::lease::Lease;

use crate::config::Config;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseKind {
    Ordinary,
    Idle,
}

/// Both leases and their intervals.
#[derive(Debug, Clone, Copy)]
struct Leases {
    ordinary: Lease,
    interval: Duration,
    idle: Lease,
    idle_interval: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseTrust {
    leases: Leases,
    /// Departure of the latest renewal that succeeded.
    renewed_at: Instant,
    /// The lease in the registration; `None` after a request without an answer.
    announced: Option<LeaseKind>,
    /// End of the trust in the latest idle lease.
    idle_until: Instant,
    /// The latest instant at which the session ran attempts, or at which a claim failed.
    quiet_since: Instant,
    /// The database may hold claims that this session does not know.
    is_claim_unknown: bool,
}

impl Leases {
    fn new(ordinary: Lease, interval: Duration, idle_interval: Duration) -> Self {
        let three = Lease::shortest(idle_interval);
        let idle = if three.duration() < ordinary.duration() { ordinary } else { three };
        Self { ordinary, interval, idle, idle_interval }
    }

    const fn of_kind(&self, kind: LeaseKind) -> Lease {
        match kind {
            LeaseKind::Ordinary => self.ordinary,
            LeaseKind::Idle => self.idle,
        }
    }
}

impl LeaseTrust {
    /// The registration, sent at `sent_at`, announced the ordinary lease.
    pub(crate) fn begin(config: &Config, sent_at: Instant) -> Self {
        let intervals = (config.heartbeat_interval, config.idle_heartbeat_interval);
        Self::with(Leases::new(config.lease, intervals.0, intervals.1), sent_at)
    }

    fn with(leases: Leases, sent_at: Instant) -> Self {
        Self {
            leases,
            renewed_at: sent_at,
            announced: Some(LeaseKind::Ordinary),
            idle_until: sent_at,
            quiet_since: sent_at,
            is_claim_unknown: false,
        }
    }

    #[cfg(test)]
    pub(crate) fn of_ordinary(lease: Duration, sent_at: Instant) -> Self {
        let interval = lease / 3;
        Self::with(Leases::new(Lease::shortest(interval), interval, interval), sent_at)
    }

    /// No attempt starts or continues later.
    pub(crate) fn attempts_until(&self) -> Instant {
        self.leases.ordinary.trusted_until(self.renewed_at)
    }

    /// End of the session unless a renewal succeeds before.
    pub(crate) fn until(&self, is_running: bool) -> Instant {
        let may_be_idle = !is_running && self.may_announce_idle();
        if may_be_idle { self.attempts_until().max(self.idle_until) } else { self.attempts_until() }
    }

    /// The kind of the next heartbeat: idle after one ordinary lease without attempts. The caller
    /// sends the heartbeat and reports it with [`LeaseTrust::beat_ended`].
    pub(crate) fn begin_beat(&mut self, now: Instant, is_running: bool) -> LeaseKind {
        if is_running {
            self.quiet_since = now;
        }
        let quiet = now.saturating_duration_since(self.quiet_since);
        let is_idle = !self.is_claim_unknown && quiet >= self.leases.ordinary.duration();
        let kind = if is_idle { LeaseKind::Idle } else { LeaseKind::Ordinary };
        if self.announced != Some(kind) {
            self.announced = None;
        }
        kind
    }

    /// `sent_at` is `None` if the outcome is unknown.
    pub(crate) fn beat_ended(&mut self, kind: LeaseKind, sent_at: Option<Instant>) {
        let Some(sent_at) = sent_at else {
            // A claim may have announced another lease since. An idle heartbeat is repeated after the
            // ordinary interval, before the idle lease ends.
            self.announced =
                self.announced.filter(|announced| *announced == kind && kind == LeaseKind::Ordinary);
            return;
        };
        self.renewed_at = self.renewed_at.max(sent_at);
        self.announced = Some(kind);
        self.idle_until = match kind {
            LeaseKind::Idle => self.idle_until.max(self.leases.idle.trusted_until(sent_at)),
            LeaseKind::Ordinary => sent_at,
        };
    }

    /// The lease that a claim must announce, in milliseconds; `None` if the registration announces
    /// the ordinary one.
    pub(crate) fn lease_of_claim(&self) -> Option<i32> {
        self.may_announce_idle().then(|| self.lease_ms(LeaseKind::Ordinary))
    }

    pub(crate) fn lease_ms(&self, kind: LeaseKind) -> i32 {
        i32::try_from(self.leases.of_kind(kind).duration().as_millis()).unwrap_or(i32::MAX)
    }

    /// A claim sent at `sent_at` renewed the lease. Call it before the attempts start.
    pub(crate) fn claim_renewed(&mut self, sent_at: Instant, has_runs: bool) {
        self.renewed_at = self.renewed_at.max(sent_at);
        if has_runs {
            self.announced = Some(LeaseKind::Ordinary);
            self.idle_until = sent_at;
        } else if self.announced == Some(LeaseKind::Idle) {
            self.idle_until = self.idle_until.max(self.leases.idle.trusted_until(sent_at));
        }
    }

    /// Returns whether a heartbeat may be due earlier.
    pub(crate) fn claim_ended(&mut self, now: Instant, has_runs: bool) -> bool {
        self.is_claim_unknown = false;
        if has_runs {
            self.quiet_since = now;
        }
        has_runs && self.may_announce_idle()
    }

    /// The claim may have taken effect. Returns whether a heartbeat may be due earlier.
    pub(crate) fn claim_failed(&mut self, now: Instant) -> bool {
        self.is_claim_unknown = true;
        self.quiet_since = now;
        self.announced.take() != Some(LeaseKind::Ordinary)
    }

    /// When the next heartbeat is due, after one that ended at `tried_at`: at once if attempts began
    /// under the idle lease. A renewal by a claim delays it. Renewals by an idle session delay it by
    /// one interval at most, because only heartbeats read drain requests. `share` of the ordinary
    /// interval; idle heartbeats are spread half as much, so that a poll of the longest pause, which
    /// renews the lease too, comes before the second of them.
    pub(crate) fn next_beat(&self, tried_at: Instant, is_running: bool, share: f64) -> Instant {
        let renewed_at = tried_at.max(self.renewed_at);
        let Leases { interval, idle_interval, .. } = self.leases;
        match self.announced {
            Some(LeaseKind::Idle) if is_running => tried_at,
            Some(LeaseKind::Idle) => {
                renewed_at.min(tried_at + idle_interval) + idle_interval.mul_f64(f64::midpoint(1.0, share))
            }
            _ => renewed_at + interval.mul_f64(share),
        }
    }

    fn may_announce_idle(&self) -> bool {
        self.announced != Some(LeaseKind::Ordinary)
    }
}

#[cfg(test)]
mod tests {
    use sched_runtime::monotonic_clock::monotonic;

    use super::*;

    /// Leases of 30 and 45 seconds, renewed every 5 and 15: attempts trust 24 seconds, an idle session 36.
    fn trust(begun: Instant) -> LeaseTrust {
        let seconds = Duration::from_secs;
        let ordinary = Lease::new(seconds(30), seconds(5)).unwrap();
        let leases = Leases::new(ordinary, seconds(5), seconds(15));
        LeaseTrust::with(leases, begun)
    }

    fn beat(trust: &mut LeaseTrust, at: Instant, is_running: bool) -> LeaseKind {
        let kind = trust.begin_beat(at, is_running);
        trust.beat_ended(kind, Some(at));
        kind
    }

    /// The start, and a session that has announced the idle lease 30 seconds later.
    fn idle() -> (Instant, LeaseTrust) {
        let begun = monotonic();
        let mut trust = trust(begun);
        let at = begun + Duration::from_secs(30);
        assert_eq!(beat(&mut trust, at, false), LeaseKind::Idle);
        (at, trust)
    }

    #[test]
    fn session_is_idle_after_one_quiet_lease() {
        let (begun, seconds) = (monotonic(), Duration::from_secs);
        let mut trust = trust(begun);
        for (at, is_running, expected) in [
            (5, false, LeaseKind::Ordinary),
            (10, true, LeaseKind::Ordinary),
            (39, false, LeaseKind::Ordinary),
            (40, false, LeaseKind::Idle),
            (55, false, LeaseKind::Idle),
            (70, true, LeaseKind::Ordinary),
            (75, false, LeaseKind::Ordinary),
            (100, false, LeaseKind::Idle),
        ] {
            assert_eq!(beat(&mut trust, begun + seconds(at), is_running), expected, "{at}");
        }
        assert_eq!((trust.lease_ms(LeaseKind::Ordinary), trust.lease_ms(LeaseKind::Idle)), (30_000, 45_000));
    }

    #[test]
    fn attempts_trust_only_the_ordinary_lease() {
        let (at, mut trust) = idle();
        let seconds = Duration::from_secs;
        assert_eq!(trust.attempts_until(), at + seconds(24));
        assert_eq!((trust.until(false), trust.until(true)), (at + seconds(36), at + seconds(24)));
        // From the departure of the claim.
        trust.claim_renewed(at + seconds(30), true);
        assert_eq!(trust.attempts_until(), at + seconds(54));
        assert_eq!(trust.until(false), at + seconds(54), "the claim announced the ordinary lease");
        trust.claim_renewed(at + seconds(29), true);
        assert_eq!(trust.attempts_until(), at + seconds(54), "trust never shrinks");
    }

    #[test]
    fn first_claim_announces_the_ordinary_lease() {
        let (at, mut trust) = idle();
        assert_eq!(trust.lease_of_claim(), Some(30_000));
        trust.claim_renewed(at, false);
        assert_eq!(trust.lease_of_claim(), Some(30_000), "a claim without runs announces nothing");
        trust.claim_renewed(at, true);
        assert_eq!(trust.lease_of_claim(), None);
        // A heartbeat that may have announced the idle lease.
        let later = at + Duration::from_secs(60);
        assert_eq!(trust.begin_beat(later, false), LeaseKind::Idle);
        assert_eq!(trust.lease_of_claim(), Some(30_000), "its answer is open");
        trust.beat_ended(LeaseKind::Idle, None);
        assert_eq!(trust.lease_of_claim(), Some(30_000), "its outcome is unknown");
        assert_eq!(trust.until(false), trust.until(true), "it is not trusted");
    }

    #[test]
    fn attempts_under_the_idle_lease_cause_a_heartbeat() {
        let (at, mut trust) = idle();
        let seconds = Duration::from_secs;
        assert_eq!(trust.next_beat(at, false, 1.0), at + seconds(15));
        assert_eq!(trust.next_beat(at, true, 1.0), at, "the claim did not renew the lease");
        // The claim ends while a heartbeat announces the idle lease.
        let kind = trust.begin_beat(at + seconds(15), false);
        trust.claim_renewed(at + seconds(15), true);
        trust.beat_ended(kind, Some(at + seconds(15)));
        assert_eq!(trust.next_beat(at + seconds(16), true, 1.0), at + seconds(16));
        // A failure does not repeat it at once.
        let kind = trust.begin_beat(at + seconds(16), true);
        trust.beat_ended(kind, None);
        assert_eq!(trust.next_beat(at + seconds(17), true, 1.0), at + seconds(22));
    }

    #[test]
    fn claims_delay_a_heartbeat_by_one_interval() {
        let (at, mut trust) = idle();
        let seconds = Duration::from_secs;
        trust.claim_renewed(at + seconds(10), false);
        assert_eq!(trust.next_beat(at, false, 1.0), at + seconds(25));
        assert_eq!(trust.until(false), at + seconds(46));
        for after in [20, 30, 40] {
            trust.claim_renewed(at + seconds(after), false);
        }
        assert_eq!(trust.next_beat(at, false, 1.0), at + seconds(30));
    }

    #[test]
    fn unknown_claim_keeps_the_ordinary_interval() {
        let (at, mut trust) = idle();
        let seconds = Duration::from_secs;
        trust.claim_failed(at);
        assert_eq!(trust.next_beat(at, false, 1.0), at + seconds(5));
        assert_eq!(beat(&mut trust, at + seconds(60), false), LeaseKind::Ordinary);
        trust.claim_ended(at + seconds(60), false);
        assert_eq!(beat(&mut trust, at + seconds(65), false), LeaseKind::Idle);
    }
}
