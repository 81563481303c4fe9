//! Settings of the outgoing heartbeat.

use std::path::Path;
use std::time::Duration;

use sched_runtime::config::{Setting, Values};
use sched_runtime::exit::describe;
use sched_runtime::http_targets::{AllowList, TargetUrl};
use sched_runtime::private_file;
use secrecy::ExposeSecret as _;

use crate::tasks::heartbeat::HeartbeatStyle;

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        "heartbeat-url",
        "HEARTBEAT_URL",
        "URL",
        "URL that the leader calls every minute while it dispatches and nothing is overdue. A service outside of the installation that \
         expects these calls notices when every scheduler, the database or the machine stops",
    )
    .secret(),
    Setting::new(
        "heartbeat-url-file",
        "HEARTBEAT_URL_FILE",
        "FILE",
        "File with the URL, in place of heartbeat-url; accessible only to its owner",
    ),
    Setting::new(
        "heartbeat-style",
        "HEARTBEAT_STYLE",
        "STYLE",
        "How the leader reports that it leads but does not dispatch or that work is overdue: healthchecks posts the reason to /fail below \
         the URL, cronitor adds state=fail and the reason, plain does not call",
    )
    .default("healthchecks"),
    Setting::new(
        "heartbeat-overdue-after",
        "HEARTBEAT_OVERDUE_AFTER",
        "DURATION",
        "How long a job may be due, and how long a run may wait for a worker, before it is overdue; longer than the usual backlog",
    )
    .default("60s"),
    Setting::new(
        "worker-http-allow",
        "WORKER_HTTP_ALLOW",
        "TARGETS",
        "Targets that heartbeat-url may name besides the public Internet: networks, addresses or host names, each with an optional port; \
         the list that workers use for http functions",
    ),
];

#[derive(Debug, Clone)]
pub struct HeartbeatConfig {
    pub url: TargetUrl,
    pub style: HeartbeatStyle,
    /// Age of a due job or of a waiting run that is a failure.
    pub overdue_after: Duration,
    /// Targets besides the public Internet.
    pub allow: AllowList,
}

impl HeartbeatConfig {
    /// Records every error; `None` without a URL.
    pub(super) fn read(values: &mut Values) -> Option<Self> {
        let style = values.choice("heartbeat-style", &["healthchecks", "cronitor", "plain"]);
        let overdue_after = values.duration_within(
            "heartbeat-overdue-after",
            Duration::from_secs(10)..=Duration::from_secs(7 * 24 * 3600),
        );
        let mut allowed = Vec::new();
        for target in values.optional_list("worker-http-allow") {
            match target.parse() {
                Ok(entry) => allowed.push(entry),
                Err(error) => values.mistake("worker-http-allow", error),
            }
        }
        let url = read_url(values)?;
        Some(Self { url, style, overdue_after, allow: allowed.into_iter().collect() })
    }
}

fn read_url(values: &mut Values) -> Option<TargetUrl> {
    let given = values.optional_secret("heartbeat-url");
    let file = values.optional_string("heartbeat-url-file");
    let (name, text) = match (given, file) {
        (None, None) => return None,
        (Some(_), Some(_)) => {
            values.mistake("heartbeat-url-file", "cannot be used with heartbeat-url; remove one of them");
            return None;
        }
        (Some(url), None) => ("heartbeat-url", url),
        (None, Some(path)) => match private_file::read(Path::new(&path)) {
            Ok(text) => ("heartbeat-url-file", text),
            Err(error) => {
                values.mistake("heartbeat-url-file", format!("cannot be used: {}", describe(&error)));
                return None;
            }
        },
    };
    let url = TargetUrl::parse(text.expose_secret());
    url.map_err(|error| values.mistake(name, format!("is unusable: the URL {error}"))).ok()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use sched_runtime::config::{MapSource, Program, load};

    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Option<HeartbeatConfig>, String> {
        let source: MapSource = variables.iter().copied().collect();
        // The defaults of the program are those of other groups.
        let program = Program { defaults: &[], ..crate::PROGRAM };
        let mut values = load(&program, &[SETTINGS], ["sched-scheduler"], &source).unwrap();
        let config = HeartbeatConfig::read(&mut values);
        values.finish().map(|()| config).map_err(|error| error.to_string())
    }

    #[test]
    fn url_comes_from_the_setting_or_its_file() {
        assert!(read(&[]).unwrap().is_none());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("url");
        let file = path.to_str().unwrap();
        fs::write(&path, "https://hc-ping.com/s3cret\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let from_file = read(&[("HEARTBEAT_URL_FILE", file), ("HEARTBEAT_STYLE", "plain")]).unwrap().unwrap();
        let given = read(&[("HEARTBEAT_URL", "https://hc-ping.com/s3cret")]).unwrap().unwrap();
        assert_eq!(from_file.url, given.url);
        assert_eq!((from_file.style, given.style), (HeartbeatStyle::Plain, HeartbeatStyle::Healthchecks));
        assert!(!format!("{given:?}").contains("s3cret"));

        let both = [("HEARTBEAT_URL_FILE", file), ("HEARTBEAT_URL", "https://hc-ping.com/s3cret")];
        assert!(read(&both).unwrap_err().contains("remove one of them"));
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert!(read(&[("HEARTBEAT_URL_FILE", file)]).unwrap_err().contains("chmod 600"));
    }

    #[test]
    fn wrong_setting_is_refused_without_its_secret() {
        for (wrong, expected) in [
            (("HEARTBEAT_URL", "ftp://s3cret/"), "the URL must begin"),
            (("HEARTBEAT_STYLE", "loud"), "healthchecks"),
            (("HEARTBEAT_OVERDUE_AFTER", "1s"), "heartbeat-overdue-after"),
            (("WORKER_HTTP_ALLOW", "a b"), "is not a target"),
        ] {
            let error = read(&[wrong]).unwrap_err();
            assert!(error.contains(expected) && !error.contains("s3cret"), "{error}");
        }
    }
}
