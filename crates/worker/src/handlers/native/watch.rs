//! Notices when handlers block all of their threads.
//!
//! Now and then a task that does nothing is started beside the handlers. If it has not run by the next look, no thread was free all
//! that time: that is logged once and shown in a metric until it has run. Nothing else follows from it.

use std::sync::{Mutex, PoisonError};

use sched_runtime::tasks::{OwnedTask, spawn_owned_on};
use tokio::runtime::Handle;

/// The task that was started last.
#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    task: Option<OwnedTask<()>>,
    was_told: bool,
}

impl Watch {
    /// One look.
    pub(super) fn look(&self, threads: &Handle) {
        // Every change leaves it whole.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_blocked = last.task.as_ref().is_some_and(|task| !task.is_finished());
        metrics::gauge!("sched_native_threads_blocked").set(f64::from(u8::from(is_blocked)));
        if !is_blocked {
            *last = Last { task: Some(spawn_owned_on(threads, "watch", async {})), was_told: false };
        } else if !last.was_told {
            last.was_told = true;
            tracing::warn!(
                "Native handlers block all of their threads, so that no other can go on; register those that block as blocking handlers."
            );
        }
    }
}
