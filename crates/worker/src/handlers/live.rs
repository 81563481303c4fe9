//! What a running attempt tells before it ends: output as it comes, and progress.
//!
//! A handler tells and goes on: nothing here waits, so a slow database never slows work down. What is told is a courtesy for
//! people who watch; the record of the attempt is its report, which holds the output again. What cannot be taken at once is
//! therefore dropped, and counted. A process that dies has told what it has told.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sched_model::domain::ids::{ClaimToken, DispatchId};
use tokio::sync::mpsc;

use super::scrub::{ScrubbedStream, Scrubber};
use crate::attempt::live::Board;

/// One thing told.
#[derive(Debug, Clone, PartialEq)]
pub enum LiveEvent {
    /// A piece of output.
    Output {
        /// `stdout`, `stderr` or `log`.
        stream: &'static str,
        /// The text, storable as it is.
        text: String,
    },
    /// How far the work has come.
    Progress {
        /// 0 to 100, where it is known.
        percent: Option<f32>,
        /// What it does now, for people.
        message: String,
    },
}

/// Where a handler tells.
#[derive(Debug, Clone, Default)]
pub struct Live {
    to: To,
    /// Takes the secrets of the attempt out of all that is told.
    scrubbing: Option<Arc<Scrubbing>>,
}

/// What is told comes in pieces, of several streams side by side.
#[derive(Debug)]
struct Scrubbing {
    scrubber: Arc<Scrubber>,
    streams: Mutex<BTreeMap<&'static str, Piecewise>>,
}

/// One stream.
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

    /// What was held back goes with what is left out.
    fn skip(&self, stream: &'static str) {
        self.with(stream, |of| *of = Piecewise { scrubbed: self.scrubber.stream(), is_after_gap: true });
    }

    fn with<T>(&self, stream: &'static str, act: impl FnOnce(&mut Piecewise) -> T) -> T {
        // A panic while the lock was held leaves a stream that holds back too much at worst.
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        act(streams
            .entry(stream)
            .or_insert_with(|| Piecewise { scrubbed: self.scrubber.stream(), is_after_gap: false }))
    }
}

/// Who hears it.
#[derive(Debug, Clone, Default)]
enum To {
    #[default]
    Nobody,
    /// Whoever holds the receiver.
    Channel(mpsc::Sender<LiveEvent>),
    /// The worker, which shows it to those who watch the attempt.
    Board(Arc<Board>, DispatchId, ClaimToken),
}

impl Live {
    /// Tells nobody.
    #[must_use]
    pub fn detached() -> Self {
        Self::default()
    }

    /// Tells whoever reads the receiver, which holds at most `capacity` events.
    #[must_use]
    pub fn channel(capacity: usize) -> (Self, mpsc::Receiver<LiveEvent>) {
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        (Self { to: To::Channel(sender), scrubbing: None }, receiver)
    }

    /// Tells those who watch the attempt, without its secrets.
    pub(crate) fn on(
        board: Arc<Board>,
        dispatch: DispatchId,
        token: ClaimToken,
        scrubber: Arc<Scrubber>,
    ) -> Self {
        let scrubbing =
            (!scrubber.is_idle()).then(|| Arc::new(Scrubbing { scrubber, streams: Mutex::default() }));
        Self { to: To::Board(board, dispatch, token), scrubbing }
    }

    /// Tells a piece of output. It must hold no NUL.
    pub fn output(&self, stream: &'static str, text: String) {
        let text = match &self.scrubbing {
            Some(scrubbing) => scrubbing.output(stream, &text),
            None => text,
        };
        if !text.is_empty() {
            self.tell(LiveEvent::Output { stream, text });
        }
    }

    /// Tells how far the work has come: `percent` from 0 to 100 where it is known.
    pub fn progress(&self, percent: Option<f32>, message: impl Into<String>) {
        self.tell(LiveEvent::Progress { percent, message: self.without_secrets(message.into()) });
    }

    /// A text without the secrets of the attempt.
    pub(super) fn without_secrets(&self, text: String) -> String {
        match &self.scrubbing {
            Some(scrubbing) => scrubbing.scrubber.scrub(&text).into_owned(),
            None => text,
        }
    }

    /// Whether anybody hears what is told.
    pub(super) const fn is_heard(&self) -> bool {
        !matches!(self.to, To::Nobody)
    }

    /// Whether a piece of output that comes now would be taken. Asked by those who would otherwise prepare it in vain.
    pub(super) fn has_room(&self) -> bool {
        match &self.to {
            To::Nobody => false,
            To::Channel(sender) => sender.capacity() > 0,
            To::Board(board, _, token) => board.has_room(*token),
        }
    }

    /// Tells that a stream went on by so many bytes that were not told.
    pub(super) fn skipped(&self, stream: &'static str, bytes: usize) {
        if let Some(scrubbing) = &self.scrubbing {
            scrubbing.skip(stream);
        }
        if let To::Board(board, dispatch, token) = &self.to {
            board.skip(*dispatch, *token, stream, bytes);
        }
    }

    fn tell(&self, event: LiveEvent) {
        let is_taken = match &self.to {
            To::Nobody => true,
            To::Channel(sender) => sender.try_send(event).is_ok(),
            To::Board(board, dispatch, token) => board.take(*dispatch, *token, event),
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

    fn told() -> (Live, mpsc::Receiver<LiveEvent>) {
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
    fn a_secret_is_not_told_whole_or_in_pieces() {
        let (live, mut receiver) = told();
        live.output("stdout", "a hunter2hun".into());
        live.output("stderr", "ter2 ".into());
        live.output("stdout", "ter2 b ".into());
        live.progress(None, "with hunter2hunter2");
        let all = text(&mut receiver);
        assert!(!all.contains("hunter2"), "{all}");
        assert!(all.contains("[secret token] b ") && all.contains("with [secret token]"), "{all}");
    }

    #[test]
    fn what_follows_a_gap_may_not_end_a_secret() {
        let (live, mut receiver) = told();
        live.output("stdout", "a hunter2".into());
        live.skipped("stdout", 3);
        live.output("stdout", "ter2 b ".into());
        let all = text(&mut receiver);
        assert!(all.contains(" b ") && !all.contains("ter2"), "{all}");
    }
}
