use std::fmt;

use reqwest::Url;
use reqwest::header::HeaderValue;
use secrecy::ExposeSecret as _;

use crate::config::{Setting, Values};

/// Tracker settings; read with [`TrackerSettings::read`].
pub const TRACKER: &[Setting] = &[
    Setting::new(
        "error-tracker-dsn",
        "ERROR_TRACKER_DSN",
        "DSN",
        "Where errors and panics are reported, as trackers that speak Sentry's protocol show it; without it they are in the log alone",
    )
    .secret(),
    Setting::new(
        "error-tracker-environment",
        "ERROR_TRACKER_ENVIRONMENT",
        "NAME",
        "What reports call this installation",
    )
    .default("production"),
];

#[derive(Clone)]
pub struct TrackerSettings {
    pub(super) url: Url,
    pub(super) auth: HeaderValue,
    pub(super) environment: String,
}

impl fmt::Debug for TrackerSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TrackerSettings").field("environment", &self.environment).finish_non_exhaustive()
    }
}

impl TrackerSettings {
    /// Reads the group, recording every mistake; `None` if errors are not reported.
    pub fn read(values: &mut Values) -> Option<Self> {
        let environment = values.string("error-tracker-environment");
        let dsn = values.optional_secret("error-tracker-dsn")?;
        let Some((url, auth)) = parse(dsn.expose_secret()) else {
            values.mistake("error-tracker-dsn", "must be like https://KEY@errors.example.com/PROJECT");
            return None;
        };
        Some(Self { url, auth, environment })
    }
}

/// The address for envelopes, and the authentication header.
fn parse(dsn: &str) -> Option<(Url, HeaderValue)> {
    let mut url =
        Url::parse(dsn).ok().filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host())?;
    let key = url.username().to_owned();
    let is_key = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let (folder, project) = url.path().rsplit_once('/')?;
    if !is_key || project.is_empty() {
        return None;
    }
    let path = format!("{folder}/api/{project}/envelope/");
    url.set_path(&path);
    // Fails only for addresses without a host.
    let (Ok(()) | Err(())) = url.set_username("");
    let (Ok(()) | Err(())) = url.set_password(None);
    url.set_query(None);
    let client = concat!("sched/", env!("CARGO_PKG_VERSION"));
    let auth = format!("Sentry sentry_version=7, sentry_client={client}, sentry_key={key}");
    let mut auth = HeaderValue::try_from(auth).ok()?;
    auth.set_sensitive(true);
    Some((url, auth))
}
