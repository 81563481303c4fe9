//! The settings of the API: names, defaults, and which addresses it may listen on.
//!
//! Reading only; nothing is bound or connected here. Every mistake is recorded in the values and told with the others.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use sched_model::domain::schedule::Zone;
use sched_runtime::config::{self, DatabaseSettings, SecretsSettings, Setting, Values};

/// The settings this daemon has besides those of every daemon.
pub const SETTINGS: &[Setting] = &[
    Setting::new(
        "api-host",
        "API_HOST",
        "ADDRESS",
        "Address to listen on; a loopback one, because this release cannot tell callers apart",
    )
    .default("127.0.0.1"),
    Setting::new(
        "api-port",
        "API_PORT",
        "PORT",
        "Port to listen on, for the API and for health; 0 takes a free one",
    )
    .default("8080"),
    Setting::new(
        "default-timezone",
        "DEFAULT_TIMEZONE",
        "ZONE",
        "IANA zone of jobs that name none; jobs that exist keep the zone they were written with",
    )
    .default("UTC"),
    Setting::new(
        "leader-lease",
        "LEADER_LEASE",
        "DURATION",
        "Silence after which the leader is no longer shown as one; the same as the schedulers'",
    )
    .default("5s"),
];

/// All groups of settings of this daemon.
pub const GROUPS: &[&[Setting]] = &[config::DATABASE, config::SECRETS, SETTINGS];

/// The settings, read and checked.
#[derive(Debug, Clone)]
pub struct Config {
    /// How to reach the database.
    pub database: DatabaseSettings,
    /// How secrets are sealed.
    pub secrets: SecretsSettings,
    /// Address to listen on; a loopback one.
    pub host: IpAddr,
    /// Port to listen on; 0 takes a free one.
    pub port: u16,
    /// IANA zone of jobs that name none.
    pub default_timezone: String,
    /// Silence after which a leader is none.
    pub leader_lease: Duration,
}

impl Config {
    /// Reads the settings, recording every mistake.
    pub fn read(values: &mut Values) -> Self {
        let database = DatabaseSettings::read(values);
        let secrets = SecretsSettings::read(values);
        let host = values.ip("api-host");
        if !host.is_loopback() {
            values.mistake(
                "api-host",
                "must be a loopback address, such as 127.0.0.1 or ::1: whoever reaches the API may do everything, \
                 until a later release brings identity",
            );
        }
        let port = values.integer("api-port", 0..=u16::MAX);
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
        Self { database, secrets, host, port, default_timezone, leader_lease }
    }

    /// Address and port together.
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
    fn the_defaults_listen_on_loopback_in_utc() {
        let config = read(&[]).unwrap();
        assert_eq!(config.socket_addr().to_string(), "127.0.0.1:8080");
        assert_eq!(config.default_timezone, "UTC");
    }

    #[test]
    fn loopback_addresses_and_zones_in_any_case_are_taken() {
        for host in ["::1", "localhost", "127.1.2.3"] {
            read(&[("API_HOST", host)]).unwrap();
        }
        assert_eq!(read(&[("DEFAULT_TIMEZONE", "europe/berlin")]).unwrap().default_timezone, "Europe/Berlin");
    }

    #[test]
    fn any_other_address_and_an_unknown_zone_are_refused_together() {
        for host in ["0.0.0.0", "::", "192.168.1.2"] {
            let text = read(&[("API_HOST", host), ("DEFAULT_TIMEZONE", "Mars/Olympus")]).unwrap_err();
            assert!(text.contains("loopback") && text.contains("later release"), "{text}");
            assert!(text.contains("default-timezone") && text.contains("Europe/Berlin"), "{text}");
        }
    }
}
