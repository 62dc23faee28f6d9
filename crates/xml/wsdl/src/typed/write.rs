//! JSON to XML: takes values from the tape in the order of the schema, and writes them directly.
//!
//! Recursion is bounded by [`super::LIMITS`], which every message satisfies.

mod messages;
mod texts;

use std::borrow::Cow;

use ::json::{Kind, TapeEntry};
use kit::turns;
use xsd::datatype::Steps;

use super::mismatch::{Done, Mismatch, Mistakes};
use super::model::{Children, Content, Element, Member, MemberOf, Slot, Type};
use super::scalar::{expected, push_text};
use super::typed_api::Api;
use messages::{choice, labels, listed, missing, unknown};

/// Writer over the values of one tape.
pub(super) struct Writer<'a> {
    pub(super) api: &'a Api,
    pub(super) text: &'a str,
    pub(super) tape: &'a [TapeEntry],
    /// For each open object, the tape indexes of the values of its attributes and members; 0 if absent.
    pub(super) slots: &'a mut Vec<u32>,
    pub(super) out: String,
    pub(super) bytes_max: usize,
    /// Whether the message has content that only the schema itself can validate.
    pub(super) unsure: bool,
    /// Whether the root declares a default namespace, so that unprefixed names are in it.
    pub(super) has_default: bool,
    /// Remaining budget for matching patterns.
    pub(super) steps: Steps,
}

/// An object being written.
struct Open<'a> {
    element: &'a Element,
    of: &'a Type,
    at: usize,
    /// Index of its first slot. The slots are those of the attributes, then that of `value`, then those of the members.
    base: usize,
    /// Whether `$headers` is allowed, because the object is the body of a message with headers.
    top: bool,
    /// The type that `$type` selected, or `None`.
    named: Option<usize>,
}

impl Open<'_> {
    fn value(&self) -> usize {
        self.base + self.of.attributes.len()
    }

    fn member(&self, member: usize) -> usize {
        self.value() + 1 + member
    }
}

impl<'a> Writer<'a> {
    fn entry(&self, at: usize) -> TapeEntry {
        let none = TapeEntry { kind: Kind::Null, from: 0, to: 0, next: u32::MAX, count: 0 };
        self.tape.get(at).copied().unwrap_or(none)
    }

    fn raw(&self, at: usize) -> &'a str {
        let entry = self.entry(at);
        self.text.get(entry.from as usize..entry.to as usize).unwrap_or_default()
    }

    /// Returns the text of a string.
    fn string(&self, at: usize) -> Cow<'a, str> {
        match self.entry(at).kind {
            Kind::Escaped => Cow::Owned(::json::unescaped(self.raw(at))),
            Kind::Null
            | Kind::False
            | Kind::True
            | Kind::Number
            | Kind::Plain
            | Kind::Object
            | Kind::Array => Cow::Borrowed(self.raw(at)),
        }
    }

    fn slot(&self, at: usize) -> usize {
        self.slots.get(at).map_or(0, |value| *value as usize)
    }

    #[cold]
    fn wrong<T>(&self, wanted: &str, at: usize) -> Done<T> {
        let found = match self.entry(at).kind {
            Kind::Null => "null",
            Kind::False | Kind::True => "true or false",
            Kind::Number => "a number",
            Kind::Plain | Kind::Escaped => "a string",
            Kind::Object => "an object",
            Kind::Array => "an array",
        };
        Err(Mismatch::new(format!("expected {wanted}, found {found}")))
    }

    /// Writes an element whose value is at `at`; `declarations` are the namespaces of everything below.
    pub(super) fn element(
        &mut self,
        element: &'a Element,
        at: usize,
        declarations: &str,
        top: bool,
    ) -> Done {
        if self.out.len() > self.bytes_max {
            return Err(Mismatch::large(self.bytes_max));
        }
        let Some(of) = self.api.types.get(element.type_at) else { return Ok(()) };
        if !declarations.is_empty() {
            self.has_default = declarations.contains(" xmlns=");
        }
        self.out.push_str(&element.open);
        self.out.push_str(declarations);
        let kind = self.entry(at).kind;
        match &of.content {
            _ if kind == Kind::Null => self.nil(element, of, at),
            _ if kind == Kind::Object => self.object(element, of, at, top),
            _ if of.is_abstract => self.wrong("an object with `$type`", at),
            Content::Text(scalar) => self.text_of(element, scalar, at),
            Content::Value(scalar) if !of.attributes.iter().any(|one| one.required) => {
                self.text_of(element, scalar, at)
            }
            Content::Children(children)
                if children.shorthand && matches!(kind, Kind::Plain | Kind::Escaped) =>
            {
                self.unsure = true;
                self.out.push('>');
                self.escaped(&self.string(at), false)?;
                self.out.push_str(&element.close);
                Ok(())
            }
            Content::Value(_) | Content::Empty | Content::Children(_) => {
                self.wrong("an object", at)
            }
        }
    }

    fn nil(&mut self, element: &Element, of: &Type, at: usize) -> Done {
        if element.nillable && !of.attributes.iter().any(|one| one.required) {
            self.out.push_str(r#" xsi:nil="true"/>"#);
            return Ok(());
        }
        match &of.content {
            Content::Text(scalar) => self.wrong(expected(scalar), at),
            Content::Value(_) | Content::Empty | Content::Children(_) => {
                self.wrong("an object", at)
            }
        }
    }

    fn escaped(&mut self, text: &str, attribute: bool) -> Done {
        if push_text(&mut self.out, text, attribute) {
            Ok(())
        } else {
            Err(Mismatch::new("expected a string of characters that XML can hold"))
        }
    }

    /// Writes an element whose value is an object; its start tag is still open.
    fn object(&mut self, element: &'a Element, of: &'a Type, at: usize, top: bool) -> Done {
        let mut actual = of;
        let may_be_named = of.replaces || !of.replacements.is_empty();
        let named = if may_be_named { self.find(at, "$type") } else { None };
        if let Some(value) = named {
            actual = self.named(of, value).map_err(|mismatch| mismatch.within("$type"))?;
            if !std::ptr::eq(actual, of) {
                self.out.push_str(&actual.instance);
            }
        }
        if actual.is_abstract {
            let names = labels(of);
            return Err(Mismatch::new(format!("expected `$type` to be one of {names}")));
        }
        // Beside `$headers`, a text is written as the member `value`.
        if !top && std::ptr::eq(actual, of) && matches!(of.content, Content::Text(_)) {
            let Content::Text(scalar) = &of.content else { return Ok(()) };
            return self.wrong(expected(scalar), at);
        }
        let base = self.slots.len();
        let open = Open { element, of: actual, at, base, top, named };
        let written = self.gathered(&open);
        // Harmless: the slots of an object end with it.
        self.slots.truncate(base);
        written
    }

    /// Returns the value of the member with this name.
    fn find(&self, at: usize, name: &str) -> Option<usize> {
        let end = self.entry(at).next as usize;
        let mut key = at + 1;
        while key < end {
            turns::count_part();
            if self.string(key) == name {
                return Some(key + 1);
            }
            key = self.entry(key + 1).next as usize;
        }
        None
    }

    fn named(&self, of: &'a Type, at: usize) -> Done<&'a Type> {
        let label = self.string(at);
        let is_string = matches!(self.entry(at).kind, Kind::Plain | Kind::Escaped);
        let found = of.replacements.iter().find(|one| is_string && *one.label == *label);
        let is_own = |(uri, local): &(Box<str>, Box<str>)| {
            **local == *label || format!("{{{uri}}}{local}") == *label
        };
        let own = is_string && of.name.as_ref().is_some_and(is_own);
        match found.and_then(|one| self.api.types.get(one.type_at)) {
            Some(found) => Ok(found),
            None if own => Ok(of),
            None => Err(Mismatch::new(format!("expected one of {}", labels(of)))),
        }
    }

    fn gathered(&mut self, open: &Open<'a>) -> Done {
        let members = match &open.of.content {
            Content::Children(children) => children.members.len(),
            Content::Text(_) | Content::Value(_) | Content::Empty => 0,
        };
        self.slots.resize(open.member(members), 0);
        let end = self.entry(open.at).next as usize;
        let (mut key, mut near) = (open.at + 1, 0);
        let mut nil = None;
        let mut mistakes = Mistakes::default();
        while key < end {
            turns::count_part();
            let name = self.string(key);
            let value = key + 1;
            match self.place(open, &name, near) {
                Some(slot) => {
                    near = slot.saturating_sub(open.member(0)) + 1;
                    let taken = self.take(open, slot, value);
                    if !mistakes.note(taken.map_err(|mismatch| mismatch.within(&name))) {
                        return mistakes.done();
                    }
                }
                None if name == "$type" && open.named == Some(value) => {}
                None if name == "$headers" && open.top => {}
                None if name == "$nil" && open.element.nillable && nil.is_none() => {
                    nil = Some(match self.entry(value).kind {
                        Kind::True => true,
                        Kind::False => false,
                        Kind::Null
                        | Kind::Number
                        | Kind::Plain
                        | Kind::Escaped
                        | Kind::Object
                        | Kind::Array => {
                            let wrong = self.wrong("true or false", value);
                            return wrong.map_err(|mismatch: Box<Mismatch>| mismatch.within(&name));
                        }
                    });
                }
                None if matches!(&*name, "$type" | "$nil")
                    && self.find(open.at, &name) != Some(value) =>
                {
                    return Err(Mismatch::new("expected one member of this name").within(&name));
                }
                None if name.starts_with('@') && open.of.any_attribute => {}
                None => {
                    if !mistakes.note(Err(unknown(open.of).within(&name))) {
                        return mistakes.done();
                    }
                }
            }
            key = self.entry(value).next as usize;
        }
        if !mistakes.note(self.attributes(open)) {
            return mistakes.done();
        }
        let written = if !nil.unwrap_or(false) {
            self.content(open)
        } else if self.slots.iter().skip(open.value()).any(|slot| *slot != 0) {
            Err(Mismatch::new("expected no content beside `$nil`"))
        } else {
            self.out.push_str(r#" xsi:nil="true"/>"#);
            Ok(())
        };
        mistakes.note(written);
        mistakes.done()
    }

    /// Returns the slot for the name of a member.
    fn place(&self, open: &Open<'_>, name: &str, near: usize) -> Option<usize> {
        if name.starts_with('@') {
            let at = open.of.attributes.iter().position(|attribute| *attribute.key == *name)?;
            return Some(open.base + at);
        }
        match &open.of.content {
            Content::Children(children) => {
                children.member(name, near).map(|member| open.member(member))
            }
            Content::Text(_) | Content::Value(_) => (name == "value").then(|| open.value()),
            Content::Empty => None,
        }
    }

    /// Stores the tape index of a value in its slot. Null counts as absent, unless it means nil.
    fn take(&mut self, open: &Open<'_>, slot: usize, value: usize) -> Done {
        if self.slot(slot) != 0 {
            return Err(Mismatch::new("expected one member of this name"));
        }
        let means_nil = match &open.of.content {
            Content::Children(children) => slot
                .checked_sub(open.member(0))
                .and_then(|member| children.members.get(member))
                .is_some_and(|member| self.is_nillable(member)),
            Content::Text(_) | Content::Value(_) | Content::Empty => false,
        };
        if self.entry(value).kind != Kind::Null || means_nil {
            let value = u32::try_from(value).unwrap_or(u32::MAX);
            if let Some(place) = self.slots.get_mut(slot) {
                *place = value;
            }
        }
        Ok(())
    }

    fn is_nillable(&self, member: &Member) -> bool {
        match member.of {
            MemberOf::Element(element) => {
                !member.many && self.api.elements.get(element).is_some_and(|e| e.nillable)
            }
            MemberOf::Any { .. } | MemberOf::Items { .. } => false,
        }
    }

    fn content(&mut self, open: &Open<'a>) -> Done {
        match &open.of.content {
            Content::Text(scalar) | Content::Value(scalar) => match self.slot(open.value()) {
                0 => Err(missing("value")),
                value => self
                    .text_of(open.element, scalar, value)
                    .map_err(|mismatch| mismatch.within("value")),
            },
            Content::Empty => {
                self.out.push_str("/>");
                Ok(())
            }
            Content::Children(children) => {
                self.out.push('>');
                let before = self.out.len();
                self.model(open, children, &children.model)?;
                if self.out.len() == before {
                    self.out.pop();
                    self.out.push_str("/>");
                } else {
                    self.out.push_str(&open.element.close)
                }
                Ok(())
            }
        }
    }

    fn model(&mut self, open: &Open<'a>, children: &'a Children, slot: &'a Slot) -> Done {
        match slot {
            Slot::Member(member) => {
                let Some(of) = children.members.get(*member) else { return Ok(()) };
                match self.slot(open.member(*member)) {
                    0 if of.min == 0 => Ok(()),
                    0 => Err(missing(&of.key)),
                    value => self
                        .member(children, *member, of, value)
                        .map_err(|mismatch| mismatch.within(&of.key)),
                }
            }
            Slot::Sequence { slots, optional } => {
                if *optional && !slot.is_met(&|member| self.slot(open.member(member)) != 0) {
                    return Ok(());
                }
                let mut mistakes = Mistakes::default();
                for slot in slots {
                    if !mistakes.note(self.model(open, children, slot)) {
                        break;
                    }
                }
                mistakes.done()
            }
            Slot::Choice { slots, .. } => {
                let there = |member: usize| self.slot(open.member(member)) != 0;
                let mut met = slots.iter().filter(|slot| slot.is_met(&there));
                match (met.next(), met.next()) {
                    (Some(one), None) => self.model(open, children, one),
                    (None, _) if slot.is_emptiable(&children.members) => Ok(()),
                    (one, _) => Err(choice(children, slot, one.is_some())),
                }
            }
        }
    }

    fn member(
        &mut self,
        children: &'a Children,
        index: usize,
        member: &'a Member,
        value: usize,
    ) -> Done {
        let element = match member.of {
            MemberOf::Element(element) => self.api.elements.get(element),
            MemberOf::Any { .. } | MemberOf::Items { .. } => None,
        };
        if let (Some(element), false) = (element, member.many) {
            return self.element(element, value, "", false);
        }
        if self.entry(value).kind != Kind::Array {
            return self.wrong("an array", value);
        }
        let (mut at, end) = (value + 1, self.entry(value).next as usize);
        let mut count = 0;
        let mut mistakes = Mistakes::default();
        while at < end {
            turns::count_part();
            let written = match element {
                Some(element) => self.element(element, at, "", false),
                None => self.item(children, index, member, at),
            };
            if !mistakes.note(written.map_err(|mismatch| mismatch.within(&count.to_string()))) {
                return mistakes.done();
            }
            count += 1;
            at = self.entry(at).next as usize;
        }
        let fits = count >= member.min && member.max.is_none_or(|max| count <= max);
        let counted = match (fits, member.max) {
            (true, _) => Ok(()),
            (false, None) => Err(Mismatch::new(format!("expected {} or more items", member.min))),
            (false, Some(max)) => {
                Err(Mismatch::new(format!("expected {} to {max} items, found {count}", member.min)))
            }
        };
        mistakes.note(counted);
        mistakes.done()
    }

    /// Writes an element whose order among its siblings is left to the schema's validation.
    fn item(&mut self, children: &'a Children, index: usize, member: &Member, at: usize) -> Done {
        self.unsure = true;
        let is_string = matches!(self.entry(at).kind, Kind::Plain | Kind::Escaped);
        if matches!(member.of, MemberOf::Any { .. }) {
            return if is_string {
                self.fragment(at)
            } else {
                self.wrong("an element of XML as a string", at)
            };
        }
        if is_string && children.mixed {
            return self.escaped(&self.string(at), false);
        }
        let is_single = self.entry(at).kind == Kind::Object
            && self.entry(at).next > self.entry(at + 1).next
            && self.entry(at).next == self.entry(at + 2).next;
        if !is_single {
            return self.wrong("an object with one member", at);
        }
        let (key, value) = (self.string(at + 1), at + 2);
        let mut leaves = children.leaves.iter().filter(|leaf| leaf.member == index);
        let written = match leaves.find(|leaf| *leaf.key == *key) {
            Some(leaf) => match self.api.elements.get(leaf.element) {
                Some(element) => self.element(element, value, "", false),
                None => Ok(()),
            },
            None if key == "$any" && children.wild == Some(index) => match self.entry(value).kind {
                Kind::Plain | Kind::Escaped => self.fragment(value),
                Kind::Null
                | Kind::False
                | Kind::True
                | Kind::Number
                | Kind::Object
                | Kind::Array => self.wrong("an element of XML as a string", value),
            },
            None => {
                let known: Vec<&str> = children
                    .leaves
                    .iter()
                    .filter(|leaf| leaf.member == index)
                    .map(|leaf| &*leaf.key)
                    .collect();
                Err(Mismatch::new(format!("expected one of {}", listed(&known))))
            }
        };
        written.map_err(|mismatch| mismatch.within(&key))
    }

    fn fragment(&mut self, at: usize) -> Done {
        let text = self.string(at);
        super::fragment::check(&text).map_err(Mismatch::new)?;
        self.out.push_str(text.trim());
        Ok(())
    }
}
