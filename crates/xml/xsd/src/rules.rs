//! Rules for finished components (Part 1, "constraints on schemas").
//!
//! Owns the order of the checks. The rules are in modules by subject and report errors through the builder. The determinism of content
//! models is checked where they are compiled.

mod attributes;
mod complex;
mod elements;
mod particles;
mod values;

use crate::model::{ModelKind, TypeKind};
use crate::read::Builder;

/// Checks all components.
pub(crate) fn check(builder: &mut Builder<'_>) {
    elements::substitution_groups(builder);
    for id in builder.components.types.ids() {
        if matches!(builder.components.types[id].kind, TypeKind::Complex(_)) {
            attributes::of_type(builder, id);
            complex::derivation(builder, id);
        }
    }
    attributes::declarations(builder);
    attributes::groups(builder);
    elements::declarations(builder);
    elements::key_references(builder);
    particles::redefined_groups(builder);
    all_groups(builder);
    elements::consistent(builder);
}

/// Checks cos-all-limited: an all-group must be the whole content and occur once.
fn all_groups(builder: &mut Builder<'_>) {
    let all = &builder.components;
    let mut wrong = Vec::new();
    let is_all = |particle: &crate::model::Particle| {
        all.model_of(particle.term).is_some_and(|model| all.models[model].kind == ModelKind::All)
    };
    for model in all.models.iter() {
        let particles = model.particles.iter().map(|&id| all.particles[id]);
        wrong.extend(particles.filter(is_all).map(|particle| particle.place));
    }
    for particle in all.particles.iter().filter(|particle| is_all(particle)) {
        if particle.max != crate::model::Max::Times(1) {
            wrong.push(particle.place);
        }
    }
    for place in wrong {
        let message = "an all-group must be the whole content and occur at most once".to_owned();
        builder.complain("cos-all-limited.1", place, message);
    }
}
