//! Error reports to a tracker with Sentry's protocol.
//!
//! With a DSN, four kinds of errors are reported: log lines of the level *error*, panics (including
//! caught ones), the error that ends a daemon, and explicit reports with [`Tracker::report`]. A
//! report has the release, the host, and the fields of its spans. Passwords in addresses are
//! removed; the log contains no other secrets.
//!
//! Nothing waits for a tracker. One task empties a short queue. Reports beyond [`PER_MINUTE`] and
//! beyond [`QUEUE`] are dropped and counted (`sched_error_reports_dropped_total`), because one
//! report of a flood is sufficient. Reports to an unavailable tracker are retried at growing
//! intervals ([`Delivery`]). After the daemon has stopped, the remaining reports are sent within
//! three seconds.
//!
//! The crate `sentry` would add a client, a hub per thread and integrations for one JSON document
//! and one POST. Reports have no stack traces, because release builds have no symbols.

mod layer;
mod settings;

#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::panic;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

pub(crate) use layer::ReportLayer;
pub use settings::{TRACKER, TrackerSettings};

use crate::config::{Program, redact};
use crate::delivery::{Delivery, Failure};
use crate::exit;
use crate::monotonic_clock::{monotonic, wall};
use crate::tasks::panic_message;

const PER_MINUTE: usize = 30;
/// Additional reserve for fatal reports per minute.
const FATAL_BESIDES: usize = 10;
const QUEUE: usize = 100;
/// Limit of a text, in characters: trackers truncate at a similar length.
const LONGEST: usize = 4_096;
/// Fields that become tags, for a tracker's search and groups.
const TAGS: [&str; 14] = [
    "trace_id",
    "span_id",
    "tenant.id",
    "request.id",
    "http.method",
    "http.route",
    "job.id",
    "job.name",
    "run.id",
    "attempt.id",
    "worker.id",
    "attempt",
    "task.name",
    "error.type",
];

#[derive(Clone, Default)]
pub struct Tracker(Option<Arc<Outbox>>);

#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Identical for every report of a kind: the tracker groups by it.
    pub title: String,
    pub facts: Vec<(String, String)>,
    pub group: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Error,
    /// The process, or a part of it, could not continue. A flood of errors does not displace it.
    Fatal,
}

thread_local! {
    /// Whether this thread builds a report: log lines and failures during that time create no other
    /// one.
    static REPORTS: Cell<bool> = const { Cell::new(false) };
}

struct Outbox {
    waiting: Mutex<Waiting>,
    moved: Notify,
    common: Map<String, Value>,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<(u128, Value)>,
    minute: Option<(Instant, usize)>,
}

impl fmt::Debug for Tracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracker").field(&self.0.is_some()).finish()
    }
}

/// Resets [`REPORTS`], even after a panic.
struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        REPORTS.set(false);
    }
}

impl Tracker {
    /// Reports an error. `report` is called only if there is a tracker.
    pub fn report(&self, report: impl FnOnce() -> Report) {
        self.put(Level::Error, report);
    }

    pub(crate) fn report_fatal(&self, report: impl FnOnce() -> Report) {
        self.put(Level::Fatal, report);
    }

    fn put(&self, level: Level, report: impl FnOnce() -> Report) {
        if let Some(outbox) = &self.0
            && !REPORTS.replace(true)
        {
            // A panic inside arrives here again from the hook and is not reported.
            let _over = Over;
            outbox.put(level, report, monotonic());
        }
    }

    pub(crate) fn layer(&self) -> Option<ReportLayer> {
        self.0.is_some().then(|| ReportLayer(self.clone()))
    }

    /// Adds reports to the existing panic hook.
    pub(crate) fn watch_panics(&self) {
        if self.0.is_none() {
            return;
        }
        let (tracker, before) = (self.clone(), panic::take_hook());
        panic::set_hook(Box::new(move |info| {
            before(info);
            tracker.report_fatal(|| {
                let place = info.location().map(ToString::to_string).unwrap_or_default();
                let thread = std::thread::current().name().unwrap_or_default().to_owned();
                Report {
                    title: format!("panic: {}", panic_message(info.payload())),
                    facts: vec![("place".into(), place), ("thread".into(), thread)],
                    ..Report::default()
                }
            });
        }));
    }
}

impl Outbox {
    fn put(&self, level: Level, report: impl FnOnce() -> Report, now: Instant) {
        if let Err(reason) = self.waiting().admit(level, now) {
            return dropped(reason, 1);
        }
        // Outside the lock, so that no thread waits for it.
        let event = self.event(level, report());
        let mut waiting = self.waiting();
        let is_too_many = waiting.events.len() >= QUEUE;
        if is_too_many {
            waiting.events.pop_front();
        }
        waiting.events.push_back(event);
        drop(waiting);
        if is_too_many {
            dropped("queue_full", 1);
        }
        self.moved.notify_one();
    }

    /// The document of a report, and its id.
    fn event(&self, level: Level, report: Report) -> (u128, Value) {
        let Report { title, facts, group } = report;
        let (mut tags, mut extra, mut trace) = (Map::new(), Map::new(), Map::new());
        for (name, value) in facts {
            let value = scrubbed(&value);
            if name == "trace_id" || name == "span_id" {
                trace.insert(name.clone(), value.clone().into());
            }
            let into = if TAGS.contains(&name.as_str()) { &mut tags } else { &mut extra };
            into.insert(name, value.into());
        }
        let since = wall().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let id = rand::random::<u128>();
        let mut event = self.common.clone();
        event.insert("event_id".into(), format!("{id:032x}").into());
        event.insert("timestamp".into(), since.as_secs_f64().into());
        event.insert("level".into(), if level == Level::Fatal { "fatal" } else { "error" }.into());
        event.insert("logentry".into(), json!({ "formatted": scrubbed(&title) }));
        event.insert("extra".into(), extra.into());
        if let Some(Value::Object(all)) = event.get_mut("tags") {
            all.append(&mut tags);
        }
        // For trackers that also store traces.
        if trace.len() == 2 {
            event.insert("contexts".into(), json!({ "trace": trace }));
        }
        if !group.is_empty() {
            event.insert("fingerprint".into(), group.into());
        }
        (id, event.into())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // A poisoned lock is safe: reports are inserted and removed as a whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Counts a report, or returns the reason for a drop. Fatal reports have a reserve and replace
    /// the oldest report.
    fn admit(&mut self, level: Level, now: Instant) -> Result<(), &'static str> {
        let reserve = if level == Level::Fatal { FATAL_BESIDES } else { 0 };
        let current =
            self.minute.filter(|(began, _)| now.saturating_duration_since(*began) < Duration::from_secs(60));
        let (began, count) = current.unwrap_or((now, 0));
        if count >= PER_MINUTE + reserve {
            return Err("rate");
        }
        if level == Level::Error && self.events.len() >= QUEUE {
            return Err("queue_full");
        }
        self.minute = Some((began, count + 1));
        Ok(())
    }
}

/// A text without secrets that may leave the machine.
fn scrubbed(text: &str) -> String {
    redact::free_text(text).chars().take(LONGEST).collect()
}

fn dropped(reason: &'static str, reports: usize) {
    metrics::counter!("sched_error_reports_dropped_total", "reason" => reason)
        .increment(u64::try_from(reports).unwrap_or(u64::MAX));
}

pub(crate) struct Reporter {
    outbox: Arc<Outbox>,
    delivery: Delivery,
}

impl Reporter {
    pub(crate) fn new(
        program: &Program,
        settings: TrackerSettings,
    ) -> Result<(Tracker, Self), exit::BoxError> {
        let TrackerSettings { url, auth, environment } = settings;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-sentry-envelope"));
        headers.insert(HeaderName::from_static("x-sentry-auth"), auth);
        let delivery = Delivery::new("error tracker", url, headers)?;
        let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
        let mut common = Map::new();
        for (name, value) in [
            ("platform", json!("native")),
            ("environment", json!(environment)),
            ("release", json!(format!("{}@{}", program.name, program.version))),
            ("server_name", json!(host)),
            ("tags", json!({ "daemon": program.table() })),
        ] {
            common.insert(name.to_owned(), value);
        }
        let outbox = Arc::new(Outbox { waiting: Mutex::default(), moved: Notify::new(), common });
        Ok((Tracker(Some(outbox.clone())), Self { outbox, delivery }))
    }

    /// Sends until `stop` is cancelled, and then sends the remaining reports.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        metrics::counter!("sched_error_reports_sent_total").increment(0);
        for reason in ["rate", "queue_full", "refused", "stopped"] {
            dropped(reason, 0);
        }
        let mut held = None;
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = self.outbox.moved.notified(), if held.is_none() => {}
                () = self.delivery.pause(), if held.is_some() => {}
            }
            held = self.send(held).await;
        }
        if self.send(held).await.is_some() {
            let reports = 1 + self.outbox.waiting().events.len();
            dropped("stopped", reports);
            tracing::warn!(reports, "Reports of errors were not sent before the end.");
        }
    }

    /// Sends all reports; returns one to send again.
    async fn send(&mut self, held: Option<(u128, Value)>) -> Option<(u128, Value)> {
        let mut next = held.or_else(|| self.next());
        while let Some((id, event)) = next {
            match self.delivery.post(envelope(id, &event).into()).await {
                Ok(_) => {
                    self.delivery.record_accepted();
                    metrics::counter!("sched_error_reports_sent_total").increment(1);
                }
                Err(Failure::Refused) => dropped("refused", 1),
                Err(Failure::Away) => return Some((id, event)),
            }
            next = self.next();
        }
        None
    }

    fn next(&self) -> Option<(u128, Value)> {
        self.outbox.waiting().events.pop_front()
    }
}

/// An event in the wire format, as lines of JSON.
fn envelope(id: u128, event: &Value) -> String {
    let head = json!({ "event_id": format!("{id:032x}"), "sent_at": humantime::format_rfc3339_millis(wall()).to_string() });
    let event = event.to_string();
    let item = json!({ "type": "event", "length": event.len() });
    format!("{head}\n{item}\n{event}\n")
}
