//! Reads particles and model groups.

use xml::NodeId;

use super::{Builder, Inside, Redefinition};
use crate::arena::Id;
use crate::documents::SchemaDocument;
use crate::model::{Group, Max, Model, ModelKind, Particle, Term};

impl<'d> Builder<'d> {
    /// Reads the particle of an element of a schema document. Returns `None` if it may not occur.
    pub(super) fn read_particle(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
    ) -> Option<Id<Particle>> {
        let place = doc.place(node);
        if !self.has_room(place) {
            return None;
        }
        let min = occurs(doc.attribute(node, "minOccurs").unwrap_or("1"));
        let max = match doc.attribute(node, "maxOccurs") {
            Some("unbounded") => Max::Unbounded,
            Some(text) => Max::Times(occurs(text)),
            None => Max::Times(1),
        };
        if Max::Times(min) > max {
            let message = "minOccurs is more than maxOccurs".to_owned();
            self.complain("p-props-correct.2.1", place, message);
        }
        if max == Max::Times(0) {
            return None;
        }
        let term = match doc.tag(node) {
            "element" => Term::Element(self.local_element(doc, node, inside)?),
            "any" => {
                let wildcard = self.wildcard(doc, node);
                Term::Wildcard(self.components.wildcards.push(wildcard))
            }
            "group" => Term::Group(self.group_named(doc, node, inside)?),
            _ => Term::Model(self.read_model(doc, node, inside)),
        };
        Some(self.components.particles.push(Particle { place, min, max, term }))
    }

    fn group_named(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        inside: Inside,
    ) -> Option<Id<Group>> {
        let text = doc.attribute(node, "ref")?;
        let name = self.qname(doc, node, text)?;
        if let Some(Redefinition::Group(own, original)) = inside.redefined
            && own == name
        {
            return Some(original);
        }
        match self.components.globals.groups.get(&name) {
            Some(&id) => Some(id),
            None => self.missing(doc.place(node), "group", name),
        }
    }

    /// Reads a `sequence`, `choice` or `all`. Recursion is bounded by the parser's limit on depth.
    fn read_model(&mut self, doc: &SchemaDocument<'_>, node: NodeId, inside: Inside) -> Id<Model> {
        let kind = match doc.tag(node) {
            "choice" => ModelKind::Choice,
            "all" => ModelKind::All,
            _ => ModelKind::Sequence,
        };
        let children: Vec<NodeId> = doc.children(node).collect();
        let mut particles = Vec::new();
        for child in children {
            if doc.tag(child) != "annotation" {
                particles.extend(self.read_particle(doc, child, inside));
            }
        }
        self.components.models.push(Model { kind, particles })
    }

    /// Reads a named group's model.
    pub(super) fn read_group(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        id: Id<Group>,
        inside: Inside,
    ) {
        let Some(child) = doc.child(node, &["all", "choice", "sequence"]) else { return };
        self.components.groups[id].model = self.read_model(doc, child, inside);
        if let Some(Redefinition::Group(name, original)) = inside.redefined {
            self.check_redefined_group(doc, node, child, name, original);
        }
    }

    /// Checks src-redefine.6.1: a redefined group refers to its original at most once, with exactly one occurrence.
    fn check_redefined_group(
        &mut self,
        doc: &SchemaDocument<'_>,
        node: NodeId,
        model: NodeId,
        name: crate::names::Sym,
        original: Id<Group>,
    ) {
        let references: Vec<(u64, Max)> = doc
            .tree()
            .descendants(model)
            .filter(|&n| doc.tag(n) == "group")
            // Harmless: a group without `ref` has been reported already.
            .filter_map(|n| {
                let text = doc.attribute(n, "ref")?;
                let (_, local) = text.split_once(':').unwrap_or(("", text));
                let same = local == self.components.names.local(name);
                let max = match doc.attribute(n, "maxOccurs") {
                    Some("unbounded") => Max::Unbounded,
                    Some(text) => Max::Times(occurs(text)),
                    None => Max::Times(1),
                };
                same.then(|| (occurs(doc.attribute(n, "minOccurs").unwrap_or("1")), max))
            })
            .collect();
        let text = self.components.names.text(name);
        match references.as_slice() {
            [] => self
                .redefined_groups
                .push((self.components.globals.groups.get(&name).copied(), original)),
            [(1, Max::Times(1))] => {}
            [_] => {
                let message =
                    format!("the reference from {text} to its original must occur exactly once");
                self.complain("src-redefine.6.1.2", doc.place(node), message);
            }
            [_, _, ..] => {
                let message = format!("{text} refers to its original more than once");
                self.complain("src-redefine.6.1.1", doc.place(node), message);
            }
        }
    }
}

/// Parses a number of occurrences. A number that does not fit counts as the largest one.
fn occurs(text: &str) -> u64 {
    let digits = text.trim_start_matches(['+', '-']);
    digits.parse().unwrap_or(if digits.bytes().all(|b| b.is_ascii_digit()) { u64::MAX } else { 1 })
}
