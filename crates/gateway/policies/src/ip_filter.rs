//! `ip_filter`: allows or refuses client addresses. It uses the client address that the listener has determined, and reads no headers.

use std::net::IpAddr;

use fault::{Fault, Kind};
use ipnet::IpNet;
use message::RequestHead;
use policy::{Exchange, Flow, OnHead, Onward, Policy, Step};

/// Allowed and denied networks. Denied networks take precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Networks {
    /// The allowed networks. If empty, all clients that are not denied are allowed.
    pub allow: Vec<IpNet>,
    pub deny: Vec<IpNet>,
}

struct AddressCheck {
    networks: Networks,
    status: u16,
    message: Option<Box<str>>,
}

/// WSO2's code for a client that is blocked.
const CODE: u32 = 900_805;

/// Returns the policy for these networks. `status` and `message` are sent to refused clients.
pub fn policy(networks: Networks, status: u16, message: Option<&str>) -> Policy {
    let filter = AddressCheck { networks, status, message: message.map(Into::into) };
    Policy { name: "ip_filter", request: Some(Step::Head(Box::new(filter))), response: None }
}

impl Networks {
    fn allows(&self, client: IpAddr) -> bool {
        let within = |networks: &[IpNet]| networks.iter().any(|network| network.contains(&client));
        !within(&self.deny) && (self.allow.is_empty() || within(&self.allow))
    }
}

impl OnHead<RequestHead> for AddressCheck {
    fn on_head(&self, ex: &mut Exchange, _head: &mut RequestHead) -> Flow {
        // On a dual-stack socket, the address of an IPv4 client is IPv4-mapped.
        let client = ex.client.to_canonical();
        if self.networks.allows(client) {
            Ok(Onward::Next)
        } else {
            let cause = format!("ip_filter: {client} is not allowed");
            let mut fault = Fault::new(Kind::Refused, cause).with_code(CODE);
            fault.detail.clone_from(&self.message);
            Err(if self.status == Kind::Refused.status() {
                fault
            } else {
                fault.with_status(self.status)
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn denied_networks_take_precedence_over_allowed_ones() {
        let list = |networks: &[&str]| networks.iter().map(|n| n.parse().unwrap()).collect();
        let cases: &[(&[&str], &[&str], &str, bool)] = &[
            (&[], &[], "192.0.2.1", true),
            (&["192.0.2.0/24"], &[], "192.0.2.1", true),
            (&["192.0.2.0/24"], &[], "192.0.3.1", false),
            (&["192.0.2.0/24"], &["192.0.2.1/32"], "192.0.2.1", false),
            (&["192.0.2.0/24"], &["192.0.2.1/32"], "192.0.2.2", true),
            (&[], &["2001:db8::/32"], "2001:db8::1", false),
            (&[], &["2001:db8::/32"], "192.0.2.1", true),
            (&["0.0.0.0/0"], &[], "2001:db8::1", false),
        ];
        for (allow, deny, client, passes) in cases {
            let networks = Networks { allow: list(allow), deny: list(deny) };
            assert_eq!(networks.allows(client.parse().unwrap()), *passes, "{client} {networks:?}");
        }
    }
}
