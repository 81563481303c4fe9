//! Traces for a collector: spans that the daemons have ended are sent to it over HTTP, as OTLP in protobuf.
//!
//! Off unless a collector is named: then [`Traces`] holds nothing, and a span is not even made. With one, [`Traces::ended`] puts the span
//! into a queue, which takes a lock for a moment and nothing else, and one task sends what is there, once a second or as soon as a batch is
//! full. Spans are given their ids: they are those that the log, the API and the database have, and children made elsewhere hang below them.
//! What came with the flag "not sampled" is not sent.
//!
//! A collector that is away never holds up work. What could not be sent is sent again, at growing intervals; meanwhile the queue fills, and
//! what finds it full is dropped and counted (`sched_spans_dropped_total`). That the collector is away, or refuses what it is sent, is logged
//! when it begins and when it ends. When the daemon has stopped, what is left is sent, within three seconds: the task that sends runs on
//! the runtime, which is still there, and only it is waited for, so that nothing can wait for each other. A second signal leaves it.
//! Spans of a process that is killed are lost, as far as they had not been sent.
//!
//! Design notes. Not the OpenTelemetry SDK: its processor drops without telling how many, and makes ids of its own, where ours are known
//! before the span begins. Not a layer of `tracing` either, which would look at every span and event of the process for three kinds of
//! spans, two of which are known only when they end.

mod exporter;
mod otlp;
mod settings;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::Notify;

pub use settings::{TRACES, TracesSettings};

pub(crate) use exporter::Exporter;

use crate::monotonic_clock;

/// Spans that wait to be sent, at most: ten megabytes as they mostly are, and as many dozens if all of them have long texts.
const QUEUE: usize = 16_384;
/// Spans of one request, at most.
const BATCH: usize = 512;
/// Longest text of a span, in bytes: what others may choose (paths, messages) does not make a span large.
const LONGEST: usize = 1_024;

/// Where ended spans go. Clones go to the same place; the default is nowhere.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Queue>>);

/// A place in a trace (W3C), and whether whoever began the trace records it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The trace.
    pub trace: u128,
    /// The span.
    pub span: u64,
    /// What is not is not sent.
    pub is_sampled: bool,
}

/// What is told of a piece of work, besides where it belongs and when it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The span that it is part of.
    pub parent: Option<u64>,
    /// Out of a limited number of them.
    pub name: String,
    /// On which side of a boundary it is.
    pub kind: Kind,
    /// Facts, under the names that they have in the log or in OpenTelemetry's conventions.
    pub attributes: Vec<(&'static str, Value)>,
    /// Why it failed, if it has.
    pub failure: Option<String>,
}

/// On which side of a boundary a span is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It answers a request.
    Server,
    /// It makes work for later.
    Producer,
    /// It does what was made before.
    Consumer,
}

/// A fact about a span.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// A text.
    Text(String),
    /// A whole number.
    Number(i64),
}

impl Span {
    /// Without what is too long of its texts.
    fn cut(mut self) -> Self {
        let texts = self.attributes.iter_mut().filter_map(|(_, value)| match value {
            Value::Text(text) => Some(text),
            Value::Number(_) => None,
        });
        for text in texts.chain(&mut self.failure).chain([&mut self.name]) {
            text.truncate(text.floor_char_boundary(LONGEST));
        }
        self
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

/// A span that waits to be sent.
struct Ended {
    place: Place,
    at: SystemTime,
    took: Duration,
    span: Span,
}

/// Spans that wait, for one reader.
struct Queue {
    spans: Mutex<VecDeque<Ended>>,
    /// Most of them.
    limit: usize,
    /// There is a batch to take.
    filled: Notify,
}

impl Traces {
    /// Whether there is a collector, for who would have to prepare what it is told.
    #[must_use]
    pub fn are_on(&self) -> bool {
        self.0.is_some()
    }

    /// Notes a piece of work that ends now and took so long. `span` is asked only if it is sent.
    pub fn ended(&self, place: Place, took: Duration, span: impl FnOnce() -> Span) {
        if let Some(queue) = self.0.as_deref().filter(|_| place.is_sampled) {
            queue.put(Ended { place, at: monotonic_clock::wall(), took, span: span().cut() });
        }
    }
}

impl fmt::Debug for Traces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Traces").field(&self.0.is_some()).finish()
    }
}

impl Queue {
    fn new(limit: usize) -> Self {
        Self { spans: Mutex::default(), limit, filled: Notify::new() }
    }

    fn put(&self, ended: Ended) {
        let waiting = {
            let mut spans = self.spans();
            if spans.len() < self.limit {
                spans.push_back(ended);
                Some(spans.len())
            } else {
                None
            }
        };
        match waiting {
            // Once for each batch: to be woken for each span costs more than the span.
            Some(BATCH) => self.filled.notify_one(),
            Some(_) => {}
            None => dropped("queue_full", 1),
        }
    }

    /// The next batch, of at least so many spans.
    fn take(&self, least: usize) -> Option<Vec<Ended>> {
        let mut spans = self.spans();
        let count = spans.len().min(BATCH);
        (count > 0 && count >= least).then(|| spans.drain(..count).collect())
    }

    fn len(&self) -> usize {
        self.spans().len()
    }

    fn spans(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        // A span is put or taken whole.
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts spans that the collector never gets.
fn dropped(reason: &'static str, spans: usize) {
    metrics::counter!("sched_spans_dropped_total", "reason" => reason)
        .increment(u64::try_from(spans).unwrap_or(u64::MAX));
}
