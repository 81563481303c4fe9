//! The settings of the API: names, defaults and checks.
//!
//! All errors are collected and reported together.

mod jwt;
mod stuck;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sched_model::domain::identity::check_environment;
use sched_model::domain::timetable::Zone;
use sched_model::recovery::stuck_attempts::Thresholds;
use sched_runtime::config::{
    self, DatabaseSettings, HealthSettings, PublicSettings, SecretsSettings, Setting, Values,
};

pub use crate::http::client_address::Network;
pub use jwt::{JwtKeys, JwtSettings};

pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "api-host",
        "API_HOST",
        "ADDRESS",
        "Address to listen on; the API has no TLS, so expose an address other than loopback only behind a TLS proxy",
    )
    .default("127.0.0.1"),
    Setting::new(
        "api-port",
        "API_PORT",
        "PORT",
        "Port of the API and its health pages; 0 selects a free one",
    )
    .default("8080"),
    Setting::new(
        "api-allowed-hosts",
        "API_ALLOWED_HOSTS",
        "HOSTS",
        "Host names of this API, separated by commas, besides loopback names; requests with a key may use any name",
    ),
    Setting::new(
        "api-request-rate",
        "API_REQUEST_RATE",
        "COUNT",
        "Requests per second that one key may send to this process; bursts may be twice as large; 0 for no limit",
    )
    .default("1000"),
    Setting::new(
        "api-stream-patience",
        "API_STREAM_PATIENCE",
        "DURATION",
        "Time in which a client that follows output or events must accept each message; a slower one is disconnected",
    )
    .default("30s"),
    Setting::new(
        "api-key-environment",
        "API_KEY_ENVIRONMENT",
        "WORD",
        "Second part of API keys that are created here; keys of another environment are rejected",
    )
    .default("live"),
    Setting::new(
        "api-trusted-proxies",
        "API_TRUSTED_PROXIES",
        "NETWORKS",
        "Addresses or networks of proxies, besides loopback, whose X-Forwarded-For is trusted",
    ),
    Setting::new(
        "session-idle",
        "SESSION_IDLE",
        "DURATION",
        "Time without a request after which a session ends",
    )
    .default("12h"),
    Setting::new(
        "session-lifetime",
        "SESSION_LIFETIME",
        "DURATION",
        "Time after which a session ends at the latest",
    )
    .default("7d"),
    Setting::new(
        "default-timezone",
        "DEFAULT_TIMEZONE",
        "ZONE",
        "IANA time zone of jobs that name none; existing jobs keep theirs",
    )
    .default("UTC"),
    Setting::new(
        "leader-lease",
        "LEADER_LEASE",
        "DURATION",
        "Time without a heartbeat after which the API reports no leader; set it as on the schedulers",
    )
    .default("5s"),
];

/// All groups of settings of this daemon.
pub const GROUPS: &[&[Setting]] = &[
    config::DATABASE,
    config::SECRETS,
    config::OPTIONAL_HEALTH,
    config::PUBLIC,
    SETTINGS,
    stuck::SETTINGS,
    jwt::SETTINGS,
];

#[derive(Debug, Clone)]
pub struct Config {
    pub database: DatabaseSettings,
    /// Keys of secrets.
    pub secrets: SecretsSettings,
    /// A listener for health and metrics besides the port of the API.
    pub health: Option<HealthSettings>,
    /// Address to listen on.
    pub host: IpAddr,
    /// Port to listen on; 0 selects a free one.
    pub port: u16,
    /// Host names of the API, besides loopback names.
    pub allowed_hosts: Vec<String>,
    /// Requests per second that one key may send; 0 for no limit.
    pub request_rate: u32,
    /// Longest time that a client of a stream may take to accept a message.
    pub stream_patience: Duration,
    /// The environment of keys that are created and accepted.
    pub key_environment: String,
    /// Tokens that are accepted besides API keys.
    pub jwt: Option<JwtSettings>,
    /// Proxies whose `X-Forwarded-For` is trusted, besides those on this machine.
    pub trusted_proxies: Vec<Network>,
    /// Longest time of a session without use.
    pub session_idle: Duration,
    /// Longest total time of a session.
    pub session_lifetime: Duration,
    /// IANA time zone of jobs without one.
    pub default_timezone: String,
    /// URL under which people reach the API.
    pub public_url: Option<String>,
    /// A leader whose last heartbeat is older counts as gone.
    pub leader_lease: Duration,
    /// Thresholds by which a dry run judges an attempt as stuck.
    pub stuck: Thresholds,
}

impl Config {
    /// Reads the settings and records every error.
    pub fn read(values: &mut Values) -> Self {
        let database = DatabaseSettings::read(values);
        let secrets = SecretsSettings::read(values);
        let health = HealthSettings::read_optional(values);
        let host = values.ip("api-host");
        let port = values.integer("api-port", 0..=u16::MAX);
        let allowed_hosts = values.optional_list("api-allowed-hosts");
        if allowed_hosts
            .iter()
            .any(|host| host.contains(['/', '@', '*']) || host.contains(':') && !host.starts_with('['))
        {
            values.mistake(
                "api-allowed-hosts",
                "must be names such as sched.example.com, without scheme, port or wildcard",
            );
        }
        let request_rate = values.integer("api-request-rate", 0..=1_000_000);
        let stream_patience = values
            .duration_within("api-stream-patience", Duration::from_millis(100)..=Duration::from_secs(600));
        let key_environment = values.string("api-key-environment");
        if let Err(message) = check_environment(&key_environment)
            && values.are_sound(&["api-key-environment"])
        {
            values.mistake("api-key-environment", message);
        }
        let jwt = jwt::read(values);
        let trusted_proxies = values.optional_list("api-trusted-proxies");
        let trusted_proxies: Result<Vec<Network>, _> =
            trusted_proxies.iter().map(|network| network.parse()).collect();
        let trusted_proxies = trusted_proxies.unwrap_or_else(|what| {
            values.mistake("api-trusted-proxies", what);
            Vec::new()
        });
        let minute_to_year = Duration::from_secs(60)..=Duration::from_secs(365 * 86_400);
        let session_idle = values.duration_within("session-idle", minute_to_year.clone());
        let session_lifetime = values.duration_within("session-lifetime", minute_to_year);
        let mut default_timezone = values.string("default-timezone");
        match Zone::parse(&default_timezone) {
            Ok(zone) => default_timezone = zone.name().to_owned(),
            Err(error) if values.are_sound(&["default-timezone"]) => {
                values.mistake("default-timezone", error.message());
            }
            Err(_) => {}
        }
        // The bounds are those of the schedulers.
        let leader_lease =
            values.duration_within("leader-lease", Duration::from_millis(200)..=Duration::from_secs(600));
        Self {
            database,
            secrets,
            health,
            host,
            port,
            allowed_hosts,
            request_rate,
            stream_patience,
            key_environment,
            jwt,
            trusted_proxies,
            session_idle,
            session_lifetime,
            default_timezone,
            public_url: PublicSettings::read(values).url,
            leader_lease,
            stuck: stuck::read(values),
        }
    }

    #[must_use]
    pub fn socket_addr(&self) -> SocketAddr {
        SocketAddr::new(self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use sched_runtime::config::{MapSource, load};

    use super::*;
    use crate::PROGRAM;

    fn read(variables: &[(&str, &str)]) -> Result<Config, String> {
        let given = [("DATABASE_URL", "postgresql://localhost/x")].iter().chain(variables);
        let source: MapSource = given.copied().collect();
        let mut values = load(&PROGRAM, GROUPS, ["sched-api"], &source).unwrap();
        let config = Config::read(&mut values);
        values.finish().map(|()| config).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_loopback_and_utc() {
        let config = read(&[]).unwrap();
        assert_eq!(config.socket_addr().to_string(), "127.0.0.1:8080");
        assert_eq!(config.default_timezone, "UTC");
    }

    #[test]
    fn any_address_and_zone_case_is_accepted() {
        for host in ["::1", "localhost", "127.1.2.3", "0.0.0.0", "::"] {
            read(&[("API_HOST", host)]).unwrap();
        }
        assert_eq!(read(&[("DEFAULT_TIMEZONE", "europe/berlin")]).unwrap().default_timezone, "Europe/Berlin");
    }

    #[test]
    fn invalid_settings_are_reported_together() {
        for host in ["https://a.example", "a.example:80", "*"] {
            let text = read(&[
                ("API_ALLOWED_HOSTS", host),
                ("API_KEY_ENVIRONMENT", "a_b"),
                ("DEFAULT_TIMEZONE", "Mars/Olympus"),
            ])
            .unwrap_err();
            assert!(text.contains("api-allowed-hosts") && text.contains("api-key-environment"), "{text}");
            assert!(text.contains("default-timezone") && text.contains("Europe/Berlin"), "{text}");
        }
        let config =
            read(&[("API_ALLOWED_HOSTS", "a.example, [2001:db8::1]"), ("API_REQUEST_RATE", "0")]).unwrap();
        let proxied = read(&[("API_TRUSTED_PROXIES", "10.0.0.0/8, 192.0.2.1")]).unwrap();
        assert_eq!(proxied.trusted_proxies.len(), 2);
        let text = read(&[("API_TRUSTED_PROXIES", "proxy.example"), ("SESSION_IDLE", "1s")]).unwrap_err();
        assert!(text.contains("api-trusted-proxies") && text.contains("session-idle"), "{text}");
        assert_eq!(
            (config.allowed_hosts, config.request_rate),
            (vec!["a.example".into(), "[2001:db8::1]".into()], 0)
        );
    }
}
