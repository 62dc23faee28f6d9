//! A JSON text together with its tape, and navigation in it.
//!
//! A node is the index of a value on the tape. If several members of an object have the same name, the last one counts and the others are
//! not nodes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use json::{JsonError, Kind, Limits, TapeEntry};

/// Objects with at most this many members have their names compared pairwise. A hash table would cost more.
const COMPARED_MAX: u32 = 8;

/// A value of a [`JsonText`]: its index on the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JsonNode(pub u32);

/// A parsed JSON text.
#[derive(Debug)]
pub struct JsonText {
    text: String,
    tape: Vec<TapeEntry>,
    /// Members that are hidden by a later member of the same name.
    hidden: OnceLock<HashSet<u32>>,
}

/// Iterates over the values of an object or array in order, each with its name if it is a member.
pub(crate) struct Children<'t> {
    text: &'t JsonText,
    hidden: &'t HashSet<u32>,
    at: u32,
    left: u32,
    is_object: bool,
}

impl JsonText {
    /// The root value.
    pub const ROOT: JsonNode = JsonNode(0);

    /// Parses a text.
    pub fn read(text: String, limits: &Limits) -> Result<Arc<JsonText>, JsonError> {
        let mut tape = Vec::new();
        json::read(&text, limits, &mut tape)?;
        Ok(Arc::new(JsonText { text, tape, hidden: OnceLock::new() }))
    }

    /// Returns the original text.
    pub fn text(&self) -> &str {
        &self.text
    }

    #[inline]
    fn entry(&self, at: u32) -> Option<&TapeEntry> {
        self.tape.get(at as usize)
    }

    /// Returns the byte offset at which a value begins.
    pub(crate) fn place(&self, node: JsonNode) -> usize {
        self.entry(node.0).map_or(0, |entry| entry.from as usize)
    }

    /// Returns the kind of a value.
    #[inline]
    pub fn kind(&self, node: JsonNode) -> Kind {
        self.entry(node.0).map_or(Kind::Null, |entry| entry.kind)
    }

    /// Returns the number of items, or of members including hidden ones.
    #[inline]
    pub(crate) fn count(&self, node: JsonNode) -> u32 {
        self.entry(node.0).map_or(0, |entry| entry.count)
    }

    /// Returns a value as written; for a string, the text between the quotes.
    #[inline]
    fn inner(&self, node: JsonNode) -> &str {
        let span = self.entry(node.0).and_then(|e| self.text.get(e.from as usize..e.to as usize));
        // Harmless: each entry has a valid range in the text.
        span.unwrap_or_default()
    }

    /// Returns a value exactly as written, with every digit and blank.
    pub fn raw(&self, node: JsonNode) -> &str {
        let span = self.entry(node.0).and_then(|entry| {
            let quote = usize::from(matches!(entry.kind, Kind::Plain | Kind::Escaped));
            self.text.get(entry.from as usize - quote..entry.to as usize + quote)
        });
        // Harmless: each entry has a valid range in the text.
        span.unwrap_or_default()
    }

    /// Returns a string unescaped; for any other value its text.
    #[inline]
    pub fn string(&self, node: JsonNode) -> Cow<'_, str> {
        match self.kind(node) {
            Kind::Escaped => Cow::Owned(json::unescaped(self.inner(node))),
            Kind::Null
            | Kind::False
            | Kind::True
            | Kind::Number
            | Kind::Plain
            | Kind::Object
            | Kind::Array => Cow::Borrowed(self.inner(node)),
        }
    }

    /// Returns the value of a member, or `None`.
    pub fn member(&self, node: JsonNode, name: &str) -> Option<JsonNode> {
        let object = self.entry(node.0).filter(|entry| entry.kind == Kind::Object)?;
        let (mut at, mut found) = (node.0 + 1, None);
        for _ in 0..object.count {
            let value = JsonNode(at + 1);
            if self.is_string(JsonNode(at), name) {
                found = Some(value);
            }
            at = self.entry(value.0)?.next;
        }
        found
    }

    /// Returns an item of an array, or `None`. Negative indexes count from the end.
    pub fn item(&self, node: JsonNode, index: i64) -> Option<JsonNode> {
        let array = self.entry(node.0).filter(|entry| entry.kind == Kind::Array)?;
        let index = if index < 0 { i64::from(array.count) + index } else { index };
        // Harmless: an index before the first item selects nothing.
        let index = u32::try_from(index).ok().filter(|index| *index < array.count)?;
        let mut at = node.0 + 1;
        for _ in 0..index {
            at = self.entry(at)?.next;
        }
        Some(JsonNode(at))
    }

    fn is_string(&self, node: JsonNode, text: &str) -> bool {
        match self.kind(node) {
            Kind::Escaped => json::unescaped(self.inner(node)) == text,
            Kind::Plain => self.inner(node) == text,
            Kind::Null | Kind::False | Kind::True | Kind::Number | Kind::Object | Kind::Array => {
                false
            }
        }
    }

    /// Returns the values of an object or array; nothing for any other value.
    #[inline]
    pub(crate) fn children(&self, node: JsonNode) -> Children<'_> {
        Children {
            text: self,
            hidden: self.hidden(),
            at: node.0 + 1,
            left: self.count(node),
            is_object: self.kind(node) == Kind::Object,
        }
    }

    /// Returns the values inside an object or array in order, each with its name if it is a member. Leaves out members that are hidden by a
    /// later member of the same name.
    pub fn members(
        &self,
        node: JsonNode,
    ) -> impl Iterator<Item = (Option<JsonNode>, JsonNode)> + use<'_> {
        self.children(node)
    }

    /// Returns the node after a value and all its descendants.
    pub fn end(&self, node: JsonNode) -> JsonNode {
        JsonNode(self.entry(node.0).map_or(node.0.saturating_add(1), |entry| entry.next))
    }

    /// Returns an object in which two members have the same name, or `None`.
    pub fn duplicate_member(&self) -> Option<JsonNode> {
        let doubled = json::duplicate_name(&self.text, &self.tape);
        if doubled.is_none() {
            // Harmless: if it is set already, the value is the same.
            drop(self.hidden.set(HashSet::new()));
        }
        doubled.map(|doubled| JsonNode(doubled.object))
    }

    fn hidden(&self) -> &HashSet<u32> {
        self.hidden.get_or_init(|| {
            let mut hidden = HashSet::new();
            let objects = self.tape.iter().zip(0..).filter(|(e, _)| e.kind == Kind::Object);
            for (entry, at) in objects.filter(|(entry, _)| entry.count > 1) {
                if entry.count > COMPARED_MAX {
                    self.hide_by_table(at, entry.count, &mut hidden)
                } else {
                    self.hide_by_comparing(at, entry.count, &mut hidden)
                }
            }
            hidden
        })
    }

    /// Returns the entries of the names of an object.
    fn names(&self, object: u32, count: u32) -> impl Iterator<Item = u32> {
        let mut at = object + 1;
        (0..count).map(move |_| {
            let name = at;
            at = self.entry(at + 1).map_or(at, |value| value.next);
            name
        })
    }

    fn hide_by_comparing(&self, object: u32, count: u32, hidden: &mut HashSet<u32>) {
        let mut names = self.names(object, count);
        while let Some(name) = names.next() {
            let text = self.string(JsonNode(name));
            let (rest_at, rest) =
                (self.entry(name + 1).map_or(name, |v| v.next), names.size_hint().0);
            // Harmless: there are fewer than 2^32 names.
            let rest = u32::try_from(rest).unwrap_or_default();
            let mut later = self.names(rest_at.saturating_sub(1), rest);
            if later.any(|other| self.is_string(JsonNode(other), &text)) {
                hidden.insert(name + 1);
            }
        }
    }

    fn hide_by_table(&self, object: u32, count: u32, hidden: &mut HashSet<u32>) {
        let mut last: HashMap<Cow<'_, str>, u32> = HashMap::with_capacity(count as usize);
        for name in self.names(object, count) {
            if let Some(before) = last.insert(self.string(JsonNode(name)), name) {
                hidden.insert(before + 1);
            }
        }
    }

    /// Returns the normalized path of a value (RFC 9535, 2.7).
    pub fn location(&self, node: JsonNode) -> String {
        let mut path = "$".to_owned();
        let mut at = JsonText::ROOT;
        while at != node {
            let next = self.children(at).zip(0u32..).find(|((_, child), _)| {
                let next = self.entry(child.0).map_or(child.0, |entry| entry.next);
                (child.0..next).contains(&node.0)
            });
            let Some(((name, child), index)) = next else { break };
            match name {
                Some(name) => push_name(&mut path, &self.string(name)),
                None => path.push_str(&format!("[{index}]")),
            }
            at = child;
        }
        path
    }
}

/// Appends `['name']`, escaped as in normalized paths.
fn push_name(path: &mut String, name: &str) {
    path.push_str("['");
    for c in name.chars() {
        match c {
            '\'' => path.push_str("\\'"),
            '\\' => path.push_str("\\\\"),
            '\u{8}' => path.push_str("\\b"),
            '\u{c}' => path.push_str("\\f"),
            '\n' => path.push_str("\\n"),
            '\r' => path.push_str("\\r"),
            '\t' => path.push_str("\\t"),
            c if u32::from(c) < 0x20 => path.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => path.push(c),
        }
    }
    path.push_str("']");
}

impl Iterator for Children<'_> {
    /// The name, if the value is a member, and the value.
    type Item = (Option<JsonNode>, JsonNode);

    #[inline]
    fn next(&mut self) -> Option<(Option<JsonNode>, JsonNode)> {
        loop {
            self.left = self.left.checked_sub(1)?;
            let name = self.is_object.then_some(JsonNode(self.at));
            let value = JsonNode(self.at + u32::from(self.is_object));
            self.at = self.text.entry(value.0)?.next;
            if self.hidden.is_empty() || !self.hidden.contains(&value.0) {
                return Some((name, value));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Arc<JsonText> {
        JsonText::read(text.to_owned(), &Limits { depth_max: 100, entries_max: 10_000 }).unwrap()
    }

    fn raws(text: &JsonText, node: JsonNode) -> Vec<&str> {
        text.children(node).map(|(_, value)| text.raw(value)).collect()
    }

    #[test]
    fn values_are_found_as_they_were_written() {
        let text = read(r#" {"a": [1.0, "x\n"], "b": {"c": null}, "é": 1e400} "#);
        let a = text.member(JsonText::ROOT, "a").unwrap();
        assert_eq!(raws(&text, a), ["1.0", r#""x\n""#]);
        assert_eq!(text.string(text.item(a, -1).unwrap()), "x\n");
        assert_eq!(text.item(a, 2), None);
        assert_eq!(text.item(a, -3), None);
        assert_eq!(text.item(JsonText::ROOT, 0), None);
        assert_eq!(text.raw(text.member(JsonText::ROOT, "é").unwrap()), "1e400");
        assert_eq!(text.member(a, "a"), None);
        let b = text.member(JsonText::ROOT, "b").unwrap();
        assert_eq!(text.location(text.member(b, "c").unwrap()), "$['b']['c']");
        assert_eq!(text.location(text.item(a, 1).unwrap()), "$['a'][1]");
    }

    #[test]
    fn the_last_of_members_with_one_name_counts() {
        let text = read(r#"{"a":1,"b":2,"\u0061":3,"c":{"x":1,"x":2},"b":4}"#);
        assert_eq!(raws(&text, JsonText::ROOT), ["3", r#"{"x":1,"x":2}"#, "4"]);
        assert_eq!(text.raw(text.member(JsonText::ROOT, "a").unwrap()), "3");
        let many: Vec<String> = (0..100).map(|n| format!("\"k{}\":{n}", n % 40)).collect();
        let text = read(&format!("{{{}}}", many.join(",")));
        let last: Vec<String> = (60..100).map(|n| n.to_string()).collect();
        assert_eq!(raws(&text, JsonText::ROOT), last);
    }

    #[test]
    fn an_object_with_a_duplicate_name_is_found() {
        let many = |last: u32| {
            let members: Vec<String> =
                (0..20).chain([last]).map(|n| format!("\"k{n}\":1")).collect();
            format!("{{{}}}", members.join(","))
        };
        for (text, at) in [
            (r#"{"a":1,"b":2}"#.to_owned(), None),
            (r#"{"a":1,"\u0061":2}"#.to_owned(), Some(0)),
            (r#"[{"a":1},{"a":{"b":1,"c":2,"b":3}}]"#.to_owned(), Some(6)),
            (r#"{"a":{"x":1},"b":{"x":1}}"#.to_owned(), None),
            (many(20), None),
            (many(7), Some(0)),
        ] {
            assert_eq!(read(&text).duplicate_member(), at.map(JsonNode), "{text}");
        }
    }

    #[test]
    fn names_of_locations_are_escaped() {
        let mut path = String::new();
        push_name(&mut path, "a'\\\n\u{1}\"");
        assert_eq!(path, r#"['a\'\\\n\u0001"']"#);
    }
}
