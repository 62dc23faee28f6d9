//! `payload` and `respond`: a body made anew.

use std::sync::Arc;

use ::message::Headers;
use bytes::Bytes;
use expression::{Budget, Expression, FailureKind, Slot, Template, Value};
use fault::{Fault, Kind};
use mediation::soap::Version;
use xml::Document;

use crate::content::{Format, View, read_json};
use crate::edit::{Edits, has_default_namespace, undefaulted};
use crate::message::Payload as Held;
use crate::soap::{self, Envelope};
use crate::state::{Run, State};
use crate::steps::call::Query;
use crate::steps::header;

pub(crate) const XML: &str = "application/xml";
pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
const FORM: &str = "application/x-www-form-urlencoded";
const BINARY: &str = "application/octet-stream";

/// The name of an envelope stands among so many bytes at the beginning of a message.
const BEGINNING_BYTES: usize = 264;

/// The content type of a file's content, by the end of its name; of a SOAP message it is that of its version.
fn type_of_file(ending: &str) -> &'static str {
    match ending.to_ascii_lowercase().as_str() {
        "xml" | "xsl" | "xslt" | "xsd" | "wsdl" => XML,
        "json" => JSON,
        "txt" => TEXT,
        _ => BINARY,
    }
}

/// The source of a new body.
pub enum PayloadSource {
    Xml(Template),
    Json(Template),
    Text(Template),
    Form(Query),
    From(Expression),
    /// The bytes of a file, and their content type.
    Fixed(Bytes, &'static str),
}

/// A new body.
pub struct Payload {
    pub made: PayloadSource,
    pub content_type: Option<Box<str>>,
    /// In a SOAP message it replaces the content of the Body.
    pub envelope: bool,
}

/// An answer.
#[derive(Default)]
pub struct Respond {
    pub status: Option<Status>,
    pub headers: Vec<(Box<str>, Template)>,
    pub made: Option<PayloadSource>,
}

/// The status of an answer.
pub enum Status {
    Fixed(u16),
    Made(Template),
}

impl Status {
    pub(crate) fn template(&self) -> Option<&Template> {
        match self {
            Status::Fixed(_) => None,
            Status::Made(template) => Some(template),
        }
    }

    /// None: the template gives no text, so that it is the message's own.
    fn get(&self, run: &Run<'_>, state: &State) -> Result<Option<u16>, Fault> {
        let template = match self {
            Status::Fixed(status) => return Ok(Some(*status)),
            Status::Made(template) => template,
        };
        let text = run.fill(state, template)?;
        if text.is_empty() {
            return Ok(None);
        }
        let is_plain = text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
        // Harmless: an invalid status is refused below.
        let status = text.parse().ok().filter(|status| is_plain && (200..600).contains(status));
        status.map(Some).ok_or_else(|| {
            // Harmless: it is only shown.
            let shown: String = text.chars().take(40).collect();
            let what = format!(
                "respond: the status is `{}`, and not a number from 200 to 599",
                shown.escape_debug()
            );
            Fault::new(Kind::Template, what)
        })
    }
}

/// A new body, evaluated.
struct PayloadContent {
    body: PayloadBytes,
    content_type: &'static str,
    /// Markup, of one element or of several.
    is_xml: bool,
}

/// The bytes of a new body; of text that was made, with the knowledge that it is text.
enum PayloadBytes {
    Text(String),
    Bytes(Bytes),
}

impl PayloadBytes {
    fn as_bytes(&self) -> &[u8] {
        match self {
            PayloadBytes::Text(text) => text.as_bytes(),
            PayloadBytes::Bytes(bytes) => bytes,
        }
    }

    fn into_bytes(self) -> Bytes {
        match self {
            PayloadBytes::Text(text) => text.into(),
            PayloadBytes::Bytes(bytes) => bytes,
        }
    }

    fn into_text(self) -> Result<String, Fault> {
        match self {
            PayloadBytes::Text(text) => Ok(text),
            PayloadBytes::Bytes(bytes) => String::from_utf8(bytes.into())
                .map_err(|_| Fault::new(Kind::FlowFailed, "the markup is not in UTF-8")),
        }
    }
}

impl PayloadSource {
    /// The content of a file whose name has that end.
    pub fn file(bytes: Bytes, ending: &str) -> PayloadSource {
        let content_type = type_of_file(ending);
        let own = soap_in(&bytes, content_type == XML);
        PayloadSource::Fixed(bytes, own.map_or(content_type, soap::content_type))
    }

    fn slots(&self) -> Vec<Slot> {
        match self {
            PayloadSource::Xml(template)
            | PayloadSource::Json(template)
            | PayloadSource::Text(template) => template.slots(),
            PayloadSource::Form(form) => {
                form.templates().into_iter().flat_map(Template::slots).collect()
            }
            PayloadSource::From(expression) => expression.slots(),
            PayloadSource::Fixed(..) => Vec::new(),
        }
    }

    /// Evaluates it; `inside` says that it goes into the Body of a SOAP message.
    fn fill(&self, run: &Run<'_>, state: &State, inside: bool) -> Result<PayloadContent, Fault> {
        let text = |template: &Template, content_type| {
            let body = PayloadBytes::Text(run.fill(state, template)?);
            Ok(PayloadContent { body, content_type, is_xml: content_type == XML })
        };
        match self {
            PayloadSource::Xml(template) => text(template, XML),
            PayloadSource::Json(template) => text(template, JSON),
            PayloadSource::Text(template) => text(template, TEXT),
            PayloadSource::Form(form) => {
                let body = PayloadBytes::Text(form.fill(run, state)?);
                Ok(PayloadContent { body, content_type: FORM, is_xml: false })
            }
            PayloadSource::From(expression) => {
                let mut value = run.value(state, expression)?;
                if inside && let Value::Nodes(nodes) = value {
                    value = Value::Nodes(soap::inner(nodes));
                }
                let (body, content_type) = if is_plain(&value) && inside {
                    let markup = markup_of(&value, false, &mut run.budget());
                    let failed = |kind: FailureKind| Fault::new(Kind::FlowFailed, kind.to_string());
                    (PayloadBytes::Text(markup.map_err(failed)?), XML)
                } else {
                    written(&value, run)?
                };
                Ok(PayloadContent { body, content_type, is_xml: content_type == XML })
            }
            PayloadSource::Fixed(bytes, content_type) => {
                let body = PayloadBytes::Bytes(bytes.clone());
                Ok(PayloadContent { body, content_type, is_xml: false })
            }
        }
    }
}

impl Payload {
    pub(crate) fn slots(&self) -> Vec<Slot> {
        self.made.slots()
    }

    /// The envelope of a SOAP message stays, so that the message has to be known.
    pub(crate) fn keeps_envelope(&self) -> bool {
        self.envelope && matches!(self.made, PayloadSource::Xml(_) | PayloadSource::From(_))
    }
}

impl Respond {
    pub(crate) fn slots(&self) -> Vec<Slot> {
        let headers = self.headers.iter().flat_map(|(_, template)| template.slots());
        // Harmless: a fixed status has no slots.
        let status = self.status.iter().filter_map(Status::template).flat_map(Template::slots);
        headers.chain(status).chain(self.made.iter().flat_map(PayloadSource::slots)).collect()
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.status.is_none() && self.headers.is_empty() && self.made.is_none()
    }
}

/// Makes the message's body anew.
pub(crate) fn payload(made: &Payload, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let around = state.message.content().filter(|_| made.keeps_envelope()).cloned();
    let around =
        around.filter(|content| matches!(content.known(), Ok(View::Xml { envelope: Some(_), .. })));
    let PayloadContent { body, content_type, is_xml } =
        made.made.fill(run, state, around.is_some())?;
    let given = made.content_type.as_deref();
    let own = soap_in(body.as_bytes(), is_xml);
    if let Some(content) = around.filter(|_| is_xml && own.is_none())
        && let View::Xml { document, envelope: Some(envelope) } = content.known()?
    {
        let markup = body.into_text()?;
        let markup = if has_default_namespace(document, envelope.body) {
            undefaulted(&markup, run)?
        } else {
            markup
        };
        let text = in_body(document, *envelope, markup);
        run.bound(text.len())?;
        match given {
            Some(given) => state.message.replace(text.into(), given.as_bytes()),
            None => state.message.rewrite(text)?,
        }
        return Ok(());
    }
    let content_type = match own {
        Some(version) => soap::content_type(version),
        None => content_type,
    };
    state.message.replace(body.into_bytes(), given.unwrap_or(content_type).as_bytes());
    Ok(())
}

/// A SOAP message with other content in its Body.
fn in_body(document: &Document, envelope: Envelope, markup: String) -> String {
    let mut edits = Edits::default();
    edits.at(envelope.body).content = Some(markup);
    edits.write(document)
}

/// The version of SOAP, if markup that was made is a whole envelope.
fn soap_in(bytes: &[u8], is_xml: bool) -> Option<Version> {
    const NAME: &[u8] = b"Envelope";
    let beginning = bytes.get(..bytes.len().min(BEGINNING_BYTES)).unwrap_or(bytes);
    if !is_xml || memchr::memmem::find(beginning, NAME).is_none() {
        return None;
    }
    let document = expression::parse_levels(bytes, Envelope::LEVELS).ok()?;
    Envelope::of(&document).map(|envelope| envelope.version)
}

/// A value as a body, with its content type: nodes as their markup, JSON as such, anything else as text.
pub(crate) fn bytes_of(value: &Value, run: &Run<'_>) -> Result<(Bytes, &'static str), Fault> {
    let (body, content_type) = written(value, run)?;
    Ok((body.into_bytes(), content_type))
}

fn written(value: &Value, run: &Run<'_>) -> Result<(PayloadBytes, &'static str), Fault> {
    let mut budget = run.budget();
    let failed = |kind: FailureKind| Fault::new(Kind::FlowFailed, kind.to_string());
    Ok(match value {
        Value::Nodes(_) => {
            (PayloadBytes::Text(markup_of(value, false, &mut budget).map_err(failed)?), XML)
        }
        Value::Json(_) | Value::Null => {
            let mut text = String::new();
            value.write_json(&mut text, &mut budget).map_err(failed)?;
            (PayloadBytes::Text(text), JSON)
        }
        Value::Bytes(bytes) => (PayloadBytes::Bytes(Bytes::copy_from_slice(bytes)), BINARY),
        Value::Nothing | Value::Boolean(_) | Value::Number(_) | Value::Text(_) => {
            (PayloadBytes::Text(value.text().map_err(failed)?.into_owned()), TEXT)
        }
    })
}

/// A value that is a text, and has no format of its own.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Nothing | Value::Boolean(_) | Value::Number(_) | Value::Text(_) => true,
        Value::Nodes(_) | Value::Json(_) | Value::Null | Value::Bytes(_) => false,
    }
}

/// A value as markup.
pub(crate) fn markup_of(
    value: &Value,
    default_namespace: bool,
    budget: &mut Budget,
) -> Result<String, FailureKind> {
    let mut out = String::new();
    value.write_xml(default_namespace, &mut out, budget)?;
    Ok(out)
}

/// Makes the message the answer.
pub(crate) fn respond(respond: &Respond, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    // Before there is a body of the answer: it is a value of the message as it was.
    let status = match &respond.status {
        Some(status) => status.get(run, state)?,
        None => None,
    };
    if let Some(made) = &respond.made {
        let PayloadContent { body, content_type, is_xml } = made.fill(run, state, false)?;
        let own = soap_in(body.as_bytes(), is_xml);
        let content_type = own.map_or(content_type, soap::content_type);
        state.message.replace(body.into_bytes(), content_type.as_bytes());
    }
    for (name, template) in &respond.headers {
        let value = run.fill(state, template)?;
        header::set(&mut state.message.lines, name, &value)?;
    }
    if let Some(status) = status {
        state.message.status = Some(status);
        if matches!(status, 204 | 205 | 304) {
            state.message.payload = Held::empty();
        }
    }
    Ok(())
}

/// 202 without a body.
pub(crate) fn drop_message(state: &mut State) {
    state.message.lines = Headers::new();
    state.message.status = Some(202);
    state.message.payload = Held::empty();
}

impl Run<'_> {
    /// Refuses a step's body over the flow's limit.
    pub(crate) fn bound(&self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.body_bytes_max {
            let max = self.body_bytes_max;
            Err(Fault::new(Kind::FlowFailed, format!("a step made over {max} bytes")))
        } else {
            Ok(())
        }
    }
}

/// A text of XML or JSON, as the value that is in it.
pub(crate) fn read(text: &str, format: Format) -> Result<Value, Fault> {
    let malformed =
        |what: &str| Fault::new(Kind::FlowFailed, format!("a value is malformed: {what}"));
    match format {
        Format::Json => {
            let text = read_json(text, false).map_err(|what| malformed(&what))?;
            Ok(Value::Json(expression::JsonNodes::root(text)))
        }
        Format::Xml => {
            let document = Document::parse(text.as_bytes(), &xml::Options::default())
                .map_err(|error| malformed(&error.to_string()))?;
            let document = Arc::new(document);
            let root = document.root_element();
            Ok(root.map_or(Value::Nothing, |root| {
                Value::Nodes(expression::Nodes::one(document.clone(), root))
            }))
        }
        Format::Other => Ok(Value::text_of(text)),
    }
}
