//! XML to JSON: writes the events of a message directly as values of their types.
//!
//! Owns the envelope, the walk through the types, and the check of required elements at the end of each element. It builds no tree and
//! keeps only a frame for each open element. The order of different members is not checked where each of them is an element of its own.

use xml::{Here, QName, Sink, Start};
use xsd::datatype::Steps;

use super::fault::{Fault, FaultReader};
use super::fragment::Fragment;
use super::model::{Element, Message, Root, XSI};
use super::reply_cache::Part;
use super::typed_api::Api;
use crate::SoapVersion;
use json::push_string;

mod frames;
mod recall;
mod texts;

use frames::Frame;
pub(super) use texts::{Prefixes, push_value};

/// Result of reading a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadMessage {
    /// The value of the body. Headers are among its members.
    Value(String),
    Fault(Fault),
    /// The body is empty.
    Nothing,
}

/// The reason why a message cannot be translated to JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReadError {
    Xml(xml::Error),
    /// The message does not match the description.
    Mismatch(String),
}

impl From<xml::Error> for ReadError {
    fn from(error: xml::Error) -> ReadError {
        ReadError::Xml(error)
    }
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ReadError::Xml(error) => write!(f, "{error}"),
            ReadError::Mismatch(what) => f.write_str(what),
        }
    }
}

type Done<T = ()> = Result<T, ReadError>;

#[cold]
fn mismatch<T>(what: String) -> Done<T> {
    Err(ReadError::Mismatch(what))
}

/// Parses one message.
pub(super) struct Reader<'a> {
    api: &'a Api,
    /// The elements that may occur in the detail of a fault.
    faults: &'a [usize],
    message: Option<&'a Message>,
    part: Part,
    /// Whether the reader is in a header, not in the body.
    in_header: bool,
    version: SoapVersion,
    frames: Vec<Frame<'a>>,
    /// For each open object, the number of occurrences of each member.
    counts: Vec<u64>,
    /// Text that has not been written.
    text: String,
    out: String,
    /// Members of `$headers`.
    headers: String,
    fragment: Option<Fragment>,
    fault: Option<FaultReader>,
    said: bool,
    bytes_max: usize,
    /// Whether the message has content that the tables cannot check, so the schema validator must.
    unsure: bool,
    /// Remaining budget for matching patterns.
    steps: Steps,
}

impl<'a> Reader<'a> {
    pub(super) fn new(
        api: &'a Api,
        faults: &'a [usize],
        message: Option<&'a Message>,
        bytes_max: usize,
    ) -> Reader<'a> {
        Reader {
            api,
            faults,
            message,
            part: Part::Outside,
            in_header: false,
            version: SoapVersion::V11,
            frames: Vec::new(),
            counts: Vec::new(),
            text: String::new(),
            out: String::with_capacity(256),
            headers: String::new(),
            fragment: None,
            fault: None,
            said: false,
            bytes_max,
            unsure: false,
            steps: Steps::default(),
        }
    }

    pub(super) fn read(mut self, bytes: &[u8]) -> Done<ReadMessage> {
        xml::parse(bytes, super::options(), &mut self)?;
        self.finish(bytes)
    }

    /// Returns what was read from these bytes.
    fn finish(self, bytes: &[u8]) -> Done<ReadMessage> {
        if let (true, Some(message)) = (self.unsure, self.message) {
            super::judge::judge(self.api, message, bytes).map_err(ReadError::Mismatch)?;
        }
        if let Some(fault) = self.fault {
            return Ok(ReadMessage::Fault(fault.done()));
        }
        if self.said {
            return Ok(ReadMessage::Value(self.out));
        }
        match self.message.and_then(|message| message.body.as_ref()) {
            Some(_) => mismatch("the body is empty".to_owned()),
            None if !self.headers.is_empty() => {
                Ok(ReadMessage::Value(format!(r#"{{"$headers":{{{}}}}}"#, self.headers)))
            }
            None => Ok(ReadMessage::Nothing),
        }
    }

    /// Handles an element of the envelope itself.
    fn outer(&mut self, start: &Start<'_>) -> Done {
        let (uri, local) = (start.name.namespace.uri, start.name.local);
        let own = uri == self.version.namespace();
        match (self.part, local) {
            (Part::Outside, "Envelope") => {
                let known =
                    [SoapVersion::V11, SoapVersion::V12].into_iter().find(|v| v.namespace() == uri);
                let Some(version) = known else {
                    return mismatch(format!("the envelope is of the namespace {uri:?}"));
                };
                self.version = version;
                self.part = Part::Envelope;
            }
            (Part::Envelope, "Header") if own => self.part = Part::Header,
            (Part::Envelope, "Body") if own => self.part = Part::Body,
            (Part::Outside | Part::Envelope, _) => {
                return mismatch(format!("<{local}> is not part of an envelope"));
            }
            (Part::Header, _) => return self.header(start),
            (Part::Body, "Fault") if own && !self.said => {
                self.part = Part::Fault;
                self.fault = Some(FaultReader::new(self.version));
            }
            (Part::Body, _) => return self.body(start),
            (Part::SkippedHeader(_) | Part::SkippedBody(_) | Part::Value | Part::Fault, _) => {}
        }
        Ok(())
    }

    fn header(&mut self, start: &Start<'_>) -> Done {
        let api = self.api;
        let headers = self.message.map_or(&[][..], |message| &message.headers);
        let element = |root: &Root| api.elements.get(root.element);
        // Harmless: each header has an element.
        let found = headers.iter().filter_map(element).find(|one| is_named(one, start.name));
        let Some(found) = found else {
            // Header blocks that the description does not name are left to the service and the gateway.
            self.part = Part::SkippedHeader(1);
            return Ok(());
        };
        std::mem::swap(&mut self.out, &mut self.headers);
        if !self.out.is_empty() {
            self.out.push(',');
        }
        push_string(&mut self.out, &found.local);
        self.out.push(':');
        self.in_header = true;
        self.part = Part::Value;
        self.begin(found, start, "")
    }

    fn body(&mut self, start: &Start<'_>) -> Done {
        let api = self.api;
        let message = self.message;
        let root = message.and_then(|message| message.body.as_ref());
        let Some(element) = root.and_then(|root| api.elements.get(root.element)) else {
            self.part = Part::SkippedBody(1);
            return Ok(());
        };
        // The name of an rpc message's wrapper is not checked, although Basic Profile 1.1 (R2729) prescribes it.
        let any_name = message.is_some_and(|message| message.is_rpc);
        if self.said {
            return mismatch(format!(
                "the body has a second element, <{}> in the namespace {:?}",
                start.name.local, start.name.namespace.uri
            ));
        }
        if !(any_name || is_named(element, start.name)) {
            return mismatch(format!(
                "the body contains <{}> in the namespace {:?} instead of <{}> in the namespace {:?}",
                start.name.local, start.name.namespace.uri, element.local, element.uri
            ));
        }
        self.said = true;
        self.part = Part::Value;
        self.begin(element, start, "")
    }

    fn after_value(&mut self) {
        if std::mem::take(&mut self.in_header) {
            std::mem::swap(&mut self.out, &mut self.headers);
            self.part = Part::Header;
        } else {
            self.part = Part::Body
        }
    }

    /// Handles elements within a fault: its own, and those of its detail.
    fn in_fault(&mut self, start: &Start<'_>) -> Done {
        let Some(fault) = &mut self.fault else { return Ok(()) };
        if !fault.start(start.name) {
            return Ok(());
        }
        let api = self.api;
        // Harmless: each fault has an element.
        let known = self.faults.iter().filter_map(|element| api.elements.get(*element));
        let found = known.into_iter().find(|element| is_named(element, start.name));
        std::mem::swap(&mut self.out, &mut fault.values);
        fault.begins.push(self.out.len());
        fault.fault.names.push(start.name.local.to_owned());
        match found {
            Some(element) => self.begin(element, start, ""),
            None => {
                let mut fragment = Fragment::default();
                fragment.start(start);
                self.fragment = Some(fragment);
                Ok(())
            }
        }
    }

    fn after_detail(&mut self) {
        if let Some(fault) = &mut self.fault {
            std::mem::swap(&mut self.out, &mut fault.values);
            fault.leave();
        }
    }

    /// Handles the end of the current header, body element or detail element.
    fn complete(&mut self) {
        match self.part {
            Part::Fault => self.after_detail(),
            Part::Outside
            | Part::Envelope
            | Part::Header
            | Part::SkippedHeader(_)
            | Part::SkippedBody(_)
            | Part::Body
            | Part::Value => self.after_value(),
        }
    }
}

fn is_named(element: &Element, name: QName<'_>) -> bool {
    *element.local == *name.local && *element.uri == *name.namespace.uri
}

impl Sink for Reader<'_> {
    type Error = ReadError;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), ReadError> {
        if let Some(fragment) = &mut self.fragment {
            fragment.start(start);
            return Ok(());
        }
        match self.part {
            Part::Value => self.child(start),
            Part::Fault if !self.frames.is_empty() => self.child(start),
            Part::Fault => self.in_fault(start),
            Part::SkippedHeader(depth) => {
                self.part = Part::SkippedHeader(depth + 1);
                Ok(())
            }
            Part::SkippedBody(depth) => {
                self.part = Part::SkippedBody(depth + 1);
                Ok(())
            }
            Part::Outside | Part::Envelope | Part::Header | Part::Body => self.outer(start),
        }
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), ReadError> {
        if let Some(fragment) = &mut self.fragment {
            fragment.characters(text);
            return Ok(());
        }
        match self.part {
            Part::Value => self.characters(text),
            Part::Fault if !self.frames.is_empty() => self.characters(text),
            Part::Fault => {
                if let Some(fault) = &mut self.fault {
                    fault.text(text);
                }
                Ok(())
            }
            Part::Outside
            | Part::Envelope
            | Part::Header
            | Part::SkippedHeader(_)
            | Part::SkippedBody(_)
            | Part::Body => Ok(()),
        }
    }

    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), ReadError> {
        if let Some(fragment) = &mut self.fragment {
            if fragment.end(name) {
                // Harmless: the line above has checked that there is one.
                let fragment = self.fragment.take().unwrap_or_default();
                push_string(&mut self.out, &fragment.text);
                if self.frames.is_empty() { self.complete() } else { self.after_fragment() }
            }
            return Ok(());
        }
        match self.part {
            Part::Value => self.leave(here),
            Part::Fault if !self.frames.is_empty() => self.leave(here),
            Part::Fault => {
                if let Some(fault) = &mut self.fault
                    && fault.end()
                {
                    self.part = Part::Body;
                }
                Ok(())
            }
            Part::SkippedHeader(depth) => {
                self.part = if depth > 1 { Part::SkippedHeader(depth - 1) } else { Part::Header };
                Ok(())
            }
            Part::SkippedBody(depth) => {
                self.part = if depth > 1 { Part::SkippedBody(depth - 1) } else { Part::Body };
                Ok(())
            }
            Part::Header | Part::Body => {
                self.part = Part::Envelope;
                Ok(())
            }
            Part::Envelope | Part::Outside => {
                self.part = Part::Outside;
                Ok(())
            }
        }
    }
}
