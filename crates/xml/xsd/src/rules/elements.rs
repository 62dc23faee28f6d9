//! Rules for element declarations: values, substitution groups, consistency, key references.

use std::collections::{HashMap, HashSet};

use super::values;
use crate::arena::Id;
use crate::identity::ConstraintKind;
use crate::model::{Content, Element, Model, Particle, Term, Type};
use crate::names::Sym;
use crate::read::Builder;

/// Collects the members of all substitution groups, and checks that they are allowed.
pub(super) fn substitution_groups(builder: &mut Builder<'_>) {
    let mut globals: Vec<Id<Element>> =
        builder.components.globals.elements.values().copied().collect();
    globals.sort_unstable_by_key(|id| id.number());
    let mut found: HashMap<Id<Element>, Vec<Id<Element>>> = HashMap::new();
    for &id in &globals {
        let mut at = id;
        // Chains of heads are finite, because cycles have been refused.
        while let Some(head) = builder.components.elements[at].head {
            if builder.components.substitutes(id, head) {
                found.entry(head).or_default().push(id);
            }
            at = head;
        }
        let Some(head) = builder.components.elements[id].head else { continue };
        let all = &builder.components;
        let (member, of) = (&all.elements[id], &all.elements[head]);
        if !all.derives(member.type_id, of.type_id, of.finals) {
            let text = all.names.text(of.name);
            let place = member.place;
            let message = format!("its type cannot be substituted for that of {text}");
            builder.complain("e-props-correct.4", place, message);
        }
    }
    builder.components.substitutes = found;
}

/// Checks the values of all declarations.
pub(super) fn declarations(builder: &mut Builder<'_>) {
    for id in builder.components.elements.ids() {
        let element = &builder.components.elements[id];
        if let Some(constraint) = element.constraint.clone() {
            values::check(builder, element.type_id, &constraint, values::OF_ELEMENT);
        }
    }
}

/// Checks that a key reference has the same number of fields as the key that it refers to (c-props-correct).
pub(super) fn key_references(builder: &mut Builder<'_>) {
    for reference in std::mem::take(&mut builder.keyrefs) {
        let found = builder.components.globals.constraints.get(&reference.refer);
        let (code, message) = match found.map(|c| (&c.kind, c.fields.len())) {
            Some((ConstraintKind::Unique | ConstraintKind::Key, fields))
                if fields == reference.fields =>
            {
                continue;
            }
            Some((ConstraintKind::Unique | ConstraintKind::Key, fields)) => {
                ("c-props-correct.2", format!("the key referred to has {fields} fields"))
            }
            Some((ConstraintKind::KeyRef { .. }, _)) => {
                ("c-props-correct.1", "the constraint referred to is not a key".to_owned())
            }
            None => {
                let text = builder.components.names.text(reference.refer);
                ("src-resolve", format!("there is no key {text}"))
            }
        };
        builder.complain(code, reference.place, message);
    }
}

/// Checks cos-element-consistent: elements of the same name in one content model have the same type.
pub(super) fn consistent(builder: &mut Builder<'_>) {
    for id in builder.components.types.ids() {
        let Some(complex) = builder.components.complex(id) else { continue };
        let Content::Children { particle, .. } = complex.content else { continue };
        if let Some(name) = inconsistent(builder, particle) {
            let text = builder.components.names.text(name);
            let place = builder.components.types[id].place;
            let message = format!("two elements {text} of the content have different types");
            builder.complain_unless_libxml("cos-element-consistent", place, message);
        }
    }
}

fn inconsistent(builder: &Builder<'_>, particle: Id<Particle>) -> Option<Sym> {
    let all = &builder.components;
    let mut types: HashMap<Sym, Id<Type>> = HashMap::new();
    let mut seen: HashSet<Id<Model>> = HashSet::new();
    let mut open = vec![particle];
    while let Some(particle) = open.pop() {
        match all.particles[particle].term {
            Term::Element(element) => {
                let members = all.substitutes.get(&element).map_or(&[][..], Vec::as_slice);
                for &id in std::iter::once(&element).chain(members) {
                    let element = &all.elements[id];
                    let first = *types.entry(element.name).or_insert(element.type_id);
                    if first != element.type_id {
                        return Some(element.name);
                    }
                }
            }
            Term::Wildcard(_) => {}
            term @ (Term::Model(_) | Term::Group(_)) => {
                if let Some(model) = all.model_of(term).filter(|&model| seen.insert(model)) {
                    open.extend(&all.models[model].particles);
                }
            }
        }
    }
    None
}
