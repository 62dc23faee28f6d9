//! Serialises events to bytes with the methods `xml` and `text`. Module `html` handles the third method.

use xml::Transcript;

use super::html_elements::{self, ContentModel};
use super::tag::Tag;
use super::{Encoding, Method, OutputSettings, Style, encode, escape};

/// Initial capacity for open elements.
const ROOM_OPEN: usize = 16;

/// Serializer of one result.
#[derive(Debug)]
pub(crate) struct Serializer {
    pub(super) out: Vec<u8>,
    pub(super) settings: OutputSettings,
    /// The output method, or `None` until the first element or text determines it (XSLT 1.0, 16).
    method: Option<Method>,
    /// White space, comments and instructions before that.
    early: Vec<PrologNode>,
    pub(super) open: Vec<Open>,
    /// Whether the last start tag still lacks its `>`.
    tag_open: bool,
    /// Text of a CDATA section, which may arrive in several pieces.
    section: String,
    pub(super) indent: bool,
    pub(super) last: char,
    /// Whether the first element has been started.
    pub(super) root_written: bool,
    /// Whether declarations that undeclare the default namespace are left out.
    pub(super) strips_empty_namespaces: bool,
    /// The transcript of the output, if one is requested and possible.
    transcript: Option<Transcript>,
    /// Escaping rules of text and of attribute values.
    places: [&'static escape::EscapeRules; 2],
}

/// State of an open element.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Open {
    /// Whether the element has text, so that nothing in it may be indented.
    pub(super) mixed: bool,
    pub(super) children: bool,
    pub(super) cdata: bool,
    pub(super) html: ContentModel,
    /// Range of the name in the output, for the end tag.
    pub(super) name: (usize, usize),
}

#[derive(Debug)]
enum PrologNode {
    Text(String, bool),
    Comment(String),
    Instruction(String, String),
}

impl Serializer {
    pub(crate) fn new(settings: OutputSettings, capacity: usize) -> Serializer {
        let places = match settings.style {
            Style::Plain => [&escape::TEXT, &escape::ATTRIBUTE],
            Style::Canonical => [&escape::CANONICAL_TEXT, &escape::CANONICAL_ATTRIBUTE],
        };
        let mut serializer = Serializer {
            out: Vec::with_capacity(capacity),
            method: None,
            early: Vec::new(),
            open: Vec::with_capacity(ROOM_OPEN),
            tag_open: false,
            section: String::new(),
            indent: false,
            last: settings.last(),
            root_written: false,
            strips_empty_namespaces: false,
            transcript: None,
            places,
            settings,
        };
        if let Some(method) = serializer.settings.method {
            serializer.decide(method);
        }
        serializer
    }

    /// Leaves out each ` xmlns=""`.
    pub(crate) fn strip_empty_namespaces(&mut self) {
        self.strips_empty_namespaces = true;
    }

    /// Starts a transcript, if the settings allow plain output.
    pub(crate) fn transcribe(&mut self) {
        let settings = &self.settings;
        let utf8 = settings.encoding_name.as_ref().is_none_or(|name| {
            name.eq_ignore_ascii_case("utf-8") && settings.encoding == Some(Encoding::Utf8)
        });
        let is_as_meant = settings.doctype_public.is_none()
            && settings.doctype_system.is_none()
            && settings.cdata_sections.is_empty()
            && settings.indent != Some(true)
            && self.last == char::MAX;
        if utf8 && is_as_meant && matches!(self.method, None | Some(Method::Xml)) {
            self.transcript = Some(Transcript::default());
        }
    }

    /// Gives up the transcript, because what follows cannot be recorded.
    pub(crate) fn forget_transcript(&mut self) {
        self.transcript = None;
    }

    /// Takes over the state of another serializer, which must have the same settings and a known method.
    pub(crate) fn copy_from(&mut self, other: &Serializer) {
        self.forget_transcript();
        self.strips_empty_namespaces = other.strips_empty_namespaces;
        self.out.clone_from(&other.out);
        self.method = other.method;
        self.open.clone_from(&other.open);
        self.tag_open = other.tag_open;
        self.section.clone_from(&other.section);
        self.indent = other.indent;
        self.last = other.last;
        self.root_written = other.root_written;
    }

    /// Copies the serializer with its state. Returns `None` while the method is unknown.
    pub(crate) fn copy(&self) -> Option<Serializer> {
        self.method?;
        let mut copy = Serializer::new(self.settings.clone(), self.out.len());
        copy.copy_from(self);
        Some(copy)
    }

    /// Returns the bytes in the output encoding, the method, and the transcript of the bytes if there is one.
    /// The error is a character that the encoding lacks, in a place where references are not allowed.
    pub(crate) fn finish(mut self) -> Result<(Vec<u8>, Method, Option<Transcript>), char> {
        let method = self.method.unwrap_or(Method::Xml);
        if self.method.is_none() {
            self.decide(method);
        }
        self.end_section();
        let encoding = self.settings.encoding.unwrap_or(Encoding::Utf8);
        let transcript = self.transcript.and_then(|notes| notes.complete(self.out.len()));
        Ok((encode::encode(self.out, encoding)?, method, transcript))
    }

    /// Writes a start tag with its namespace declarations.
    pub(crate) fn start<'a>(
        &mut self,
        tag: &Tag,
        declared: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let pieces = &tag.pieces;
        let (prefix, local) = (pieces.prefix(tag.name), pieces.local(tag.name));
        let uri = pieces.uri(tag.name);
        if self.method.is_none() {
            let html = uri.is_empty() && local.eq_ignore_ascii_case("html");
            self.decide(if html { Method::Html } else { Method::Xml });
        }
        match self.method {
            Some(Method::Text) => return,
            Some(Method::Html) if uri.is_empty() => return self.start_html(tag, declared),
            Some(Method::Html | Method::Xml) | None => {}
        }
        self.close_tag();
        self.doctype(prefix, local);
        self.break_line(false);
        let cdata = !self.settings.cdata_sections.is_empty()
            && self.settings.cdata_sections.iter().any(|(u, l)| **u == *uri && **l == *local);
        let name = self.begin_tag(prefix, local);
        self.open.push(Open { cdata, name, ..Open::default() });
        self.declarations(declared);
        for piece in &tag.attributes {
            self.out.push(b' ');
            let prefix = pieces.prefix(*piece);
            let name = self.name(prefix, pieces.local(*piece));
            self.out.extend_from_slice(b"=\"");
            let from = self.out.len();
            let value = pieces.value(*piece);
            self.value(value);
            if let Some(notes) = &mut self.transcript {
                if self.out.len() - from == value.len() {
                    notes.attribute(name, prefix.len(), (from, self.out.len()))
                } else {
                    self.transcript = None
                }
            }
            self.out.push(b'"');
        }
        self.tag_begun();
    }

    /// Returns whether elements need no special treatment: the method is XML, and there are no CDATA elements.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.method == Some(Method::Xml) && self.settings.cdata_sections.is_empty()
    }

    /// Returns all bytes written, if they are XML in UTF-8 without CDATA sections, so that text without special characters is unchanged.
    pub(crate) fn plainly_written(&self) -> Option<&[u8]> {
        let encoding = self.settings.encoding.unwrap_or(Encoding::Utf8);
        let utf8 = encoding == Encoding::Utf8 && self.last == char::MAX;
        (self.is_plain() && utf8).then_some(&self.out)
    }

    /// Restores a written result with different texts in the given ranges.
    pub(crate) fn fill<'t>(
        &mut self,
        written: &[u8],
        texts: impl Iterator<Item = ((usize, usize), &'t str)>,
    ) {
        self.forget_transcript();
        self.method = Some(Method::Xml);
        self.early.clear();
        self.open.clear();
        self.tag_open = false;
        self.out.clear();
        let mut at = 0;
        for ((from, to), text) in texts {
            self.out.extend_from_slice(written.get(at..from).unwrap_or_default());
            self.out.extend_from_slice(text.as_bytes());
            at = to;
        }
        self.out.extend_from_slice(written.get(at..).unwrap_or_default());
    }

    /// Writes a start tag without attributes, if elements need no special treatment.
    pub(crate) fn start_plain<'a>(
        &mut self,
        prefix: &str,
        local: &str,
        declared: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        self.close_tag();
        self.doctype(prefix, local);
        self.break_line(false);
        let name = self.begin_tag(prefix, local);
        self.open.push(Open { name, ..Open::default() });
        self.declarations(declared);
        self.tag_begun();
    }

    /// Writes the beginning of a start tag, and returns the range of its name.
    #[inline]
    fn begin_tag(&mut self, prefix: &str, local: &str) -> (usize, usize) {
        if let Some(notes) = &mut self.transcript {
            notes.start(self.out.len(), prefix, local);
        }
        self.out.push(b'<');
        self.name(prefix, local)
    }

    /// Ends a start tag except for its `>`.
    #[inline]
    fn tag_begun(&mut self) {
        self.tag_open = true;
        if let Some(notes) = &mut self.transcript {
            notes.started(&self.out);
        }
    }

    pub(crate) fn end(&mut self) {
        if self.method == Some(Method::Text) {
            return;
        }
        self.end_section();
        // Harmless: each end has a start.
        let open = self.open.pop().unwrap_or_default();
        if open.html != ContentModel::Foreign {
            return self.end_html(open);
        }
        if self.tag_open {
            self.tag_open = false;
            if !self.is_canonical() {
                self.note_end(true);
                return self.out.extend_from_slice(b"/>");
            }
            self.out.push(b'>');
        }
        if self.indent && open.children && !open.mixed {
            self.line(self.open.len());
        }
        self.note_end(false);
        self.end_tag(open);
    }

    #[inline]
    fn note_end(&mut self, empty: bool) {
        if let Some(notes) = &mut self.transcript {
            notes.end(self.out.len(), empty);
        }
    }

    /// Writes the end tag with the name of the start tag.
    pub(super) fn end_tag(&mut self, open: Open) {
        self.out.extend_from_slice(b"</");
        let (from, to) = open.name;
        if from <= to && to <= self.out.len() {
            self.out.extend_from_within(from..to);
        }
        self.out.push(b'>');
    }

    pub(crate) fn text(&mut self, text: &str, raw: bool) {
        match self.method {
            None if text.trim_matches([' ', '\t', '\r', '\n']).is_empty() => {
                return self.early.push(PrologNode::Text(text.to_owned(), raw));
            }
            None => self.decide(Method::Xml),
            Some(Method::Text) => return self.out.extend_from_slice(text.as_bytes()),
            Some(Method::Xml | Method::Html) => {}
        }
        self.close_tag();
        let last = self.last;
        let html = self.method == Some(Method::Html);
        let raw = raw && !self.is_canonical();
        let [place, _] = self.places;
        let from = self.out.len();
        let Some(open) = self.open.last_mut() else {
            self.transcript = None;
            return if raw {
                self.out.extend_from_slice(text.as_bytes())
            } else {
                place.write(text, last, &mut self.out)
            };
        };
        open.mixed = true;
        if raw || open.html == ContentModel::Raw {
            self.end_section();
            self.out.extend_from_slice(text.as_bytes());
        } else if open.cdata {
            self.section.push_str(text)
        } else if html {
            html_elements::text(text, last, &mut self.out)
        } else {
            place.write(text, last, &mut self.out)
        }
        if let Some(notes) = &mut self.transcript {
            if !raw && self.out.len() - from == text.len() {
                notes.text(from, self.out.len())
            } else {
                self.transcript = None
            }
        }
    }

    fn value(&mut self, value: &str) {
        let [_, place] = self.places;
        place.write(value, self.last, &mut self.out);
    }

    pub(crate) fn comment(&mut self, text: &str) {
        self.forget_transcript();
        match self.method {
            None => return self.early.push(PrologNode::Comment(text.to_owned())),
            Some(Method::Text) => return,
            Some(Method::Xml | Method::Html) => {}
        }
        self.end_section();
        self.close_tag();
        if self.is_canonical() {
            return self.canonical_leaf(["<!--", text, "", "-->"]);
        }
        self.break_line(false);
        self.out.extend_from_slice(b"<!--");
        self.out.extend_from_slice(text.as_bytes());
        self.out.extend_from_slice(b"-->");
    }

    pub(crate) fn instruction(&mut self, target: &str, text: &str) {
        self.forget_transcript();
        let close: &[u8] = match self.method {
            None => {
                return self
                    .early
                    .push(PrologNode::Instruction(target.to_owned(), text.to_owned()));
            }
            Some(Method::Text) => return,
            Some(Method::Xml) => b"?>",
            Some(Method::Html) => b">",
        };
        self.end_section();
        self.close_tag();
        if self.is_canonical() {
            let space = if text.is_empty() { "" } else { " " };
            return self.canonical_leaf(["<?", target, &format!("{space}{text}"), "?>"]);
        }
        self.break_line(false);
        self.out.extend_from_slice(b"<?");
        self.out.extend_from_slice(target.as_bytes());
        if !text.is_empty() {
            self.out.push(b' ');
            self.out.extend_from_slice(text.as_bytes());
        }
        self.out.extend_from_slice(close);
    }

    /// Sets the method, and writes the declaration and everything that came before.
    fn decide(&mut self, method: Method) {
        self.method = Some(method);
        self.indent = match method {
            Method::Xml => self.settings.indent.unwrap_or(false) && !self.is_canonical(),
            Method::Html => self.settings.indent.unwrap_or(true),
            Method::Text => false,
        };
        match method {
            Method::Xml => self.declaration(),
            Method::Html | Method::Text => self.forget_transcript(),
        }
        for early in std::mem::take(&mut self.early) {
            match early {
                PrologNode::Text(text, raw) => self.text(&text, raw),
                PrologNode::Comment(text) => self.comment(&text),
                PrologNode::Instruction(target, text) => self.instruction(&target, &text),
            }
        }
    }

    fn declaration(&mut self) {
        if self.settings.omit_declaration == Some(true) {
            return;
        }
        if self.is_canonical() {
            return self.canonical_declaration();
        }
        let encoding = self.settings.encoding.unwrap_or(Encoding::Utf8).name();
        self.out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"");
        self.out.extend_from_slice(encoding.as_bytes());
        self.out.push(b'"');
        if let Some(standalone) = self.settings.standalone {
            let word: &[u8] = if standalone { b"yes" } else { b"no" };
            self.out.extend_from_slice(b" standalone=\"");
            self.out.extend_from_slice(word);
            self.out.push(b'"');
        }
        self.out.extend_from_slice(b"?>\n");
    }

    /// Writes the document type before the first element.
    #[inline]
    pub(super) fn doctype(&mut self, prefix: &str, local: &str) {
        if !self.root_written {
            self.root_written = true;
            self.write_doctype(prefix, local);
        }
    }

    fn write_doctype(&mut self, prefix: &str, local: &str) {
        let settings = self.settings.clone();
        let (public, system) = (&settings.doctype_public, &settings.doctype_system);
        let html = self.method == Some(Method::Html);
        if system.is_none() && !(html && public.is_some()) {
            return;
        }
        self.out.extend_from_slice(b"<!DOCTYPE ");
        self.name(prefix, local);
        match public {
            Some(public) => {
                self.out.extend_from_slice(b" PUBLIC ");
                self.quoted(public);
            }
            None => self.out.extend_from_slice(b" SYSTEM"),
        }
        if let Some(system) = system {
            self.out.push(b' ');
            self.quoted(system);
        }
        self.out.extend_from_slice(b">\n");
    }

    fn quoted(&mut self, literal: &str) {
        let quote = if literal.contains('"') { b'\'' } else { b'"' };
        self.out.push(quote);
        self.out.extend_from_slice(literal.as_bytes());
        self.out.push(quote);
    }

    pub(super) fn declarations<'a>(&mut self, declared: impl Iterator<Item = (&'a str, &'a str)>) {
        for (prefix, uri) in declared {
            if self.strips_empty_namespaces && prefix.is_empty() && uri.is_empty() {
                continue;
            }
            self.out.extend_from_slice(b" xmlns");
            if !prefix.is_empty() {
                self.out.push(b':');
                self.out.extend_from_slice(prefix.as_bytes());
            }
            self.out.extend_from_slice(b"=\"");
            let from = self.out.len();
            self.value(uri);
            if let Some(notes) = &mut self.transcript {
                notes.declare(prefix, uri, self.out.len() - from == uri.len());
            }
            self.out.push(b'"');
        }
    }

    /// Writes a name and returns its range in the output.
    pub(super) fn name(&mut self, prefix: &str, local: &str) -> (usize, usize) {
        let from = self.out.len();
        if !prefix.is_empty() {
            self.out.extend_from_slice(prefix.as_bytes());
            self.out.push(b':');
        }
        self.out.extend_from_slice(local.as_bytes());
        (from, self.out.len())
    }

    #[inline]
    pub(super) fn close_tag(&mut self) {
        if self.tag_open {
            self.tag_open = false;
            self.out.push(b'>');
        }
    }

    #[inline]
    fn end_section(&mut self) {
        if !self.section.is_empty() {
            self.write_section();
        }
    }

    fn write_section(&mut self) {
        escape::cdata(&self.section, self.last, &mut self.out);
        self.section.clear();
    }

    /// Records that the open element has a child. Starts a new line for the child, if indentation is on, the element has no text, and the
    /// child is not inline.
    #[inline]
    pub(super) fn break_line(&mut self, inline: bool) {
        self.end_section();
        let depth = self.open.len();
        match self.open.last_mut() {
            Some(open) => {
                let mixed = open.mixed;
                open.children |= !inline;
                open.mixed |= inline;
                if self.indent && !mixed && !inline {
                    self.line(depth);
                }
            }
            None if self.indent && self.out.last().is_some_and(|byte| *byte != b'\n') => {
                self.out.push(b'\n');
            }
            None => {}
        }
    }

    pub(super) fn line(&mut self, depth: usize) {
        self.out.push(b'\n');
        // Limited, so that deep nesting does not produce a quadratic amount of white space.
        self.out.resize(self.out.len() + 2 * depth.min(64), b' ');
    }
}
