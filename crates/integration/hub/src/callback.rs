//! The URLs of subscribers' callbacks.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use kit::names::LookUps;
use telemetry::trace::MASK;
use upstream::{AddressRule, CalledUrl};

/// The URL of a callback, strictly parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Callback {
    /// The URL as the subscriber wrote it.
    pub(crate) written: String,
    pub(crate) url: CalledUrl,
}

/// The concurrent name look-ups for callbacks: at most 64 in total, and 8 for one asker. The limits are needed because anybody may
/// subscribe with names whose name servers do not answer.
static LOOK_UPS: LookUps = LookUps::new(64, 8);

/// The timeout for looking up the name of a callback.
const LOOK_UP: Duration = Duration::from_secs(5);

/// The reason why a callback is refused, as a sentence for the client.
pub(crate) type CallbackError = Cow<'static, str>;

impl Callback {
    /// Parses a URL. The error says what is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Callback, CallbackError> {
        let read = CalledUrl::parse(url).map_err(|why| format!("`hub.callback` {why}."))?;
        Ok(Callback { written: url.to_owned(), url: read })
    }
}

/// Splits the URL of a callback into its origin, as written, and its target (path and query). Returns `None` if the URL has no scheme.
pub(crate) fn split(written: &str) -> Option<(&str, Cow<'_, str>)> {
    let start = written.find("://")? + 3;
    let end = written.get(start..)?.find(['/', '?']).map_or(written.len(), |at| at + start);
    let (server, target) = written.split_at_checked(end)?;
    let target = if target.starts_with('/') {
        Cow::Borrowed(target)
    } else {
        Cow::Owned(format!("/{target}"))
    };
    Some((server, target))
}

/// Returns a callback for operators, with the values of its query masked. They may be secrets of the subscriber.
pub(crate) fn masked(callback: &str) -> String {
    let Some((path, query)) = callback.split_once('?') else { return callback.to_owned() };
    let pairs = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) => format!("{name}={MASK}"),
        None => MASK.to_owned(),
    });
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}

/// Appends parameters to the query of a target.
pub(crate) fn with_parameters(target: &str, parameters: &str) -> String {
    let between = if target.contains('?') { '&' } else { '?' };
    format!("{target}{between}{parameters}")
}

/// Checks whether the gateway may call a callback: its name must resolve, and the rule must permit all its addresses. The look-up counts
/// for `asker`.
pub(crate) async fn is_permitted(
    callback: &Callback,
    asker: &str,
    rule: &AddressRule,
) -> Result<(), CallbackError> {
    let refused = || "`hub.callback` leads to an address that the gateway may not call.".into();
    let url = &callback.url;
    if let Some(address) = url.address() {
        return rule.permits(address).then_some(()).ok_or_else(refused);
    }
    let found = LOOK_UPS.find(asker, &url.origin.host, url.origin.port);
    let found = tokio::time::timeout(LOOK_UP, found).await.unwrap_or_else(|late| Err(late.into()));
    let found = match found {
        Ok(found) if !found.is_empty() => found,
        Ok(_) => return Err("The host of `hub.callback` is unknown.".into()),
        Err(error) => {
            tracing::debug!(host = url.origin.host, "a callback cannot be looked up: {error}");
            return Err("The host of `hub.callback` cannot be looked up.".into());
        }
    };
    found.iter().all(|address| rule.permits(address.ip())).then_some(()).ok_or_else(refused)
}

impl fmt::Display for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.url.origin.url(), self.url.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_of_a_callback_are_masked() {
        for (callback, shown) in [
            ("http://a/x", "http://a/x"),
            ("http://a/x?token=s3&y=&z", "http://a/x?token=***&y=***&***"),
        ] {
            assert_eq!(masked(callback), shown);
        }
    }

    #[test]
    fn urls_are_read_into_their_parts() {
        for (url, read, target) in [
            ("http://a.example/x?y=z", "http://a.example/x?y=z", "/x?y=z"),
            ("HTTPS://A.Example:8443", "https://a.example:8443/", "/"),
            ("http://a.example:80?q", "http://a.example/?q", "/?q"),
            ("http://192.0.2.1:8080/", "http://192.0.2.1:8080/", "/"),
            ("http://[2001:DB8::1]:8080/a", "http://[2001:db8::1]:8080/a", "/a"),
            ("http://a.example./", "http://a.example/", "/"),
            ("https://a_b.example/%C3%A9", "https://a_b.example/%C3%A9", "/%C3%A9"),
        ] {
            let callback = Callback::parse(url).unwrap();
            assert_eq!(
                (callback.to_string().as_str(), &*callback.url.target),
                (read, target),
                "{url}"
            );
            let (server, rest) = split(url).unwrap();
            assert_eq!(rest, target, "{url}");
            assert_eq!(Callback::parse(server).unwrap().url.origin, callback.url.origin, "{url}");
        }
        assert_eq!(with_parameters("/?x=1", "hub.mode=subscribe"), "/?x=1&hub.mode=subscribe");
        assert_eq!(with_parameters("/", "a=b"), "/?a=b");
    }

    #[tokio::test]
    async fn addresses_are_permitted_by_the_rule() {
        let rule = AddressRule { allow: vec!["127.0.0.0/8".parse().unwrap()], public: true };
        for (url, permitted) in [
            ("http://127.0.0.1:9/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://10.0.0.1/", false),
            ("http://[::1]/", false),
            ("http://[::ffff:10.0.0.1]/", false),
            ("http://169.254.169.254/latest", false),
            ("http://8.8.8.8/", true),
        ] {
            let callback = Callback::parse(url).unwrap();
            assert_eq!(is_permitted(&callback, "", &rule).await.is_ok(), permitted, "{url}");
        }
        let local = Callback::parse("http://localhost:9/").unwrap();
        assert!(is_permitted(&local, "", &AddressRule::default()).await.is_err());
    }
}
