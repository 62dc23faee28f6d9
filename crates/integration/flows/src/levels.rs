//! The needs of steps, and the levels of elements that their expressions read.
//!
//! Steps that store a message, wrap it or put it back copy its elements unchanged. A flow with only such steps parses only the first levels
//! of its messages ([`expression::parse_levels`]), which costs half as much as a whole tree.

use expression::{Expression, Slot, Template};

use crate::names::{NameTable, SlotMeaning};
use crate::soap::Envelope;

/// The needs of one step. By default it may read all levels of the message.
#[derive(Debug, Default)]
pub struct ActionNeeds {
    /// The slots of its expressions.
    pub slots: Vec<Slot>,
    /// True if it needs the body, independently of its expressions.
    pub content: bool,
    /// The number of element levels that it reads, if it only copies deeper content. `None` if it may read all levels.
    pub levels: Option<usize>,
    /// `Some(true)` if it uses the message, `Some(false)` if it ends the flow without using it. `None` if the steps inside it or the next
    /// step decide.
    pub uses_message: Option<bool>,
    /// True if it caches a body.
    pub keeps_bodies: bool,
    /// True if it calls with its own method.
    pub other_method: bool,
}

/// What steps need of incoming messages.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// True if a step reads or caches a body.
    pub(crate) bodies: bool,
    /// True if a call has its own method.
    pub(crate) other_methods: bool,
    /// True if a step needs the request's original body.
    pub(crate) request: bool,
    /// The number of element levels that they read, if they only copy deeper content. `None` if they may read all levels.
    pub(crate) levels: Option<usize>,
}

/// Finds the number of element levels that expressions read, which must have been compiled with the names of this table. `None` means that
/// they may read all levels.
pub struct Levels<'t> {
    table: &'t NameTable,
}

/// Returns the largest number of levels, or `None` if one of them may be all levels.
pub(crate) fn deepest(mut levels: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    levels.try_fold(0, |deepest, levels| Some(deepest.max(levels?)))
}

impl Needs {
    pub(crate) const NOTHING: Needs =
        Needs { bodies: false, other_methods: false, request: false, levels: Some(0) };

    /// Adds the needs of other steps.
    pub(crate) fn with(self, others: impl Iterator<Item = Needs>) -> Needs {
        others.fold(self, |all, needs| Needs {
            bodies: all.bodies | needs.bodies,
            other_methods: all.other_methods | needs.other_methods,
            request: all.request | needs.request,
            // Harmless: if either side may read all levels, both together may.
            levels: all.levels.zip(needs.levels).map(|(one, other)| one.max(other)),
        })
    }
}

impl Levels<'_> {
    pub(crate) fn of(table: &NameTable) -> Levels<'_> {
        Levels { table }
    }

    pub(crate) fn template(&self, template: &Template) -> Option<usize> {
        deepest(template.values().map(|(value, is_copied)| {
            if is_copied { self.copied(value) } else { self.read(value) }
        }))
    }

    pub(crate) fn templates<'e>(
        &self,
        templates: impl IntoIterator<Item = &'e Template>,
    ) -> Option<usize> {
        deepest(templates.into_iter().map(|template| self.template(template)))
    }

    /// Returns the levels for a value whose nodes are stored, or copied as markup.
    pub(crate) fn copied(&self, value: &Expression) -> Option<usize> {
        let is_kept = |slot: Slot| self.table.has(slot, SlotMeaning::is_kept);
        let kept = value.slot().filter(|slot| is_kept(*slot)).map(|_| Envelope::LEVELS);
        value.levels().or(kept).or_else(|| self.read(value))
    }

    /// Returns the levels for a value whose content is read. If it may be nodes, all levels below them may be read.
    pub(crate) fn read(&self, value: &Expression) -> Option<usize> {
        let reads_nodes =
            value.slots().iter().any(|slot| self.table.has(*slot, SlotMeaning::may_be_nodes));
        (!reads_nodes).then_some(0)
    }
}

#[cfg(test)]
mod tests {
    use expression::{Kind, Language};

    use super::*;
    use crate::names::{FlowNames, Variables};
    use crate::step::Action;
    use crate::steps::{Alternatives, Condition, Log, Payload, PayloadSource, Set, Type};

    fn levels<A: Action>(make: impl Fn(&FlowNames<'_>) -> A) -> Option<usize> {
        let (mut table, mut variables) = (NameTable::default(), Variables::default());
        variables.add(table.declare("kept"), false);
        variables.add(table.declare("reply"), true);
        let names = FlowNames { table: &table, variables: &variables, namespaces: &[] };
        let action = make(&names);
        action.needs(&Levels::of(&table)).levels
    }

    fn expression(text: &str, names: &FlowNames<'_>) -> Expression {
        Expression::compile(text, Language::Marked, names).unwrap()
    }

    fn set(value: &str, kind: Option<Type>) -> Option<usize> {
        levels(|names| Set(vec![(0, expression(value, names), kind)]))
    }

    fn payload(made: impl Fn(&FlowNames<'_>) -> PayloadSource) -> Option<usize> {
        levels(|names| {
            let made = made(names);
            Payload { made, content_type: None, envelope: true }
        })
    }

    fn template(text: &str, kind: Kind, names: &FlowNames<'_>) -> Template {
        Template::compile(text, kind, names).unwrap()
    }

    #[test]
    fn what_is_kept_is_as_deep_as_its_path() {
        for (value, depth) in [
            ("$body", Some(2)),
            ("$body/*[1]", Some(3)),
            ("/a/b/c/d", Some(4)),
            ("$kept", Some(2)),
            ("$request.body", Some(2)),
            ("$reply.body", Some(2)),
            ("$method", Some(0)),
            ("$headers.x", Some(0)),
            ("literal", Some(0)),
            ("$kept/a", None),
            ("$request.body/a", None),
            ("$reply.body/a", None),
            ("$body//a", None),
            ("$envelope", None),
            ("$header", None),
        ] {
            assert_eq!(set(value, None), depth, "{value}");
        }
        assert_eq!(set("$body", Some(Type::Xml)), Some(2));
        assert_eq!(set("$body", Some(Type::Text)), None);
        assert_eq!(set("$method", Some(Type::Text)), Some(0));
    }

    #[test]
    fn new_bodies_copy_markup_and_read_all_else() {
        let from = |text| payload(|names| PayloadSource::From(expression(text, names)));
        assert_eq!(from("$kept"), Some(3));
        assert_eq!(from("$body/a/b"), Some(4));
        assert_eq!(from("$kept/a"), None);
        for (text, depth) in [
            ("<a>{{ $body/* }}{{ $kept }}</a>", Some(3)),
            ("<a b='{{ $method }}'>{{ $body/a/b }}</a>", Some(4)),
            ("<a b='{{ $kept }}'/>", None),
            ("<a b='{{ $body/b }}'/>", None),
            ("<a><![CDATA[{{ $body/b }}]]></a>", None),
            ("<a>{{ $body//b }}</a>", None),
        ] {
            let found = payload(|names| PayloadSource::Xml(template(text, Kind::Xml, names)));
            assert_eq!(found, depth, "{text}");
        }
        let json = |names: &FlowNames<'_>| {
            PayloadSource::Json(template(r#"{"a": {{ $body/a }}}"#, Kind::Json, names))
        };
        assert_eq!(payload(json), None);
        assert_eq!(payload(|_| PayloadSource::Fixed("".into(), "text/plain")), Some(3));
    }

    #[test]
    fn conditions_without_a_pattern_need_no_levels_below_their_nodes() {
        let filter = |text, matches: Option<&str>| {
            levels(|names| Alternatives {
                when: Condition {
                    value: expression(text, names),
                    matches: matches.map(|pattern| regex::Regex::new(pattern).unwrap()),
                },
                then: [].into(),
                otherwise: [].into(),
            })
        };
        assert_eq!(filter("$body/a", None), Some(3));
        assert_eq!(filter("$body/a", Some("1")), None);
        assert_eq!(filter("$headers.x", Some("1")), Some(0));
        assert_eq!(filter("$kept", None), None);
        let log = |text| {
            levels(|names| Log {
                level: tracing::Level::INFO,
                message: template(text, Kind::Text, names),
            })
        };
        assert_eq!(log("{{ $method }}"), Some(0));
        assert_eq!(log("{{ $body }}"), None);
    }
}
