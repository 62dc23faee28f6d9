//! Edits a query. Names are compared after decoding, so that no spelling of a name evades an edit. Everything else is kept byte for byte.

use std::borrow::Cow;

use kit::percent::encoded;
use message::RequestHead;
use policy::{Escape, Exchange, Template};

use crate::query::is_named;

/// Edits of the query, in the order of the fields. Names and values are not encoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct QueryEdits {
    /// Pairs of an old and a new name. If parameters with the old name exist, they replace those with the new name.
    pub rename: Vec<(String, String)>,
    pub remove: Vec<String>,
    /// Replaces parameters of the same name, if there are any.
    pub replace: Vec<(String, Template)>,
    /// Sets a parameter, in place of all parameters of the same name.
    pub set: Vec<(String, Template)>,
    /// Adds a parameter if there is none of its name.
    pub default: Vec<(String, Template)>,
    /// Adds a parameter, and keeps those of the same name.
    pub add: Vec<(String, Template)>,
}

/// How a pair is added to the query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Edit {
    Replace,
    Set,
    Default,
    Add,
}

/// An edit: its kind, the decoded name, and the encoded pair.
type Written<'e> = (Edit, &'e str, Vec<u8>);

/// An encoded pair: `name`, or `name=value`.
type Pair<'q> = Cow<'q, [u8]>;

impl QueryEdits {
    pub(super) fn is_empty(&self) -> bool {
        self.rename.is_empty() && self.remove.is_empty() && self.values().next().is_none()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = (Edit, &(String, Template))> {
        let lists = [
            (Edit::Replace, &self.replace),
            (Edit::Set, &self.set),
            (Edit::Default, &self.default),
            (Edit::Add, &self.add),
        ];
        lists.into_iter().flat_map(|(edit, list)| list.iter().map(move |pair| (edit, pair)))
    }

    /// Edits the query of the request's target, and of the target that a policy above has chosen in its place.
    pub(super) fn apply(&self, ex: &mut Exchange, head: &mut RequestHead) {
        if self.is_empty() {
            return;
        }
        let written = self.written(ex, head);
        if let Some(target) = self.edited(head.target(), &written) {
            head.set_target(&[&target]);
        }
        let chosen = ex.notes.as_mut().and_then(|notes| notes.target.as_mut());
        if let Some(chosen) = chosen
            && let Some(target) = self.edited(chosen, &written)
        {
            *chosen = target.into();
        }
    }

    /// Returns a form after the edits, or `None` if nothing changes.
    pub(super) fn of_form(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        form: &[u8],
    ) -> Option<Vec<u8>> {
        self.changed(form, &self.written(ex, head))
    }

    fn written(&self, ex: &Exchange, head: &RequestHead) -> Vec<Written<'_>> {
        let written = self.values().map(|(edit, (name, value))| {
            let filled = value.fill(ex, Some(head), Escape::Plain);
            let pair = format!("{}={}", encoded(name.as_bytes(), b""), encoded(&filled, b""));
            (edit, name.as_str(), pair.into_bytes())
        });
        written.collect()
    }

    /// Returns a target with an edited query, or `None` if nothing changes. `written` are the pairs to add.
    fn edited(&self, target: &[u8], written: &[Written<'_>]) -> Option<Vec<u8>> {
        let mut parts = target.splitn(2, |byte| *byte == b'?');
        let (path, query) = (parts.next().unwrap_or(b""), parts.next().unwrap_or(b""));
        // `*` is not a path, and has no query.
        let edited = self.changed(query, written).filter(|_| path != b"*")?;
        Some(if edited.is_empty() { path.to_vec() } else { [path, b"?", &edited].concat() })
    }

    /// Returns the query after the edits, or `None` if nothing changes.
    fn changed(&self, query: &[u8], written: &[Written<'_>]) -> Option<Vec<u8>> {
        let pairs = query.split(|byte| *byte == b'&').filter(|_| !query.is_empty());
        let mut pairs: Vec<Pair<'_>> = pairs.map(Cow::Borrowed).collect();
        for (old, new) in &self.rename {
            rename(&mut pairs, old, new);
        }
        for name in &self.remove {
            pairs.retain(|pair| !is_named(pair, name));
        }
        for (edit, name, written) in written {
            let is_there = pairs.iter().any(|pair| is_named(pair, name));
            let applies = match edit {
                Edit::Replace => is_there,
                Edit::Default => !is_there,
                Edit::Set | Edit::Add => true,
            };
            if matches!(edit, Edit::Replace | Edit::Set) {
                pairs.retain(|pair| !is_named(pair, name));
            }
            if applies {
                pairs.push(Cow::Borrowed(&**written));
            }
        }
        let edited = pairs.join(&b'&');
        (edited != query).then_some(edited)
    }
}

fn rename(pairs: &mut Vec<Pair<'_>>, old: &str, new: &str) {
    if !pairs.iter().any(|pair| is_named(pair, old)) {
        return;
    }
    pairs.retain(|pair| !is_named(pair, new));
    for pair in pairs.iter_mut().filter(|pair| is_named(pair, old)) {
        let mut renamed = encoded(new.as_bytes(), b"").into_bytes();
        let name_len = name(pair).len();
        renamed.extend_from_slice(pair.get(name_len..).unwrap_or_default());
        *pair = renamed.into();
    }
}

fn name(pair: &[u8]) -> &[u8] {
    pair.split(|byte| *byte == b'=').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use message::Protocol;
    use policy::{Caller, Scheme};

    use super::*;

    #[test]
    fn renames_removes_sets_and_adds_and_leaves_the_rest() {
        let texts = |list: &[(&str, &str)]| {
            let read = |text: &str| Template::parse(text, &[]).unwrap();
            list.iter().map(|(n, v)| ((*n).to_owned(), read(v))).collect()
        };
        let edits = QueryEdits {
            rename: vec![("old".to_owned(), "ne w".to_owned())],
            remove: vec!["gone".to_owned()],
            replace: texts(&[("only", "new")]),
            set: texts(&[("set", "a b&c=d+é/{method}")]),
            default: texts(&[("set", "never")]),
            add: texts(&[("add", "")]),
        };
        let peer: SocketAddr = "192.0.2.1:1".parse().unwrap();
        let mut ex =
            Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
        const SET: &str = "set=a%20b%26c%3Dd%2B%C3%A9%2FGET";
        for (target, edited) in [
            ("/p", format!("/p?{SET}&add=")),
            ("/p?", format!("/p?{SET}&add=")),
            ("/p?a=%7e+x&&b&add=1", format!("/p?a=%7e+x&&b&add=1&{SET}&add=")),
            ("/p?%73et=1&s%65t&Set=1&gone&g%6Fne=2", format!("/p?Set=1&{SET}&add=")),
            ("/p?ne+w=1&o%6cd=%20&ne%20w=2&old", format!("/p?ne%20w=%20&ne%20w&{SET}&add=")),
            ("/p?ne+w=1", format!("/p?ne+w=1&{SET}&add=")),
            ("/p?onl%79=1&only", format!("/p?only=new&{SET}&add=")),
        ] {
            let mut head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
            edits.apply(&mut ex, &mut head);
            assert_eq!(String::from_utf8_lossy(head.target()), edited, "{target}");
        }
        ex.notes().target = Some(b"/chosen?gone".as_slice().into());
        let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/p");
        edits.apply(&mut ex, &mut head);
        let chosen = ex.notes().target.clone().unwrap();
        assert_eq!(String::from_utf8_lossy(&chosen), format!("/chosen?{SET}&add="));
        let mut head = RequestHead::new(Protocol::Http11, b"OPTIONS", b"*");
        edits.apply(&mut ex, &mut head);
        assert_eq!(head.target(), b"*");
        let edits = QueryEdits { remove: vec!["a".to_owned()], ..QueryEdits::default() };
        for (target, edited) in [("/p?", "/p?"), ("/p?a", "/p"), ("/p?b=%41", "/p?b=%41")] {
            let mut head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
            edits.apply(&mut ex, &mut head);
            assert_eq!(String::from_utf8_lossy(head.target()), edited, "{target}");
        }
    }
}
