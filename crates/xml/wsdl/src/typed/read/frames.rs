//! Frames of open elements: their start, children, and end.

use xml::{Here, QName, Start};

use super::{Done, Fragment, Reader, XSI, mismatch};
use crate::typed::model::{Children, Content, Element, Leaf, MemberOf, Scalar, Slot, Type};
use json::push_string;

use crate::typed::scalar::quoted_key;

/// Frame of an open element.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    element: &'a Element,
    pub(super) kind: FrameKind<'a>,
    /// The JSON that closes the objects around the value.
    wrap: &'static str,
}

#[derive(Debug)]
pub(super) enum FrameKind<'a> {
    Text(&'a Scalar),
    /// No content is allowed, because the type is empty or the element is nil.
    Empty,
    Children {
        of: &'a Children,
        /// Index of the first count.
        base: usize,
        /// The member whose array is open.
        open: Option<usize>,
        /// The last leaf that matched.
        near: usize,
        first: bool,
        /// Whether nothing has been written yet. Content that is only text will be a string.
        pending: bool,
    },
}

/// How to read an element.
struct ReadInstructions<'a> {
    of: &'a Type,
    /// Label of the type that replaces the declared one, or `None`.
    label: Option<&'a str>,
    nil: bool,
    /// Number of attributes other than `xsi:` ones.
    plain: usize,
}

impl<'a> Reader<'a> {
    /// Handles the start of an element. `wrap` closes what was opened around it.
    pub(super) fn begin(
        &mut self,
        element: &'a Element,
        start: &Start<'_>,
        wrap: &'static str,
    ) -> Done {
        if self.out.len() > self.bytes_max {
            return mismatch(format!("it would be over {} bytes of JSON", self.bytes_max));
        }
        let Some(declared) = self.api.types.get(element.type_at) else {
            return mismatch(format!("<{}> has no type", element.local));
        };
        let ReadInstructions { of, label, nil, plain } =
            self.instructed(element, declared, start)?;
        let top = self.is_top();
        // If there may be headers, the value is always an object, so that all replies of an operation have the same form.
        let beside = top && self.has_headers();
        let bare = plain == 0 && label.is_none() && !beside;
        match &of.content {
            _ if nil && bare => {
                self.out.push_str("null");
                self.frames.push(Frame { element, kind: FrameKind::Empty, wrap });
            }
            Content::Text(scalar) if label.is_none() && !beside => {
                if plain > 0 {
                    return mismatch(format!("<{}> has attributes", element.local));
                }
                self.frames.push(Frame { element, kind: FrameKind::Text(scalar), wrap });
            }
            Content::Children(children) if bare && children.shorthand => {
                let kind = self.children(children, true);
                self.frames.push(Frame { element, kind, wrap });
            }
            content @ (Content::Text(_)
            | Content::Value(_)
            | Content::Empty
            | Content::Children(_)) => {
                self.out.push('{');
                let mut first = self.told_headers(top);
                if let Some(label) = label {
                    self.member(&mut first, &quoted_key("$type"));
                    push_string(&mut self.out, label);
                }
                self.attributes(of, start, &mut first)?;
                let kind = match content {
                    _ if nil => {
                        self.member(&mut first, "\"$nil\":true");
                        FrameKind::Empty
                    }
                    Content::Text(scalar) | Content::Value(scalar) => {
                        self.member(&mut first, "\"value\":");
                        FrameKind::Text(scalar)
                    }
                    Content::Empty => FrameKind::Empty,
                    Content::Children(children) => {
                        let mut kind = self.children(children, false);
                        if let FrameKind::Children { first: of_kind, .. } = &mut kind {
                            *of_kind = first;
                        }
                        kind
                    }
                };
                let wrap = if wrap.is_empty() { "}" } else { "}}" };
                self.frames.push(Frame { element, kind, wrap });
            }
        }
        Ok(())
    }

    /// Evaluates `xsi:type` and `xsi:nil` of an element.
    fn instructed(
        &self,
        element: &Element,
        declared: &'a Type,
        start: &Start<'_>,
    ) -> Done<ReadInstructions<'a>> {
        let (mut of, mut label, mut nil, mut plain) = (declared, None, false, 0);
        for attribute in start.attributes.iter() {
            if attribute.name.namespace.uri != XSI {
                plain += 1;
            } else if attribute.name.local == "nil" {
                nil = matches!(attribute.value.trim(), "true" | "1");
            } else if attribute.name.local == "type"
                && let Some((label_of, found)) = self.replaced(declared, start, attribute.value)?
            {
                (label, of) = (Some(label_of), found);
            }
        }
        if nil && !element.nillable {
            return mismatch(format!("<{}> is nil, which is not allowed", element.local));
        }
        if of.is_abstract {
            return mismatch(format!("<{}> is of an abstract type", element.local));
        }
        Ok(ReadInstructions { of, label, nil, plain })
    }

    /// Returns whether this is the body's own element, which also gets the headers.
    fn is_top(&self) -> bool {
        self.frames.is_empty() && !self.in_header && self.fault.is_none()
    }

    /// Returns whether the description has headers for the message.
    fn has_headers(&self) -> bool {
        self.message.is_some_and(|message| !message.headers.is_empty())
    }

    fn told_headers(&mut self, top: bool) -> bool {
        if !top || self.headers.is_empty() {
            return true;
        }
        self.out.push_str("\"$headers\":{");
        self.out.push_str(&self.headers);
        self.out.push('}');
        false
    }

    fn member(&mut self, first: &mut bool, quoted: &str) {
        if !std::mem::take(first) {
            self.out.push(',');
        }
        self.out.push_str(quoted);
    }

    fn children(&mut self, of: &'a Children, pending: bool) -> FrameKind<'a> {
        let base = self.counts.len();
        self.counts.resize(base + of.members.len(), 0);
        FrameKind::Children { of, base, open: None, near: 0, first: true, pending }
    }

    /// Returns the type that `xsi:type` names, if it differs from the declared one.
    fn replaced(
        &self,
        declared: &'a Type,
        start: &Start<'_>,
        value: &str,
    ) -> Done<Option<(&'a str, &'a Type)>> {
        let value = value.trim();
        let (prefix, local) = value.split_once(':').unwrap_or(("", value));
        let uri = match start.scope.lookup(prefix) {
            Some(namespace) => namespace.uri,
            None if prefix.is_empty() => "",
            None => return mismatch(format!("the prefix of the type {value} is not declared")),
        };
        let is = |one: &Type| one.name.as_ref().is_some_and(|(u, l)| **u == *uri && **l == *local);
        let found = declared.replacements.iter().find_map(|one| {
            let of = self.api.types.get(one.type_at).filter(|of| is(of))?;
            Some((&*one.label, of))
        });
        match found {
            Some(found) => Ok(Some(found)),
            // For simple types, the declared type determines the form in JSON.
            None if is(declared) || matches!(declared.content, Content::Text(_)) => Ok(None),
            None => mismatch(format!("the type {value} is not allowed here")),
        }
    }

    fn attributes(&mut self, of: &'a Type, start: &Start<'_>, first: &mut bool) -> Done {
        let mut seen = 0;
        for attribute in start.attributes.iter() {
            let (uri, local) = (attribute.name.namespace.uri, attribute.name.local);
            if uri == XSI {
                continue;
            }
            let known = of.attributes.iter().find(|one| *one.local == *local && *one.uri == *uri);
            match known {
                Some(known) => {
                    seen += usize::from(known.required);
                    self.member(first, &quoted_key(&known.key));
                    let resolve = |prefix: &str| start.scope.lookup(prefix).map(|found| found.uri);
                    self.scalar(&known.scalar, attribute.value, &resolve)?;
                }
                None if of.any_attribute => {
                    self.unsure = true;
                    let key = match uri {
                        "" => format!("@{local}"),
                        uri => format!("@{{{uri}}}{local}"),
                    };
                    self.member(first, &quoted_key(&key));
                    push_string(&mut self.out, attribute.value);
                }
                None => return mismatch(format!("there is no attribute {local}")),
            }
        }
        if of.attributes.iter().filter(|attribute| attribute.required).count() == seen {
            Ok(())
        } else {
            mismatch(format!("<{}> lacks an attribute", start.name.local))
        }
    }

    /// Handles the start of a child element.
    pub(super) fn child(&mut self, start: &Start<'_>) -> Done {
        let api = self.api;
        self.flush_text()?;
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let FrameKind::Children { of, base, open, near, first, .. } = &mut frame.kind else {
            return mismatch(format!("<{}> holds <{}>", frame.element.local, start.name.local));
        };
        let (of, base) = (*of, *base);
        let leaf = find(api, of, start.name, *near);
        let taken = leaf.map(|(_, leaf)| (leaf.member, Some(leaf)));
        let Some((member_at, leaf_of)) = taken.or_else(|| of.wild.map(|wild| (wild, None))) else {
            let what =
                format!("<{}> is not allowed in <{}>", start.name.local, frame.element.local);
            return mismatch(what);
        };
        if let Some((at, _)) = leaf {
            *near = at;
        }
        let Some(member) = of.members.get(member_at) else { return Ok(()) };
        let count = self.counts.get_mut(base + member_at);
        let count = count.map_or(1, |count| {
            *count += 1;
            *count
        });
        if *open == Some(member_at) {
            self.out.push(',');
        } else {
            if count > 1 {
                let what = format!("<{}> occurs in two places", start.name.local);
                return mismatch(what);
            }
            if open.take().is_some() {
                self.out.push(']');
            }
            if !std::mem::take(first) {
                self.out.push(',');
            }
            self.out.push_str(&member.quoted);
            if member.many {
                *open = Some(member_at);
                self.out.push('[');
            }
        }
        self.unsure |= !matches!(member.of, MemberOf::Element(_));
        let wrap = match (&member.of, leaf_of) {
            (MemberOf::Items { .. }, Some(leaf)) => {
                self.out.push('{');
                self.out.push_str(&quoted_key(&leaf.key));
                "}"
            }
            (MemberOf::Items { .. }, None) => {
                self.out.push_str("{\"$any\":");
                ""
            }
            (MemberOf::Element(_) | MemberOf::Any { .. }, _) => "",
        };
        match leaf_of.and_then(|leaf| api.elements.get(leaf.element)) {
            Some(element) => self.begin(element, start, wrap),
            None => {
                let mut fragment = Fragment::default();
                fragment.start(start);
                self.fragment = Some(fragment);
                Ok(())
            }
        }
    }

    /// Handles the end of a fragment among the children.
    pub(super) fn after_fragment(&mut self) {
        let frame = self.frames.last();
        if let Some(FrameKind::Children { of, open: Some(open), .. }) = frame.map(|f| &f.kind)
            && let Some(MemberOf::Items { .. }) = of.members.get(*open).map(|member| &member.of)
        {
            self.out.push('}');
        }
    }

    pub(super) fn characters(&mut self, text: &str) -> Done {
        let Some(frame) = self.frames.last() else { return Ok(()) };
        match &frame.kind {
            FrameKind::Text(_) => self.text.push_str(text),
            FrameKind::Children { of, .. } if of.mixed => self.text.push_str(text),
            FrameKind::Children { .. } | FrameKind::Empty => {
                if !text.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
                    return mismatch(format!(
                        "<{}> contains text, which is not allowed",
                        frame.element.local
                    ));
                }
            }
        }
        Ok(())
    }

    /// Writes pending text between elements, and begins a value that is not only text.
    fn flush_text(&mut self) -> Done {
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        let FrameKind::Children { of, open, first, pending, base, .. } = &mut frame.kind else {
            return Ok(());
        };
        if std::mem::take(pending) {
            self.out.push('{');
            frame.wrap = if frame.wrap.is_empty() { "}" } else { "}}" };
        }
        if !of.mixed || self.text.is_empty() {
            return Ok(());
        }
        match *open {
            Some(_) => self.out.push(','),
            None => {
                if !std::mem::take(first) {
                    self.out.push(',');
                }
                // Mixed content has a single member.
                let quoted = of.members.first().map_or("", |member| &*member.quoted);
                self.out.push_str(quoted);
                self.out.push('[');
                *open = Some(0);
                if let Some(count) = self.counts.get_mut(*base) {
                    *count += 1;
                }
            }
        }
        push_string(&mut self.out, &self.text);
        self.text.clear();
        Ok(())
    }

    /// Handles the end of the innermost element.
    pub(super) fn leave(&mut self, here: Here<'_>) -> Done {
        if let Some(FrameKind::Children { pending: false, .. }) =
            self.frames.last().map(|f| &f.kind)
        {
            self.flush_text()?;
        }
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        match &frame.kind {
            FrameKind::Empty => {}
            FrameKind::Text(scalar) => {
                let mut text = std::mem::take(&mut self.text);
                if let (true, Some(given)) = (text.is_empty(), &frame.element.given) {
                    text.push_str(&given.text);
                }
                let resolve = |prefix: &str| here.lookup(prefix).map(|found| found.uri);
                let written = self.scalar(scalar, &text, &resolve);
                text.clear();
                self.text = text;
                written.or_else(|why| mismatch(format!("<{}>: {why}", frame.element.local)))?;
            }
            FrameKind::Children { of, base, open, pending, .. } => {
                if *pending {
                    let mut text = std::mem::take(&mut self.text);
                    push_string(&mut self.out, &text);
                    text.clear();
                    self.text = text;
                } else {
                    if open.is_some() {
                        self.out.push(']');
                    }
                    let counts = self.counts.get(*base..).unwrap_or_default();
                    complete(of, &of.model, counts)
                        .or_else(|what| mismatch(format!("<{}> {what}", frame.element.local)))?;
                }
                // Harmless: the counts of an element end with it.
                self.counts.truncate(*base);
            }
        }
        self.out.push_str(frame.wrap);
        if self.frames.is_empty() {
            self.complete();
        }
        Ok(())
    }
}

/// Returns the leaf with a name, and its index. The search starts with the last leaf that matched, because elements often repeat.
fn find<'a>(
    api: &'a crate::typed::Api,
    of: &'a Children,
    name: QName<'_>,
    near: usize,
) -> Option<(usize, &'a Leaf)> {
    let is = |leaf: &Leaf| {
        api.elements.get(leaf.element).is_some_and(|element| super::is_named(element, name))
    };
    for at in [near, near + 1] {
        if let Some(leaf) = of.leaves.get(at).filter(|leaf| is(leaf)) {
            return Some((at, leaf));
        }
    }
    let local = |at: &usize| {
        let leaf = of.leaves.get(*at)?;
        api.elements.get(leaf.element).map(|element| &*element.local)
    };
    let from = of.names.partition_point(|at| local(at).is_some_and(|known| known < name.local));
    let same = of.names.get(from..).unwrap_or_default().iter();
    let mut same = same.take_while(|at| local(at) == Some(name.local));
    same.find_map(|at| of.leaves.get(*at).filter(|leaf| is(leaf)).map(|leaf| (*at, leaf)))
}

/// Checks that all required members are present. The error says what is missing.
fn complete(of: &Children, slot: &Slot, counts: &[u64]) -> Result<(), String> {
    let count = |member: usize| counts.get(member).copied().unwrap_or(0);
    match slot {
        Slot::Member(member) => {
            let Some(of) = of.members.get(*member) else { return Ok(()) };
            let found = count(*member);
            match of.max {
                _ if found < of.min => Err(format!("lacks `{}`", of.key)),
                Some(max) if found > max => Err(format!("has over {max} of `{}`", of.key)),
                Some(_) | None => Ok(()),
            }
        }
        Slot::Sequence { slots, optional } => {
            if *optional && !slot.is_met(&|member| count(member) > 0) {
                return Ok(());
            }
            slots.iter().try_for_each(|slot| complete(of, slot, counts))
        }
        Slot::Choice { slots, .. } => {
            let mut met = slots.iter().filter(|slot| slot.is_met(&|member| count(member) > 0));
            match (met.next(), met.next()) {
                (Some(one), None) => complete(of, one, counts),
                (None, _) if slot.is_emptiable(&of.members) => Ok(()),
                (None, _) => Err("lacks all alternatives of a choice".to_owned()),
                (Some(_), Some(_)) => Err("has two alternatives of a choice".to_owned()),
            }
        }
    }
}
