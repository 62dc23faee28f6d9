//! `headers`: renames, removes, replaces, sets, defaults and adds header lines, in that order, on the request and on the reply. Values may
//! be templates.

use fault::{Fault, Kind};
use message::{Headers, ReplyHead, RequestHead};
use policy::{Escape, Exchange, Flow, OnHead, Onward, Policy, Step, Template};

use crate::statuses::Statuses;

/// Edits of one side's header lines. `compile` has checked names and values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edits {
    /// Pairs of an old and a new name. If lines with the old name exist, they replace those with the new name.
    pub rename: Vec<(String, String)>,
    pub remove: Vec<String>,
    /// Replaces lines of the same name, if there are any.
    pub replace: Vec<(String, Template)>,
    /// Sets the only line of its name.
    pub set: Vec<(String, Template)>,
    /// Adds a line if there is none of its name.
    pub default: Vec<(String, Template)>,
    /// Adds a line to those of the same name.
    pub add: Vec<(String, Template)>,
}

/// Edits of replies.
struct ReplyEdits {
    edits: Edits,
    statuses: Statuses,
}

/// Returns the policy for these edits. A side without edits has no step. `statuses` are the ranges of statuses whose replies are edited.
pub fn policy(request: Edits, response: Edits, statuses: Vec<(u16, u16)>) -> Policy {
    let edits = response;
    let response = ReplyEdits { edits, statuses: Statuses(statuses) };
    Policy {
        name: "headers",
        request: (!request.is_empty())
            .then(|| Step::Head(Box::new(request) as Box<dyn OnHead<RequestHead>>)),
        response: (!response.edits.is_empty())
            .then(|| Step::Head(Box::new(response) as Box<dyn OnHead<ReplyHead>>)),
    }
}

impl Edits {
    fn is_empty(&self) -> bool {
        self.rename.is_empty() && self.remove.is_empty() && self.values().next().is_none()
    }

    fn apply(&self, headers: &mut Headers, filled: &[Option<Vec<u8>>]) -> Flow {
        self.rename.iter().for_each(|(old, new)| rename(headers, old, new));
        self.remove.iter().for_each(|name| headers.remove(name));
        let mut filled = filled.iter();
        for (name, value) in &self.replace {
            let filled = filled.next();
            if headers.contains(name) {
                headers.remove(name);
                add(headers, name, value, filled)?;
            }
        }
        for (name, value) in &self.set {
            headers.remove(name);
            add(headers, name, value, filled.next())?;
        }
        for (name, value) in &self.default {
            let filled = filled.next();
            if !headers.contains(name) {
                add(headers, name, value, filled)?;
            }
        }
        for (name, value) in &self.add {
            add(headers, name, value, filled.next())?;
        }
        Ok(Onward::Next)
    }

    /// Returns the filled-in values, in the order in which they are written, with `None` for constant values. If all values are constant,
    /// the list is empty.
    fn filled(&self, ex: &Exchange, head: Option<&RequestHead>) -> Vec<Option<Vec<u8>>> {
        let constant = self.values().all(|value| value.constant().is_some());
        if constant {
            return Vec::new();
        }
        let fill = |value: &Template| match value.constant() {
            Some(_) => None,
            None => Some(value.fill(ex, head, Escape::Plain)),
        };
        self.values().map(fill).collect()
    }

    fn values(&self) -> impl Iterator<Item = &Template> {
        let lists = [&self.replace, &self.set, &self.default, &self.add];
        lists.into_iter().flat_map(|list| list.iter()).map(|(_, value)| value)
    }
}

/// Renames lines. Spellings of the old name with `_` are removed, too: a CGI server would treat them as the old header.
fn rename(headers: &mut Headers, old: &str, new: &str) {
    let values: Vec<Vec<u8>> = headers.get_all(old).map(<[u8]>::to_vec).collect();
    headers.remove(old);
    if !values.is_empty() {
        headers.remove(new);
    }
    values.iter().for_each(|value| headers.add_known(new, value));
}

fn add(
    headers: &mut Headers,
    name: &str,
    value: &Template,
    filled: Option<&Option<Vec<u8>>>,
) -> Result<(), Fault> {
    let filled = filled.and_then(Option::as_deref);
    // Harmless: each value is either constant or filled in.
    let value = filled.unwrap_or_else(|| value.constant().unwrap_or_default().as_bytes());
    // A subject or a claim may contain a line end, which would start another header line.
    headers.add(name, value.trim_ascii()).map_err(|_| {
        let cause = format!("headers: the value made for `{name}` is not a valid header value");
        Fault::new(Kind::ProcessingFailed, cause)
    })
}

impl OnHead<RequestHead> for Edits {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let filled = self.filled(ex, Some(head));
        self.apply(&mut head.headers, &filled)
    }
}

impl OnHead<ReplyHead> for ReplyEdits {
    fn on_head(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Flow {
        if !self.statuses.contains(head.status) {
            return Ok(Onward::Next);
        }
        let filled = self.edits.filled(ex, None);
        self.edits.apply(&mut head.headers, &filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(headers: &Headers) -> String {
        let mut out = Vec::new();
        headers.write_to(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn renames_then_removes_then_sets_then_adds() {
        let pairs = |list: &[(&str, &str)]| {
            let read = |text: &str| Template::parse(text, &[]).unwrap();
            list.iter().map(|(n, v)| ((*n).to_owned(), read(v))).collect()
        };
        let names = |list: &[(&str, &str)]| {
            list.iter().map(|(o, n)| ((*o).to_owned(), (*n).to_owned())).collect()
        };
        let edits = Edits {
            rename: names(&[("x-old", "x-new"), ("x-away", "x-gone"), ("x-none", "x-own")]),
            remove: vec!["x-gone".to_owned(), "x-both".to_owned()],
            set: pairs(&[("x-set", "new"), ("x-both", "set")]),
            replace: pairs(&[("x-replaced", "new"), ("x-missing", "never")]),
            default: pairs(&[("x-set", "never"), ("x-default", "given")]),
            add: pairs(&[("x-set", "too"), ("x-both", "added")]),
        };
        let mut head = ReplyHead::new(200);
        for (name, value) in [
            ("X-Gone", "1"),
            ("X-Set", "old"),
            ("X-Both", "old"),
            ("X-Kept", "k"),
            ("X-New", "theirs"),
            ("X-Old", "1"),
            ("X_Old", "twin"),
            ("x-old", "2"),
            ("X-Away", "a"),
            ("X-Own", "o"),
            ("X-Replaced", "1"),
            ("X-Replaced", "2"),
        ] {
            head.headers.add(name, value.as_bytes()).unwrap();
        }
        assert!(matches!(edits.apply(&mut head.headers, &[]), Ok(Onward::Next)));
        assert_eq!(
            lines(&head.headers),
            "X-Kept: k\r\nX-Own: o\r\nx-new: 1\r\nx-new: 2\r\nx-replaced: new\r\nx-set: new\r\nx-both: set\r\nx-default: given\r\nx-set: too\r\nx-both: added\r\n"
        );
    }

    #[test]
    fn a_side_without_edits_has_no_step() {
        let policy = policy(
            Edits::default(),
            Edits { remove: vec!["a".to_owned()], ..Edits::default() },
            Vec::new(),
        );
        assert!(policy.request.is_none() && policy.response.is_some());
    }
}
