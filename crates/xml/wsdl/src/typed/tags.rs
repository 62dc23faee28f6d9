//! Assigns namespace prefixes, places their declarations, and writes all tags in advance.
//!
//! If all elements of an API are in a single namespace, no prefix is used, as in hand-written XML.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::model::{Content, Element, MemberOf, Order, Root, Type, XSI};
use super::typed_api::Operation;

/// Writes the tags of all elements and attributes, and the declarations of each root.
pub(super) fn write(
    elements: &mut [Element],
    types: &mut [Type],
    operations: &mut [Operation],
    examples: &mut [Root],
) {
    let spaces = Spaces::of(elements, types);
    for element in elements.iter_mut() {
        let name = spaces.name(&element.uri, &element.local);
        element.open = format!("<{name}").into();
        element.close = format!("</{name}>").into();
    }
    for attribute in types.iter_mut().flat_map(|of| &mut of.attributes) {
        attribute.open = match &*attribute.uri {
            "" => format!(" {}=\"", attribute.local),
            xml::XML_NAMESPACE => format!(" xml:{}=\"", attribute.local),
            uri => format!(" {}=\"", spaces.name(uri, &attribute.local)),
        }
        .into();
    }
    for root in examples {
        root.declarations = spaces.declared(root, elements, types).into();
    }
    for operation in operations {
        let messages = std::iter::once(&mut operation.input).chain(&mut operation.output);
        for message in messages {
            for root in message.headers.iter_mut().chain(&mut message.body) {
                root.declarations = spaces.declared(root, elements, types).into();
            }
        }
    }
}

/// The namespaces of an API.
struct Spaces {
    all: Vec<Box<str>>,
    /// Whether there is only one namespace, which needs no prefix.
    plain: bool,
}

impl Spaces {
    fn of(elements: &[Element], types: &[Type]) -> Spaces {
        let attributes = || types.iter().flat_map(|of| &of.attributes);
        let of_attributes = attributes().map(|attribute| &attribute.uri);
        let mut all: Vec<Box<str>> = Vec::new();
        let mut known: BTreeSet<&str> = BTreeSet::from(["", xml::XML_NAMESPACE]);
        for uri in elements.iter().map(|element| &element.uri).chain(of_attributes) {
            if known.insert(uri) {
                all.push(uri.clone());
            }
        }
        let bare = elements.iter().any(|element| element.uri.is_empty())
            || types.iter().any(|of| of.name.as_ref().is_some_and(|(uri, _)| uri.is_empty()));
        let qualified = |uri: &str| !uri.is_empty() && uri != xml::XML_NAMESPACE;
        let wild = types.iter().any(|of| match &of.content {
            Content::Children(children) => children.wild.is_some(),
            Content::Text(_) | Content::Value(_) | Content::Empty => false,
        });
        let plain = all.len() == 1
            && !bare
            && !wild
            && !attributes().any(|attribute| qualified(&attribute.uri));
        Spaces { all, plain }
    }

    fn name(&self, uri: &str, local: &str) -> String {
        match self.all.iter().position(|known| **known == *uri) {
            Some(at) if !self.plain => format!("n{at}:{local}"),
            Some(_) | None => local.to_owned(),
        }
    }

    /// Returns the declarations for everything that may occur below a root.
    fn declared(&self, root: &Root, elements: &[Element], types: &[Type]) -> String {
        let mut reach = Reach::default();
        reach.element(root.element, elements);
        while let Some(at) = reach.open.pop() {
            if let Some(of) = types.get(at) {
                reach.of_type(of, elements, types);
            }
        }
        let mut text = String::new();
        for (at, uri) in self.all.iter().enumerate() {
            if reach.spaces.contains(&**uri) {
                let mut escaped = String::new();
                xml::escape_attribute(uri, &mut escaped);
                let _ = if self.plain {
                    write!(text, " xmlns=\"{escaped}\"")
                } else {
                    write!(text, " xmlns:n{at}=\"{escaped}\"")
                };
            }
        }
        if reach.instance {
            let _ = write!(text, " xmlns:xsi=\"{XSI}\"");
        }
        text
    }
}

/// Namespaces and types that may occur below an element.
#[derive(Default)]
struct Reach<'a> {
    spaces: BTreeSet<&'a str>,
    /// Whether `xsi:nil` or `xsi:type` may be written.
    instance: bool,
    seen: BTreeSet<usize>,
    open: Vec<usize>,
}

impl<'a> Reach<'a> {
    fn element(&mut self, at: usize, elements: &'a [Element]) {
        let Some(element) = elements.get(at) else { return };
        self.spaces.insert(&element.uri);
        self.instance |= element.nillable;
        self.type_at(element.type_at);
    }

    fn type_at(&mut self, at: usize) {
        if self.seen.insert(at) {
            self.open.push(at);
        }
    }

    fn of_type(&mut self, of: &'a Type, elements: &'a [Element], types: &[Type]) {
        self.instance |= !of.replacements.is_empty();
        for replacement in &of.replacements {
            if types.get(replacement.type_at).is_some() {
                self.type_at(replacement.type_at);
            }
        }
        self.spaces.extend(of.attributes.iter().map(|attribute| &*attribute.uri));
        let Content::Children(children) = &of.content else { return };
        for leaf in &children.leaves {
            self.element(leaf.element, elements);
        }
        for member in &children.members {
            match &member.of {
                MemberOf::Element(element) => self.element(*element, elements),
                MemberOf::Items { order: Order::Leaf { element, .. } } => {
                    self.element(*element, elements);
                }
                MemberOf::Items { .. } | MemberOf::Any { .. } => {}
            }
        }
    }
}
