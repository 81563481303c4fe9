//! The ports that functions may call: `WORKER_HTTP_PORTS`.

use std::ops::RangeInclusive;

/// An empty list permits all ports.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PortList(Vec<RangeInclusive<u16>>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither a port from 1 to 65535 nor a range of them, such as 8000-8099")]
pub struct InvalidPort(String);

impl PortList {
    /// Parses a list.
    ///
    /// # Errors
    /// The first item that is neither a port nor a range.
    pub fn parse<T: AsRef<str>>(items: &[T]) -> Result<Self, InvalidPort> {
        items.iter().map(|item| range(item.as_ref())).collect::<Result<_, _>>().map(Self)
    }

    pub(super) fn has(&self, port: u16) -> bool {
        self.0.is_empty() || self.0.iter().any(|ports| ports.contains(&port))
    }
}

fn range(text: &str) -> Result<RangeInclusive<u16>, InvalidPort> {
    let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (port(first), port(last)) {
        (Some(first), Some(last)) if first <= last => Ok(first..=last),
        _ => Err(InvalidPort(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_list_parses_ports_and_ranges() {
        let list = PortList::parse(&["443", "8000-8002", "9-9"]).unwrap();
        let has: Vec<u16> =
            [1, 9, 80, 443, 7999, 8000, 8002, 8003].into_iter().filter(|p| list.has(*p)).collect();
        assert_eq!(has, [9, 443, 8000, 8002]);
        assert!(PortList::default().has(1));
        for wrong in ["", "0", "65536", "80-", "-80", "90-80", "http", "0-9", "1-2-3", "80:90"] {
            assert!(PortList::parse(&["443", wrong]).is_err(), "{wrong}");
        }
    }
}
