//! Reads the output of a process while it runs, always, so that it never blocks on a full pipe.
//!
//! What is kept is bounded by [`Capture`]; the rest is read and counted. The state lives here and not in the futures,
//! so every read may be abandoned at any time without losing a byte. The end of a pipe is never waited for without a
//! deadline: whoever inherited it may hold it open for ever.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe::Receiver;

use super::super::Live;
use super::super::capture::{Capture, Captured};
use super::super::storable::Decoder;
use super::running::Running;

/// Bytes read at once; a pipe holds 64 KiB.
const READ_BYTES: usize = 16 * 1024;

/// Both output streams of a process.
#[derive(Debug)]
pub(super) struct Pipes {
    stdout: Stream<Receiver>,
    stderr: Stream<Receiver>,
}

impl Pipes {
    /// Takes the pipes of a process, keeping at most `limit` bytes of each, and telling what comes.
    pub(super) fn of(running: &mut Running, limit: u64, live: &Live) -> Self {
        let (stdout, stderr) = running.take_output();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let told = |name| Told { name, live: live.clone(), decoder: Decoder::default() };
        Self {
            stdout: Stream::new(stdout, limit, told("stdout")),
            stderr: Stream::new(stderr, limit, told("stderr")),
        }
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
    told: Told,
    buffer: Vec<u8>,
}

/// Tells what a stream brings, to those who watch. All live output of a process passes here, so this is the place for whatever has to
/// be kept from them.
#[derive(Debug)]
struct Told {
    name: &'static str,
    live: Live,
    decoder: Decoder,
}

impl Told {
    fn push(&mut self, bytes: &[u8]) {
        if self.live.has_room() {
            self.live.output(self.name, self.decoder.push(bytes));
        } else {
            self.live.skipped(self.name, self.decoder.reset() + bytes.len());
        }
    }

    fn finish(&mut self) {
        self.live.output(self.name, self.decoder.finish());
    }
}

impl<R: AsyncRead + Unpin> Stream<R> {
    fn new(pipe: Option<R>, limit: usize, told: Told) -> Self {
        Self { pipe, kept: Capture::new(limit), told, buffer: Vec::with_capacity(READ_BYTES) }
    }

    async fn read(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            self.buffer.clear();
            match pipe.read_buf(&mut self.buffer).await {
                // An error of a pipe means that nothing more will come, as its end does.
                Ok(0) | Err(_) => {
                    self.told.finish();
                    self.pipe = None;
                }
                Ok(_) => {
                    self.kept.push(&self.buffer);
                    self.told.push(&self.buffer);
                }
            }
        }
    }
}
