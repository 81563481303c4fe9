//! The ways to stop one attempt: flags, and tokens that exist only after a handler waits for one.
//!
//! A short attempt ends before anything waits for its stop. It costs two atomic flags instead of a
//! node in the tree of tokens of its session.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// The claim was taken away.
const LOST: u8 = 1;
/// The handler has ended or will never run. The result waits to be stored.
const OVER: u8 = 2;

/// A flag whose [`CancellationToken`] is created for the first waiter.
#[derive(Debug, Default)]
pub(crate) struct LazyToken {
    is_set: AtomicBool,
    token: OnceLock<CancellationToken>,
}

impl LazyToken {
    pub(crate) fn cancel(&self) {
        self.is_set.store(true, Ordering::Relaxed);
        // Either this thread reads the new token, or the thread that creates it reads the flag.
        fence(Ordering::SeqCst);
        if let Some(token) = self.token.get() {
            token.cancel();
        }
    }

    /// Also `true` if the token itself was cancelled.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.is_set.load(Ordering::Acquire) || self.token.get().is_some_and(CancellationToken::is_cancelled)
    }

    /// The token, which `new` creates at the first call.
    pub(crate) fn token_or(&self, new: impl FnOnce() -> CancellationToken) -> &CancellationToken {
        let token = self.token.get_or_init(new);
        // See `cancel`.
        fence(Ordering::SeqCst);
        if self.is_set.load(Ordering::Relaxed) {
            token.cancel();
        }
        token
    }
}

/// The stops of one attempt. Its handler and the heartbeat share them.
#[derive(Debug)]
pub(crate) struct Stops {
    /// Stops all attempts of the session softly, to release them.
    release: Arc<CancellationToken>,
    /// Stops this attempt softly.
    cancel: LazyToken,
    /// Kills this attempt.
    loss: LazyToken,
    /// [`LOST`] and [`OVER`] in one value: an ended attempt cannot lose its claim.
    end: AtomicU8,
}

impl Stops {
    pub(crate) fn new(release: Arc<CancellationToken>) -> Self {
        Self { release, cancel: LazyToken::default(), loss: LazyToken::default(), end: AtomicU8::new(0) }
    }

    /// Returns `false` if the attempt was stopped before.
    pub(crate) fn cancel(&self) -> bool {
        let is_first = !self.is_cancelled();
        if is_first {
            self.cancel.cancel();
        }
        is_first
    }

    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.release.is_cancelled()
    }

    /// The token that stops the handler.
    pub(crate) fn cancellation(&self) -> &CancellationToken {
        self.cancel.token_or(|| self.release.child_token())
    }

    /// Returns `false` if the attempt has ended or lost its claim before.
    pub(crate) fn lose(&self) -> bool {
        let is_first = self.end.compare_exchange(0, LOST, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if is_first {
            self.loss.cancel();
        }
        is_first
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.loss.is_cancelled()
    }

    /// Waits until the claim is taken away.
    pub(crate) async fn lost(&self) {
        self.loss.token_or(CancellationToken::new).cancelled().await;
    }

    /// Records that the handler has ended. Call it before the end is sent to the completer.
    pub(crate) fn finish(&self) {
        self.end.fetch_or(OVER, Ordering::AcqRel);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.end.load(Ordering::Acquire) & OVER != 0
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn stops() -> (Arc<CancellationToken>, Stops) {
        let release = Arc::new(CancellationToken::new());
        (release.clone(), Stops::new(release))
    }

    #[test]
    fn token_created_after_the_stop_is_cancelled() {
        let (_release, stops) = stops();
        assert!(stops.cancel() && !stops.cancel(), "only the first call stops");
        assert!(stops.is_cancelled() && stops.cancellation().is_cancelled());
        assert!(stops.lost().now_or_never().is_none(), "its claim holds");
        assert!(stops.lose() && stops.is_lost());
        assert!(stops.lost().now_or_never().is_some());
    }

    #[test]
    fn token_created_before_the_stop_is_cancelled() {
        let (_release, stops) = stops();
        let token = stops.cancellation().clone();
        assert!(!token.is_cancelled());
        assert!(stops.cancel());
        assert!(token.is_cancelled());
    }

    #[test]
    fn release_of_the_session_stops_its_attempts() {
        let (release, stops) = stops();
        let (other, token) = (Stops::new(release.clone()), stops.cancellation().clone());
        stops.cancel();
        assert!(!release.is_cancelled() && !other.is_cancelled(), "one stop is not the stop of all");
        release.cancel();
        assert!(token.is_cancelled() && other.is_cancelled() && other.cancellation().is_cancelled());
        assert!(!other.cancel(), "it was stopped before");
        assert!(!other.is_lost());
    }

    #[test]
    fn ended_attempt_is_never_lost() {
        let (_release, stops) = stops();
        stops.finish();
        assert!(stops.is_over() && !stops.lose() && !stops.is_lost());
    }

    #[test]
    fn waiter_and_stop_never_miss_each_other() {
        for _ in 0..2_000 {
            let token = LazyToken::default();
            let is_cancelled = std::thread::scope(|scope| {
                let waiter = scope.spawn(|| token.token_or(CancellationToken::new).clone());
                token.cancel();
                waiter.join().unwrap().is_cancelled()
            });
            assert!(is_cancelled);
        }
    }
}
