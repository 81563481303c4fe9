//! Decides which addresses belong to the public Internet. Other addresses need a setting.
//!
//! IPv6 has an allow-list (`2000::/3` is the only allocated range) minus its special networks. For
//! IPv4, the special networks are listed, from the IANA special-purpose registries. Networks that
//! embed an IPv4 address (NAT64, 6to4, Teredo) are refused completely. An ISATAP address can have
//! any prefix, so it is refused if the IPv4 address in it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const REFUSED_V4: &[([u8; 4], u8, &str)] = &[
    ([0, 0, 0, 0], 8, "an unspecified"),
    ([10, 0, 0, 0], 8, "a private"),
    ([100, 64, 0, 0], 10, "a carrier's shared"),
    ([127, 0, 0, 0], 8, "a loopback"),
    ([169, 254, 0, 0], 16, "a link-local"),
    ([172, 16, 0, 0], 12, "a private"),
    ([192, 0, 0, 0], 24, "a protocol's"),
    ([192, 0, 2, 0], 24, "a documentation"),
    ([192, 88, 99, 0], 24, "a 6to4 relay's"),
    ([192, 168, 0, 0], 16, "a private"),
    ([198, 18, 0, 0], 15, "a benchmark"),
    ([198, 51, 100, 0], 24, "a documentation"),
    ([203, 0, 113, 0], 24, "a documentation"),
    ([224, 0, 0, 0], 4, "a multicast"),
    ([240, 0, 0, 0], 4, "a reserved"),
    // The host agent of a large cloud for its own machines.
    ([168, 63, 129, 16], 32, "a cloud's internal"),
];

const REFUSED_V6: &[([u16; 8], u8, &str)] = &[
    // Teredo, ORCHID, benchmarks and other networks for protocols.
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, "a protocol's"),
    ([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, "a documentation"),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, "a 6to4"),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, "a documentation"),
];

const NAMED_V6: &[([u16; 8], u8, &str)] = &[
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, "an unspecified"),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, "a loopback"),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, "a NAT64"),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, "a NAT64"),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, "a private"),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, "a link-local"),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, "a site-local"),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, "a multicast"),
];

/// The kind of a non-public address, as words before "address".
#[must_use]
pub fn refusal(address: IpAddr) -> Option<&'static str> {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let bits = u128::from(u32::from(v4));
            let found = REFUSED_V4.iter().find(|(network, prefix, _)| {
                same_prefix(bits, u32::from(Ipv4Addr::from(*network)).into(), *prefix, 32)
            });
            found.map(|(_, _, kind)| *kind)
        }
        IpAddr::V6(v6) => {
            let is_public = u128::from(v6) >> 125 == 1;
            let table = if is_public { REFUSED_V6 } else { NAMED_V6 };
            let bits = u128::from(v6);
            let found = table.iter().find(|(network, prefix, _)| {
                same_prefix(bits, Ipv6Addr::from(*network).into(), *prefix, 128)
            });
            let leads_inside = || isatap(v6).and_then(|v4| refusal(v4.into())).map(|_| "an ISATAP");
            found.map(|(_, _, kind)| *kind).or((!is_public).then_some("a reserved")).or_else(leads_inside)
        }
    }
}

#[must_use]
pub fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(v6) = address.to_canonical() else { return None };
    let [a, b, c, _, _, _, g, h] = v6.segments();
    let from = |high: u16, low: u16| Some(Ipv4Addr::from((u32::from(high) << 16) | u32::from(low)));
    match (a, b) {
        (0x64, 0xff9b) => from(g, h),
        (0x2002, _) => from(b, c),
        // Teredo inverts every bit of the client's address.
        (0x2001, 0) => from(!g, !h),
        _ => isatap(v6),
    }
}

/// The IPv4 address of an interface id of RFC 5214, `0:5efe:a.b.c.d` or `200:5efe:a.b.c.d`.
fn isatap(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let [_, _, _, _, 0 | 0x200, 0x5efe, g, h] = v6.segments() else { return None };
    Some(Ipv4Addr::from((u32::from(g) << 16) | u32::from(h)))
}

/// Whether the first `prefix` of `width` bits are equal.
pub(super) fn same_prefix(one: u128, other: u128, prefix: u8, width: u8) -> bool {
    let ignored = u32::from(width.saturating_sub(prefix));
    (one ^ other).checked_shr(ignored).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> Option<&'static str> {
        refusal(text.parse().unwrap())
    }

    #[test]
    fn network_borders_are_exact() {
        for (low, high, before, after) in [
            ("10.0.0.0", "10.255.255.255", "9.255.255.255", "11.0.0.0"),
            ("100.64.0.0", "100.127.255.255", "100.63.255.255", "100.128.0.0"),
            ("127.0.0.0", "127.255.255.255", "126.255.255.255", "128.0.0.0"),
            ("169.254.0.0", "169.254.255.255", "169.253.255.255", "169.255.0.0"),
            ("172.16.0.0", "172.31.255.255", "172.15.255.255", "172.32.0.0"),
            ("192.168.0.0", "192.168.255.255", "192.167.255.255", "192.169.0.0"),
            ("198.18.0.0", "198.19.255.255", "198.17.255.255", "198.20.0.0"),
            ("2001:db8::", "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", "2001:db7::1", "2001:db9::1"),
            ("2002::", "2002:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "2001:ffff::1", "2003::1"),
            ("2001::", "2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff", "2000:ffff::1", "2001:200::1"),
        ] {
            assert!(refused(low).is_some() && refused(high).is_some(), "{low} to {high}");
            assert_eq!((refused(before), refused(after)), (None, None), "around {low} to {high}");
        }
        for address in
            ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "4000::1", "1fff::1", "168.63.129.16"]
        {
            assert!(refused(address).is_some(), "{address}");
        }
    }

    #[test]
    fn embedded_address_is_checked() {
        assert_eq!(refused("::ffff:8.8.8.8"), None);
        assert_eq!(refused("::ffff:10.0.0.1"), Some("a private"));
        assert_eq!(refused("64:ff9b::8.8.8.8"), Some("a NAT64"));
        let embedded = |text: &str| embedded(text.parse().unwrap()).map(|v4| v4.to_string());
        assert_eq!(embedded("64:ff9b::10.0.0.1").as_deref(), Some("10.0.0.1"));
        assert_eq!(embedded("2002:7f00:1::").as_deref(), Some("127.0.0.1"));
        assert_eq!(embedded("2001:0:1:2:3:4:80ff:fffe").as_deref(), Some("127.0.0.1"));
        assert_eq!(embedded("2606:4700::1"), None);
    }

    #[test]
    fn isatap_address_leads_to_its_ipv4_address() {
        for id in ["0:5efe", "200:5efe"] {
            for private in ["10.0.0.1", "127.0.0.1", "169.254.169.254", "192.168.0.1"] {
                let address = format!("2606:4700:1:2:{id}:{private}");
                assert_eq!(refused(&address), Some("an ISATAP"), "{address}");
                assert_eq!(embedded(address.parse().unwrap()), Some(private.parse().unwrap()));
            }
            assert_eq!(refused(&format!("2606:4700:1:2:{id}:8.8.8.8")), None);
        }
        assert_eq!(refused("2606:4700:1:2:100:5efe:10.0.0.1"), None, "another interface id");
    }
}
