//! Waits for a process to end, or makes it.
//!
//! Time up or cancelled: soft signal to the process group, then a grace in which the *whole* group may tidy up, then
//! the kill of the tree. It decides when, `strays` and `running` know how. Every wait is bounded. Meanwhile zombies
//! that the process's descendants leave to us are reaped every few seconds, so that a long attempt cannot pile them up.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use sched_model::fault_injection::{self, Fence};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::running::Running;

/// How often zombies are looked for while an attempt runs.
const REAP_PERIOD: Duration = Duration::from_secs(5);
/// How often the group is looked at during the grace; nothing announces that a group has become empty.
const GRACE_POLL: Duration = Duration::from_millis(20);
/// A killed process is gone within milliseconds unless the kernel itself is stuck on a disk or a network share.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// How long an attempt may take.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience {
    /// Until the soft signal.
    pub(super) timeout: Duration,
    /// From the soft signal to the kill.
    pub(super) grace: Duration,
}

/// How a process ended.
#[derive(Debug)]
pub(super) enum Ending {
    /// Of its own accord.
    Exited(io::Result<ExitStatus>),
    /// Because we made it.
    Stopped {
        /// What made us.
        reason: StopReason,
        /// Whether something of it outlasted the grace.
        killed: bool,
        /// Its exit status; `None` if even the kill has not ended it yet.
        status: Option<ExitStatus>,
    },
}

impl Ending {
    pub(super) fn was_stopped(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }
}

/// Why a process was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    TimedOut,
    Cancelled,
}

/// Waits for the process to exit; stops it when its time is up or it is cancelled.
pub(super) async fn until_it_ends(
    running: &mut Running,
    patience: Patience,
    cancel: &CancellationToken,
) -> Ending {
    let time_up = sleep(patience.timeout);
    tokio::pin!(time_up);
    let reason = loop {
        tokio::select! {
            biased;
            status = running.wait() => return Ending::Exited(status),
            () = cancel.cancelled() => break StopReason::Cancelled,
            () = &mut time_up, if fault_injection::stands(Fence::JobTimeout) => break StopReason::TimedOut,
            () = sleep(REAP_PERIOD) => running.reap_zombies(),
        }
    };
    running.terminate();
    let killed = timeout(patience.grace, everything_gone(running)).await.is_err();
    if killed {
        running.kill_tree();
    }
    // Neither an error nor running out of time changes the outcome: it was stopped. What survives is named in a note.
    let status = timeout(KILL_WAIT, running.wait()).await.ok().and_then(Result::ok);
    Ending::Stopped { reason, killed, status }
}

/// Waits, without end, until the process has exited and left nothing behind.
async fn everything_gone(running: &mut Running) {
    // Its status is asked for again by the caller, which then gets the same answer or the same error.
    if running.wait().await.is_err() {
        return;
    }
    while running.has_strays() {
        sleep(GRACE_POLL).await;
    }
}
