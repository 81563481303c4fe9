//! Sends spans to the collector. What happens when it is away is told in [`super`].

use std::sync::Arc;
use std::time::Duration;

use prost::bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};
use reqwest::{Client, Response, Url, redirect};
use tokio_util::sync::CancellationToken;

use super::otlp::{self, Resource};
use super::{FLUSH_WITHIN, QUEUE, Queue, Traces, TracesSettings, Value, dropped};
use crate::config::Program;
use crate::exit;
use crate::tasks::{OwnedTask, spawn_owned};

/// Longest time between two batches, as long as there are spans.
const PERIOD: Duration = Duration::from_secs(1);
/// Longest wait for the collector: what OpenTelemetry has as the default.
const WITHIN: Duration = Duration::from_secs(10);
/// Waits before the next try while it is away.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));
/// Longest answer that is read.
const LONGEST: usize = 64 * 1024;

/// The one reader of the queue.
pub(crate) struct Exporter {
    queue: Arc<Queue>,
    http: Client,
    url: Url,
    headers: HeaderMap,
    resource: Resource,
    standing: Standing,
}

/// How it went the last time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Taken,
    Away,
    Refused,
}

/// Spans on their way.
struct Batch {
    body: Bytes,
    spans: usize,
}

/// Why a batch was not taken.
#[derive(Debug)]
enum Failure {
    /// It may be taken later.
    Away(String),
    /// It never will.
    Refused(String),
}

impl Exporter {
    /// Connects to nothing yet.
    pub(crate) fn new(program: &Program, settings: TracesSettings) -> Result<(Traces, Self), exit::BoxError> {
        // Fails only when a provider is installed already, and then there is one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let TracesSettings { url, mut headers, service, attributes } = settings;
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-protobuf"));
        let mut http = Client::builder()
            .user_agent(concat!("sched/", env!("CARGO_PKG_VERSION")))
            .redirect(redirect::Policy::none())
            .timeout(WITHIN);
        if url.scheme() == "http" {
            // A neighbour: no certificate is looked at, and none of the proxies that lead outside is asked.
            http = http.tls_certs_only([]).no_proxy();
        }
        let queue = Arc::new(Queue::new(QUEUE));
        let exporter = Self {
            queue: queue.clone(),
            http: http.build()?,
            url,
            headers,
            resource: resource(program, service, attributes),
            standing: Standing::Taken,
        };
        metrics::counter!("sched_spans_exported_total").increment(0);
        for reason in ["queue_full", "refused", "stopped"] {
            dropped(reason, 0);
        }
        Ok((Traces(Some(queue)), exporter))
    }

    /// Sends until told to stop, and then what is left.
    pub(super) async fn run(mut self, stop: CancellationToken) {
        let mut held = None;
        let mut pause = PAUSES.0;
        loop {
            let wait = if held.is_some() { pause } else { PERIOD };
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.queue.filled.notified(), if held.is_none() => {}
                () = tokio::time::sleep(wait) => {}
            }
            held = self.send(held, &stop).await;
            pause = if held.is_some() { (pause * 2).min(PAUSES.1) } else { PAUSES.0 };
        }
        if let Some(batch) = self.send(held, &stop).await {
            let spans = batch.spans + self.queue.len();
            dropped("stopped", spans);
            tracing::warn!(spans, "Spans were not sent before the end.");
        }
    }

    /// Sends what there is, as long as there are full batches, or anything once it is told to stop; returns the one that is to be sent again.
    async fn send(&mut self, held: Option<Batch>, stop: &CancellationToken) -> Option<Batch> {
        let mut next = held.or_else(|| self.batch(1));
        while let Some(batch) = next {
            match self.post(&batch).await {
                Ok(rejected) => {
                    let refused = rejected
                        .as_ref()
                        .map_or(0, |(count, _)| usize::try_from(*count).unwrap_or(usize::MAX));
                    let refused = refused.min(batch.spans);
                    dropped("refused", refused);
                    metrics::counter!("sched_spans_exported_total")
                        .increment(u64::try_from(batch.spans - refused).unwrap_or(u64::MAX));
                    match rejected {
                        Some((_, cause)) => self.stands(Standing::Refused, &cause),
                        None => self.stands(Standing::Taken, ""),
                    }
                }
                Err(Failure::Refused(cause)) => {
                    dropped("refused", batch.spans);
                    self.stands(Standing::Refused, &cause);
                }
                Err(Failure::Away(cause)) => {
                    self.stands(Standing::Away, &cause);
                    return Some(batch);
                }
            }
            next = self.batch(if stop.is_cancelled() { 1 } else { super::BATCH });
        }
        None
    }

    fn batch(&self, least: usize) -> Option<Batch> {
        let spans = self.queue.take(least)?;
        Some(Batch { spans: spans.len(), body: otlp::request(&self.resource, spans) })
    }

    async fn post(&self, batch: &Batch) -> Result<Option<(u64, String)>, Failure> {
        let request = self.http.post(self.url.clone()).headers(self.headers.clone()).body(batch.body.clone());
        // The address may hold a password.
        let away = |error: reqwest::Error| Failure::Away(exit::describe(&error.without_url()));
        let response = request.send().await.map_err(away)?;
        match response.status().as_u16() {
            200..=299 => Ok(otlp::rejected(&read(response).await.map_err(away)?)),
            status @ (408 | 429 | 502..=504) => {
                Err(Failure::Away(format!("it answers with status {status}")))
            }
            status => Err(Failure::Refused(format!("it answers with status {status}"))),
        }
    }

    /// Says once that something has changed.
    fn stands(&mut self, standing: Standing, cause: &str) {
        if self.standing == standing {
            return;
        }
        self.standing = standing;
        match standing {
            Standing::Taken => tracing::info!("The collector of traces takes spans again."),
            Standing::Away => tracing::warn!(
                error = cause,
                "The collector of traces cannot be reached; spans are kept for it until the queue is full."
            ),
            Standing::Refused => {
                tracing::warn!(error = cause, "The collector of traces refuses spans, which are dropped.");
            }
        }
    }
}

/// What the process is called: what the settings say is the stronger.
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

/// The beginning of an answer: what is longer is none that could be understood.
async fn read(mut response: Response) -> Result<Vec<u8>, reqwest::Error> {
    let mut body = Vec::new();
    while body.len() < LONGEST
        && let Some(chunk) = response.chunk().await?
    {
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// The task that sends, while the daemon runs.
pub(crate) struct Exporting {
    task: OwnedTask<()>,
    stop: CancellationToken,
}

impl Exporting {
    /// Needs a runtime, on which it then runs.
    pub(crate) fn start(exporter: Exporter) -> Self {
        let stop = CancellationToken::new();
        Self { task: spawn_owned("export_traces", exporter.run(stop.clone())), stop }
    }

    /// Sends what is left, for [`FLUSH_WITHIN`] at most, or until `hard` is cancelled.
    pub(crate) async fn finish(self, hard: &CancellationToken) {
        self.stop.cancel();
        let ended = tokio::select! {
            biased;
            () = hard.cancelled() => return,
            ended = tokio::time::timeout(FLUSH_WITHIN, self.task) => ended,
        };
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::error!(error = &error as &dyn std::error::Error, "The sending of traces failed.");
            }
            Err(_elapsed) => tracing::warn!("The collector of traces did not take the last spans in time."),
        }
    }
}
