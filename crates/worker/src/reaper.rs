//! Recovery where nobody leads: the work of dead workers is the leader's to give to others, and without one for long a worker does it.
//!
//! What a leader does besides (firing schedules, ending what is overdue) needs one; but dispatches that are there can run without, and those of a
//! worker that died should not wait for a scheduler. Each heartbeat brings word of how long the leader has been silent, so looking costs an idle fleet
//! nothing. After [`LEASES`] leases without one, a worker looks once per lease whether others have died. One worker of all does so at a
//! time, and none beside a leader that lives; should one come back at that moment, nothing is done twice, because every attempt is ended
//! under its claim token ([`losses`](sched_model::db::losses)). Which worker is dead only the database's clock decides.

use std::time::{Duration, Instant};

use sched_model::db::DbError;
use sched_model::db::losses::{By, Losses, Recovered, Recovery};

use crate::session::Session;

/// For how many leases of workers nobody may lead before workers recover. A leader that dies is replaced in far less.
const LEASES: u32 = 3;
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

/// Recovers whenever the heartbeat finds that nobody leads, once per lease; the session drops the task when it needs it no more.
pub(crate) async fn run(session: Session) {
    let lease = session.worker.config.lease.duration();
    loop {
        session.nobody_leads.notified().await;
        match tokio::time::timeout(RUN_LIMIT, recover(&session, lease)).await {
            Ok(Ok(Recovered { workers: 0, attempts: 0 })) => {}
            Ok(Ok(Recovered { workers, attempts })) => tracing::warn!(
                workers,
                attempts,
                "Nobody leads, so this worker has given up dead workers and their attempts; start a scheduler."
            ),
            Ok(Err(error)) => tracing::warn!(
                error = error.with_causes(),
                "Nobody leads, and looking for dead workers failed; trying again."
            ),
            Err(_elapsed) => {
                tracing::warn!("Nobody leads, and looking for dead workers took too long; trying again.")
            }
        }
        tokio::time::sleep(lease).await;
    }
}

async fn recover(session: &Session, lease: Duration) -> Result<Recovered, DbError> {
    let worker = &session.worker;
    let mut conn = worker.database.conn().await?;
    let losses = Losses { max_attempts: worker.config.max_retry_attempts };
    let recovery = Recovery { by: By::Worker, lease, losses };
    recovery.run(&mut conn, || session.stop_claiming.is_cancelled()).await
}

#[cfg(test)]
mod tests {
    use sched_runtime::clock::monotonic;

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
}
