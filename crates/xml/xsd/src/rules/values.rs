//! Rules for default and fixed values.

use crate::arena::Id;
use crate::datatype::{Builtin, SimpleType, Value};
use crate::model::{Content, Type, TypeKind, ValueConstraint};
use crate::read::Builder;
use crate::scope::Scope;

/// The rules about the default or fixed value of a declaration.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueRules {
    /// It is valid for the type.
    valid: &'static str,
    /// There is none for an ID.
    no_id: &'static str,
}

pub(super) const OF_ELEMENT: ValueRules =
    ValueRules { valid: "e-props-correct.2", no_id: "e-props-correct.5" };

pub(super) const OF_ATTRIBUTE: ValueRules =
    ValueRules { valid: "a-props-correct.2", no_id: "a-props-correct.3" };

/// Checks that a default or fixed value is valid for the type (cos-valid-default).
pub(super) fn check(
    builder: &mut Builder<'_>,
    type_id: Id<Type>,
    constraint: &ValueConstraint,
    rules: ValueRules,
) {
    let all = &builder.components;
    let complex = match &all.types[type_id].kind {
        TypeKind::Complex(complex) => Some(complex.content),
        TypeKind::Simple(_) => None,
    };
    let message = match (complex, all.text_type(type_id)) {
        (_, Some(simple)) if simple.builtin() == Builtin::Id => {
            let message = "an ID must not have a default or fixed value".to_owned();
            builder.complain(rules.no_id, constraint.place, message);
            return;
        }
        (_, Some(simple)) => value(builder, simple, constraint).err(),
        (Some(Content::Children { mixed: true, particle }), _) if all.is_emptiable(particle) => {
            None
        }
        _ => Some("only text, or mixed content that can be empty, may have a default".to_owned()),
    };
    if let Some(message) = message {
        builder.complain(rules.valid, constraint.place, message);
    }
}

/// Returns the typed value of a default or fixed value.
pub(super) fn value(
    builder: &Builder<'_>,
    simple: &SimpleType,
    constraint: &ValueConstraint,
) -> Result<Value, String> {
    let scope = Scope {
        document: builder.documents.get(constraint.place.document),
        node: constraint.place.node,
        components: Some(&builder.components),
    };
    simple.validate(&constraint.text, &scope).map_err(|violation| violation.message)
}

/// Returns whether two fixed values are equal. An invalid one is reported elsewhere.
pub(super) fn same(
    builder: &Builder<'_>,
    first_type: Id<Type>,
    first: &ValueConstraint,
    second_type: Id<Type>,
    second: &ValueConstraint,
) -> bool {
    let all = &builder.components;
    match (all.text_type(first_type), all.text_type(second_type)) {
        (Some(one), Some(other)) => {
            match (value(builder, one, first), value(builder, other, second)) {
                (Ok(one), Ok(other)) => one == other,
                (Err(_), _) | (_, Err(_)) => first.text == second.text,
            }
        }
        _ => first.text == second.text,
    }
}
