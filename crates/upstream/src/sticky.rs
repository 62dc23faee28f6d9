//! Sticky clients: a cookie that the gateway sets on replies, and by which the next request comes back to the same target.
//!
//! Owns the reading, the removal and the setting of the cookie. It never decides whether the target is ready: that is balancing's.
//! A cookie of the same name with any other value is not the gateway's, so it passes to the target.

use message::Headers;

use crate::settings::Sticky;

/// The cookie of an upstream, and the targets that its values stand for.
pub(crate) struct Pins {
    sticky: Sticky,
    /// Targets by their values, sorted: a client may send many cookies.
    targets: Vec<(Box<[u8]>, usize)>,
}

/// It is not for scripts, and holds for all of the host's paths. It ends with the browser's session, as the target's own do.
const ATTRIBUTES: &[u8] = b"; Path=/; HttpOnly";

impl Pins {
    pub(crate) fn new(sticky: &Sticky) -> Pins {
        let values = sticky.pins.iter().map(|pin| Box::from(pin.as_bytes()));
        let mut targets: Vec<_> = values.zip(0..).collect();
        targets.sort_unstable();
        Pins { sticky: sticky.clone(), targets }
    }

    /// The target that a request is pinned to. The gateway's own cookies are removed from the request.
    pub(crate) fn take(&self, headers: &mut Headers) -> Option<usize> {
        let pinned = cookies(headers).find_map(|pair| self.target(pair))?;
        let others: Vec<&[u8]> =
            cookies(headers).filter(|pair| self.target(pair).is_none()).collect();
        let line = others.join(&b"; "[..]);
        headers.remove("cookie");
        if !line.is_empty() {
            headers.add_known("Cookie", &line);
        }
        Some(pinned)
    }

    /// Pins the client of a reply to the target that gave it, unless it is already. If the target itself sets a cookie of this
    /// name, that one stays.
    pub(crate) fn give(&self, headers: &mut Headers, target: usize, pinned: Option<usize>) {
        if pinned == Some(target) {
            return;
        }
        let Some(pin) = self.sticky.pins.get(target) else { return };
        if headers.get_all("set-cookie").any(|line| self.value(line.trim_ascii()).is_some()) {
            return;
        }
        let value = [self.sticky.cookie.as_bytes(), b"=", pin.as_bytes(), ATTRIBUTES];
        let set = headers.add_joined("Set-Cookie", &value);
        debug_assert!(set.is_ok(), "the name of a cookie is a token");
    }

    fn target(&self, pair: &[u8]) -> Option<usize> {
        let value = self.value(pair)?;
        let at = self.targets.binary_search_by(|(pin, _)| (**pin).cmp(value)).ok()?;
        self.targets.get(at).map(|(_, target)| *target)
    }

    /// The text behind `NAME=`, if this is its name.
    fn value<'a>(&self, pair: &'a [u8]) -> Option<&'a [u8]> {
        pair.strip_prefix(self.sticky.cookie.as_bytes())?.strip_prefix(b"=")
    }
}

/// The cookies of a request, as `NAME=VALUE`.
pub(crate) fn cookies(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    let pairs = headers.get_all("cookie").flat_map(|line| line.split(|b| *b == b';'));
    pairs.map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins() -> Pins {
        let pins = ["bb", "aa", "cc"].map(str::to_owned).to_vec();
        Pins::new(&Sticky { cookie: "srv".to_owned(), pins })
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
            assert_eq!(pins().take(&mut headers), pinned, "{sent:?}");
            assert_eq!(values(&headers, "cookie"), passed, "{sent:?}");
        }
    }

    #[test]
    fn a_client_is_pinned_once_and_the_targets_own_cookie_stays() {
        let set = |own: &[&str], target, pinned| {
            let mut headers = lines("set-cookie", own);
            pins().give(&mut headers, target, pinned);
            values(&headers, "set-cookie")
        };
        assert_eq!(set(&[], 1, None), ["srv=aa; Path=/; HttpOnly"]);
        assert_eq!(set(&["a=1"], 0, Some(1)), ["a=1", "srv=bb; Path=/; HttpOnly"]);
        assert!(set(&[], 1, Some(1)).is_empty());
        assert_eq!(set(&["srv=own; Path=/"], 1, None), ["srv=own; Path=/"]);
        assert!(set(&[], 3, None).is_empty());
    }
}
