//! The lease: heartbeats on a dedicated connection, so that no amount of other work delays one.
//!
//! The worker trusts its lease until a monotonic instant: when the last successful heartbeat *was
//! sent*, plus the lease, minus a margin (`domain::lease`). When that instant passes, or the
//! database reports that the lease is gone, the session kills all attempts, before another worker
//! may start their runs. A heartbeat of a busy worker also reads which runs were cancelled and
//! which claims were taken away.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use sched_model::domain::instance::WorkerStatus;
use sched_model::domain::lease::Trust;
use sched_model::fault_injection::{self, Fence};
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::watch;

use crate::attempt::counters;
use crate::backend::{Beat, BeatOutcome, ClaimEndReason, DbError, HeartbeatConnection};
use crate::session::Session;
use crate::session::recovery::Vacancy;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseState {
    Held,
    Lost,
}

/// Until the lease is lost. The session drops the task at its end.
pub(crate) async fn run(session: Session, state: watch::Sender<LeaseState>) {
    let config = session.worker.config.clone();
    let mut trust = Trust::begin(config.lease, session.registered_at);
    let (mut conn, mut vacancy) = (session.worker.backend.heartbeats(), Vacancy::default());
    loop {
        // A heartbeat must not outlast the trust that it renews.
        let limit = config.lease.margin().min(trust.until().saturating_duration_since(monotonic()));
        match try_beat(&session, &mut conn, limit).await {
            Some((sent_at, BeatOutcome::Renewed { drain_requested, leader_silence })) => {
                trust.renewed(sent_at);
                session.trusted_until.send_replace(trust.until());
                note_drain(&session, drain_requested);
                if vacancy.update(sent_at, leader_silence, config.lease.duration()) {
                    session.no_leader.notify_one();
                }
                end_attempts(&session, &mut conn, config.lease.margin() / 2).await;
            }
            Some((_, BeatOutcome::LeaseLost)) => break,
            None => {}
        }
        tokio::select! {
            () = tokio::time::sleep(pause(config.heartbeat_interval)) => {}
            () = session.worker.beat_now.notified() => {}
            () = tokio::time::sleep_until(trust.until().into()) => {}
        }
        if !trust.holds(monotonic()) {
            tracing::error!("no heartbeat succeeded in time; the worker no longer trusts its lease");
            break;
        }
    }
    if !fault_injection::is_active(Fence::WorkerLease) {
        std::future::pending::<()>().await;
    }
    state.send_replace(LeaseState::Lost);
}

/// Random, so that workers do not beat together, and never above the interval, because the lease is
/// a multiple of it.
fn pause(interval: Duration) -> Duration {
    interval.mul_f64(rand::rng().random_range(0.9..=1.0))
}

fn note_drain(session: &Session, is_requested: bool) {
    if session.draining.send_replace(is_requested) == is_requested {
        return;
    }
    match is_requested {
        true => tracing::info!("draining on request of an operator: no new claims"),
        false => tracing::info!("drain request of an operator ended: claiming again"),
    }
    // The operator waits for the new status.
    session.worker.beat_now.notify_one();
}

/// `None` if the outcome is unknown.
async fn try_beat(
    session: &Session,
    conn: &mut HeartbeatConnection,
    limit: Duration,
) -> Option<(Instant, BeatOutcome)> {
    let sent_at = monotonic();
    let failure = match tokio::time::timeout(limit, beat(session, conn)).await {
        Ok(Ok(outcome)) => return Some((sent_at, outcome)),
        Ok(Err(error)) => error.with_causes(),
        Err(_elapsed) => format!("no answer within {limit:?}"),
    };
    metrics::counter!("sched_worker_heartbeat_failures_total").increment(1);
    tracing::warn!(error = failure, "heartbeat failed; retrying");
    None
}

async fn beat(session: &Session, conn: &mut HeartbeatConnection) -> Result<BeatOutcome, DbError> {
    let counters = &session.worker.counters;
    let running = i32::try_from(counters.running.count()).unwrap_or(i32::MAX);
    let status = match running {
        _ if session.stop_claiming.is_cancelled() || *session.draining.borrow() => WorkerStatus::Draining,
        0 => WorkerStatus::Idle,
        _ => WorkerStatus::Busy,
    };
    let beat = Beat { status, running, jobs_processed: counters.processed.load(Ordering::Relaxed) };
    conn.beat(session.id, beat).await
}

/// The lease is already renewed, so a failure only delays this check until the next heartbeat.
async fn end_attempts(session: &Session, conn: &mut HeartbeatConnection, limit: Duration) {
    let running = &session.worker.counters.running;
    if running.count() == 0 {
        return;
    }
    let claims = match tokio::time::timeout(limit, conn.attempts_to_end(&running.held())).await {
        Ok(Ok(claims)) => claims,
        Ok(Err(error)) => {
            let error = error.with_causes();
            return tracing::warn!(error, "failed to check for cancelled runs; retrying");
        }
        Err(_elapsed) => {
            return tracing::warn!(?limit, "check for cancelled runs timed out; retrying");
        }
    };
    for (token, reason) in claims {
        match reason {
            ClaimEndReason::Cancelled => {
                if let Some(job) = running.cancel(token) {
                    tracing::info!(job.name = job, "run cancelled; stopping its attempt");
                }
            }
            // A claim may be taken away although the lease holds.
            ClaimEndReason::Lost => {
                if let Some(job) = running.lose(token) {
                    counters::log_loss(&job, token);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_spread_and_never_late() {
        let interval = Duration::from_secs(5);
        let pauses: Vec<Duration> = (0..100).map(|_| pause(interval)).collect();
        assert!(pauses.iter().all(|pause| (interval.mul_f64(0.9)..=interval).contains(pause)), "{pauses:?}");
        let distinct: std::collections::HashSet<_> = pauses.into_iter().collect();
        assert!(distinct.len() > 50, "{}", distinct.len());
    }
}
