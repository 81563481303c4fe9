//! Reads the output of a process all the time, so that the process never blocks on a full pipe.
//!
//! The state is not in the futures, so cancelling a read loses no byte. Waiting for the end of a
//! pipe always has a deadline: a process that inherited it may hold it open forever.

use std::future::Future;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::unix::pipe::Receiver;

use super::super::Live;
use super::super::capture::{Capture, CapturedOutput};
use super::super::storable::Decoder;
use super::running::Running;

/// A pipe holds 64 KiB.
const READ_BYTES: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Pipes {
    stdout: Stream<Receiver>,
    stderr: Stream<Receiver>,
}

impl Pipes {
    /// At most `limit` bytes of each pipe.
    pub(super) fn of(running: &mut Running, limit: u64, live: &Live) -> Self {
        let (stdout, stderr) = running.take_output();
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let live_stream = |name| LiveStream { name, live: live.clone(), decoder: Decoder::default() };
        Self {
            stdout: Stream::new(stdout, limit, live_stream("stdout")),
            stderr: Stream::new(stderr, limit, live_stream("stderr")),
        }
    }

    async fn read(&mut self) {
        tokio::join!(self.stdout.read(), self.stderr.read());
    }

    pub(super) async fn read_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        tokio::pin!(work);
        tokio::select! {
            done = &mut work => return done,
            () = self.read() => {}
        }
        work.await
    }

    pub(super) async fn drain(&mut self, limit: Duration) {
        // Another process may hold the pipe open. The bytes read so far are kept.
        if tokio::time::timeout(limit, self.read()).await.is_err() {
            tracing::debug!("pipe still open at the end of an attempt");
        }
    }

    pub(super) fn finish(self) -> (CapturedOutput, CapturedOutput) {
        (self.stdout.capture.finish(), self.stderr.capture.finish())
    }
}

#[derive(Debug)]
struct Stream<R> {
    /// `None` after the end of the stream.
    pipe: Option<R>,
    capture: Capture,
    live_stream: LiveStream,
    buffer: Vec<u8>,
}

/// All live output of a process passes here, so filters belong here.
#[derive(Debug)]
struct LiveStream {
    name: &'static str,
    live: Live,
    decoder: Decoder,
}

impl LiveStream {
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
    fn new(pipe: Option<R>, limit: usize, live_stream: LiveStream) -> Self {
        Self { pipe, capture: Capture::new(limit), live_stream, buffer: Vec::with_capacity(READ_BYTES) }
    }

    async fn read(&mut self) {
        while let Some(pipe) = &mut self.pipe {
            self.buffer.clear();
            match pipe.read_buf(&mut self.buffer).await {
                // After an error a pipe delivers no more bytes, as after its end.
                Ok(0) | Err(_) => {
                    self.live_stream.finish();
                    self.pipe = None;
                }
                Ok(_) => {
                    self.capture.push(&self.buffer);
                    self.live_stream.push(&self.buffer);
                }
            }
        }
    }
}
