//! Ports for programs that are told where to listen.
//!
//! Not such as the system gives away to whoever connects or asks for any: between the look and the start of the program somebody
//! else may get one, and whoever asks whether the program listens yet may even be connected to itself, which keeps it from listening.

use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::TcpListener;
use std::ops::Range;

/// Where ports for servers begin that no program is known for.
const FIRST: u16 = 20_000;
/// Where the ports begin that systems give away, if they do not say it.
const GIVEN_AWAY: u16 = 32_768;

/// A port of loopback on which nobody listens, and which the system gives to nobody by itself.
///
/// # Errors
///
/// When all are taken.
pub fn free_port() -> io::Result<u16> {
    let ports = range(fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").ok().as_deref());
    // Each caller begins elsewhere, as several look at the same time.
    let count = u64::from(ports.end - ports.start);
    let skipped = usize::try_from(RandomState::new().hash_one(std::process::id()) % count).unwrap_or(0);
    let mut all = ports.clone().cycle().skip(skipped).take(ports.len());
    all.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .ok_or_else(|| io::Error::other(format!("no free port in {ports:?}")))
}

/// The ports below those that a system of such settings gives away.
fn range(settings: Option<&str>) -> Range<u16> {
    let given_away = settings.and_then(|text| text.split_whitespace().next()?.parse().ok());
    // A system that gives away nearly all leaves us no better choice than the others have.
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
