//! Recovery without a leader: usually the leader gives the runs of dead workers to other workers.
//!
//! Each heartbeat returns how long the leader has been silent. After [`LEASES`] leases without a
//! leader, workers check whether other workers have died: about [`CHECKS`] times per lease in
//! total, however many workers there are. Only one worker recovers at a time, and none while a
//! leader lives. If a leader returns at that moment, nothing is done twice, because every attempt
//! is ended under its claim token ([`lost_attempts`](sched_model::recovery::lost_attempts)). Only
//! the database's clock decides which worker is dead.

use std::time::{Duration, Instant};

use rand::RngExt as _;

use crate::backend::{DbError, Recovered};
use crate::session::Session;

/// Workers recover after this many leases without a leader. A standby replaces a dead leader much
/// sooner.
const LEASES: u32 = 3;
/// Checks per lease of all workers together.
const CHECKS: f64 = 2.0;
/// A recovery that takes longer is aborted. Its committed transactions stay.
const RECOVERY_LIMIT: Duration = Duration::from_secs(60);

/// Since when no scheduler leads, according to the heartbeats.
#[derive(Debug, Default)]
pub(crate) struct Vacancy {
    since: Option<Instant>,
}

impl Vacancy {
    /// Records the answer of a heartbeat. Returns whether no scheduler has led for so long that
    /// workers recover.
    pub(crate) fn update(&mut self, now: Instant, leader_silence: Option<Duration>, lease: Duration) -> bool {
        if leader_silence.is_some_and(|silence| silence <= lease) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= lease * LEASES
    }
}

/// Recovers whenever the heartbeat finds that no scheduler leads. The session drops the task at its
/// end.
pub(crate) async fn run(session: Session) {
    let lease = session.worker.config.lease.duration();
    loop {
        session.no_leader.notified().await;
        let mut living = 1;
        match tokio::time::timeout(RECOVERY_LIMIT, recover(&session, lease)).await {
            Ok(Ok((recovered, others))) => {
                living = others;
                let Recovered { workers, attempts } = recovered;
                if recovered != Recovered::default() {
                    tracing::warn!(
                        workers,
                        attempts,
                        "no leader, so this worker recovered the attempts of dead workers; start a scheduler"
                    );
                }
            }
            Ok(Err(error)) => tracing::warn!(
                error = error.with_causes(),
                "no leader, and the check for dead workers failed; retrying"
            ),
            Err(_elapsed) => {
                tracing::warn!("no leader, and the check for dead workers timed out; retrying")
            }
        }
        let share = rand::rng().random_range(0.75..1.25);
        tokio::time::sleep(pause(lease, living, share)).await;
    }
}

/// The pause of one of `living` workers between two checks, at least one lease. It gives [`CHECKS`]
/// checks per lease of all workers together. `share` spreads the checks.
fn pause(lease: Duration, living: u64, share: f64) -> Duration {
    let living = u32::try_from(living).map_or(f64::from(u32::MAX), f64::from);
    lease.mul_f64((living / CHECKS).max(1.0) * share)
}

async fn recover(session: &Session, lease: Duration) -> Result<(Recovered, u64), DbError> {
    let worker = &session.worker;
    let is_stopped = || session.stop_claiming.is_cancelled();
    worker.backend.recover(lease, worker.config.max_retry_attempts, is_stopped).await
}

#[cfg(test)]
mod tests {
    use sched_runtime::monotonic_clock::monotonic;

    use super::*;

    #[test]
    fn workers_recover_after_three_leases_without_leader() {
        let lease = Duration::from_secs(30);
        let seconds = Duration::from_secs;
        let mut vacancy = Vacancy::default();
        let begun = monotonic();
        for (after, silence, expected) in [
            (0, Some(seconds(1)), false),
            // The leader has died, and its row stays.
            (10, Some(seconds(31)), false),
            (50, Some(seconds(71)), false),
            (99, None, false),
            (100, None, true),
            (105, Some(seconds(500)), true),
            // A scheduler leads, and the count restarts.
            (110, Some(seconds(30)), false),
            (115, None, false),
            (204, None, false),
            (205, None, true),
        ] {
            assert_eq!(vacancy.update(begun + seconds(after), silence, lease), expected, "{after}");
        }
    }

    #[test]
    fn check_rate_does_not_depend_on_the_number_of_workers() {
        let lease = Duration::from_secs(30);
        for (living, leases) in [(0, 1), (1, 1), (2, 1), (4, 2), (100, 50), (1000, 500)] {
            assert_eq!(pause(lease, living, 1.0), lease * leases, "{living}");
        }
        assert_eq!(pause(lease, 4, 0.75), Duration::from_secs(45));
    }
}
