//! Applies the changes in an interceptor's answer to header and trailer lines.

use std::borrow::Cow;

use fault::Fault;
use http1::{is_header_value, is_token};
use message::{Headers, Trailers};

use super::answer::{Edits, invalid};

/// Headers that determine the end of a message, its host, or the use of the connection. A wrong value could allow request smuggling.
const PROTECTED: [&str; 10] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Prefixes of header names that are reserved for the gateway.
const PREFIXES: [&str; 2] = ["x-wso2", "x-envoy"];

/// Applies the changes to header lines: remove, then replace, then add. Changes to protected lines are skipped with a log entry.
pub(super) fn to_headers(edits: &Edits<'_>, headers: &mut Headers) -> Result<(), Fault> {
    warn_of_protected(edits);
    for name in edits.remove.iter().filter(|name| may_change(name)) {
        headers.remove(name);
    }
    for (name, value) in edits.replace.iter().filter(|(name, _)| may_change(name)) {
        headers.set(name, value.as_bytes()).map_err(|_| unwritable(name))?;
    }
    for (name, value) in edits.add.iter().filter(|(name, _)| may_change(name)) {
        headers.add(name, value.as_bytes()).map_err(|_| unwritable(name))?;
    }
    Ok(())
}

/// Applies the changes to trailer lines, in the same order as for headers.
pub(super) fn to_trailers(edits: &Edits<'_>, trailers: &mut Trailers) -> Result<(), Fault> {
    if edits.is_empty() {
        return Ok(());
    }
    warn_of_protected(edits);
    let replaced = edits.replace.iter().map(|(name, _)| name);
    let gone: Vec<&Cow<'_, str>> =
        edits.remove.iter().chain(replaced).filter(|name| may_change(name)).collect();
    let mut changed = Trailers::new();
    for line in trailers.split_inclusive(|b| *b == b'\n') {
        let name = line.split(|b| *b == b':').next().unwrap_or_default().trim_ascii();
        if !gone.iter().any(|gone| http1::is_alias(gone.as_bytes(), name)) {
            changed.extend_from_slice(line);
        }
    }
    let added = edits.replace.iter().chain(&edits.add).filter(|(name, _)| may_change(name));
    for (name, value) in added {
        if !is_token(name.as_bytes()) || !is_header_value(value.as_bytes()) {
            return Err(unwritable(name));
        }
        for part in [&**name, ": ", &**value, "\r\n"] {
            changed.extend_from_slice(part.as_bytes());
        }
    }
    *trailers = changed;
    Ok(())
}

fn warn_of_protected(edits: &Edits<'_>) {
    let written = edits.replace.iter().chain(&edits.add).map(|(name, _)| name);
    for name in edits.remove.iter().chain(written).filter(|name| !may_change(name)) {
        tracing::warn!(
            header = &**name,
            "an interceptor may not change this header; its change is ignored"
        );
    }
}

impl Edits<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.remove.is_empty() && self.replace.is_empty() && self.add.is_empty()
    }
}

fn may_change(name: &str) -> bool {
    let begins = |prefix: &&str| {
        name.get(..prefix.len()).is_some_and(|front| front.eq_ignore_ascii_case(prefix))
    };
    let protected =
        PROTECTED.iter().any(|known| http1::is_alias(known.as_bytes(), name.as_bytes()))
            || PREFIXES.iter().any(begins);
    if protected {
        tracing::debug!(name, "an interceptor may not change this line");
    }
    !protected
}

fn unwritable(name: &str) -> Fault {
    invalid(&format!("the name or value of the header `{name}` is not valid"))
}

#[cfg(test)]
mod tests {
    use super::*;

    type List<'a> = &'a [(&'a str, &'a str)];

    fn edits<'a>(remove: &[&'a str], replace: List<'a>, add: List<'a>) -> Edits<'a> {
        let pairs = |list: List<'a>| list.iter().map(|(n, v)| ((*n).into(), (*v).into())).collect();
        Edits {
            remove: remove.iter().map(|name| (*name).into()).collect(),
            replace: pairs(replace),
            add: pairs(add),
        }
    }

    #[test]
    fn trailers_are_changed_in_the_same_order_as_headers() {
        let edits = edits(
            &["A", "b"],
            &[("B", "new"), ("c", "set")],
            &[("a", "added"), ("X-Envoy-A", "no"), ("content-length", "9")],
        );
        let mut trailers = b"a: 1\r\nB: 2\r\nD: 4\r\n".to_vec();
        to_trailers(&edits, &mut trailers).unwrap();
        assert_eq!(trailers, b"D: 4\r\nB: new\r\nc: set\r\na: added\r\n");
    }

    #[test]
    fn invalid_names_and_values_are_refused() {
        for (name, value) in [("a", "b\r\nc: d"), ("a b", "c"), ("", "x"), ("a\r\nb", "c")] {
            let add = [(name, value)];
            let edits = edits(&[], &[], &add);
            assert!(to_headers(&edits, &mut Headers::new()).is_err());
            assert!(to_trailers(&edits, &mut Trailers::new()).is_err());
        }
    }
}
