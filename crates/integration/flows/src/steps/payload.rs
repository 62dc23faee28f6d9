//! `payload`: replaces the body.

use std::sync::Arc;

use bytes::Bytes;
use expression::{Budget, Expression, FailureKind, Slot, Template, Value};
use fault::{Fault, Kind};
use mediation::soap::Version;
use xml::Document;

use crate::edit::{Edits, has_default_namespace, undefaulted};
use crate::levels::{ActionNeeds, Levels};
use crate::soap::{self, Envelope};
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, ended};
use crate::steps::query::Query;
use crate::view::{Format, View, read_json};

pub(crate) const XML: &str = "application/xml";
pub(crate) const JSON: &str = "application/json";
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
const FORM: &str = "application/x-www-form-urlencoded";
const BINARY: &str = "application/octet-stream";

/// The number of bytes at the start of a message that are searched for the name `Envelope`.
const BEGINNING_BYTES: usize = 264;

/// Returns the content type of a file by its extension.
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
    /// True if only the content of the Body is replaced in a SOAP message.
    pub envelope: bool,
}

/// A new body, evaluated.
struct PayloadContent {
    body: PayloadBytes,
    content_type: &'static str,
    /// True if it is markup that was evaluated, and may have several elements. False for a file.
    is_xml: bool,
}

/// The bytes of a new body. Text is kept as text, so that its encoding is not checked again.
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
    /// Creates the source for a file with this extension. A SOAP message has the content type of its version.
    pub fn file(bytes: Bytes, ending: &str) -> PayloadSource {
        let content_type = type_of_file(ending);
        let own = soap_in(&bytes, content_type == XML);
        PayloadSource::Fixed(bytes, own.map_or(content_type, soap::content_type))
    }

    pub(crate) fn slots(&self) -> Vec<Slot> {
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

    /// Returns the number of element levels that it reads, or `None` if it may read all.
    pub(crate) fn levels(&self, levels: &Levels<'_>) -> Option<usize> {
        let own = match self {
            PayloadSource::Xml(template)
            | PayloadSource::Json(template)
            | PayloadSource::Text(template) => levels.template(template),
            PayloadSource::Form(form) => levels.templates(form.templates()),
            PayloadSource::From(expression) => levels.copied(expression),
            PayloadSource::Fixed(..) => Some(0),
        };
        // Of an envelope that is put into another envelope, only the Body's content is used, so at least these levels are read.
        own.map(|own| own.max(Envelope::CONTENT_LEVELS))
    }

    /// Replaces the message's whole body, including a SOAP envelope.
    pub(crate) fn replace(&self, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
        let PayloadContent { body, content_type, is_xml } = self.fill(run, state, false)?;
        let own = soap_in(body.as_bytes(), is_xml);
        let content_type = own.map_or(content_type, soap::content_type);
        state.message.replace(body.into_bytes(), content_type.as_bytes());
        Ok(())
    }

    /// Evaluates it. `inside` is true if it goes into the Body of a SOAP message.
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

impl Action for Payload {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds {
            slots: self.made.slots(),
            content: self.keeps_envelope(),
            levels: self.made.levels(levels),
            ..ActionNeeds::default()
        }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        ended(payload(self, run, state))
    }
}

impl Payload {
    /// True if the envelope of a SOAP message is kept, for which the message must be parsed.
    fn keeps_envelope(&self) -> bool {
        self.envelope && matches!(self.made, PayloadSource::Xml(_) | PayloadSource::From(_))
    }
}

/// Replaces the message's body.
fn payload(made: &Payload, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
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

/// Returns the SOAP version of markup, if it is a whole envelope.
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

/// Returns true for a value that is plain text rather than markup, JSON or bytes.
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

impl Run<'_> {
    /// Refuses a body of a step that is larger than the flow's limit.
    pub(crate) fn bound(&self, bytes: usize) -> Result<(), Fault> {
        if bytes > self.body_bytes_max {
            let max = self.body_bytes_max;
            Err(Fault::new(
                Kind::FlowFailed,
                format!("the body that a step produced is larger than {max} bytes"),
            ))
        } else {
            Ok(())
        }
    }
}

/// Parses a text of this format.
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
