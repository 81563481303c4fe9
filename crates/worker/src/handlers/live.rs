//! What a running attempt tells before it ends: output as it comes, and progress.
//!
//! A handler tells and goes on: nothing here waits, so a slow database never slows work down. What is told is a courtesy for
//! people who watch; the record of the attempt is its report, which holds the output again. What cannot be taken at once is
//! therefore dropped, and counted.

use tokio::sync::mpsc;

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
pub struct Live(Option<mpsc::Sender<LiveEvent>>);

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
        (Self(Some(sender)), receiver)
    }

    /// Tells a piece of output. It must hold no NUL.
    pub fn output(&self, stream: &'static str, text: String) {
        self.tell(LiveEvent::Output { stream, text });
    }

    /// Tells how far the work has come: `percent` from 0 to 100 where it is known.
    pub fn progress(&self, percent: Option<f32>, message: impl Into<String>) {
        self.tell(LiveEvent::Progress { percent, message: message.into() });
    }

    fn tell(&self, event: LiveEvent) {
        if let Some(sender) = &self.0
            && sender.try_send(event).is_err()
        {
            metrics::counter!("sched_live_events_dropped_total").increment(1);
        }
    }
}
