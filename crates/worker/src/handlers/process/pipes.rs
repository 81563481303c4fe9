//! Reads the output of a process while it runs, always, so that it never blocks on a full pipe.
//!
//! What is kept is bounded by [`Capture`]; the rest is read and counted. The state lives here and not in the futures,
//! so every read may be abandoned at any time without losing a byte. The end of a pipe is never waited for without a
//! deadline: whoever inherited it may hold it open for ever.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{ChildStderr, ChildStdout};

use super::super::capture::{Capture, Captured};
use super::running::Running;

/// Bytes read at once; a pipe holds 64 KiB.
const READ_BYTES: usize = 16 * 1024;

/// Both output streams of a process.
#[derive(Debug)]
pub(super) struct Pipes {
    stdout: Stream<ChildStdout>,
    stderr: Stream<ChildStderr>,
}

impl Pipes {
    /// Takes the pipes of a process, keeping at most `limit` bytes of each.
    pub(super) fn of(running: &mut Running, limit: u64) -> Self {
        let (stdout, stderr) = running.take_output();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        Self { stdout: Stream::new(stdout, limit), stderr: Stream::new(stderr, limit) }
    }

    /// Reads until both streams have ended.
    async fn read(&mut self) {
        tokio::join!(self.stdout.read(), self.stderr.read());
    }

    /// Reads for as long as `work` takes.
    pub(super) async fn read_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = self.read() => {}
        }
        work.await
    }

    /// Reads what there is still to come, for a limited time.
    pub(super) async fn drain(&mut self, limit: Duration) {
        // Running out of time is the expected end when a stranger holds the pipe; what was read is kept.
        if tokio::time::timeout(limit, self.read()).await.is_err() {
            tracing::debug!("A pipe was still open at the end of an attempt.");
        }
    }

    /// Closes the pipes and gives what was kept of stdout and stderr.
    pub(super) fn finish(self) -> (Captured, Captured) {
        (self.stdout.kept.finish(), self.stderr.kept.finish())
    }
}

#[derive(Debug)]
struct Stream<R> {
    /// `None` once it has ended.
    pipe: Option<R>,
    kept: Capture,
    buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(pipe: Option<R>, limit: usize) -> Self {
        Self { pipe, kept: Capture::new(limit), buffer: Vec::with_capacity(READ_BYTES) }
    }

    async fn read(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            self.buffer.clear();
            match pipe.read_buf(&mut self.buffer).await {
                // An error of a pipe means that nothing more will come, as its end does.
                Ok(0) | Err(_) => self.pipe = None,
                Ok(_) => self.kept.push(&self.buffer),
            }
        }
    }
}
