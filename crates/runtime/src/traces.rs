//! Traces for a collector: finished spans over HTTP, as OTLP in protobuf.
//!
//! Without a configured collector, [`Traces`] is empty and no span is built. [`Traces::ended`] only
//! puts the span into a queue. One task sends the queue, once a second or when a batch is full.
//! Spans have the ids of the log, the API and the database, to which child spans created elsewhere
//! attach. Spans with the flag "not sampled" are not sent.
//!
//! An unavailable collector never delays work: the task sends spans again at growing intervals. A
//! full queue drops new spans and counts them (`sched_spans_dropped_total`). After the daemon has
//! stopped, the remaining spans are sent within three seconds; a second signal abandons them. The
//! death of the process loses unsent spans. The sending task runs on the runtime, which still
//! exists, and only that task is awaited, so there can be no deadlock.
//!
//! The processor of the OpenTelemetry SDK drops spans without a count and creates its own ids. A
//! layer of `tracing` would inspect every span and event for three kinds of spans, two of which are
//! known only at their end.

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

/// Limit of queued spans: ten megabytes at typical sizes, and dozens of times that with long texts.
const QUEUE: usize = 16_384;
/// Limit of spans per request.
const BATCH: usize = 512;
/// Limit of a text of a span, in bytes: callers' texts (paths, messages) cannot inflate a span.
const LONGEST: usize = 1_024;

#[derive(Clone, Default)]
pub struct Traces(Option<Arc<Queue>>);

/// A W3C position in a trace, and whether its origin samples the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    pub trace: u128,
    pub span: u64,
    pub is_sampled: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub parent: Option<u64>,
    /// One of a small, fixed set.
    pub name: String,
    pub kind: Kind,
    /// Names as in the log or in OpenTelemetry's conventions.
    pub attributes: Vec<(&'static str, Value)>,
    pub failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Server,
    /// It creates work for later.
    Producer,
    /// It does work that was created earlier.
    Consumer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    Text(String),
    Number(i64),
}

impl Span {
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

struct Ended {
    place: SpanContext,
    at: SystemTime,
    took: Duration,
    span: Span,
}

struct Queue {
    spans: Mutex<VecDeque<Ended>>,
    limit: usize,
    filled: Notify,
}

impl Traces {
    #[must_use]
    pub fn are_on(&self) -> bool {
        self.0.is_some()
    }

    /// Records work that ends now. `span` is called only if the span is sent.
    pub fn ended(&self, place: SpanContext, took: Duration, span: impl FnOnce() -> Span) {
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
            // A wake-up for each span would cost more than the span.
            Some(BATCH) => self.filled.notify_one(),
            Some(_) => {}
            None => dropped("queue_full", 1),
        }
    }

    /// The next batch of at least `least` spans.
    fn take(&self, least: usize) -> Option<Vec<Ended>> {
        let mut spans = self.spans();
        let count = spans.len().min(BATCH);
        (count > 0 && count >= least).then(|| spans.drain(..count).collect())
    }

    fn len(&self) -> usize {
        self.spans().len()
    }

    fn spans(&self) -> MutexGuard<'_, VecDeque<Ended>> {
        // A poisoned lock is safe: spans are inserted and removed as a whole.
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn dropped(reason: &'static str, spans: usize) {
    metrics::counter!("sched_spans_dropped_total", "reason" => reason)
        .increment(u64::try_from(spans).unwrap_or(u64::MAX));
}
