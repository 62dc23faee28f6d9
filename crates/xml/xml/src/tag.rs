//! Start tags and end tags: names, attributes, namespace declarations.

use crate::chars::{
    is_space, same, skip_ascii_name, skip_name_chars, skip_ncname, skip_space, value_end,
};
use crate::machine::{Machine, OpenElement};
use crate::scope::{DeclareOutcome, NO_NAMESPACE};
use crate::sink::{Attributes, Piece, RawAttribute, Scope, qname};
use crate::stop::{Halt, Run, Scan, Stop, bad, over};
use crate::tag_cache::{TagBytes, TagSlot};
use crate::window::Window;
use crate::{ErrorKind, Sink, Start, XML_NAMESPACE, XMLNS_NAMESPACE};

const START: &str = "a start tag";
const END: &str = "an end tag";

/// A name as written.
#[derive(Clone, Copy)]
pub(crate) struct NameSpan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Length of the prefix; 0 if there is none.
    pub(crate) prefix_len: usize,
}

/// A start tag after reading it.
pub(crate) struct StartTag {
    pub(crate) name_len: usize,
    /// Length of the prefix of the name; 0 if there is none.
    pub(crate) prefix_len: usize,
    pub(crate) namespace: u32,
    pub(crate) tag: TagBytes,
    pub(crate) place: TagSlot,
    pub(crate) empty: bool,
    /// The offset after the tag.
    pub(crate) to: usize,
}

/// Reads an ASCII name with at most one colon, if the byte after it ends the name.
#[inline]
fn usual_name(bytes: &[u8], from: usize) -> Option<NameSpan> {
    let to = skip_ascii_name(bytes, from)?;
    match bytes.get(to)? {
        b':' => {
            let end = skip_ascii_name(bytes, to + 1)?;
            let ends = bytes.get(end).is_some_and(|byte| byte.is_ascii() && *byte != b':');
            ends.then_some(NameSpan { from, to: end, prefix_len: to - from })
        }
        byte => byte.is_ascii().then_some(NameSpan { from, to, prefix_len: 0 }),
    }
}

/// Returns the constraint of Namespaces in XML that a declaration violates, if any.
#[inline]
pub(crate) fn wrong_declaration(prefix: &str, uri: &str) -> Option<&'static str> {
    let reserved = [XML_NAMESPACE.len(), XMLNS_NAMESPACE.len(), 0].contains(&uri.len());
    if reserved || prefix.starts_with("xml") { wrong_reserved(prefix, uri) } else { None }
}

/// Like `wrong_declaration`, for a prefix or namespace that may be reserved.
fn wrong_reserved(prefix: &str, uri: &str) -> Option<&'static str> {
    match (prefix, uri) {
        ("xmlns", _) => Some("the prefix `xmlns` cannot be declared"),
        ("xml", XML_NAMESPACE) => None,
        ("xml", _) => Some("the prefix `xml` cannot be bound to another namespace"),
        (_, XML_NAMESPACE) => Some("only the prefix `xml` can be bound to the namespace of `xml`"),
        (_, XMLNS_NAMESPACE) => Some("nothing can be bound to the namespace of `xmlns`"),
        ("", "") => None,
        (_, "") => Some("a prefix cannot be undeclared in Namespaces 1.0"),
        (_, _) => None,
    }
}

impl Machine {
    #[inline(never)]
    pub(crate) fn start_tag<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let (spaces_len, scope) = (self.spaces.len(), self.scope);
        let read = self.read_start(window, at, spaces_len)?;
        let start = self.start(window, at, &read, spaces_len);
        sink.start(&start, self.here(window, at)).map_err(Halt::Sink)?;
        if read.empty {
            sink.end(start.name, self.here(window, at)).map_err(Halt::Sink)?;
            // Harmless: the declarations of the element end with it, or the tag is read again.
            self.spaces.truncate(spaces_len);
            self.scope = scope;
        } else {
            self.open.push(OpenElement {
                name_from: at + 1,
                name_len: read.name_len,
                prefix_len: read.prefix_len,
                namespace: read.namespace,
                spaces_len,
                scope,
                tag: read.tag,
            })
        }
        Ok(read.to)
    }

    /// Returns the event for a tag that was read.
    #[inline(always)]
    pub(crate) fn start<'a>(
        &'a self,
        window: &Window<'a>,
        at: usize,
        read: &StartTag,
        spaces_len: usize,
    ) -> Start<'a> {
        let name = window.get(at + 1, at + 1 + read.name_len);
        Start {
            name: qname(name, read.prefix_len, self.spaces.namespace(read.namespace)),
            attributes: Attributes {
                raw: &self.attributes,
                window: window.text,
                written: &self.written,
                spaces: &self.spaces,
            },
            scope: Scope { spaces: &self.spaces, from: spaces_len },
            empty: read.empty,
            place: read.place,
        }
    }

    /// Reads a whole start tag. Afterwards its namespace declarations are in scope.
    fn read_start(&mut self, window: &Window<'_>, at: usize, spaces_len: usize) -> Scan<StartTag> {
        let name = self.scan_name(window, at + 1, START)?;
        self.attributes.clear();
        self.written.clear();
        let bare = window.byte(name.to) == Some(b'>') && self.dtd.is_none();
        let (empty, to) = if bare {
            self.count_start(at)?;
            (false, name.to + 1)
        } else {
            self.scan_start(window, at, name, spaces_len)?
        };
        let namespace = match (self.options.namespaces, name.prefix_len) {
            (false, _) => NO_NAMESPACE,
            (true, 0) => self.spaces.default_namespace(),
            (true, len) => self.resolve(window.get(name.from, name.from + len), name.from)?,
        };
        if !self.attributes.is_empty() {
            self.resolve_attributes(window, at)?;
        }
        let name_len = name.to - name.from;
        let tag = TagBytes::of_name(window.text.as_bytes(), name.from, name_len);
        let place = if bare && crate::shortcuts() {
            self.tag_cache.keep(tag, name.prefix_len, namespace, self.scope)
        } else {
            TagSlot::Nowhere
        };
        Ok(StartTag { name_len, prefix_len: name.prefix_len, namespace, tag, place, empty, to })
    }

    /// Reads the rest of a tag after its name. Returns whether it is an empty-element tag, and the offset after it. Afterwards its
    /// namespace declarations are in scope.
    fn scan_start(
        &mut self,
        window: &Window<'_>,
        at: usize,
        name: NameSpan,
        spaces_len: usize,
    ) -> Scan<(bool, usize)> {
        let (tokens, expanded, scope) = (self.tokens, self.expanded, self.scope);
        let scanned = self.scan_rest(window, at, name, spaces_len);
        if scanned.is_err() {
            // The tag is read again once more of it has arrived.
            // Harmless: the declarations of the element end with it, or the tag is read again.
            self.spaces.truncate(spaces_len);
            self.scope = scope;
            self.tokens = tokens;
            self.expanded = expanded;
        }
        scanned
    }

    fn scan_rest(
        &mut self,
        window: &Window<'_>,
        at: usize,
        name: NameSpan,
        spaces_len: usize,
    ) -> Scan<(bool, usize)> {
        let bytes = window.text.as_bytes();
        let mut next = name.to;
        let (empty, to) = loop {
            let from = skip_space(bytes, next);
            match bytes.get(from) {
                Some(b'>') => break (false, from + 1),
                Some(b'/') => match bytes.get(from + 1) {
                    Some(b'>') => break (true, from + 2),
                    Some(_) => {
                        return Err(bad(from, "`/` has to be followed by `>` at the end of a tag"));
                    }
                    None => return Err(Stop::More(START)),
                },
                None => return Err(Stop::More(START)),
                Some(_) if from == next => {
                    let what = format!(
                        "{} is not allowed here: white space or the end of the tag is due",
                        window.found(from)
                    );
                    return Err(bad(from, what));
                }
                Some(_) => next = self.scan_attribute(window, from, spaces_len)?,
            }
        };
        self.count_start(at)?;
        if self.dtd.is_some() {
            self.apply_definitions(window, at, name, spaces_len)?;
        }
        Ok((empty, to))
    }

    /// Counts a start tag, and checks that its element does not exceed the limit on depth.
    #[inline]
    pub(crate) fn count_start(&mut self, at: usize) -> Scan<()> {
        self.token(at)?;
        let depth_max = self.options.limits.depth_max;
        if self.open.len() + self.passing.len() >= depth_max as usize {
            Err(over(at, "depth_max", depth_max))
        } else {
            Ok(())
        }
    }

    /// Reads a qualified name, by the rules of Namespaces in XML if enabled. The byte after it must be in the window.
    #[inline(always)]
    pub(crate) fn scan_name(
        &self,
        window: &Window<'_>,
        from: usize,
        what: &'static str,
    ) -> Scan<NameSpan> {
        if self.options.namespaces
            && let Some(name) = usual_name(window.text.as_bytes(), from)
            && name.to - from <= self.options.limits.name_bytes_max as usize
        {
            return Ok(name);
        }
        self.scan_odd_name(window, from, what)
    }

    /// Reads an unusual name, or reports that there is no name.
    #[inline(never)]
    fn scan_odd_name(
        &self,
        window: &Window<'_>,
        from: usize,
        what: &'static str,
    ) -> Scan<NameSpan> {
        if !self.options.namespaces {
            let to = self.name_end(window, from, what)?;
            return Ok(NameSpan { from, to, prefix_len: 0 });
        }
        let text = self.name_room(window, from);
        let mut to = skip_ncname(text, from);
        let mut prefix_len = 0;
        if window.byte(to) == Some(b':') && to > from {
            prefix_len = to - from;
            to = skip_ncname(text, to + 1);
        }
        self.fits_name(from, to)?;
        let ends_at_colon = prefix_len > 0 && to == from + prefix_len + 1;
        match window.byte(to) {
            None => Err(Stop::More(what)),
            Some(b':') => {
                Err(bad(to, "a name has one colon at most, between two names (Namespaces in XML)"))
            }
            Some(_) if to == from || ends_at_colon || to == from + prefix_len => Err(bad(
                to,
                format!("{what} needs a name, which cannot begin with {}", window.found(to)),
            )),
            Some(_) => Ok(NameSpan { from, to, prefix_len }),
        }
    }

    /// Reads `name="value"` and stores it as an attribute or a namespace declaration. Returns the offset after it.
    fn scan_attribute(
        &mut self,
        window: &Window<'_>,
        from: usize,
        spaces_len: usize,
    ) -> Scan<usize> {
        let bytes = window.text.as_bytes();
        let name = match self.declared_name(bytes, from) {
            Some(name) => name,
            None => self.scan_name(window, from, START)?,
        };
        let mut at = name.to;
        if bytes.get(at) != Some(&b'=') {
            at = skip_space(bytes, at);
        }
        match bytes.get(at) {
            Some(b'=') => at += 1,
            None => return Err(Stop::More(START)),
            Some(_) => {
                let what =
                    format!("the attribute `{}` needs `=` and a value", window.get(from, name.to));
                return Err(bad(at, what));
            }
        }
        let at = skip_space(bytes, at);
        let quote = match bytes.get(at) {
            Some(quote @ (b'"' | b'\'')) => *quote,
            None => return Err(Stop::More(START)),
            Some(_) => {
                let what =
                    format!("the value of `{}` has to stand in quotes", window.get(from, name.to));
                return Err(bad(at, what));
            }
        };
        let end = value_end(bytes, at + 1, quote);
        let (value, to) = match bytes.get(end) {
            None => return Err(Stop::More(START)),
            Some(byte) if *byte == quote => {
                (Piece { from: at + 1, to: end, written: false }, end + 1)
            }
            Some(_) => self.write_value(window, at + 1, end, quote)?,
        };
        if value.to - value.from > self.options.limits.attribute_bytes_max as usize {
            return Err(over(at, "attribute_bytes_max", self.options.limits.attribute_bytes_max));
        }
        self.add_attribute(window, name, value, spaces_len)?;
        Ok(to)
    }

    /// Reads the name of a declaration `xmlns:prefix` with a short ASCII prefix.
    #[inline]
    fn declared_name(&self, bytes: &[u8], from: usize) -> Option<NameSpan> {
        let rest = bytes.get(from..)?.strip_prefix(b"xmlns:")?;
        let len = skip_ascii_name(rest, 0)?;
        let to = from + 6 + len;
        let usual = rest.get(len) == Some(&b'=')
            && self.options.namespaces
            && to - from <= self.options.limits.name_bytes_max as usize;
        usual.then_some(NameSpan { from, to, prefix_len: 5 })
    }

    #[inline]
    fn add_attribute(
        &mut self,
        window: &Window<'_>,
        name: NameSpan,
        value: Piece,
        spaces_len: usize,
    ) -> Scan<()> {
        let max = self.options.limits.attributes_max;
        if self.attributes.len() + (self.spaces.len() - spaces_len) >= max as usize {
            return Err(over(name.from, "attributes_max", max));
        }
        let text = window.text.as_bytes().get(name.from..name.to).unwrap_or_default();
        if self.options.namespaces && text.first_chunk() == Some(b"xmlns") {
            let prefix = match name.prefix_len {
                0 if name.to - name.from == 5 => Some(""),
                5 => Some(window.get(name.from + 6, name.to)),
                _ => None,
            };
            if let Some(prefix) = prefix {
                return self.declare(window, name.from, prefix, value, spaces_len);
            }
        }
        self.attributes.push(RawAttribute {
            name: Piece { from: name.from, to: name.to, written: false },
            prefix_len: name.prefix_len,
            value,
            namespace: NO_NAMESPACE,
            defaulted: false,
            id: false,
        });
        Ok(())
    }

    /// Adds a namespace declaration, after checking the constraints of Namespaces in XML.
    pub(crate) fn declare(
        &mut self,
        window: &Window<'_>,
        at: usize,
        prefix: &str,
        value: Piece,
        spaces_len: usize,
    ) -> Scan<()> {
        let uri = value.of(window.text, &self.written);
        if let Some(wrong) = wrong_declaration(prefix, uri) {
            return Err(bad(at, wrong));
        }
        let max = self.options.limits.namespaces_max;
        match self.spaces.declare(spaces_len, prefix, uri) {
            DeclareOutcome::Twice => {
                Err(bad(at, format!("the prefix `{prefix}` is declared twice in one tag")))
            }
            DeclareOutcome::New
                if self.spaces.names_len().max(self.spaces.len()) <= max as usize =>
            {
                self.begin_scope();
                Ok(())
            }
            DeclareOutcome::New | DeclareOutcome::TooMany => Err(over(at, "namespaces_max", max)),
        }
    }

    /// Rewrites a value that cannot be borrowed: from `at` on, replaces references and turns white space into blanks.
    pub(crate) fn write_value(
        &mut self,
        window: &Window<'_>,
        from: usize,
        at: usize,
        quote: u8,
    ) -> Scan<(Piece, usize)> {
        let bytes = window.text.as_bytes();
        let start = self.written.len();
        let max = self.options.limits.attribute_bytes_max;
        let (mut from, mut at) = (from, at);
        loop {
            self.written.push_str(window.get(from, at));
            if self.written.len() - start > max as usize {
                return Err(over(from, "attribute_bytes_max", max));
            }
            match bytes.get(at) {
                None => return Err(Stop::More(START)),
                Some(byte) if *byte == quote => break,
                Some(b'<') => {
                    return Err(bad(
                        at,
                        "`<` is not allowed in an attribute's value: write `&lt;`",
                    ));
                }
                Some(b'&') => {
                    let (reference, to) = self.scan_reference(window, at)?;
                    self.write_reference(at, reference)?;
                    from = to;
                }
                Some(b'\r') => {
                    match bytes.get(at + 1) {
                        None => return Err(Stop::More(START)),
                        Some(b'\n') => {}
                        Some(_) => self.written.push(' '),
                    }
                    from = at + 1;
                }
                Some(_) => {
                    self.written.push(' ');
                    from = at + 1;
                }
            }
            at = value_end(bytes, from, quote);
        }
        Ok((Piece { from: start, to: self.written.len(), written: true }, at + 1))
    }

    #[inline]
    fn resolve(&self, prefix: &str, at: usize) -> Scan<u32> {
        match self.spaces.resolve(prefix) {
            Some(namespace) => Ok(namespace),
            None => Err(bad(at, format!("the prefix `{prefix}` is not declared"))),
        }
    }

    /// Resolves the namespaces of the attributes and checks for duplicates.
    fn resolve_attributes(&mut self, window: &Window<'_>, at: usize) -> Scan<()> {
        if self.options.namespaces && self.attributes.iter().any(|raw| raw.prefix_len > 0) {
            self.resolve_prefixed(window, at)?;
        }
        match self.attributes.len() {
            0 | 1 => Ok(()),
            _ => self.check_twice(window, at),
        }
    }

    fn resolve_prefixed(&mut self, window: &Window<'_>, at: usize) -> Scan<()> {
        let mut attributes = std::mem::take(&mut self.attributes);
        let mut resolved = Ok(());
        for raw in attributes.iter_mut().filter(|raw| raw.prefix_len > 0) {
            let name = raw.name.of(window.text, &self.written);
            let place = if raw.name.written { at } else { raw.name.from };
            match self.resolve(name.get(..raw.prefix_len).unwrap_or_default(), place) {
                Ok(namespace) => raw.namespace = namespace,
                Err(stop) => {
                    resolved = Err(stop);
                    break;
                }
            }
        }
        self.attributes = attributes;
        resolved
    }

    /// Reads an end tag: `</`, the bytes of the start tag's name, and `>`.
    #[inline(never)]
    pub(crate) fn end_tag<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let open = match self.open.last() {
            Some(open) if self.open.len() > self.floor => *open,
            _ => return Err(bad(at, "an end tag closes an element of another entity").into()),
        };
        let to = self.scan_end(window, at, &open)?;
        self.end_element(window, at, &open, sink)?;
        Ok(to + 1)
    }

    /// Reads an end tag, and returns the offset of its `>`.
    fn scan_end(&self, window: &Window<'_>, at: usize, open: &OpenElement) -> Scan<usize> {
        let bytes = window.text.as_bytes();
        let end = at + 2 + open.name_len;
        let mut to = end;
        if bytes.get(to) != Some(&b'>') {
            to = skip_space(bytes, to);
        }
        let name = bytes.get(at + 2..end).unwrap_or_default();
        if bytes.get(to) == Some(&b'>') && same(name, self.open_name(window, open)) {
            Ok(to)
        } else {
            Err(self.wrong_end(window, at, open))
        }
    }

    /// Returns the name of the innermost open element.
    #[inline]
    fn open_name<'a>(&'a self, window: &Window<'a>, open: &OpenElement) -> &'a [u8] {
        let names = if self.open.len() > self.kept_len {
            window.text.as_bytes()
        } else {
            self.kept.as_bytes()
        };
        names.get(open.name_from..open.name_from + open.name_len).unwrap_or_default()
    }

    /// Returns the error for an end tag that is unexpected or incomplete.
    #[cold]
    fn wrong_end(&self, window: &Window<'_>, at: usize, open: &OpenElement) -> Stop {
        let name = match self.scan_name(window, at + 2, END) {
            Ok(name) => name,
            Err(stop) => return stop,
        };
        let found = window.get(name.from, name.to);
        let expected = self.open_name(window, open);
        if found.as_bytes() != expected {
            // Harmless: the name is only quoted in an error.
            let expected = String::from_utf8_lossy(expected);
            let kind = ErrorKind::MismatchedEnd { found: found.into(), expected: expected.into() };
            return Stop::Bad(Box::new((at, kind)));
        }
        let to = skip_space(window.text.as_bytes(), skip_name_chars(window.text, name.to));
        match window.byte(to) {
            None => Stop::More(END),
            Some(byte) if is_space(byte) => Stop::More(END),
            Some(_) => bad(to, format!("{} is not allowed in an end tag", window.found(to))),
        }
    }
}
