//! Signals and the two stages of shutdown.
//!
//! The first SIGTERM, SIGINT or SIGHUP requests an orderly stop, the second one an immediate stop.
//! The daemon decides the order in which its parts stop. The operating system merges signals that
//! arrive faster than the task reads them, but never loses all of them.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

#[derive(Debug, Clone, Default)]
pub struct Shutdown {
    /// After the first signal: accept no new work, finish, exit.
    pub soft: CancellationToken,
    /// After the second signal: exit at once.
    pub hard: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot listen for signals")]
pub struct SignalError(#[source] io::Error);

impl Shutdown {
    /// Stages without signals, for tests and in-process use.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Installs the signal handlers; needs a tokio runtime.
    ///
    /// # Errors
    /// If the operating system rejects a handler.
    pub fn listen() -> Result<Self, SignalError> {
        let shutdown = Self::new();
        let signals = Signals {
            terminate: signal(SignalKind::terminate()).map_err(SignalError)?,
            interrupt: signal(SignalKind::interrupt()).map_err(SignalError)?,
            hangup: signal(SignalKind::hangup()).map_err(SignalError)?,
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "lives as long as the runtime and cannot end on its own"
        )]
        tokio::spawn(shutdown.clone().follow(signals));
        Ok(shutdown)
    }

    /// Advances by one stage, like a signal.
    pub fn trigger(&self) {
        if self.soft.is_cancelled() {
            self.hard.cancel();
        }
        self.soft.cancel();
    }

    async fn follow(self, mut signals: Signals) {
        loop {
            let name = signals.next().await;
            if self.soft.is_cancelled() {
                tracing::warn!(signal = name, "Received a second signal, stopping at once.");
            } else {
                tracing::info!(signal = name, "Received a signal, stopping.");
            }
            self.trigger();
        }
    }
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            _ = self.hangup.recv() => "SIGHUP",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ParentError {
    /// The parent has ended.
    #[error("parent process {expected} is gone already; the parent is {actual}")]
    Gone { expected: i32, actual: i32 },
    #[error("cannot tie this process to its parent")]
    Refused(#[source] nix::Error),
}

/// The kernel sends SIGTERM to this process at any end of its parent `parent`, even SIGKILL.
///
/// Has an effect on Linux only. The kernel watches the *thread* that started this process, which
/// must therefore live as long as the parent.
///
/// # Errors
/// If the parent has ended or the kernel rejects the request.
pub fn exit_with_parent(parent: i32) -> Result<(), ParentError> {
    #[cfg(target_os = "linux")]
    {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGTERM).map_err(ParentError::Refused)?;
        // After the call above: the signal does not report a parent that ended before that call.
        let actual = nix::unistd::getppid().as_raw();
        if actual != parent {
            return Err(ParentError::Gone { expected: parent, actual });
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = parent;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::{Signal as Kind, raise};

    #[test]
    fn the_first_trigger_is_soft_and_the_second_hard() {
        let shutdown = Shutdown::new();
        let clone = shutdown.clone();
        assert!(!clone.soft.is_cancelled());
        shutdown.trigger();
        assert!(clone.soft.is_cancelled() && !clone.hard.is_cancelled());
        shutdown.trigger();
        assert!(clone.hard.is_cancelled());
    }

    #[tokio::test]
    async fn each_signal_asks_for_the_next_stage() {
        let shutdown = Shutdown::listen().unwrap();
        raise(Kind::SIGHUP).unwrap();
        shutdown.soft.cancelled().await;
        assert!(!shutdown.hard.is_cancelled());
        raise(Kind::SIGTERM).unwrap();
        shutdown.hard.cancelled().await;
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_is_tied_to_its_true_parent_only() {
        let parent = nix::unistd::getppid().as_raw();
        exit_with_parent(parent).unwrap();
        assert_eq!(nix::sys::prctl::get_pdeathsig().unwrap(), Some(Kind::SIGTERM));
        let error = exit_with_parent(parent + 1).unwrap_err();
        assert!(matches!(error, ParentError::Gone { actual, .. } if actual == parent), "{error}");
    }
}
