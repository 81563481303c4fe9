//! Recognises the names and addresses of this machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// Names that mean the machine itself, regardless of the resolver.
pub(super) fn is_local_name(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    matches!(last, "localhost" | "localdomain")
        || matches!(name, "ip6-localhost" | "ip6-loopback" | "broadcasthost")
}

/// Whether an address belongs to this machine. Connecting a datagram socket only looks up the
/// route, and the route to an own address starts at that address. No packet is sent.
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

    #[test]
    fn own_address_is_recognised() {
        assert!(is_own("127.0.0.1:80".parse().unwrap()));
        assert!(!is_own("192.0.2.1:80".parse().unwrap()));
    }

    #[test]
    fn local_names_are_recognised_without_resolving() {
        for name in ["localhost", "a.localhost", "localhost.localdomain", "ip6-loopback"] {
            assert!(is_local_name(name), "{name}");
        }
        assert!(!is_local_name("localhost.example.com"));
    }
}
