//! Traces for a collector: the process sends finished spans over HTTP, as OTLP in protobuf.
//!
//! Off unless the settings name a collector: then [`Traces`] is empty, and no span is built. With a
//! collector, [`Traces::ended`] puts the span into a queue, which takes a lock for a moment and
//! does nothing else. One task sends the queued spans, once a second or as soon as a batch is full.
//! Spans receive the ids that the log, the API and the database contain, and child spans created
//! elsewhere attach to them. Spans with the flag "not sampled" are not sent.
//!
//! An unavailable collector never delays work. Unsent spans are sent again, at growing intervals.
//! Until then the queue fills; spans that find it full are dropped and counted
//! (`sched_spans_dropped_total`). Unavailability and rejection by the collector are logged when
//! they begin and when they end. After the daemon has stopped, the remaining spans are sent, within
//! three seconds. The sending task runs on the runtime, which still exists, and only that task is
//! awaited, so there can be no deadlock. A second signal abandons it. When the process is killed,
//! its unsent spans are lost.
//!
//! Design notes. The OpenTelemetry SDK is not used: its processor drops spans without a count and
//! creates its own ids, while the ids here are known before the span begins. A layer of `tracing`
//! is not used either: it would inspect every span and event of the process for three kinds of
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

/// Limit of queued spans: ten megabytes at typical sizes, and as many dozens if all of them have
/// long texts.
const QUEUE: usize = 16_384;
/// Limit of spans per request.
const BATCH: usize = 512;
/// Limit of a text of a span, in bytes: texts that outsiders choose (paths, messages) cannot
/// inflate a span.
const LONGEST: usize = 1_024;

/// The destination of finished spans. Clones share it; the default discards spans.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Queue>>);

/// A position in a trace (W3C), and whether the origin of the trace samples it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub trace: u128,
    pub span: u64,
    /// Spans that are not sampled are not sent.
    pub is_sampled: bool,
}

/// The content of a span, besides its position and its times.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// The parent span.
    pub parent: Option<u64>,
    /// From a small, fixed set of names.
    pub name: String,
    /// The role of the span at a boundary.
    pub kind: Kind,
    /// Attributes, under their names in the log or in OpenTelemetry's conventions.
    pub attributes: Vec<(&'static str, Value)>,
    /// The error, if the work failed.
    pub failure: Option<String>,
}

/// The role of a span at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It answers a request.
    Server,
    /// It creates work for later.
    Producer,
    /// It does work that was created earlier.
    Consumer,
}

/// An attribute value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

impl Span {
    /// Truncates texts that are too long.
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

/// A span in the queue.
struct Ended {
    place: Place,
    at: SystemTime,
    took: Duration,
    span: Span,
}

/// Queued spans, for one reader.
struct Queue {
    spans: Mutex<VecDeque<Ended>>,
    /// Maximum number of spans.
    limit: usize,
    /// Notified when a batch is ready.
    filled: Notify,
}

impl Traces {
    /// Whether there is a collector, for callers that must prepare the content of a span.
    #[must_use]
    pub fn are_on(&self) -> bool {
        self.0.is_some()
    }

    /// Records work that ends now and took `took`. `span` is called only if the span is sent.
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
            // Once for each batch: a wake-up for each span costs more than the span.
            Some(BATCH) => self.filled.notify_one(),
            Some(_) => {}
            None => dropped("queue_full", 1),
        }
    }

    /// The next batch, of at least `least` spans.
    fn take(&self, least: usize) -> Option<Vec<Ended>> {
        let mut spans = self.spans();
        let count = spans.len().min(BATCH);
        (count > 0 && count >= least).then(|| spans.drain(..count).collect())
    }

    fn len(&self) -> usize {
        self.spans().len()
    }

    fn spans(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        // A poisoned lock is safe: a span is inserted or removed as a whole.
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts spans that the collector never receives.
fn dropped(reason: &'static str, spans: usize) {
    metrics::counter!("sched_spans_dropped_total", "reason" => reason)
        .increment(u64::try_from(spans).unwrap_or(u64::MAX));
}
