//! Detects whether a handler has really ended. An aborted task does not prove it: a thread cannot
//! be aborted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::oneshot;

#[derive(Debug, Clone, Default)]
pub(super) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// Held until the handler has completely ended.
#[derive(Debug)]
pub(super) struct Alive {
    count: Count,
    _gone: oneshot::Sender<std::convert::Infallible>,
}

impl Alive {
    /// The receiver resolves when the guard is dropped.
    pub(super) fn new(count: &Count) -> (Self, oneshot::Receiver<std::convert::Infallible>) {
        let (gone, when_gone) = oneshot::channel();
        count.0.fetch_add(1, Ordering::AcqRel);
        (Self { count: count.clone(), _gone: gone }, when_gone)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.count.0.fetch_sub(1, Ordering::AcqRel);
    }
}
