//! Claiming: as many dispatches as there are free slots, and some ahead of them where attempts are short ([`crate::claiming::prefetch`]).
//!
//! Waits while an operator has the worker drain, waits for room, claims ([`crate::claiming`]), and starts what it got; what was claimed ahead waits for a slot. A look that found nothing
//! is followed by a pause that grows by half up to its maximum, with jitter, so that an idle fleet costs next to nothing; a notification
//! ends the pause at once, work resets it, and it ends no later than the next retry is due. Notifications are hints: losing every one
//! costs the pause and nothing else.
//!
//! If a claim fails in whatever way, it may have taken effect without our knowing. Before the next claim the database is then
//! asked what it holds for us that we do not run, and that is handed back. A claim that is under way when the session stops is
//! waited for, and what it got is handed back too.

use std::time::Duration;

use rand::RngExt;
use tokio::sync::{OwnedSemaphorePermit, watch};

use crate::claiming::{Claiming, Look};
use crate::session::Session;

/// A claim takes no more than this at once, so that its transaction stays short.
const MOST_AT_ONCE: usize = 500;

/// A retry is looked for this much after it is due, so that the database finds it due.
const JUST_AFTER: Duration = Duration::from_millis(2);

/// Something could be claimed but was held by others: looked for again after this, which grows by half too.
const CONTENDED: Duration = Duration::from_millis(5);

/// Claims until the session stops.
pub(crate) async fn run(session: Session) {
    let (shortest, longest) = session.worker.config.poll;
    let (mut pause, mut contended) = (shortest, CONTENDED);
    let mut claiming = Claiming::new(&session);
    let mut draining = session.draining.subscribe();
    loop {
        tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            () = until_wanted(&mut draining) => {}
        }
        let places = tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            places = room(&session) => places,
        };
        let mut again_in = None;
        match claiming.look(&session, places).await {
            // All room was filled: more may wait.
            Ok(Look::Full) => {
                pause = shortest;
                contended = CONTENDED;
                continue;
            }
            Ok(Look::Found { some, is_contended, next_claimable }) => {
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
                tracing::warn!(error = error.with_causes(), "Claiming failed; trying again.");
            }
        }
        let jittered = pause.mul_f64(rand::rng().random_range(0.8..=1.2));
        let jittered = again_in.map_or(jittered, |again_in: Duration| jittered.min(again_in));
        tokio::select! {
            () = session.stop_claiming.cancelled() => return,
            () = session.worker.wake.notified() => {
                pause = shortest;
                claiming.woken();
            }
            () = tokio::time::sleep(jittered) => pause = pause.mul_f64(1.5).min(longest),
        }
    }
}

/// Waits while an operator has the worker drain.
async fn until_wanted(draining: &mut watch::Receiver<bool>) {
    if draining.wait_for(|is_draining| !is_draining).await.is_err() {
        // The sender is in the session, which is there as long as its poller.
        std::future::pending::<()>().await;
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
