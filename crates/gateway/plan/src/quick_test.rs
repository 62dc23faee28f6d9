//! A test that decides for most requests whether a route's conditions other than host and path are met, by a few bytes beside the route.

use crate::Matcher;

/// The usual methods, in the order of `Allow`.
pub(crate) const USUAL: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];

/// What most requests need to know of a matcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuickTest {
    /// Which of the usual methods the matcher takes, as bits.
    methods: u8,
    names_method: bool,
    names_head: bool,
    /// Whether there are conditions other than methods.
    has_others: bool,
}

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedMethod {
    /// The bit of a usual method, or 0 for any other.
    bit: u8,
}

/// The bit of HEAD.
const HEAD: u8 = 1 << 1;

impl AskedMethod {
    pub(crate) fn of(method: &[u8]) -> AskedMethod {
        let place = USUAL.iter().position(|usual| usual.as_bytes() == method);
        AskedMethod { bit: place.map_or(0, |place| 1 << place) }
    }

    pub(crate) fn is_head(self) -> bool {
        self.bit == HEAD
    }
}

impl QuickTest {
    pub(crate) fn of(matcher: &Matcher) -> QuickTest {
        let Matcher { listeners, server_names, sources, methods, headers, query, .. } = matcher;
        let takes_all = if methods.is_empty() { u8::MAX } else { 0 };
        let named = methods
            .iter()
            .fold(takes_all, |bits, method| bits | AskedMethod::of(method.as_bytes()).bit);
        let names = |name: &str| methods.iter().any(|method| method == name);
        let by_get = if matcher.get_takes_head && names("GET") { HEAD } else { 0 };
        QuickTest {
            methods: named | by_get,
            names_method: !methods.is_empty(),
            names_head: names("HEAD"),
            has_others: !(listeners.is_empty()
                && server_names.is_empty()
                && sources.is_empty()
                && headers.is_empty()
                && query.is_empty()),
        }
    }

    pub(crate) fn names_method(self) -> bool {
        self.names_method
    }

    pub(crate) fn names_head(self) -> bool {
        self.names_head
    }

    /// Returns whether the conditions are met, or `None` if only the matcher knows.
    pub(crate) fn met_by(self, asked: AskedMethod) -> Option<bool> {
        match asked.bit {
            0 => None,
            bit if self.methods & bit == 0 => Some(false),
            _ => (!self.has_others).then_some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PathCondition, Pattern, ValueCondition};

    #[test]
    fn a_quick_test_knows_methods_and_leaves_the_rest_to_the_matcher() {
        let open = Pattern { segments: Vec::new(), open: true };
        let any = Matcher {
            host: None,
            path: PathCondition::Pattern(open),
            priority: 0,
            listeners: Vec::new(),
            server_names: Vec::new(),
            sources: Vec::new(),
            methods: Vec::new(),
            get_takes_head: true,
            headers: Vec::new(),
            query: Vec::new(),
        };
        let named = |methods: &[&str], get_takes_head| {
            let methods = methods.iter().map(|name| (*name).to_owned()).collect();
            Matcher { methods, get_takes_head, ..any.clone() }
        };
        let (yes, no) = (Some(true), Some(false));
        for (methods, get_takes_head, get, head, post, other) in [
            (&[][..], true, yes, yes, yes, None),
            (&["GET"], true, yes, yes, no, None),
            (&["GET"], false, yes, no, no, None),
            (&["HEAD"], true, no, yes, no, None),
            (&["POST", "X"], true, no, no, yes, None),
            (&["X"], true, no, no, no, None),
        ] {
            let test = QuickTest::of(&named(methods, get_takes_head));
            let asked = ["GET", "HEAD", "POST", "X"];
            let found = asked.map(|name| test.met_by(AskedMethod::of(name.as_bytes())));
            assert_eq!(found, [get, head, post, other], "{methods:?} {get_takes_head}");
            assert_eq!(test.names_method(), !methods.is_empty());
            assert_eq!(test.names_head(), methods.contains(&"HEAD"));
        }
        let headers = vec![("x".to_owned(), ValueCondition::Present)];
        let test = QuickTest::of(&Matcher { headers, ..named(&["GET"], true) });
        assert_eq!(test.met_by(AskedMethod::of(b"GET")), None);
        assert_eq!(test.met_by(AskedMethod::of(b"PUT")), no);
    }
}
