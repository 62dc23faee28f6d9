//! Compiles `stores`: servers through which gateways share counts.

use config::{Config, Report, Spanned};
use policies::stores::{ServiceAddress, Store};

use crate::names;
use crate::upstream_tls;

/// Returns the store of this name, or complains.
pub(super) fn store(name: &Spanned<String>, config: &Config, report: &mut Report) -> Option<Store> {
    let stores = &config.stores;
    let Some(written) = stores.get(&name.value) else {
        names::known("store", name, stores, report);
        return None;
    };
    let Some((place, tls, database)) = address(&written.redis.value) else {
        let help = "write `redis://HOST:PORT`, `redis://HOST:PORT/DATABASE`, `rediss://HOST:PORT` or `unix:///PATH`; a password has its own key";
        report.error(written.redis.at, "this is not the URL of a Redis server", help);
        return None;
    };
    Some(Store {
        place,
        tls: if tls { Some(upstream_tls::client(&written.tls, report)?) } else { None },
        database,
        password: written.password.as_ref().map(|password| password.0.clone()),
        interval: written.interval.value.0,
        timeout: written.timeout.0,
    })
}

/// Returns the address of the server, whether to use TLS, and the number of the database.
fn address(url: &str) -> Option<(ServiceAddress, bool, u32)> {
    if let Some(path) = url.strip_prefix("unix://") {
        return path.starts_with('/').then(|| (ServiceAddress::Unix(path.into()), false, 0));
    }
    let (tls, rest) = match url.strip_prefix("rediss://") {
        Some(rest) => (true, rest),
        None => (false, url.strip_prefix("redis://")?),
    };
    let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
    // Harmless: the caller reports a URL that cannot be parsed.
    let database = if database.is_empty() { 0 } else { kit::digits::whole(database)? };
    // The colons of an address in brackets do not begin a port.
    let (host, port) = match authority.rsplit_once(':').filter(|_| !authority.ends_with(']')) {
        // Harmless: the caller reports a URL that cannot be parsed.
        Some((host, port)) => (host, kit::digits::whole(port)?),
        None => (authority, 6379),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let good = |c: char| c.is_ascii_alphanumeric() || ".-_:".contains(c);
    let sound = !host.is_empty() && host.chars().all(good);
    sound.then(|| (ServiceAddress::Tcp { host: host.to_owned(), port }, tls, database))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_redis_server_may_be_left_out() {
        let tcp = |host: &str, port| Some(ServiceAddress::Tcp { host: host.to_owned(), port });
        for (url, expected) in [
            ("redis://h", tcp("h", 6379)),
            ("redis://h:1/2", tcp("h", 1)),
            ("redis://[::1]", tcp("::1", 6379)),
            ("redis://[::1]/3", tcp("::1", 6379)),
            ("rediss://[::1]:7", tcp("::1", 7)),
            ("redis://h:", None),
            ("redis://h:+1", None),
            ("redis://h/+1", None),
            ("redis://", None),
            ("http://h", None),
        ] {
            assert_eq!(address(url).map(|(address, ..)| address), expected, "{url}");
        }
    }
}
