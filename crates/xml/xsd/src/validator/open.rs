//! Finds the declaration and type of an element.

use super::run::{Run, expanded, written};
use super::scope::Tag;
use super::{ErrorDetails, ParseStop, Root, TypeName};
use crate::arena::Id;
use crate::automaton::{MatchedParticle, Next};
use crate::datatype::Builtin;
use crate::model::{ANY_TYPE, Element, Namespaces, Process, Type};
use crate::names::{NsId, Sym, XSI_NAMESPACE};
use crate::schema::{Kind, Schema};

/// What an element is validated against.
#[derive(Debug, Clone, Copy)]
pub(super) enum Judge {
    /// Nothing: the element and its content are skipped.
    Nobody,
    Declaration(Id<Element>),
    /// A type given by the caller, without a declaration.
    Type(Id<Type>),
    /// The `xsi:type`, or else the ur-type, without a declaration. `strict`: a declaration was required.
    Undeclared {
        strict: bool,
    },
}

impl Run {
    /// Processes a child by the content model of its parent. Returns `None` if the child is not allowed or cannot be checked.
    #[inline(always)]
    pub(super) fn step(
        &mut self,
        schema: &Schema,
        namespace: NsId,
        sym: Sym,
    ) -> Option<MatchedParticle> {
        let parent = self.frames.last_mut()?;
        parent.children = true;
        if parent.lost || parent.nil {
            return None;
        }
        let words = self.words.get_mut(parent.words as usize..).unwrap_or(&mut []);
        let wildcards = &schema.components.wildcards;
        let automaton = &schema.type_table(parent.type_id)?.automaton;
        let (next, matched) = automaton.step(parent.state, words, sym, namespace, wildcards)?;
        parent.state = next;
        Some(matched)
    }

    /// Returns what an element that starts is validated against.
    pub(super) fn judge<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        sym: Sym,
        matched: Option<MatchedParticle>,
    ) -> Result<Judge, ParseStop> {
        match (matched, self.frames.last()) {
            (Some(MatchedParticle::Element(element)), _) => Ok(Judge::Declaration(element)),
            (Some(MatchedParticle::Wildcard(wildcard)), _) => {
                Ok(by_wildcard(schema, schema.components.wildcards[wildcard].process, sym))
            }
            (None, None) => self.root(schema, tag, sym),
            (None, Some(parent)) => {
                if !parent.lost && !parent.nil {
                    self.out_of_place(schema, tag)?;
                }
                Ok(by_wildcard(schema, Process::Lax, sym))
            }
        }
    }

    fn root<T: Tag>(&mut self, schema: &Schema, tag: &T, sym: Sym) -> Result<Judge, ParseStop> {
        let declared = schema.global(sym);
        Ok(match (&self.root, declared) {
            (Root::Declared | Root::Lax, Some(element)) => Judge::Declaration(element),
            (Root::Lax, None) => Judge::Undeclared { strict: false },
            (Root::Declared, None) => Judge::Undeclared { strict: true },
            (Root::Element { uri, local }, Some(element))
                if tag.name().namespace.uri == uri && tag.name().local == local =>
            {
                Judge::Declaration(element)
            }
            (Root::Element { uri, local }, _) => {
                let message = format!("{{{uri}}}{local} must be here");
                self.complain(tag, tag.name(), "cvc-elt.1", message)?;
                by_wildcard(schema, Process::Lax, sym)
            }
            (Root::Type { uri, local }, _) => match schema.type_of_name(uri, local) {
                Some(found) => Judge::Type(found),
                None => {
                    let message = format!("there is no type {{{uri}}}{local}");
                    self.complain(tag, tag.name(), "cvc-type.1", message)?;
                    Judge::Nobody
                }
            },
        })
    }

    /// Reports a child that is not allowed here (cvc-complex-type.2.4).
    #[cold]
    fn out_of_place<T: Tag>(&mut self, schema: &Schema, tag: &T) -> Result<(), ParseStop> {
        let Some(parent) = self.frames.last_mut() else { return Ok(()) };
        parent.lost = true;
        let words = self.words.get(parent.words as usize..).unwrap_or_default();
        let Some(table) = schema.type_table(parent.type_id) else { return Ok(()) };
        let (code, message) = match table.kind {
            Kind::Simple => (
                "cvc-type.3.1.2",
                "its parent has a simple type, so elements are not allowed".to_owned(),
            ),
            Kind::SimpleContent => (
                "cvc-complex-type.2.2",
                "its parent has simple content, so elements are not allowed".to_owned(),
            ),
            Kind::Empty => ("cvc-complex-type.2.1", "its parent has to be empty".to_owned()),
            Kind::ElementOnly | Kind::Mixed => {
                let expected = table.automaton.expected(parent.state, words);
                let expected = named(schema, &expected);
                let message = expectation(&expected);
                // As in libxml2, members of an all-group are listed only if one of them is still required.
                if !table.automaton.is_complete_all(words) {
                    self.about.expected = expected;
                }
                match message {
                    Some(expected) => {
                        ("cvc-complex-type.2.4.a", format!("not here; expected: {expected}"))
                    }
                    None => ("cvc-complex-type.2.4.d", "no element is allowed here".to_owned()),
                }
            }
        };
        if !matches!(table.kind, Kind::ElementOnly | Kind::Mixed) {
            return self.complain_parent(schema, tag, code, message);
        }
        self.complain(tag, tag.name(), code, message)
    }

    /// Reports an error about the parent of a child, which must not have child elements.
    #[cold]
    fn complain_parent<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        code: &'static str,
        message: String,
    ) -> Result<(), ParseStop> {
        let parent = self.frames.last().and_then(|frame| frame.element);
        self.about.name = match parent {
            Some(id) => schema.components.names.text(schema.components.elements[id].name),
            None => expanded(tag.name()),
        };
        self.about.children = true;
        self.complain_at(tag.position(), written(tag.name()), code, message)
    }

    /// Returns the type that `xsi:type` names, if it may replace the declared one (cvc-elt.4).
    pub(super) fn replaced<T: Tag>(
        &mut self,
        schema: &Schema,
        tag: &T,
        value: &str,
        declared: Option<(Id<Type>, Option<Id<Element>>)>,
        strict: bool,
    ) -> Result<Option<Id<Type>>, ParseStop> {
        let value = crate::syntax::collapse(value);
        let (prefix, local) = value.split_once(':').unwrap_or(("", value));
        let (true, Some(uri)) = (crate::syntax::is_qname(value), tag.resolve(prefix)) else {
            let message = format!("{value:?} is not the name of a type");
            let names = self.names(schema, tag);
            self.about = ErrorDetails::of_text(schema, &Builtin::QName.simple(), value, &names);
            self.complain_of_type(tag, "cvc-elt.4.1", message)?;
            return Ok(None);
        };
        let name = || Some(TypeName::Global(format!("{{{uri}}}{local}")));
        let Some(found) = schema.type_of_name(uri, local) else {
            if self.foreign_types && declared.is_none() && !strict {
                return Ok(None);
            }
            let message = format!("there is no type {value}");
            self.about.type_name = name();
            self.complain_of_type(tag, "cvc-elt.4.2", message)?;
            return Ok(None);
        };
        let Some((declared, element)) = declared else { return Ok(Some(found)) };
        let all = &schema.components;
        let block = element.map_or(crate::model::DerivationSet::NONE, |id| all.elements[id].block);
        if all.can_replace(found, declared, block) {
            return Ok(Some(found));
        }
        let message = format!("{value} cannot replace {}", all.type_text(declared));
        self.about.type_name = name();
        self.complain_of_type(tag, "cvc-elt.4.3", message)?;
        Ok(None)
    }

    /// Reports an error about an element's `xsi:type`.
    #[cold]
    fn complain_of_type<T: Tag>(
        &mut self,
        tag: &T,
        code: &'static str,
        message: String,
    ) -> Result<(), ParseStop> {
        self.about.element = Some(expanded(tag.name()));
        self.about.name = format!("{{{XSI_NAMESPACE}}}type");
        self.complain_at(tag.position(), written(tag.name()), code, message)
    }

    /// Handles an element that must be declared but is not.
    pub(super) fn undeclared<T: Tag>(&mut self, tag: &T) -> Result<(), ParseStop> {
        let code = if self.frames.is_empty() { "cvc-elt.1" } else { "cvc-complex-type.2.4.c" };
        let message = "no global element of this name is declared".to_owned();
        self.complain(tag, tag.name(), code, message)
    }
}

fn by_wildcard(schema: &Schema, process: Process, sym: Sym) -> Judge {
    match (process, schema.global(sym)) {
        (Process::Skip, _) => Judge::Nobody,
        (Process::Lax | Process::Strict, Some(element)) => Judge::Declaration(element),
        (Process::Lax, None) => Judge::Undeclared { strict: false },
        (Process::Strict, None) => Judge::Undeclared { strict: true },
    }
}

/// Returns the names of allowed particles. Wildcards are written as in libxml2: `{*}*` and `*` for any namespace, `##other{urn:t}*` for any
/// namespace but one, `{urn:t}*` for one namespace, `*` for no namespace.
pub(super) fn named(schema: &Schema, expected: &[Next]) -> Vec<String> {
    let names = &schema.components.names;
    let mut all = Vec::with_capacity(expected.len());
    for next in expected {
        match next {
            Next::Element(sym) => all.push(names.text(*sym)),
            Next::Wildcard(id) => match &schema.components.wildcards[*id].namespaces {
                Namespaces::Any => all.extend(["{*}*".to_owned(), "*".to_owned()]),
                Namespaces::Not(NsId::ABSENT) => all.push("##other*".to_owned()),
                Namespaces::Not(not) => all.push(format!("##other{{{}}}*", names.uri(*not))),
                Namespaces::Of(list) => all.extend(list.iter().map(|&one| match one {
                    NsId::ABSENT => "*".to_owned(),
                    one => format!("{{{}}}*", names.uri(one)),
                })),
            },
        }
    }
    all
}

/// Returns the list of expected names in words.
pub(super) fn expectation(expected: &[String]) -> Option<String> {
    const NAMED_MAX: usize = 10;
    let named = expected.get(..NAMED_MAX).unwrap_or(expected).join(", ");
    match expected.len() {
        0 => None,
        all if all > NAMED_MAX => Some(format!("{named}, {} more", all - NAMED_MAX)),
        _ => Some(named),
    }
}

/// The ur-type, used for undeclared elements.
pub(super) const UNDECLARED: Id<Type> = ANY_TYPE;
