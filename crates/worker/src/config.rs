//! The settings of the worker: names, units, defaults and their dependencies.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use sched_model::domain::lease::Lease;
use sched_runtime::config::{self, DatabaseSettings, HealthSettings, SecretsSettings, Setting, Values};

use crate::built_in::{ArchiveTarget, InvalidMailer, Mailer, SystemSettings};
use crate::claiming::weights;
use crate::handlers::http::{AllowList, PortList};
use crate::handlers::process::{EnvAllowList, ProgramList, RunAsList};

/// The settings of this daemon besides those of every daemon.
pub const SETTINGS: &[Setting] = &[
    Setting::new("worker-concurrency", "WORKER_CONCURRENCY", "COUNT", "How many runs execute at once").default("10"),
    Setting::new(
        "worker-queues",
        "WORKER_QUEUES",
        "NAMES",
        "Queues to serve, separated by commas; built-in jobs use the queue system. With weights (critical=5,default=1) the queues share the \
         free slots in that proportion; without weights, priority decides across all queues",
    )
    .default("default,system"),
    Setting::new(
        "worker-listen",
        "WORKER_LISTEN",
        "BOOL",
        "Whether to listen for notifications of new runs; false behind a pooler that drops them, so that the worker only polls",
    )
    .default("true"),
    Setting::new(
        "worker-poll-interval",
        "WORKER_POLL_INTERVAL",
        "DURATION",
        "Shortest pause after a poll that found no run; the pause grows by half each time",
    )
    .default("1s"),
    Setting::new(
        "worker-max-poll-interval",
        "WORKER_MAX_POLL_INTERVAL",
        "DURATION",
        "Longest pause between two polls; a notification ends it",
    )
    .default("30s"),
    Setting::new(
        "worker-heartbeat-interval",
        "WORKER_HEARTBEAT_INTERVAL",
        "DURATION",
        "Time between heartbeats of a worker that is not idle",
    )
    .default("5s"),
    Setting::new(
        "worker-idle-heartbeat-interval",
        "WORKER_IDLE_HEARTBEAT_INTERVAL",
        "DURATION",
        "Time between heartbeats of a worker that has run nothing for worker-offline-threshold; it counts as dead after three of them, \
         but not before worker-offline-threshold. Half of that threshold by default, and at most that threshold. Without \
         worker-listen a worker is never idle",
    ),
    Setting::new(
        "worker-offline-threshold",
        "WORKER_OFFLINE_THRESHOLD",
        "DURATION",
        "Time without a heartbeat after which the worker counts as dead; the same for workers and schedulers, at least three heartbeats",
    )
    .default("30s"),
    Setting::new(
        "worker-drain-timeout",
        "WORKER_DRAIN_TIMEOUT",
        "DURATION",
        "How long running attempts may take to finish when the worker stops; then they are stopped and released",
    )
    .default("30s"),
    Setting::new(
        "worker-temp-dir",
        "WORKER_TEMP_DIR",
        "DIRECTORY",
        "Parent of the private directories of attempts; the system's temporary directory by default",
    ),
    Setting::new(
        "worker-cgroup-root",
        "WORKER_CGROUP_ROOT",
        "PATH",
        "Control group, such as /sched, in which jobs with limits get their groups; the group of the worker by default",
    ),
    Setting::new(
        "worker-programs",
        "WORKER_PROGRAMS",
        "PATHS",
        "Programs that process functions may start: absolute paths, folders with /*, or folders with all subfolders with /**. The target of a \
         link counts; shell commands need /bin/sh on the list. Any program by default: set it if tenants are not trusted",
    ),
    Setting::new(
        "worker-env-allow",
        "WORKER_ENV_ALLOW",
        "NAMES",
        "Variables of the worker's environment that functions may name in env_allow, separated by commas. Any by default, except settings of \
         the scheduler's programs and names that look like secrets, which are always refused",
    ),
    Setting::new(
        "worker-run-as",
        "WORKER_RUN_AS",
        "USERS",
        "Users that functions may name in run_as, by name or number; user:group also allows that group. None by default, and never root",
    ),
    Setting::new(
        "worker-http-allow",
        "WORKER_HTTP_ALLOW",
        "TARGETS",
        "Targets that http functions may call besides the public Internet: networks, addresses or host names, each with an optional port",
    ),
    Setting::new(
        "worker-http-ports",
        "WORKER_HTTP_PORTS",
        "PORTS",
        "Ports that http functions may call, such as 443,8000-8099, besides the ports in worker-http-allow; any by default",
    ),
    Setting::new(
        "worker-http-ca-file",
        "WORKER_HTTP_CA_FILE",
        "FILE",
        "PEM file with certificate authorities that http functions trust besides those of the system",
    ),
    Setting::new(
        "worker-report-failures",
        "WORKER_REPORT_FAILURES",
        "BOOL",
        "Whether runs that failed permanently with an attempt of this worker are reported to the error tracker",
    )
    .switch(),
    Setting::new(
        "max-retry-attempts",
        "MAX_RETRY_ATTEMPTS",
        "COUNT",
        "Attempts in all of jobs without a retry policy",
    )
    .default("1"),
];

/// The settings of built-in jobs.
const SYSTEM: &[Setting] = &[
    Setting::new(
        "archive-url",
        "ARCHIVE_URL",
        "URL",
        "Where sched.archive stores months of history: file:///folder or s3://bucket/prefix, with the AWS_* variables of the environment",
    ),
    Setting::new(
        "backup-dir",
        "BACKUP_DIR",
        "DIRECTORY",
        "Where sched.backup stores dumps of the scheduler's database",
    ),
    Setting::new("backup-keep", "BACKUP_KEEP", "COUNT", "How many dumps sched.backup keeps").default("7"),
    Setting::new(
        "pg-bin-dir",
        "PG_BIN_DIR",
        "DIRECTORY",
        "Directory of pg_dump, which must not be older than the server; found in PATH by default",
    ),
    Setting::new(
        "worker-smtp-url",
        "WORKER_SMTP_URL",
        "URL",
        "Mail server for notifications: smtps://user:password@host:465, smtp://host:587?tls=required, or smtp://host:25 without TLS; without \
         this setting the worker sends no e-mail",
    )
    .secret_url(),
    Setting::new(
        "worker-smtp-from",
        "WORKER_SMTP_FROM",
        "ADDRESS",
        "Sender of e-mail notifications, such as sched@example.com; required with WORKER_SMTP_URL",
    ),
];

/// All groups of settings of this daemon.
pub const GROUPS: &[&[Setting]] = &[config::DATABASE, config::HEALTH, config::SECRETS, SETTINGS, SYSTEM];

/// The validated settings.
#[derive(Debug, Clone)]
pub struct Config {
    pub database: DatabaseSettings,
    pub health: HealthSettings,
    pub secrets: SecretsSettings,
    /// How many runs execute at once.
    pub concurrency: u32,
    pub queues: Vec<String>,
    /// Weights of `queues`, in the same order.
    pub queue_weights: Vec<u32>,
    pub listen: bool,
    /// Whether failed runs are reported to the error tracker.
    pub report_failures: bool,
    /// Shortest and longest pause between two polls.
    pub poll: (Duration, Duration),
    pub heartbeat_interval: Duration,
    /// Time between heartbeats of a worker that runs nothing.
    pub idle_heartbeat_interval: Duration,
    pub lease: Lease,
    /// How long running attempts may take to finish.
    pub drain_timeout: Duration,
    /// Parent of the private directories of attempts.
    pub temp_dir: PathBuf,
    /// Control group in which attempts with limits get groups; the group of the worker if `None`.
    pub cgroup_root: Option<String>,
    pub programs: ProgramList,
    /// Variables that functions may inherit.
    pub env_allow: EnvAllowList,
    /// Users that functions may run as.
    pub run_as: RunAsList,
    /// Targets that http functions may call besides the public Internet.
    pub http_allow: AllowList,
    /// Ports that http functions may call.
    pub http_ports: PortList,
    /// Certificate authorities that http functions trust besides those of the system.
    pub http_ca_file: Option<PathBuf>,
    /// Maximum attempts per run of jobs without a retry policy.
    pub max_retry_attempts: u32,
    /// Settings of the built-in jobs.
    pub system: SystemSettings,
}

impl Config {
    /// Reads the settings and records every error.
    pub fn read(values: &mut Values) -> Self {
        let seconds = Duration::from_secs;
        let milliseconds = Duration::from_millis;
        let heartbeat_interval =
            values.duration_within("worker-heartbeat-interval", milliseconds(50)..=seconds(600));
        let lease = values.duration_within("worker-offline-threshold", milliseconds(200)..=seconds(3600));
        let shortest = values.duration_within("worker-poll-interval", milliseconds(10)..=seconds(600));
        let longest = values.duration_within("worker-max-poll-interval", milliseconds(10)..=seconds(3600));
        if values.are_sound(&["worker-poll-interval", "worker-max-poll-interval"]) && longest < shortest {
            values.mistake("worker-max-poll-interval", "must not be shorter than worker-poll-interval");
        }
        let cgroup_root = values.optional_string("worker-cgroup-root");
        if cgroup_root.as_ref().is_some_and(|path| !path.starts_with('/') || path.contains("..")) {
            values.mistake(
                "worker-cgroup-root",
                "must be a path within the cgroup hierarchy that starts with a slash and has no ..",
            );
        }
        let lease = match Lease::new(lease, heartbeat_interval) {
            Ok(lease) => lease,
            Err(error) => {
                if values.are_sound(&["worker-offline-threshold", "worker-heartbeat-interval"]) {
                    values.mistake("worker-offline-threshold", error);
                }
                Lease::shortest(heartbeat_interval)
            }
        };
        let idle_heartbeat_interval = read_idle_interval(values, heartbeat_interval, lease.duration());
        let named = values.list("worker-queues");
        let (queues, queue_weights) = weights::parse(&named).unwrap_or_else(|error| {
            values.mistake("worker-queues", error);
            (Vec::new(), Vec::new())
        });
        Self {
            database: DatabaseSettings::read(values),
            health: HealthSettings::read(values),
            secrets: SecretsSettings::read(values),
            concurrency: values.integer("worker-concurrency", 1..=10_000),
            queues,
            queue_weights,
            listen: values.boolean("worker-listen"),
            report_failures: values.boolean("worker-report-failures"),
            poll: (shortest, longest),
            heartbeat_interval,
            idle_heartbeat_interval,
            lease,
            drain_timeout: values
                .duration_within("worker-drain-timeout", Duration::ZERO..=seconds(24 * 3600)),
            temp_dir: values
                .optional_string("worker-temp-dir")
                .map_or_else(std::env::temp_dir, PathBuf::from),
            cgroup_root,
            programs: read_list(values, "worker-programs", |items| match items {
                [] => Ok(ProgramList::default()),
                items => ProgramList::parse(items),
            }),
            env_allow: read_list(values, "worker-env-allow", EnvAllowList::parse),
            run_as: read_list(values, "worker-run-as", RunAsList::parse),
            http_allow: allow_list(values),
            http_ports: read_list(values, "worker-http-ports", PortList::parse),
            http_ca_file: values.optional_string("worker-http-ca-file").map(PathBuf::from),
            max_retry_attempts: values.integer("max-retry-attempts", 1..=100),
            system: read_system(values),
        }
    }
}

/// A longer interval would show a dead worker as living for more than three thresholds, and hide the
/// silence of the leader for longer than a lease.
fn read_idle_interval(values: &mut Values, heartbeat_interval: Duration, lease: Duration) -> Duration {
    const NAME: &str = "worker-idle-heartbeat-interval";
    let default = (lease / 2).max(heartbeat_interval);
    let Some(interval) = values.optional_duration(NAME) else { return default };
    if !values.are_sound(&[NAME, "worker-heartbeat-interval", "worker-offline-threshold"]) {
        return default;
    }
    if interval < heartbeat_interval {
        values.mistake(
            NAME,
            format!(
                "must not be shorter than worker-heartbeat-interval ({heartbeat_interval:?}); remove it for the default, half of \
                 worker-offline-threshold"
            ),
        );
        return default;
    }
    if interval > lease {
        values.mistake(
            NAME,
            format!(
                "must not be longer than worker-offline-threshold ({lease:?}), or a dead worker counts as living for too long; remove it for \
                 the default, half of that threshold"
            ),
        );
        return default;
    }
    interval
}

/// Reads an optional list; a mistake in it is recorded, and the result is then not used.
fn read_list<T: Default, E: Display>(
    values: &mut Values,
    name: &str,
    parse: impl FnOnce(&[String]) -> Result<T, E>,
) -> T {
    parse(&values.optional_list(name)).unwrap_or_else(|wrong| {
        values.mistake(name, wrong);
        T::default()
    })
}

fn allow_list(values: &mut Values) -> AllowList {
    let mut allowed = Vec::new();
    for target in values.optional_list("worker-http-allow") {
        match target.parse() {
            Ok(entry) => allowed.push(entry),
            Err(error) => values.mistake("worker-http-allow", error),
        }
    }
    allowed.into_iter().collect()
}

fn read_system(values: &mut Values) -> SystemSettings {
    let archive = values.optional_string("archive-url").map(|text| text.parse::<ArchiveTarget>());
    if let Some(Err(wrong)) = &archive {
        values.mistake("archive-url", wrong);
    }
    SystemSettings {
        archive: archive.and_then(Result::ok),
        backup_dir: values.optional_string("backup-dir").map(PathBuf::from),
        backup_keep: values.integer("backup-keep", 1..=10_000),
        pg_bin_dir: values.optional_string("pg-bin-dir").map(PathBuf::from),
        mail: read_mailer(values),
    }
}

fn read_mailer(values: &mut Values) -> Option<Mailer> {
    let (url, from) = (values.optional_secret("worker-smtp-url"), values.optional_string("worker-smtp-from"));
    match (url, from) {
        (None, None) => None,
        (Some(url), Some(from)) => match Mailer::new(&url, &from) {
            Ok(mailer) => Some(mailer),
            Err(error @ InvalidMailer::Url) => {
                values.mistake("worker-smtp-url", error);
                None
            }
            Err(error @ InvalidMailer::From) => {
                values.mistake("worker-smtp-from", error);
                None
            }
        },
        (None, Some(_)) => {
            values.mistake("worker-smtp-from", "has no effect without worker-smtp-url; set both");
            None
        }
        (Some(_), None) => {
            values.mistake("worker-smtp-from", "must be set with worker-smtp-url");
            None
        }
    }
}
