//! Rules for the derivation of complex types: derivation-ok-restriction, cos-ct-extends.

use super::attributes::AllowedAttributes;
use super::{attributes, particles};
use crate::arena::Id;
use crate::model::{ANY_TYPE, Content, Derivation, DerivationSet, Type};
use crate::read::Builder;

pub(super) fn derivation(builder: &mut Builder<'_>, id: Id<Type>) {
    let definition = &builder.components.types[id];
    let (place, base) = (definition.place, definition.base);
    let Some(complex) = builder.components.complex(id) else { return };
    if id == ANY_TYPE {
        return;
    }
    let (way, content) = (complex.way, complex.content);
    let (uses, wildcard) = (complex.uses.clone(), complex.wildcard.clone());
    if builder.components.types[base].finals.has(way.as_ways()) {
        let text = builder.components.type_text(base);
        let (code, how) = match way {
            Derivation::Extension => ("cos-ct-extends.1.1", "extension"),
            Derivation::Restriction => ("derivation-ok-restriction.1", "restriction"),
        };
        builder.complain(code, place, format!("{text} is final for {how}"));
    }
    // An extension is valid by construction.
    let Some(of_base) = builder.components.complex(base).filter(|_| way == Derivation::Restriction)
    else {
        return;
    };
    let base_content = of_base.content;
    let (base_uses, base_wildcard) = (of_base.uses.clone(), of_base.wildcard.clone());
    attributes::restriction(
        builder,
        place,
        AllowedAttributes { uses: &uses, wildcard: wildcard.as_ref() },
        AllowedAttributes { uses: &base_uses, wildcard: base_wildcard.as_ref() },
        base == ANY_TYPE,
    );
    if let Err((code, message)) = content_restriction(builder, base, content, base_content) {
        // Of the rules for restrictions, libxml2 checks those for attributes and simple contents.
        if code.starts_with("rcase-") {
            builder.complain_unless_libxml(code, place, message)
        } else {
            builder.complain(code, place, message)
        }
    }
}

type BrokenRule = (&'static str, String);

/// Checks derivation-ok-restriction.5.
fn content_restriction(
    builder: &mut Builder<'_>,
    base: Id<Type>,
    content: Content,
    base_content: Content,
) -> Result<(), BrokenRule> {
    let all = &builder.components;
    let broken = |code, message: &str| Err((code, message.to_owned()));
    match (content, base_content) {
        (Content::Simple(own), Content::Simple(inherited)) => {
            if all.derives(own, inherited, DerivationSet::NONE) {
                Ok(())
            } else {
                broken(
                    "derivation-ok-restriction.5.1.1",
                    "the text's type does not derive from that of the base",
                )
            }
        }
        (Content::Simple(_), Content::Children { mixed: true, particle })
            if all.is_emptiable(particle) =>
        {
            Ok(())
        }
        (Content::Simple(_), Content::Empty | Content::Children { .. }) => {
            broken("derivation-ok-restriction.5.1", "the base has no text that can stand alone")
        }
        (Content::Empty, Content::Empty) => Ok(()),
        (Content::Empty, Content::Children { particle, .. }) if all.is_emptiable(particle) => {
            Ok(())
        }
        (Content::Empty, Content::Children { .. } | Content::Simple(_)) => {
            broken("derivation-ok-restriction.5.2", "the content of the base cannot be empty")
        }
        (Content::Children { mixed: true, .. }, Content::Children { mixed: false, .. }) => {
            broken("derivation-ok-restriction.5.3", "the base is not mixed")
        }
        (Content::Children { particle, .. }, Content::Children { particle: wider, .. }) => {
            if base == ANY_TYPE {
                return Ok(());
            }
            particles::restriction(builder, particle, wider)
        }
        (Content::Children { mixed, particle }, Content::Empty) => {
            let nothing = all.range(particle).1 == crate::model::Max::Times(0);
            if nothing && !mixed {
                Ok(())
            } else {
                broken("derivation-ok-restriction.5.3", "the content of the base is empty")
            }
        }
        (Content::Children { .. }, Content::Simple(_)) => {
            broken("derivation-ok-restriction.5.3", "the content of the base is text")
        }
    }
}
