//! Waiting for a slot before an attempt starts.

use std::sync::Arc;

use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

use crate::attempt::result::ReleaseReason;
use crate::claiming::prefetch::SLOT_WAIT;
use crate::session::Session;
use crate::session::trust::LeaseTrust;

pub(crate) const NO_SLOT: ReleaseReason = ReleaseReason {
    class: "worker_busy",
    message: "the worker claimed more runs than it had slots for, so the attempt did not start",
};
const STOPPED: ReleaseReason = ReleaseReason {
    class: "worker_stopped",
    message: "the worker was stopping, so the attempt did not start",
};
const LEASE_IN_DOUBT: ReleaseReason = ReleaseReason {
    class: "lease_in_doubt",
    message: "the worker had not renewed its lease in time, so another worker may have the run and the attempt did not start",
};

pub(crate) struct Bounds<'a> {
    kill: &'a CancellationToken,
    stop_claiming: &'a CancellationToken,
    trust: &'a watch::Sender<LeaseTrust>,
}

impl<'a> Bounds<'a> {
    pub(crate) fn of(session: &'a Session) -> Self {
        Self { kill: &session.kill, stop_claiming: &session.stop_claiming, trust: &session.trust }
    }
}

#[derive(Debug)]
pub(crate) enum SlotOutcome {
    Slot(OwnedSemaphorePermit),
    Release(ReleaseReason),
    Killed,
}

/// Whether an attempt with a slot may start now.
pub(crate) fn may_start(bounds: &Bounds<'_>) -> bool {
    let Bounds { kill, stop_claiming, trust } = bounds;
    !kill.is_cancelled() && !stop_claiming.is_cancelled() && monotonic() < trust.borrow().attempts_until()
}

/// Waits for at most [`SLOT_WAIT`].
pub(crate) async fn wait_for_slot(slots: &Arc<Semaphore>, bounds: &Bounds<'_>) -> SlotOutcome {
    let Bounds { kill, stop_claiming, trust } = bounds;
    if kill.is_cancelled() {
        return SlotOutcome::Killed;
    }
    if stop_claiming.is_cancelled() {
        return SlotOutcome::Release(STOPPED);
    }
    let outcome = match slots.clone().try_acquire_owned() {
        Ok(slot) => SlotOutcome::Slot(slot),
        Err(_) => tokio::select! {
            biased;
            () = kill.cancelled() => SlotOutcome::Killed,
            () = stop_claiming.cancelled() => SlotOutcome::Release(STOPPED),
            () = tokio::time::sleep(SLOT_WAIT) => SlotOutcome::Release(NO_SLOT),
            slot = slots.clone().acquire_owned() => slot.map_or(SlotOutcome::Release(NO_SLOT), SlotOutcome::Slot),
        },
    };
    // A process that continues after a suspension may get here before its heartbeat detects the
    // delay.
    match outcome {
        SlotOutcome::Slot(_) if monotonic() >= trust.borrow().attempts_until() => {
            SlotOutcome::Release(LEASE_IN_DOUBT)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn worker_with_expired_trust_starts_no_attempt() {
        let slots = Arc::new(Semaphore::new(1));
        let minute = Duration::from_secs(60);
        let ended = || LeaseTrust::of_ordinary(Duration::ZERO, monotonic());
        let (kill, stop_claiming, trust) =
            (CancellationToken::new(), CancellationToken::new(), watch::Sender::new(ended()));
        let late = Bounds { kill: &kill, stop_claiming: &stop_claiming, trust: &trust };
        assert!(matches!(wait_for_slot(&slots, &late).await, SlotOutcome::Release(LEASE_IN_DOUBT)));
        assert_eq!(slots.available_permits(), 1, "the slot is free again");
        trust.send_replace(LeaseTrust::of_ordinary(minute, monotonic()));
        let held = wait_for_slot(&slots, &late).await;
        assert!(matches!(held, SlotOutcome::Slot(_)), "{held:?}");
        let waiting = wait_for_slot(&slots, &late);
        let freeing = async {
            trust.send_replace(ended());
            drop(held);
        };
        let (outcome, ()) = tokio::join!(waiting, freeing);
        assert!(matches!(outcome, SlotOutcome::Release(LEASE_IN_DOUBT)), "{outcome:?}");
    }
}
