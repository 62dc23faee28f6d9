//! What steps need of the messages that come, and the levels of elements that they look at.
//!
//! Steps that keep a message, wrap it or put it back copy its elements as they stand. A flow of such steps alone parses its messages
//! into their first levels ([`expression::parse_levels`]), which costs half of a whole tree.

use expression::{Expression, Template};

use crate::names::{NameTable, SlotMeaning};
use crate::soap::Envelope;
use crate::step::{Action, Into, Step, Type};
use crate::steps::payload::{PayloadSource, Status};

/// What steps need of the messages that come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Needs {
    /// One looks into a body, or keeps one for other clients.
    pub(crate) bodies: bool,
    /// A call has a method of its own.
    pub(crate) other_methods: bool,
    /// One asks for the body of the request as it came.
    pub(crate) request: bool,
    /// The levels of elements that they look at, if they copy what is further down; none: perhaps all.
    pub(crate) levels: Option<usize>,
}

impl Needs {
    pub(crate) const NOTHING: Needs =
        Needs { bodies: false, other_methods: false, request: false, levels: Some(0) };

    /// Those of steps beside others.
    pub(crate) fn of<'s>(own: Needs, steps: impl Iterator<Item = &'s Step>) -> Needs {
        steps.fold(own, |all, step| Needs {
            bodies: all.bodies | step.needs().bodies,
            other_methods: all.other_methods | step.needs().other_methods,
            request: all.request | step.needs().request,
            // Harmless: a side without a bound has none here.
            levels: all.levels.zip(step.needs().levels).map(|(one, other)| one.max(other)),
        })
    }
}

/// Finds the levels of steps whose expressions were compiled with these names.
pub(crate) struct Levels<'t> {
    pub(crate) table: &'t NameTable,
}

/// The larger number of levels; none if one of them is not known.
fn deepest(mut levels: impl Iterator<Item = Option<usize>>) -> Option<usize> {
    levels.try_fold(0, |deepest, levels| Some(deepest.max(levels?)))
}

impl Levels<'_> {
    /// The levels that an action looks at, without those of the steps inside it; none: perhaps all.
    pub(crate) fn of(&self, action: &Action) -> Option<usize> {
        match action {
            Action::Payload(payload) => self.source(&payload.made),
            Action::Respond(respond) => {
                let made = respond.made.as_ref().map(|made| self.source(made));
                let headers = respond.headers.iter().map(|(_, value)| self.template(value));
                // Harmless: a fixed status needs nothing.
                let status = respond.status.iter().filter_map(Status::template);
                deepest(headers.chain(status.map(|status| self.template(status))).chain(made))
            }
            Action::Set(values) => deepest(values.iter().map(|(_, value, kind)| match kind {
                None | Some(Type::Xml) => self.copied(value),
                Some(Type::Text | Type::Number | Type::Boolean | Type::Json) => self.read(value),
            })),
            Action::Filter { when, .. } => match when.matches {
                // What an expression finds is as true as all that is in it.
                None => when.value.levels().or_else(|| self.read(&when.value)),
                Some(_) => self.read(&when.value),
            },
            Action::Scatter(scatter) => match (&scatter.gather.take, &scatter.gather.into) {
                (_, Some(Into::Json)) => None,
                (Some(take), _) => take.levels(),
                (None, _) => Some(Envelope::CONTENT_LEVELS),
            },
            Action::Call(call) => {
                let body = call.body.iter().map(|body| self.copied(body));
                deepest(call.templates().map(|template| self.template(template)).chain(body))
            }
            Action::Fault(made) => {
                let detail = made.detail.iter().map(|detail| self.template(detail));
                deepest(detail.chain([self.template(&made.reason)]))
            }
            Action::Header(header) => {
                let values = header.set.iter().chain(&header.add);
                deepest(values.map(|(_, value)| self.template(value)))
            }
            Action::Switch { on, .. } => self.read(on),
            Action::Log { message, .. } => self.template(message),
            Action::Sql(sql) => deepest(sql.arguments.iter().map(|argument| self.read(argument))),
            Action::Drop
            | Action::Sequence(_)
            | Action::Throttle(_)
            | Action::Store(_)
            | Action::WireTap(_) => Some(0),
            Action::SoapHeader(_)
            | Action::Enrich(_)
            | Action::Xslt(_)
            | Action::Validate(_)
            | Action::Convert(_)
            | Action::Script(_)
            | Action::Foreach(_)
            | Action::Split(_)
            | Action::Cache(_) => None,
        }
    }

    /// Of a new body, which may go into the Body of a message.
    fn source(&self, made: &PayloadSource) -> Option<usize> {
        let own = match made {
            PayloadSource::Xml(template)
            | PayloadSource::Json(template)
            | PayloadSource::Text(template) => self.template(template),
            PayloadSource::Form(form) => {
                deepest(form.templates().into_iter().map(|template| self.template(template)))
            }
            PayloadSource::From(expression) => self.copied(expression),
            PayloadSource::Fixed(..) => Some(0),
        };
        // Of a Body that goes into another, the content is put there.
        own.map(|own| own.max(Envelope::CONTENT_LEVELS))
    }

    fn template(&self, template: &Template) -> Option<usize> {
        deepest(template.values().map(|(value, is_copied)| {
            if is_copied { self.copied(value) } else { self.read(value) }
        }))
    }

    /// Of a value whose nodes are written as their markup, or kept.
    fn copied(&self, value: &Expression) -> Option<usize> {
        let is_kept = |slot| self.table.has(slot, SlotMeaning::is_kept);
        let kept = value.slot().filter(|slot| is_kept(*slot)).map(|_| Envelope::LEVELS);
        value.levels().or(kept).or_else(|| self.read(value))
    }

    /// Of a value that is read: it may be all that nodes have in them.
    fn read(&self, value: &Expression) -> Option<usize> {
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
    use crate::step::{Condition, Payload};

    fn levels(make: impl Fn(&FlowNames<'_>) -> Action) -> Option<usize> {
        let (mut table, mut variables) = (NameTable::default(), Variables::default());
        variables.add(table.declare("kept"), false);
        variables.add(table.declare("reply"), true);
        let names = FlowNames { table: &table, variables: &variables, namespaces: &[] };
        let action = make(&names);
        Levels { table: &table }.of(&action)
    }

    fn expression(text: &str, names: &FlowNames<'_>) -> Expression {
        Expression::compile(text, Language::Marked, names).unwrap()
    }

    fn set(value: &str, kind: Option<Type>) -> Option<usize> {
        levels(|names| Action::Set(vec![(0, expression(value, names), kind)]))
    }

    fn payload(made: impl Fn(&FlowNames<'_>) -> PayloadSource) -> Option<usize> {
        levels(|names| {
            let made = made(names);
            Action::Payload(Payload { made, content_type: None, envelope: true }.into())
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
    fn conditions_are_true_of_nodes_and_compare_texts() {
        let filter = |text, matches: Option<&str>| {
            levels(|names| Action::Filter {
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
            levels(|names| Action::Log {
                level: tracing::Level::INFO,
                message: template(text, Kind::Text, names),
            })
        };
        assert_eq!(log("{{ $method }}"), Some(0));
        assert_eq!(log("{{ $body }}"), None);
    }
}
