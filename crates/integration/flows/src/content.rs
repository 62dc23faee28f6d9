//! A body in memory and its parsed form, which is made when a step first reads inside.

use std::cell::OnceCell;
use std::sync::Arc;

use bytes::Bytes;
use expression::{FailureKind, JsonNodes, JsonText, Nodes, Value};
use fault::{Fault, Kind};
use mediation::charset;
use mediation::form::{self, FormKind};
use mediation::multipart::Multipart;
use message::{GatheredBody, Trailers};
use policy::{Totals, WaitTime};
use telemetry::parses;
use xml::Document;

use crate::infoset::Infoset;
use crate::soap::Envelope;
use mediation::attachments::Root;

/// The deepest nesting of objects and arrays in JSON.
const JSON_DEPTH_MAX: usize = 512;

/// The number of values in one JSON text: 40 MB of tape, for a text of at least 4 MB.
const JSON_ENTRIES_MAX: usize = 2_000_000;

/// A body of at least this size drops its tree early, which takes up to ten times as much memory.
const LARGE_BYTES: usize = 16 << 10;

/// A body in memory. It is immutable: a step that changes the message makes a new one.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    pub(crate) maker: Maker,
    /// The value of `Content-Type`.
    content_type: Option<Box<[u8]>>,
    /// The number of element levels that steps read, if they only copy deeper content. None if they may read all.
    levels: Option<usize>,
    /// JSON in which an object has a member twice is malformed.
    refuses_doubled: bool,
    view: OnceCell<Result<View, Box<str>>>,
    /// The root part of a message with attachments, once it was read.
    root: OnceCell<Box<Root>>,
    /// The fields of a form, once an expression asked for them.
    fields: OnceCell<Result<Arc<JsonText>, Box<str>>>,
    /// The JSON in a text, once a path led into it; none: it is not JSON.
    json: OnceCell<Result<Option<Arc<JsonText>>, Box<str>>>,
    /// The message as an envelope, once an expression asked for it.
    infoset: OnceCell<Result<Infoset, Box<str>>>,
}

/// The sender of a message, which is at fault if the message is malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Client,
    Upstream,
    /// A step.
    Flow,
}

impl Maker {
    /// The kind of wait while its body arrives.
    pub(crate) fn waits(self, totals: &Totals) -> &WaitTime {
        match self {
            Maker::Client => &totals.client_wait,
            Maker::Upstream | Maker::Flow => &totals.upstream_wait,
        }
    }

    /// The fault for an unreadable message of this sender.
    pub(crate) fn malformed(self, what: &str) -> Fault {
        let kind = match self {
            Maker::Client => Kind::RequestInvalid,
            Maker::Upstream => Kind::ReplyInvalid,
            Maker::Flow => Kind::FlowFailed,
        };
        Fault::with_detail(kind, what, "The message is malformed.")
    }

    /// The fault for a message of this sender that takes more work than a flow may do.
    pub(crate) fn costly(self, what: &str) -> Fault {
        let kind = match self {
            Maker::Client => Kind::RequestInvalid,
            Maker::Upstream => Kind::ReplyInvalid,
            Maker::Flow => Kind::FlowFailed,
        };
        Fault::with_detail(kind, what, "The message takes too much work to process.")
    }
}

/// The parsed form of a body.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Empty,
    Xml {
        document: Arc<Document>,
        envelope: Option<Envelope>,
    },
    Json(Arc<JsonText>),
    Text(Arc<str>),
    /// None of these, and not text.
    Bytes,
}

/// The format of a content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Xml,
    Json,
    Other,
}

impl Format {
    pub(crate) fn of(content_type: Option<&[u8]>) -> Format {
        // Harmless: a message may have no type.
        let media_type = message::media_type(content_type.unwrap_or_default());
        let is = |name: &str| media_type.eq_ignore_ascii_case(name.as_bytes());
        let suffix = media_type.get(media_type.len().saturating_sub(b"+xml".len())..);
        let is_xml = is("text/xml")
            || is("application/xml")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+xml"));
        match (is_xml, !is_xml && message::is_json(media_type)) {
            (true, _) => Format::Xml,
            (false, true) => Format::Json,
            (false, false) => Format::Other,
        }
    }
}

impl Content {
    pub(crate) fn new(bytes: Bytes, content_type: Option<&[u8]>, maker: Maker) -> Content {
        let content_type = content_type.map(Into::into);
        Content {
            bytes,
            maker,
            content_type,
            levels: None,
            refuses_doubled: false,
            view: OnceCell::new(),
            root: OnceCell::new(),
            fields: OnceCell::new(),
            json: OnceCell::new(),
            infoset: OnceCell::new(),
        }
    }

    /// The same with the tree that a policy has made. Steps read `levels` levels of its elements and copy what is below; none: perhaps all.
    pub(crate) fn of(
        body: GatheredBody,
        content_type: Option<&[u8]>,
        maker: Maker,
        levels: Option<usize>,
        refuses_doubled: bool,
    ) -> Content {
        let tree = body.tree().cloned();
        let content = Content::new(body.bytes, content_type, maker);
        let content = Content { levels, refuses_doubled, ..content };
        if let Some(document) = tree {
            let envelope = Envelope::of(&document);
            // Harmless: the view was made a moment ago and is empty.
            let _first = content.view.set(Ok(View::Xml { document, envelope }));
        }
        content
    }

    /// The same without its parsed form, if that is large. Steps read `levels` levels of it; none: perhaps all.
    pub(crate) fn unread(&self, levels: Option<usize>) -> Option<Content> {
        let is_large = self.view.get().is_some() && self.bytes.len() >= LARGE_BYTES;
        is_large.then(|| {
            let content_type = self.content_type.as_deref();
            Content {
                levels,
                refuses_doubled: self.refuses_doubled,
                ..Content::new(self.bytes.clone(), content_type, self.maker)
            }
        })
    }

    /// The body for an engine, with the tree if there is one.
    pub(crate) fn gathered(&self) -> GatheredBody {
        let (content_type, bytes) = self.looked_into();
        let mut body = GatheredBody::new(bytes.clone(), Trailers::new());
        let settled = !matches!(charset::settled(content_type, bytes), Ok(None));
        if let (Some(Ok(View::Xml { document, .. })), false) = (self.view.get(), settled) {
            body.keep_tree(document.clone());
        }
        body
    }

    /// True if its content type is that of a message with attachments.
    pub(crate) fn has_attachments(&self) -> bool {
        // Harmless: a message may have no type.
        Root::is_in(self.content_type.as_deref().unwrap_or_default())
    }

    /// The root part of a message with attachments. Other messages are not parsed for it.
    pub(crate) fn root(&self) -> Option<&Root> {
        // Harmless: the next caller gets the error.
        let _read = self.has_attachments().then(|| self.view());
        self.root.get().map(|root| &**root)
    }

    /// The content type and the bytes that are parsed. In a message with attachments they are those of the root part.
    pub(crate) fn looked_into(&self) -> (Option<&[u8]>, &Bytes) {
        match self.root() {
            Some(root) => (Some(&root.content_type), &root.bytes),
            None => (self.content_type.as_deref(), &self.bytes),
        }
    }

    /// The value that a path into the text of the body searches: the fields of a form, or JSON with the content type of other text. A text
    /// that starts like JSON and is not JSON is malformed: a less strict service would read values in it that no step has seen.
    pub(crate) fn followed(&self) -> Result<Option<&Arc<JsonText>>, FailureKind> {
        if let Some(fields) = self.fields()? {
            return Ok(Some(fields));
        }
        let read = || match self.view.get() {
            Some(Ok(View::Text(text))) if begins_as_json(text) => {
                read_json(text, self.refuses_doubled).map(Some)
            }
            _ => Ok(None),
        };
        // As for the view.
        let json = match self.json.get() {
            Some(json) => json,
            None => {
                let read = read();
                self.json.get_or_init(|| read)
            }
        };
        match json {
            Ok(json) => Ok(json.as_ref()),
            Err(what) => Err(FailureKind::Malformed(what.clone())),
        }
    }

    /// The fields of a form.
    pub(crate) fn fields(&self) -> Result<Option<&Arc<JsonText>>, FailureKind> {
        // Harmless: a message may have no type.
        let content_type = self.content_type.as_deref().unwrap_or_default();
        let Some(form) = FormKind::of(content_type) else { return Ok(None) };
        let read = || read_json(&form.fields(content_type, &self.bytes)?, false);
        // As for the view.
        let fields = match self.fields.get() {
            Some(fields) => fields,
            None => {
                let read = read();
                self.fields.get_or_init(|| read)
            }
        };
        match fields {
            Ok(fields) => Ok(Some(fields)),
            Err(what) => Err(FailureKind::Malformed(what.clone())),
        }
    }

    /// The parsed body. It is parsed once.
    pub(crate) fn view(&self) -> Result<&View, FailureKind> {
        let view = self.view_of(self.levels);
        view.as_ref().map_err(|what| FailureKind::Malformed(what.clone()))
    }

    /// Parses it for a sole owner that reads `levels` levels of elements and copies markup: what is below may have no nodes.
    pub(crate) fn read_levels(&self, levels: usize) {
        // Harmless: the same.
        let _parsed = self.view_of(Some(levels));
    }

    /// Parsing may yield, and another task may have parsed it meanwhile: the first result counts.
    fn view_of(&self, levels: Option<usize>) -> &Result<View, Box<str>> {
        match self.view.get() {
            Some(view) => view,
            None => {
                let read = self.read(levels);
                self.view.get_or_init(|| read)
            }
        }
    }

    /// The parsed body, for a step that accepts any format.
    pub(crate) fn known(&self) -> Result<&View, Fault> {
        self.view().map_err(|malformed| self.malformed(&malformed.to_string()))
    }

    pub(crate) fn malformed(&self, what: &str) -> Fault {
        self.maker.malformed(what)
    }

    /// `$body`: of SOAP the Body, of XML the root element, of JSON the value, else the text; with attachments that of the root part.
    pub(crate) fn body(&self) -> Result<Value, FailureKind> {
        Ok(match self.view()? {
            View::Empty => Value::Nothing,
            View::Xml { document, envelope } => {
                let node = envelope.map(|envelope| envelope.body).or(document.root_element());
                node.map_or(Value::Nothing, |node| Value::Nodes(Nodes::one(document.clone(), node)))
            }
            View::Json(text) => Value::Json(JsonNodes::root(text.clone())),
            View::Text(text) => Value::Text(text.clone()),
            View::Bytes => Value::Bytes(self.looked_into().1.as_ref().into()),
        })
    }

    /// `$envelope`: the document; without XML the same as `$body`.
    pub(crate) fn document(&self) -> Result<Value, FailureKind> {
        match self.view()? {
            View::Xml { document, .. } => {
                Ok(Value::Nodes(Nodes::one(document.clone(), Document::ROOT)))
            }
            // Markup with the content type of other text is markup for paths.
            View::Text(text) if text.trim_start().starts_with('<') => {
                let document = Document::parse(text.as_bytes(), &xml::Options::default());
                let nodes = |document| Nodes::one(Arc::new(document), Document::ROOT);
                document.map(|document| Value::Nodes(nodes(document))).or_else(|_| self.body())
            }
            View::Empty | View::Json(_) | View::Text(_) | View::Bytes => self.body(),
        }
    }

    /// The message as an envelope.
    pub(crate) fn infoset(&self) -> Result<&Infoset, FailureKind> {
        // As for the view.
        let infoset = match self.infoset.get() {
            Some(infoset) => infoset,
            None => {
                let made = Infoset::of(self);
                self.infoset.get_or_init(|| made)
            }
        };
        infoset.as_ref().map_err(|what| FailureKind::Malformed(what.clone()))
    }

    /// The envelope made around it, if an expression asked for one.
    pub(crate) fn made_infoset(&self) -> Option<&Infoset> {
        // Harmless: a message without such a form has no places that were found in it.
        self.infoset.get()?.as_ref().ok().filter(|infoset| infoset.is_made)
    }

    /// True if it is neither XML nor JSON nor text.
    pub(crate) fn is_binary(&self) -> bool {
        matches!(self.view(), Ok(View::Bytes))
    }

    /// True if the document is its parsed form.
    pub(crate) fn has(&self, document: &Arc<Document>) -> bool {
        matches!(self.view(), Ok(View::Xml { document: own, .. }) if Arc::ptr_eq(own, document))
    }

    /// `$header`: the SOAP Header.
    pub(crate) fn soap_header(&self) -> Result<Value, FailureKind> {
        Ok(match self.view()? {
            View::Xml { document, envelope: Some(Envelope { header: Some(header), .. }) } => {
                Value::Nodes(Nodes::one(document.clone(), *header))
            }
            View::Empty | View::Xml { .. } | View::Json(_) | View::Text(_) | View::Bytes => {
                Value::Nothing
            }
        })
    }

    /// The SOAP envelope, if the body is one.
    pub(crate) fn envelope(&self) -> Option<(&Arc<Document>, Envelope)> {
        match self.view() {
            Ok(View::Xml { document, envelope: Some(envelope) }) => Some((document, *envelope)),
            Ok(View::Empty | View::Xml { .. } | View::Json(_) | View::Text(_) | View::Bytes)
            | Err(_) => None,
        }
    }

    fn read(&self, levels: Option<usize>) -> Result<View, Box<str>> {
        if self.bytes.is_empty() {
            return Ok(View::Empty);
        }
        let Some(content_type) = self.content_type.as_deref() else {
            return Ok(self.read_unnamed(levels));
        };
        let once = self.refuses_doubled;
        let format = Format::of(Some(content_type));
        if format != Format::Other {
            return read(format, content_type, &self.bytes, levels, once);
        }
        if FormKind::of(content_type) == Some(FormKind::Multipart) {
            Multipart::read(content_type, &self.bytes)?;
        }
        match Root::of(content_type, &self.bytes)? {
            None => read(format, content_type, &self.bytes, levels, once),
            Some(root) => {
                let root = self.root.get_or_init(|| Box::new(root));
                let format = Format::of(Some(&root.content_type));
                read(format, &root.content_type, &root.bytes, levels, once)
            }
        }
    }

    /// The format of a body without a content type follows from its first character (RFC 9110, 8.3). A malformed one is text.
    fn read_unnamed(&self, levels: Option<usize>) -> View {
        let first = self.bytes.trim_ascii_start().first();
        let (format, content_type): (_, &[u8]) = match first {
            Some(b'<') => (Format::Xml, b"application/xml"),
            Some(b'{' | b'[' | 0xEF) => (Format::Json, b"application/json"),
            _ => return unlabelled(&self.bytes),
        };
        let read = read(format, content_type, &self.bytes, levels, self.refuses_doubled);
        read.unwrap_or_else(|_| unlabelled(&self.bytes))
    }
}

/// Parses a body by the format of its content type.
fn read(
    format: Format,
    content_type: &[u8],
    bytes: &Bytes,
    levels: Option<usize>,
    refuses_doubled: bool,
) -> Result<View, Box<str>> {
    match format {
        Format::Xml => {
            let settled = charset::settled(Some(content_type), bytes)?;
            let bytes = settled.as_deref().unwrap_or(bytes);
            parses::count(parses::Format::Xml);
            let document = match levels {
                // An envelope is recognised by its children.
                Some(levels) => expression::parse_levels(bytes, levels.max(Envelope::LEVELS)),
                None => Document::parse(bytes, &xml::Options::default()),
            };
            // A document is a large value, so it is moved only once.
            let document = match document {
                Ok(document) => Arc::new(document),
                Err(error) => return Err(error.to_string().into_boxed_str()),
            };
            let envelope = Envelope::of(&document);
            Ok(View::Xml { document, envelope })
        }
        Format::Json => {
            let text = std::str::from_utf8(bytes).map_err(|_| "no text in UTF-8")?;
            parses::count(parses::Format::Json);
            // A byte order mark may be passed over (RFC 8259, 8.1).
            let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
            Ok(View::Json(read_json(text, refuses_doubled)?))
        }
        Format::Other => text(content_type, bytes),
    }
}

/// A text, or bytes. A text in an unsupported charset is an error: as bytes it would be read as UTF-8.
fn text(content_type: &[u8], bytes: &[u8]) -> Result<View, Box<str>> {
    if let Some(text) = form::text_of(Some(content_type), bytes) {
        return Ok(View::Text((&*text).into()));
    }
    match charset::misread(content_type, bytes) {
        Some(why) => Err(why.into()),
        None => Ok(View::Bytes),
    }
}

/// The same for a message without a content type.
fn unlabelled(bytes: &[u8]) -> View {
    // Harmless: what is not UTF-8 is bytes.
    std::str::from_utf8(bytes).map_or(View::Bytes, |text| View::Text(text.into()))
}

fn begins_as_json(text: &str) -> bool {
    text.trim_start_matches(['\u{FEFF}', ' ', '\t', '\r', '\n']).starts_with(['{', '['])
}

/// A text of JSON, within the limits of messages. It is malformed if an object has a member twice, and that is refused.
pub(crate) fn read_json(text: &str, refuses_doubled: bool) -> Result<Arc<JsonText>, Box<str>> {
    let limits = json::Limits { depth_max: JSON_DEPTH_MAX, entries_max: JSON_ENTRIES_MAX };
    let read = JsonText::read(text.to_owned(), &limits).map_err(|malformed| -> Box<str> {
        format!("at byte {} should be {}", malformed.at, malformed.what).into()
    })?;
    match refuses_doubled.then(|| read.doubled()).flatten() {
        None => Ok(read),
        Some(object) => {
            Err(format!("{}: an object has a member twice", read.location(object)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_says_the_format() {
        for (content_type, format) in [
            ("text/xml", Format::Xml),
            ("Application/SOAP+xml; charset=utf-8", Format::Xml),
            ("application/problem+json", Format::Json),
            ("text/plain", Format::Other),
            ("", Format::Other),
        ] {
            assert_eq!(Format::of(Some(content_type.as_bytes())), format, "{content_type}");
        }
    }

    #[test]
    fn an_envelope_is_known_however_few_levels_are_looked_at() {
        let soap = "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'><s:Body><a/></s:Body></s:Envelope>";
        for levels in [None, Some(0), Some(1), Some(2)] {
            let body = GatheredBody::new(soap.into(), Trailers::new());
            let content = Content::of(body, Some(b"text/xml"), Maker::Client, levels, true);
            assert!(content.envelope().is_some(), "{levels:?}");
        }
    }

    #[test]
    fn a_malformed_body_is_its_makers_fault() {
        for (maker, kind) in [
            (Maker::Client, Kind::RequestInvalid),
            (Maker::Upstream, Kind::ReplyInvalid),
            (Maker::Flow, Kind::FlowFailed),
        ] {
            let content = Content::new("<a>".into(), Some(b"text/xml"), maker);
            assert_eq!(content.known().unwrap_err().kind, kind);
        }
    }
}
