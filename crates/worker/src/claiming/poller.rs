//! The poller: claims as many runs as there are free slots, and more where attempts are short
//! ([`crate::claiming::prefetch`]).
//!
//! After a claim that found nothing it pauses. The pause grows by half up to its maximum, with
//! jitter. A notification ends the pause at once, a claimed run resets it, and it ends no later
//! than the next retry is due. A lost notification costs only the pause.
//!
//! A claim that failed may have taken effect. Before the next claim, the worker reads which
//! attempts the database holds for it that it does not run, and releases them. When the session
//! stops during a claim, the poller waits for the answer and releases the claimed runs.

use std::time::Duration;

use rand::RngExt;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::claiming::{ClaimResult, Claiming};
use crate::session::Session;

/// The poller claims a retry this long after it is due, so that the database finds it due.
const JUST_AFTER: Duration = Duration::from_millis(2);

/// First pause after a claim that found only locked runs. It grows by half each time.
const CONTENDED: Duration = Duration::from_millis(5);

pub(crate) async fn run(session: Session) {
    let (shortest, longest) = session.worker.config.poll;
    let (mut pause, mut contended) = (shortest, CONTENDED);
    let mut claiming = Claiming::new(&session);
    let mut draining = session.draining.subscribe();
    loop {
        tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            () = until_not_draining(&mut draining) => {}
        }
        let places = tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            places = room(&session) => places,
        };
        let mut again_in = None;
        match claiming.claim(&session, places).await {
            // More runs may wait.
            Ok(ClaimResult::Full) => {
                pause = shortest;
                contended = CONTENDED;
                continue;
            }
            Ok(ClaimResult::Partial { some, is_contended, next_claimable }) => {
                again_in = next_claimable.map(|due| due + JUST_AFTER);
                if some {
                    pause = shortest;
                }
                if is_contended {
                    again_in = Some(again_in.map_or(contended, |again_in| again_in.min(contended)));
                    contended = contended.mul_f64(1.5).min(longest);
                } else {
                    contended = CONTENDED;
                }
            }
            Err(error) => {
                metrics::counter!("sched_claims_total", "result" => "failed").increment(1);
                tracing::warn!(error = error.with_causes(), "claim failed; retrying");
            }
        }
        // Never above the longest pause.
        let jittered = pause
            .mul_f64(rand::rng().random_range(0.8..=1.2))
            .min(longest.mul_f64(rand::rng().random_range(0.8..=1.0)));
        let jittered = again_in.map_or(jittered, |again_in: Duration| jittered.min(again_in));
        tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            () = session.worker.wake.notified() => {
                pause = shortest;
                claiming.notified();
            }
            () = tokio::time::sleep(jittered) => pause = pause.mul_f64(1.5).min(longest),
        }
    }
}

async fn until_not_draining(draining: &mut watch::Receiver<bool>) {
    if draining.wait_for(|is_draining| !is_draining).await.is_err() {
        // The session owns the sender and outlives its poller.
        std::future::pending::<()>().await;
    }
}

async fn room(session: &Session) -> Vec<OwnedSemaphorePermit> {
    let worker = &session.worker;
    loop {
        // Enabled before the check, so that no notification in between is missed.
        let moved = worker.prefetch.moved.notified();
        tokio::pin!(moved);
        moved.as_mut().enable();
        let room = worker
            .prefetch
            .room(worker.slots.available_permits())
            .min(worker.counters.fleet.runs_per_claim());
        if room > 0 {
            let mut places = Vec::with_capacity(room);
            // While results cannot be stored, there may be fewer places than room.
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
