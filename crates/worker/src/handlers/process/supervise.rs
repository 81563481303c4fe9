//! Waits for a process to end, or stops it.
//!
//! On timeout or cancellation: first the soft signal to the process group, then a grace period for
//! the *whole* group, then the kill of the tree. Every wait is bounded. Zombies are reaped every
//! few seconds, so that they cannot accumulate during a long attempt.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use sched_model::fault_injection::{self, Fence};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::running::Running;

const REAP_PERIOD: Duration = Duration::from_secs(5);
/// There is no notification of an empty group.
const GRACE_POLL: Duration = Duration::from_millis(20);
/// A killed process is gone within milliseconds, unless the kernel is stuck on a disk or a network
/// share.
const KILL_WAIT: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimits {
    /// Until the soft signal.
    pub(super) timeout: Duration,
    /// From the soft signal to the kill.
    pub(super) grace: Duration,
}

#[derive(Debug)]
pub(super) enum Ending {
    /// Not stopped by the worker.
    Exited(io::Result<ExitStatus>),
    Stopped {
        reason: StopReason,
        /// A process outlived the grace period.
        killed: bool,
        /// `None` if the process outlived the kill.
        status: Option<ExitStatus>,
    },
}

impl Ending {
    pub(super) fn was_stopped(&self) -> bool {
        matches!(self, Self::Stopped { .. })
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    TimedOut,
    Cancelled,
}

pub(super) async fn until_it_ends(
    running: &mut Running,
    time_limits: TimeLimits,
    cancel: &CancellationToken,
) -> Ending {
    let time_up = sleep(time_limits.timeout);
    tokio::pin!(time_up);
    let reason = loop {
        tokio::select! {
            biased;
            status = running.wait() => return Ending::Exited(status),
            () = cancel.cancelled() => break StopReason::Cancelled,
            () = &mut time_up, if fault_injection::is_active(Fence::JobTimeout) => break StopReason::TimedOut,
            () = sleep(REAP_PERIOD) => running.reap_zombies(),
        }
    };
    running.terminate();
    let killed = timeout(time_limits.grace, wait_until_ended(running)).await.is_err();
    if killed {
        running.kill_tree();
    }
    // Neither an error nor a timeout changes the outcome. A note names the survivors.
    let status = timeout(KILL_WAIT, running.wait()).await.ok().and_then(Result::ok);
    Ending::Stopped { reason, killed, status }
}

/// Waits, without a deadline, until the process and all survivors are gone.
async fn wait_until_ended(running: &mut Running) {
    // The caller waits again and gets the same result.
    if running.wait().await.is_err() {
        return;
    }
    while running.has_strays() {
        sleep(GRACE_POLL).await;
    }
}
