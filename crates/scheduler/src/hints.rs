//! Forwards notifications of PostgreSQL to the parts of the scheduler that wait for them.
//!
//! A notification only ends a wait early. Every part also polls, so a lost one costs time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sched_model::Database;
use sched_model::connection::notify::{self, Hint};
use sched_runtime::tasks::BoxError;
use tokio::sync::Notify;

use crate::leader_scope::Board;

/// Set by notifications or for them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Flags {
    /// A user requested a check for lost attempts.
    pub(crate) recovery_requested: Arc<AtomicBool>,
    /// The counters are polled rarely.
    pub(crate) counters_idle: Arc<AtomicBool>,
}

/// Forwards notifications: changes of jobs to the tick and the cursors, ends of jobs to the
/// dependents task, new runs to idle counters, rules and messages to the notifier, resignations and
/// step-down requests to the election.
pub(crate) async fn listen(
    database: Database,
    board: Arc<Board>,
    election: Arc<Notify>,
    flags: Flags,
) -> Result<(), BoxError> {
    let wake = |name: &str| {
        for task in board.borrow().iter().filter(|task| task.name == name) {
            task.wake.wake();
        }
    };
    let channels = [
        notify::JOBS_CHANNEL,
        notify::ENDS_CHANNEL,
        notify::DISPATCH_CHANNEL,
        notify::RECOVERY_CHANNEL,
        notify::NOTIFICATIONS_CHANNEL,
        notify::LEADER_CHANNEL,
    ];
    notify::listen(&database, &channels, |hint| match hint {
        Hint::Notified { channel, .. } if channel == notify::JOBS_CHANNEL => {
            ["cursors", "dispatch"].into_iter().for_each(wake);
        }
        Hint::Notified { channel, .. } if channel == notify::ENDS_CHANNEL => {
            ["counters", "dependents"].into_iter().for_each(wake);
        }
        Hint::Notified { channel, .. } if channel == notify::DISPATCH_CHANNEL => {
            if flags.counters_idle.swap(false, Ordering::Relaxed) {
                wake("counters");
            }
        }
        Hint::Notified { channel, .. } if channel == notify::NOTIFICATIONS_CHANNEL => wake("notify"),
        Hint::Notified { channel, .. } if channel == notify::RECOVERY_CHANNEL => {
            // A request counts only for the present leader: a later leader did not receive it.
            flags.recovery_requested.store(!board.borrow().is_empty(), Ordering::Relaxed);
            ["recover", "overdue", "strays"].into_iter().for_each(wake);
        }
        Hint::Notified { .. } => election.notify_one(),
        // Polling continues without notifications.
        Hint::Disconnected => {}
        Hint::Reconnected => {
            wake("cursors");
            wake("dispatch");
            wake("dependents");
            election.notify_one();
        }
    })
    .await;
    Ok(())
}
