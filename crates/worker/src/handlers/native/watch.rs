//! Detects handlers that block all of their threads.
//!
//! Each check starts an empty task on these threads. If it has not run by the next check, no thread
//! was free. The worker logs this once and sets a metric until the task has run.

use std::sync::{Mutex, PoisonError};

use sched_runtime::tasks::{OwnedTask, spawn_owned_on};
use tokio::runtime::Handle;

#[derive(Debug, Default)]
pub(super) struct Watch(Mutex<Last>);

#[derive(Debug, Default)]
struct Last {
    task: Option<OwnedTask<()>>,
    is_logged: bool,
}

impl Watch {
    pub(super) fn check(&self, threads: &Handle) {
        // Every change leaves it consistent.
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_blocked = last.task.as_ref().is_some_and(|task| !task.is_finished());
        metrics::gauge!("sched_native_threads_blocked").set(f64::from(u8::from(is_blocked)));
        if !is_blocked {
            *last = Last { task: Some(spawn_owned_on(threads, "watch", async {})), is_logged: false };
        } else if !last.is_logged {
            last.is_logged = true;
            tracing::warn!("native handlers block all of their threads; register them with blocking_handler");
        }
    }
}
