//! Logs and metrics of the process.
//!
//! [`daemon::run`](crate::daemon::run) calls [`init`] and [`metrics_recorder`] once. Logs go to
//! standard error, so that standard output stays free for data. A line is written before the log
//! call returns. The health listener renews the histograms ([`PrometheusHandle::run_upkeep`]).

use std::io::IsTerminal;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::ParseError;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{EnvFilter, Layer, fmt};

use crate::tracker::Tracker;

/// Bounds of histograms named `…_seconds`, in seconds: from a local statement to a long job.
const SECONDS: &[f64] = &[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0,
    3600.0,
];
/// Bounds of other histograms, such as batch sizes.
const COUNTS: &[f64] = &[0.0, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

impl FromStr for LogFormat {
    type Err = UnknownFormat;

    fn from_str(text: &str) -> Result<Self, UnknownFormat> {
        match text {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(UnknownFormat),
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("must be one of text, json")]
pub struct UnknownFormat;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogSettings {
    /// A level, or several `target=level` separated by commas.
    pub directives: String,
    pub format: LogFormat,
}

#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The configuration rejects such a level earlier.
    #[error("invalid log level")]
    Level(#[source] ParseError),
    #[error("logging was started twice")]
    Logging(#[source] TryInitError),
    #[error("cannot install the metrics recorder")]
    Metrics(#[source] BuildError),
}

/// Starts logging for the process, including the `log` crate.
///
/// # Errors
/// If logging was started before or the level is invalid.
pub fn init(settings: &LogSettings) -> Result<(), TelemetryError> {
    init_reporting(settings, &Tracker::default())
}

/// Like [`init`]; also reports log lines of the level *error* to the tracker.
pub(crate) fn init_reporting(settings: &LogSettings, tracker: &Tracker) -> Result<(), TelemetryError> {
    let filter = EnvFilter::try_new(with_quiet_parts(&settings.directives)).map_err(TelemetryError::Level)?;
    let line = fmt::layer().with_writer(std::io::stderr);
    let layer = match settings.format {
        LogFormat::Text => line.with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => {
            line.json().flatten_event(true).with_span_list(true).with_current_span(false).boxed()
        }
    };
    let all = tracing_subscriber::registry().with(filter).with(layer);
    match tracker.layer() {
        Some(reports) => all.with(reports).try_init(),
        // A layer would inspect every span.
        None => all.try_init(),
    }
    .map_err(TelemetryError::Logging)
}

/// Silences the web server's messages about its threads, unless a directive names that target.
fn with_quiet_parts(directives: &str) -> String {
    const SERVER: &str = "actix_server";
    let is_quiet = ["off", "error", "warn"].contains(&directives);
    if is_quiet || directives.contains(SERVER) {
        directives.to_owned()
    } else {
        format!("{directives},{SERVER}=warn")
    }
}

/// Validates log directives. The filter itself reads a misspelt level as a target name and then
/// logs nothing.
pub(crate) fn check_directives(directives: &str) -> Result<(), String> {
    const ALLOWED: &str =
        "must be off, error, warn, info, debug or trace, or target=level, separated by commas";
    for directive in directives.split(',') {
        let level = directive.rsplit_once('=').map_or(directive, |(_, level)| level);
        if level.is_empty()
            || level.parse::<LevelFilter>().is_err()
            || level.bytes().all(|b| b.is_ascii_digit())
        {
            return Err(ALLOWED.to_owned());
        }
    }
    EnvFilter::try_new(directives).map(|_| ()).map_err(|error| format!("{ALLOWED} ({error})"))
}

/// The handle of the metrics recorder, which the first call installs.
///
/// # Errors
/// If another recorder is installed.
pub fn metrics_recorder() -> Result<PrometheusHandle, TelemetryError> {
    // Stored, so that a test can run two daemons in one process.
    static INSTALLED: Mutex<Option<PrometheusHandle>> = Mutex::new(None);
    // The value is only ever set as a whole, so a panic cannot leave it half-set.
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(handle) = installed.as_ref() {
        return Ok(handle.clone());
    }
    let handle = PrometheusBuilder::new()
        .set_buckets_for_metric(Matcher::Suffix("_seconds".to_owned()), SECONDS)
        .and_then(|builder| builder.set_buckets(COUNTS))
        .and_then(PrometheusBuilder::install_recorder)
        .map_err(TelemetryError::Metrics)?;
    *installed = Some(handle.clone());
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_a_word_or_a_target_with_a_word() {
        for good in ["info", "off", "WARN", "info,sched_worker=debug", "warn,hyper=off"] {
            assert_eq!(check_directives(good), Ok(()), "{good}");
        }
        for bad in ["", "inof", "3", "info,", "sched_worker", "sched_worker=", "sched_worker=loud", "=info,x"]
        {
            let text = check_directives(bad).expect_err(bad);
            assert!(text.contains("error, warn, info"), "{bad}: {text}");
        }
    }

    #[test]
    fn histograms_render_as_histograms_and_a_second_caller_gets_the_same_recorder() {
        let first = metrics_recorder().unwrap();
        metrics::histogram!("telemetry_test_seconds").record(0.02);
        metrics::histogram!("telemetry_test_rows").record(3.0);
        for rendered in [first.render(), metrics_recorder().unwrap().render()] {
            assert!(rendered.contains("telemetry_test_seconds_bucket{le=\"0.025\"} 1"), "{rendered}");
            assert!(rendered.contains("telemetry_test_seconds_bucket{le=\"0.01\"} 0"), "{rendered}");
            assert!(rendered.contains("telemetry_test_rows_bucket{le=\"5\"} 1"), "{rendered}");
        }
    }
}
