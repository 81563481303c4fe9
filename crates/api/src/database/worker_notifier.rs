//! Hints to the workers that runs wait: one for all that were made at about the same time.
//!
//! Whoever has committed a run names its queue here and goes on. Each queue is told at once when nothing was told for a moment, and
//! otherwise with the others after [`PAUSE`]: a notification wakes every listener of the database, so one for each of thousands of triggers
//! a second would cost more than the triggers. A hint may be lost, with the process or with the connection: workers look by themselves.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use actix_web::web;
use sched_runtime::exit::BoxError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::state::ApiState;

/// Between two notifications. A trigger that finds none underway is told of at once; one that comes right after another waits so long at most.
const PAUSE: Duration = Duration::from_millis(5);

/// Counts runs that are committed; the leader counts those of schedules and dependencies under the same name.
const MADE: &str = "sched_dispatches_created_total";

/// The queues in which something waits of which the workers were not told yet.
#[derive(Debug, Default)]
pub(crate) struct Hints {
    queues: Mutex<BTreeSet<String>>,
    wake: Notify,
}

impl Hints {
    /// Runs were made in these queues, one for each that is named, and are committed. Counts them.
    pub(crate) fn made_in<'a>(&self, queues: impl IntoIterator<Item = &'a String>) {
        let made = metrics::counter!(MADE);
        let mut untold = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let before = untold.len();
        for queue in queues {
            made.increment(1);
            if !untold.contains(queue) {
                untold.insert(queue.clone());
            }
        }
        if untold.len() > before {
            self.wake.notify_one();
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.queues.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }
}

/// Tells the workers until `stop`, and then of what is left.
///
/// # Errors
/// None; it is a task as others.
pub(crate) async fn tell(state: web::Data<ApiState>, stop: CancellationToken) -> Result<(), BoxError> {
    // Shown before there is one: growth from nothing cannot be seen.
    metrics::counter!(MADE).increment(0);
    loop {
        let is_over = tokio::select! {
            () = stop.cancelled() => true,
            () = state.hints.wake.notified() => false,
        };
        let queues = state.hints.take();
        if !queues.is_empty()
            && let Err(error) = state.sessions.tell_workers(&queues).await
        {
            let cause = error.with_causes();
            tracing::warn!(error = cause, whom = "workers", "A hint is lost; they look by themselves.");
        }
        if is_over {
            return Ok(());
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_is_told_once_for_all_that_came_to_wait_in_it() {
        let hints = Hints::default();
        hints.made_in(&["b".to_owned(), "a".to_owned()]);
        hints.made_in(&["b".to_owned()]);
        assert_eq!(hints.take(), ["a", "b"]);
        assert!(hints.take().is_empty());
        hints.made_in(&["b".to_owned()]);
        assert_eq!(hints.take(), ["b"]);
    }
}
