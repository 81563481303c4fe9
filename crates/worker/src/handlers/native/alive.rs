//! Detects whether a handler has really ended. An aborted task does not prove it: a thread cannot
//! be aborted.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::context::Ctx;

#[derive(Debug, Clone, Default)]
pub(super) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(super) fn get(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

/// Held until the handler has completely ended. Its drop ends [`Ctx::gone`].
#[derive(Debug)]
pub(super) struct Alive {
    count: Count,
    ctx: Ctx,
}

impl Alive {
    pub(super) fn new(count: &Count, ctx: Ctx) -> Self {
        count.0.fetch_add(1, Ordering::AcqRel);
        Self { count: count.clone(), ctx }
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.ctx.leave();
        self.count.0.fetch_sub(1, Ordering::AcqRel);
    }
}
