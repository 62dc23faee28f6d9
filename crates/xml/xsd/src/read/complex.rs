//! Complex types: reading their definitions, and building them in the order of derivation.

use std::collections::{HashMap, HashSet};

use xml::NodeId;

use super::global::empty_simple;
use super::{Builder, Inside};
use crate::arena::Id;
use crate::documents::SchemaDocument;
use crate::model::{
    ANY_TYPE, AttributeGroup, AttributeSource, AttributeUse, Complex, ComplexSource,
    ComponentLocation, Content, Derivation, DerivationSet, Element, Max, Model, ModelKind,
    Particle, Term, Type, TypeKind, Wildcard,
};
use crate::names::Sym;

impl<'d> Builder<'d> {
    pub(super) fn read_complex(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        id: Id<Type>,
        inside: Inside,
    ) {
        let allowed = DerivationSet::EXTENSION.with(DerivationSet::RESTRICTION);
        let content = doc.child(node, &["simpleContent", "complexContent"]);
        let derivation = content.and_then(|c| doc.child(c, &["restriction", "extension"]));
        let way = match derivation.map(|d| doc.tag(d)) {
            Some("extension") => Derivation::Extension,
            Some(_) | None => Derivation::Restriction,
        };
        let base = match derivation.and_then(|d| Some((d, doc.attribute(d, "base")?))) {
            Some((d, text)) => Self::or_any(self.type_named(doc, d, text, inside)),
            None => ANY_TYPE,
        };
        let simple = content.is_some_and(|c| doc.tag(c) == "simpleContent");
        let holder = derivation.unwrap_or(node);
        let mixed_at = content.filter(|&c| doc.attribute(c, "mixed").is_some()).unwrap_or(node);
        let particle = doc
            .child(holder, &["group", "all", "choice", "sequence"])
            .and_then(|child| self.read_particle(doc, child, inside));
        let attributes = self.read_attributes(doc, holder, inside);
        let inner = match doc.child(holder, &["simpleType"]) {
            Some(child) if simple => Some(self.anonymous_type(doc, child, inside)),
            Some(_) | None => None,
        };
        let source = ComplexSource {
            simple,
            mixed: doc.flag(mixed_at, "mixed"),
            particle,
            attributes,
            inner,
            facets: derivation.map(|d| doc.place(d)),
        };
        let definition = &mut self.components.types[id];
        definition.base = base;
        definition.finals = doc.ways(node, "final", doc.final_default, allowed);
        definition.kind = TypeKind::Complex(Box::new(Complex {
            way,
            is_abstract: doc.flag(node, "abstract"),
            block: doc.ways(node, "block", doc.block_default, allowed),
            content: Content::Empty,
            uses: Vec::new(),
            wildcard: None,
            source,
        }));
    }

    /// Expands attribute groups, and searches for cycles in both kinds of groups. Returns false if there are any, or if the nesting is too
    /// deep.
    pub(super) fn groups(&mut self) -> bool {
        let attributes = self.expand_attribute_groups();
        let models = self.check_nesting();
        attributes && models
    }

    fn expand_attribute_groups(&mut self) -> bool {
        let mut done: HashSet<Id<AttributeGroup>> = HashSet::new();
        let mut under_way: HashSet<Id<AttributeGroup>> = HashSet::new();
        let mut sound = true;
        for start in self.components.attribute_groups.ids() {
            let mut open = vec![start];
            while let Some(&id) = open.last() {
                if done.contains(&id) {
                    open.pop();
                    continue;
                }
                let first_visit = under_way.insert(id);
                let needs = self.components.attribute_groups[id].source.groups.clone();
                let missing: Vec<_> =
                    needs.iter().filter(|(need, _)| !done.contains(need)).copied().collect();
                let circle = missing.iter().find(|(need, _)| under_way.contains(need));
                if let Some(&(_, place)) = circle {
                    sound = false;
                    let message = "the attribute group refers to itself".to_owned();
                    self.complain("src-attribute_group.3", place, message);
                } else if first_visit && !missing.is_empty() {
                    open.extend(missing.iter().map(|&(need, _)| need));
                    continue;
                }
                let group = &self.components.attribute_groups[id];
                let (source, place) = (group.source.clone(), group.place);
                let (uses, wildcard) = self.gathered(&source, place);
                let group = &mut self.components.attribute_groups[id];
                group.uses = uses;
                group.wildcard = wildcard;
                done.insert(id);
                open.pop();
            }
        }
        sound
    }

    /// Returns uses and wildcard of a list of attributes, including those of its groups (Part 1, 3.4.2: the complete wildcard).
    fn gathered(
        &mut self,
        source: &AttributeSource,
        place: ComponentLocation,
    ) -> (Vec<AttributeUse>, Option<Wildcard>) {
        let mut uses = source.uses.clone();
        let mut wildcard = source.wildcard.clone();
        for (group, _) in &source.groups {
            let group = &self.components.attribute_groups[*group];
            uses.extend(group.uses.iter().cloned());
            wildcard = match (wildcard, &group.wildcard) {
                (Some(mine), Some(theirs)) => {
                    let Some(namespaces) = mine.namespaces.intersection(&theirs.namespaces) else {
                        let message =
                            "the intersection of the wildcards cannot be expressed".to_owned();
                        self.complain("src-attribute_group.2", place, message);
                        return (uses, Some(mine));
                    };
                    Some(Wildcard { namespaces, ..mine })
                }
                (mine, theirs) => mine.or_else(|| theirs.clone()),
            };
        }
        (uses, wildcard)
    }

    /// Checks mg-props-correct.2, and the limit on the nesting of models, through named groups.
    fn check_nesting(&mut self) -> bool {
        let mut depths: HashMap<Id<Model>, usize> = HashMap::new();
        let mut under_way: HashSet<Id<Model>> = HashSet::new();
        for start in self.components.models.ids() {
            let mut open = vec![start];
            while let Some(&id) = open.last() {
                if depths.contains_key(&id) {
                    open.pop();
                    continue;
                }
                let first_visit = under_way.insert(id);
                let inner = self.inner_models(id);
                let missing: Vec<_> =
                    inner.iter().filter(|(model, _)| !depths.contains_key(model)).collect();
                if let Some((_, place)) = missing.iter().find(|(m, _)| under_way.contains(m)) {
                    let message = "the group contains itself".to_owned();
                    self.complain("mg-props-correct.2", *place, message);
                    return false;
                }
                if first_visit && !missing.is_empty() {
                    open.extend(missing.iter().map(|&&(model, _)| model));
                    continue;
                }
                // Harmless: the depth of each inner model is known by now.
                let deepest = inner.iter().filter_map(|(model, _)| depths.get(model)).max();
                let depth = 1 + deepest.copied().unwrap_or(0);
                if depth > self.limits.depth_max {
                    let place =
                        inner.first().map_or(ComponentLocation::BUILT_IN, |&(_, place)| place);
                    let message = format!(
                        "more than {} levels of nested model groups",
                        self.limits.depth_max
                    );
                    self.complain("limit", place, message);
                    return false;
                }
                depths.insert(id, depth);
                open.pop();
            }
        }
        true
    }

    /// Returns the models among the particles of a model.
    fn inner_models(&self, model: Id<Model>) -> Vec<(Id<Model>, ComponentLocation)> {
        let particles = self.components.models[model].particles.iter();
        particles
            .map(|&id| self.components.particles[id])
            // Harmless: elements and wildcards contain no models.
            .filter_map(|p| Some((self.components.model_of(p.term)?, p.place)))
            .collect()
    }

    /// Sets the type of every element: the declared one, that of the head of its substitution group, or the ur-type.
    pub(super) fn element_types(&mut self) -> bool {
        let mut sound = true;
        for start in self.components.elements.ids() {
            let mut seen = HashSet::new();
            let mut at = start;
            let found = loop {
                let element = &self.components.elements[at];
                if !seen.insert(at) {
                    if at == start {
                        sound = false;
                        let place = element.place;
                        let text = self.components.names.text(element.name);
                        let message = format!("{text} is in its own substitution group");
                        self.complain("e-props-correct.6", place, message);
                    }
                    break ANY_TYPE;
                }
                match (element.declared_type, element.head) {
                    // Without a head there cannot be a cycle.
                    (Some(found), None) => break found,
                    (_, Some(head)) => at = head,
                    (None, None) => break ANY_TYPE,
                }
            };
            let own = self.first_type(start);
            self.components.elements[start].type_id = own.unwrap_or(found);
        }
        sound
    }

    /// Returns the declared type of the element, or of the nearest head that has one.
    fn first_type(&self, start: Id<Element>) -> Option<Id<Type>> {
        let mut at = start;
        for _ in 0..self.components.elements.len() {
            let element = &self.components.elements[at];
            if element.declared_type.is_some() {
                return element.declared_type;
            }
            at = element.head?;
        }
        None
    }

    /// Builds all complex types, each after its base type.
    pub(super) fn complex_types(&mut self) {
        let mut depths: HashMap<Id<Type>, usize> = HashMap::from([(ANY_TYPE, 0)]);
        for start in self.components.types.ids() {
            let mut chain = Vec::new();
            let mut seen = HashSet::new();
            let mut at = start;
            while self.components.complex(at).is_some() && !depths.contains_key(&at) {
                if !seen.insert(at) {
                    let text = self.components.type_text(at);
                    let place = self.components.types[at].place;
                    let message = format!("{text} derives from itself");
                    self.complain("ct-props-correct.3", place, message);
                    self.components.types[at].base = ANY_TYPE;
                    break;
                }
                chain.push(at);
                at = self.components.types[at].base;
            }
            let mut depth = depths.get(&at).copied().unwrap_or(0);
            while let Some(id) = chain.pop() {
                if depths.contains_key(&id) {
                    continue;
                }
                depth += 1;
                if depth > self.limits.depth_max {
                    let place = self.components.types[id].place;
                    let message =
                        format!("more than {} levels of derivation", self.limits.depth_max);
                    self.complain("limit", place, message);
                    self.components.types[id].base = ANY_TYPE;
                    depth = 1;
                }
                depths.insert(id, depth);
                self.make_complex(id);
            }
        }
    }

    fn make_complex(&mut self, id: Id<Type>) {
        let place = self.components.types[id].place;
        let base = self.components.types[id].base;
        let Some(complex) = self.components.complex_mut(id) else { return };
        let way = complex.way;
        let source = std::mem::take(&mut complex.source);
        let content = if source.simple {
            self.simple_content(id, base, way, &source, place)
        } else {
            self.complex_content(base, way, &source, place)
        };
        let (uses, wildcard) = self.gathered(&source.attributes, place);
        let prohibited = source.attributes.prohibited.clone();
        let uses = self.with_inherited(base, way, uses, &prohibited);
        let wildcard = self.with_inherited_wildcard(base, way, wildcard, place);
        let Some(complex) = self.components.complex_mut(id) else { return };
        complex.content = content;
        complex.uses = uses;
        complex.wildcard = wildcard;
        complex.source = source;
    }

    fn with_inherited(
        &self,
        base: Id<Type>,
        way: Derivation,
        mut uses: Vec<AttributeUse>,
        prohibited: &[Sym],
    ) -> Vec<AttributeUse> {
        let Some(base) = self.components.complex(base) else { return uses };
        let own: HashSet<Sym> = uses.iter().map(|usage| usage.name).collect();
        let inherited = base.uses.iter().filter(|usage| match way {
            Derivation::Extension => true,
            Derivation::Restriction => {
                !own.contains(&usage.name) && !prohibited.contains(&usage.name)
            }
        });
        uses.extend(inherited.cloned());
        uses
    }

    fn with_inherited_wildcard(
        &mut self,
        base: Id<Type>,
        way: Derivation,
        own: Option<Wildcard>,
        place: ComponentLocation,
    ) -> Option<Wildcard> {
        let inherited = self.components.complex(base).and_then(|base| base.wildcard.clone());
        match (way, own, inherited) {
            (Derivation::Restriction, own, _) | (Derivation::Extension, own, None) => own,
            (Derivation::Extension, None, inherited) => inherited,
            (Derivation::Extension, Some(own), Some(inherited)) => {
                match own.namespaces.union(&inherited.namespaces) {
                    Some(namespaces) => Some(Wildcard { namespaces, ..own }),
                    None => {
                        let message =
                            "the union with the base's wildcard cannot be expressed".to_owned();
                        self.complain("src-ct.5", place, message);
                        Some(own)
                    }
                }
            }
        }
    }

    fn simple_content(
        &mut self,
        id: Id<Type>,
        base: Id<Type>,
        way: Derivation,
        source: &ComplexSource,
        place: ComponentLocation,
    ) -> Content {
        let emptiable = match self.components.complex(base).map(|complex| complex.content) {
            Some(Content::Children { mixed: true, particle }) => {
                self.components.is_emptiable(particle) && base != ANY_TYPE
            }
            Some(Content::Children { .. } | Content::Empty | Content::Simple(_)) | None => false,
        };
        let from = match (self.components.complex(base).map(|complex| complex.content), way) {
            (Some(Content::Simple(content)), Derivation::Extension) => {
                return Content::Simple(content);
            }
            (None, Derivation::Extension) => return Content::Simple(base),
            (Some(Content::Simple(content)), Derivation::Restriction) => {
                if let Some(inner) = source.inner
                    && !self.components.derives(inner, content, DerivationSet::NONE)
                {
                    let message = "the inner type does not derive from the base's".to_owned();
                    self.complain("derivation-ok-restriction.5.1.1", place, message);
                }
                source.inner.unwrap_or(content)
            }
            (Some(Content::Children { mixed: true, .. }), Derivation::Restriction) if emptiable => {
                match source.inner {
                    Some(inner) => inner,
                    None => {
                        let message =
                            "a restriction of mixed content to simple content needs a simple type";
                        self.complain("src-ct.2", place, message.to_owned());
                        return Content::Empty;
                    }
                }
            }
            _ => {
                if self.report.is_empty() || base != ANY_TYPE {
                    let text = self.components.type_text(base);
                    let message = format!("{text} does not have simple content");
                    self.complain("src-ct.2", place, message);
                }
                return Content::Empty;
            }
        };
        let (Some(simple), Some(facets)) = (self.components.simple(from).cloned(), source.facets)
        else {
            return Content::Empty;
        };
        // The ur-type cannot be restricted, but it may be used unchanged.
        let ur_type = matches!(simple.variety(), crate::datatype::Variety::Ur);
        if ur_type && !self.has_facets(facets) {
            return Content::Simple(from);
        }
        let Some(made) = self.restrict(&simple, facets) else { return Content::Simple(from) };
        let mut definition = empty_simple(None, self.components.types[id].place);
        definition.base = from;
        if let TypeKind::Simple(simple) = &mut definition.kind {
            simple.value = made;
        }
        Content::Simple(self.components.types.push(definition))
    }

    fn complex_content(
        &mut self,
        base: Id<Type>,
        way: Derivation,
        source: &ComplexSource,
        place: ComponentLocation,
    ) -> Content {
        let Some(base_content) = self.components.complex(base).map(|complex| complex.content)
        else {
            let message = format!("{} is a simple type", self.components.type_text(base));
            self.complain("src-ct.1", place, message);
            return Content::Empty;
        };
        let own = self.effective(source, place);
        match (way, own, base_content) {
            (Derivation::Restriction, own, _) => own,
            (Derivation::Extension, Content::Empty, inherited) => inherited,
            (Derivation::Extension, own, Content::Empty) => own,
            (Derivation::Extension, own, Content::Simple(_)) => {
                let message = "simple content cannot be extended by elements".to_owned();
                self.complain("cos-ct-extends.1.4", place, message);
                own
            }
            (
                Derivation::Extension,
                Content::Children { mixed, particle },
                Content::Children { mixed: base_mixed, particle: first },
            ) => {
                if mixed != base_mixed {
                    let message = "base and extension must both be mixed, or neither".to_owned();
                    self.complain("cos-ct-extends.1.4.3.2.2.1", place, message);
                }
                let particles = vec![first, particle];
                let kind = ModelKind::Sequence;
                let model = self.components.models.push(Model { kind, particles });
                let term = Term::Model(model);
                let both = Particle { place, min: 1, max: Max::Times(1), term };
                Content::Children { mixed, particle: self.components.particles.push(both) }
            }
            (Derivation::Extension, own @ Content::Simple(_), _) => own,
        }
    }

    /// Returns the effective content of a definition (Part 1, 3.4.2).
    fn effective(&mut self, source: &ComplexSource, place: ComponentLocation) -> Content {
        let particle = source.particle.filter(|&particle| {
            let particle = self.components.particles[particle];
            match self.components.model_of(particle.term) {
                Some(model) => {
                    let model = &self.components.models[model];
                    let choice = model.kind == ModelKind::Choice;
                    // An empty choice that must occur can never match, so it is kept.
                    !model.particles.is_empty() || choice && particle.min > 0
                }
                None => true,
            }
        });
        match (particle, source.mixed) {
            (Some(particle), mixed) => Content::Children { mixed, particle },
            (None, false) => Content::Empty,
            (None, true) => {
                let kind = ModelKind::Sequence;
                let model = self.components.models.push(Model { kind, particles: Vec::new() });
                let term = Term::Model(model);
                let nothing = Particle { place, min: 1, max: Max::Times(1), term };
                Content::Children { mixed: true, particle: self.components.particles.push(nothing) }
            }
        }
    }
}
