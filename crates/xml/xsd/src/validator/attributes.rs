//! Validation of attributes: cvc-complex-type.3 to 5, cvc-attribute, cvc-au.

use xml::QName;

use super::run::{Run, expanded, written};
use super::scope::Tag;
use super::{ErrorDetails, ParseStop};
use crate::datatype::{Builtin, EmptyScope};
use crate::model::{Process, Wildcard};
use crate::names::{NsId, Sym};
use crate::schema::{DefaultValue, Kind, Schema, Text, TypeTable};

/// The attributes `xsi:type` and `xsi:nil`.
#[derive(Debug, Default)]
pub(super) struct Instructions {
    pub(super) type_name: Option<String>,
    pub(super) nil: Option<bool>,
}

/// A name with the numbers that it has in the schema.
struct ResolvedName<'n> {
    name: QName<'n>,
    namespace: NsId,
    sym: Sym,
}

impl Run {
    /// Reads `xsi:type` and `xsi:nil`, which affect all other checks.
    pub(super) fn instructions<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
    ) -> Result<Instructions, ParseStop> {
        let mut found = Instructions::default();
        tag.each(|name, value| {
            if name.namespace.id == 0 || self.space(schema, name) != NsId::XSI {
                return Ok(());
            }
            match name.local {
                "type" => found.type_name = Some(value.to_owned()),
                "nil" => match crate::syntax::collapse(value) {
                    "true" | "1" => found.nil = Some(true),
                    "false" | "0" => found.nil = Some(false),
                    _ => {
                        found.nil = Some(false);
                        let message = format!("{value:?} is not a boolean");
                        let boolean = Builtin::Boolean.simple();
                        self.about = ErrorDetails::of_text(schema, &boolean, value, &EmptyScope);
                        self.about.element = Some(expanded(tag.name()));
                        self.complain(tag, name, "cvc-datatype-valid.1.2.1", message)?;
                    }
                },
                // Harmless: other attributes in this namespace have no effect.
                _ => {}
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Validates all attributes of an element that has any.
    pub(super) fn attributes<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        table: &TypeTable,
    ) -> Result<(), ParseStop> {
        self.seen.clear(table.attributes.len());
        let mut wild_ids = 0;
        tag.each(|name, value| {
            let (namespace, sym) = self.sym(schema, name);
            if namespace == NsId::XSI {
                return self.instruction(tag, name, table.kind);
            }
            if table.kind == Kind::Simple {
                let message = format!(
                    "its type is simple, so the attribute {} is not allowed",
                    written(name)
                );
                return self.complain_attribute(tag, name, "cvc-type.3.1.1", message);
            }
            let found = match table.attributes.len() {
                0..=8 => table.attributes.iter().position(|attribute| attribute.name == sym),
                // Harmless: an unknown name is reported below.
                _ => table.attributes.binary_search_by_key(&sym, |attribute| attribute.name).ok(),
            };
            let Some((at, attribute)) = found.and_then(|at| Some((at, table.attributes.get(at)?)))
            else {
                let name = ResolvedName { name, namespace, sym };
                return self.wild(schema, tag, name, value, table, &mut wild_ids);
            };
            self.seen.add(at);
            self.attribute_value(
                schema,
                tag,
                name,
                value,
                &attribute.text,
                attribute.given.as_ref(),
            )
        })
    }

    /// Validates an attribute in the `xsi` namespace. Every element may have the four known ones, and no others.
    fn instruction<T: Tag>(
        &mut self,
        tag: &T,
        name: QName<'_>,
        kind: Kind,
    ) -> Result<(), ParseStop> {
        match name.local {
            "type" | "nil" | "schemaLocation" | "noNamespaceSchemaLocation" => Ok(()),
            _ => {
                let message = format!("there is no attribute {}", written(name));
                let code =
                    if kind == Kind::Simple { "cvc-type.3.1.1" } else { "cvc-complex-type.3.2.1" };
                self.complain_attribute(tag, name, code, message)
            }
        }
    }

    /// Reports an error of an element about one of its attributes.
    #[cold]
    fn complain_attribute<T: Tag>(
        &mut self,
        tag: &T,
        name: QName<'_>,
        code: &'static str,
        message: String,
    ) -> Result<(), ParseStop> {
        self.about.element = Some(expanded(tag.name()));
        self.about.name = expanded(name);
        self.complain_at(tag.position(), written(tag.name()), code, message)
    }

    /// Reports missing required attributes. Passes the defaults of other missing ones to identity constraints, and records their IDREFs.
    pub(super) fn missing<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        table: &TypeTable,
    ) -> Result<(), ParseStop> {
        for (at, attribute) in table.attributes.iter().enumerate() {
            if self.seen.has(at) {
                continue;
            }
            if attribute.required {
                let text = schema.components.names.text(attribute.name);
                let message = format!("the attribute {text} is missing");
                self.about.expected = vec![text];
                self.complain(tag, tag.name(), "cvc-complex-type.4", message)?;
                continue;
            }
            let Some(given) = &attribute.given else { continue };
            let names = &schema.components.names;
            let (uri, local) =
                (names.uri(names.namespace_of(attribute.name)), names.local(attribute.name));
            if !self.tables.idle() && self.tables.wants_attribute(uri, local) {
                self.tables.attribute(uri, local, given.value.as_ref(), &mut self.violations);
                self.violated(tag, tag.name())?;
            }
            if attribute.text.identifiers {
                self.identifiers(schema, tag, tag.name(), &given.text, &attribute.text)?;
            }
        }
        Ok(())
    }

    /// Validates an attribute that only a wildcard can match (cvc-complex-type.3.2).
    fn wild<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        ResolvedName { name, namespace, sym }: ResolvedName<'_>,
        value: &str,
        table: &TypeTable,
        ids: &mut usize,
    ) -> Result<(), ParseStop> {
        let Some(wildcard) = &table.wildcard else {
            let message = format!("there is no attribute {}", written(name));
            return self.complain_attribute(tag, name, "cvc-complex-type.3.2.1", message);
        };
        if !wildcard.namespaces.allows(namespace) {
            let message = format!("no attribute {} is allowed", written(name));
            return self.complain_attribute(tag, name, "cvc-complex-type.3.2.2", message);
        }
        let Wildcard { process, .. } = wildcard;
        let decl = schema.components.globals.attributes.get(&sym);
        let Some(&decl) = decl.filter(|_| *process != Process::Skip) else {
            if *process == Process::Strict {
                let message = format!("the attribute {} is not declared", written(name));
                return self.complain_attribute(tag, name, "cvc-assess-attr", message);
            }
            // A field that selects this attribute finds no value to compare.
            return Ok(());
        };
        let decl = &schema.components.attributes[decl];
        let Some(simple) = schema.components.simple(decl.type_id) else { return Ok(()) };
        let is_id = simple.builtin() == Builtin::Id;
        *ids += usize::from(is_id);
        let declared = table.attributes.iter().any(|a| a.text.simple.builtin() == Builtin::Id);
        if is_id && *ids > 1 {
            let message = "at most one ID may match the wildcard".to_owned();
            self.complain(tag, tag.name(), "cvc-complex-type.5.1", message)?;
        } else if is_id && declared {
            let message = "the type declares an ID, so no other may match the wildcard".to_owned();
            self.complain(tag, tag.name(), "cvc-complex-type.5.2", message)?;
        }
        let text = Text::new(simple);
        let given = decl.constraint.as_ref().map(|constraint| DefaultValue {
            fixed: constraint.fixed,
            text: std::sync::Arc::clone(&constraint.text),
            // Harmless: a default that is invalid for its type has been reported already.
            value: simple.validate(&constraint.text, &EmptyScope).ok(),
        });
        self.attribute_value(schema, tag, name, value, &text, given.as_ref())
    }

    #[inline(always)]
    fn attribute_value<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        name: QName<'_>,
        value: &str,
        text: &Text,
        given: Option<&DefaultValue>,
    ) -> Result<(), ParseStop> {
        let asked =
            given.is_some_and(|given| given.fixed) || text.identifiers || !self.tables.idle();
        if !asked && text.simple.is_plainly(value) {
            Ok(())
        } else {
            self.full_check(schema, tag, name, value, text, given)
        }
    }

    /// Validates a value that the fast path does not accept, or whose value or identifiers are needed.
    #[inline(never)]
    fn full_check<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        name: QName<'_>,
        value: &str,
        text: &Text,
        given: Option<&DefaultValue>,
    ) -> Result<(), ParseStop> {
        let fixed = given.filter(|given| given.fixed);
        let (uri, local) = (name.namespace.uri, name.local);
        let wanted = !self.tables.idle() && self.tables.wants_attribute(uri, local);
        let names = self.names(schema, tag);
        if fixed.is_none() && !wanted {
            let checked = text.simple.check(value, &names);
            if let Err(violation) = checked {
                self.about = ErrorDetails::of_text(schema, &text.simple, value, &names);
                self.about.element = Some(expanded(tag.name()));
                return self.complain(tag, name, violation.code, violation.message);
            }
        } else {
            let found = text.simple.validate(value, &names);
            let about =
                found.is_err().then(|| ErrorDetails::of_text(schema, &text.simple, value, &names));
            if wanted {
                // Harmless: the error is reported below.
                self.tables.attribute(uri, local, found.as_ref().ok(), &mut self.violations);
                self.violated(tag, tag.name())?;
            }
            match (found, fixed) {
                (Err(violation), _) => {
                    // Harmless: the details are always present if there is an error.
                    self.about = about.unwrap_or_default();
                    self.about.element = Some(expanded(tag.name()));
                    return self.complain(tag, name, violation.code, violation.message);
                }
                (Ok(found), Some(fixed)) if fixed.value.as_ref() != Some(&found) => {
                    let message = format!("{value:?} is not the fixed value {:?}", fixed.text);
                    self.about = ErrorDetails::of_fixed(value, &fixed.text);
                    self.about.element = Some(expanded(tag.name()));
                    return self.complain(tag, name, "cvc-attribute.4", message);
                }
                (Ok(_), _) => {}
            }
        }
        if text.identifiers { self.identifiers(schema, tag, name, value, text) } else { Ok(()) }
    }

    fn identifiers<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        name: QName<'_>,
        value: &str,
        text: &Text,
    ) -> Result<(), ParseStop> {
        let met = self.met(&text.simple, value, &self.names(schema, tag));
        self.identify(tag, name, Some(tag.name()), met)
    }
}
