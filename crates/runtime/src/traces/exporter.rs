//! Sends spans to the collector, as the module [`super`] describes.

use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderValue};
use tokio_util::sync::CancellationToken;

use super::otlp::{self, Resource};
use super::{BATCH, QUEUE, Queue, Traces, TracesSettings, Value, dropped};
use crate::config::Program;
use crate::delivery::{Delivery, Failure};
use crate::exit;

/// Longest time between two batches while there are spans.
const PERIOD: Duration = Duration::from_secs(1);

pub(crate) struct Exporter {
    queue: Arc<Queue>,
    delivery: Delivery,
    resource: Resource,
}

struct Batch {
    body: Bytes,
    spans: usize,
}

impl Exporter {
    pub(crate) fn new(program: &Program, settings: TracesSettings) -> Result<(Traces, Self), exit::BoxError> {
        let TracesSettings { url, mut headers, service, attributes } = settings;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let queue = Arc::new(Queue::new(QUEUE));
        let exporter = Self {
            queue: queue.clone(),
            delivery: Delivery::new("collector of traces", url, headers)?,
            resource: resource(program, service, attributes),
        };
        Ok((Traces(Some(queue)), exporter))
    }

    /// Sends until `stop` is cancelled, and then sends the remaining spans.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        metrics::counter!("sched_spans_exported_total").increment(0);
        for reason in ["queue_full", "refused", "stopped"] {
            dropped(reason, 0);
        }
        let mut held = None;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.delivery.pause(), if held.is_some() => {}
                () = self.queue.filled.notified(), if held.is_none() => {}
                () = tokio::time::sleep(PERIOD), if held.is_none() => {}
            }
            held = self.send(held, &stop).await;
        }
        if let Some(batch) = self.send(held, &stop).await {
            let spans = batch.spans + self.queue.len();
            dropped("stopped", spans);
            tracing::warn!(spans, "Spans were not sent before the end.");
        }
    }

    /// Sends full batches, or all spans once `stop` is cancelled. Returns a batch to send again.
    async fn send(&mut self, held: Option<Batch>, stop: &CancellationToken) -> Option<Batch> {
        let mut next = held.or_else(|| self.batch(1));
        while let Some(batch) = next {
            match self.delivery.post(batch.body.clone()).await {
                Ok(answer) => self.record_accepted(batch.spans, &answer),
                Err(Failure::Refused) => dropped("refused", batch.spans),
                Err(Failure::Away) => return Some(batch),
            }
            next = self.batch(if stop.is_cancelled() { 1 } else { BATCH });
        }
        None
    }

    /// Counts a batch as accepted, except for spans that the response rejects.
    fn record_accepted(&mut self, spans: usize, answer: &[u8]) {
        let mut refused = 0;
        match otlp::rejected(answer) {
            Some((count, cause)) => {
                refused = usize::try_from(count).unwrap_or(usize::MAX).min(spans);
                dropped("refused", refused);
                self.delivery.record_refused(&cause);
            }
            None => self.delivery.record_accepted(),
        }
        let taken = u64::try_from(spans - refused).unwrap_or(u64::MAX);
        metrics::counter!("sched_spans_exported_total").increment(taken);
    }

    fn batch(&self, least: usize) -> Option<Batch> {
        let spans = self.queue.take(least)?;
        Some(Batch { spans: spans.len(), body: otlp::request(&self.resource, spans) })
    }
}

/// The OTLP resource of the process; `given` overrides the defaults.
fn resource(program: &Program, service: Option<String>, given: Vec<(String, String)>) -> Resource {
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let mut attributes: Vec<(String, Value)> = vec![
        ("service.name".into(), program.name.into()),
        ("service.version".into(), program.version.into()),
        ("process.pid".into(), i64::from(std::process::id()).into()),
    ];
    attributes.extend(host.map(|host| ("host.name".into(), host.into())));
    let given = given.into_iter().chain(service.map(|service| ("service.name".into(), service)));
    for (name, value) in given {
        attributes.retain(|(known, _)| *known != name);
        attributes.push((name, value.into()));
    }
    otlp::resource(attributes)
}
