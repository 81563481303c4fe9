//! Notifies workers of waiting runs, with one notification for several commits.
//!
//! A request that has committed a run adds its queue and continues. The notification is sent at
//! once, or together with others [`PAUSE`] after the previous one. Each wakes every listener of the
//! database, so one per trigger would cost more than the triggers. A notification may be lost with
//! the process or the connection: workers also poll.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sched_runtime::exit::BoxError;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::database::access::Sessions;

/// Time between two notifications.
const PAUSE: Duration = Duration::from_millis(5);

/// The leader counts runs of schedules and dependencies under the same name.
const CREATED: &str = "sched_dispatches_created_total";

#[derive(Debug, Default)]
pub(crate) struct WorkerNotifier {
    queues: Mutex<BTreeSet<String>>,
    wake: Notify,
}

impl WorkerNotifier {
    pub(crate) fn count_created<'a>(&self, queues: impl IntoIterator<Item = &'a String>) {
        let created = metrics::counter!(CREATED);
        let mut waiting = self.queues.lock().unwrap_or_else(PoisonError::into_inner);
        let before = waiting.len();
        for queue in queues {
            created.increment(1);
            if !waiting.contains(queue) {
                waiting.insert(queue.clone());
            }
        }
        if waiting.len() > before {
            self.wake.notify_one();
        }
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.queues.lock().unwrap_or_else(PoisonError::into_inner)).into_iter().collect()
    }
}

/// Runs until `stop`, then notifies of the remaining queues.
pub(crate) async fn notify_workers(
    hints: Arc<WorkerNotifier>,
    sessions: Sessions,
    stop: CancellationToken,
) -> Result<(), BoxError> {
    // Exported before its first increment: a rate cannot see the growth from an absent counter.
    metrics::counter!(CREATED).increment(0);
    loop {
        let is_over = tokio::select! {
            () = stop.cancelled() => true,
            () = hints.wake.notified() => false,
        };
        let queues = hints.take();
        if !queues.is_empty()
            && let Err(error) = sessions.notify_workers(&queues).await
        {
            let cause = error.with_causes();
            tracing::warn!(
                error = cause,
                whom = "workers",
                "NOTIFY failed; workers will find the work on their next poll"
            );
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
    fn one_notification_covers_several_runs() {
        let hints = WorkerNotifier::default();
        hints.count_created(&["b".to_owned(), "a".to_owned()]);
        hints.count_created(&["b".to_owned()]);
        assert_eq!(hints.take(), ["a", "b"]);
        assert!(hints.take().is_empty());
        hints.count_created(&["b".to_owned()]);
        assert_eq!(hints.take(), ["b"]);
    }
}
