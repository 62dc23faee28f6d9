//! Compiles `listen`.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use config::{
    At, ClientAuthMode, Config, ListenerLimits, ListenerPaths, ListenerTls, Report, Size, Spanned,
    TlsVersion,
};
use plan::{
    EmptySegments, EscapedSlash, Limits, Listener, PathParameters, PathRules, Plan, Timeouts,
};

use crate::files::InService;
use crate::{files, kept, names};

/// The upper limit of a listener's bound on heads. One connection can make a worker hold two heads of this size.
const HEAD_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The lower limit of a listener's bound on heads. Requests of browsers still fit in it.
const HEAD_BYTES_MIN: u64 = 1024;

/// Compiles all listeners. Complains about listeners with faults, and if there are no listeners.
pub(crate) fn compile(
    config: &Config,
    lacking: bool,
    in_service: InService<'_>,
    report: &mut Report,
) -> Vec<Listener> {
    if lacking {
        let help = "write `listen: { public: { address: \"0.0.0.0:8080\" } }`";
        report.error(At::file(0), "no listener is configured", help);
    }
    complain_of_clashes(config, report);
    config
        .listen
        .iter()
        .filter_map(|(name, listener)| {
            let tls = listener.tls.as_ref();
            let tls = tls.map(|tls| server(tls, &name.value, listener.http2, in_service, report));
            let limits = limits(&listener.limits, report);
            let timeout = &listener.timeout;
            Some(Listener {
                name: name.value.clone(),
                address: listener.address.value.0,
                tls: match tls {
                    Some(server) => Some(server?),
                    None => None,
                },
                http2: listener.http2,
                proxy_protocol: listener.proxy_protocol,
                trusted_proxies: listener.trusted_proxies.iter().map(|network| network.0).collect(),
                pass_untrusted_headers: listener.pass_untrusted_headers,
                paths: path_rules(&listener.paths),
                limits,
                timeout: Timeouts {
                    head: timeout.head.0,
                    body: timeout.body.0,
                    body_total: timeout.body_total.map(|total| total.0),
                    idle: timeout.idle.0,
                    tunnel: timeout.tunnel.0,
                    tls: timeout.tls.0,
                },
            })
        })
        .collect()
}

/// Returns the listeners. Those that did not change are taken over from the previous plan.
pub(crate) fn build(listeners: Vec<Listener>, previous: Option<&Plan>) -> Vec<Arc<Listener>> {
    let old = |name: &str| previous?.listeners.iter().find(|listener| listener.name == name);
    listeners
        .into_iter()
        .map(|listener| {
            let old = old(&listener.name);
            kept(listener, old)
        })
        .collect()
}

fn complain_of_clashes(config: &Config, report: &mut Report) {
    let admin = config.admin.iter().map(|admin| ("admin", &admin.address));
    let status = config.status.iter().map(|status| ("status", &status.address));
    let catalog = config.catalog.iter().map(|keys| ("catalog", &keys.value.listen.value.address));
    let listeners = config.listen.iter().map(|(name, l)| (name.value.as_str(), &l.address));
    let mut taken: HashMap<SocketAddr, (&str, At)> = HashMap::new();
    for (name, Spanned { value, at, .. }) in listeners.chain(admin).chain(status).chain(catalog) {
        // For port 0, the operating system chooses a free port each time, so there is no conflict.
        if value.0.port() == 0 {
            continue;
        }
        if let Some((other, place)) = taken.get(&value.0) {
            let place = report.sources().place(*place);
            let what = format!(
                "`{name}` and `{other}` have the same address {}; the other is at {place}",
                value.0
            );
            report.error(*at, what, "give one of them another port");
            continue;
        }
        taken.insert(value.0, (name, *at));
    }
}

pub(crate) fn path_rules(paths: &ListenerPaths) -> PathRules {
    PathRules {
        escaped_slash: match paths.escaped_slash {
            config::EscapedSlash::Refuse => EscapedSlash::Refuse,
            config::EscapedSlash::Keep => EscapedSlash::Keep,
            config::EscapedSlash::Decode => EscapedSlash::Decode,
        },
        empty_segments: match paths.empty_segments {
            config::EmptySegments::Merge => EmptySegments::Merge,
            config::EmptySegments::Refuse => EmptySegments::Refuse,
            config::EmptySegments::Keep => EmptySegments::Keep,
        },
        parameters: match paths.parameters {
            config::PathParameters::Refuse => PathParameters::Refuse,
            config::PathParameters::Strip => PathParameters::Strip,
            config::PathParameters::Keep => PathParameters::Keep,
        },
    }
}

fn limits(limits: &ListenerLimits, report: &mut Report) -> Limits {
    let head = &limits.head_bytes_max;
    if !(HEAD_BYTES_MIN..=HEAD_BYTES_MAX).contains(&head.value.0) {
        let what = format!("`head_bytes_max` of {} bytes is out of range", head.value.0);
        report.error(head.at, what, "write a size from `1KiB` to `16MiB`");
    }
    let target = &limits.target_bytes_max;
    // A default is reduced silently to the bound on the head; only a written value gets a complaint.
    if target.value > head.value && target.at != At::NOWHERE {
        let what =
            "`target_bytes_max` is larger than `head_bytes_max`, which the target is part of";
        report.error(target.at, what, "raise `head_bytes_max` or lower this");
    }
    Limits {
        head_bytes_max: bytes(head.value),
        target_bytes_max: bytes(target.value.min(head.value)),
        headers_max: count(limits.headers_max.get()),
        connections_max: count(limits.connections_max.value.get()),
        connections_max_written: limits.connections_max.at != At::NOWHERE,
        connections_per_client: limits.connections_per_client.map(|max| count(max.get())),
        streams_max: limits.streams_max.get(),
        body_rate_min: limits.body_rate_min.0,
    }
}

fn server(
    written: &Spanned<ListenerTls>,
    listener: &str,
    http2: bool,
    in_service: InService<'_>,
    report: &mut Report,
) -> Option<tls::Server> {
    let tls = &written.value;
    if tls.versions.value.is_empty() {
        report.error(tls.versions.at, "no TLS version is allowed", "write `versions: [1.2, 1.3]`");
    }
    let replaces_valid =
        |host: Option<&str>| in_service.is_valid_at(&Listener::certificate_place(listener, host));
    let default = default_pair(written, replaces_valid(None), report);
    let pairs: Vec<Option<(String, tls::Pair)>> = tls
        .sni
        .iter()
        .map(|(host, certificate)| {
            let pattern = names::host(&host.value, host.at, report);
            let pattern = pattern.map(|pattern| pattern.to_string());
            let valid = pattern.as_deref().is_some_and(|host| replaces_valid(Some(host)));
            let pair = files::pair(&certificate.certificate, &certificate.key, valid, report);
            Some((pattern?, pair?))
        })
        .collect();
    if let (Some(ca), Some(_)) = (&tls.client_ca, &tls.client_auth) {
        let what = "`client_ca` and `client_auth` cannot be combined";
        report.error(ca.at, what, "keep `client_auth`");
    }
    let client_auth = tls.client_auth.as_ref();
    let client_optional = client_auth.is_some_and(|auth| auth.mode == ClientAuthMode::Request);
    let client_ca = client_auth.map(|auth| &auth.ca).or(tls.client_ca.as_ref());
    let client_ca = client_ca.map(|ca| (ca.at, files::read(ca, report)));
    let spec = tls::ServerSpec {
        default: default?,
        names: pairs.into_iter().collect::<Option<_>>()?,
        versions: tls.versions.value.iter().copied().map(version).collect(),
        client_ca: match &client_ca {
            Some((_, pem)) => Some(pem.clone()?),
            None => None,
        },
        client_optional,
        http2,
    };
    if spec.versions.is_empty() {
        return None;
    }
    // Each certificate was validated above, so the error must be in the certificate authorities.
    let at = client_ca.map_or(written.at, |(at, _)| at);
    tls::Server::new(&spec).map_err(|error| files::complain(&error, at, at, report)).ok()
}

/// Returns the certificate for clients that send no server name or an unknown one: that of the files, or one of the gateway's own.
fn default_pair(
    tls: &Spanned<ListenerTls>,
    replaces_valid: bool,
    report: &mut Report,
) -> Option<tls::Pair> {
    let ListenerTls { certificate, key, self_signed, .. } = &tls.value;
    match (certificate, key, self_signed.value) {
        (Some(certificate), Some(key), false) => {
            files::pair(certificate, key, replaces_valid, report)
        }
        (None, None, true) => {
            let what = "clients cannot verify a certificate that is `self_signed`";
            report.warn(
                self_signed.at,
                what,
                "use it for development only, and write `certificate` and `key` elsewhere",
            );
            let made = tls::self_signed();
            let complain = |error: tls::Error| report.error(self_signed.at, error.to_string(), "");
            made.map_err(complain).ok()
        }
        (_, _, true) => {
            let what = "`self_signed` cannot be combined with `certificate` and `key`";
            report.error(self_signed.at, what, "keep the files");
            None
        }
        (_, _, false) => {
            if tls.intact {
                let lacks = if certificate.is_none() { "certificate" } else { "key" };
                let what = format!("the key `{lacks}` is missing");
                report.error(tls.at, what, "name the PEM files of `certificate` and `key`, or write `self_signed: true` for development");
            }
            None
        }
    }
}

fn version(version: TlsVersion) -> tls::Version {
    match version {
        TlsVersion::V1_2 => tls::Version::Tls12,
        TlsVersion::V1_3 => tls::Version::Tls13,
    }
}

pub(crate) fn bytes(size: Size) -> usize {
    usize::try_from(size.0).unwrap_or(usize::MAX)
}

pub(crate) fn count(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
