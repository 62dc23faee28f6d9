//! The restrictions of an API key of the catalog to client addresses and referrers.

use std::net::IpAddr;

use ipnet::IpNet;
use jose::Members;
use message::RequestHead;
use serde_json::Value;

use super::refusal::Refusal;

/// The restrictions of a key.
#[derive(Debug)]
pub(crate) struct Permitted {
    networks: Vec<IpNet>,
    /// Patterns in which `*` matches any text. They are compared without the scheme.
    referrers: Vec<String>,
}

impl Permitted {
    /// Returns the restrictions in the claims, or `None` if the key is not restricted.
    pub(crate) fn of(claims: &Members<'_>) -> Result<Option<Permitted>, Refusal> {
        let list = |name: &str| {
            // Harmless: an absent list restricts nothing.
            let text = claims.get(name).and_then(Value::as_str).unwrap_or_default();
            text.split(',').map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned)
        };
        let network = |text: String| {
            let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
            network
                .map_err(|_| Refusal::Claims("`permittedIP` has an entry that is not an address"))
        };
        let networks: Vec<IpNet> = list("permittedIP").map(network).collect::<Result<_, _>>()?;
        let referrers: Vec<String> = list("permittedReferer").collect();
        let bounded = !networks.is_empty() || !referrers.is_empty();
        Ok(bounded.then_some(Permitted { networks, referrers }))
    }

    /// Returns true if a request of this client may use the key.
    pub(crate) fn allows(&self, client: IpAddr, head: &RequestHead) -> bool {
        let client = client.to_canonical();
        let by_address = self.networks.is_empty()
            || self.networks.iter().any(|network| network.contains(&client));
        by_address && (self.referrers.is_empty() || self.is_referrer(head))
    }

    fn is_referrer(&self, head: &RequestHead) -> bool {
        // Harmless: a request without a referrer is refused.
        let sent = head.headers.get("referer").unwrap_or_default();
        // Harmless: a referrer that is not text is refused.
        let sent = std::str::from_utf8(sent).unwrap_or_default();
        let sent = sent.split_once("://").map_or(sent, |(_, rest)| rest);
        !sent.is_empty() && self.referrers.iter().any(|pattern| fits(pattern, sent))
    }
}

/// Returns true if a text matches a pattern in which `*` matches any text.
fn fits(pattern: &str, text: &str) -> bool {
    let pattern = pattern.split_once("://").map_or(pattern, |(_, rest)| rest);
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut left) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        let Some(at) = left.find(part) else { return false };
        // Harmless: the part was found at this offset.
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_without_scheme() {
        for (pattern, text, fit) in [
            ("a.test/x", "a.test/x", true),
            ("a.test/x", "a.test/xy", false),
            ("a.test/*", "a.test/x/y", true),
            ("*.a.test/*", "b.a.test/x", true),
            ("*.a.test/*", "a.test/x", false),
            ("https://a.test/*", "a.test/x", true),
            ("*", "anything", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "ab", false),
            ("ab*b", "ab", false),
        ] {
            assert_eq!(fits(pattern, text), fit, "{pattern} {text}");
        }
    }
}
