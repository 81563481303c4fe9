//! The lease: heartbeats on a dedicated connection, so that no amount of other work delays one.
//!
//! The worker trusts its lease until a monotonic instant: when the last successful renewal *was
//! sent*, plus the lease, minus a margin ([`crate::session::trust`]). When that instant passes, or
//! the database reports that the lease is gone, the session kills all attempts, before another
//! worker may start their runs. A heartbeat of a busy worker also reads which runs were cancelled
//! and which claims were taken away. A notification of a cancellation or a drain request triggers a
//! heartbeat at once.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use sched_model::domain::instance::WorkerStatus;
use sched_model::fault_injection::{self, Fence};
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::watch;

use crate::attempt::counters;
use crate::backend::{Beat, BeatOutcome, ClaimEndReason, DbError, HeartbeatConnection};
use crate::claiming::fleet::MANY;
use crate::session::Session;
use crate::session::recovery::Vacancy;
use crate::session::trust::LeaseKind;

/// Margin of the longest turn of the loop, for the watchdog.
const SLACK: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseState {
    Held,
    Lost,
}

/// Sends heartbeats until the lease is lost. The session drops the task at its end.
pub(crate) async fn run(session: Session, state: watch::Sender<LeaseState>) {
    let config = session.worker.config.clone();
    let (mut conn, mut vacancy) = (session.worker.backend.heartbeats(), Vacancy::default());
    let longest_turn = config.idle_heartbeat_interval + config.lease.duration() + SLACK;
    let turns = session.worker.service.supervise("heartbeat", longest_turn);
    loop {
        turns.turned();
        let kind = begin_beat(&session);
        // A heartbeat must not outlast the trust that it renews.
        let limit = config.lease.margin().min(trusted_until(&session).saturating_duration_since(monotonic()));
        let outcome = try_beat(&session, &mut conn, (kind, limit)).await;
        if let Some((_, BeatOutcome::LeaseLost)) = outcome {
            break;
        }
        let sent_at = outcome.map(|(sent_at, _)| sent_at);
        session.trust.send_modify(|trust| trust.beat_ended(kind, sent_at));
        if let Some((sent_at, BeatOutcome::Renewed { drain_requested, leader_silence, living })) = outcome {
            session.worker.counters.fleet.update(living);
            note_drain(&session, drain_requested);
            if vacancy.update(sent_at, leader_silence, config.lease.duration()) {
                session.no_leader.notify_one();
            }
            end_attempts(&session, &mut conn, config.lease.margin() / 2).await;
        }
        wait(&session).await;
        if monotonic() >= trusted_until(&session) {
            tracing::error!("no heartbeat succeeded in time; the worker no longer trusts its lease");
            break;
        }
    }
    drop(turns);
    if !fault_injection::is_active(Fence::WorkerLease) {
        std::future::pending::<()>().await;
    }
    state.send_replace(LeaseState::Lost);
}

fn is_running(session: &Session) -> bool {
    session.worker.counters.running.count() > 0
}

fn trusted_until(session: &Session) -> Instant {
    // Read before the trust: a claim renews the trust before its attempts run.
    let is_running = is_running(session);
    session.trust.borrow().until(is_running)
}

/// A worker that receives no notifications must read drain requests by its heartbeats, so it stays
/// ordinary. So does one that stops.
fn begin_beat(session: &Session) -> LeaseKind {
    let is_listening = session.worker.counters.is_listening.load(Ordering::Relaxed);
    let is_awake = !is_listening || session.stop_claiming.is_cancelled();
    let mut kind = LeaseKind::Ordinary;
    session.trust.send_modify(|trust| kind = trust.begin_beat(monotonic(), is_awake || is_running(session)));
    kind
}

/// Waits until the next heartbeat is due or requested, or the trust ends. A claim moves both.
async fn wait(session: &Session) {
    let (tried_at, share) = (monotonic(), share());
    let mut trust = session.trust.subscribe();
    loop {
        let is_running = is_running(session);
        let latest = *trust.borrow_and_update();
        let until = latest.next_beat(tried_at, is_running, share).min(latest.until(is_running));
        tokio::select! {
            () = tokio::time::sleep_until(until.into()) => return,
            () = session.worker.beat_now.notified() => return,
            // The session owns the sender.
            _ = trust.changed() => {}
        }
    }
}

/// Share of the interval: random, so that workers do not beat together, and at most 1, because the
/// lease is a multiple of the interval.
fn share() -> f64 {
    rand::rng().random_range(0.9..=1.0)
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
    (kind, limit): (LeaseKind, Duration),
) -> Option<(Instant, BeatOutcome)> {
    let sent_at = monotonic();
    let failure = match tokio::time::timeout(limit, beat(session, conn, kind)).await {
        Ok(Ok(outcome)) => return Some((sent_at, outcome)),
        Ok(Err(error)) => error.with_causes(),
        Err(_elapsed) => format!("no answer within {limit:?}"),
    };
    metrics::counter!("sched_worker_heartbeat_failures_total").increment(1);
    tracing::warn!(error = failure, "heartbeat failed; retrying");
    None
}

async fn beat(
    session: &Session,
    conn: &mut HeartbeatConnection,
    kind: LeaseKind,
) -> Result<BeatOutcome, DbError> {
    let counters = &session.worker.counters;
    let running = i32::try_from(counters.running.count()).unwrap_or(i32::MAX);
    let status = match running {
        _ if session.stop_claiming.is_cancelled() || *session.draining.borrow() => WorkerStatus::Draining,
        0 => WorkerStatus::Idle,
        _ => WorkerStatus::Busy,
    };
    let beat = Beat {
        status,
        running,
        jobs_processed: counters.processed.load(Ordering::Relaxed),
        lease_ms: session.trust.borrow().lease_ms(kind),
        count_up_to: MANY,
    };
    conn.beat(session.id, beat).await
}

/// Checks for a limited time which attempts must end. The lease is already renewed, so a failure
/// only delays this check until the next heartbeat.
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
    fn share_of_interval_is_spread() {
        let shares: Vec<f64> = (0..100).map(|_| share()).collect();
        assert!(shares.iter().all(|share| (0.9..=1.0).contains(share)), "{shares:?}");
        let distinct: std::collections::HashSet<_> = shares.into_iter().map(f64::to_bits).collect();
        assert!(distinct.len() > 50, "{}", distinct.len());
    }
}
