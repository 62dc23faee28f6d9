//! `Cache-Control` (RFC 9111, 5.2), of requests and of replies.

use message::Headers;

/// The directives of a message. A time that cannot be parsed is zero, which means not fresh.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Directives {
    pub(super) no_store: bool,
    pub(super) no_cache: bool,
    pub(super) private: bool,
    pub(super) public: bool,
    /// A cache must not use the reply without validation once it is stale.
    pub(super) must_revalidate: bool,
    /// A shared cache must not use the reply without validation once it is stale. Unlike `must-revalidate`, this does not permit sharing
    /// (RFC 9111, 5.2.2.8).
    pub(super) proxy_revalidate: bool,
    pub(super) only_if_cached: bool,
    pub(super) max_age: Option<u64>,
    pub(super) s_maxage: Option<u64>,
    pub(super) min_fresh: Option<u64>,
    /// [`u64::MAX`] if any staleness is accepted.
    pub(super) max_stale: Option<u64>,
    pub(super) stale_if_error: Option<u64>,
}

impl Directives {
    pub(super) fn of(headers: &Headers) -> Directives {
        let mut said = Directives::default();
        let lines = headers.get_all("cache-control");
        for item in lines.flat_map(|line| line.split(|b| *b == b',')) {
            let mut halves = item.splitn(2, |b| *b == b'=').map(<[u8]>::trim_ascii);
            let name = halves.next().unwrap_or(b"").to_ascii_lowercase();
            said.add(&name, halves.next());
        }
        said
    }

    /// Returns the directives of a request. `Pragma: no-cache` counts if there is no `Cache-Control` (RFC 9111, 5.4).
    pub(super) fn of_request(headers: &Headers) -> Directives {
        let mut said = Directives::of(headers);
        let pragma = || headers.get_all("pragma").any(|value| http1::list_has(value, "no-cache"));
        said.no_cache |= !headers.contains("cache-control") && pragma();
        said
    }

    /// Returns true if the reply to a request with credentials may be used for other clients (RFC 9111, 3.5).
    pub(super) fn permits_sharing(&self) -> bool {
        self.public || self.s_maxage.is_some() || self.must_revalidate
    }

    /// Returns true if a shared cache must not use the reply without validation once it is stale. `s-maxage` implies it (RFC 9111,
    /// 5.2.2.10).
    pub(super) fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some()
    }

    fn add(&mut self, name: &[u8], value: Option<&[u8]>) {
        let seconds = || Some(value.map_or(0, seconds));
        match name {
            b"no-store" => self.no_store = true,
            // With field names, the directive applies to those fields only, but a cache may apply it to the whole reply.
            b"no-cache" => self.no_cache = true,
            b"private" => self.private = true,
            b"public" => self.public = true,
            b"must-revalidate" => self.must_revalidate = true,
            b"proxy-revalidate" => self.proxy_revalidate = true,
            b"only-if-cached" => self.only_if_cached = true,
            b"max-age" => self.max_age = least(self.max_age, seconds()),
            b"s-maxage" => self.s_maxage = least(self.s_maxage, seconds()),
            b"min-fresh" => self.min_fresh = seconds(),
            b"max-stale" => self.max_stale = value.map_or(Some(u64::MAX), |_| seconds()),
            b"stale-if-error" => self.stale_if_error = seconds(),
            // Harmless: a cache ignores unknown directives (RFC 9111, 5.2.3).
            _ => {}
        }
    }
}

/// Returns the smaller value of a repeated directive, which is the safe choice.
fn least(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Parses a number of seconds, with or without quotes. Values above 2^31 become 2^31 (RFC 9111, 1.2.2).
pub(super) fn seconds(text: &[u8]) -> u64 {
    const MAX: u64 = 1 << 31;
    let bare = text.strip_prefix(b"\"").and_then(|t| t.strip_suffix(b"\"")).unwrap_or(text);
    // Harmless: an invalid number means stale (RFC 9111, 4.2.1).
    kit::digits::saturating(bare).map_or(0, |seconds| seconds.min(MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_some_directives_permit_sharing_and_more_forbid_stale_replies() {
        for (text, permits, forbids) in [
            ("max-age=60", false, false),
            ("public", true, false),
            ("must-revalidate", true, true),
            ("s-maxage=5", true, true),
            ("max-age=60, Proxy-Revalidate", false, true),
        ] {
            let mut headers = Headers::new();
            headers.add("Cache-Control", text.as_bytes()).unwrap();
            let said = Directives::of(&headers);
            assert_eq!(
                (said.permits_sharing(), said.forbids_stale()),
                (permits, forbids),
                "{text}"
            );
        }
    }

    #[test]
    fn directives_are_parsed_and_invalid_times_are_zero() {
        let of = |text: &str| {
            let mut headers = Headers::new();
            headers.add("Cache-Control", text.as_bytes()).unwrap();
            Directives::of(&headers)
        };
        assert_eq!(of("Max-Age=5, max-age=3").max_age, Some(3));
        assert_eq!(of("max-age=\"7\"").max_age, Some(7));
        assert_eq!(of("max-age=99999999999999999999").max_age, Some(1 << 31));
        assert_eq!((of("max-age=x").max_age, of("max-age").max_age), (Some(0), Some(0)));
        assert_eq!((of("max-age=-1").max_age, of("s-maxage=2").s_maxage), (Some(0), Some(2)));
        assert!(of("foo,, no-cache=\"a\" ,PRIVATE").no_cache && of("private=\"a\"").private);
        assert_eq!(
            (of("max-stale").max_stale, of("max-stale=4").max_stale),
            (Some(u64::MAX), Some(4))
        );
    }
}
