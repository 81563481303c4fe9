//! Reports of errors to a tracker that speaks Sentry's protocol (Sentry, Bugsink and others).
//!
//! Off unless a DSN is given. Then four things are reported: what is logged at the level *error*, panics (those that somebody catches too), the error that
//! ends a daemon, and what a daemon reports itself with [`Tracker::report`]. Each with the release, the host, and what the spans around it say:
//! trace, tenant, request, dispatch. Passwords in addresses are taken out; other secrets are not in what is logged to begin with.
//!
//! Nothing waits for a tracker. A report goes into a short queue, which one task empties; more than [`PER_MINUTE`] in a minute, and more than
//! [`QUEUE`] that wait, are dropped and counted (`sched_error_reports_dropped_total`): an error that comes in a flood is in the log, and one report
//! of it says as much. A tracker that is away is tried again at growing intervals ([`Delivery`]); when the daemon has stopped, what is left is
//! sent within three seconds.
//!
//! Design notes. Not the crate `sentry`: it would bring a client, a hub for each thread and an integration for each library, for one JSON
//! document and one POST, which the HTTP client that is here already does. Reports have no stack traces: release builds have no symbols, and
//! what is logged says where.

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

/// Reports that are taken in a minute, at most.
const PER_MINUTE: usize = 30;
/// Reports of what is fatal that are taken besides.
const FATAL_BESIDES: usize = 10;
/// Reports that wait to be sent, at most.
const QUEUE: usize = 100;
/// Longest text of a report, in characters: trackers cut them at some such length.
const LONGEST: usize = 4_096;
/// Facts that are tags, by which a tracker can search and group; the others are shown beside them.
const TAGS: [&str; 14] = [
    "trace_id",
    "span_id",
    "tenant.id",
    "request.id",
    "http.method",
    "http.route",
    "job.id",
    "job.name",
    "dispatch.id",
    "execution.id",
    "worker.id",
    "attempt",
    "task.name",
    "error.type",
];

/// Where reports go. Clones go to the same place; the default is nowhere.
#[derive(Clone, Default)]
pub struct Tracker(Option<Arc<Outbox>>);

/// What is reported.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// What happened, in words that are the same each time: reports are grouped by them.
    pub title: String,
    /// What it was about.
    pub facts: Vec<(String, String)>,
    /// What reports are grouped by instead of the title.
    pub group: Vec<String>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Error,
    /// The process, or a part of it, could not go on. A flood of errors does not keep such a report back.
    Fatal,
}

thread_local! {
    /// Whether this thread makes a report: what is logged, or fails, meanwhile makes no other.
    static REPORTS: Cell<bool> = const { Cell::new(false) };
}

struct Outbox {
    waiting: Mutex<Waiting>,
    moved: Notify,
    /// What is the same in all reports.
    common: Map<String, Value>,
}

#[derive(Default)]
struct Waiting {
    events: VecDeque<(u128, Value)>,
    /// When the current minute began, and how many it has had.
    minute: Option<(Instant, usize)>,
}

impl fmt::Debug for Tracker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Tracker").field(&self.0.is_some()).finish()
    }
}

/// Ends [`REPORTS`], also where making the report fails.
struct Over;

impl Drop for Over {
    fn drop(&mut self) {
        REPORTS.set(false);
    }
}

impl Tracker {
    /// Reports an error, if there is a tracker. `report` is asked only then.
    pub fn report(&self, report: impl FnOnce() -> Report) {
        self.put(Level::Error, report);
    }

    /// Reports that the process, or a part of it, could not go on.
    pub(crate) fn report_fatal(&self, report: impl FnOnce() -> Report) {
        self.put(Level::Fatal, report);
    }

    fn put(&self, level: Level, report: impl FnOnce() -> Report) {
        if let Some(outbox) = &self.0
            && !REPORTS.replace(true)
        {
            // A panic inside comes here once more, from the hook, and goes no further.
            let _over = Over;
            outbox.put(level, report, monotonic());
        }
    }

    /// What turns log lines into reports, if there is a tracker.
    pub(crate) fn layer(&self) -> Option<ReportLayer> {
        self.0.is_some().then(|| ReportLayer(self.clone()))
    }

    /// Reports panics from now on, besides what is done about them already.
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
        // Made while nobody waits for it.
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
        // Joined with the trace, where the same tracker has that too.
        if trace.len() == 2 {
            event.insert("contexts".into(), json!({ "trace": trace }));
        }
        if !group.is_empty() {
            event.insert("fingerprint".into(), group.into());
        }
        (id, event.into())
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // A report is put or taken whole.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    /// Counts one more, or says why there may be none. What is fatal has a reserve of its own, and takes the place of the oldest.
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

/// A text as it may leave the machine.
fn scrubbed(text: &str) -> String {
    redact::words(text).chars().take(LONGEST).collect()
}

fn dropped(reason: &'static str, reports: usize) {
    metrics::counter!("sched_error_reports_dropped_total", "reason" => reason)
        .increment(u64::try_from(reports).unwrap_or(u64::MAX));
}

/// The one reader of the queue.
pub(crate) struct Reporter {
    outbox: Arc<Outbox>,
    delivery: Delivery,
}

impl Reporter {
    /// Connects to nothing yet.
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

    /// Sends until told to stop, and then what is left.
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

    /// Sends all; returns what is to be sent again.
    async fn send(&mut self, held: Option<(u128, Value)>) -> Option<(u128, Value)> {
        let mut next = held.or_else(|| self.next());
        while let Some((id, event)) = next {
            match self.delivery.post(envelope(id, &event).into()).await {
                Ok(_) => {
                    self.delivery.takes();
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

/// An event as it is sent: lines of JSON.
fn envelope(id: u128, event: &Value) -> String {
    let head = json!({ "event_id": format!("{id:032x}"), "sent_at": humantime::format_rfc3339_millis(wall()).to_string() });
    let event = event.to_string();
    let item = json!({ "type": "event", "length": event.len() });
    format!("{head}\n{item}\n{event}\n")
}
