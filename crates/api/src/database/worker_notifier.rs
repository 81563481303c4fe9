//! Notifies workers of waiting runs, with one notification for several commits.
//!
//! A batch of triggers that takes its turn ([`WorkerNotifier::takes_turn`]) sends the notification
//! behind its commit on the same connection. Another request that has committed a run adds its queue
//! and continues: the notification is sent at once, or together with later notifications [`PAUSE`]
//! after the previous one. Each wakes every listener of the database, so one per trigger would cost
//! more than the triggers. A notification may be lost with the process or the connection: workers
//! also poll.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use sched_runtime::exit::BoxError;
use sched_runtime::monotonic_clock::monotonic;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::database::access::Sessions;

/// Time between two notifications.
const PAUSE: Duration = Duration::from_millis(5);

/// The leader counts runs of schedules and dependencies under the same name.
const CREATED: &str = "sched_dispatches_created_total";

#[derive(Debug, Default)]
pub(crate) struct WorkerNotifier {
    next: Mutex<Next>,
    wake: Notify,
}

/// The next notification.
#[derive(Debug, Default)]
struct Next {
    queues: BTreeSet<String>,
    /// Time of the previous one.
    previous: Option<Instant>,
}

impl Next {
    fn pause(&self, now: Instant) -> Duration {
        let since = |previous| now.saturating_duration_since(previous);
        self.previous.map_or(Duration::ZERO, |previous| PAUSE.saturating_sub(since(previous)))
    }
}

/// Counts committed runs.
pub(crate) fn count_created(count: u64) {
    metrics::counter!(CREATED).increment(count);
}

impl WorkerNotifier {
    /// Counts committed runs, one per named queue, and adds the queues to the next notification.
    pub(crate) fn count_created<'a>(&self, queues: impl IntoIterator<Item = &'a String>) {
        let waiting = &mut self.next().queues;
        let (before, mut count) = (waiting.len(), 0);
        for queue in queues {
            count += 1;
            if !waiting.contains(queue) {
                waiting.insert(queue.clone());
            }
        }
        count_created(count);
        if waiting.len() > before {
            self.wake.notify_one();
        }
    }

    /// Whether the caller may send a notification now: none was sent within [`PAUSE`], and no queue
    /// waits for one. The caller then sends it.
    pub(crate) fn takes_turn(&self, now: Instant) -> bool {
        let mut next = self.next();
        let is_free = next.queues.is_empty() && next.pause(now).is_zero();
        if is_free {
            next.previous = Some(now);
        }
        is_free
    }

    fn next(&self) -> MutexGuard<'_, Next> {
        self.next.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, now: Instant) -> Vec<String> {
        let mut next = self.next();
        next.previous = Some(now);
        std::mem::take(&mut next.queues).into_iter().collect()
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
        let pause = hints.next().pause(monotonic());
        if !is_over {
            tokio::time::sleep(pause).await;
        }
        let queues = hints.take(monotonic());
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_notification_covers_several_runs() {
        let (hints, now) = (WorkerNotifier::default(), monotonic());
        hints.count_created(&["b".to_owned(), "a".to_owned()]);
        hints.count_created(&["b".to_owned()]);
        assert_eq!(hints.take(now), ["a", "b"]);
        assert!(hints.take(now).is_empty());
        hints.count_created(&["b".to_owned()]);
        assert_eq!(hints.take(now), ["b"]);
    }

    #[test]
    fn one_turn_follows_each_pause() {
        let (hints, now) = (WorkerNotifier::default(), monotonic());
        assert!(hints.takes_turn(now));
        assert!(!hints.takes_turn(now));
        hints.count_created(&["a".to_owned()]);
        assert!(!hints.takes_turn(now + PAUSE), "the queue waits for its notification");
        assert_eq!(hints.take(now + PAUSE), ["a"]);
        assert!(!hints.takes_turn(now + PAUSE));
        assert!(hints.takes_turn(now + 2 * PAUSE));
    }
}
