//! The listener of a generated configuration.

/// The first port that a generated configuration tries. If a target uses it, the next port that no target uses is taken.
const PORT: u16 = 8080;

/// Returns an address whose port no target uses, so that a gateway with a generated configuration never sends requests to itself.
/// Targets on any host count, since every host name may be that of this machine.
pub fn listen_beside<'u>(targets: impl IntoIterator<Item = &'u str>) -> String {
    // Harmless: a target with no known port, such as a text that is not a URL, excludes no port.
    let taken: Vec<u16> = targets.into_iter().filter_map(port).collect();
    let free = (PORT..).find(|port| !taken.contains(port)).unwrap_or(PORT);
    format!("127.0.0.1:{free}")
}

/// The port of a URL: the explicit one, or the default of its scheme.
fn port(url: &str) -> Option<u16> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    // Harmless: without an explicit port, the default port of the scheme applies.
    let written = authority.rsplit_once(':').and_then(|(_, port)| kit::digits::whole(port));
    written.or(match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_port_that_no_target_uses_is_taken() {
        for (targets, address) in [
            (&["http://a"][..], "127.0.0.1:8080"),
            (&["http://localhost:8080/ws"], "127.0.0.1:8081"),
            (&["http://a:8081", "https://[::1]:8080?wsdl"], "127.0.0.1:8082"),
            (&["not a URL", "http://user@b:x"], "127.0.0.1:8080"),
        ] {
            assert_eq!(listen_beside(targets.iter().copied()), address);
        }
    }
}
