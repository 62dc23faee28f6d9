//! Checks the HTTP names that an operator writes: methods, headers, hosts.

use config::{At, Map, Report, Spanned};
use plan::HostPattern;

/// Headers that determine the end of a message or the use of the connection. Only the pipeline may write them, because a wrong value could
/// allow request smuggling.
const FRAMING: &[&str] = &[
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// The longest host name in DNS.
const HOST_BYTES_MAX: usize = 253;

/// Returns the first part of a complaint about an unknown name.
pub(crate) fn unknown(what: &str, name: &str, meant: Option<&str>) -> String {
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default();
    format!("there is no {} `{name}`{meant}", what.trim_start_matches("a "))
}

/// Complains about a name that does not exist in its section of the configuration. What could not be read there was already reported.
pub(crate) fn known<T>(kind: &str, name: &Spanned<String>, section: &Map<T>, report: &mut Report) {
    if !section.has(&name.value) {
        let meant = report.suggest(&name.value, section.names());
        let what = unknown(kind, &name.value, meant);
        report.error(name.at, what, format!("name one of the `{kind}s`"));
    }
}

/// Returns the name of a header in lower case, or complains if it is invalid.
pub(crate) fn header(name: &str, at: At, report: &mut Report) -> Option<String> {
    if http1::is_token(name.as_bytes()) {
        return Some(name.to_ascii_lowercase());
    }
    let help = "write letters, digits and dashes, such as `x-tier`";
    report.error(at, format!("`{}` is not a valid header name", name.escape_debug()), help);
    None
}

/// Returns the name of a header in lower case, or complains if the operator must not change it.
pub(crate) fn changeable_header(name: &str, at: At, report: &mut Report) -> Option<String> {
    let name = header(name, at, report)?;
    if FRAMING.contains(&name.as_str()) {
        let help = "remove it; the gateway writes it for each connection";
        report.error(at, format!("`{name}` cannot be changed"), help);
        return None;
    }
    Some(name)
}

/// Returns old names with their new names, each checked by `read`. Complains about a new name that is not unique or equals the old one.
pub(crate) fn renames(
    map: &Map<Spanned<String>>,
    report: &mut Report,
    read: impl Fn(&str, At, &mut Report) -> Option<String>,
) -> Vec<(String, String)> {
    let mut renames: Vec<(String, String)> = Vec::new();
    for (old, new) in map.iter().filter(|(old, _)| old.intact) {
        let names = read(&old.value, old.at, report).zip(read(&new.value, new.at, report));
        let Some((from, to)) = names else { continue };
        let taken = from == to || renames.iter().any(|(_, other)| *other == to);
        if taken {
            let what = format!("the name `{to}` is already in use");
            report.error(new.at, what, "give each a unique new name");
        }
        renames.push((from, to));
    }
    renames
}

/// Returns the value of a header, or complains if it is invalid.
pub(crate) fn header_value(value: &Spanned<String>, report: &mut Report) -> Option<String> {
    let text = &value.value;
    if http1::is_header_value(text.as_bytes()) && text.trim() == text {
        return Some(text.clone());
    }
    // The complaint does not show the value, since it may be a credential.
    let what = if text.contains(['\n', '\r']) {
        "a header value must not contain a line break"
    } else if text.trim() != text {
        "a header value must not begin or end with a space"
    } else {
        "a header value must not contain control characters"
    };
    let help = "write one line without control characters or surrounding spaces; \
                `${file:PATH}` drops the final line break of a file";
    report.error(value.at, what, help);
    None
}

/// Returns a content type, possibly with parameters, or complains.
pub(crate) fn media_type(value: &Spanned<String>, report: &mut Report) -> Option<String> {
    let text = header_value(value, report)?;
    let mut halves = message::media_type(text.as_bytes()).splitn(2, |byte| *byte == b'/');
    if let (Some(kind), Some(of)) = (halves.next(), halves.next())
        && http1::is_token(kind)
        && http1::is_token(of)
    {
        return Some(text);
    }
    let what = format!("`{}` is not a content type", text.escape_debug());
    report.error(
        value.at,
        what,
        "write one such as `application/json` or `text/plain; charset=utf-8`",
    );
    None
}

/// Returns an HTTP method, or complains if it is invalid.
pub(crate) fn method(method: &Spanned<String>, report: &mut Report) -> Option<String> {
    let name = &method.value;
    let capitals = name.to_ascii_uppercase();
    if name == "*" {
        let what = "`*` is not a method";
        report.error(
            method.at,
            what,
            "name methods such as `GET` and `POST`, or leave the key out",
        );
        return None;
    }
    if !http1::is_token(name.as_bytes()) {
        let what = format!("`{}` is not a valid method", name.escape_debug());
        report.error(method.at, what, "write methods such as `GET` and `POST`");
        return None;
    }
    if *name != capitals {
        let what = format!("methods are case-sensitive, and no client sends `{name}`");
        report.error(method.at, what, format!("write `{capitals}`"));
        return None;
    }
    Some(capitals)
}

/// Returns a host name, or the wildcard `*.HOST`, in lower case, or complains.
pub(crate) fn host(host: &str, at: At, report: &mut Report) -> Option<HostPattern> {
    let name = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let help = "write a host such as `api.example.com`, or `*.example.com` for its subdomains";
    let below = name.strip_prefix("*.");
    let rest = below.unwrap_or(&name);
    let fault = if name == "*" {
        Some("`*` alone is not a host; leave `host` out to match any".to_owned())
    } else if rest.contains('*') {
        Some(format!("in `{host}`, `*` is allowed only as the whole first label"))
    } else if is_address(rest) && below.is_none() {
        None
    } else if has_port(rest) {
        Some(format!("`{host}` has a port; hosts are matched without a port"))
    } else if !is_name(rest) {
        Some(format!("`{}` is not a host", host.escape_debug()))
    } else {
        None
    };
    if let Some(fault) = fault {
        report.error(at, fault, help);
        return None;
    }
    Some(match below {
        Some(parent) => HostPattern::Below(parent.to_owned()),
        None => HostPattern::Exact(name),
    })
}

/// Returns true for a valid `Host` value: a name or an address, with or without a port.
pub(crate) fn is_authority(text: &str) -> bool {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        Some(_) | None => (text, None),
    };
    let port_is_good =
        port.is_none_or(|port| kit::digits::whole::<u16>(port).is_some_and(|port| port > 0));
    port_is_good && (is_name(&host.to_ascii_lowercase()) || is_address(host))
}

/// Returns true for an IPv6 address in brackets. An IPv4 address is accepted as a name.
fn is_address(text: &str) -> bool {
    let inside = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    inside.is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
}

fn has_port(text: &str) -> bool {
    text.rsplit_once(':').is_some_and(|(_, port)| kit::digits::whole::<u16>(port).is_some())
}

fn is_name(text: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    let label = |label: &str| !label.is_empty() && label.len() <= 63 && label.chars().all(good);
    text.len() <= HOST_BYTES_MAX && text.split('.').all(label)
}
