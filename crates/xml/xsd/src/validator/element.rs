//! Validation of elements at their start, text and end: cvc-elt, cvc-type, cvc-complex-type.

use xml::QName;

use super::open::{Judge, UNDECLARED, expectation, named};
use super::run::{Frame, Run};
use super::scope::{Names, Tag};
use super::{ErrorDetails, LazyPosition, ParseStop, TextRule};
use crate::arena::Id;
use crate::automaton::MatchedParticle;
use crate::datatype::Value;
use crate::identity::Content;
use crate::model::{Element, Type};
use crate::names::Sym;
use crate::schema::{DefaultValue, Kind, Schema, Text, TypeTable};

impl Run {
    #[inline]
    pub(super) fn start<T: Tag>(&mut self, schema: &Schema, tag: &T) -> Result<(), ParseStop> {
        if self.skipped > 0 {
            self.skipped += 1;
            return Ok(());
        }
        self.elements += 1;
        let (namespace, sym) = self.sym(schema, tag.name());
        let matched = self.step(schema, namespace, sym);
        if let Some(MatchedParticle::Element(id)) = matched
            && let Some(head) = schema.head(id)
            && head.is_plain
            && !tag.has_qualified()
            && self.tables.idle()
        {
            return self.enter(schema, tag, head.type_id, Some(id), false);
        }
        self.start_checked(schema, tag, sym, matched)
    }

    /// Starts an element for which more has to be checked than the content model.
    fn start_checked<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        sym: Sym,
        matched: Option<MatchedParticle>,
    ) -> Result<(), ParseStop> {
        let judge = self.judge(schema, tag, sym, matched)?;
        let (declared, element) = match judge {
            Judge::Nobody => {
                self.skipped = 1;
                return Ok(());
            }
            Judge::Declaration(id) => (schema.head(id).map(|head| head.type_id), Some(id)),
            Judge::Type(id) => (Some(id), None),
            Judge::Undeclared { .. } => (None, None),
        };
        let strict = matches!(judge, Judge::Undeclared { strict: true });
        let (type_id, nil) = if tag.has_qualified() {
            self.instructed(schema, tag, declared, element, strict)?
        } else {
            if strict {
                self.undeclared(tag)?;
            }
            (declared.unwrap_or(UNDECLARED), false)
        };
        if element.and_then(|id| schema.head(id)).is_some_and(|head| head.is_abstract) {
            let message =
                "the element is abstract: a member of its substitution group can stand here";
            self.complain(tag, tag.name(), "cvc-elt.2", message.to_owned())?;
        }
        if schema.type_table(type_id).is_some_and(|table| table.is_abstract) {
            let message = "its type is abstract: xsi:type has to name another".to_owned();
            self.complain(tag, tag.name(), "cvc-type.2", message)?;
        }
        self.begin_identities(schema, tag, element)?;
        self.enter(schema, tag, type_id, element, nil)
    }

    /// Determines the type and whether the element is nil, by `xsi:type` and `xsi:nil`.
    fn instructed<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        declared: Option<Id<Type>>,
        element: Option<Id<Element>>,
        strict: bool,
    ) -> Result<(Id<Type>, bool), ParseStop> {
        let instructions = self.instructions(schema, tag)?;
        let mut type_id = declared;
        if let Some(value) = &instructions.type_name {
            let declared = declared.map(|declared| (declared, element));
            if let Some(found) = self.replaced(schema, tag, value, declared, strict)? {
                type_id = Some(found);
            }
        } else if strict {
            self.undeclared(tag)?;
        }
        let mut nil = false;
        if let (Some(said), Some(id)) = (instructions.nil, element) {
            let declaration = &schema.components.elements[id];
            if !declaration.nillable {
                let message = "the element is not nillable, so xsi:nil is not allowed".to_owned();
                self.complain(tag, tag.name(), "cvc-elt.3.1", message)?;
            } else if said && declaration.constraint.as_ref().is_some_and(|value| value.fixed) {
                let message = "an element with a fixed value cannot be nil".to_owned();
                self.complain(tag, tag.name(), "cvc-elt.3.2.2", message)?;
            } else {
                nil = said;
            }
        }
        Ok((type_id.unwrap_or(UNDECLARED), nil))
    }

    #[inline(always)]
    fn enter<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        type_id: Id<Type>,
        element: Option<Id<Element>>,
        nil: bool,
    ) -> Result<(), ParseStop> {
        let Some(table) = schema.type_table(type_id) else { return Ok(()) };
        let has_attributes = tag.has_attributes();
        if has_attributes {
            self.attributes(schema, tag, table)?;
        }
        if table.misses {
            if !has_attributes {
                self.seen.clear(table.attributes.len());
            }
            if !self.seen.has_all(table.awaited) || table.attributes.len() > 64 {
                self.missing(schema, tag, table)?;
            }
        }
        let words = self.words.len();
        if table.words > 0 {
            self.words.resize(words + table.words as usize, 0);
        }
        let mut manner = table.manner;
        if nil || element.and_then(|id| schema.head(id)).is_some_and(|head| head.is_given) {
            manner.collects = !nil;
            manner.plain = false;
        }
        self.frames.push(Frame {
            type_id,
            element,
            state: 0,
            words: u32::try_from(words).unwrap_or(u32::MAX),
            text: u32::try_from(self.text.len()).unwrap_or(u32::MAX),
            manner,
            nil,
            lost: false,
            children: false,
            overlong: false,
        });
        Ok(())
    }

    #[inline]
    fn begin_identities<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        element: Option<Id<Element>>,
    ) -> Result<(), ParseStop> {
        let constraints = element.map(|id| schema.components.elements[id].constraints.as_slice());
        let constraints = constraints.unwrap_or(&[]);
        if constraints.is_empty() && self.tables.idle() {
            return Ok(());
        }
        let name = tag.name();
        self.tables.start(name.namespace.uri, name.local, constraints, &mut self.violations);
        self.violated(tag, name)
    }

    #[inline(always)]
    pub(super) fn text(
        &mut self,
        schema: &Schema,
        text: &str,
        spot: &dyn LazyPosition,
    ) -> Result<(), ParseStop> {
        if self.skipped > 0 {
            return Ok(());
        }
        let Some(frame) = self.frames.last() else { return Ok(()) };
        if frame.manner.collects {
            let length = self.text.len().saturating_sub(frame.text as usize);
            if length.saturating_add(text.len()) > self.bounds.text_bytes_max {
                return self.overlong(schema, spot);
            }
            self.text.push_str(text);
            if frame.manner.typed {
                return Ok(());
            }
        }
        match (frame.nil, frame.manner.kind) {
            (false, Kind::ElementOnly) if is_blank(text) => Ok(()),
            (false, Kind::Mixed | Kind::Simple | Kind::SimpleContent) => Ok(()),
            (true, _) | (false, Kind::ElementOnly | Kind::Empty) => self.stray_text(schema, spot),
        }
    }

    /// Returns the condition for replacing the last text.
    pub(super) fn text_rule(&self, schema: &Schema) -> Option<TextRule> {
        if self.skipped > 0 {
            return Some(TextRule::ANY);
        }
        let frame = self.frames.last()?;
        let table = schema.type_table(frame.type_id)?;
        if !frame.manner.plain || frame.nil || frame.children || !self.tables.idle() {
            return None;
        }
        match (&table.text, frame.manner.kind) {
            (Some(_), _) => {
                Some(TextRule { of: Some(frame.type_id), bytes_max: self.bounds.text_bytes_max })
            }
            (None, Kind::Mixed) => Some(TextRule::ANY),
            (None, Kind::ElementOnly | Kind::Empty | Kind::Simple | Kind::SimpleContent) => None,
        }
    }

    #[cold]
    fn overlong(&mut self, schema: &Schema, spot: &dyn LazyPosition) -> Result<(), ParseStop> {
        let max = self.bounds.text_bytes_max;
        let Some(frame) = self.frames.last_mut() else { return Ok(()) };
        frame.manner.plain = false;
        if std::mem::replace(&mut frame.overlong, true) {
            return Ok(());
        }
        let node = frame.element.map(|id| schema.components.elements[id].name);
        let node =
            node.map_or_else(String::new, |sym| schema.components.names.local(sym).to_owned());
        self.complain_at(spot.position(), node, "limit", format!("a text of over {max} bytes"))
    }

    /// Reports text where none is allowed.
    #[cold]
    fn stray_text(&mut self, schema: &Schema, spot: &dyn LazyPosition) -> Result<(), ParseStop> {
        let Some(frame) = self.frames.last() else { return Ok(()) };
        let (code, message) = match (frame.nil, frame.manner.kind) {
            (true, _) => ("cvc-elt.3.2.1", "the element is nil and has text"),
            (false, Kind::Empty) => ("cvc-complex-type.2.1", "the element has to be empty"),
            (false, _) => ("cvc-complex-type.2.3", "there is text between elements"),
        };
        let sym = frame.element.map(|id| schema.components.elements[id].name);
        let names = &schema.components.names;
        let node = sym.map_or_else(String::new, |sym| names.local(sym).to_owned());
        self.about.name = sym.map_or_else(String::new, |sym| names.text(sym));
        self.complain_at(spot.position(), node, code, message.to_owned())
    }

    #[inline(always)]
    pub(super) fn end(
        &mut self,
        schema: &Schema,
        name: QName<'_>,
        spot: &dyn LazyPosition,
    ) -> Result<(), ParseStop> {
        if self.skipped > 0 {
            self.skipped -= 1;
            return Ok(());
        }
        let Some(frame) = self.frames.last() else { return Ok(()) };
        let (words, text) = (frame.words as usize, frame.text as usize);
        let judged = if self.is_plainly_right(schema, frame) {
            Ok(())
        } else {
            let frame = *frame;
            self.judge_content(schema, &frame, name, spot)
        };
        self.frames.pop();
        // Harmless: the counters of an element end with it.
        self.words.truncate(words);
        // Harmless: the text of an element ends with it.
        self.text.truncate(text);
        judged?;
        if self.frames.is_empty() { self.finish() } else { Ok(()) }
    }

    /// Returns whether an element that ends is valid by the fast path.
    #[inline]
    fn is_plainly_right(&self, schema: &Schema, frame: &Frame) -> bool {
        let Some(table) = schema.type_table(frame.type_id) else { return true };
        if !frame.manner.plain || !self.tables.idle() {
            return false;
        }
        match (&table.text, frame.manner.kind) {
            (Some(text), _) => {
                let found = self.text.get(frame.text as usize..).unwrap_or_default();
                !frame.children && text.simple.is_plainly(found)
            }
            (None, Kind::ElementOnly | Kind::Mixed) => {
                let words = self.words.get(frame.words as usize..).unwrap_or_default();
                table.automaton.accepts(frame.state, words)
            }
            (None, Kind::Empty | Kind::Simple | Kind::SimpleContent) => true,
        }
    }

    fn judge_content(
        &mut self,
        schema: &Schema,
        frame: &Frame,
        name: QName<'_>,
        spot: &dyn LazyPosition,
    ) -> Result<(), ParseStop> {
        let Some(table) = schema.type_table(frame.type_id) else { return Ok(()) };
        let given = frame.element.and_then(|id| schema.values.get(id.index()));
        let given = given.and_then(Option::as_ref);
        let mut value = None;
        if frame.nil {
            if frame.children {
                let message = "the element is nil and has elements".to_owned();
                self.about.children = true;
                self.complain(spot, name, "cvc-elt.3.2.1", message)?;
            }
        } else if let Some(text) = &table.text {
            value = self.simple_text(schema, frame, text, given, name, spot)?;
        } else {
            if matches!(table.kind, Kind::ElementOnly | Kind::Mixed) {
                self.complete(schema, frame, table, name, spot)?;
            }
            if let Some(fixed) = given.filter(|given| given.fixed) {
                self.fixed_mixed(frame, fixed, name, spot)?;
            }
        }
        if self.tables.idle() {
            return Ok(());
        }
        let content = match (table.text.is_some(), value) {
            (true, Some(value)) => Content::Value(value),
            (true, None) => Content::Absent,
            (false, _) => Content::Complex,
        };
        let nillable = frame.element.is_some_and(|id| schema.components.elements[id].nillable);
        self.tables.end(&content, nillable, &mut self.violations);
        self.violated(spot, name)
    }

    /// Checks cvc-complex-type.2.4.b: no required child is missing.
    #[inline]
    fn complete(
        &mut self,
        schema: &Schema,
        frame: &Frame,
        table: &TypeTable,
        name: QName<'_>,
        spot: &dyn LazyPosition,
    ) -> Result<(), ParseStop> {
        let automaton = &table.automaton;
        let words = self.words.get(frame.words as usize..).unwrap_or_default();
        if frame.lost || automaton.accepts(frame.state, words) {
            return Ok(());
        }
        let expected = automaton.expected(frame.state, words);
        self.about.expected = named(schema, &expected);
        // Harmless: if nothing is expected, no names are listed.
        let expected = expectation(&self.about.expected).unwrap_or_default();
        let message = format!("the content is not complete; expected: {expected}");
        self.complain(spot, name, "cvc-complex-type.2.4.b", message)
    }

    /// Checks cvc-elt.5.2.2.1 and 2: mixed content with a fixed value.
    fn fixed_mixed(
        &mut self,
        frame: &Frame,
        fixed: &DefaultValue,
        name: QName<'_>,
        spot: &dyn LazyPosition,
    ) -> Result<(), ParseStop> {
        if frame.children {
            let message = "an element with a fixed value has no elements".to_owned();
            self.about = ErrorDetails::of_fixed("", &fixed.text);
            return self.complain(spot, name, "cvc-elt.5.2.2.1", message);
        }
        let found = self.text.get(frame.text as usize..).unwrap_or_default();
        if found.is_empty() || *found == *fixed.text {
            return Ok(());
        }
        let message = format!("{found:?} is not the fixed value {:?}", fixed.text);
        self.about = ErrorDetails::of_fixed(found, &fixed.text);
        self.complain(spot, name, "cvc-elt.5.2.2.2.1", message)
    }

    /// Validates the text of an element with simple type or content. If the text is empty, the default applies. Returns the value if an
    /// identity constraint needs it.
    fn simple_text(
        &mut self,
        schema: &Schema,
        frame: &Frame,
        text: &Text,
        given: Option<&DefaultValue>,
        name: QName<'_>,
        spot: &dyn LazyPosition,
    ) -> Result<Option<Value>, ParseStop> {
        if frame.children || frame.overlong {
            return Ok(None);
        }
        let wanted = !self.tables.idle() && self.tables.wants_content();
        let found = self.text.get(frame.text as usize..).unwrap_or_default();
        let (entities, steps) = (&self.entities, &self.steps);
        let names = Names { schema, entities, spot, steps };
        if given.is_none() && !wanted {
            if let Err(violation) = text.simple.check(found, &names) {
                self.about = ErrorDetails::of_text(schema, &text.simple, found, &names);
                self.complain(spot, name, violation.code, violation.message)?;
            } else if text.identifiers {
                let met = self.met(&text.simple, found, &names);
                self.identify(spot, name, None, met)?;
            }
            return Ok(None);
        }
        let defaulted = given.filter(|_| found.is_empty());
        let lexical = defaulted.map_or(found, |given| &*given.text);
        let value = match text.simple.validate(lexical, &names) {
            Ok(value) => value,
            Err(violation) => {
                self.about = ErrorDetails::of_text(schema, &text.simple, lexical, &names);
                self.complain(spot, name, violation.code, violation.message)?;
                return Ok(None);
            }
        };
        let wrong = given.filter(|given| {
            // With an `xsi:type`, the fixed value has to be parsed with that type.
            let declared = given.value.as_ref() == Some(&value);
            let same =
                || text.simple.validate(&given.text, &names).is_ok_and(|fixed| fixed == value);
            given.fixed && !declared && !same()
        });
        if let Some(fixed) = wrong.filter(|_| defaulted.is_none()) {
            let message = format!("{found:?} is not the fixed value {:?}", fixed.text);
            self.about = ErrorDetails::of_fixed(found, &fixed.text);
            self.complain(spot, name, "cvc-elt.5.2.2.2.2", message)?;
            return Ok(Some(value));
        }
        if text.identifiers {
            let met = self.met(&text.simple, lexical, &names);
            self.identify(spot, name, None, met)?;
        }
        Ok(Some(value))
    }
}

/// Returns whether a text is only white space. XML allows no other characters up to the space.
#[inline]
fn is_blank(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_blank = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        (word.wrapping_add(BEYOND_SPACE) | word) & TOPS == 0
    };
    match bytes.last_chunk::<8>() {
        // The last word may overlap the previous one.
        Some(last) => is_blank(last) && bytes.as_chunks::<8>().0.iter().all(is_blank),
        None => bytes.iter().all(|byte| *byte <= b' '),
    }
}

const TOPS: u64 = 0x8080_8080_8080_8080;
/// Added to a byte, this sets the top bit for all characters above the space.
const BEYOND_SPACE: u64 = 0x5F5F_5F5F_5F5F_5F5F;
