//! Shared settings and their typed readers: one definition, so that a variable has the same meaning
//! everywhere. Readers record mistakes in the [`Values`].

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};
use url::Url;

use super::setting::Setting;
use super::values::Values;
use crate::exit;
use crate::private_file;
use crate::telemetry::LogSettings;

/// Database connection settings; read with [`DatabaseSettings::read`].
pub const DATABASE: &[Setting] = &[
    Setting::new(
        "database-url",
        "DATABASE_URL",
        "URL",
        "PostgreSQL to coordinate through; several hosts are allowed. Everything the daemons know is in it",
    )
    .secret_url()
    .example("postgresql://sched@localhost:5432/sched"),
    Setting::new(
        "database-url-file",
        "DATABASE_URL_FILE",
        "FILE",
        "File with the URL of the database, in place of the URL: for credentials of a service manager. Accessible only to its owner",
    ),
    Setting::new(
        "database-pool-size",
        "DATABASE_POOL_SIZE",
        "COUNT",
        "Connections this process may hold; with too few, work waits for a connection, and the sum over all processes \
         must stay below the server's max_connections",
    )
    .default("10"),
    Setting::new(
        "database-connect-timeout",
        "DATABASE_CONNECT_TIMEOUT",
        "DURATION",
        "Longest wait for a new connection or for a free one of the pool",
    )
    .default("5s"),
    Setting::new(
        "database-statement-timeout",
        "DATABASE_STATEMENT_TIMEOUT",
        "DURATION",
        "Longest run of one statement before the server cancels it",
    )
    .default("30s"),
    Setting::new(
        "database-lock-timeout",
        "DATABASE_LOCK_TIMEOUT",
        "DURATION",
        "Longest wait of one statement for a lock; must be below the statement timeout",
    )
    .default("3s"),
    Setting::new(
        "database-ca-file",
        "DATABASE_CA_FILE",
        "FILE",
        "PEM file with the authorities that may sign the server's certificate, instead of the system's",
    ),
];

/// Log settings; read with [`LogSettings::read`].
pub const LOGGING: &[Setting] = &[
    Setting::new(
        "log-level",
        "LOG_LEVEL",
        "LEVEL",
        "off, error, warn, info, debug or trace; single parts of the program as target=level, separated by commas",
    )
    .default("info"),
    Setting::new("log-format", "LOG_FORMAT", "FORMAT", "text for people or json, one object per line, for machines")
        .default("text"),
];

/// Address of the health and metrics pages; read with [`HealthSettings::read`].
pub const HEALTH: &[Setting] = &[HEALTH_HOST.default("127.0.0.1"), HEALTH_PORT.default("0")];

/// The same for a program that serves these pages on another port too; read with
/// [`HealthSettings::read_optional`].
pub const OPTIONAL_HEALTH: &[Setting] = &[HEALTH_HOST, HEALTH_PORT];

const HEALTH_HOST: Setting = Setting::new(
    "health-host",
    "HEALTH_HOST",
    "ADDRESS",
    "Address the health and metrics listener binds; it requires no password, so keep it off public networks",
);

const HEALTH_PORT: Setting = Setting::new(
    "health-port",
    "HEALTH_PORT",
    "PORT",
    "Port of the health and metrics listener; 0 takes a free one. The API serves these pages on its own port, and here too if this is set",
);

/// Settings of earlier systems, which no daemon takes.
pub const REFUSED: &[Setting] = &[
    Setting::refused(
        "dispatch-lock-duration",
        "DISPATCH_LOCK_DURATION",
        "has no use here: a unique key of job and fire time prevents a second dispatch, without a lock for some time; remove it",
    ),
    Setting::refused(
        "worker-job-timeout",
        "WORKER_JOB_TIMEOUT",
        "has no use here: every function has a time-out; set default_timeout_seconds of the function or timeout_seconds of the job, and \
         remove it",
    ),
];

/// Decryption of secrets; read with [`SecretsSettings::read`].
pub const SECRETS: &[Setting] = &[Setting::new(
    "secrets-key-file",
    "SECRETS_KEY_FILE",
    "FILE",
    "Keys of the secrets, one a line: the first writes, all read. Accessible only to its owner, and the same for the API and all workers; \
     without it nothing uses secrets",
)];

/// How people reach the API; read with [`PublicSettings::read`].
pub const PUBLIC: &[Setting] = &[Setting::new(
    "public-url",
    "PUBLIC_URL",
    "URL",
    "URL under which people reach the API, such as https://sched.example.com; notifications and dead letters link their runs below it",
)];

/// Process settings that one program passes to another; read with [`ProcessSettings::read`].
pub const PROCESS: &[Setting] = &[Setting::new(
    "exit-with-parent",
    "SCHED_EXIT_WITH_PARENT",
    "PID",
    "Stop when the parent process, which must be PID, ends for any reason",
)
.hidden()];

#[derive(Debug, Clone)]
pub struct DatabaseSettings {
    /// The URL, with its password.
    pub url: SecretString,
    /// Limit of connections of this process.
    pub pool_size: u32,
    /// Longest wait for a connection.
    pub connect_timeout: Duration,
    /// Longest run time of a statement.
    pub statement_timeout: Duration,
    /// Longest wait of a statement for a lock.
    pub lock_timeout: Duration,
    /// Certificate authorities that replace the system's.
    pub ca_file: Option<PathBuf>,
}

impl DatabaseSettings {
    pub fn read(values: &mut Values) -> Self {
        let (given_by, url) = read_url(values);
        let known =
            ["postgresql://", "postgres://"].iter().any(|scheme| url.expose_secret().starts_with(scheme));
        if !known && !url.expose_secret().is_empty() {
            values.mistake(given_by, "must start with postgresql://");
        }
        let statement_timeout = values.duration("database-statement-timeout");
        let lock_timeout = values.duration("database-lock-timeout");
        let sound = values.are_sound(&["database-statement-timeout", "database-lock-timeout"]);
        if sound && lock_timeout >= statement_timeout {
            values.mistake(
                "database-lock-timeout",
                "must be below database-statement-timeout, which strikes first",
            );
        }
        Self {
            url,
            pool_size: values.integer("database-pool-size", 1..=1000),
            connect_timeout: values.duration("database-connect-timeout"),
            statement_timeout,
            lock_timeout,
            ca_file: values.optional_string("database-ca-file").map(PathBuf::from),
        }
    }
}

/// The URL of the database, and the setting that gives it.
fn read_url(values: &mut Values) -> (&'static str, SecretString) {
    let (url, file) = ("database-url", "database-url-file");
    let Some(path) = values.optional_string(file) else { return (url, values.secret(url)) };
    if values.optional_secret(url).is_some() {
        values.mistake(file, "and database-url exclude each other; remove one of them");
        return (file, String::new().into());
    }
    match private_file::read(Path::new(&path)) {
        Ok(text) if text.expose_secret().trim().is_empty() => {
            values.mistake(file, "must contain the URL of the database");
            (file, String::new().into())
        }
        Ok(text) => (file, text.expose_secret().trim().to_owned().into()),
        Err(error) => {
            values.mistake(file, format_args!("cannot be used: {}", exit::describe(&error)));
            (file, String::new().into())
        }
    }
}

impl LogSettings {
    /// Reads [`LOGGING`], recording every mistake.
    pub fn read(values: &mut Values) -> Self {
        // The filter reads a blank after a comma as part of the next name.
        let directives = values.string("log-level").split(',').map(str::trim).collect::<Vec<_>>().join(",");
        if let Err(fault) = crate::telemetry::check_directives(&directives)
            && !directives.is_empty()
        {
            values.mistake("log-level", fault);
        }
        Self { directives, format: values.choice("log-format", &["text", "json"]) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthSettings {
    pub host: IpAddr,
    /// The port to bind; 0 selects a free one.
    pub port: u16,
}

impl HealthSettings {
    pub fn read(values: &mut Values) -> Self {
        Self { host: values.ip("health-host"), port: values.integer("health-port", 0..=u16::MAX) }
    }

    /// `None` if the port is not set.
    pub fn read_optional(values: &mut Values) -> Option<Self> {
        let host = values.optional_ip("health-host");
        let port = values.optional_integer("health-port", 0..=u16::MAX);
        if port.is_none() && host.is_some() && values.are_sound(&["health-port"]) {
            let why = "has no effect without health-port; the pages are on the port of the API, too";
            values.mistake("health-host", why);
        }
        Some(Self { host: host.unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST)), port: port? })
    }

    #[must_use]
    pub fn socket_addr(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretsSettings {
    pub key_file: Option<PathBuf>,
}

impl SecretsSettings {
    /// Reads the group, recording every mistake. Does not open the file.
    pub fn read(values: &mut Values) -> Self {
        Self { key_file: values.optional_string("secrets-key-file").map(PathBuf::from) }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicSettings {
    /// Without a slash at the end.
    pub url: Option<String>,
}

impl PublicSettings {
    /// Reads the group, recording every mistake.
    pub fn read(values: &mut Values) -> Self {
        let url = values.optional_string("public-url").and_then(|text| {
            let url = Url::parse(&text).ok().filter(is_base);
            if url.is_none() {
                values
                    .mistake("public-url", "must be like https://sched.example.com, without user and query");
            }
            url.map(|url| url.as_str().trim_end_matches('/').to_owned())
        });
        Self { url }
    }
}

fn is_base(url: &Url) -> bool {
    let has_user = !url.username().is_empty() || url.password().is_some();
    let is_plain = !has_user && url.query().is_none() && url.fragment().is_none();
    matches!(url.scheme(), "http" | "https") && url.has_host() && is_plain
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessSettings {
    /// Process id of the parent whose end also ends this process.
    pub exit_with_parent: Option<i32>,
}

impl ProcessSettings {
    pub fn read(values: &mut Values) -> Self {
        Self { exit_with_parent: values.optional_integer("exit-with-parent", 1..=i32::MAX) }
    }
}
