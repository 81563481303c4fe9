//! The non-public targets of HTTP calls: `WORKER_HTTP_ALLOW`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use url::Host;

use super::addresses::{embedded, refusal, same_prefix};

#[derive(Debug, Clone, Default)]
pub struct AllowList(Vec<AllowEntry>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowEntry {
    what: Allowed,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Allowed {
    Network { address: IpAddr, prefix: u8 },
    Host(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} is not a target; use a network (10.0.0.0/8), an address or a host name, each with an optional port (10.1.2.3:8080, [fd00::/8]:80)"
)]
pub struct InvalidTarget {
    text: String,
}

impl FromIterator<AllowEntry> for AllowList {
    fn from_iter<I: IntoIterator<Item = AllowEntry>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl AllowList {
    /// Whether every address of the name is allowed, on this port.
    #[must_use]
    pub fn has_host(&self, name: &str, port: u16) -> bool {
        self.0
            .iter()
            .any(|entry| entry.is_for(port) && matches!(&entry.what, Allowed::Host(host) if host == name))
    }

    /// Whether an entry with this port allows the target, by its name or by all of its addresses.
    #[must_use]
    pub fn names_port(&self, name: Option<&str>, addresses: &[IpAddr], port: u16) -> bool {
        let with_port = Self(self.0.iter().filter(|entry| entry.port == Some(port)).cloned().collect());
        name.is_some_and(|name| with_port.has_host(name, port))
            || addresses.iter().all(|address| with_port.has_address(*address, port))
    }

    /// If the address leads to another one, as NAT64 does, that one must be public or allowed too.
    #[must_use]
    pub fn has_address(&self, address: IpAddr, port: u16) -> bool {
        let is_listed =
            |address: IpAddr| self.0.iter().any(|entry| entry.is_for(port) && entry.covers(address));
        let behind = embedded(address).map(IpAddr::V4);
        is_listed(address.to_canonical())
            && behind.is_none_or(|behind| refusal(behind).is_none() || is_listed(behind))
    }
}

impl AllowEntry {
    fn is_for(&self, port: u16) -> bool {
        self.port.is_none_or(|own| own == port)
    }

    fn covers(&self, candidate: IpAddr) -> bool {
        let Allowed::Network { address, prefix } = &self.what else { return false };
        match (address, candidate) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                same_prefix(u32::from(*own).into(), u32::from(other).into(), *prefix, 32)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                same_prefix(u128::from(*own), u128::from(other), *prefix, 128)
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

impl FromStr for AllowEntry {
    type Err = InvalidTarget;

    fn from_str(text: &str) -> Result<Self, InvalidTarget> {
        let refused = || InvalidTarget { text: text.to_owned() };
        let (what, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((inside, "")) => (inside, None),
            Some((inside, port)) => (inside, Some(port.strip_prefix(':').ok_or_else(refused)?)),
            // More than one colon: an IPv6 address without a port.
            None => match text.split_once(':') {
                Some((host, port)) if !port.contains(':') => (host, Some(port)),
                Some(_) | None => (text, None),
            },
        };
        let port = match port.map(str::parse::<u16>) {
            None => None,
            Some(Ok(port)) if port > 0 => Some(port),
            Some(_) => return Err(refused()),
        };
        Ok(Self { what: what.parse().map_err(|NoTarget| refused())?, port })
    }
}

struct NoTarget;

impl FromStr for Allowed {
    type Err = NoTarget;

    fn from_str(text: &str) -> Result<Self, NoTarget> {
        let (host, prefix) = match text.split_once('/') {
            Some((host, prefix)) => (host, Some(prefix.parse::<u8>().map_err(|_not_a_number| NoTarget)?)),
            None => (text, None),
        };
        let address = host.parse::<IpAddr>().ok().map(|address| address.to_canonical());
        match (address, prefix) {
            (Some(address), prefix) => {
                let longest = if address.is_ipv4() { 32 } else { 128 };
                let prefix = prefix.unwrap_or(longest);
                if prefix <= longest { Ok(Self::Network { address, prefix }) } else { Err(NoTarget) }
            }
            (None, Some(_)) => Err(NoTarget),
            (None, None) => match Host::parse(host).map_err(|_no_host| NoTarget)? {
                Host::Domain(name) => Ok(Self::Host(normal_name(&name).to_owned())),
                // `127.1` and similar texts are probably a mistake.
                Host::Ipv4(_) | Host::Ipv6(_) => Err(NoTarget),
            },
        }
    }
}

impl fmt::Display for AllowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.what {
            Allowed::Network { address, prefix } => write!(f, "[{address}/{prefix}]")?,
            Allowed::Host(host) => f.write_str(host)?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

/// Removes the final dot. Both forms name the same host.
#[must_use]
pub fn normal_name(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[&str]) -> AllowList {
        entries.iter().map(|entry| entry.parse::<AllowEntry>().unwrap()).collect()
    }

    #[test]
    fn networks_and_hosts_are_allowed_on_their_ports() {
        let list = list(&[
            "10.0.0.0/8",
            "127.0.0.1:8080",
            "[fd00::/8]:80",
            "::1",
            "API.internal.:9000",
            "localhost",
        ]);
        let address = |text: &str, port| list.has_address(text.parse().unwrap(), port);
        assert!(
            address("10.9.9.9", 1)
                && address("127.0.0.1", 8080)
                && address("fd12::1", 80)
                && address("::1", 5)
        );
        assert!(address("::ffff:10.0.0.1", 1));
        assert!(!address("11.0.0.1", 1) && !address("127.0.0.1", 80) && !address("fd12::1", 81));
        assert!(!address("127.0.0.2", 8080));
        assert!(list.has_host("api.internal", 9000) && list.has_host("localhost", 1));
        assert!(!list.has_host("api.internal", 80) && !list.has_host("x.localhost", 1));
    }

    #[test]
    fn embedded_address_must_be_allowed_too() {
        let nat = list(&["64:ff9b::/96"]);
        assert!(nat.has_address("64:ff9b::8.8.8.8".parse().unwrap(), 80));
        assert!(!nat.has_address("64:ff9b::10.0.0.1".parse().unwrap(), 80));
        let both = list(&["64:ff9b::/96", "10.0.0.0/8"]);
        assert!(both.has_address("64:ff9b::10.0.0.1".parse().unwrap(), 80));
    }

    #[test]
    fn invalid_target_is_rejected() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "a b",
            "host:0",
            "host:99999",
            "[::1",
            "[::1]80",
            "127.1",
            "x/8",
        ] {
            assert!(text.parse::<AllowEntry>().is_err(), "{text}");
        }
    }
}
