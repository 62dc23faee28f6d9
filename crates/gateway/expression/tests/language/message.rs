//! The message used by the tests: a body, headers, a reply in a variable, and variables.

use std::sync::Arc;

use expression::{
    FailureKind, JsonNodes, JsonText, Member, NameKind, Names, Nodes, Scope, Slot, Value,
};

const DOCUMENT: Slot = Slot(0);
const BODY: Slot = Slot(1);
const STATUS: Slot = Slot(2);
const HEADERS: Slot = Slot(3);
const ABSENT: Slot = Slot(4);
const REPLY: Slot = Slot(5);
const REPLY_HEADERS: Slot = Slot(6);
const FAILS: Slot = Slot(7);
const HEADERS_FROM: u32 = 100;
const VARIABLES_FROM: u32 = 200;

#[derive(Default)]
pub(crate) struct Message {
    /// `$envelope`
    document: Value,
    /// `$body`
    body: Value,
    headers: Vec<(String, String)>,
    variables: Vec<(String, Value)>,
}

impl Message {
    /// Creates a message with a document, and its root element as the body.
    pub(crate) fn xml(text: &str) -> Message {
        let options = xml::Options::default();
        let document = Arc::new(xml::Document::parse(text.as_bytes(), &options).unwrap());
        let root = document.root_element().unwrap();
        Message {
            body: Value::Nodes(Nodes::one(document.clone(), root)),
            document: Value::Nodes(Nodes::one(document, xml::Document::ROOT)),
            ..Message::default()
        }
    }

    pub(crate) fn json(text: &str) -> Message {
        Message { body: json(text), ..Message::default() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Message {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn with(mut self, name: &str, value: Value) -> Message {
        self.variables.push((name.to_owned(), value));
        self
    }
}

pub(crate) fn json(text: &str) -> Value {
    let limits = json::Limits { depth_max: 10_000, entries_max: 10_000_000 };
    Value::Json(JsonNodes::root(JsonText::read(text.to_owned(), &limits).unwrap()))
}

pub(crate) fn text(text: &str) -> Value {
    Value::text_of(text)
}

fn slot(from: u32, place: usize) -> Slot {
    Slot(from + u32::try_from(place).unwrap())
}

impl Names for Message {
    fn find(&self, path: &[&str]) -> Option<NameKind> {
        let value = |slot| Some(NameKind::Value(slot));
        match path {
            ["envelope"] => value(DOCUMENT),
            ["body"] => value(BODY),
            ["status"] | ["reply", "status"] => value(STATUS),
            ["absent"] => value(ABSENT),
            ["fails"] => value(FAILS),
            ["headers"] => Some(NameKind::Group(HEADERS)),
            ["reply"] => Some(NameKind::Group(REPLY)),
            ["reply", "headers"] => Some(NameKind::Group(REPLY_HEADERS)),
            ["headers", name] | ["reply", "headers", name] => {
                let found = self.headers.iter().position(|(known, _)| known == name);
                value(found.map_or(ABSENT, |place| slot(HEADERS_FROM, place)))
            }
            [name] => {
                let found = self.variables.iter().position(|(known, _)| known == name);
                found.and_then(|place| value(slot(VARIABLES_FROM, place)))
            }
            _ => None,
        }
    }

    fn namespace(&self, prefix: &str) -> Option<&str> {
        (prefix == "m").then_some("urn:m")
    }

    fn kind(&self, path: &[&str]) -> Result<Option<&'static str>, String> {
        Ok(match path {
            ["headers", _] => Some(expression::TEXT),
            ["status"] => Some(expression::WHOLE_NUMBER),
            _ => None,
        })
    }

    fn document(&self) -> Slot {
        DOCUMENT
    }

    fn body(&self) -> Slot {
        BODY
    }
}

impl Scope for Message {
    fn value(&self, slot: Slot) -> Result<Value, FailureKind> {
        let place = |from: u32| usize::try_from(slot.0.checked_sub(from)?).ok();
        Ok(match slot {
            DOCUMENT => self.document.clone(),
            BODY => self.body.clone(),
            STATUS => json("200"),
            ABSENT => Value::Nothing,
            FAILS => return Err(FailureKind::Malformed("the body is not XML".into())),
            _ => match (place(VARIABLES_FROM), place(HEADERS_FROM)) {
                (Some(place), _) => self.variables[place].1.clone(),
                (None, Some(place)) => text(&self.headers[place].1),
                (None, None) => Value::Nothing,
            },
        })
    }

    fn members(&self, group: Slot) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        let header = |(name, value): &(String, String)| {
            (name.to_ascii_lowercase().into(), Member::Value(text(value)))
        };
        Ok(match group {
            REPLY => vec![
                ("status".into(), Member::Value(json("200"))),
                ("headers".into(), Member::Group(REPLY_HEADERS)),
            ],
            _ => self.headers.iter().map(header).collect(),
        })
    }
}
