//! Ports for programs that take their port as a setting.
//!
//! They are outside the ephemeral range, from which the system may assign a port before the program
//! listens. A client that polls such a port may even connect to itself.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::TcpListener;
use std::ops::Range;

/// Server ports from here on have few well-known programs.
const FIRST: u16 = 20_000;
/// Default start of the ephemeral ports.
const GIVEN_AWAY: u16 = 32_768;

/// A port of loopback without a listener, outside the ephemeral range.
///
/// # Errors
///
/// If all ports are in use.
pub fn free_port() -> io::Result<u16> {
    let ports = range(fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref());
    // Concurrent callers start at different ports.
    let count = u64::from(ports.end - ports.start);
    let skipped = usize::try_from(RandomState::new().hash_one(std::process::id()) % count).unwrap_or(0);
    let mut all = ports.clone().cycle().skip(skipped).take(ports.len());
    all.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or_else(|| io::Error::other(format!("no free port in {ports:?}")))
}

/// The ports below the ephemeral range of the given system setting.
fn range(settings: Option<&str>) -> Range<u16> {
    let given_away = settings.and_then(|text| text.split_whitespace().next()?.parse().ok());
    // If the ephemeral range covers nearly all ports, there is no better choice.
    FIRST..given_away.filter(|first| *first > FIRST + 1_000).unwrap_or(GIVEN_AWAY)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::{FIRST, GIVEN_AWAY, free_port, range};

    #[test]
    fn a_free_port_is_one_that_nobody_is_given() {
        let port = free_port().unwrap();
        let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
        assert!(port >= FIRST);
        assert_ne!(free_port().unwrap(), port, "taken");
        drop(listener);
    }

    #[test]
    fn the_range_ends_where_the_system_begins_to_give_away() {
        assert_eq!(range(Some("49152\t65535\n")), FIRST..49152);
        assert_eq!(range(Some("1024 65535")), FIRST..GIVEN_AWAY);
        assert_eq!(range(Some("what")), FIRST..GIVEN_AWAY);
        assert_eq!(range(None), FIRST..GIVEN_AWAY);
    }
}
