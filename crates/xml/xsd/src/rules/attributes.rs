//! Rules for attribute declarations, uses and wildcards.

use std::collections::HashMap;

use super::values;
use crate::arena::Id;
use crate::datatype::Builtin;
use crate::model::{
    AttributeUse, ComponentLocation, DerivationSet, Type, ValueConstraint, Wildcard,
};
use crate::names::Sym;
use crate::read::Builder;

/// Checks the attribute uses of a complex type, own and inherited.
pub(super) fn of_type(builder: &mut Builder<'_>, id: Id<Type>) {
    let Some(complex) = builder.components.complex(id) else { return };
    let (uses, base_place) = (complex.uses.clone(), builder.components.types[id].place);
    distinct(builder, &uses, base_place, "ct-props-correct.4", "ct-props-correct.5");
    for usage in uses.iter().filter(|usage| usage.place.document == base_place.document) {
        use_value(builder, usage);
    }
}

/// Checks the uses of attribute groups, even those that no type uses.
pub(super) fn groups(builder: &mut Builder<'_>) {
    for id in builder.components.attribute_groups.ids() {
        let group = &builder.components.attribute_groups[id];
        let (uses, place) = (group.uses.clone(), group.place);
        distinct(builder, &uses, place, "ag-props-correct.2", "ag-props-correct.3");
    }
}

fn distinct(
    builder: &mut Builder<'_>,
    uses: &[AttributeUse],
    place: ComponentLocation,
    twice: &'static str,
    two_ids: &'static str,
) {
    let mut seen: HashMap<Sym, ComponentLocation> = HashMap::new();
    let mut id_seen = false;
    for usage in uses {
        if seen.insert(usage.name, usage.place).is_some() {
            let text = builder.components.names.text(usage.name);
            let at = if usage.place.document == place.document { usage.place } else { place };
            builder.complain(twice, at, format!("the attribute {text} occurs twice"));
        }
        if is_id(builder, usage) && std::mem::replace(&mut id_seen, true) {
            builder.complain(two_ids, place, "two attributes are IDs".to_owned());
        }
    }
}

fn is_id(builder: &Builder<'_>, usage: &AttributeUse) -> bool {
    let all = &builder.components;
    let simple = all.simple(all.attributes[usage.decl].type_id);
    simple.is_some_and(|simple| simple.builtin() == Builtin::Id)
}

/// Checks au-props-correct and a-props-correct.
fn use_value(builder: &mut Builder<'_>, usage: &AttributeUse) {
    let Some(own) = &usage.constraint else { return };
    let decl = &builder.components.attributes[usage.decl];
    let (type_id, declared) = (decl.type_id, decl.constraint.clone());
    values::check(builder, type_id, own, values::OF_ATTRIBUTE);
    if let Some(declared) = declared.filter(|declared| declared.fixed) {
        let same = own.fixed && values::same(builder, type_id, own, type_id, &declared);
        if !same {
            let message = format!("the attribute is fixed to {:?}", declared.text);
            builder.complain("au-props-correct.2", usage.place, message);
        }
    }
}

/// Checks the values of global declarations.
pub(super) fn declarations(builder: &mut Builder<'_>) {
    for id in builder.components.attributes.ids() {
        let decl = &builder.components.attributes[id];
        if let Some(constraint) = decl.constraint.clone() {
            values::check(builder, decl.type_id, &constraint, values::OF_ATTRIBUTE);
        }
    }
}

/// The attributes that a type allows.
#[derive(Clone, Copy)]
pub(super) struct AllowedAttributes<'a> {
    pub(super) uses: &'a [AttributeUse],
    pub(super) wildcard: Option<&'a Wildcard>,
}

/// Checks derivation-ok-restriction.2 to 4: how a restriction may change its base's attributes.
pub(super) fn restriction(
    builder: &mut Builder<'_>,
    place: ComponentLocation,
    derived: AllowedAttributes<'_>,
    base: AllowedAttributes<'_>,
    base_is_ur_type: bool,
) {
    let by_name: HashMap<Sym, &AttributeUse> = base.uses.iter().map(|u| (u.name, u)).collect();
    for usage in derived.uses {
        match by_name.get(&usage.name) {
            Some(original) => use_restriction(builder, usage, original),
            None => {
                let namespace = builder.components.names.namespace_of(usage.name);
                if !base.wildcard.is_some_and(|wildcard| wildcard.namespaces.allows(namespace)) {
                    let text = builder.components.names.text(usage.name);
                    let message = format!("the base has no attribute {text}");
                    builder.complain("derivation-ok-restriction.2.2", usage.place, message);
                }
            }
        }
    }
    for original in base.uses.iter().filter(|usage| usage.required) {
        if !derived.uses.iter().any(|usage| usage.name == original.name) {
            let text = builder.components.names.text(original.name);
            let message = format!("the base requires the attribute {text}");
            builder.complain("derivation-ok-restriction.3", place, message);
        }
    }
    let Some(wildcard) = derived.wildcard else { return };
    let fits = base.wildcard.is_some_and(|base| {
        wildcard.namespaces.is_subset(&base.namespaces)
            && (base_is_ur_type || wildcard.process >= base.process)
    });
    if !fits {
        let message = "the attribute wildcard of the base does not allow as much".to_owned();
        builder.complain("derivation-ok-restriction.4", place, message);
    }
}

fn use_restriction(builder: &mut Builder<'_>, usage: &AttributeUse, original: &AttributeUse) {
    let text = builder.components.names.text(usage.name);
    if original.required && !usage.required {
        let message = format!("the base requires the attribute {text}");
        builder.complain("derivation-ok-restriction.2.1.1", usage.place, message);
    }
    let all = &builder.components;
    let type_id = all.attributes[usage.decl].type_id;
    let original_type = all.attributes[original.decl].type_id;
    if !all.derives(type_id, original_type, DerivationSet::NONE) {
        let message = format!("the type of {text} does not derive from that of the base");
        builder.complain("derivation-ok-restriction.2.1.2", usage.place, message);
    }
    let effective = |usage: &AttributeUse| -> Option<ValueConstraint> {
        let declared = &builder.components.attributes[usage.decl].constraint;
        usage.constraint.clone().or_else(|| declared.clone())
    };
    let Some(fixed) = effective(original).filter(|value| value.fixed) else { return };
    let same = effective(usage).is_some_and(|value| {
        value.fixed && values::same(builder, type_id, &value, original_type, &fixed)
    });
    if !same {
        let message = format!("the base fixes {text} to {:?}", fixed.text);
        builder.complain("derivation-ok-restriction.2.1.3", usage.place, message);
    }
}

/// Checks src-redefine.7.2.2: a redefined attribute group without a reference to its original restricts it.
pub(super) fn redefined(builder: &mut Builder<'_>) {
    for (id, original) in builder.redefined_attributes() {
        let groups = &builder.components.attribute_groups;
        let (derived, base) = (&groups[id], &groups[original]);
        let refers = derived.source.groups.iter().any(|(group, _)| *group == original);
        if refers {
            continue;
        }
        let place = derived.place;
        let (derived_uses, derived_rest) = (derived.uses.clone(), derived.wildcard.clone());
        let (base_uses, base_rest) = (base.uses.clone(), base.wildcard.clone());
        restriction(
            builder,
            place,
            AllowedAttributes { uses: &derived_uses, wildcard: derived_rest.as_ref() },
            AllowedAttributes { uses: &base_uses, wildcard: base_rest.as_ref() },
            false,
        );
    }
}
