//! The values that expressions find in a state.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::BTreeMap;

use expression::{FailureKind, JsonNodes, Member, Number, Scope, Slot, Value};
use kit::percent;
use message::Headers;
use serde_json::Value as Json;

use crate::content::Content;
use crate::error_parts::{code, detail};
use crate::message::Message;
use crate::names::{ERROR_PARTS, ErrorPart, SlotMeaning};
use crate::sender::Sender;
use crate::state::{Run, State, Variable};
use crate::steps::gather::Gathered;
use crate::view::read_json;

/// The values of one state.
pub(crate) struct Values<'a> {
    pub(crate) run: &'a Run<'a>,
    pub(crate) state: &'a State,
    /// The sender of the last body that was malformed or not text, other than the message's.
    pub(crate) unread: Cell<Option<Sender>>,
}

impl Values<'_> {
    fn named(&self, slot: Slot) -> Option<&SlotMeaning> {
        self.run.slots.named.get(slot.0 as usize)
    }

    fn content(&self) -> Result<&Content, FailureKind> {
        let held = self.state.message.content();
        held.map(|content| &**content)
            .ok_or_else(|| FailureKind::Scope("the body was not read".into()))
    }

    /// Reads a body other than the message's, and records its sender if it is malformed or not text.
    fn read<T>(
        &self,
        content: &Content,
        read: impl FnOnce(&Content) -> Result<T, FailureKind>,
    ) -> Result<T, FailureKind> {
        let value = read(content);
        if value.is_err() || content.is_binary() {
            self.unread.set(Some(content.maker));
        }
        value
    }

    /// The sender of a value, if known.
    fn maker_of(&self, named: &SlotMeaning) -> Option<Sender> {
        let message = &self.state.message;
        match named {
            SlotMeaning::Document
            | SlotMeaning::Body
            | SlotMeaning::SoapHeader
            | SlotMeaning::Infoset
            | SlotMeaning::InfosetBody
            | SlotMeaning::InfosetPayload => message.content().map(|content| content.maker),
            SlotMeaning::Headers | SlotMeaning::Header(_) => Some(match message.status {
                None => Sender::Client,
                Some(_) => Sender::Upstream,
            }),
            SlotMeaning::Method
            | SlotMeaning::Paths
            | SlotMeaning::Path(_)
            | SlotMeaning::Queries
            | SlotMeaning::Query(_)
            | SlotMeaning::Request
            | SlotMeaning::RequestBody
            | SlotMeaning::RequestPath
            | SlotMeaning::RequestHeaders
            | SlotMeaning::RequestHeader(_) => Some(Sender::Client),
            SlotMeaning::Status
            | SlotMeaning::ReplyStatus(_)
            | SlotMeaning::ReplyBody(_)
            | SlotMeaning::ReplyHeaders(_)
            | SlotMeaning::ReplyHeader(..) => Some(Sender::Upstream),
            SlotMeaning::Variable(number) => self.state.sender(*number),
            SlotMeaning::Error
            | SlotMeaning::ErrorPart(_)
            | SlotMeaning::Gather
            | SlotMeaning::GatherFailed
            | SlotMeaning::GatherBranches
            | SlotMeaning::RequestId
            | SlotMeaning::RequestLocalAddress
            | SlotMeaning::Variables => None,
        }
    }

    /// Returns a header of the message. While the message is the request, the client's other lines count too.
    fn header(&self, name: &str) -> Value {
        let holding = self.headers().find(|lines| lines.contains(name));
        holding.map_or(Value::Nothing, |lines| joined(lines, name))
    }

    /// Returns the lines of the message. While the message is the request, the client's other lines follow.
    fn headers(&self) -> impl Iterator<Item = &Headers> {
        let is_request = self.state.message.status.is_none();
        let of_request = is_request.then_some(&*self.state.request_lines);
        let withheld = self.state.withheld_lines.as_deref().filter(|_| is_request);
        [&self.state.message.lines].into_iter().chain(of_request).chain(withheld)
    }

    fn path(&self, name: &str) -> Result<Value, FailureKind> {
        let at = self.run.parameters.iter().position(|known| &**known == name);
        let value = at.and_then(|at| self.run.ex.parameters.get(at));
        value.map_or(Ok(Value::Nothing), |value| Ok(Value::text_of(decoded(value, false)?)))
    }

    /// Returns a query parameter. Parameters of the same name are joined with commas, like header lines.
    fn query(&self, name: &str) -> Result<Value, FailureKind> {
        let mut found: Option<String> = None;
        for (known, value) in self.queries() {
            if *known == *name.as_bytes() {
                join(&mut found, ", ", &decoded(value, true)?);
            }
        }
        Ok(found.map_or(Value::Nothing, Value::text_of))
    }

    fn all_queries(&self) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        let mut all: BTreeMap<String, Option<String>> = BTreeMap::new();
        for (name, value) in self.queries() {
            let name =
                String::from_utf8(name.into_owned()).map_err(|_error| FailureKind::NotText)?;
            join(all.entry(name).or_default(), ", ", &decoded(value, true)?);
        }
        Ok(members_of(all))
    }

    /// Returns the decoded names and the undecoded values.
    fn queries(&self) -> impl Iterator<Item = (Cow<'_, [u8]>, &[u8])> {
        // Harmless: a request may have no query.
        percent::pairs(self.run.head.query().unwrap_or_default())
    }

    /// Returns a list about the branches of the last gather, or nothing if there has been none.
    fn gathered(&self, list: impl Fn(&Gathered) -> Json) -> Result<Value, FailureKind> {
        let Some(gathered) = &self.state.gathered else { return Ok(Value::Nothing) };
        let list = read_json(&list(gathered).to_string(), false);
        let list = list.map_err(FailureKind::Scope)?;
        Ok(Value::Json(JsonNodes::root(list)))
    }

    fn error(&self, part: ErrorPart) -> Value {
        let Some(fault) = &self.state.caught else { return Value::Nothing };
        match part {
            ErrorPart::Kind => Value::text_of(fault.kind.label()),
            ErrorPart::Code => Value::Number(Number::of(f64::from(code(fault)))),
            ErrorPart::Message => {
                Value::text_of(fault.detail.as_deref().unwrap_or(fault.kind.title()))
            }
            ErrorPart::Detail => Value::text_of(detail(fault)),
        }
    }
}

/// Returns the value that paths into the text of a body search, if it has one.
fn fields_of(content: &Content) -> Result<Option<Value>, FailureKind> {
    let fields = content.followed()?;
    Ok(fields.map(|fields| Value::Json(JsonNodes::root(fields.clone()))))
}

/// All lines of a header as one text.
fn joined(lines: &Headers, name: &str) -> Value {
    let mut all = lines.get_all(name);
    let Some(first) = all.next() else { return Value::Nothing };
    let mut text = line(first);
    for value in all {
        let text = text.to_mut();
        text.push_str(between_lines(name));
        text.push_str(&line(value));
    }
    Value::text_of(text)
}

/// Returns the headers by their lower-case names. If a header is in several of the sets, the lines of the first set count.
fn by_name<'h>(of: impl IntoIterator<Item = &'h Headers>) -> Vec<(Box<str>, Member)> {
    let mut all: BTreeMap<String, (usize, Option<String>)> = BTreeMap::new();
    for (rank, lines) in of.into_iter().enumerate() {
        for (name, value) in lines.iter() {
            // Harmless: a name is a token of ASCII.
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            let between = between_lines(&name);
            let (owner, text) = all.entry(name).or_insert((rank, None));
            if *owner == rank {
                join(text, between, &line(value));
            }
        }
    }
    members_of(all.into_iter().map(|(name, (_, text))| (name, text)))
}

/// The separator between values of a header in one text. HTTP joins lists with commas (RFC 9110, 5.3), and cookies with semicolons
/// (RFC 9113, 8.2.3). For `Set-Cookie`, whose values may have commas, it is a line feed.
fn between_lines(name: &str) -> &'static str {
    let is = |known: &str| name.eq_ignore_ascii_case(known);
    if is("cookie") {
        "; "
    } else if is("set-cookie") {
        "\n"
    } else {
        ", "
    }
}

fn join(all: &mut Option<String>, between: &str, text: &str) {
    match all {
        None => *all = Some(text.to_owned()),
        Some(all) => {
            all.push_str(between);
            all.push_str(text);
        }
    }
}

fn members_of(all: impl IntoIterator<Item = (String, Option<String>)>) -> Vec<(Box<str>, Member)> {
    let value = |text: Option<String>| text.map_or(Value::Nothing, Value::text_of);
    let member = |(name, text): (String, _)| (name.into(), Member::Value(value(text)));
    all.into_iter().map(member).collect()
}

/// Returns the text of a header value. A value that is not UTF-8 is decoded as ISO 8859-1, which HTTP once allowed (RFC 9110, 5.5), so
/// that no byte is lost.
fn line(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(value.iter().map(|byte| char::from(*byte)).collect()),
    }
}

fn decoded(text: &[u8], plus: bool) -> Result<String, FailureKind> {
    String::from_utf8(percent::decoded(text, plus).into_owned())
        .map_err(|_error| FailureKind::NotText)
}

impl Scope for Values<'_> {
    fn value(&self, slot: Slot) -> Result<Value, FailureKind> {
        let Some(named) = self.named(slot) else { return Ok(Value::Nothing) };
        self.run.asked.set(self.maker_of(named));
        Ok(match named {
            SlotMeaning::Document => self.content()?.document()?,
            SlotMeaning::Body => self.content()?.body()?,
            SlotMeaning::SoapHeader => self.content()?.soap_header()?,
            SlotMeaning::Infoset => self.content()?.infoset()?.root(),
            SlotMeaning::InfosetBody => self.content()?.infoset()?.body(),
            SlotMeaning::InfosetPayload => self.content()?.infoset_payload()?,
            SlotMeaning::RequestPath => Value::text_of(line(self.run.head.target())),
            SlotMeaning::RequestId => Value::text_of(self.run.ex.id.as_str()),
            SlotMeaning::RequestLocalAddress => {
                Value::text_of(self.run.ex.caller.local.ip().to_string())
            }
            SlotMeaning::Method => Value::text_of(line(self.run.head.method())),
            SlotMeaning::Status => self.state.status.map_or(Value::Nothing, number),
            SlotMeaning::Header(name) => self.header(name),
            SlotMeaning::Path(name) => self.path(name)?,
            SlotMeaning::Query(name) => self.query(name)?,
            SlotMeaning::RequestBody => match &*self.run.request.borrow() {
                Some(content) => self.read(content, Content::body)?,
                None => Value::Nothing,
            },
            SlotMeaning::RequestHeader(name) => joined(&self.run.head.headers, name),
            SlotMeaning::ErrorPart(part) => self.error(*part),
            SlotMeaning::GatherFailed => self.gathered(Gathered::failed)?,
            SlotMeaning::GatherBranches => self.gathered(Gathered::branches)?,
            SlotMeaning::Variable(number) => match self.state.variable(*number) {
                Some(Variable::Value(value)) => value.clone(),
                Some(Variable::Reply(_)) | None => Value::Nothing,
            },
            SlotMeaning::ReplyStatus(number) => {
                let status = self.reply(*number).and_then(|reply| reply.status);
                status.map_or(Value::Nothing, self::number)
            }
            SlotMeaning::ReplyHeader(number, name) => {
                self.reply(*number).map_or(Value::Nothing, |reply| joined(&reply.lines, name))
            }
            SlotMeaning::ReplyBody(number) => {
                match self.reply(*number).and_then(Message::content) {
                    Some(content) => self.read(content, Content::body)?,
                    None => Value::Nothing,
                }
            }
            SlotMeaning::Headers
            | SlotMeaning::Paths
            | SlotMeaning::Queries
            | SlotMeaning::Request
            | SlotMeaning::RequestHeaders
            | SlotMeaning::Error
            | SlotMeaning::Gather
            | SlotMeaning::Variables
            | SlotMeaning::ReplyHeaders(_) => Value::Nothing,
        })
    }

    fn fields(&self, slot: Slot) -> Result<Option<Value>, FailureKind> {
        #[allow(clippy::wildcard_enum_match_arm, reason = "no other slot is a body")]
        match self.named(slot) {
            Some(SlotMeaning::Body) => fields_of(self.content()?),
            Some(SlotMeaning::RequestBody) => {
                let request = self.run.request.borrow();
                let fields = request.as_deref().map(|content| self.read(content, fields_of));
                // Harmless: a body that is not a form has no fields.
                Ok(fields.transpose()?.flatten())
            }
            Some(SlotMeaning::ReplyBody(number)) => {
                let reply = self.reply(*number).and_then(Message::content);
                let fields = reply.map(|content| self.read(content, fields_of));
                // Harmless: a body that is not a form has no fields.
                Ok(fields.transpose()?.flatten())
            }
            _ => Ok(None),
        }
    }

    fn members(&self, group: Slot) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        let Some(named) = self.named(group) else { return Ok(Vec::new()) };
        self.run.asked.set(self.maker_of(named));
        Ok(match named {
            SlotMeaning::Headers => by_name(self.headers()),
            SlotMeaning::RequestHeaders => by_name([&self.run.head.headers]),
            SlotMeaning::Paths => {
                let names = self.run.parameters.iter();
                let members = names.map(|name| {
                    let value = self.path(name)?;
                    Ok::<_, FailureKind>((name.clone(), Member::Value(value)))
                });
                members.collect::<Result<_, _>>()?
            }
            SlotMeaning::Queries => self.all_queries()?,
            SlotMeaning::Error => self.error_parts(),
            SlotMeaning::Gather => vec![
                ("failed".into(), Member::Value(self.gathered(Gathered::failed)?)),
                ("branches".into(), Member::Value(self.gathered(Gathered::branches)?)),
            ],
            SlotMeaning::Variables => self.variables(),
            SlotMeaning::Variable(number) => self.reply_parts(*number)?,
            SlotMeaning::Request => self.request_parts()?,
            SlotMeaning::ReplyHeaders(number) => match self.state.variable(*number) {
                Some(Variable::Reply(reply)) => by_name([&reply.lines]),
                Some(Variable::Value(_)) | None => Vec::new(),
            },
            SlotMeaning::Document
            | SlotMeaning::Body
            | SlotMeaning::SoapHeader
            | SlotMeaning::Infoset
            | SlotMeaning::InfosetBody
            | SlotMeaning::InfosetPayload
            | SlotMeaning::RequestPath
            | SlotMeaning::RequestId
            | SlotMeaning::RequestLocalAddress
            | SlotMeaning::Method
            | SlotMeaning::Status
            | SlotMeaning::Header(_)
            | SlotMeaning::Path(_)
            | SlotMeaning::Query(_)
            | SlotMeaning::RequestBody
            | SlotMeaning::RequestHeader(_)
            | SlotMeaning::ErrorPart(_)
            | SlotMeaning::GatherFailed
            | SlotMeaning::GatherBranches
            | SlotMeaning::ReplyStatus(_)
            | SlotMeaning::ReplyBody(_)
            | SlotMeaning::ReplyHeader(..) => Vec::new(),
        })
    }
}

impl Values<'_> {
    fn error_parts(&self) -> Vec<(Box<str>, Member)> {
        let part = |(name, part): (&str, ErrorPart)| (name.into(), Member::Value(self.error(part)));
        ERROR_PARTS.map(part).into()
    }

    /// Returns the variables that hold values.
    fn variables(&self) -> Vec<(Box<str>, Member)> {
        // Harmless: a variable that holds a reply is a group with a separate slot.
        let known = self.state.variables.iter().filter_map(|(number, variable)| {
            let name = self.run.slots.variables.get(*number as usize)?;
            match variable {
                Variable::Value(value) => Some((name.clone(), Member::Value(value.clone()))),
                Variable::Reply(_) => None,
            }
        });
        known.collect()
    }

    fn reply_parts(&self, number: u32) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        let Some(reply) = self.reply(number) else { return Ok(Vec::new()) };
        let status = reply.status.map_or(Value::Nothing, self::number);
        let body = reply.content().map(|content| self.read(content, Content::body)).transpose()?;
        let mut parts = vec![
            ("status".into(), Member::Value(status)),
            // Harmless: a reply without a body has an empty one.
            ("body".into(), Member::Value(body.unwrap_or_default())),
        ];
        parts.extend(self.group("headers", &SlotMeaning::ReplyHeaders(number)));
        Ok(parts)
    }

    /// `request`, for CEL.
    fn request_parts(&self) -> Result<Vec<(Box<str>, Member)>, FailureKind> {
        let request = self.run.request.borrow();
        let body = request.as_ref().map(|content| self.read(content, Content::body)).transpose()?;
        let mut parts = vec![
            ("method".into(), Member::Value(Value::text_of(line(self.run.head.method())))),
            // Harmless: a request without a body has an empty one.
            ("body".into(), Member::Value(body.unwrap_or_default())),
        ];
        parts.extend(self.group("headers", &SlotMeaning::RequestHeaders));
        Ok(parts)
    }

    /// Returns a group inside another group. It got its slot when the outer group was compiled.
    fn group(&self, name: &str, named: &SlotMeaning) -> Option<(Box<str>, Member)> {
        let at = self.run.slots.named.iter().position(|known| known == named)?;
        Some((name.into(), Member::Group(Slot(u32::try_from(at).ok()?))))
    }

    /// The reply that a variable holds.
    fn reply(&self, number: u32) -> Option<&Message> {
        match self.state.variable(number) {
            Some(Variable::Reply(reply)) => Some(reply),
            Some(Variable::Value(_)) | None => None,
        }
    }
}

fn number(status: u16) -> Value {
    Value::Number(Number::of(f64::from(status)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(all: &[(&str, &[u8])]) -> Headers {
        let mut lines = Headers::new();
        all.iter().for_each(|(name, value)| lines.add(name, value).unwrap());
        lines
    }

    fn text(value: &Value) -> Option<String> {
        (!value.is_missing()).then(|| value.text().unwrap().into_owned())
    }

    #[test]
    fn lines_of_a_header_are_joined_as_its_rules_say() {
        let lines = lines(&[
            ("Accept", b"a"),
            ("accept", b""),
            ("ACCEPT", b"b"),
            ("Cookie", b"a=1"),
            ("Cookie", b"b=2"),
            ("Set-Cookie", b"a=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT"),
            ("Set-Cookie", b"b=2"),
            ("X-Latin", b"caf\xe9"),
            ("X-Utf", "caf\u{e9}".as_bytes()),
        ]);
        for (name, expected) in [
            ("accept", Some("a, , b")),
            ("cookie", Some("a=1; b=2")),
            ("set-cookie", Some("a=1; Expires=Sun, 06 Nov 1994 08:49:37 GMT\nb=2")),
            ("x-latin", Some("caf\u{e9}")),
            ("x-utf", Some("caf\u{e9}")),
            ("x-none", None),
        ] {
            assert_eq!(text(&joined(&lines, name)).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn lines_of_the_first_set_hide_those_of_later_ones() {
        let own = lines(&[("X-Own", b"1"), ("X-Both", b"own"), ("x-both", b"too")]);
        let others = lines(&[("x-both", b"other"), ("X-Other", b"2"), ("X-Other", b"3")]);
        let found: Vec<_> = by_name([&own, &others])
            .into_iter()
            .map(|(name, member)| match member {
                Member::Value(value) => (name.into_string(), text(&value)),
                Member::Group(_) => panic!("{name} must be a value"),
            })
            .collect();
        let expected = [("x-both", "own, too"), ("x-other", "2, 3"), ("x-own", "1")];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), Some(value.to_owned()));
        assert_eq!(found, expected.map(owned));
    }

    #[test]
    fn a_plus_is_a_space_only_in_queries_and_bytes_must_be_text() {
        for (bytes, plus, expected) in [
            (&b"a+b%20c"[..], true, Some("a b c")),
            (b"a+b%20c", false, Some("a+b c")),
            (b"%C3%A9", false, Some("\u{e9}")),
            (b"%E9", false, None),
            (b"%2", false, Some("%2")),
            (b"", true, Some("")),
        ] {
            assert_eq!(decoded(bytes, plus).ok().as_deref(), expected, "{}", bytes.escape_ascii());
        }
    }
}
