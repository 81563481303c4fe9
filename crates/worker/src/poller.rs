//! Claiming: as many dispatches as there are free slots, and some ahead of them where attempts are short ([`crate::pace`]).
//!
//! Waits for room, claims, and starts what it got; what was claimed ahead waits for a slot. A look that found nothing is followed by a
//! pause that grows by half up to its maximum, with jitter, so that an idle fleet costs next to nothing; a notification ends the pause at
//! once, work resets it, and it ends no later than the next retry is due. Notifications are hints: losing every one costs the
//! pause and nothing else.
//!
//! If a claim fails in whatever way, it may have taken effect without our knowing. Before the next claim the database is then
//! asked what it holds for us that we do not run, and that is handed back. A claim that is under way when the session stops is
//! waited for, and what it got is handed back too.

use std::time::Duration;

use rand::RngExt;
use sched_model::db::claims::{self, Claimed};
use sched_model::db::{DbError, recovery};
use sched_runtime::clock::monotonic;
use tokio::sync::OwnedSemaphorePermit;
use tokio_util::sync::CancellationToken;

use crate::executor;
use crate::session::Session;

/// A claim takes no more than this at once, so that its transaction stays short.
const MOST_AT_ONCE: usize = 500;

/// A retry is looked for this much after it is due, so that the database finds it due.
const JUST_AFTER: Duration = Duration::from_millis(2);

/// What a look for work gave.
enum Look {
    /// Work for every free slot.
    Full,
    /// Less.
    Found {
        /// Whether there was any.
        some: bool,
        /// When a dispatch that waits for its time becomes claimable.
        next_claimable: Option<Duration>,
    },
}

/// Claims until the session stops.
pub(crate) async fn run(session: Session) {
    let (shortest, longest) = session.worker.config.poll;
    let mut pause = shortest;
    // A poller before this one may have died in the middle of a claim.
    let mut is_claim_unknown = true;
    loop {
        let places = tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            places = room(&session) => places,
        };
        let mut next_retry = None;
        match claim(&session, places, &mut is_claim_unknown).await {
            // All room was filled: more may wait.
            Ok(Look::Full) => {
                pause = shortest;
                continue;
            }
            Ok(Look::Found { some, next_claimable }) => {
                next_retry = next_claimable;
                if some {
                    pause = shortest;
                }
            }
            Err(error) => {
                // Whatever went wrong, the claim may have been on its way.
                is_claim_unknown = true;
                tracing::warn!(error = error.with_causes(), "Claiming failed; trying again.");
            }
        }
        let jittered = pause.mul_f64(rand::rng().random_range(0.8..=1.2));
        let jittered = next_retry.map_or(jittered, |retry: Duration| jittered.min(retry + JUST_AFTER));
        tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            () = session.worker.wake.notified() => pause = shortest,
            () = tokio::time::sleep(jittered) => pause = pause.mul_f64(1.5).min(longest),
        }
    }
}

/// Waits for room, and takes a place for each dispatch there is room for.
async fn room(session: &Session) -> Vec<OwnedSemaphorePermit> {
    let worker = &session.worker;
    loop {
        // Registered before the look, so that what moves in between is not missed.
        let moved = worker.pace.moved.notified();
        tokio::pin!(moved);
        moved.as_mut().enable();
        let room = worker.pace.room(worker.slots.available_permits()).min(MOST_AT_ONCE);
        if room > 0 {
            let mut places = Vec::with_capacity(room);
            // While results cannot be stored there may be fewer places than there is room.
            match worker.places.clone().acquire_owned().await {
                Ok(place) => places.push(place),
                // The semaphore is never closed.
                Err(_closed) => std::future::pending().await,
            }
            while places.len() < room
                && let Ok(place) = worker.places.clone().try_acquire_owned()
            {
                places.push(place);
            }
            return places;
        }
        moved.await;
    }
}

/// One claim; starts what it got.
async fn claim(
    session: &Session,
    mut places: Vec<OwnedSemaphorePermit>,
    is_claim_unknown: &mut bool,
) -> Result<Look, DbError> {
    let worker = &session.worker;
    let mut conn = worker.database.conn().await?;
    if *is_claim_unknown {
        let unknown = recovery::unknown_claims(&mut conn, session.id, &worker.seen.running.ids()).await?;
        *is_claim_unknown = false;
        for attempt in unknown {
            tracing::warn!(dispatch.id = %attempt.dispatch_id, job.name = attempt.job_name, "A claim whose answer was lost is handed back.");
            let never_run = CancellationToken::new();
            worker.seen.running.insert(
                attempt.token,
                attempt.dispatch_id,
                attempt.job_name.clone(),
                never_run,
            );
            worker.completer.send(None, executor::never_started(&attempt), None).await;
        }
    }
    let limit = u32::try_from(places.len()).unwrap_or(u32::MAX);
    let asked_at = monotonic();
    let claimed = claims::claim(&mut conn, session.id, &worker.config.queues, limit).await?;
    metrics::histogram!("sched_claim_seconds").record(asked_at.elapsed().as_secs_f64());
    let (is_full, some) = (claimed.len() == places.len(), !claimed.is_empty());
    note(session, &claimed);
    for dispatch in claimed {
        executor::start(session, dispatch, places.pop());
    }
    if is_full {
        return Ok(Look::Full);
    }
    drop(places);
    Ok(Look::Found { some, next_claimable: claims::next_claimable(&mut conn, &worker.config.queues).await? })
}

fn note(session: &Session, claimed: &[Claimed]) {
    if let Some(first) = claimed.first() {
        session.worker.completer.expect(first.claim_id, claimed.len());
        session.worker.pace.claimed(claimed.len());
    }
    for dispatch in claimed {
        let (token, id, job) = (dispatch.token, dispatch.dispatch_id, dispatch.job_name.clone());
        session.worker.seen.running.insert(token, id, job, session.hand_back.child_token());
        let wait = (dispatch.claimed_at - dispatch.available_at).to_std().unwrap_or(Duration::ZERO);
        metrics::histogram!("sched_dispatch_wait_seconds").record(wait.as_secs_f64());
    }
}
