//! Sticky clients: the gateway sets a cookie on replies, by which later requests go to the same target.
//!
//! Owns reading, removing and setting the cookie, and the values that represent targets. Balancing decides whether the target is
//! available. A cookie of the same name with another value does not belong to the gateway, so it is forwarded to the target.

use aws_lc_rs::hmac;
use message::Headers;

use crate::settings::Sticky;

/// The cookie of an upstream.
pub(crate) struct Pins {
    cookie: String,
    key: hmac::Key,
}

/// Maps cookie values to targets' places in a set.
#[derive(Default)]
pub(crate) struct PinTable {
    /// Sorted, since a client may send many cookies.
    places: Vec<(Box<str>, usize)>,
}

/// Not accessible to scripts, and valid for all paths of the host. It ends with the browser's session, like the target's own
/// session cookies.
const ATTRIBUTES: &[u8] = b"; Path=/; HttpOnly";

/// The size of a pin. It is large enough that a thousand targets have different ones.
const PIN_BYTES: usize = 8;

impl PinTable {
    pub(crate) fn new<'p>(pins: impl Iterator<Item = Option<&'p str>>) -> PinTable {
        // Harmless: either all targets have a pin or none.
        let pins = pins.enumerate().filter_map(|(at, pin)| Some((Box::from(pin?), at)));
        let mut places: Vec<_> = pins.collect();
        places.sort_unstable();
        PinTable { places }
    }

    fn find(&self, value: &[u8]) -> Option<usize> {
        let at = self.places.binary_search_by(|(pin, _)| pin.as_bytes().cmp(value));
        // Harmless: any other value is not the gateway's.
        self.places.get(at.ok()?).map(|(_, place)| *place)
    }
}

impl Pins {
    pub(crate) fn new(sticky: &Sticky) -> Pins {
        let key = hmac::Key::new(hmac::HMAC_SHA256, sticky.secret.0.as_bytes());
        Pins { cookie: sticky.cookie.clone(), key }
    }

    /// The value that represents a target. It depends only on the target's URL and the secret. So it is the same after a restart, on
    /// every gateway, and for all upstreams with that target, and does not depend on other targets.
    pub(crate) fn pin(&self, url: &str) -> Box<str> {
        let digest = hmac::sign(&self.key, url.as_bytes());
        // Harmless: the rest of a digest adds nothing.
        let bytes = digest.as_ref().get(..PIN_BYTES).unwrap_or_default();
        kit::hex::encoded(bytes).into()
    }

    /// The place of the target to which a request is pinned. The gateway's own cookies are removed from the request.
    pub(crate) fn read(&self, headers: &mut Headers, table: &PinTable) -> Option<usize> {
        let place = |pair| table.find(value(pair, &self.cookie)?);
        let pinned = cookies(headers).find_map(place)?;
        let others: Vec<&[u8]> = cookies(headers).filter(|pair| place(pair).is_none()).collect();
        let line = others.join(&b"; "[..]);
        headers.remove("cookie");
        if !line.is_empty() {
            headers.add_known("Cookie", &line);
        }
        Some(pinned)
    }

    /// Pins the client to the target that replied. If the target itself sets a cookie of this name, that cookie is kept.
    pub(crate) fn give(&self, headers: &mut Headers, pin: &str) {
        if is_set(headers, &self.cookie) {
            return;
        }
        let value = [self.cookie.as_bytes(), b"=", pin.as_bytes(), ATTRIBUTES];
        let set = headers.add_joined("Set-Cookie", &value);
        debug_assert!(set.is_ok(), "the name of a cookie is a token");
    }
}

/// Gives the client a cookie, `NAME=VALUE` with its attributes. If the target itself sets a cookie of this name, that cookie is kept.
pub(crate) fn give(headers: &mut Headers, cookie: &str) {
    let name = cookie.split_once('=').map_or(cookie, |(name, _)| name);
    if !is_set(headers, name) {
        headers.add_known("Set-Cookie", cookie.as_bytes());
    }
}

/// Returns true if the target itself sets a cookie of this name.
fn is_set(headers: &Headers, name: &str) -> bool {
    headers.get_all("set-cookie").any(|line| value(line.trim_ascii(), name).is_some())
}

/// Returns the text after `NAME=`, if the cookie has this name.
pub(crate) fn value<'a>(pair: &'a [u8], name: &str) -> Option<&'a [u8]> {
    pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// The cookies of a request, as `NAME=VALUE`.
pub(crate) fn cookies(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    let pairs = headers.get_all("cookie").flat_map(|line| line.split(|b| *b == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::StickySecret;

    fn pins() -> Pins {
        let secret = StickySecret("tidegate".to_owned());
        Pins::new(&Sticky { cookie: "srv".to_owned(), secret })
    }

    fn table() -> PinTable {
        PinTable::new(["bb", "aa", "cc"].into_iter().map(Some))
    }

    fn lines(name: &str, values: &[&str]) -> Headers {
        let mut headers = Headers::new();
        values.iter().for_each(|value| headers.add(name, value.as_bytes()).unwrap());
        headers
    }

    fn values(headers: &Headers, name: &str) -> Vec<String> {
        headers.get_all(name).map(|value| String::from_utf8(value.to_vec()).unwrap()).collect()
    }

    #[test]
    fn the_gateways_cookie_stays_at_the_gateway_and_others_pass() {
        for (sent, pinned, passed) in [
            (&["srv=aa"][..], Some(1), &[][..]),
            (&["a=1; srv=bb;b=2"], Some(0), &["a=1; b=2"]),
            (&["a=1", "srv=cc", "b=2"], Some(2), &["a=1; b=2"]),
            (&["srv=cc; srv=aa; srv=own"], Some(2), &["srv=own"]),
            // Not the gateway's.
            (&["srv=own; a=1"], None, &["srv=own; a=1"]),
            (
                &["srv=; srv; xsrv=aa; srvx=aa; srv=AA"],
                None,
                &["srv=; srv; xsrv=aa; srvx=aa; srv=AA"],
            ),
            (&["srv=\"aa\""], None, &["srv=\"aa\""]),
            (&[";; srv=aa ;"], Some(1), &[]),
            (&[], None, &[]),
        ] {
            let mut headers = lines("cookie", sent);
            assert_eq!(pins().read(&mut headers, &table()), pinned, "{sent:?}");
            assert_eq!(values(&headers, "cookie"), passed, "{sent:?}");
        }
    }

    #[test]
    fn a_cookie_set_by_the_target_is_kept() {
        let set = |own: &[&str]| {
            let mut headers = lines("set-cookie", own);
            pins().give(&mut headers, "aa");
            values(&headers, "set-cookie")
        };
        assert_eq!(set(&[]), ["srv=aa; Path=/; HttpOnly"]);
        assert_eq!(set(&["a=1"]), ["a=1", "srv=aa; Path=/; HttpOnly"]);
        assert_eq!(set(&["srv=own; Path=/"]), ["srv=own; Path=/"]);
    }

    #[test]
    fn a_given_cookie_yields_to_that_of_the_target() {
        for (own, kept) in [
            (&["a=1"][..], &["a=1", "user=7; Path=/"][..]),
            (&["user=own; Path=/"], &["user=own; Path=/"]),
            (&["user2=own"], &["user2=own", "user=7; Path=/"]),
        ] {
            let mut headers = lines("set-cookie", own);
            give(&mut headers, "user=7; Path=/");
            assert_eq!(values(&headers, "set-cookie"), kept);
        }
    }

    /// Browsers store these values. If they were derived differently, all clients would be pinned again.
    #[test]
    fn a_pin_is_the_same_everywhere_and_for_ever() {
        assert_eq!(&*pins().pin("http://127.0.0.1:1000"), "8d4f7bd778baae27");
        assert_ne!(pins().pin("http://a"), pins().pin("http://b"));
    }
}
