//! Recovery where nobody leads: the work of dead workers is the leader's to give to others, and without one for long a worker does it.
//!
//! What a leader does besides (firing schedules, ending what is overdue) needs one; but dispatches that are there can run without, and those of a
//! worker that died should not wait for a scheduler. Each heartbeat brings word of how long the leader has been silent, so looking costs an idle fleet
//! nothing. After [`LEASES`] leases without one, workers look whether others have died: about [`LOOKS`] times per lease in all, however many they are. One
//! worker of all does so at a time, and none beside a leader that lives; should one come back at that moment, nothing is done twice, because every attempt is ended
//! under its claim token ([`losses`](sched_model::recovery::lost_attempts)). Which worker is dead only the database's clock decides.

use std::time::{Duration, Instant};

use rand::RngExt as _;
use sched_model::recovery::lost_attempts::{By, Losses, Recovered, Recovery};
use sched_model::{DbError, running::workers};

use crate::session::Session;

/// For how many leases of workers nobody may lead before workers recover. A leader that dies is replaced in far less.
const LEASES: u32 = 3;
/// How often all workers together look per lease.
const LOOKS: f64 = 2.0;
/// A run that takes longer is given up; what it has committed stays.
const RUN_LIMIT: Duration = Duration::from_secs(60);

/// Since when nobody leads, as the heartbeats have it.
#[derive(Debug, Default)]
pub(crate) struct Vacancy {
    since: Option<Instant>,
}

impl Vacancy {
    /// Notes what a heartbeat said; whether nobody has led for so long that workers recover.
    pub(crate) fn note(&mut self, now: Instant, leader_silence: Option<Duration>, lease: Duration) -> bool {
        if leader_silence.is_some_and(|silence| silence <= lease) {
            self.since = None;
            return false;
        }
        let since = *self.since.get_or_insert(now);
        now.saturating_duration_since(since) >= lease * LEASES
    }
}

/// Recovers whenever the heartbeat finds that nobody leads; the session drops the task when it needs it no more.
pub(crate) async fn run(session: Session) {
    let lease = session.worker.config.lease.duration();
    loop {
        session.nobody_leads.notified().await;
        let mut living = 1;
        match tokio::time::timeout(RUN_LIMIT, recover(&session, lease)).await {
            Ok(Ok((recovered, others))) => {
                living = others;
                let Recovered { workers, attempts } = recovered;
                if recovered != Recovered::default() {
                    tracing::warn!(
                        workers,
                        attempts,
                        "Nobody leads, so this worker has given up dead workers and their attempts; start a scheduler."
                    );
                }
            }
            Ok(Err(error)) => tracing::warn!(
                error = error.with_causes(),
                "Nobody leads, and looking for dead workers failed; trying again."
            ),
            Err(_elapsed) => {
                tracing::warn!("Nobody leads, and looking for dead workers took too long; trying again.")
            }
        }
        let share = rand::rng().random_range(0.75..1.25);
        tokio::time::sleep(pause(lease, living, share)).await;
    }
}

/// How long one of so many living workers waits before it looks again: as long as makes [`LOOKS`] looks per lease of all, and a lease at least.
/// `share` strews them.
fn pause(lease: Duration, living: u64, share: f64) -> Duration {
    let living = u32::try_from(living).map_or(f64::from(u32::MAX), f64::from);
    lease.mul_f64((living / LOOKS).max(1.0) * share)
}

/// Recovers what there is to recover, and counts the workers that live.
async fn recover(session: &Session, lease: Duration) -> Result<(Recovered, u64), DbError> {
    let worker = &session.worker;
    let mut conn = worker.database.conn().await?;
    let losses = Losses { max_attempts: worker.config.max_retry_attempts };
    let recovery = Recovery { by: By::Worker, lease, losses };
    let recovered = recovery.run(&mut conn, || session.stop_claiming.is_cancelled()).await?;
    Ok((recovered, workers::living(&mut conn).await?))
}

#[cfg(test)]
mod tests {
    use sched_runtime::monotonic_clock::monotonic;

    use super::*;

    #[test]
    fn workers_recover_when_nobody_has_led_for_three_leases() {
        let lease = Duration::from_secs(30);
        let seconds = Duration::from_secs;
        let mut vacancy = Vacancy::default();
        let begun = monotonic();
        for (after, silence, expected) in [
            (0, Some(seconds(1)), false),
            // It has died, and its row stays.
            (10, Some(seconds(31)), false),
            (50, Some(seconds(71)), false),
            (99, None, false),
            (100, None, true),
            (105, Some(seconds(500)), true),
            // Somebody leads, and it begins anew.
            (110, Some(seconds(30)), false),
            (115, None, false),
            (204, None, false),
            (205, None, true),
        ] {
            assert_eq!(vacancy.note(begun + seconds(after), silence, lease), expected, "{after}");
        }
    }

    #[test]
    fn all_workers_together_look_as_often_however_many_they_are() {
        let lease = Duration::from_secs(30);
        for (living, leases) in [(0, 1), (1, 1), (2, 1), (4, 2), (100, 50), (1000, 500)] {
            assert_eq!(pause(lease, living, 1.0), lease * leases, "{living}");
        }
        assert_eq!(pause(lease, 4, 0.75), Duration::from_secs(45));
    }
}
