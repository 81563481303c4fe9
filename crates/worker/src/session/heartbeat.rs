//! The lease: heartbeats on a connection of their own, so that no amount of work can hold one back.
//!
//! The worker trusts its lease until the monotonic instant *before* its last successful heartbeat was sent, plus the lease,
//! less a margin (`domain::lease`). When that passes, or the database says that the lease is gone, the session learns of it
//! and kills everything, before others may run the same work. A heartbeat also brings word of work that somebody has cancelled,
//! for which a notification makes it come at once, and of claims that were taken away; a worker that runs nothing does not ask.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rand::RngExt as _;
use sched_model::dispatching::cancellations::{self, Word};
use sched_model::domain::instance::WorkerStatus;
use sched_model::domain::lease::Trust;
use sched_model::fault_injection::{self, Fence};
use sched_model::running::workers::{self, Beat, BeatOutcome};
use sched_model::{Conn, DbError};
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::watch;

use crate::attempt::counters;
use crate::session::Session;
use crate::session::recovery::Vacancy;

/// Whether the lease holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeaseState {
    /// It does.
    Held,
    /// It does not: the work belongs to others.
    Lost,
}

/// Heartbeats until the lease is lost; the session drops the task when it needs it no more.
pub(crate) async fn run(session: Session, state: watch::Sender<LeaseState>) {
    let config = session.worker.config.clone();
    let mut trust = Trust::begin(config.lease, session.registered_at);
    let (mut conn, mut vacancy) = (None, Vacancy::default());
    loop {
        // A beat that hangs must not outlast the trust it is to renew.
        let limit = config.lease.margin().min(trust.until().saturating_duration_since(monotonic()));
        let beat = beat_or_not(&session, &mut conn, limit).await;
        match beat {
            Some((sent_at, BeatOutcome::Renewed { drain_requested, leader_silence })) => {
                trust.renewed(sent_at);
                session.trusted_until.send_replace(trust.until());
                note_drain(&session, drain_requested);
                if vacancy.note(sent_at, leader_silence, config.lease.duration()) {
                    session.nobody_leads.notify_one();
                }
                look(&session, &mut conn, config.lease.margin() / 2).await;
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
            tracing::error!(
                "No heartbeat has got through for so long that the worker no longer trusts its lease."
            );
            break;
        }
    }
    if !fault_injection::stands(Fence::WorkerLease) {
        std::future::pending::<()>().await;
    }
    state.send_replace(LeaseState::Lost);
}

/// A little less than the interval, differently each time: workers that were started together do not beat together for good. Never more,
/// since the lease is counted in whole intervals.
fn pause(interval: Duration) -> Duration {
    interval.mul_f64(rand::rng().random_range(0.9..=1.0))
}

/// Has the poller rest, or go on, as an operator asks.
fn note_drain(session: &Session, is_requested: bool) {
    if session.draining.send_replace(is_requested) == is_requested {
        return;
    }
    match is_requested {
        true => tracing::info!("An operator asked the worker to drain: no new claims."),
        false => tracing::info!("An operator has the worker take new work again."),
    }
    // Who waits for the drain sees it in what the next heartbeat says.
    session.worker.beat_now.notify_one();
}

/// One heartbeat; `None` if it is unknown whether it got through.
async fn beat_or_not(
    session: &Session,
    conn: &mut Option<Conn>,
    limit: Duration,
) -> Option<(Instant, BeatOutcome)> {
    let sent_at = monotonic();
    let failure = match tokio::time::timeout(limit, beat(session, conn)).await {
        Ok(Ok(outcome)) => return Some((sent_at, outcome)),
        Ok(Err(error)) => error.with_causes(),
        Err(_elapsed) => format!("no answer within {limit:?}"),
    };
    // The connection may be in the middle of an answer: take a new one.
    *conn = None;
    metrics::counter!("sched_worker_heartbeat_failures_total").increment(1);
    tracing::warn!(error = failure, "A heartbeat of the worker failed; trying again.");
    None
}

async fn beat(session: &Session, slot: &mut Option<Conn>) -> Result<BeatOutcome, DbError> {
    let mut conn = match slot.take() {
        Some(conn) => conn,
        None => session.worker.database.dedicated().await?,
    };
    let seen = &session.worker.seen;
    let running = i32::try_from(seen.running.count()).unwrap_or(i32::MAX);
    let status = match running {
        _ if session.stop_claiming.is_cancelled() || *session.draining.borrow() => WorkerStatus::Draining,
        0 => WorkerStatus::Idle,
        _ => WorkerStatus::Busy,
    };
    let beat = Beat { status, running, jobs_processed: seen.processed.load(Ordering::Relaxed) };
    let outcome = workers::heartbeat(&mut conn, session.id, beat).await?;
    *slot = Some(conn);
    Ok(outcome)
}

/// Looks for work that is to end, for a limited time. The lease is renewed already, whatever becomes of this look; the next one comes soon.
async fn look(session: &Session, slot: &mut Option<Conn>, limit: Duration) {
    if session.worker.seen.running.count() == 0 {
        return;
    }
    let Some(mut conn) = slot.take() else { return };
    // One that was left in the middle of an answer is of no use any more.
    match tokio::time::timeout(limit, obey(session, &mut conn)).await {
        Ok(()) => *slot = Some(conn),
        Err(_elapsed) => tracing::warn!("No answer about cancelled work within {limit:?}; trying again."),
    }
}

/// Stops what somebody has cancelled, and kills what belongs to others by now: a claim may be taken away although the lease holds.
async fn obey(session: &Session, conn: &mut Conn) {
    let running = &session.worker.seen.running;
    let words = match cancellations::word_of(conn, &running.held()).await {
        Ok(words) => words,
        Err(error) => {
            let error = error.with_causes();
            return tracing::warn!(error, "Looking for cancelled work failed; trying again.");
        }
    };
    for (token, word) in words {
        match word {
            Word::Cancelled => {
                if let Some(job) = running.cancel(token) {
                    tracing::info!(job.name = job, "The attempt was cancelled; stopping its work.");
                }
            }
            Word::Lost => {
                if let Some(job) = running.lose(token) {
                    counters::tell_loss(&job, token);
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
