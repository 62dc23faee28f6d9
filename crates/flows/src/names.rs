//! The names of expressions in flows: given numbers when flows are compiled, and values when they run.

use std::cell::RefCell;

use expression::{Known, Names, Slot};

/// The meaning of a slot. All flows of a configuration share one list of these, since they run one another's steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Named {
    /// The document of the message: where paths that begin with `/` begin.
    Document,
    /// `$body`.
    Body,
    /// `$header`, the SOAP Header.
    SoapHeader,
    /// `$method`, of the request.
    Method,
    /// `$status`, of the last call.
    Status,
    Headers,
    Header(Box<str>),
    Paths,
    Path(Box<str>),
    Queries,
    Query(Box<str>),
    /// Several names that only CEL may take together.
    Request,
    RequestBody,
    RequestHeaders,
    RequestHeader(Box<str>),
    Error,
    ErrorPart(ErrorPart),
    /// `vars`, for CEL.
    Variables,
    Variable(u32),
    /// A part of a reply that a variable holds.
    ReplyStatus(u32),
    ReplyBody(u32),
    ReplyHeaders(u32),
    ReplyHeader(u32, Box<str>),
}

/// A part of `$error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorPart {
    Kind,
    Code,
    Message,
    Detail,
}

pub(crate) const ERROR_PARTS: [(&str, ErrorPart); 4] = [
    ("kind", ErrorPart::Kind),
    ("code", ErrorPart::Code),
    ("message", ErrorPart::Message),
    ("detail", ErrorPart::Detail),
];

/// Names that no variable may have.
pub const RESERVED: [&str; 10] = [
    "body", "envelope", "header", "headers", "path", "query", "method", "status", "request",
    "error",
];

/// The slots that flows of one configuration use, and their variables. It grows while flows are compiled.
#[derive(Debug, Default)]
pub struct NameTable {
    slots: RefCell<Vec<Named>>,
    variables: Vec<Variable>,
}

#[derive(Debug)]
struct Variable {
    name: Box<str>,
    /// A `call` puts its reply there.
    holds_reply: bool,
}

/// The slots when all flows are compiled.
#[derive(Debug, Default)]
pub struct Slots {
    pub(crate) named: Box<[Named]>,
    /// Names of the variables by their numbers, for CEL.
    pub(crate) variables: Box<[Box<str>]>,
}

/// The names that an expression of one flow may use.
pub struct FlowNames<'t> {
    pub table: &'t NameTable,
    /// Prefixes with their URIs.
    pub namespaces: &'t [(String, String)],
}

impl NameTable {
    /// Makes a variable known, and gives its number. `holds_reply` if a `call` sets it.
    pub fn declare(&mut self, name: &str, holds_reply: bool) {
        match self.variables.iter_mut().find(|known| &*known.name == name) {
            Some(known) => known.holds_reply |= holds_reply,
            None => self.variables.push(Variable { name: name.into(), holds_reply }),
        }
    }

    /// The number of a variable.
    pub fn variable(&self, name: &str) -> Option<u32> {
        let at = self.variables.iter().position(|known| &*known.name == name)?;
        u32::try_from(at).ok()
    }

    /// Names of all variables.
    pub fn variables(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| &*variable.name)
    }

    /// True if some expression asks for the body of the request as it came.
    pub(crate) fn has(&self, slot: Slot, is: impl Fn(&Named) -> bool) -> bool {
        self.slots.borrow().get(slot.0 as usize).is_some_and(is)
    }

    /// The slots, once all flows are compiled.
    pub fn finish(self) -> Slots {
        Slots {
            named: self.slots.into_inner().into(),
            variables: self.variables.into_iter().map(|variable| variable.name).collect(),
        }
    }

    fn slot(&self, named: Named) -> Slot {
        let mut slots = self.slots.borrow_mut();
        let known = slots.iter().position(|known| *known == named);
        let at = known.unwrap_or_else(|| {
            slots.push(named);
            slots.len() - 1
        });
        Slot(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn find(&self, path: &[&str]) -> Option<Meaning> {
        use Meaning::{Group, Value};
        Some(match path {
            ["body"] => Value(Named::Body),
            ["envelope"] => Value(Named::Document),
            ["header"] => Value(Named::SoapHeader),
            ["method"] => Value(Named::Method),
            ["status"] => Value(Named::Status),
            ["headers"] => Group(Named::Headers),
            ["headers", name] => Value(Named::Header((*name).into())),
            ["path"] => Group(Named::Paths),
            ["path", name] => Value(Named::Path((*name).into())),
            ["query"] => Group(Named::Queries),
            ["query", name] => Value(Named::Query((*name).into())),
            ["request"] => Group(Named::Request),
            ["request", "body"] => Value(Named::RequestBody),
            ["request", "method"] => Value(Named::Method),
            ["request", "headers"] => Group(Named::RequestHeaders),
            ["request", "headers", name] => Value(Named::RequestHeader((*name).into())),
            ["error"] => Group(Named::Error),
            ["error", part] => {
                let (_, part) = ERROR_PARTS.iter().find(|(name, _)| name == part)?;
                Value(Named::ErrorPart(*part))
            }
            ["vars"] => Group(Named::Variables),
            ["vars", rest @ ..] | rest => self.find_variable(rest)?,
        })
    }

    fn find_variable(&self, path: &[&str]) -> Option<Meaning> {
        use Meaning::{Group, Value};
        let (name, rest) = path.split_first()?;
        let number = self.variable(name)?;
        let holds_reply =
            self.variables.get(number as usize).is_some_and(|known| known.holds_reply);
        Some(match (holds_reply, rest) {
            (false, []) => Value(Named::Variable(number)),
            (true, []) => Group(Named::Variable(number)),
            (true, ["status"]) => Value(Named::ReplyStatus(number)),
            (true, ["body"]) => Value(Named::ReplyBody(number)),
            (true, ["headers"]) => Group(Named::ReplyHeaders(number)),
            (true, ["headers", name]) => Value(Named::ReplyHeader(number, (*name).into())),
            _ => return None,
        })
    }
}

enum Meaning {
    Value(Named),
    Group(Named),
}

impl Names for FlowNames<'_> {
    fn find(&self, path: &[&str]) -> Option<Known> {
        Some(match self.table.find(path)? {
            Meaning::Value(named) => Known::Value(self.table.slot(named)),
            Meaning::Group(named) => Known::Group(self.table.slot(named)),
        })
    }

    fn namespace(&self, prefix: &str) -> Option<&str> {
        const ENVELOPES: [(&str, &str); 2] =
            [("soap", crate::soap::NS_11), ("soap12", crate::soap::NS_12)];
        let declared = self.namespaces.iter().find(|(known, _)| known == prefix);
        let uri = declared.map(|(_, uri)| uri.as_str());
        uri.or_else(|| ENVELOPES.iter().find(|(known, _)| *known == prefix).map(|(_, uri)| *uri))
    }

    fn document(&self) -> Slot {
        self.table.slot(Named::Document)
    }

    fn body(&self) -> Slot {
        self.table.slot(Named::Body)
    }
}

impl Named {
    /// True if its value is inside the message.
    pub(crate) fn looks_inside(&self) -> bool {
        matches!(self, Named::Document | Named::Body | Named::SoapHeader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_with_a_reply_has_parts_and_any_other_is_one_value() {
        let mut table = NameTable::default();
        table.declare("plain", false);
        table.declare("reply", false);
        table.declare("reply", true);
        let names = FlowNames { table: &table, namespaces: &[] };
        for (path, is_value) in [
            (&["plain"][..], Some(true)),
            (&["vars", "plain"], Some(true)),
            (&["plain", "status"], None),
            (&["reply"], Some(false)),
            (&["reply", "status"], Some(true)),
            (&["reply", "headers", "x"], Some(true)),
            (&["reply", "other"], None),
            (&["missing"], None),
            (&["error"], Some(false)),
            (&["error", "code"], Some(true)),
            (&["error", "other"], None),
        ] {
            let found = names.find(path).map(|known| matches!(known, Known::Value(_)));
            assert_eq!(found, is_value, "{path:?}");
        }
        assert_eq!(names.find(&["body"]), names.find(&["body"]));
    }
}
