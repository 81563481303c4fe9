//! The wait after consecutive errors: doubling with a cap.
//!
//! Jitter keeps processes from reconnecting to a lost database at the same moment.

use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    pub initial: Duration,
    pub cap: Duration,
}

impl Default for Backoff {
    /// Half a second suits a restarting database; half a minute is acceptable during a recovery.
    fn default() -> Self {
        Self { initial: Duration::from_millis(500), cap: Duration::from_secs(30) }
    }
}

impl Backoff {
    /// The wait after `failures` consecutive errors. `jitter` (0 to 1) shortens it by up to half.
    #[must_use]
    pub fn delay(&self, failures: u32, jitter: f64) -> Duration {
        let doublings = failures.saturating_sub(1).min(20);
        let full = self.initial.saturating_mul(1 << doublings).min(self.cap);
        full.mul_f64(1.0 - jitter.clamp(0.0, 1.0) / 2.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_cap_and_jitter_halves_it_at_most() {
        let backoff = Backoff { initial: Duration::from_secs(1), cap: Duration::from_secs(10) };
        for (failures, jitter, seconds) in [
            (1, 0.0, 1.0),
            (2, 0.0, 2.0),
            (4, 0.0, 8.0),
            (5, 0.0, 10.0),
            (u32::MAX, 0.0, 10.0),
            (2, 1.0, 1.0),
            (1, 0.5, 0.75),
        ] {
            assert_eq!(
                backoff.delay(failures, jitter),
                Duration::from_secs_f64(seconds),
                "{failures} {jitter}"
            );
        }
    }
}
