//! Decides, right before a connection is opened, which addresses it may use.
//!
//! This is the only way from a URL to an address. Literals and names pass the same check, and the
//! connection uses exactly the checked addresses. So a name that resolves differently a moment
//! later changes nothing (DNS rebinding). A name with any refused address is refused completely,
//! because otherwise the choice of the address would be random. A public or allowed target must
//! also have a permitted port, and must not be the scheduler's own database ([`super::own`]).

use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs as _, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::Semaphore;
use url::{Host, Url};

use super::HttpSettings;
use super::addresses::refusal;
use super::allow::{AllowList, normal_name};
use super::own::{OwnDatabase, Verdict};
use super::ports::PortList;

/// Maximal number of addresses of one name. Ordinary names have fewer.
const MAX_ADDRESSES: usize = 64;

/// Maximal number of concurrent lookups.
const MAX_LOOKUPS: usize = 64;

/// Ports of protocols other than HTTP for which a request could have an effect: mail, shells,
/// databases, caches, cluster managers. Browsers block most of them for the same reason, except the
/// databases.
const REFUSED_PORTS: &[u16] = &[
    0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103,
    104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513,
    514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1433, 1521,
    1719, 1720, 1723, 2049, 2375, 2376, 2379, 2380, 3306, 3389, 3659, 4045, 4190, 5060, 5061, 5432, 5433,
    5672, 6000, 6379, 6432, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 9042, 10250, 10255, 11211, 27017,
];

/// Resolves names to addresses.
pub trait Resolve: fmt::Debug + Send + Sync {
    /// Returns all addresses of a name. The caller treats an empty list as an error.
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a>;
}

pub type Resolving<'a> = Pin<Box<dyn Future<Output = io::Result<Vec<IpAddr>>> + Send + 'a>>;

/// The resolver of the operating system.
///
/// It has no timeout that the worker can set, and a lookup cannot be cancelled: it outlives its
/// attempt and holds a thread until it ends. So the number of concurrent lookups is limited. A
/// further lookup waits, within the connect timeout of its attempt.
#[derive(Debug, Clone)]
pub struct SystemResolver {
    lookups: Arc<Semaphore>,
}

impl Default for SystemResolver {
    fn default() -> Self {
        Self { lookups: Arc::new(Semaphore::new(MAX_LOOKUPS)) }
    }
}

impl SystemResolver {
    /// Runs a lookup on a thread that keeps its permit until it ends.
    async fn look_up<T: Send + 'static>(
        &self,
        look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let permit = self.lookups.clone().acquire_owned().await.map_err(io::Error::other)?;
        let found = tokio::task::spawn_blocking(move || {
            let found = look_up();
            drop(permit);
            found
        });
        found.await.map_err(io::Error::other)?
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> Resolving<'a> {
        let name = name.to_owned();
        Box::pin(
            self.look_up(move || Ok((name.as_str(), 0).to_socket_addrs()?.map(|found| found.ip()).collect())),
        )
    }
}

/// Why no connection is opened.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoTarget {
    #[error("the target is refused: {reason}; only the worker's setting WORKER_HTTP_ALLOW could allow it")]
    Refused {
        /// For people. It contains no address of a name: the owner of a job need not know internal
        /// addresses.
        reason: String,
        /// The address, for the log.
        address: Option<IpAddr>,
    },
    #[error("the target is refused: port {port} is none of the worker's setting WORKER_HTTP_PORTS")]
    Port { port: u16 },
    /// No setting can allow it.
    #[error("the target is refused: {reason}, which no function calls")]
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

    /// Returns the addresses that the URL may be called at, at least one.
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
        match self.own.judge(name, &addresses, port, self.resolver.as_ref()).await {
            Verdict::Other => Ok(found),
            Verdict::Own => Err(NoTarget::Never { reason: "it is the scheduler's own database" }),
            Verdict::Unknown => Err(NoTarget::Never {
                reason: "its port is one of the scheduler's own database, whose address cannot be looked up at the moment",
            }),
        }
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
                    return Err(refused("the name means this machine"));
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

/// Names that mean the machine itself, regardless of the resolver.
fn is_local_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    matches!(last, "localhost" | "localdomain")
        || matches!(name, "ip6-localhost" | "ip6-loopback" | "broadcasthost")
}

/// Whether an address belongs to this machine. No packet is sent: connecting a datagram socket only
/// looks up the route, and the route to an own address starts at that address.
pub(super) fn is_own(address: SocketAddr) -> bool {
    let unspecified = match address {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let local = UdpSocket::bind((unspecified, 0)).and_then(|socket| {
        socket.connect(address)?;
        socket.local_addr()
    });
    // Without a route the address cannot be an own one.
    local.is_ok_and(|local| local.ip() == address.ip())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lookups_that_never_end_hold_no_more_threads_than_they_may() {
        let resolver = SystemResolver::default();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let ended = Arc::new(std::sync::Mutex::new(ended));
        for _ in 0..MAX_LOOKUPS {
            let ended = ended.clone();
            let mut asked =
                Box::pin(resolver.look_up(move || Ok(ended.lock().is_ok_and(|ended| ended.recv().is_ok()))));
            assert!(futures_util::poll!(asked.as_mut()).is_pending());
            // The attempt is over, but the lookup is not.
        }
        let mut another = resolver.resolve("127.0.0.1");
        assert!(futures_util::poll!(another.as_mut()).is_pending(), "all threads are taken");
        assert_eq!(resolver.lookups.available_permits(), 0);
        drop(end);
        assert_eq!(another.await.unwrap(), [IpAddr::V4(Ipv4Addr::LOCALHOST)]);
    }

    #[test]
    fn an_address_of_this_machine_is_known_as_such() {
        assert!(is_own("127.0.0.1:80".parse().unwrap()));
        assert!(!is_own("192.0.2.1:80".parse().unwrap()));
    }

    #[test]
    fn names_of_this_machine_are_known_whatever_they_resolve_to() {
        for name in ["localhost", "a.localhost", "localhost.localdomain", "ip6-loopback"] {
            assert!(is_local_name(name), "{name}");
        }
        assert!(!is_local_name("localhost.example.com"));
    }
}
