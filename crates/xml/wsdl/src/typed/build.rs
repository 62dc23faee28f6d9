//! Builds the tables from types and elements of a schema.
//!
//! A type gets its index before its content is read, so that types may contain themselves. There is no recursion across types.

mod children;

use std::collections::HashMap;
use std::sync::Arc;

use xsd::Schema;
use xsd::datatype::{Builtin, SimpleType, Variety};
use xsd::walk::{
    AttributeView, ContentView, ElementView, GivenView, ParticleView, TypeView, facets,
};

use super::model::{
    Attribute, Content, Element, Leaf, Replacement, Root, Scalar, ScalarKind, Type,
    ValueConstraint, WildExample,
};
use children::children;

/// Tables under construction.
pub(super) struct TablesBuilder<'s> {
    pub(super) schema: &'s Schema,
    pub(super) elements: Vec<Element>,
    pub(super) types: Vec<Type>,
    pub(super) examples: Vec<Root>,
    /// Indexes by number in the schema.
    known_elements: HashMap<u32, usize>,
    known_types: HashMap<u32, usize>,
    /// Types that have an index but no content yet.
    open: Vec<(usize, TypeView<'s>)>,
}

impl<'s> TablesBuilder<'s> {
    pub(super) fn new(schema: &'s Schema) -> TablesBuilder<'s> {
        TablesBuilder {
            schema,
            elements: Vec::new(),
            types: Vec::new(),
            examples: Vec::new(),
            known_elements: HashMap::new(),
            known_types: HashMap::new(),
            open: Vec::new(),
        }
    }

    /// Returns the index of an element.
    pub(super) fn element(&mut self, view: ElementView<'s>) -> usize {
        if let Some(known) = self.known_elements.get(&view.number()) {
            return *known;
        }
        let (uri, local) = view.name();
        let type_at = self.type_at(view.type_of(), local);
        let given = view.given().map(given);
        let at = self.plain(uri, local, type_at, view.nillable(), given);
        self.known_elements.insert(view.number(), at);
        at
    }

    /// Adds an element to the table. It is called directly for elements that no schema declares: parts, and the wrappers around them.
    pub(super) fn plain(
        &mut self,
        uri: &str,
        local: &str,
        type_at: usize,
        nillable: bool,
        given: Option<ValueConstraint>,
    ) -> usize {
        let (open, close) = (Box::default(), Box::default());
        let (uri, local) = (uri.into(), local.into());
        self.elements.push(Element { uri, local, open, close, type_at, nillable, given });
        self.elements.len() - 1
    }

    /// Returns an example for a wildcard. If the wildcard requires an element and accepts only declared ones, it is the first one by name.
    pub(super) fn example(&mut self, particle: ParticleView<'s>, strict: bool) -> WildExample {
        let free = || WildExample::In(particle.listed_namespace().unwrap_or("urn:sample").into());
        if strict && particle.min() > 0 {
            self.declared(particle).map_or_else(free, WildExample::Declared)
        } else {
            free()
        }
    }

    fn declared(&mut self, particle: ParticleView<'s>) -> Option<usize> {
        let all = self.schema.elements().filter(|(uri, _)| particle.allows(uri));
        let (uri, local) = all.min_by_key(|(uri, local)| (*local, *uri))?;
        let element = self.element(self.schema.element(uri, local)?);
        self.examples.push(Root { element, declarations: Box::default() });
        Some(self.examples.len() - 1)
    }

    /// Returns the index of a type; `title` is used if the type has no name.
    pub(super) fn type_at(&mut self, view: TypeView<'s>, title: &str) -> usize {
        if let Some(known) = self.known_types.get(&view.number()) {
            return *known;
        }
        let name = view.name().map(|(uri, local)| (Box::from(uri), Box::from(local)));
        let title = name.as_ref().map_or(title, |(_, local)| local);
        let at = self.push_type(name.clone(), title);
        self.known_types.insert(view.number(), at);
        self.open.push((at, view));
        at
    }

    /// Adds a type without content.
    pub(super) fn push_type(&mut self, name: Option<(Box<str>, Box<str>)>, title: &str) -> usize {
        let instance = match &name {
            Some((uri, local)) if uri.is_empty() => format!(r#" xsi:type="{local}""#),
            Some((uri, local)) => {
                let mut escaped = String::new();
                xml::escape_attribute(uri, &mut escaped);
                format!(r#" xmlns:t="{escaped}" xsi:type="t:{local}""#)
            }
            None => String::new(),
        };
        self.types.push(Type {
            title: title.into(),
            name,
            instance: instance.into(),
            is_abstract: false,
            attributes: Vec::new(),
            any_attribute: false,
            content: Content::Empty,
            replacements: Vec::new(),
            replaces: false,
        });
        self.types.len() - 1
    }

    /// Reads the content of every type that has an index.
    pub(super) fn fill(&mut self) {
        while let Some((at, view)) = self.open.pop() {
            let content = self.content(view);
            let attributes: Vec<Attribute> = view.attributes().into_iter().map(attribute).collect();
            let replacements = self.replacements(view);
            for replacement in &replacements {
                if let Some(known) = self.types.get_mut(replacement.type_at) {
                    known.replaces = true;
                }
            }
            let Some(made) = self.types.get_mut(at) else { continue };
            made.is_abstract = view.is_abstract();
            made.any_attribute = view.any_attribute();
            made.content = content;
            made.attributes = distinct(attributes);
            made.replacements = replacements;
            let bare = !made.attributes.iter().any(|attribute| attribute.required);
            if let Content::Children(children) = &mut made.content {
                children.shorthand = children.mixed && bare;
            }
        }
    }

    fn content(&mut self, view: TypeView<'s>) -> Content {
        match view.content() {
            ContentView::Simple(simple) => Content::Text(scalar(simple)),
            ContentView::SimpleContent(simple) => Content::Value(scalar(simple)),
            ContentView::Empty => Content::Empty,
            ContentView::Children { mixed, particle } => {
                Content::Children(children(self, mixed, particle))
            }
        }
    }

    /// Returns the types that a message may use in place of another. For simple types they make no difference in JSON.
    fn replacements(&mut self, view: TypeView<'s>) -> Vec<Replacement> {
        let any_simple = matches!(view.content(), ContentView::Simple(simple) if matches!(simple.variety(), Variety::Ur));
        let simple = matches!(view.content(), ContentView::Simple(_));
        if simple && !any_simple {
            return Vec::new();
        }
        let mut all = view.replacements();
        all.retain(|one| !one.is_any());
        let mut times: HashMap<&str, usize> = HashMap::new();
        // Harmless: a type without a name cannot replace another.
        for (_, local) in all.iter().filter_map(|one| one.name()) {
            *times.entry(local).or_default() += 1;
        }
        let label = |one: &TypeView<'s>| {
            let (uri, local) = one.name()?;
            Some(match times.get(local) {
                Some(1) => local.to_owned(),
                Some(_) | None => format!("{{{uri}}}{local}"),
            })
        };
        let labelled: Vec<(String, TypeView<'s>)> =
            // Harmless: a type without a name cannot replace another.
            all.iter().filter_map(|one| Some((label(one)?, *one))).collect();
        let place = |(label, one): (String, TypeView<'s>)| {
            let type_at = self.type_at(one, &label);
            Replacement { label: label.into(), type_at }
        };
        labelled.into_iter().map(place).collect()
    }

    /// Returns whether two leaves have the same name.
    pub(super) fn same(&self, one: &Leaf, other: &Leaf) -> bool {
        match (self.elements.get(one.element), self.elements.get(other.element)) {
            (Some(one), Some(other)) => one.local == other.local && one.uri == other.uri,
            _ => false,
        }
    }
}

fn given(view: GivenView<'_>) -> ValueConstraint {
    ValueConstraint { fixed: view.fixed, text: view.text.into() }
}

fn attribute(view: AttributeView<'_>) -> Attribute {
    Attribute {
        uri: view.uri.into(),
        local: view.local.into(),
        key: format!("@{}", view.local).into(),
        open: Box::default(),
        required: view.required,
        scalar: scalar(view.simple),
        given: view.given.map(given),
    }
}

/// If attributes in several namespaces have the same local name, adds the namespace to the keys of all but the first.
fn distinct(mut attributes: Vec<Attribute>) -> Vec<Attribute> {
    let mut seen: Vec<Box<str>> = Vec::new();
    for attribute in &mut attributes {
        if seen.contains(&attribute.key) {
            attribute.key = format!("@{{{}}}{}", attribute.uri, attribute.local).into();
        }
        seen.push(attribute.key.clone());
    }
    attributes
}

pub(super) fn scalar(simple: &Arc<SimpleType>) -> Scalar {
    let kind = match simple.variety() {
        Variety::Ur => ScalarKind::Free,
        Variety::Atomic(primitive) => atomic(*primitive, simple),
        Variety::List(item) => ScalarKind::List(Box::new(scalar(item))),
        Variety::Union(members) => ScalarKind::Union(members.iter().map(scalar).collect()),
    };
    Scalar { simple: Arc::clone(simple), kind }
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others are texts")]
fn atomic(primitive: Builtin, simple: &SimpleType) -> ScalarKind {
    match primitive {
        // In JSON a number or boolean has only one form, but a pattern may require another.
        Builtin::Boolean | Builtin::Decimal | Builtin::Float | Builtin::Double
            if !facets(simple).patterns.is_empty() =>
        {
            ScalarKind::Text
        }
        Builtin::Boolean => ScalarKind::Boolean,
        Builtin::Decimal => ScalarKind::Number { whole: simple.builtin() != Builtin::Decimal },
        Builtin::Float | Builtin::Double => ScalarKind::Float,
        Builtin::QName | Builtin::Notation => ScalarKind::Name,
        _ => ScalarKind::Text,
    }
}
