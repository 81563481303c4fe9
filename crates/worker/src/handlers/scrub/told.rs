//! What an attempt tells while it runs, without secrets.
//!
//! Each stream is scrubbed by itself, as its pieces come. What is held back at the end of a stream need not be told: the report
//! of the attempt has it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::{ScrubbedStream, Scrubber};

/// Scrubs what one attempt tells.
#[derive(Debug)]
pub struct Told {
    scrubber: Arc<Scrubber>,
    streams: Mutex<BTreeMap<&'static str, ScrubbedStream>>,
}

impl Told {
    /// One for an attempt with secrets; `None` when there is nothing to look for.
    #[must_use]
    pub fn new(scrubber: &Arc<Scrubber>) -> Option<Arc<Self>> {
        if scrubber.is_idle() {
            return None;
        }
        Some(Arc::new(Self { scrubber: scrubber.clone(), streams: Mutex::default() }))
    }

    /// The next piece of a stream; gives what may be told by now, which can be nothing.
    #[must_use]
    pub fn output(&self, stream: &'static str, text: &str) -> String {
        let mut streams = self.streams.lock().unwrap_or_else(PoisonError::into_inner);
        streams.entry(stream).or_insert_with(|| self.scrubber.stream()).feed(text)
    }

    /// Forgets what is held back of a stream, because it goes on elsewhere: what was left out in between is not known, and half a
    /// secret must not be told.
    pub fn skip(&self, stream: &'static str) {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner).remove(stream);
    }

    /// A text of its own, such as what the attempt does now.
    #[must_use]
    pub fn message(&self, text: &str) -> String {
        self.scrubber.scrub(text).into_owned()
    }
}
