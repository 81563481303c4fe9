//! Protects the scheduler's own database. No setting allows functions to call it.
//!
//! Otherwise a user with the right to save functions could reach the database of all tenants. An
//! allowed network often contains it. So every host of `DATABASE_URL` on every port of it is
//! blocked. Its names are resolved for each target with one of these ports, because their addresses
//! may change.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use sched_runtime::http_targets::{embedded, normal_name};

use super::resolver::Resolve;
use super::this_machine::is_own;

#[derive(Debug, Clone, Default)]
pub(super) struct OwnDatabase {
    hosts: BTreeSet<String>,
    ports: BTreeSet<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DatabaseMatch {
    Other,
    Own,
    /// The name of the database does not resolve.
    Unknown,
}

/// The target of a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    /// The name in the URL; `None` for a literal address.
    pub(super) name: Option<&'a str>,
    pub(super) addresses: &'a [IpAddr],
    pub(super) port: u16,
}

impl OwnDatabase {
    pub(super) fn new(servers: &[(String, u16)]) -> Self {
        let name = |host: &String| normal_name(host).to_ascii_lowercase();
        Self {
            hosts: servers.iter().map(|(host, _)| name(host)).collect(),
            ports: servers.iter().map(|(_, port)| *port).collect(),
        }
    }

    pub(super) async fn check(&self, target: Target<'_>, resolver: &dyn Resolve) -> DatabaseMatch {
        let Target { name, addresses, port } = target;
        if !self.ports.contains(&port) {
            return DatabaseMatch::Other;
        }
        if name.is_some_and(|name| self.hosts.contains(name)) {
            return DatabaseMatch::Own;
        }
        let is_here = |address: &IpAddr| is_of_this_machine(*address, port);
        let targets: BTreeSet<IpAddr> = addresses.iter().copied().flat_map(equivalent_addresses).collect();
        let mut verdict = DatabaseMatch::Other;
        for host in &self.hosts {
            let found = match host.parse::<IpAddr>() {
                Ok(address) => vec![address],
                Err(_name) => resolver.resolve(host).await.unwrap_or_default(),
            };
            let mut own = found.iter().map(IpAddr::to_canonical);
            if own.clone().any(|address| targets.contains(&address)) {
                return DatabaseMatch::Own;
            }
            // A local database is reachable at all addresses of the machine.
            if own.any(|address| is_here(&address)) && targets.iter().any(is_here) {
                return DatabaseMatch::Own;
            }
            if found.is_empty() {
                verdict = DatabaseMatch::Unknown;
            }
        }
        verdict
    }
}

/// [`is_own`] detects only one loopback address. The unspecified address leads here too.
fn is_of_this_machine(address: IpAddr, port: u16) -> bool {
    address.is_loopback() || address.is_unspecified() || is_own(SocketAddr::new(address, port))
}

/// An address, and the IPv4 addresses that it leads to, or led to historically.
fn equivalent_addresses(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let translated = match address.to_canonical() {
        // IPv4-compatible and translated addresses: the last 32 bits after 64 zero bits.
        IpAddr::V6(v6) if v6.segments().starts_with(&[0, 0, 0, 0]) => {
            let [.., a, b, c, d] = v6.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    };
    let behind = [embedded(address), translated].into_iter().flatten().map(IpAddr::V4);
    std::iter::once(address.to_canonical()).chain(behind)
}
