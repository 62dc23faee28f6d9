//! Generates sample values of types, for proofs and for readers of the OpenAPI document.
//!
//! A sample has exactly the form that the reader produces, so that a proof can compare texts.

mod texts;

use std::cell::Cell;

use super::fragment;
use super::model::{Children, Content, Element, MemberOf, Message, Order, Slot, Type, WildExample};
use super::typed_api::Api;
use json::push_string;

use super::scalar::quoted_key;

/// Maximum nesting of elements. A type that requires more has no sample.
const DEPTH_MAX: usize = 24;

/// Optional content is omitted below this depth, and after the sample has reached this length.
const FULL_DEPTH: usize = 4;
const FULL_BYTES: usize = 20_000;

/// Maximum length of a sample.
const SAMPLE_BYTES_MAX: usize = 1 << 20;

/// Which content a sample has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Variety {
    /// All optional content, and the first alternative of each choice.
    Full,
    /// Only required content.
    Least,
    /// All optional content, the last alternative of each choice, and derived types and nils where allowed.
    Other,
}

impl Variety {
    pub(super) const ALL: [Variety; 3] = [Variety::Full, Variety::Least, Variety::Other];
}

/// Generates a sample of a message's JSON.
///
/// `items` is the length of repeatable arrays, because two items may violate a constraint that only the schema knows.
pub(super) fn sample(
    api: &Api,
    message: &Message,
    variety: Variety,
    items: u64,
) -> Result<String, Why> {
    let ids = Cell::new(0);
    let mut sampler = Sampler { api, variety, items, out: String::new(), active: Vec::new(), ids };
    match &message.body {
        Some(root) => sampler.element(root.element)?,
        None => sampler.out.push_str("{}"),
    }
    if message.headers.is_empty() {
        return Ok(sampler.out);
    }
    let body = std::mem::take(&mut sampler.out);
    // If the body is not an object, it becomes a member beside the headers.
    let rest = match body.strip_prefix('{') {
        Some(rest) => rest.to_owned(),
        None if body == "null" => "\"$nil\":true}".to_owned(),
        None => format!("\"value\":{body}}}"),
    };
    sampler.out.push_str("{\"$headers\":{");
    for root in &message.headers {
        let Some(element) = api.elements.get(root.element) else { continue };
        sampler.key(&element.local);
        sampler.element(root.element)?;
    }
    sampler.out.push('}');
    if rest != "}" {
        sampler.out.push(',');
    }
    sampler.out.push_str(&rest);
    Ok(sampler.out)
}

/// The reason why there is no sample.
type Why = String;

struct Sampler<'a> {
    api: &'a Api,
    variety: Variety,
    out: String,
    /// Types that enclose the current position.
    active: Vec<usize>,
    /// Length of arrays.
    items: u64,
    /// Number of IDs written, which makes each of them unique.
    ids: Cell<u32>,
}

impl<'a> Sampler<'a> {
    /// Returns whether optional content is written.
    fn full(&self) -> bool {
        self.variety != Variety::Least
            && self.active.len() <= FULL_DEPTH
            && self.out.len() < FULL_BYTES
    }

    fn comma(&mut self) {
        if !self.out.ends_with(['{', '[']) {
            self.out.push(',');
        }
    }

    fn key(&mut self, key: &str) {
        self.comma();
        self.out.push_str(&quoted_key(key));
    }

    fn element(&mut self, at: usize) -> Result<(), Why> {
        let api = self.api;
        let Some(element) = api.elements.get(at) else { return Err("no element".to_owned()) };
        if self.active.len() >= DEPTH_MAX || self.out.len() > SAMPLE_BYTES_MAX {
            return Err(format!("<{}> is nested too deeply", element.local));
        }
        let Some(of) = api.types.get(element.type_at) else { return Err("no type".to_owned()) };
        let bare = !of.attributes.iter().any(|attribute| attribute.required);
        if self.variety == Variety::Other && element.nillable && bare && !self.active.is_empty() {
            self.out.push_str("null");
            return Ok(());
        }
        let (type_at, of, label) = self.actual(element, of)?;
        self.active.push(type_at);
        let before = self.out.len();
        let written = self.value(element, of, label);
        self.active.pop();
        if written.is_err() {
            // Harmless: content without a sample is omitted if it is optional; otherwise the error is returned.
            self.out.truncate(before);
        }
        written
    }

    /// Returns the type to write, and its label if it is not the element's own.
    fn actual(
        &self,
        element: &Element,
        of: &'a Type,
    ) -> Result<(usize, &'a Type, Option<&'a str>), Why> {
        let any = of
            .name
            .as_ref()
            .is_some_and(|(_, local)| matches!(&**local, "anyType" | "anySimpleType"));
        let wants = of.is_abstract || self.variety == Variety::Other && !any;
        // Harmless: each type is in the table.
        let concrete = of.replacements.iter().filter_map(|one| {
            let found = self.api.types.get(one.type_at)?;
            let fits = !found.is_abstract && !self.active.contains(&one.type_at);
            fits.then_some((one.type_at, found, Some(&*one.label)))
        });
        match concrete.into_iter().next().filter(|_| wants) {
            Some(found) => Ok(found),
            None if of.is_abstract => {
                Err(format!("no concrete type can replace that of <{}>", element.local))
            }
            None => Ok((element.type_at, of, None)),
        }
    }

    fn value(&mut self, element: &Element, of: &'a Type, label: Option<&str>) -> Result<(), Why> {
        let fixed = element.given.as_ref().filter(|given| given.fixed).map(|given| &*given.text);
        if let (Content::Text(scalar), None) = (&of.content, label) {
            self.out.push_str(&self.text(scalar, fixed)?);
            return Ok(());
        }
        let mut items = None;
        if let Content::Children(children) = &of.content
            && children.mixed
        {
            items = Some(self.mixed(children)?);
        }
        self.out.push('{');
        if let Some(label) = label {
            self.key("$type");
            push_string(&mut self.out, label);
        }
        for attribute in &of.attributes {
            if attribute.required || self.variety != Variety::Least {
                let fixed = attribute.given.as_ref().filter(|given| given.fixed);
                match self.text(&attribute.scalar, fixed.map(|given| &*given.text)) {
                    Ok(text) => {
                        self.key(&attribute.key);
                        self.out.push_str(&text);
                    }
                    Err(why) if attribute.required => return Err(why),
                    Err(_) => {}
                }
            }
        }
        match &of.content {
            Content::Text(scalar) | Content::Value(scalar) => {
                let text = self.text(scalar, fixed)?;
                self.key("value");
                self.out.push_str(&text);
            }
            Content::Empty => {}
            Content::Children(children) => match items {
                None => self.slot(children, &children.model)?,
                Some(items) => {
                    if let Some(text) = alone(children, &items).filter(|_| self.out.ends_with('{'))
                    {
                        // Content that is only text is written as a string.
                        self.out.pop();
                        self.out.push_str(text);
                        return Ok(());
                    }
                    if let (true, Some(member)) = (items != "[]", children.members.first()) {
                        self.key(&member.key);
                        self.out.push_str(&items);
                    }
                }
            },
        }
        self.out.push('}');
        Ok(())
    }

    /// Writes the items of mixed content to a separate string.
    fn mixed(&mut self, children: &'a Children) -> Result<String, Why> {
        let before = std::mem::take(&mut self.out);
        self.out.push('[');
        if self.variety == Variety::Full {
            self.out.push_str(TEXT);
        }
        let member = children.members.first().map(|member| &member.of);
        let written = match member {
            Some(MemberOf::Items { order }) => self.order(children, 0, order),
            Some(MemberOf::Element(_) | MemberOf::Any { .. }) | None => Ok(()),
        };
        self.out.push(']');
        let items = std::mem::replace(&mut self.out, before);
        written.map(|()| items)
    }

    fn slot(&mut self, children: &'a Children, slot: &'a Slot) -> Result<(), Why> {
        let before = self.out.len();
        match slot {
            Slot::Member(member) => self.member(children, *member),
            Slot::Sequence { optional: true, .. } if !self.full() => Ok(()),
            Slot::Sequence { slots, optional } => {
                let inner = slots.iter().try_for_each(|slot| self.slot(children, slot));
                match inner {
                    Err(_) if *optional => {
                        // Harmless: content without a sample is omitted if it is optional; otherwise the error is returned.
                        self.out.truncate(before);
                        Ok(())
                    }
                    inner => inner,
                }
            }
            Slot::Choice { slots, .. } => {
                if slot.is_emptiable(&children.members) && !self.full() {
                    return Ok(());
                }
                let last = self.variety == Variety::Other;
                let order: Vec<&Slot> =
                    if last { slots.iter().rev().collect() } else { slots.iter().collect() };
                let mut why = Ok(());
                for one in order {
                    // Harmless: this discards what the alternative before it wrote, which has no sample.
                    self.out.truncate(before);
                    why = self.slot(children, one);
                    if why.is_ok() {
                        break;
                    }
                }
                match why {
                    Err(_) if slot.is_emptiable(&children.members) => {
                        // Harmless: content without a sample is omitted if it is optional; otherwise the error is returned.
                        self.out.truncate(before);
                        Ok(())
                    }
                    why => why,
                }
            }
        }
    }

    fn member(&mut self, children: &'a Children, index: usize) -> Result<(), Why> {
        let Some(member) = children.members.get(index) else { return Ok(()) };
        let recursive = match member.of {
            MemberOf::Element(element) => self
                .api
                .elements
                .get(element)
                .is_some_and(|element| self.active.contains(&element.type_at)),
            MemberOf::Any { .. } => true,
            MemberOf::Items { .. } => false,
        };
        if member.min == 0 && (!self.full() || recursive) || member.max == Some(0) {
            return Ok(());
        }
        let before = self.out.len();
        self.key(&member.key);
        let wanted = if self.variety == Variety::Least { 1 } else { self.items };
        let times = member.max.map_or(wanted, |max| max.min(wanted)).max(member.min);
        let written = match &member.of {
            MemberOf::Element(element) if !member.many => self.element(*element),
            MemberOf::Element(element) => self.array(times, |sampler| sampler.element(*element)),
            MemberOf::Any { example } => self.array(member.min, |sampler| sampler.any(example)),
            MemberOf::Items { order } => {
                self.out.push('[');
                let written = self.order(children, index, order);
                self.out.push(']');
                if written.is_ok() && self.out.ends_with("[]") {
                    // Harmless: an array without items is the same as no array.
                    self.out.truncate(before);
                }
                written
            }
        };
        match written {
            Err(_) if member.min == 0 => {
                // Harmless: content without a sample is omitted if it is optional; otherwise the error is returned.
                self.out.truncate(before);
                Ok(())
            }
            written => written,
        }
    }

    /// Writes an element for a wildcard, as XML in a string.
    fn any(&mut self, example: &WildExample) -> Result<(), Why> {
        let api = self.api;
        let at = match example {
            WildExample::Declared(at) => *at,
            WildExample::In(uri) => {
                let mut xml = "<any".to_owned();
                if !uri.is_empty() {
                    xml.push_str(" xmlns=\"");
                    xml::escape_attribute(uri, &mut xml);
                    xml.push('"');
                }
                xml.push_str("/>");
                push_string(&mut self.out, &fragment::again(&xml)?);
                return Ok(());
            }
        };
        let root = api.examples.get(at);
        let Some((root, element)) = root.and_then(|r| Some((r, api.elements.get(r.element)?)))
        else {
            return Err("there is no such element".to_owned());
        };
        let active = self.active.clone();
        let mut sampler = Sampler {
            api,
            variety: Variety::Least,
            items: 1,
            out: String::new(),
            active,
            ids: Cell::new(self.ids.get()),
        };
        sampler.element(root.element)?;
        let mut xml = api.written(element, &root.declarations, &sampler.out)?;
        // Normalised to the form that the reader produces.
        xml = fragment::again(&xml)?;
        self.ids.set(sampler.ids.get());
        push_string(&mut self.out, &xml);
        Ok(())
    }

    fn array(
        &mut self,
        times: u64,
        mut one: impl FnMut(&mut Self) -> Result<(), Why>,
    ) -> Result<(), Why> {
        self.out.push('[');
        for _ in 0..times {
            self.comma();
            one(self)?;
        }
        self.out.push(']');
        Ok(())
    }

    fn order(&mut self, children: &'a Children, member: usize, order: &Order) -> Result<(), Why> {
        let (min, emptiable) = match order {
            Order::Leaf { min, .. } | Order::Sequence { min, .. } | Order::Choice { min, .. } => {
                (*min, *min == 0)
            }
            Order::Any { min, .. } => (*min, *min == 0),
        };
        let wild = matches!(order, Order::Any { .. });
        let times = if emptiable && self.full() && !wild { 1 } else { min };
        for _ in 0..times {
            let before = self.out.len();
            let written = self.ordered(children, member, order);
            match written {
                // Harmless: content without a sample is omitted if it is optional.
                Err(_) if emptiable => self.out.truncate(before),
                written => written?,
            }
        }
        Ok(())
    }

    fn ordered(&mut self, children: &'a Children, member: usize, order: &Order) -> Result<(), Why> {
        match order {
            Order::Leaf { element, .. } => {
                let named = |at: usize| {
                    self.api.elements.get(at).map(|element| (&*element.local, &*element.uri))
                };
                let mut leaves = children.leaves.iter().filter(|leaf| leaf.member == member);
                let leaf = leaves.find(|leaf| named(leaf.element) == named(*element));
                // Harmless: an element without a key is a member of its own.
                let key = leaf.map(|leaf| leaf.key.clone()).unwrap_or_default();
                let type_at = self.api.elements.get(*element).map(|element| element.type_at);
                if type_at.is_some_and(|of| self.active.iter().filter(|at| **at == of).count() > 1)
                {
                    return Err("it contains itself".to_owned());
                }
                self.comma();
                self.out.push('{');
                self.out.push_str(&quoted_key(&key));
                self.element(*element)?;
                self.out.push('}');
                Ok(())
            }
            Order::Any { example, .. } => {
                self.comma();
                self.out.push_str("{\"$any\":");
                self.any(example)?;
                self.out.push('}');
                Ok(())
            }
            Order::Sequence { inner, .. } => {
                inner.iter().try_for_each(|order| self.order(children, member, order))
            }
            Order::Choice { inner, .. } => {
                let before = self.out.len();
                let mut why = Ok(());
                for one in inner {
                    // Harmless: this discards what the alternative before it wrote, which has no sample.
                    self.out.truncate(before);
                    why = self.ordered(children, member, one);
                    if why.is_ok() {
                        break;
                    }
                }
                why
            }
        }
    }
}

/// Returns the items of mixed content as a string, if all of them are text.
fn alone<'i>(children: &Children, items: &'i str) -> Option<&'i str> {
    let inner = items.strip_prefix('[')?.strip_suffix(']')?;
    match inner {
        _ if !children.shorthand => None,
        "" => Some("\"\""),
        TEXT => Some(inner),
        _ => None,
    }
}

/// Text between elements, as JSON.
const TEXT: &str = "\"text & more \"";
