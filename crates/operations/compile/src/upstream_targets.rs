//! Compiles the targets of an upstream: either a fixed list, or a name that DNS resolves to targets.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use config::{
    At, Balance, Config, Report, SrvUrl, Target, TargetAddress, TargetUrl, Upstream,
    UpstreamAddresses, UpstreamTls,
};
use plan::upstreams::{Dns, Servers, ServiceName, TargetSettings, Targets};

/// The maximum number of name servers, as in the system's resolver: each may take seconds before the next is tried.
const SERVERS_MAX: usize = 3;

/// Compiles the targets of an upstream.
pub(crate) fn compile(config: &Config, upstream: &Upstream, report: &mut Report) -> Targets {
    check(upstream, report);
    for Target { url, .. } in &upstream.targets.value {
        if let TargetAddress::Url(target) = &url.value {
            warn_of_loop(config, target, url.at, report);
        }
    }
    let each_address = upstream.addresses.value == UpstreamAddresses::Each;
    let mut targets = Vec::new();
    for target in &upstream.targets.value {
        match &target.url.value {
            TargetAddress::Url(url) => targets.push(settings(url, target.weight.get())),
            TargetAddress::Service(service) => {
                check_service(upstream, target, report);
                return Targets::Service(self::service(service, each_address, &upstream.tls));
            }
        }
    }
    if each_address {
        check_each(upstream, report);
        Targets::EachAddress(targets)
    } else {
        Targets::Fixed(targets)
    }
}

/// Compiles how names of targets are looked up.
pub(crate) fn dns(upstream: &Upstream, report: &mut Report) -> Dns {
    let refresh = upstream.dns.refresh.0;
    let Some(written) = &upstream.dns.servers else {
        return Dns { refresh, servers: Servers::default() };
    };
    if written.value.is_empty() && written.intact {
        let help = "write addresses such as \"10.0.0.2\", or remove the key";
        report.error(written.at, "no name server is listed", help);
    }
    if written.value.len() > SERVERS_MAX {
        let what =
            format!("{} name servers exceed the maximum of {SERVERS_MAX}", written.value.len());
        report.error(written.at, what, "keep the most reliable ones");
    }
    if written.intact && upstream.targets.intact && !upstream.targets.value.iter().any(has_name) {
        let help = "remove it, or write targets by name";
        report.warn(written.at, "every target is an address, so no name server is used", help);
    }
    let addresses = written.value.iter().map(|server| server.0).collect();
    Dns { refresh, servers: Servers { addresses } }
}

fn settings(url: &TargetUrl, weight: u32) -> TargetSettings {
    TargetSettings { https: url.tls, host: url.host.clone(), port: url.port, weight }
}

fn service(url: &SrvUrl, each_address: bool, tls: &UpstreamTls) -> ServiceName {
    let is_proven = url.tls && tls.verify.value && tls.server_name.is_none();
    ServiceName {
        https: url.tls,
        name: url.name.clone(),
        each_address,
        hosts_in: is_proven.then(|| domain(&url.name).to_owned()),
    }
}

/// Returns the domain of a service name: the part after `_SERVICE._tcp`.
fn domain(mut name: &str) -> &str {
    while let Some((label, rest)) = name.split_once('.')
        && label.starts_with('_')
    {
        name = rest;
    }
    name
}

fn check(upstream: &Upstream, report: &mut Report) {
    let (targets, tls) = (&upstream.targets, &upstream.tls);
    if targets.value.is_empty() && targets.intact {
        let help = "write at least one URL such as `http://10.0.0.1:8080`";
        report.error(targets.at, "an upstream needs at least one target", help);
    }
    let mut seen = HashSet::new();
    for target in targets.value.iter().filter(|target| !seen.insert(&target.url.value)) {
        let what = format!("the target `{}` appears twice", target.url.value);
        report.warn(target.url.at, what, "give it a `weight` instead");
    }
    let https = targets.value.iter().any(|target| target.url.value.tls());
    // Harmless: the warning needs only one place, that of the first key written.
    let written = [&tls.ca, &tls.certificate, &tls.key].into_iter().flatten().next();
    if let Some(file) = written.filter(|_| !https && targets.intact) {
        let help = "write targets as `https://HOST:PORT`, or remove `tls`";
        report.warn(file.at, "no target uses TLS, so this has no effect", help);
    }
}

/// Complains about keys whose values SRV records determine.
fn check_service(upstream: &Upstream, target: &Target, report: &mut Report) {
    let url = &target.url;
    if upstream.targets.value.len() > 1 {
        let what = format!(
            "`{}` cannot be combined with other targets: only SRV records have priorities",
            url.value
        );
        let help = "write it as the only target, and move the others to another upstream";
        report.error(url.at, what, help);
    }
    if target.weight.get() != 1 {
        let what =
            format!("`{}` cannot have a weight, because its SRV records have weights", url.value);
        report.error(url.at, what, "remove `weight`");
    }
    if upstream.balance == Balance::Failover {
        let what = format!(
            "`failover` has no effect on `{}`, because its SRV records have priorities",
            url.value
        );
        let help = "remove `balance: failover`: a lower priority gets requests only when no better one can";
        report.error(url.at, what, help);
    }
}

fn check_each(upstream: &Upstream, report: &mut Report) {
    let (targets, at) = (&upstream.targets, upstream.addresses.at);
    for target in targets.value.iter().filter(|target| target.weight.get() != 1 && has_name(target))
    {
        let what = format!(
            "`{}` cannot have a weight, because each of its addresses is a target",
            target.url.value
        );
        let help = "remove `weight`, or write `addresses: together`";
        report.error(target.url.at, what, help);
    }
    if upstream.balance == Balance::Failover {
        let what = "`failover` cannot be used with the addresses of a name, which have no order";
        let help = "write another `balance`, or `addresses: together`";
        report.error(at, what, help);
    }
    if targets.intact && !targets.value.iter().any(has_name) {
        let help = "remove it, or write targets by name";
        report.warn(at, "every target is an address, so this has no effect", help);
    }
}

/// Returns true if the target's host is a name that DNS resolves.
fn has_name(target: &Target) -> bool {
    match &target.url.value {
        TargetAddress::Url(url) => url.host.parse::<IpAddr>().is_err(),
        TargetAddress::Service(_) => true,
    }
}

/// Warns of a target that is a listener of the same gateway: requests would loop.
pub(crate) fn warn_of_loop(config: &Config, url: &TargetUrl, at: At, report: &mut Report) {
    let leads = |address: SocketAddr| {
        // For port 0, the operating system chooses a free port each time.
        address.port() != 0 && address.port() == url.port && is_here(&url.host, address.ip())
    };
    let mut listeners = config.listen.iter();
    if let Some((name, _)) = listeners.find(|(_, listener)| leads(listener.address.value.0)) {
        let what = format!(
            "the target `{url}` is the listener `{}` of this gateway: requests that come back are refused with 508",
            name.value
        );
        let help = "write where the service runs, or give the listener another port";
        report.warn(at, what, help);
    }
}

/// Returns true if a connection from this machine to `host` reaches a socket that listens on address `listens`. The ports are equal.
fn is_here(host: &str, listens: IpAddr) -> bool {
    let local = [IpAddr::from(Ipv4Addr::LOCALHOST), IpAddr::from(Ipv6Addr::LOCALHOST)];
    let hosts = match host.parse::<IpAddr>() {
        // A connection to the unspecified address reaches this machine.
        Ok(ip) if ip.is_unspecified() => local.to_vec(),
        Ok(ip) => vec![ip],
        Err(_) if host.trim_end_matches('.').eq_ignore_ascii_case("localhost") => local.to_vec(),
        Err(_) => Vec::new(),
    };
    // A socket that listens on the unspecified IPv6 address also accepts IPv4 connections.
    let takes_all = |ip: &IpAddr| {
        listens.is_unspecified() && ip.is_loopback() && (listens.is_ipv6() || ip.is_ipv4())
    };
    hosts.iter().any(|ip| *ip == listens || takes_all(ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_of_a_service_is_what_follows_its_labels() {
        for (name, expected) in [
            ("_orders._tcp.example.com", "example.com"),
            ("_a.b.test", "b.test"),
            ("orders.service.consul", "orders.service.consul"),
            ("_a", "_a"),
        ] {
            assert_eq!(domain(name), expected);
        }
    }
}
