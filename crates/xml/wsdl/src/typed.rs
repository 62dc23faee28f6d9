//! JSON APIs for SOAP services: translates messages in both directions by the types of their schemas.
//!
//! Owns the mapping between XML and JSON, the tables compiled from a description once ([`api`]), the translation of messages with these
//! tables, the OpenAPI document of the result, and the round-trip proof of an operation. It knows nothing of HTTP. Messages are validated
//! during the translation: a message that violates its type is refused, never repaired.

mod bind;
mod build;
mod fault;
mod fragment;
mod judge;
mod mismatch;
mod model;
mod openapi;
mod parameter;
mod proof;
mod read;
mod reply_cache;
mod sample;
mod scalar;
mod tags;
mod typed_api;
mod write;

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::LazyLock;

pub use bind::{PortChoice, api, services};
pub use fault::Fault;
pub use mismatch::Mismatch;
pub use openapi::{Document, OfferedParameter, OperationPlace};
pub use parameter::{Parameter, request_of};
pub use proof::{Proof, prove};
pub use read::{ReadError, ReadMessage};
pub use typed_api::{Api, Operation};

use crate::SoapVersion;
use ::json::{Kind, Tape, TapeEntry};
use mismatch::Done;
use model::Message;
use read::Reader;
use write::Writer;
use xsd::datatype::Steps;

/// Initial capacity of an envelope, enough for small messages.
const ENVELOPE_BYTES: usize = 1024;

/// Options for parsing XML messages. The limit on nesting is the same for replies and requests.
fn options() -> &'static xml::Options {
    static OPTIONS: LazyLock<xml::Options> = LazyLock::new(xml::Options::default);
    &OPTIONS
}

/// The reason why a request is not translated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestRefusal {
    /// Not JSON: the byte offset, and what was expected there.
    Malformed { at: usize, expected: &'static str },
    /// The value does not match the operation.
    Mismatch(Box<Mismatch>),
}

/// Limits on a JSON message. Realistic messages are less than 20 levels deep. The tape of a text that consists only of brackets takes at
/// most 20 MiB.
pub const LIMITS: ::json::Limits = ::json::Limits { depth_max: 100, entries_max: 1 << 20 };

/// If there are more slots than this, their memory is freed.
const KEPT_SLOTS_MAX: usize = 16 << 10;

thread_local! {
    /// Slots reused by the translations of a thread; see [`Writer::slots`].
    static SLOTS: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

impl Api {
    /// Translates a request to an envelope; `bytes_max` limits its size.
    pub fn request(
        &self,
        operation: &Operation,
        json: &[u8],
        bytes_max: usize,
    ) -> Result<String, RequestRefusal> {
        self.envelope(&operation.input, json, bytes_max)
    }

    /// Translates a request that has been parsed already, within [`LIMITS`].
    pub fn request_on(
        &self,
        operation: &Operation,
        text: &str,
        tape: &Tape,
        bytes_max: usize,
    ) -> Result<String, RequestRefusal> {
        self.envelope_on(&operation.input, text, tape.entries(), bytes_max)
    }

    /// Translates a reply to JSON; `bytes_max` limits its size.
    pub fn reply(
        &self,
        operation: &Operation,
        xml: &[u8],
        bytes_max: usize,
    ) -> Result<ReadMessage, ReadError> {
        let reader = |faults| Reader::new(self, faults, operation.output.as_ref(), bytes_max);
        match reader(&operation.faults).read_again(xml) {
            // A fault is returned in any case: a detail that violates its type is returned as XML.
            Err(why @ ReadError::Mismatch(_)) => match reader(&[]).read(xml) {
                Ok(said @ ReadMessage::Fault(_)) => Ok(said),
                Ok(_) | Err(_) => Err(why),
            },
            said => said,
        }
    }

    fn envelope(
        &self,
        message: &Message,
        json: &[u8],
        bytes_max: usize,
    ) -> Result<String, RequestRefusal> {
        let malformed = |at, expected| RequestRefusal::Malformed { at, expected };
        let text = std::str::from_utf8(json)
            .map_err(|error| malformed(error.valid_up_to(), "a text in UTF-8"))?;
        let text = if text.trim_ascii().is_empty() { "{}" } else { text };
        let tape = Tape::read(text, &LIMITS).map_err(|why| malformed(why.at, why.what))?;
        self.envelope_on(message, text, tape.entries(), bytes_max)
    }

    fn envelope_on(
        &self,
        message: &Message,
        text: &str,
        tape: &[TapeEntry],
        bytes_max: usize,
    ) -> Result<String, RequestRefusal> {
        // Taken out of the thread-local, because the translation may pause and another one begin.
        let mut slots = SLOTS.take();
        slots.clear();
        let mut writer = Writer {
            api: self,
            text,
            tape,
            slots: &mut slots,
            out: String::with_capacity(ENVELOPE_BYTES.max(text.len().saturating_mul(2))),
            bytes_max,
            unsure: false,
            has_default: false,
            steps: Steps::default(),
        };
        let written = writer.message(message, self.version);
        let (out, unsure) = (writer.out, writer.unsure);
        if slots.capacity() <= KEPT_SLOTS_MAX {
            SLOTS.set(slots);
        }
        written.map_err(RequestRefusal::Mismatch)?;
        if unsure {
            let judged = judge::judge(self, message, out.as_bytes());
            judged.map_err(|what| {
                RequestRefusal::Mismatch(Mismatch::new(format!(
                    "expected what the schema allows: {what}"
                )))
            })?;
        }
        Ok(out)
    }
}

impl Api {
    /// Writes a single element, for samples.
    fn written(
        &self,
        element: &model::Element,
        declarations: &str,
        json: &str,
    ) -> Result<String, String> {
        let (mut tape, mut slots) = (Vec::new(), Vec::new());
        ::json::read(json, &LIMITS, &mut tape).map_err(|why| why.what.to_owned())?;
        let mut writer = Writer {
            api: self,
            text: json,
            tape: &tape,
            slots: &mut slots,
            out: String::new(),
            bytes_max: usize::MAX,
            unsure: false,
            has_default: false,
            steps: Steps::default(),
        };
        let written = writer.element(element, 0, declarations, false);
        let out = writer.out;
        written.map(|()| out).map_err(|mismatch| mismatch.to_string())
    }
}

impl<'a> Writer<'a> {
    fn message(&mut self, message: &'a Message, version: SoapVersion) -> Done {
        self.out.push_str(r#"<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap=""#);
        self.out.push_str(version.namespace());
        self.out.push_str("\">");
        if !message.headers.is_empty() {
            self.headers(message).map_err(|mismatch| mismatch.within("$headers"))?;
        }
        self.out.push_str("<soap:Body>");
        if let Some(root) = &message.body
            && let Some(element) = self.api.elements.get(root.element)
        {
            self.element(element, 0, &root.declarations, !message.headers.is_empty())?;
        } else {
            self.nothing(!message.headers.is_empty())?;
        }
        self.out.push_str("</soap:Body></soap:Envelope>");
        if self.out.len() > self.bytes_max {
            return Err(Mismatch::large(self.bytes_max));
        }
        Ok(())
    }

    /// Checks the value for an empty body, which must have no members.
    fn nothing(&self, headers: bool) -> Done {
        let mut keys = self.keys(0);
        match self.tape.first().map(|entry| entry.kind) {
            Some(Kind::Object) if keys.all(|(key, _)| headers && key == "$headers") => Ok(()),
            _ => Err(Mismatch::new("expected an object without members")),
        }
    }

    /// Iterates over the members of an object: names, and the tape indexes of their values.
    fn keys(&self, at: usize) -> impl Iterator<Item = (Cow<'a, str>, usize)> + use<'a> {
        let (tape, text) = (self.tape, self.text);
        let end = tape.get(at).map_or(0, |entry| entry.next as usize);
        let mut key = at + 1;
        std::iter::from_fn(move || {
            let entry = tape.get(key).filter(|_| key < end)?;
            let name = text.get(entry.from as usize..entry.to as usize)?;
            let name = if entry.kind == Kind::Escaped {
                Cow::Owned(::json::unescaped(name))
            } else {
                Cow::Borrowed(name)
            };
            let value = key + 1;
            key = tape.get(value)?.next as usize;
            Some((name, value))
        })
    }

    fn headers(&mut self, message: &'a Message) -> Done {
        let is_object = |at: usize| self.tape.get(at).is_some_and(|e| e.kind == Kind::Object);
        let named = |at| self.keys(at).filter(|(key, _)| key == "$headers").map(|(_, at)| at);
        let all: Vec<usize> = if is_object(0) { named(0).collect() } else { Vec::new() };
        let given: Vec<(Cow<'a, str>, usize)> = match *all {
            [] => Vec::new(),
            [at] if is_object(at) => self.keys(at).collect(),
            [_] => return Err(Mismatch::new("expected an object")),
            [..] => return Err(Mismatch::new("expected one member of this name")),
        };
        let is_twice = |(at, (key, _)): (usize, &(Cow<'_, str>, usize))| {
            // Harmless: each member is compared with the members before it.
            given.iter().take(at).any(|(before, _)| before == key)
        };
        let local = |root: &model::Root| Some(&*self.api.elements.get(root.element)?.local);
        // Harmless: each header has an element.
        let known: Vec<&str> = message.headers.iter().filter_map(local).collect();
        if let Some((other, _)) = given.iter().find(|(key, _)| !known.contains(&&**key)) {
            let what = format!("expected one of {}", known.join(", "));
            return Err(Mismatch::new(what).within(other));
        }
        // All names are known by now, so a duplicate is found among the first few members.
        if let Some((at, _)) = given.iter().enumerate().find(|one| is_twice(*one)) {
            let name = given.get(at).map_or("", |(key, _)| &**key);
            return Err(Mismatch::new("expected one member of this name").within(name));
        }
        self.out.push_str("<soap:Header>");
        for root in &message.headers {
            let Some(element) = self.api.elements.get(root.element) else { continue };
            match given.iter().find(|(key, _)| **key == *element.local) {
                Some((key, at)) => self
                    .element(element, *at, &root.declarations, false)
                    .map_err(|mismatch| mismatch.within(key))?,
                None => {
                    let what = "expected the member, because the description requires this header";
                    return Err(Mismatch::new(what).within(&element.local));
                }
            }
        }
        self.out.push_str("</soap:Header>");
        Ok(())
    }
}
