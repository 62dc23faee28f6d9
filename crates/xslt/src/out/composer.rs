//! Puts a result together: holds a start tag back until its attributes have come, and makes its namespaces right.

use xml::{BuildError, Builder, Document, XML_NAMESPACE};
use xpath::Node;

use super::Serializer;
use super::tag::{Piece, Pieces, Tag};

/// Where a result goes.
#[derive(Debug)]
pub(crate) enum Target {
    Bytes(Box<Serializer>),
    Tree(Box<Builder>),
    /// Only text is kept: the value of an attribute, a comment or an instruction.
    Text(String),
}

/// One result being made.
#[derive(Debug)]
pub(crate) struct Composer {
    target: Target,
    tag: Tag,
    pending: bool,
    /// Namespaces in scope of the open elements, inner ones last.
    scope: Vec<Piece>,
    open: Vec<Open>,
    /// Names of open elements and of the scope.
    pieces: Pieces,
    nodes: u64,
    bytes: u64,
    /// A tree took no more.
    full: bool,
    /// The node the pending element is a copy of.
    origin: Option<Node>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    origin: Option<Node>,
    name: Piece,
    scope: u32,
    pieces: u32,
}

/// Room for the elements that are open at a time, and what they declare.
const ROOM_OPEN: usize = 16;

impl Composer {
    pub(crate) fn new(target: Target) -> Composer {
        Composer {
            target,
            tag: Tag::default(),
            pending: false,
            scope: Vec::with_capacity(ROOM_OPEN),
            open: Vec::with_capacity(ROOM_OPEN),
            pieces: Pieces::default(),
            nodes: 0,
            bytes: 0,
            full: false,
            origin: None,
        }
    }

    /// Nodes written so far.
    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Bytes of names and text written so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A tree that would not take all of it.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    /// The node the innermost open element is a copy of.
    pub(crate) fn origin(&self) -> Option<Node> {
        match self.pending {
            true => self.origin,
            false => self.open.last().and_then(|open| open.origin),
        }
    }

    /// Says which node the element just started is a copy of.
    pub(crate) fn copied_from(&mut self, node: Node) {
        self.origin = Some(node);
    }

    pub(crate) fn start(&mut self, prefix: &str, local: &str, uri: &str) {
        self.flush();
        self.nodes += 1;
        self.bytes += (prefix.len() + local.len()) as u64;
        // Where only text is wanted an element is as good as what is in it, as others recover too.
        if let Target::Text(_) = self.target {
            return;
        }
        self.tag.begin(prefix, local, uri);
        self.origin = None;
        self.pending = true;
    }

    /// A namespace node of the element just started.
    pub(crate) fn namespace(&mut self, prefix: &str, uri: &str) {
        if self.pending && prefix != "xml" {
            self.tag.namespace(prefix, uri);
        }
    }

    /// A namespace node that is asked for by itself: an element whose prefix is in the way gets another.
    pub(crate) fn own_namespace(&mut self, prefix: &str, uri: &str) {
        if !self.pending || prefix == "xml" || prefix == "xmlns" {
            return;
        }
        let pieces = &self.tag.pieces;
        let name = self.tag.name;
        if pieces.prefix(name) == prefix && pieces.uri(name) != uri {
            let (local, own) = (pieces.local(name).to_owned(), pieces.uri(name).to_owned());
            let fresh = match (prefix, own.is_empty()) {
                // Without a namespace there is no other prefix to have.
                (_, true) => return,
                ("", false) => "ns0".to_owned(),
                (prefix, false) => format!("{prefix}_0"),
            };
            self.tag.name = self.tag.pieces.push(&fresh, &local, &own, "");
        }
        self.tag.namespace(prefix, uri);
    }

    /// An attribute of the element just started. One that comes too late is dropped (XSLT 1.0, 7.1.3).
    pub(crate) fn attribute(&mut self, prefix: &str, local: &str, uri: &str, value: &str) {
        if self.pending {
            self.nodes += 1;
            self.bytes += (local.len() + value.len()) as u64;
            self.tag.attribute(prefix, local, uri, value);
        }
    }

    /// `raw`: without escaping, where there is any.
    pub(crate) fn text(&mut self, text: &str, raw: bool) {
        if text.is_empty() {
            return;
        }
        self.flush();
        self.nodes += 1;
        self.bytes += text.len() as u64;
        match &mut self.target {
            Target::Bytes(serializer) => serializer.text(text, raw),
            Target::Tree(builder) => self.full |= builder.text(text).is_err(),
            Target::Text(kept) => kept.push_str(text),
        }
    }

    /// `--` is kept apart by a space (XSLT 1.0, 7.4).
    pub(crate) fn comment(&mut self, text: &str) {
        self.flush();
        self.nodes += 1;
        self.bytes += text.len() as u64;
        let fixed = spaced(text, '-', '-');
        match &mut self.target {
            Target::Bytes(serializer) => serializer.comment(&fixed),
            Target::Tree(builder) => self.full |= builder.comment(&fixed).is_err(),
            Target::Text(_) => {}
        }
    }

    /// `?>` is kept apart by a space (XSLT 1.0, 7.3).
    pub(crate) fn instruction(&mut self, target: &str, text: &str) {
        self.flush();
        self.nodes += 1;
        self.bytes += (target.len() + text.len()) as u64;
        let fixed = spaced(text.trim_start(), '?', '>');
        match &mut self.target {
            Target::Bytes(serializer) => serializer.instruction(target, &fixed),
            Target::Tree(builder) => self.full |= builder.instruction(target, &fixed).is_err(),
            Target::Text(_) => {}
        }
    }

    pub(crate) fn end(&mut self) {
        self.flush();
        let Some(open) = self.open.pop() else { return };
        match &mut self.target {
            Target::Bytes(serializer) => {
                serializer.end(self.pieces.prefix(open.name), self.pieces.local(open.name));
            }
            Target::Tree(builder) => self.full |= builder.end().is_err(),
            Target::Text(_) => {}
        }
        self.scope.truncate(open.scope as usize);
        self.pieces.truncate(open.pieces);
    }

    /// The kept text; empty for other targets.
    pub(crate) fn into_text(self) -> String {
        match self.target {
            Target::Text(text) => text,
            Target::Bytes(_) | Target::Tree(_) => String::new(),
        }
    }

    /// The tree; an empty one for other targets.
    pub(crate) fn into_tree(mut self) -> Document {
        self.flush();
        match self.target {
            Target::Tree(builder) => builder.finish(),
            Target::Bytes(_) | Target::Text(_) => Builder::new().finish(),
        }
    }

    /// The serializer, all written; none for other targets.
    pub(crate) fn into_serializer(mut self) -> Option<Serializer> {
        self.flush();
        match self.target {
            Target::Bytes(serializer) => Some(*serializer),
            Target::Tree(_) | Target::Text(_) => None,
        }
    }

    fn flush(&mut self) {
        if !self.pending {
            return;
        }
        self.pending = false;
        let pieces = self.pieces.end();
        let scope = u32::try_from(self.scope.len()).unwrap_or(u32::MAX);
        self.fix_namespaces();
        let t = &self.tag;
        let (prefix, local) = (t.pieces.prefix(t.name), t.pieces.local(t.name));
        let name = self.pieces.push(prefix, local, "", "");
        self.open.push(Open { origin: self.origin, name, scope, pieces });
        match &mut self.target {
            Target::Bytes(serializer) => serializer.start(&self.tag),
            Target::Tree(builder) => self.full |= build(builder, &self.tag).is_err(),
            Target::Text(_) => {}
        }
    }

    /// Leaves in the tag exactly the namespaces that have to be declared there, and gives each attribute a prefix that
    /// means its namespace. The scope gets the declarations.
    fn fix_namespaces(&mut self) {
        let asked = std::mem::take(&mut self.tag.namespaces);
        let local = self.scope.len();
        let name = self.tag.name;
        self.bind(name, local);
        for piece in asked.iter().copied() {
            let pieces = &self.tag.pieces;
            let (prefix, uri) = (pieces.prefix(piece), pieces.uri(piece));
            if find(&self.scope, &self.pieces, prefix) == Some(uri)
                || (prefix.is_empty() && self.tag.pieces.uri(name).is_empty())
                || (prefix == self.tag.pieces.prefix(name))
                || declared(&self.scope, local, &self.pieces, prefix)
                || (uri.is_empty() && find(&self.scope, &self.pieces, prefix).is_none())
            {
                continue;
            }
            self.declare(piece);
        }
        for at in 0..self.tag.attributes.len() {
            self.fix_attribute(at, local);
        }
        let mut list = asked;
        list.clear();
        // What the scope gained is what is declared here.
        for piece in self.scope.get(local..).unwrap_or_default().iter().copied() {
            let (prefix, uri) = (self.pieces.prefix(piece), self.pieces.uri(piece));
            list.push(self.tag.pieces.push(prefix, "", uri, ""));
        }
        self.tag.namespaces = list;
    }

    /// Declares the prefix and namespace of a name unless they are in scope.
    fn bind(&mut self, piece: Piece, local: usize) {
        let (prefix, uri) = (self.tag.pieces.prefix(piece), self.tag.pieces.uri(piece));
        if prefix == "xml" || uri == XML_NAMESPACE {
            return;
        }
        match find(&self.scope, &self.pieces, prefix) {
            Some(found) if found == uri => {}
            None if uri.is_empty() && prefix.is_empty() => {}
            _ if declared(&self.scope, local, &self.pieces, prefix) => {}
            _ => self.declare(piece),
        }
    }

    fn declare(&mut self, piece: Piece) {
        let (prefix, uri) = (self.tag.pieces.prefix(piece), self.tag.pieces.uri(piece));
        let kept = self.pieces.push(prefix, "", uri, "");
        self.scope.push(kept);
    }

    fn fix_attribute(&mut self, at: usize, local: usize) {
        let Some(piece) = self.tag.attributes.get(at).copied() else { return };
        let pieces = &self.tag.pieces;
        let (prefix, uri) = (pieces.prefix(piece), pieces.uri(piece));
        if prefix.is_empty() && uri.is_empty() || uri == XML_NAMESPACE {
            return;
        }
        if uri.is_empty() {
            return self.rename(at, "");
        }
        if !prefix.is_empty() {
            match find(&self.scope, &self.pieces, prefix) {
                Some(found) if found == uri => return,
                _ if prefix != "xmlns"
                    && prefix != "xml"
                    && !declared(&self.scope, local, &self.pieces, prefix)
                    && !self.used(prefix, at) =>
                {
                    return self.bind(piece, local);
                }
                _ => {}
            }
        }
        // Another prefix that means it and is not shadowed, or a new one.
        let other = self.scope.iter().rev().map(|p| (self.pieces.prefix(*p), self.pieces.uri(*p)));
        let mut fitting = other.filter(|(p, u)| {
            !p.is_empty() && *u == uri && find(&self.scope, &self.pieces, p) == Some(uri)
        });
        if let Some((found, _)) = fitting.next() {
            let found = found.to_owned();
            return self.rename(at, &found);
        }
        let fresh = (0u32..)
            .map(|n| format!("ns{n}"))
            .find(|p| find(&self.scope, &self.pieces, p).is_none() && !self.used(p, at));
        let fresh = fresh.unwrap_or_default();
        let uri = uri.to_owned();
        let kept = self.pieces.push(&fresh, "", &uri, "");
        self.scope.push(kept);
        self.rename(at, &fresh);
    }

    /// Whether the element's name or an attribute before `at` relies on a prefix.
    fn used(&self, prefix: &str, at: usize) -> bool {
        let before = self.tag.attributes.get(..at).unwrap_or_default();
        self.tag.pieces.prefix(self.tag.name) == prefix
            || before.iter().any(|p| self.tag.pieces.prefix(*p) == prefix)
    }

    fn rename(&mut self, at: usize, prefix: &str) {
        let Some(piece) = self.tag.attributes.get(at).copied() else { return };
        let pieces = &mut self.tag.pieces;
        let (local, uri) = (pieces.local(piece).to_owned(), pieces.uri(piece).to_owned());
        let value = pieces.value(piece).to_owned();
        let renamed = pieces.push(prefix, &local, &uri, &value);
        if let Some(place) = self.tag.attributes.get_mut(at) {
            *place = renamed;
        }
    }
}

/// What a prefix means; none where it is not declared.
fn find<'a>(scope: &[Piece], pieces: &'a Pieces, prefix: &str) -> Option<&'a str> {
    let found = scope.iter().rev().find(|piece| pieces.prefix(**piece) == prefix);
    found.map(|piece| pieces.uri(*piece))
}

/// Whether a prefix is declared on the element whose declarations begin at `local`.
fn declared(scope: &[Piece], local: usize, pieces: &Pieces, prefix: &str) -> bool {
    let own = scope.get(local..).unwrap_or_default();
    own.iter().any(|piece| pieces.prefix(*piece) == prefix)
}

fn build(builder: &mut Builder, tag: &Tag) -> Result<(), BuildError> {
    let pieces = &tag.pieces;
    builder.start(pieces.prefix(tag.name), pieces.local(tag.name), pieces.uri(tag.name))?;
    for piece in &tag.namespaces {
        builder.declare(pieces.prefix(*piece), pieces.uri(*piece))?;
    }
    for piece in &tag.attributes {
        let (prefix, local) = (pieces.prefix(*piece), pieces.local(*piece));
        builder.attribute(prefix, local, pieces.uri(*piece), pieces.value(*piece))?;
    }
    Ok(())
}

/// Puts a space between `first` and `second`, and after a `-` at the end.
fn spaced(text: &str, first: char, second: char) -> std::borrow::Cow<'_, str> {
    let mut pair = [0; 8];
    let end = first.encode_utf8(&mut pair).len();
    let rest = pair.get_mut(end..).map_or(0, |rest| second.encode_utf8(rest).len());
    let pair = pair.get(..end + rest).and_then(|p| std::str::from_utf8(p).ok()).unwrap_or_default();
    let touches = text.contains(pair) || first == '-' && text.ends_with('-');
    if !touches {
        return text.into();
    }
    let mut fixed = String::with_capacity(text.len() + 8);
    let mut before = None;
    for c in text.chars() {
        if before == Some(first) && c == second {
            fixed.push(' ');
        }
        fixed.push(c);
        before = Some(c);
    }
    if first == '-' && before == Some('-') {
        fixed.push(' ');
    }
    fixed.into()
}
