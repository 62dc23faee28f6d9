//! The names that expressions of flows use. They get slot numbers when flows are compiled, and values when flows run.

use std::cell::RefCell;
use std::collections::HashMap;

use expression::{NameKind, Names, Slot, TEXT, Template, WHOLE_NUMBER};
use policy::KeyParts;

/// The meaning of a slot. All flows of a configuration share one list of these, since they run one another's steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SlotMeaning {
    /// The document of the message, where paths that begin with `/` start.
    Document,
    /// `$body`.
    Body,
    /// `$header`, the SOAP Header.
    SoapHeader,
    /// `$infoset`, the message as an envelope.
    Infoset,
    /// `$infoset_body`, its Body.
    InfosetBody,
    /// `$infoset_payload`, the content of its Body.
    InfosetPayload,
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
    /// `request` as a whole, which only CEL can use.
    Request,
    RequestBody,
    /// The path and query, as the route forwards them.
    RequestPath,
    /// The identifier of the request, as in the access log.
    RequestId,
    /// The address of the gateway that the client connected to.
    RequestLocalAddress,
    RequestHeaders,
    RequestHeader(Box<str>),
    Error,
    ErrorPart(ErrorPart),
    /// `gather`: the outcome of the branches of the last `scatter` or `split`.
    Gather,
    GatherFailed,
    GatherBranches,
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

/// The slots that flows of one configuration use, and their variables. It grows while flows are compiled.
#[derive(Debug, Default)]
pub struct NameTable {
    slots: RefCell<Vec<SlotMeaning>>,
    variables: Vec<Box<str>>,
}

/// The variables that the steps of one flow may name, by number. The value is true if a `call` stores its reply in the variable.
#[derive(Debug, Clone, Default)]
pub struct Variables(HashMap<u32, bool>);

/// The slots and variables of a configuration, once all its flows are compiled.
#[derive(Debug, Default)]
pub struct Slots {
    pub(crate) named: Box<[SlotMeaning]>,
    /// Names of the variables by their numbers, for CEL.
    pub(crate) variables: Box<[Box<str>]>,
}

/// The names that an expression of one flow may use.
pub struct FlowNames<'t> {
    pub table: &'t NameTable,
    pub variables: &'t Variables,
    /// Prefixes with their URIs.
    pub namespaces: &'t [(String, String)],
}

impl Variables {
    /// Adds a variable. `holds_reply` if a `call` sets it.
    pub fn add(&mut self, number: u32, holds_reply: bool) {
        *self.0.entry(number).or_default() |= holds_reply;
    }

    /// Adds those of another flow.
    pub fn add_all(&mut self, others: &Variables) {
        others.0.iter().for_each(|(number, holds_reply)| self.add(*number, *holds_reply));
    }

    /// Returns whether a `call` stores its reply in a variable, or `None` if no step sets the variable.
    pub fn holds_reply(&self, number: u32) -> Option<bool> {
        self.0.get(&number).copied()
    }
}

impl NameTable {
    /// Declares a variable. Returns its number.
    pub fn declare(&mut self, name: &str) -> u32 {
        let at = self.variables.iter().position(|known| &**known == name);
        let at = at.unwrap_or_else(|| {
            self.variables.push(name.into());
            self.variables.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Returns the number of a variable, or `None` if it has not been declared.
    pub fn variable(&self, name: &str) -> Option<u32> {
        let at = self.variables.iter().position(|known| &**known == name)?;
        // Harmless: the variables of a configuration are fewer than 2^32.
        u32::try_from(at).ok()
    }

    /// Returns the names of the variables of a flow.
    pub fn names<'n>(&'n self, of: &'n Variables) -> impl Iterator<Item = &'n str> {
        let all = (0u32..).zip(&self.variables);
        all.filter(|(number, _)| of.holds_reply(*number).is_some()).map(|(_, name)| &**name)
    }

    /// Returns the parts of a request that a key is computed from.
    pub fn parts_of(&self, key: &Template) -> KeyParts {
        let slots = key.slots();
        let any = |is: &dyn Fn(&SlotMeaning) -> bool| slots.iter().any(|slot| self.has(*slot, is));
        let has_line = |line: &str| {
            any(&|meaning| {
                let (SlotMeaning::Header(name) | SlotMeaning::RequestHeader(name)) = meaning else {
                    return false;
                };
                name.eq_ignore_ascii_case(line)
            })
        };
        KeyParts {
            body: any(&|meaning| meaning.looks_inside() || *meaning == SlotMeaning::RequestBody),
            method: any(&|meaning| *meaning == SlotMeaning::Method),
            cookie: has_line("cookie"),
            authorization: has_line("authorization"),
        }
    }

    /// Returns true if the meaning of a slot satisfies `is`.
    pub(crate) fn has(&self, slot: Slot, is: impl Fn(&SlotMeaning) -> bool) -> bool {
        self.slots.borrow().get(slot.0 as usize).is_some_and(is)
    }

    /// The slots, once all flows are compiled.
    pub fn finish(self) -> Slots {
        Slots { named: self.slots.into_inner().into(), variables: self.variables.into() }
    }

    fn slot(&self, named: SlotMeaning) -> Slot {
        let mut slots = self.slots.borrow_mut();
        let known = slots.iter().position(|known| *known == named);
        let at = known.unwrap_or_else(|| {
            slots.push(named);
            slots.len() - 1
        });
        Slot(u32::try_from(at).unwrap_or(u32::MAX))
    }

    fn find(&self, path: &[&str], variables: &Variables) -> Option<Meaning> {
        use Meaning::{Group, Value};
        Some(match path {
            ["body"] => Value(SlotMeaning::Body),
            ["envelope"] => Value(SlotMeaning::Document),
            ["header"] => Value(SlotMeaning::SoapHeader),
            ["infoset"] => Value(SlotMeaning::Infoset),
            ["infoset_body"] => Value(SlotMeaning::InfosetBody),
            ["infoset_payload"] => Value(SlotMeaning::InfosetPayload),
            ["method"] => Value(SlotMeaning::Method),
            ["status"] => Value(SlotMeaning::Status),
            ["headers"] => Group(SlotMeaning::Headers),
            ["headers", name] => Value(SlotMeaning::Header((*name).into())),
            ["path"] => Group(SlotMeaning::Paths),
            ["path", name] => Value(SlotMeaning::Path((*name).into())),
            ["query"] => Group(SlotMeaning::Queries),
            ["query", name] => Value(SlotMeaning::Query((*name).into())),
            ["request"] => {
                self.slot(SlotMeaning::RequestHeaders);
                Group(SlotMeaning::Request)
            }
            ["request", "body"] => Value(SlotMeaning::RequestBody),
            ["request", "method"] => Value(SlotMeaning::Method),
            ["request", "path"] => Value(SlotMeaning::RequestPath),
            ["request", "id"] => Value(SlotMeaning::RequestId),
            ["request", "local_address"] => Value(SlotMeaning::RequestLocalAddress),
            ["request", "headers"] => Group(SlotMeaning::RequestHeaders),
            ["request", "headers", name] => Value(SlotMeaning::RequestHeader((*name).into())),
            ["error"] => Group(SlotMeaning::Error),
            ["error", part] => {
                let (_, part) = ERROR_PARTS.iter().find(|(name, _)| name == part)?;
                Value(SlotMeaning::ErrorPart(*part))
            }
            ["gather"] => Group(SlotMeaning::Gather),
            ["gather", "failed"] => Value(SlotMeaning::GatherFailed),
            ["gather", "branches"] => Value(SlotMeaning::GatherBranches),
            ["vars"] => Group(SlotMeaning::Variables),
            ["vars", rest @ ..] | rest => self.find_variable(rest, variables)?,
        })
    }

    fn find_variable(&self, path: &[&str], variables: &Variables) -> Option<Meaning> {
        use Meaning::{Group, Value};
        let (name, rest) = path.split_first()?;
        let number = self.variable(name)?;
        Some(match (variables.holds_reply(number)?, rest) {
            (false, []) => Value(SlotMeaning::Variable(number)),
            (true, []) => {
                self.slot(SlotMeaning::ReplyHeaders(number));
                Group(SlotMeaning::Variable(number))
            }
            (true, ["status"]) => Value(SlotMeaning::ReplyStatus(number)),
            (true, ["body"]) => Value(SlotMeaning::ReplyBody(number)),
            (true, ["headers"]) => Group(SlotMeaning::ReplyHeaders(number)),
            (true, ["headers", name]) => Value(SlotMeaning::ReplyHeader(number, (*name).into())),
            _ => return None,
        })
    }
}

enum Meaning {
    Value(SlotMeaning),
    Group(SlotMeaning),
}

impl Names for FlowNames<'_> {
    fn find(&self, path: &[&str]) -> Option<NameKind> {
        Some(match self.table.find(path, self.variables)? {
            Meaning::Value(named) => NameKind::Value(self.table.slot(named)),
            Meaning::Group(named) => NameKind::Group(self.table.slot(named)),
        })
    }

    fn namespace(&self, prefix: &str) -> Option<&str> {
        const ENVELOPES: [(&str, &str); 2] =
            [("soap", mediation::soap::SOAP_11), ("soap12", mediation::soap::SOAP_12)];
        let declared = self.namespaces.iter().find(|(known, _)| known == prefix);
        let uri = declared.map(|(_, uri)| uri.as_str());
        uri.or_else(|| ENVELOPES.iter().find(|(known, _)| *known == prefix).map(|(_, uri)| *uri))
    }

    fn document(&self) -> Slot {
        self.table.slot(SlotMeaning::Document)
    }

    fn kind(&self, path: &[&str]) -> Result<Option<&'static str>, String> {
        let holds_reply = |name: &str| {
            let number = self.table.variable(name);
            number.and_then(|number| self.variables.holds_reply(number)) == Some(true)
        };
        Ok(match path {
            ["method"] | ["headers" | "query" | "path", _] => Some(TEXT),
            ["request", "path" | "id" | "local_address"] | ["request", "headers", _] => Some(TEXT),
            ["error", "kind" | "message" | "detail"] => Some(TEXT),
            ["status"] | ["error", "code"] => Some(WHOLE_NUMBER),
            ["vars", name, "status"] if holds_reply(name) => Some(WHOLE_NUMBER),
            ["vars", name, "headers", _] if holds_reply(name) => Some(TEXT),
            _ => None,
        })
    }

    fn body(&self) -> Slot {
        self.table.slot(SlotMeaning::Body)
    }
}

impl SlotMeaning {
    /// True if its value may be nodes, or have parts that are.
    pub(crate) fn may_be_nodes(&self) -> bool {
        self.looks_inside()
            || self.is_kept()
            || matches!(self, SlotMeaning::Request | SlotMeaning::Variables)
    }

    /// True if its value is a stored body, or a part of one.
    pub(crate) fn is_kept(&self) -> bool {
        matches!(
            self,
            SlotMeaning::RequestBody | SlotMeaning::Variable(_) | SlotMeaning::ReplyBody(_)
        )
    }

    /// Returns true if its value is found inside the message's body.
    pub(crate) fn looks_inside(&self) -> bool {
        matches!(
            self,
            SlotMeaning::Document
                | SlotMeaning::Body
                | SlotMeaning::SoapHeader
                | SlotMeaning::Infoset
                | SlotMeaning::InfosetBody
                | SlotMeaning::InfosetPayload
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_with_a_reply_has_parts_and_any_other_is_one_value() {
        let (mut table, mut variables) = (NameTable::default(), Variables::default());
        variables.add(table.declare("plain"), false);
        variables.add(table.declare("reply"), false);
        variables.add(table.declare("reply"), true);
        table.declare("missing");
        let names = FlowNames { table: &table, variables: &variables, namespaces: &[] };
        assert_eq!(table.names(&variables).collect::<Vec<_>>(), ["plain", "reply"]);
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
            let found = names.find(path).map(|known| matches!(known, NameKind::Value(_)));
            assert_eq!(found, is_value, "{path:?}");
        }
        assert_eq!(names.find(&["body"]), names.find(&["body"]));
    }
}
