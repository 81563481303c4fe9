//! Selects, among the servers in a database URL, the one that accepts writes.
//!
//! Each server is tried in turn, starting with the last primary. Each gets its share of the
//! timeout, so a silent server does not use up the time of the rest. A standby is skipped: its data
//! may be old and it accepts no writes. This affects new connections only. Existing ones end with
//! their server, or are dropped when it turns out to be read-only
//! ([`crate::connection::transaction`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio_postgres::Config;
use tokio_postgres::config::{Host, TargetSessionAttrs};

const KIND_OF_SERVER: &str = "target_session_attrs";

#[derive(Clone)]
pub(crate) struct Servers {
    each: Vec<Config>,
    /// Index of the last primary.
    last: Arc<AtomicUsize>,
    /// Timeout of each server.
    share: Duration,
}

impl Servers {
    /// Parses the URL; `prepare` sets the common options. `limit` is the timeout of all servers
    /// together.
    ///
    /// # Errors
    /// The URL is invalid.
    pub(crate) fn of(url: &str, limit: Duration, prepare: impl Fn(&mut Config)) -> Result<Self, InvalidUrl> {
        let mut each = Vec::new();
        for url in one_by_one(url) {
            let mut config: Config = url.parse()?;
            check(&config)?;
            if !url.contains(KIND_OF_SERVER) {
                config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            }
            prepare(&mut config);
            each.push(config);
        }
        let count = u32::try_from(each.len()).unwrap_or(u32::MAX).max(1);
        let share = limit / count;
        for config in &mut each {
            // The driver applies the timeout to each server of a URL that stays whole.
            let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
            config.connect_timeout(share / hosts);
        }
        Ok(Self { each, last: Arc::new(AtomicUsize::new(0)), share })
    }

    /// Host and port of each server; a Unix socket counts as `localhost`.
    pub(crate) fn places(&self) -> Vec<(String, u16)> {
        self.each.iter().flat_map(places).collect()
    }

    /// Tries one server after another with `connect`; returns the first success, or the last error.
    pub(crate) async fn first<T, F>(&self, connect: impl Fn(Config) -> F) -> Result<T, NoServer>
    where
        F: Future<Output = Result<T, tokio_postgres::Error>>,
    {
        let count = self.each.len();
        let mut last = NoServer::Late(self.share);
        // A race on this value is harmless.
        let begin = self.last.load(Ordering::Relaxed);
        for (position, config) in self.each.iter().enumerate().cycle().skip(begin).take(count) {
            match tokio::time::timeout(self.share, connect(config.clone())).await {
                Ok(Ok(connected)) => {
                    self.last.store(position, Ordering::Relaxed);
                    return Ok(connected);
                }
                Ok(Err(error)) => last = NoServer::Refused(error),
                Err(_) => last = NoServer::Late(self.share),
            }
        }
        Err(last)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum InvalidUrl {
    #[error(transparent)]
    Syntax(#[from] tokio_postgres::Error),
    #[error("it names no server; add one, as in postgresql://user@localhost/database")]
    NoServer,
    #[error("host={0} counts as one server; write host= once for each")]
    List(String),
    #[error(
        "its number of hosts ({names}) differs from its number of hostaddrs ({addresses}); give one for each"
    )]
    Addresses { names: usize, addresses: usize },
    #[error(
        "its number of ports ({ports}) differs from its number of servers ({servers}); give one port for all servers \
         or one for each, and count one for each server before the path"
    )]
    Ports { servers: usize, ports: usize },
}

/// The driver reports these mistakes with every connection, like a server that is down.
fn check(config: &Config) -> Result<(), InvalidUrl> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs().len());
    let (servers, ports) = (hosts.len().max(addresses), config.get_ports().len());
    for host in hosts {
        let Host::Tcp(name) = host else { continue };
        if name.contains(',') {
            return Err(InvalidUrl::List(name.clone()));
        }
        if name.is_empty() && addresses == 0 {
            return Err(InvalidUrl::NoServer);
        }
    }
    if servers == 0 {
        return Err(InvalidUrl::NoServer);
    }
    if !hosts.is_empty() && addresses > 0 && hosts.len() != addresses {
        return Err(InvalidUrl::Addresses { names: hosts.len(), addresses });
    }
    if ports > 1 && ports != servers {
        return Err(InvalidUrl::Ports { servers, ports });
    }
    Ok(())
}

fn places(config: &Config) -> Vec<(String, u16)> {
    let names = config.get_hosts().iter().map(|host| match host {
        Host::Tcp(name) => name.clone(),
        #[cfg(unix)]
        Host::Unix(_) => "localhost".to_owned(),
    });
    let addresses = config.get_hostaddrs().iter().map(ToString::to_string);
    let ports = config.get_ports();
    // No port or one port applies to all servers; else each has its own port, and may have a name
    // and an address.
    let port = |position: usize| ports.get(position).or(ports.first()).copied().unwrap_or(5432);
    let numbered = names.enumerate().chain(addresses.enumerate());
    numbered.map(|(position, host)| (host, port(position))).collect()
}

/// Why no server is usable: the error of the last one.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoServer {
    #[error("no server accepts writes")]
    Refused(#[source] tokio_postgres::Error),
    #[error("no server answered within {0:?}")]
    Late(Duration),
}

/// One URL per server. A URL that does not list its servers before the first `/` stays whole.
fn one_by_one(url: &str) -> Vec<String> {
    let whole = || vec![url.to_owned()];
    // The driver ends the credentials at the first `@` too.
    let Some((scheme, rest)) = url.split_once("://") else { return whole() };
    let (credentials, rest) = rest.split_once('@').map_or(("", rest), |(before, after)| (before, after));
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (servers, more) = rest.split_at(end);
    if !servers.contains(',')
        || ["host=", "hostaddr=", "port=", "load_balance_hosts="].iter().any(|word| more.contains(word))
    {
        return whole();
    }
    let at = if credentials.is_empty() { "" } else { "@" };
    servers.split(',').map(|server| format!("{scheme}://{credentials}{at}{server}{more}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn servers(url: &str) -> Servers {
        Servers::of(url, Duration::from_secs(6), |_| {}).expect("a URL")
    }

    #[test]
    fn each_server_of_a_url_is_asked_for_by_itself_and_has_to_take_writes() {
        let servers = servers("postgresql://u:p%40w@one:1,two,three:3/sched?sslmode=disable");
        let hosts: Vec<_> = servers
            .each
            .iter()
            .map(|config| (config.get_hosts().to_vec(), config.get_ports().to_vec()))
            .collect();
        let tcp = |name: &str| vec![Host::Tcp(name.to_owned())];
        assert_eq!(hosts, [(tcp("one"), vec![1]), (tcp("two"), vec![5432]), (tcp("three"), vec![3])]);
        for config in &servers.each {
            assert_eq!(config.get_user(), Some("u"));
            assert_eq!(config.get_password(), Some(&b"p@w"[..]));
            assert_eq!(config.get_dbname(), Some("sched"));
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
            assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(2)));
        }
    }

    #[test]
    fn places_are_all_servers_however_the_url_names_them() {
        for (url, expected) in [
            ("postgresql://u:p@one:1,two,three:3/sched", &[("one", 1), ("two", 5432), ("three", 3)][..]),
            ("postgresql:///sched?host=one&host=two&port=7,8", &[("one", 7), ("two", 8)]),
            ("postgresql://one:6/sched?hostaddr=10.0.0.5", &[("one", 6), ("10.0.0.5", 6)]),
            ("postgresql:///sched?host=/run/postgresql", &[("localhost", 5432)]),
        ] {
            let places = servers(url).places();
            let places: Vec<(&str, u16)> = places.iter().map(|(host, port)| (host.as_str(), *port)).collect();
            assert_eq!(places, expected, "{url}");
        }
    }

    #[test]
    fn url_that_no_connection_can_use_is_refused() {
        for (url, expected) in [
            ("postgresql://one:port/sched", "invalid value for option `port`"),
            ("postgresql://one/sched?nothing=1", "unknown option `nothing`"),
            ("postgresql:///sched", "it names no server"),
            ("postgresql://:5433/sched", "it names no server"),
            ("postgresql://one,/sched", "it names no server"),
            ("postgresql:///sched?host=one,two", "host=one,two counts as one server"),
            (
                "postgresql://one/sched?port=1,2",
                "its number of ports (3) differs from its number of servers (1)",
            ),
            (
                "postgresql:///sched?host=one&host=two&port=1,2,3",
                "its number of ports (3) differs from its number of servers (2)",
            ),
            (
                "postgresql://one/sched?hostaddr=10.0.0.5,10.0.0.6",
                "its number of hosts (1) differs from its number of hostaddrs (2)",
            ),
        ] {
            let Err(error) = Servers::of(url, Duration::from_secs(6), |_| {}) else { panic!("{url}") };
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            let text = format!("{error}: {cause}");
            assert!(text.contains(expected), "{url}: {text}");
        }
    }

    #[test]
    fn what_the_url_says_about_the_kind_of_server_stands() {
        let servers = servers("postgresql://one,two/sched?target_session_attrs=any");
        assert!(
            servers.each.iter().all(|config| config.get_target_session_attrs() == TargetSessionAttrs::Any)
        );
    }

    #[test]
    fn servers_that_are_named_in_another_way_stay_together_and_have_to_take_writes_too() {
        for text in ["host=one,two user=u", "postgresql:///sched?host=one&host=two"] {
            let servers = servers(text);
            let [config] = &servers.each[..] else { panic!("{} configurations", servers.each.len()) };
            assert_eq!(config.get_hosts().len(), 2, "{text}");
            assert_eq!(config.get_connect_timeout(), Some(&Duration::from_secs(3)), "for each of them");
            assert_eq!(config.get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        }
    }

    #[tokio::test]
    async fn a_silent_server_leaves_the_others_their_time_and_the_one_that_answered_is_asked_first_afterwards()
     {
        let servers =
            Servers::of("postgresql://silent,right/sched", Duration::from_secs(2), |_| {}).expect("a URL");
        let asked = Mutex::new(Vec::new());
        let connect = |config: Config| {
            let Some(Host::Tcp(host)) = config.get_hosts().first().cloned() else { panic!("no host") };
            asked.lock().expect("no panic").push(host.clone());
            async move {
                if host == "silent" {
                    std::future::pending::<()>().await;
                }
                Ok(host)
            }
        };
        for _ in 0..2 {
            assert_eq!(servers.first(connect).await.ok().as_deref(), Some("right"));
        }
        assert_eq!(*asked.lock().expect("no panic"), ["silent", "right", "right"]);
    }
}
