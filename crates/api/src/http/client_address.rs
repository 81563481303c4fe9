//! The address of the client, also behind proxies, and whether the client is on this machine. Pure.
//!
//! A proxy reports its client in `X-Forwarded-For`, which any client can write too. The API trusts
//! the header only from proxies on this machine and in `api-trusted-proxies`. Of each it trusts
//! only the last address, which that proxy added itself.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use actix_web::http::header::HeaderMap;

const OF_PROXIES: [&str; 6] =
    ["forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "x-real-ip"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u8,
}

impl FromStr for Network {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = "must be addresses or networks such as 10.0.0.7 or 10.0.0.0/8, separated by commas";
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_no_address| wrong)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), str::parse).map_err(|_no_number| wrong)?;
        if bits <= most { Ok(Self { address: address.to_canonical(), bits }) } else { Err(wrong) }
    }
}

impl Network {
    fn holds(&self, address: IpAddr) -> bool {
        let begins_alike =
            |one: u128, other: u128, rest: u32| (one ^ other).checked_shr(rest).unwrap_or(0) == 0;
        let bits = u32::from(self.bits);
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                begins_alike(u32::from(own).into(), u32::from(other).into(), 32_u32.saturating_sub(bits))
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                begins_alike(own.into(), other.into(), 128_u32.saturating_sub(bits))
            }
            _ => false,
        }
    }
}

pub(crate) fn address(peer: Option<SocketAddr>, headers: &HeaderMap, proxies: &[Network]) -> Option<IpAddr> {
    let mut client = peer?.ip().to_canonical();
    let is_proxy =
        |address: IpAddr| address.is_loopback() || proxies.iter().any(|network| network.holds(address));
    let forwarded: Vec<&str> = headers
        .get_all("x-forwarded-for")
        .flat_map(|value| value.to_str().unwrap_or_default().split(','))
        .map(str::trim)
        .collect();
    for one in forwarded.iter().rev() {
        if !is_proxy(client) {
            break;
        }
        match one.parse::<IpAddr>() {
            Ok(address) => client = address.to_canonical(),
            Err(_no_address) => break,
        }
    }
    Some(client)
}

pub(crate) fn is_local(peer: Option<SocketAddr>, headers: &HeaderMap) -> bool {
    peer.is_some_and(|peer| peer.ip().to_canonical().is_loopback())
        && !OF_PROXIES.iter().any(|name| headers.contains_key(*name))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    #[test]
    fn only_trusted_proxies_set_the_address() {
        let proxies: Vec<Network> = ["10.0.0.0/8", "2001:db8::7"].map(|text| text.parse().unwrap()).to_vec();
        for (peer, forwarded, expected) in [
            ("192.0.2.1:1", &[][..], "192.0.2.1"),
            ("[::ffff:192.0.2.1]:1", &[], "192.0.2.1"),
            ("192.0.2.1:1", &["203.0.113.9"], "192.0.2.1"),
            ("127.0.0.1:1", &["203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1:1", &["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
            ("127.0.0.1:1", &["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
            ("10.1.2.3:1", &["198.51.100.1, 203.0.113.9,10.9.9.9"], "203.0.113.9"),
            ("[2001:db8::7]:1", &["2001:db8::8"], "2001:db8::8"),
            ("127.0.0.1:1", &["nonsense"], "127.0.0.1"),
            ("127.0.0.1:1", &["203.0.113.9, "], "127.0.0.1"),
            ("11.0.0.1:1", &["203.0.113.9"], "11.0.0.1"),
        ] {
            let request = forwarded
                .iter()
                .fold(TestRequest::get(), |request, value| request.append_header(("x-forwarded-for", *value)))
                .to_http_request();
            let found = address(peer.parse().ok(), request.headers(), &proxies);
            assert_eq!(found, expected.parse().ok(), "{peer} {forwarded:?}");
        }
    }

    #[test]
    fn networks_are_parsed_or_rejected() {
        for good in ["10.0.0.7", "0.0.0.0/0", "::/0", "2001:db8::/32"] {
            assert!(good.parse::<Network>().is_ok(), "{good}");
        }
        for bad in ["", "10.0.0.0/33", "10.0.0/8", "proxy.example", "10.0.0.0/-1", "::/129"] {
            assert!(bad.parse::<Network>().is_err(), "{bad}");
        }
        let all: Network = "::/0".parse().unwrap();
        assert!(all.holds("2001:db8::1".parse().unwrap()) && !all.holds("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn forwarded_request_is_not_local() {
        let local = |peer: &str, headers: &[(&'static str, &str)]| {
            let request = headers.iter().fold(TestRequest::get(), |request, one| request.append_header(*one));
            is_local(peer.parse().ok(), request.to_http_request().headers())
        };
        assert!(local("127.0.0.1:1", &[]) && local("[::ffff:127.0.0.1]:1", &[("accept", "*/*")]));
        assert!(!local("192.0.2.1:1", &[]));
        for header in OF_PROXIES {
            assert!(!local("127.0.0.1:1", &[(header, "x")]), "{header}");
        }
    }
}
