//! What a running attempt tells before it ends: output as it comes, and progress.
//!
//! A handler tells and goes on: nothing here waits, so a slow database never slows work down. What is told is a courtesy for
//! people who watch; the record of the attempt is its report, which holds the output again. What cannot be taken at once is
//! therefore dropped, and counted. A process that dies has told what it has told.

use std::sync::Arc;

use sched_model::domain::ids::{ClaimToken, DispatchId};
use tokio::sync::mpsc;

use crate::live::Board;

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
pub struct Live(To);

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
        (Self(To::Channel(sender)), receiver)
    }

    /// Tells those who watch the attempt.
    pub(crate) fn on(board: Arc<Board>, dispatch: DispatchId, token: ClaimToken) -> Self {
        Self(To::Board(board, dispatch, token))
    }

    /// Tells a piece of output. It must hold no NUL.
    pub fn output(&self, stream: &'static str, text: String) {
        if !text.is_empty() {
            self.tell(LiveEvent::Output { stream, text });
        }
    }

    /// Tells how far the work has come: `percent` from 0 to 100 where it is known.
    pub fn progress(&self, percent: Option<f32>, message: impl Into<String>) {
        self.tell(LiveEvent::Progress { percent, message: message.into() });
    }

    /// Whether a piece of output that comes now would be taken. Asked by those who would otherwise prepare it in vain.
    pub(super) fn has_room(&self) -> bool {
        match &self.0 {
            To::Nobody => false,
            To::Channel(sender) => sender.capacity() > 0,
            To::Board(board, _, token) => board.has_room(*token),
        }
    }

    /// Tells that a stream went on by so many bytes that were not told.
    pub(super) fn skipped(&self, stream: &'static str, bytes: usize) {
        if let To::Board(board, dispatch, token) = &self.0 {
            board.skip(*dispatch, *token, stream, bytes);
        }
    }

    fn tell(&self, event: LiveEvent) {
        let is_taken = match &self.0 {
            To::Nobody => true,
            To::Channel(sender) => sender.try_send(event).is_ok(),
            To::Board(board, dispatch, token) => board.take(*dispatch, *token, event),
        };
        if !is_taken {
            metrics::counter!("sched_live_events_dropped_total").increment(1);
        }
    }
}
