//! Which addresses the gateway may connect to if somebody other than the operator chooses the target.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;

/// A rule for targets that clients choose. Each address of a name is checked directly before the connection is made, so that
/// changing the name's addresses after an earlier check does not help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressRule {
    /// Networks that are allowed although they are not public.
    pub allow: Vec<IpNet>,
    /// Whether public addresses are allowed.
    pub public: bool,
}

impl Default for AddressRule {
    fn default() -> AddressRule {
        AddressRule { allow: Vec::new(), public: true }
    }
}

impl AddressRule {
    /// Returns true for public addresses, if they are allowed, and for addresses that the operator allows.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = reached(address);
        (self.public && is_public(address))
            || self.allow.iter().any(|network| network.contains(&address))
    }
}

/// Returns the address that is actually reached: for an IPv6 address with an embedded IPv4 address, the IPv4 address.
fn reached(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let embedded = match v6.segments() {
        // IPv4-mapped addresses (RFC 4291, 2.5.5.2), and the older IPv4-compatible form, except `::` and `::1`.
        [0, 0, 0, 0, 0, 0xffff, high, low] => Some((high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some((high, low)),
        // IPv4-translated addresses: NAT64 (RFC 6052, 2.1) and SIIT (RFC 2765).
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0, 0, 0, 0, 0xffff, 0, high, low] => {
            Some((high, low))
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    match embedded {
        Some((high, low)) => {
            let [[a, b], [c, d]] = [high, low].map(u16::to_be_bytes);
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        None => address,
    }
}

/// Returns true for addresses on the internet (the registries of RFC 6890).
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        // "This network", and the shared address space of carriers.
        [0, ..] | [100, 64..=127, ..] => true,
        // For protocol assignments, for benchmarks, and reserved up to broadcast.
        [192, 0, 0, _] | [198, 18 | 19, ..] | [240..=255, ..] => true,
        // The former relays of 6to4.
        [192, 88, 99, _] => true,
        _ => false,
    };
    let known = address.is_loopback()
        || address.is_private()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation();
    !special && !known
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Only 2000::/3 is global unicast (RFC 4291, 2.4), and parts of it are for protocols or documentation.
    match address.segments() {
        [0x2001, second, ..] if second < 0x200 => false,
        [0x2001, 0xdb8, ..] => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_permitted() {
        let rule = AddressRule::default();
        for address in [
            "127.0.0.1",
            "127.255.255.254",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "192.0.0.8",
            "192.0.2.1",
            "198.18.0.1",
            "198.51.100.1",
            "203.0.113.9",
            "224.0.0.1",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:a9fe:a9fe",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::1",
            "2002:a00:1::",
            "2001::1",
            "2001:db8::1",
            "3fff::1",
            "fc00::1",
            "fd12:3456::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "100::1",
        ] {
            assert!(!rule.permits(address.parse().unwrap()), "{address}");
        }
        for address in
            ["8.8.8.8", "172.32.0.1", "100.128.0.1", "::ffff:8.8.8.8", "2606:4700::1111", "2a00::1"]
        {
            assert!(rule.permits(address.parse().unwrap()), "{address}");
        }
    }

    #[test]
    fn what_the_operator_allows_is_permitted_in_every_form() {
        let rule = AddressRule { allow: vec!["127.0.0.0/8".parse().unwrap()], public: true };
        for (address, permitted) in [
            ("127.0.0.1", true),
            ("::ffff:127.0.0.1", true),
            ("10.0.0.1", false),
            ("::1", false),
            ("::ffff:10.0.0.1", false),
        ] {
            assert_eq!(rule.permits(address.parse().unwrap()), permitted, "{address}");
        }
    }
}
