//! Decides, right before a connection is opened, which addresses it may use.
//!
//! Literals and names pass the same check, on the only path from a URL to an address. The
//! connection uses exactly the checked addresses, so a later change of the name has no effect (DNS
//! rebinding). A name with any refused address is refused completely, because otherwise the choice
//! of the address would be random. The port must be permitted, and the target must not be the
//! scheduler's own database ([`super::own_database`]).

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use sched_runtime::http_targets::{AllowList, normal_name, refusal};
use url::{Host, Url};

use super::HttpSettings;
use super::own_database::{DatabaseMatch, OwnDatabase, Target};
use super::ports::PortList;
use super::resolver::Resolve;
use super::this_machine::{is_local_name, is_own};

/// Of one name. Ordinary names have fewer.
const MAX_ADDRESSES: usize = 64;

/// Ports of other protocols for which a request could have an effect: all ports that the Fetch
/// standard blocks, databases, caches, cluster managers.
const REFUSED_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513,
    514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1433, 1521,
    1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5433,
    5672, 6000, 6379, 6432, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 10080, 10250, 10255, 11211,
    27017,
];

/// Metadata services at public addresses.
const METADATA_NAMES: [&str; 2] = ["metadata.packet.net", "metadata.platformequinix.com"];

#[derive(Debug, thiserror::Error)]
pub(super) enum NoTarget {
    #[error("the target is refused: {reason}; only the worker's setting WORKER_HTTP_ALLOW can allow it")]
    Refused {
        /// Without addresses: internal ones stay hidden from the owner of a job.
        reason: String,
        address: Option<IpAddr>,
    },
    #[error("the target is refused: port {port} is not in the worker's setting WORKER_HTTP_PORTS")]
    Port { port: u16 },
    /// No setting can allow it.
    #[error("the target is refused: {reason}, which functions may never call")]
    Never {
        /// For people.
        reason: &'static str,
    },
    #[error("the name {name:?} could not be resolved")]
    Unresolved {
        name: String,
        #[source]
        source: Option<io::Error>,
    },
}

#[derive(Debug)]
pub(super) struct Guard {
    allow: AllowList,
    ports: PortList,
    own: OwnDatabase,
    resolver: Arc<dyn Resolve>,
}

impl Guard {
    pub(super) fn new(settings: HttpSettings) -> Self {
        let HttpSettings { allow, ports, own_database, resolver, .. } = settings;
        Self { allow, ports, own: OwnDatabase::new(&own_database), resolver }
    }

    pub(super) async fn addresses(&self, url: &Url) -> Result<Vec<SocketAddr>, NoTarget> {
        let found = self.public_or_allowed(url).await?;
        let name = match url.host() {
            Some(Host::Domain(name)) => Some(normal_name(name)),
            _ => None,
        };
        let addresses: Vec<IpAddr> = found.iter().map(SocketAddr::ip).collect();
        // All addresses have the same port.
        let port = found.first().map_or(0, SocketAddr::port);
        if !self.ports.has(port) && !self.allow.names_port(name, &addresses, port) {
            return Err(NoTarget::Port { port });
        }
        let target = Target { name, addresses: &addresses, port };
        match self.own.check(target, self.resolver.as_ref()).await {
            DatabaseMatch::Other => Ok(found),
            DatabaseMatch::Own => Err(NoTarget::Never { reason: "it is the scheduler's own database" }),
            DatabaseMatch::Unknown => Err(NoTarget::Never {
                reason: "its port is a port of the scheduler's own database, whose address does not resolve at the moment",
            }),
        }
    }

    /// Whether the operator lists the target, by its name or by all of its addresses, public ones
    /// too.
    pub(super) fn check_listed(&self, url: &Url, addresses: &[SocketAddr]) -> Result<(), NoTarget> {
        let is_listed_name = match (url.host(), url.port_or_known_default()) {
            (Some(Host::Domain(name)), Some(port)) => self.allow.has_host(normal_name(name), port),
            _ => false,
        };
        let is_listed = |address: &SocketAddr| self.allow.has_address(address.ip(), address.port());
        if is_listed_name || addresses.iter().all(is_listed) {
            return Ok(());
        }
        let reason = "the arguments of the run name its host, which is not listed".to_owned();
        Err(NoTarget::Refused { reason, address: None })
    }

    async fn public_or_allowed(&self, url: &Url) -> Result<Vec<SocketAddr>, NoTarget> {
        let refused = |reason: &str| NoTarget::Refused { reason: reason.to_owned(), address: None };
        let port = url.port_or_known_default().ok_or_else(|| refused("it has no port"))?;
        let found = match url.host().ok_or_else(|| refused("it has no host"))? {
            Host::Ipv4(address) => vec![IpAddr::V4(address)],
            Host::Ipv6(address) => vec![IpAddr::V6(address)],
            Host::Domain(name) => {
                let name = normal_name(name);
                let is_allowed = self.allow.has_host(name, port);
                if !is_allowed && is_local_name(name) {
                    return Err(refused("the name refers to this machine"));
                }
                if !is_allowed && METADATA_NAMES.contains(&name) {
                    return Err(refused("the name refers to a cloud's metadata service"));
                }
                let found = self.resolve(name).await?;
                if is_allowed {
                    return Ok(with_port(&found, port));
                }
                found
            }
        };
        let is_name = matches!(url.host(), Some(Host::Domain(_)));
        found.iter().try_for_each(|address| self.check(*address, port, is_name))?;
        Ok(with_port(&found, port))
    }

    async fn resolve(&self, name: &str) -> Result<Vec<IpAddr>, NoTarget> {
        let unresolved = |source| NoTarget::Unresolved { name: name.to_owned(), source };
        let mut found = self.resolver.resolve(name).await.map_err(|error| unresolved(Some(error)))?;
        found.truncate(MAX_ADDRESSES);
        if found.is_empty() { Err(unresolved(None)) } else { Ok(found) }
    }

    fn check(&self, address: IpAddr, port: u16, is_name: bool) -> Result<(), NoTarget> {
        if self.allow.has_address(address, port) {
            return Ok(());
        }
        let refused = |reason: String| Err(NoTarget::Refused { reason, address: Some(address) });
        let verb = if is_name { "leads to" } else { "is" };
        if let Some(kind) = refusal(address) {
            return refused(format!("it {verb} {kind} address"));
        }
        if REFUSED_PORTS.contains(&port) {
            return refused(format!("port {port} belongs to another protocol"));
        }
        if is_own(SocketAddr::new(address, port)) {
            return refused(format!("it {verb} an address of the worker's own machine"));
        }
        Ok(())
    }
}

fn with_port(addresses: &[IpAddr], port: u16) -> Vec<SocketAddr> {
    addresses.iter().map(|address| SocketAddr::new(address.to_canonical(), port)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section "port blocking" of <https://fetch.spec.whatwg.org>.
    const BLOCKED_BY_FETCH: [u16; 83] = [
        0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
        103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512,
        513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719,
        1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697,
        10080,
    ];

    #[test]
    fn ports_of_the_fetch_standard_are_refused() {
        let missing: Vec<_> = BLOCKED_BY_FETCH.iter().filter(|port| !REFUSED_PORTS.contains(port)).collect();
        assert_eq!(missing, Vec::<&u16>::new());
    }
}
