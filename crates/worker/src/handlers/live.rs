//! Live output and progress of a running attempt.
//!
//! Sending never waits, so a slow database never slows the handler down. The sender drops and
//! counts events that the receiver cannot take at once; the report contains the output again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;

use super::scrub::{ScrubbedStream, Scrubber};
use crate::attempt::live::{AttemptKey, LiveBuffer};

#[derive(Debug, Clone, PartialEq)]
pub enum LiveEvent {
    Output {
        /// `stdout`, `stderr` or `log`.
        stream: &'static str,
        /// Without NUL.
        text: String,
    },
    Progress {
        percent: Option<f32>,
        message: String,
    },
}

#[derive(Debug, Clone, Default)]
pub struct Live {
    sink: Sink,
    /// Removes the secrets of the attempt from every event.
    scrubbing: Option<Arc<Scrubbing>>,
}

/// For several streams that arrive in pieces.
#[derive(Debug)]
struct Scrubbing {
    scrubber: Arc<Scrubber>,
    streams: Mutex<BTreeMap<&'static str, Piecewise>>,
}

#[derive(Debug)]
struct Piecewise {
    scrubbed: ScrubbedStream,
    /// The next piece may begin in the middle of a secret.
    is_after_gap: bool,
}

impl Scrubbing {
    fn output(&self, stream: &'static str, text: &str) -> String {
        self.with(stream, |of| {
            if std::mem::take(&mut of.is_after_gap) {
                of.scrubbed.feed(&self.scrubber.scrub_tail(text))
            } else {
                of.scrubbed.feed(text)
            }
        })
    }

    /// Held text of the stream is dropped with the skipped bytes.
    fn skip(&self, stream: &'static str) {
        self.with(stream, |of| *of = Piecewise { scrubbed: self.scrubber.stream(), is_after_gap: true });
    }

    fn with<T>(&self, stream: &'static str, act: impl FnOnce(&mut Piecewise) -> T) -> T {
        // A panic leaves at worst a stream that holds back too much.
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        act(streams
            .entry(stream)
            .or_insert_with(|| Piecewise { scrubbed: self.scrubber.stream(), is_after_gap: false }))
    }
}

#[derive(Debug, Clone, Default)]
enum Sink {
    #[default]
    Discard,
    Channel(mpsc::Sender<LiveEvent>),
    Board(Arc<LiveBuffer>, AttemptKey),
}

impl Live {
    #[must_use]
    pub fn detached() -> Self {
        Self::default()
    }

    /// At most `capacity` events.
    #[must_use]
    pub fn channel(capacity: usize) -> (Self, mpsc::Receiver<LiveEvent>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self { sink: Sink::Channel(sender), scrubbing: None }, receiver)
    }

    /// Events without secrets.
    pub(crate) fn on(board: Arc<LiveBuffer>, attempt: AttemptKey, scrubber: Arc<Scrubber>) -> Self {
        let scrubbing =
            (!scrubber.is_idle()).then(|| Arc::new(Scrubbing { scrubber, streams: Mutex::default() }));
        Self { sink: Sink::Board(board, attempt), scrubbing }
    }

    /// Sends a piece of output, which must not contain NUL.
    pub fn output(&self, stream: &'static str, text: String) {
        let text = match &self.scrubbing {
            Some(scrubbing) => scrubbing.output(stream, &text),
            None => text,
        };
        if !text.is_empty() {
            self.send(LiveEvent::Output { stream, text });
        }
    }

    /// `percent` is from 0 to 100, if known.
    pub fn progress(&self, percent: Option<f32>, message: impl Into<String>) {
        self.send(LiveEvent::Progress { percent, message: self.without_secrets(message.into()) });
    }

    pub(super) fn without_secrets(&self, text: String) -> String {
        match &self.scrubbing {
            Some(scrubbing) => scrubbing.scrubber.scrub(&text).into_owned(),
            None => text,
        }
    }

    pub(super) const fn is_heard(&self) -> bool {
        !matches!(self.sink, Sink::Discard)
    }

    /// Callers check this before they prepare output.
    pub(super) fn has_room(&self) -> bool {
        match &self.sink {
            Sink::Discard => false,
            Sink::Channel(sender) => sender.capacity() > 0,
            Sink::Board(board, attempt) => board.has_room(attempt.token),
        }
    }

    /// Bytes that were not sent.
    pub(super) fn skipped(&self, stream: &'static str, bytes: usize) {
        if let Some(scrubbing) = &self.scrubbing {
            scrubbing.skip(stream);
        }
        if let Sink::Board(board, attempt) = &self.sink {
            board.skip(*attempt, stream, bytes);
        }
    }

    fn send(&self, event: LiveEvent) {
        let is_taken = match &self.sink {
            Sink::Discard => true,
            Sink::Channel(sender) => sender.try_send(event).is_ok(),
            Sink::Board(board, attempt) => board.take(*attempt, event),
        };
        if !is_taken {
            metrics::counter!("sched_live_events_dropped_total").increment(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use secrecy::SecretString;

    use super::super::Secrets;
    use super::*;

    fn scrubbed_channel() -> (Live, mpsc::Receiver<LiveEvent>) {
        let secrets = Secrets::from_iter([("token".to_owned(), SecretString::from("hunter2hunter2"))]);
        let scrubbing = Scrubbing { scrubber: Arc::new(Scrubber::new(&secrets)), streams: Mutex::default() };
        let (live, receiver) = Live::channel(10);
        (Live { scrubbing: Some(Arc::new(scrubbing)), ..live }, receiver)
    }

    fn text(receiver: &mut mpsc::Receiver<LiveEvent>) -> String {
        let mut all = String::new();
        while let Ok(event) = receiver.try_recv() {
            match event {
                LiveEvent::Output { text, .. } => all.push_str(&text),
                LiveEvent::Progress { message, .. } => all.push_str(&message),
            }
        }
        all
    }

    #[test]
    fn live_output_never_contains_a_secret() {
        let (live, mut receiver) = scrubbed_channel();
        live.output("stdout", "a hunter2hun".into());
        live.output("stderr", "ter2 ".into());
        live.output("stdout", "ter2 b ".into());
        live.progress(None, "with hunter2hunter2");
        let all = text(&mut receiver);
        assert!(!all.contains("hunter2"), "{all}");
        assert!(all.contains("[secret token] b ") && all.contains("with [secret token]"), "{all}");
    }

    #[test]
    fn secret_end_after_a_gap_is_scrubbed() {
        let (live, mut receiver) = scrubbed_channel();
        live.output("stdout", "a hunter2".into());
        live.skipped("stdout", 3);
        live.output("stdout", "ter2 b ".into());
        let all = text(&mut receiver);
        assert!(all.contains(" b ") && !all.contains("ter2"), "{all}");
    }
}
