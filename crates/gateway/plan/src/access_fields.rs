//! The fields of the access log that the operator has added to the default ones.

use std::cell::RefCell;

use expression::{Expression, NameKind, Names, Slot};

/// The additional fields, and the headers that they read.
#[derive(Debug, Default)]
pub struct AccessFields {
    /// The headers; sources refer to them by index.
    pub headers: Box<[LoggedHeader]>,
    pub fields: Box<[AccessField]>,
}

/// A header whose value is kept until the line is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedHeader {
    /// The name, in lower case.
    pub name: Box<str>,
    /// True for a header of the reply as sent, false for a header of the request as received.
    pub of_reply: bool,
}

/// One additional field.
#[derive(Debug)]
pub struct AccessField {
    pub name: Box<str>,
    /// The text of the field as written in the configuration.
    pub text: Box<str>,
    pub value: AccessValue,
}

/// The origin of a field's value.
#[derive(Debug)]
pub enum AccessValue {
    Source(AccessSource),
    /// An expression, whose slots are sources by their index.
    Computed(Expression, Box<[AccessSource]>),
}

/// A value of an exchange that fields can show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AccessSource {
    /// A header of the request or the reply, by its index in [`AccessFields::headers`].
    Header(usize),
    Status,
    Subject,
    /// A claim of the token, by the path of names to it.
    Claim(Box<[String]>),
    /// All claims of the token.
    Claims,
    Method,
    Host,
    /// The path of the request, without its query.
    Path,
    Route,
    RequestId,
    Client,
}

/// Fields are equal if their texts in the configuration are equal.
impl PartialEq for AccessFields {
    fn eq(&self, other: &AccessFields) -> bool {
        let same = |(a, b): (&AccessField, &AccessField)| a.name == b.name && a.text == b.text;
        self.fields.len() == other.fields.len() && self.fields.iter().zip(&other.fields).all(same)
    }
}

/// The names that an expression over a request and its reply may use. It assigns a number to each source that is used.
#[derive(Debug, Default)]
pub struct LineNames {
    found: RefCell<LineSources>,
}

/// The sources that the expressions of a log use.
#[derive(Debug, Default)]
struct LineSources {
    headers: Vec<LoggedHeader>,
    /// The sources of the expression that is being compiled.
    slots: Vec<AccessSource>,
}

/// The slot of the group `headers`. A group has members, but no value.
const HEADERS: Slot = Slot(u32::MAX);
/// The slot of the group `reply`.
const REPLY: Slot = Slot(u32::MAX - 1);
/// The slot of the group `reply.headers`.
const REPLY_HEADERS: Slot = Slot(u32::MAX - 2);

/// The slot of the body and the document. It has no source, because the body is gone when the line is written.
const NOWHERE: Slot = Slot(u32::MAX - 3);

impl LineNames {
    /// Returns the source for a single name, such as `$headers.NAME`, given without its `$`.
    pub fn source(&self, path: &[&str]) -> Option<AccessSource> {
        Some(match *path {
            ["status"] | ["reply", "status"] => AccessSource::Status,
            ["subject"] => AccessSource::Subject,
            ["claims"] => AccessSource::Claims,
            ["method"] => AccessSource::Method,
            ["host"] => AccessSource::Host,
            ["path"] => AccessSource::Path,
            ["route"] => AccessSource::Route,
            ["request_id"] => AccessSource::RequestId,
            ["client"] => AccessSource::Client,
            ["headers", name] => self.header(name, false),
            ["reply", "headers", name] => self.header(name, true),
            _ => return None,
        })
    }

    /// Returns the sources of the expression that was compiled last, in the order of slots.
    pub fn take_slots(&self) -> Box<[AccessSource]> {
        std::mem::take(&mut self.found.borrow_mut().slots).into()
    }

    /// Returns the headers of all sources.
    pub fn headers(self) -> Box<[LoggedHeader]> {
        self.found.into_inner().headers.into()
    }

    fn header(&self, name: &str, of_reply: bool) -> AccessSource {
        let headers = &mut self.found.borrow_mut().headers;
        let header = LoggedHeader { name: name.to_ascii_lowercase().into(), of_reply };
        let known = headers.iter().position(|known| *known == header);
        AccessSource::Header(known.unwrap_or_else(|| {
            headers.push(header);
            headers.len() - 1
        }))
    }

    fn slot(&self, source: AccessSource) -> Slot {
        let slots = &mut self.found.borrow_mut().slots;
        let known = slots.iter().position(|known| *known == source);
        let at = known.unwrap_or_else(|| {
            slots.push(source);
            slots.len() - 1
        });
        u32::try_from(at).map_or(NOWHERE, Slot)
    }
}

impl Names for LineNames {
    fn find(&self, path: &[&str]) -> Option<NameKind> {
        match path {
            ["headers"] => Some(NameKind::Group(HEADERS)),
            ["reply"] => Some(NameKind::Group(REPLY)),
            ["reply", "headers"] => Some(NameKind::Group(REPLY_HEADERS)),
            path => self.source(path).map(|source| NameKind::Value(self.slot(source))),
        }
    }

    fn namespace(&self, _: &str) -> Option<&str> {
        None
    }

    fn document(&self) -> Slot {
        NOWHERE
    }

    fn body(&self) -> Slot {
        NOWHERE
    }
}
