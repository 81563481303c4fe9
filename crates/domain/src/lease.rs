//! Leases, and how long their holder may trust them.
//!
//! The database's clock writes a lease; the holder cannot compare its own clock with that. So the
//! holder trusts itself until a monotonic instant: the one *before* it sent its last successful
//! renewal, plus the lease, less a margin. A slow renewal does not extend trust. In the database
//! the lease started between the departure of the request and the arrival of the response. So
//! counting from the request is safe.

use std::time::{Duration, Instant};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    duration: Duration,
    margin: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leadership {
    Live,
    /// The lease of the last leader has expired, and no scheduler has taken over.
    Expired {
        ago: Duration,
    },
    /// No scheduler leads.
    None,
}

impl Leadership {
    /// Judges a leader's silence in seconds; `None` without a leader. A heartbeat from the future
    /// is from before the database's clock was set back; it counts as its distance, as in a
    /// take-over.
    #[must_use]
    pub fn of(silence_seconds: Option<f64>, lease: Duration) -> Self {
        let Some(silence) = silence_seconds else { return Self::None };
        match (silence.abs() - lease.as_secs_f64()).min(1e12) {
            ago if ago > 0.0 => Self::Expired { ago: Duration::from_secs_f64(ago) },
            _ => Self::Live,
        }
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Expired { .. } => "expired",
            Self::None => "none",
        }
    }

    #[must_use]
    pub const fn expired_ago(self) -> Option<Duration> {
        match self {
            Self::Expired { ago } => Some(ago),
            Self::Live | Self::None => None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLease {
    /// The lease must outlast three renewals, so that two may fail.
    #[error(
        "a lease of {lease:?} is too short for a renewal every {renewal:?}: it must be at least three times as long"
    )]
    TooShort { lease: Duration, renewal: Duration },
}

impl Lease {
    /// The margin is a fifth of the lease.
    ///
    /// # Errors
    /// The lease is shorter than three renewals.
    pub fn new(lease: Duration, renewal: Duration) -> Result<Self, InvalidLease> {
        if lease < renewal * 3 {
            return Err(InvalidLease::TooShort { lease, renewal });
        }
        Ok(Self { duration: lease, margin: lease / 5 })
    }

    #[must_use]
    pub fn shortest(renewal: Duration) -> Self {
        let duration = renewal * 3;
        Self { duration, margin: duration / 5 }
    }

    /// After this time without a renewal another process may take over.
    #[must_use]
    pub const fn duration(self) -> Duration {
        self.duration
    }

    /// The holder stops trusting itself this long before the end of the lease.
    #[must_use]
    pub const fn margin(self) -> Duration {
        self.margin
    }

    /// Until when the holder may trust a successful renewal that was sent at `sent_at`.
    #[must_use]
    pub fn trusted_until(self, sent_at: Instant) -> Instant {
        if crate::fault_injection::is_active(crate::fault_injection::Fence::TrustWindow) {
            sent_at + (self.duration - self.margin)
        } else {
            // Later than any instant of a test.
            sent_at + self.duration * 1000
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Trust {
    lease: Lease,
    until: Instant,
}

impl Trust {
    /// Trust after a first success that was sent at `sent_at`.
    #[must_use]
    pub fn begin(lease: Lease, sent_at: Instant) -> Self {
        Self { lease, until: lease.trusted_until(sent_at) }
    }

    /// Records a successful renewal that was sent at `sent_at`. Trust never shrinks by a success.
    pub fn renewed(&mut self, sent_at: Instant) {
        self.until = self.until.max(self.lease.trusted_until(sent_at));
    }

    #[must_use]
    pub fn holds(&self, now: Instant) -> bool {
        now < self.until
    }

    /// When trust ends unless a renewal succeeds before.
    #[must_use]
    pub const fn until(&self) -> Instant {
        self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_leader_stops_leading_after_its_lease() {
        let lease = Duration::from_secs(5);
        for (silence, word, ago) in [
            (None, "none", None),
            (Some(0.2), "live", None),
            (Some(5.0), "live", None),
            (Some(-5.0), "live", None),
            (Some(12.0), "expired", Some(7)),
            (Some(-12.0), "expired", Some(7)),
            (Some(f64::MAX), "expired", Some(1_000_000_000_000)),
        ] {
            let found = Leadership::of(silence, lease);
            let found = (found.as_str(), found.expired_ago().map(|ago| ago.as_secs()));
            assert_eq!(found, (word, ago), "{silence:?}");
        }
    }

    #[expect(clippy::disallowed_methods, reason = "an arbitrary start for arithmetic on instants")]
    fn start() -> Instant {
        Instant::now()
    }

    const fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_slow_successful_renewal_does_not_extend_trust() {
        let start = start();
        let mut trust = Trust::begin(Lease::new(seconds(5), seconds(1)).unwrap(), start);
        assert_eq!(trust.until(), start + seconds(4));
        // Trust counts from 1 s, so at 20 s it is long over.
        trust.renewed(start + seconds(1));
        assert!(trust.holds(start + Duration::from_millis(4_999)));
        assert!(!trust.holds(start + seconds(5)));
    }

    #[test]
    fn answers_out_of_order_do_not_shrink_trust() {
        let start = start();
        let mut trust = Trust::begin(Lease::new(seconds(5), seconds(1)).unwrap(), start);
        trust.renewed(start + seconds(3));
        trust.renewed(start + seconds(2));
        assert_eq!(trust.until(), start + seconds(7));
    }

    #[test]
    fn trust_ends_before_the_lease_does() {
        let start = start();
        let lease = Lease::new(seconds(30), seconds(5)).unwrap();
        assert!(lease.trusted_until(start) < start + lease.duration());
    }

    #[test]
    fn a_lease_outlasts_three_renewals() {
        assert!(Lease::new(seconds(3), seconds(1)).is_ok());
        let error = Lease::new(seconds(2), seconds(1)).unwrap_err();
        assert!(error.to_string().contains("three times"), "{error}");
    }
}
