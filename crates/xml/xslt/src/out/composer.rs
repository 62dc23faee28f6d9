//! Builds a result: holds a start tag back until its attributes are complete, and fixes its namespaces.

use std::cell::RefCell;

use xml::{BuildError, Builder, Document, XML_NAMESPACE};
use xpath::Node;

use super::Serializer;
use super::scope::Scope;
use super::tag::Tag;
use crate::error::{At, Error, ErrorKind};
use crate::limits::Budgets;

/// Size of a result from which on the process's memory is checked.
const LARGE_BYTES: u64 = 64 << 10;

/// Destination of a result.
#[derive(Debug)]
pub(crate) enum Target {
    Bytes(Box<Serializer>),
    Tree(Box<Builder>),
    /// Only text is kept, as the value of an attribute, a comment or an instruction.
    Text(String),
}

/// A result being built.
#[derive(Debug)]
pub(crate) struct Composer {
    target: Target,
    desk: Box<ComposerMemory>,
    /// Whether a start tag has not been written yet, so that attributes and namespaces may follow.
    pending: bool,
    nodes: u64,
    bytes: u64,
    /// Whether the tree has reached its size limit.
    full: bool,
}

/// Reusable memory of a composer.
#[derive(Debug, Default)]
struct ComposerMemory {
    tag: Tag,
    scope: Scope,
    open: Vec<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    /// The source node, if the element is a copy.
    origin: Option<Node>,
    /// Number of declarations in scope before those of the element.
    scope: usize,
}

/// Prefix for attributes that have a namespace but no prefix.
const PREFIX: &str = "ns_1";

/// Maximum amount of memory kept between results.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// Maximum number of results whose memory is kept. Results are rarely nested deeper than this.
const KEPT_MAX: usize = 4;

thread_local! {
    #[allow(clippy::vec_box, reason = "boxed memory moves between the pool and its composer without being copied")]
    static SPARE: RefCell<Vec<Box<ComposerMemory>>> = const { RefCell::new(Vec::new()) };
}

impl ComposerMemory {
    /// Takes empty memory, from the pool if there is some.
    fn take() -> Box<ComposerMemory> {
        // Harmless: a thread that is ending has no pool, so new memory is made.
        SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    /// Returns the memory to the pool.
    fn give(mut self: Box<ComposerMemory>) {
        let bytes =
            self.tag.capacity() + self.scope.capacity() + self.open.capacity() * size_of::<Open>();
        if bytes > KEPT_BYTES_MAX {
            return;
        }
        // Harmless: memory must be empty before it is returned.
        self.scope.truncate(0);
        self.open.clear();
        // Harmless: if the thread is ending, the memory is simply freed.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT_MAX {
                spare.push(self);
            }
        });
    }

    fn copy_from(&mut self, other: &ComposerMemory) {
        self.tag.copy_from(&other.tag);
        self.scope.copy_from(&other.scope);
        self.open.clone_from(&other.open);
    }

    /// Returns the index of the innermost element's first declaration.
    fn own(&self) -> usize {
        self.open.last().map_or(0, |open| open.scope)
    }

    /// Declares the prefix and namespace of the element's name, unless they are in scope.
    #[inline]
    fn bind(&mut self, prefix: &str, uri: &str) {
        match self.scope.find(prefix) {
            Some(found) if found == uri => {}
            None if uri.is_empty() && prefix.is_empty() => {}
            Some(_) | None if prefix == "xml" || uri == XML_NAMESPACE => {}
            Some(_) | None => self.scope.declare(prefix, uri),
        }
    }

    /// Declares a requested namespace, unless it is in scope or conflicts with the name or another declaration of the element.
    fn ask(&mut self, prefix: &str, uri: &str) {
        let pieces = &self.tag.pieces;
        let name = self.tag.name;
        if prefix == pieces.prefix(name) || (prefix.is_empty() && pieces.uri(name).is_empty()) {
            return;
        }
        match self.scope.find(prefix) {
            Some(found) if found == uri => return,
            Some(_) if self.scope.declares(self.own(), prefix) => return,
            None if uri.is_empty() => return,
            Some(_) | None => {}
        }
        self.scope.declare(prefix, uri);
    }

    /// Gives an attribute a prefix bound to its namespace.
    fn fix_attribute(&mut self, at: usize) {
        let Some(piece) = self.tag.attributes.get(at).copied() else { return };
        let pieces = &self.tag.pieces;
        let (prefix, uri) = (pieces.prefix(piece), pieces.uri(piece));
        match (prefix, uri) {
            ("", "") | ("xml", XML_NAMESPACE) => return,
            (_, XML_NAMESPACE) => return self.rename(at, "xml"),
            // Harmless: the code below handles all other names.
            _ => {}
        }
        if uri.is_empty() {
            return self.rename(at, "");
        }
        // An attribute without a prefix gets the one that libxslt would choose.
        let (wanted, is_named) = match prefix {
            "" => (PREFIX, false),
            prefix => (prefix, true),
        };
        let free = wanted != "xmlns"
            && wanted != "xml"
            && !self.scope.declares(self.own(), wanted)
            && !self.used(wanted, at);
        if free && !self.scope.means(wanted, uri) {
            self.scope.declare(wanted, uri);
        }
        match (self.scope.means(wanted, uri), is_named) {
            (true, true) => return,
            (true, false) => return self.rename(at, PREFIX),
            (false, _) => {}
        }
        // Uses another visible prefix with that namespace, or a new one.
        let mut others = self.scope.since(0).rev();
        let fitting = others.find(|(p, u)| !p.is_empty() && *u == uri && self.scope.means(p, uri));
        if let Some((found, _)) = fitting {
            let found = found.to_owned();
            drop(others);
            return self.rename(at, &found);
        }
        drop(others);
        let fresh = (1u32..)
            .map(|n| format!("{wanted}_{n}"))
            .find(|p| self.scope.find(p).is_none() && !self.used(p, at));
        // Harmless: one of the numbers is always free.
        let fresh = fresh.unwrap_or_default();
        self.scope.declare(&fresh, self.tag.pieces.uri(piece));
        self.rename(at, &fresh);
    }

    /// Returns whether the element's name or an attribute before `at` uses a prefix.
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

impl Composer {
    pub(crate) fn new(target: Target) -> Composer {
        let desk = ComposerMemory::take();
        Composer { target, desk, pending: false, nodes: 0, bytes: 0, full: false }
    }

    /// Copies the composer with its state, if it writes bytes and the output method is known.
    pub(crate) fn copy(&self) -> Option<Composer> {
        let Target::Bytes(serializer) = &self.target else { return None };
        let target = Target::Bytes(Box::new(serializer.copy()?));
        let mut copy = Composer { target, desk: Box::default(), ..*self };
        copy.desk.copy_from(&self.desk);
        Some(copy)
    }

    /// Takes over the state of another composer, which must write bytes with the same settings.
    pub(crate) fn copy_from(&mut self, other: &Composer) {
        if let (Target::Bytes(own), Target::Bytes(others)) = (&mut self.target, &other.target) {
            own.copy_from(others);
        }
        self.desk.copy_from(&other.desk);
        self.pending = other.pending;
        self.nodes = other.nodes;
        self.bytes = other.bytes;
        self.full = other.full;
    }

    /// Returns the range of the last text, if it was written unchanged and nothing was written after it.
    pub(crate) fn last_written(&self, text: &str) -> Option<(usize, usize)> {
        let written = self.plainly_written()?;
        let from = written.len().checked_sub(text.len())?;
        written.ends_with(text.as_bytes()).then_some((from, written.len()))
    }

    /// Returns all bytes written, if they are plain XML in UTF-8.
    pub(crate) fn written(&mut self) -> Option<&[u8]> {
        self.flush();
        self.plainly_written()
    }

    fn plainly_written(&self) -> Option<&[u8]> {
        let Target::Bytes(serializer) = &self.target else { return None };
        serializer.plainly_written().filter(|_| !self.pending)
    }

    /// Restores a written result with different texts in the given ranges, which must be in order.
    pub(crate) fn fill<'t>(
        &mut self,
        written: &[u8],
        texts: impl Iterator<Item = ((usize, usize), &'t str)>,
    ) {
        self.pending = false;
        if let Target::Bytes(serializer) = &mut self.target {
            serializer.fill(written, texts);
        }
    }

    /// Gives up the transcript, because what follows cannot be recorded.
    #[inline]
    pub(crate) fn forget_transcript(&mut self) {
        if let Target::Bytes(serializer) = &mut self.target {
            serializer.forget_transcript();
        }
    }

    /// Returns the number of nodes written so far.
    pub(crate) fn nodes(&self) -> u64 {
        self.nodes
    }

    /// Returns the bytes of names, declarations, attribute values and text written so far, before escaping.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the result exceeds these numbers of nodes or bytes, is a tree that is full, or is large while there is no memory for
    /// more.
    #[inline]
    pub(crate) fn is_over(&self, nodes: u64, bytes: u64) -> bool {
        self.nodes > nodes
            || self.bytes > bytes
            || self.full
            || self.bytes > LARGE_BYTES && !kit::memory::has_room(0)
    }

    /// Returns the error for a result that [`Composer::is_over`].
    #[cold]
    pub(crate) fn over(&self, nodes: u64, bytes: u64, budgets: &Budgets) -> Error {
        let memory = |what: &str| Error::new(ErrorKind::Dynamic(what.into()), At::default());
        if self.nodes > nodes {
            Error::limit("nodes_max", budgets.nodes_max, At::default())
        } else if self.bytes > bytes {
            Error::limit("output_bytes_max", budgets.output_bytes_max, At::default())
        } else if self.full {
            memory("a result tree fragment is larger than a tree may be, or than the memory left")
        } else {
            memory("there is no memory for a larger result")
        }
    }

    /// Returns the number of namespace declarations in scope.
    #[inline]
    pub(crate) fn declared_len(&self) -> usize {
        self.desk.scope.len()
    }

    /// Returns the source node of the innermost open element, if it is a copy.
    #[inline]
    pub(crate) fn origin(&self) -> Option<Node> {
        self.desk.open.last().and_then(|open| open.origin)
    }

    /// Returns whether results are written in the canonical form of libxslt-based gateways.
    #[inline]
    pub(crate) fn is_canonical(&self) -> bool {
        match &self.target {
            Target::Bytes(serializer) => serializer.is_canonical(),
            Target::Tree(_) | Target::Text(_) => false,
        }
    }

    /// Sets the source node of the element just started.
    #[inline]
    pub(crate) fn copied_from(&mut self, node: Node) {
        if let Some(open) = self.desk.open.last_mut().filter(|_| self.pending) {
            open.origin = Some(node);
        }
    }

    #[inline]
    pub(crate) fn start(&mut self, prefix: &str, local: &str, uri: &str) {
        self.flush();
        self.nodes += 1;
        self.bytes += (prefix.len() + local.len()) as u64;
        // If only text is wanted, an element contributes only its content, which is how other processors recover too.
        if let Target::Text(_) = self.target {
            return;
        }
        self.desk.tag.begin(prefix, local, uri);
        let scope = self.desk.scope.len();
        self.desk.open.push(Open { origin: None, scope });
        self.desk.bind(prefix, uri);
        self.pending = true;
    }

    /// Starts an element without attributes and declarations of its own. `origin` is the source node if the element is a copy.
    #[inline]
    pub(crate) fn start_plain(
        &mut self,
        prefix: &str,
        local: &str,
        uri: &str,
        origin: Option<Node>,
    ) {
        self.flush();
        let serializer = match &mut self.target {
            Target::Bytes(serializer) if serializer.is_plain() => serializer,
            Target::Bytes(_) | Target::Tree(_) | Target::Text(_) => {
                self.start(prefix, local, uri);
                return origin.into_iter().for_each(|node| self.copied_from(node));
            }
        };
        self.nodes += 1;
        self.bytes += (prefix.len() + local.len()) as u64;
        let scope = self.desk.scope.len();
        self.desk.open.push(Open { origin, scope });
        self.desk.bind(prefix, uri);
        self.bytes += declared_bytes(self.desk.scope.since(scope));
        // There is at most one declaration, so there is nothing to sort.
        serializer.start_plain(prefix, local, self.desk.scope.since(scope));
    }

    /// Adds a namespace node to the element just started.
    #[inline]
    pub(crate) fn namespace(&mut self, prefix: &str, uri: &str) {
        if self.pending && prefix != "xml" {
            self.desk.ask(prefix, uri);
        }
    }

    /// Adds a namespace node that was requested explicitly. If the element has the same prefix for another namespace, the element gets
    /// another prefix.
    pub(crate) fn own_namespace(&mut self, prefix: &str, uri: &str) {
        if !self.pending || prefix == "xml" || prefix == "xmlns" {
            return;
        }
        let desk = &mut *self.desk;
        let (pieces, name) = (&mut desk.tag.pieces, desk.tag.name);
        if pieces.prefix(name) == prefix && pieces.uri(name) != uri {
            let (local, own) = (pieces.local(name).to_owned(), pieces.uri(name).to_owned());
            let fresh = match (prefix, own.is_empty()) {
                // A name without a namespace cannot have a prefix.
                (_, true) => return,
                ("", false) => "ns0".to_owned(),
                (prefix, false) => format!("{prefix}_0"),
            };
            desk.tag.name = pieces.push(&fresh, &local, &own, "");
            // All declarations of the element are repeated, except the one for its old prefix.
            let from = desk.own();
            let others = desk.scope.since(from).filter(|(known, _)| *known != prefix);
            let others: Vec<(String, String)> =
                others.map(|(prefix, uri)| (prefix.to_owned(), uri.to_owned())).collect();
            // Harmless: the other declarations are added again.
            desk.scope.truncate(from);
            desk.bind(&fresh, &own);
            for (prefix, uri) in others {
                desk.ask(&prefix, &uri);
            }
        }
        desk.ask(prefix, uri);
    }

    /// Adds an attribute to the element just started. An attribute that comes too late is dropped (XSLT 1.0, 7.1.3).
    pub(crate) fn attribute(&mut self, prefix: &str, local: &str, uri: &str, value: &str) {
        if self.pending {
            self.nodes += 1;
            self.bytes += (local.len() + value.len()) as u64;
            self.desk.tag.attribute(prefix, local, uri, value);
        }
    }

    /// Adds text. If `raw`, it is not escaped.
    #[inline]
    pub(crate) fn text(&mut self, text: &str, raw: bool) {
        if text.is_empty() {
            return;
        }
        self.nodes += 1;
        self.more_text(text, raw);
    }

    /// Appends text to the last node.
    #[inline]
    pub(crate) fn more_text(&mut self, text: &str, raw: bool) {
        self.flush();
        self.bytes += text.len() as u64;
        match &mut self.target {
            Target::Bytes(serializer) => serializer.text(text, raw),
            Target::Tree(builder) => self.full |= builder.text(text).is_err(),
            Target::Text(kept) => kept.push_str(text),
        }
    }

    /// Adds a comment; `--` is separated by a space (XSLT 1.0, 7.4).
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

    /// Adds an instruction; `?>` is separated by a space (XSLT 1.0, 7.3).
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
        let Some(open) = self.desk.open.pop() else { return };
        match &mut self.target {
            Target::Bytes(serializer) => serializer.end(),
            Target::Tree(builder) => self.full |= builder.end().is_err(),
            Target::Text(_) => {}
        }
        // Harmless: the declarations of an element end with it.
        self.desk.scope.truncate(open.scope);
    }

    /// Returns the kept text; empty for other targets.
    pub(crate) fn into_text(self) -> String {
        match self.into_target() {
            Target::Text(text) => text,
            Target::Bytes(_) | Target::Tree(_) => String::new(),
        }
    }

    /// Returns the tree; empty for other targets.
    pub(crate) fn into_tree(self) -> Document {
        match self.into_target() {
            Target::Tree(builder) => builder.finish(),
            Target::Bytes(_) | Target::Text(_) => Builder::new().finish(),
        }
    }

    /// Returns the serializer with everything written, or `None` for other targets.
    pub(crate) fn into_serializer(self) -> Option<Serializer> {
        match self.into_target() {
            Target::Bytes(serializer) => Some(*serializer),
            Target::Tree(_) | Target::Text(_) => None,
        }
    }

    fn into_target(mut self) -> Target {
        self.flush();
        self.desk.give();
        self.target
    }

    #[inline]
    fn flush(&mut self) {
        if self.pending {
            self.write_tag();
        }
    }

    fn write_tag(&mut self) {
        self.pending = false;
        let desk = &mut *self.desk;
        if desk.tag.qualified {
            for at in 0..desk.tag.attributes.len() {
                desk.fix_attribute(at);
            }
        }
        let own = desk.own();
        self.bytes += declared_bytes(desk.scope.since(own));
        match &mut self.target {
            Target::Bytes(serializer) => {
                if serializer.is_canonical() {
                    desk.scope.order(own);
                    desk.tag.order();
                }
                serializer.start(&desk.tag, desk.scope.since(own));
            }
            Target::Tree(builder) => {
                self.full |= build(builder, &desk.tag, desk.scope.since(own)).is_err();
            }
            Target::Text(_) => {}
        }
    }
}

/// Returns the bytes of declarations. A copy repeats those of its source, so they can be most of a result.
fn declared_bytes<'a>(declared: impl Iterator<Item = (&'a str, &'a str)>) -> u64 {
    declared.map(|(prefix, uri)| (prefix.len() + uri.len()) as u64).sum()
}

fn build<'a>(
    builder: &mut Builder,
    tag: &Tag,
    declared: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<(), BuildError> {
    let pieces = &tag.pieces;
    builder.start(pieces.prefix(tag.name), pieces.local(tag.name), pieces.uri(tag.name))?;
    for (prefix, uri) in declared {
        builder.declare(prefix, uri)?;
    }
    for piece in &tag.attributes {
        let (prefix, local) = (pieces.prefix(*piece), pieces.local(*piece));
        builder.attribute(prefix, local, pieces.uri(*piece), pieces.value(*piece))?;
    }
    Ok(())
}

/// Inserts a space between `first` and `second`, and after a `-` at the end.
fn spaced(text: &str, first: char, second: char) -> std::borrow::Cow<'_, str> {
    let mut pair = [0; 8];
    let end = first.encode_utf8(&mut pair).len();
    let rest = pair.get_mut(end..).map_or(0, |rest| second.encode_utf8(rest).len());
    // Harmless: two characters are valid UTF-8.
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
