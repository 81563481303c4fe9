//! Shared settings and their typed readers: one definition, so that a variable has the same meaning
//! everywhere. Readers record mistakes in the [`Values`].

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use secrecy::{ExposeSecret, SecretString};

use super::setting::Setting;
use super::values::Values;
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
pub const HEALTH: &[Setting] = &[
    Setting::new(
        "health-host",
        "HEALTH_HOST",
        "ADDRESS",
        "Address the health and metrics listener binds; it requires no password, so keep it off public networks",
    )
    .default("127.0.0.1"),
    Setting::new("health-port", "HEALTH_PORT", "PORT", "Port of the health and metrics listener; 0 takes a free one")
        .default("0"),
];

/// Decryption of secrets; read with [`SecretsSettings::read`].
pub const SECRETS: &[Setting] = &[Setting::new(
    "secrets-key-file",
    "SECRETS_KEY_FILE",
    "FILE",
    "Keys of the secrets, one a line: the first writes, all read. Accessible only to its owner, and the same for the API and all workers; \
     without it nothing uses secrets",
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
        let url = values.secret("database-url");
        let known =
            ["postgresql://", "postgres://"].iter().any(|scheme| url.expose_secret().starts_with(scheme));
        if !known && !url.expose_secret().is_empty() {
            values.mistake("database-url", "must start with postgresql://");
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
