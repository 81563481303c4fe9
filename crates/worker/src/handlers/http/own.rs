//! The scheduler's own database, which no function calls, whatever the operator allows besides.
//!
//! Whoever may save functions could else speak to what holds everybody's jobs, from a machine that it lets in. An allowed network easily has
//! the database in it, on a port that is nobody else's business; so what `DATABASE_URL` names is kept apart: every host of it on
//! every port of it. Its names are looked up when a target has one of these ports, for they may lead elsewhere than yesterday.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::addresses::embedded;
use super::allow::normal_name;
use super::guard::{Resolve, is_own};

/// Where the database is.
#[derive(Debug, Clone, Default)]
pub(super) struct OwnDatabase {
    /// Names and addresses.
    hosts: BTreeSet<String>,
    ports: BTreeSet<u16>,
}

/// What is known of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is another one.
    Other,
    /// It is the database.
    Own,
    /// The database's own name leads nowhere at the moment, so it cannot be told.
    Unknown,
}

impl OwnDatabase {
    /// From the hosts and ports of the servers that a URL names.
    pub(super) fn new(servers: &[(String, u16)]) -> Self {
        let name = |host: &String| normal_name(host).to_ascii_lowercase();
        Self {
            hosts: servers.iter().map(|(host, _)| name(host)).collect(),
            ports: servers.iter().map(|(_, port)| *port).collect(),
        }
    }

    /// Whether the target is the database: by its name, if it has one, or by one of the addresses it leads to.
    pub(super) async fn judge(
        &self,
        name: Option<&str>,
        addresses: &[IpAddr],
        port: u16,
        resolver: &dyn Resolve,
    ) -> Verdict {
        if !self.ports.contains(&port) {
            return Verdict::Other;
        }
        if name.is_some_and(|name| self.hosts.contains(name)) {
            return Verdict::Own;
        }
        let is_here = |address: &IpAddr| is_of_this_machine(*address, port);
        let targets: BTreeSet<IpAddr> = addresses.iter().copied().flat_map(seen_as).collect();
        let mut verdict = Verdict::Other;
        for host in &self.hosts {
            let found = match host.parse::<IpAddr>() {
                Ok(address) => vec![address],
                Err(_name) => resolver.resolve(host).await.unwrap_or_default(),
            };
            let mut own = found.iter().map(IpAddr::to_canonical);
            if own.clone().any(|address| targets.contains(&address)) {
                return Verdict::Own;
            }
            // One on this machine is reached at all of its addresses.
            if own.any(|address| is_here(&address)) && targets.iter().any(is_here) {
                return Verdict::Own;
            }
            if found.is_empty() {
                verdict = Verdict::Unknown;
            }
        }
        verdict
    }
}

/// Whether an address leads to this machine. The system says so of one loopback address only, and the unspecified one leads here too.
fn is_of_this_machine(address: IpAddr, port: u16) -> bool {
    address.is_loopback() || address.is_unspecified() || is_own(SocketAddr::new(address, port))
}

/// An address, and those it leads to, or once led to, if it is a way to others.
fn seen_as(address: IpAddr) -> impl Iterator<Item = IpAddr> {
    let translated = match address.to_canonical() {
        // Compatible and translated addresses: the last bits, where nothing stands before them.
        IpAddr::V6(v6) if v6.segments().starts_with(&[0, 0, 0, 0]) => {
            let [.., a, b, c, d] = v6.octets();
            Some(Ipv4Addr::new(a, b, c, d))
        }
        _ => None,
    };
    let behind = [embedded(address), translated].into_iter().flatten().map(IpAddr::V4);
    std::iter::once(address.to_canonical()).chain(behind)
}
