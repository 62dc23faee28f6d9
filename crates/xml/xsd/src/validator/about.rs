//! Details of errors about a text and its type.

use super::{ErrorDetails, TypeName};
use crate::datatype::{NameScope, SimpleType, Variety};
use crate::model::TypeKind;
use crate::names::NsId;
use crate::schema::Schema;

impl ErrorDetails {
    /// Returns the details of a text that is invalid for its type.
    #[cold]
    pub(super) fn of_text(
        schema: &Schema,
        simple: &SimpleType,
        lexical: &str,
        names: &dyn NameScope,
    ) -> ErrorDetails {
        let blame = simple.diagnose(lexical, names);
        ErrorDetails {
            value: Some(blame.text.to_owned()),
            type_name: Some(type_name(schema, blame.of)),
            variety: match blame.of.variety() {
                Variety::Ur | Variety::Atomic(_) => "atomic",
                Variety::List(_) => "list",
                Variety::Union(_) => "union",
            },
            breach: Some(blame.breach),
            ..ErrorDetails::default()
        }
    }

    /// Returns the details of a text that differs from the fixed value.
    #[cold]
    pub(super) fn of_fixed(found: &str, fixed: &str) -> ErrorDetails {
        ErrorDetails {
            value: Some(found.to_owned()),
            expected: vec![fixed.to_owned()],
            ..ErrorDetails::default()
        }
    }
}

/// Returns the name of a type. Types do not store their names, so the schema is searched.
fn type_name(schema: &Schema, simple: &SimpleType) -> TypeName {
    let builtin = simple.builtin();
    if std::ptr::eq(&*builtin.simple(), simple) {
        return TypeName::BuiltIn(builtin.name().to_owned());
    }
    let all = &schema.components;
    let is_it = |kind: &TypeKind| match kind {
        TypeKind::Simple(known) => std::ptr::eq(&*known.value, simple),
        TypeKind::Complex(_) => false,
    };
    match all.types.iter().find(|one| is_it(&one.kind)).and_then(|one| one.name) {
        Some(name) if all.names.namespace_of(name) == NsId::XSD => {
            TypeName::BuiltIn(all.names.local(name).to_owned())
        }
        Some(name) => TypeName::Global(all.names.text(name)),
        None => TypeName::Local,
    }
}
