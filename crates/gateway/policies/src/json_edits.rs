//! Edits of a JSON text, made in one pass over its tape.
//!
//! All edits are applied at once. No edited place equals another or is inside it, so the order of edits does not matter. Everything else is
//! copied unchanged, including the digits of numbers. The recursion is as deep as the edits, not as deep as the text.

use std::borrow::Cow;
use std::fmt;

use json::{Kind, TapeEntry};
use kit::turns;
use mediation::parsed::{self, JSON_LIMITS};
use message::GatheredBody;
use policy::Template;

/// The maximum number of segments of a pointer, which bounds the recursion.
const SEGMENTS_MAX: usize = 64;

/// A place in a document: names of members and indices of items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pointer(Vec<Box<str>>);

/// The error for two edits at the same place, or one inside the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap;

/// Edits of a document.
#[derive(Debug, Default)]
pub struct JsonEdits {
    root: Node,
    values: Vec<Template>,
    /// The original places of moved values.
    moved: Vec<Pointer>,
}

/// The edits at a place and inside it.
#[derive(Debug, Default)]
struct Node {
    act: Option<Act>,
    inside: Vec<Child>,
}

#[derive(Debug)]
struct Child {
    name: Box<str>,
    /// The name as the index of a list item, if it is one.
    index: Option<u32>,
    node: Node,
}

/// The action at a place. The numbers are indices into the fields `values` and `moved` of [`JsonEdits`].
#[derive(Debug, Clone, Copy)]
enum Act {
    Remove,
    Set(usize),
    /// Puts a moved value here, if it exists.
    Put(usize),
}

/// The reason why a document was not edited, with the byte offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum EditRefusal {
    NotUtf8,
    Malformed {
        at: usize,
        expected: &'static str,
    },
    /// An edited member occurs twice. A reader of the document could use either.
    Twice {
        at: u32,
    },
    /// A value cannot be placed: its parent is neither an object nor a list that is long enough.
    NoPlace {
        at: u32,
    },
}

impl Pointer {
    /// Parses `/a/b` (RFC 6901), or `a.b`. The error is a text.
    pub fn parse(text: &str) -> Result<Pointer, &'static str> {
        let segments: Vec<Box<str>> = match text.strip_prefix('/') {
            Some(rest) => rest.split('/').map(unescaped).collect::<Option<_>>(),
            None if text.is_empty() => {
                return Err("it is empty; the document as a whole cannot be edited");
            }
            None if text.contains(['[', ']', '$', '*']) => {
                return Err("without a leading `/`, it must consist of names separated by dots");
            }
            None if text.split('.').any(str::is_empty) => {
                return Err("a name before or after a dot is missing");
            }
            None => Some(text.split('.').map(Into::into).collect()),
        }
        .ok_or("a `~` is neither `~0` nor `~1`")?;
        if segments.len() > SEGMENTS_MAX { Err("it is too deep") } else { Ok(Pointer(segments)) }
    }
}

fn unescaped(segment: &str) -> Option<Box<str>> {
    let mut pieces = segment.split('~');
    let mut name = pieces.next().unwrap_or("").to_owned();
    for piece in pieces {
        match piece.split_at_checked(1)? {
            ("0", rest) => name.extend(["~", rest]),
            ("1", rest) => name.extend(["/", rest]),
            _ => return None,
        }
    }
    Some(name.into())
}

impl Pointer {
    /// Returns the place of a top-level member.
    pub(crate) fn of_member(name: &str) -> Pointer {
        Pointer(vec![name.into()])
    }
}

impl JsonEdits {
    /// Applies edits that set no values, and returns the document.
    pub(crate) fn without_values(&self, body: &mut GatheredBody) -> Result<Vec<u8>, EditRefusal> {
        self.apply(body, &[])
    }

    /// Adds an edit that sets a place to a value. The template produces JSON.
    pub fn set(&mut self, place: &Pointer, value: Template) -> Result<(), Overlap> {
        self.root.insert(place, Act::Set(self.values.len()))?;
        self.values.push(value);
        Ok(())
    }

    /// Adds an edit that removes the value at a place.
    pub fn remove(&mut self, place: &Pointer) -> Result<(), Overlap> {
        self.root.insert(place, Act::Remove)
    }

    /// Adds an edit that moves the value at a place to another.
    pub fn rename(&mut self, old: Pointer, new: &Pointer) -> Result<(), Overlap> {
        self.root.insert(&old, Act::Remove)?;
        self.root.insert(new, Act::Put(self.moved.len()))?;
        self.moved.push(old);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.root.inside.is_empty()
    }

    /// Returns the templates of the values, in the order that [`JsonEdits::apply`] expects.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Template> {
        self.values.iter()
    }

    /// Returns the document after all edits. The body is not changed.
    pub(crate) fn apply(
        &self,
        body: &mut GatheredBody,
        values: &[Cow<'_, [u8]>],
    ) -> Result<Vec<u8>, EditRefusal> {
        let bytes = body.bytes.clone();
        let text = std::str::from_utf8(&bytes).map_err(|_| EditRefusal::NotUtf8)?;
        let tape = parsed::tape(body, text, &JSON_LIMITS)
            .map_err(|why| EditRefusal::Malformed { at: why.at, expected: why.what })?;
        let edited = self.edited(text, tape.entries(), values)?;
        body.keep_tape(tape);
        Ok(edited)
    }

    fn edited(
        &self,
        text: &str,
        tape: &[TapeEntry],
        values: &[Cow<'_, [u8]>],
    ) -> Result<Vec<u8>, EditRefusal> {
        let out = Vec::with_capacity(text.len());
        let mut edit = Edit { text, tape, values, moved: Vec::new(), out };
        edit.moved = self.moved.iter().map(|place| edit.find(place)).collect();
        let (start, end) = edit.span(edit.entry(0));
        edit.copy(0, start);
        edit.value(0, &self.root)?;
        edit.copy(end, length(text));
        Ok(edit.out)
    }
}

impl Node {
    fn insert(&mut self, place: &Pointer, act: Act) -> Result<(), Overlap> {
        let mut node = self;
        for name in &place.0 {
            if node.act.is_some() {
                return Err(Overlap);
            }
            let known = node.inside.iter().position(|child| child.name == *name);
            let at = known.unwrap_or_else(|| {
                node.inside.push(Child {
                    name: name.clone(),
                    index: index(name),
                    node: Node::default(),
                });
                node.inside.len() - 1
            });
            node = &mut node.inside.get_mut(at).ok_or(Overlap)?.node;
        }
        if node.act.is_some() || !node.inside.is_empty() {
            return Err(Overlap);
        }
        node.act = Some(act);
        Ok(())
    }
}

/// Parses a name as an index (RFC 6901), which has no leading zero.
fn index(name: &str) -> Option<u32> {
    let canonical = name == "0" || !name.starts_with('0');
    kit::digits::whole(name).filter(|_| canonical)
}

/// Returns true for `-`, the place after the last item of a list (RFC 6901, 4).
fn is_after_last(name: &str) -> bool {
    name == "-"
}

/// One pass over one text.
struct Edit<'a> {
    text: &'a str,
    tape: &'a [TapeEntry],
    values: &'a [Cow<'a, [u8]>],
    /// The moved values, as far as they exist.
    moved: Vec<Option<&'a str>>,
    out: Vec<u8>,
}

/// What happens to an existing value.
enum EditResult<'a> {
    Stays,
    Goes,
    Becomes(&'a [u8]),
    Inside(&'a Node),
}

impl<'a> Edit<'a> {
    fn value(&mut self, at: u32, node: &Node) -> Result<(), EditRefusal> {
        let entry = self.entry(at);
        match entry.kind {
            Kind::Object | Kind::Array => self.inside(at, node),
            Kind::Null if self.makes(node) => {
                self.make(node);
                Ok(())
            }
            Kind::Null | Kind::False | Kind::True | Kind::Number | Kind::Plain | Kind::Escaped => {
                if self.makes(node) {
                    return Err(EditRefusal::NoPlace { at: entry.from });
                }
                let (start, end) = self.span(entry);
                self.copy(start, end);
                Ok(())
            }
        }
    }

    /// Writes an object or a list, including its white space.
    fn inside(&mut self, at: u32, node: &Node) -> Result<(), EditRefusal> {
        let whole = self.entry(at);
        let is_object = whole.kind == Kind::Object;
        let mut seen = vec![false; node.inside.len()];
        let (mut next, mut end, mut index) = (at.saturating_add(1), whole.from + 1, 0);
        let (mut first_blanks, mut kept) = (None, 0_u32);
        self.copy(whole.from, end);
        while next < whole.next {
            turns::count_part();
            let item = self.entry(next);
            let value_at = next.saturating_add(u32::from(is_object));
            let value = self.entry(value_at);
            let (start, (value_start, value_end)) = (self.span(item).0, self.span(value));
            // The text before this item: white space, and a comma unless it is the first item.
            let between = (end, start);
            let blanks = *first_blanks.get_or_insert(between);
            (end, next) = (value_end, value.next);
            let is_it = |child: &Child| {
                let is_at = || child.index == Some(index);
                if is_object { self.is_named(item, &child.name) } else { is_at() }
            };
            let child = node.inside.iter().position(is_it);
            index += 1;
            let met = child.and_then(|child| seen.get_mut(child));
            if met.is_some_and(|met| std::mem::replace(met, true)) {
                return Err(EditRefusal::Twice { at: start });
            }
            let result = match child.and_then(|child| node.inside.get(child)) {
                Some(child) => self.result(&child.node),
                None => EditResult::Stays,
            };
            if let EditResult::Goes = result {
                continue;
            }
            let (from, to) = if kept == 0 { blanks } else { between };
            self.copy(from, to);
            kept += 1;
            match result {
                EditResult::Stays | EditResult::Goes => self.copy(start, value_end),
                EditResult::Becomes(text) => {
                    self.copy(start, value_start);
                    self.out.extend_from_slice(text);
                }
                EditResult::Inside(node) => {
                    self.copy(start, value_start);
                    self.value(value_at, node)?;
                }
            }
        }
        // Harmless: `seen` has one item for each child.
        let unseen = node.inside.iter().zip(seen).filter(|(_, seen)| !seen).map(|(child, _)| child);
        for child in unseen {
            if !self.makes(&child.node) {
                continue;
            }
            if !is_object && child.index != Some(index) && !is_after_last(&child.name) {
                return Err(EditRefusal::NoPlace { at: whole.from });
            }
            index += 1;
            self.begin_new(&mut kept);
            if is_object {
                self.name(&child.name);
            }
            self.make(&child.node);
        }
        self.copy(end, whole.to);
        Ok(())
    }

    fn result<'n>(&self, node: &'n Node) -> EditResult<'n>
    where
        'a: 'n,
    {
        match node.act {
            None => EditResult::Inside(node),
            Some(Act::Remove) => EditResult::Goes,
            Some(Act::Set(_) | Act::Put(_)) => {
                self.made(node).map_or(EditResult::Stays, EditResult::Becomes)
            }
        }
    }

    /// Returns the text of the value that is put here, if any.
    fn made(&self, node: &Node) -> Option<&'a [u8]> {
        match node.act? {
            Act::Set(at) => self.values.get(at).map(|value| &**value),
            Act::Put(at) => self.moved.get(at).and_then(|moved| *moved).map(str::as_bytes),
            Act::Remove => None,
        }
    }

    /// Returns true if an edit creates a value here or inside.
    fn makes(&self, node: &Node) -> bool {
        self.made(node).is_some() || node.inside.iter().any(|child| self.makes(&child.node))
    }

    fn make(&mut self, node: &Node) {
        if let Some(text) = self.made(node) {
            self.out.extend_from_slice(text);
            return;
        }
        let made = || node.inside.iter().filter(|child| self.makes(&child.node));
        let is_list = made().all(|child| is_after_last(&child.name));
        let children: Vec<&Child> = made().collect();
        let mut kept = 0;
        self.out.push(if is_list { b'[' } else { b'{' });
        for child in children {
            self.begin_new(&mut kept);
            if !is_list {
                self.name(&child.name);
            }
            self.make(&child.node);
        }
        self.out.push(if is_list { b']' } else { b'}' });
    }

    fn begin_new(&mut self, kept: &mut u32) {
        if *kept > 0 {
            self.out.push(b',');
        }
        *kept += 1;
    }

    fn name(&mut self, name: &str) {
        let quoted = serde_json::Value::from(name).to_string();
        self.out.extend_from_slice(quoted.as_bytes());
        self.out.push(b':');
    }

    /// Returns the text at a place.
    fn find(&self, place: &Pointer) -> Option<&'a str> {
        let mut at = 0;
        for name in &place.0 {
            let whole = self.entry(at);
            let is_object = match whole.kind {
                Kind::Object => true,
                Kind::Array => false,
                Kind::Null
                | Kind::False
                | Kind::True
                | Kind::Number
                | Kind::Plain
                | Kind::Escaped => {
                    return None;
                }
            };
            let wanted = index(name);
            let (mut next, mut count) = (at.saturating_add(1), 0);
            at = loop {
                turns::count_part();
                if next >= whole.next {
                    return None;
                }
                let value_at = next.saturating_add(u32::from(is_object));
                let found = if is_object {
                    self.is_named(self.entry(next), name)
                } else {
                    wanted == Some(count)
                };
                if found {
                    break value_at;
                }
                next = self.entry(value_at).next;
                count += 1;
            };
        }
        let (start, end) = self.span(self.entry(at));
        self.slice(start, end)
    }

    fn is_named(&self, entry: TapeEntry, name: &str) -> bool {
        let text = self.slice(entry.from, entry.to).unwrap_or("");
        if entry.kind == Kind::Escaped { json::unescaped(text) == name } else { text == name }
    }

    fn entry(&self, at: u32) -> TapeEntry {
        // `next` is beyond every container, so that a walk which leaves the tape ends.
        let none = TapeEntry { kind: Kind::Null, from: 0, to: 0, next: u32::MAX, count: 0 };
        self.tape.get(at as usize).copied().unwrap_or(none)
    }

    /// Returns the byte range of a value, including quotes.
    fn span(&self, entry: TapeEntry) -> (u32, u32) {
        match entry.kind {
            Kind::Plain | Kind::Escaped => {
                (entry.from.saturating_sub(1), entry.to.saturating_add(1))
            }
            Kind::Null | Kind::False | Kind::True | Kind::Number | Kind::Object | Kind::Array => {
                (entry.from, entry.to)
            }
        }
    }

    fn slice(&self, from: u32, to: u32) -> Option<&'a str> {
        self.text.get(from as usize..to as usize)
    }

    fn copy(&mut self, from: u32, to: u32) {
        let text = self.slice(from, to).unwrap_or("");
        self.out.extend_from_slice(text.as_bytes());
    }
}

/// Parsed texts are shorter than 4 GiB.
fn length(text: &str) -> u32 {
    u32::try_from(text.len()).unwrap_or(u32::MAX)
}

impl EditRefusal {
    /// Returns the text for the client.
    pub(crate) fn detail(&self) -> &'static str {
        match self {
            EditRefusal::NotUtf8 | EditRefusal::Malformed { .. } => {
                "The body is not well-formed JSON."
            }
            EditRefusal::Twice { .. } => "An object in the body has a duplicate member.",
            EditRefusal::NoPlace { .. } => "A value in the body has an unexpected type.",
        }
    }
}

impl fmt::Display for EditRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EditRefusal::NotUtf8 => write!(f, "the body is not UTF-8"),
            EditRefusal::Malformed { at, expected } => {
                write!(f, "the body is not JSON: at byte {at}, expected {expected}")
            }
            EditRefusal::Twice { at } => {
                write!(f, "an edited member occurs twice, the second time at byte {at}")
            }
            EditRefusal::NoPlace { at } => {
                write!(f, "nothing can be set inside the value at byte {at}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(place: &str) -> Pointer {
        Pointer::parse(place).unwrap()
    }

    fn edits(set: &[(&str, &str)], remove: &[&str], rename: &[(&str, &str)]) -> JsonEdits {
        let mut edits = JsonEdits::default();
        for (place, value) in set {
            edits.set(&at(place), Template::parse(value, &[]).unwrap()).unwrap();
        }
        remove.iter().for_each(|place| edits.remove(&at(place)).unwrap());
        rename.iter().for_each(|(old, new)| edits.rename(at(old), &at(new)).unwrap());
        edits
    }

    fn applied(edits: &JsonEdits, text: &str) -> Result<String, EditRefusal> {
        let values = edits.values().map(|value| value.constant().unwrap().as_bytes().into());
        let values: Vec<Cow<'_, [u8]>> = values.collect();
        let mut body = GatheredBody::new(text.to_owned().into(), Vec::new());
        edits.apply(&mut body, &values).map(|out| String::from_utf8(out).unwrap())
    }

    #[track_caller]
    fn check(edits: &JsonEdits, cases: &[(&str, &str)]) {
        for (text, edited) in cases {
            let out = applied(edits, text).unwrap();
            assert_eq!(out, *edited, "{text}");
            serde_json::from_str::<serde_json::Value>(&out).unwrap();
        }
    }

    #[test]
    fn pointers_are_parsed() {
        let names = |place: &str| Pointer::parse(place).map(|place| place.0.join("|"));
        for (place, read) in [
            ("/a/b", Ok("a|b")),
            ("/a~1b/~01/", Ok("a/b|~1|")),
            ("/a.b", Ok("a.b")),
            ("a.b", Ok("a|b")),
            ("a", Ok("a")),
            ("", Err(())),
            ("a..b", Err(())),
            (".a", Err(())),
            ("a[0]", Err(())),
            ("$.a", Err(())),
            ("/a~2", Err(())),
            ("/a~", Err(())),
            ("/~é", Err(())),
        ] {
            assert_eq!(names(place).as_deref().map_err(|_| ()), read, "{place}");
        }
        assert!(Pointer::parse(&"/a".repeat(SEGMENTS_MAX + 1)).is_err());
    }

    #[test]
    fn places_inside_one_another_are_refused() {
        for (one, other) in [("/a", "/a"), ("/a", "/a/b"), ("/a/b", "/a"), ("a.b", "/a/b/c")] {
            let mut edits = edits(&[(one, "1")], &[], &[]);
            assert_eq!(edits.remove(&at(other)), Err(Overlap), "{one} {other}");
        }
        let mut edits = edits(&[("/a/b", "1")], &["/a/c"], &[]);
        assert_eq!(edits.rename(at("/d"), &at("/d/e")), Err(Overlap));
    }

    #[test]
    fn values_are_set_in_their_places() {
        check(
            &edits(&[("/a", "1.10"), ("/b/c/d", "\"x\"")], &[], &[]),
            &[
                ("{}", r#"{"a":1.10,"b":{"c":{"d":"x"}}}"#),
                ("{ }\n", "{\"a\":1.10,\"b\":{\"c\":{\"d\":\"x\"}} }\n"),
                (
                    "{\n  \"z\": 1e0,\n  \"a\": [2]\n}",
                    "{\n  \"z\": 1e0,\n  \"a\": 1.10,\"b\":{\"c\":{\"d\":\"x\"}}\n}",
                ),
                (
                    r#" {"b": {"c" : {"d":[],"e":2.00}, "f":{"a":0}}, "\u0061":0}"#,
                    r#" {"b": {"c" : {"d":"x","e":2.00}, "f":{"a":0}}, "\u0061":1.10}"#,
                ),
                (r#"{"b":null}"#, r#"{"b":{"c":{"d":"x"}},"a":1.10}"#),
            ],
        );
    }

    #[test]
    fn values_are_removed_with_one_comma_each() {
        check(
            &edits(&[], &["/a", "/c", "/l/0", "/l/2", "/o/x"], &[]),
            &[
                (r#"{ "a":1, "b":2, "c":3 }"#, r#"{ "b":2 }"#),
                (r#"{"a":1,"c":{"b":2}}"#, "{}"),
                (r#"{"b":0.0,"d":-0}"#, r#"{"b":0.0,"d":-0}"#),
                (r#"{"l":[1, 2, 3, 4],"o":{"x":{},"y":1}}"#, r#"{"l":[2, 4],"o":{"y":1}}"#),
                (r#"{"l":[{}],"o":[1]}"#, r#"{"l":[],"o":[1]}"#),
                (r#"{"l":5,"o":null}"#, r#"{"l":5,"o":null}"#),
                ("[1]", "[1]"),
                ("7", "7"),
            ],
        );
    }

    #[test]
    fn moved_values_are_unchanged() {
        check(
            &edits(&[], &[], &[("/a", "/b"), ("/deep/x", "/y/z")]),
            &[
                (r#"{"a":[1.0, {"k":1}],"c":1}"#, r#"{"c":1,"b":[1.0, {"k":1}]}"#),
                (r#"{"b":1,"a":"é\n"}"#, r#"{"b":"é\n"}"#),
                (r#"{"b":1}"#, r#"{"b":1}"#),
                (r#"{"deep":{"x":1},"y":{"z":0,"q":2}}"#, r#"{"deep":{},"y":{"z":1,"q":2}}"#),
                (r#"{"deep":{},"y":5}"#, r#"{"deep":{},"y":5}"#),
            ],
        );
    }

    #[test]
    fn list_items_are_set_by_index_and_appended() {
        check(
            &edits(&[("/l/1", "9"), ("/m/-", "8")], &[], &[]),
            &[
                (r#"{"l":[0,1],"m":[0]}"#, r#"{"l":[0,9],"m":[0,8]}"#),
                (r#"{"l":[0],"m":[]}"#, r#"{"l":[0,9],"m":[8]}"#),
                (r#"{"l":{"1":0}}"#, r#"{"l":{"1":9},"m":[8]}"#),
            ],
        );
    }

    #[test]
    fn documents_that_cannot_be_edited_are_refused() {
        let edits = edits(&[("/a/b", "1")], &["/c"], &[("/d/1", "/e")]);
        for text in [
            "",
            "{",
            "{} x",
            "[1",
            "{\"a\":01}",
            "{\"a\":1}",
            "{\"a\":\"x\"}",
            "{\"a\":[]}",
            "5",
            "[]",
            "{\"a\":{},\"a\":{}}",
            "{\"a\":{\"b\":1,\"\\u0062\":2}}",
            "{\"c\":1,\"c\":2}",
            "{\"d\":{\"1\":1,\"1\":2}}",
            "\u{feff}{}",
        ] {
            assert!(applied(&edits, text).is_err(), "{text}");
        }
        let mut body = GatheredBody::new((&b"{\"x\":\"\xff\"}"[..]).into(), Vec::new());
        assert_eq!(edits.apply(&mut body, &[]), Err(EditRefusal::NotUtf8));
        let twice = applied(&edits, r#"{"x":1,"x":2,"a":{}}"#).unwrap();
        assert_eq!(
            twice, r#"{"x":1,"x":2,"a":{"b":1}}"#,
            "a repeated member that is not edited is kept"
        );
    }

    #[test]
    fn a_deep_text_causes_no_deep_recursion() {
        let deep = format!("{{\"x\":{}{}}}", "[".repeat(126), "]".repeat(126));
        let out = applied(&edits(&[("/a", "1")], &[], &[]), &deep).unwrap();
        assert_eq!(out, format!("{},\"a\":1}}", deep.strip_suffix('}').unwrap()));
    }
}
