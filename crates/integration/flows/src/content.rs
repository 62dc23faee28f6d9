//! A body in memory and its parsed form, which is created when a step first reads the content.

use std::cell::OnceCell;
use std::sync::Arc;

use bytes::Bytes;
use expression::{FailureKind, JsonNodes, JsonText, NodeGroup, Nodes, Value};
use fault::Fault;
use mediation::charset;
use mediation::form::FormKind;
use mediation::multipart::Multipart;
use message::{GatheredBody, Trailers};
use xml::{Document, NodeId};

use crate::infoset::Infoset;
use crate::sender::Sender;
use crate::soap::Envelope;
use crate::view::{Format, View, begins_as_json, read, read_json, unlabelled};
use mediation::attachments::Root;

/// A body of at least this size drops its tree early, because the tree takes up to ten times as much memory as the body.
const LARGE_BYTES: usize = 16 << 10;

/// A body in memory. It is immutable: a step that changes the body creates a new one.
#[derive(Debug)]
pub(crate) struct Content {
    pub(crate) bytes: Bytes,
    pub(crate) maker: Sender,
    /// The value of `Content-Type`.
    content_type: Option<Box<[u8]>>,
    /// The number of element levels that steps read, if they only copy deeper content. `None` if they may read all levels.
    levels: Option<usize>,
    /// True if JSON with a duplicate member in an object is malformed.
    refuses_duplicate_members: bool,
    view: OnceCell<Result<View, Box<str>>>,
    /// The root part of a message with attachments, once it has been read.
    root: OnceCell<Box<Root>>,
    /// The fields of a form, once an expression has asked for them.
    fields: OnceCell<Result<Arc<JsonText>, Box<str>>>,
    /// The JSON in a text, once a path has searched the text. `Ok(None)` if the text does not start like JSON.
    json: OnceCell<Result<Option<Arc<JsonText>>, Box<str>>>,
    /// The message as an envelope, once an expression has asked for it.
    infoset: OnceCell<Result<Infoset, Box<str>>>,
}

impl Content {
    pub(crate) fn new(bytes: Bytes, content_type: Option<&[u8]>, maker: Sender) -> Content {
        let content_type = content_type.map(Into::into);
        Content {
            bytes,
            maker,
            content_type,
            levels: None,
            refuses_duplicate_members: false,
            view: OnceCell::new(),
            root: OnceCell::new(),
            fields: OnceCell::new(),
            json: OnceCell::new(),
            infoset: OnceCell::new(),
        }
    }

    /// Creates the content of a body, with the tree that a policy has parsed, if there is one. `levels` and `refuses_duplicate_members` are as in
    /// [`Content`].
    pub(crate) fn of(
        body: GatheredBody,
        content_type: Option<&[u8]>,
        maker: Sender,
        levels: Option<usize>,
        refuses_duplicate_members: bool,
    ) -> Content {
        let tree = body.tree().cloned();
        let content = Content::new(body.bytes, content_type, maker);
        let content = Content { levels, refuses_duplicate_members, ..content };
        if let Some(document) = tree {
            let envelope = Envelope::of(&document);
            // Harmless: the cell was created above and is empty, so this sets it.
            let _ = content.view.set(Ok(View::Xml { document, envelope }));
        }
        content
    }

    /// Returns a copy without the parsed form, for steps that read `levels` levels. Returns `None` if there is no such form or it is small.
    pub(crate) fn unread(&self, levels: Option<usize>) -> Option<Content> {
        let is_large = self.view.get().is_some() && self.bytes.len() >= LARGE_BYTES;
        is_large.then(|| {
            let content_type = self.content_type.as_deref();
            Content {
                levels,
                refuses_duplicate_members: self.refuses_duplicate_members,
                ..Content::new(self.bytes.clone(), content_type, self.maker)
            }
        })
    }

    /// Returns the body for an engine, with its tree if there is one. A tree of text in a converted charset is left out.
    pub(crate) fn gathered(&self) -> GatheredBody {
        let (content_type, bytes) = self.looked_into();
        let mut body = GatheredBody::new(bytes.clone(), Trailers::new());
        let settled = !matches!(charset::to_utf8(content_type, bytes), Ok(None));
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
        // Harmless: an error is stored in the view, where the next caller gets it.
        let _ = self.has_attachments().then(|| self.view());
        self.root.get().map(|root| &**root)
    }

    /// The content type and the bytes that are parsed. In a message with attachments they are those of the root part.
    pub(crate) fn looked_into(&self) -> (Option<&[u8]>, &Bytes) {
        match self.root() {
            Some(root) => (Some(&root.content_type), &root.bytes),
            None => (self.content_type.as_deref(), &self.bytes),
        }
    }

    /// Returns the value that a path into the text of the body searches: the fields of a form, or JSON with the content type of other text.
    /// A text that starts like JSON and is not JSON is malformed: a less strict service would read values in it that no step has seen.
    pub(crate) fn followed(&self) -> Result<Option<&Arc<JsonText>>, FailureKind> {
        if let Some(fields) = self.fields()? {
            return Ok(Some(fields));
        }
        let read = || match self.view.get() {
            Some(Ok(View::Text(text))) if begins_as_json(text) => {
                read_json(text, self.refuses_duplicate_members).map(Some)
            }
            _ => Ok(None),
        };
        // As in `view_of`, the first result counts.
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

    /// Returns the fields of a form, or `None` if the body is not a form.
    pub(crate) fn fields(&self) -> Result<Option<&Arc<JsonText>>, FailureKind> {
        // Harmless: a message may have no type.
        let content_type = self.content_type.as_deref().unwrap_or_default();
        let Some(form) = FormKind::of(content_type) else { return Ok(None) };
        let read = || read_json(&form.fields(content_type, &self.bytes)?, false);
        // As in `view_of`, the first result counts.
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

    /// Parses the body for its only owner, which reads `levels` levels of elements and copies deeper content as markup. Deeper elements may
    /// have no nodes.
    pub(crate) fn read_levels(&self, levels: usize) {
        // Harmless: an error is stored in the view, where the next caller gets it.
        let _ = self.view_of(Some(levels));
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

    /// Returns `$body`: the Body of a SOAP message, the root element of other XML, the value of JSON, or the text. In a message with
    /// attachments, it is that of the root part.
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

    /// Returns `$envelope`: the document of XML, or `$body` of other messages.
    pub(crate) fn document(&self) -> Result<Value, FailureKind> {
        match self.view()? {
            View::Xml { document, .. } => {
                Ok(Value::Nodes(Nodes::one(document.clone(), Document::ROOT)))
            }
            // Paths can also search markup that has the content type of other text.
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
        // As in `view_of`, the first result counts.
        let infoset = match self.infoset.get() {
            Some(infoset) => infoset,
            None => {
                let made = match self.view() {
                    Ok(view) => Infoset::of(view, self.maker),
                    Err(kind) => Err(kind.to_string().into()),
                };
                self.infoset.get_or_init(|| made)
            }
        };
        infoset.as_ref().map_err(|what| FailureKind::Malformed(what.clone()))
    }

    /// Returns `$infoset_payload`: the content of the Body of a SOAP message, or `$body` of any other message.
    pub(crate) fn infoset_payload(&self) -> Result<Value, FailureKind> {
        let View::Xml { document, envelope: Some(envelope) } = self.view()? else {
            return self.body();
        };
        let ids: Vec<NodeId> = document.children(envelope.body).collect();
        Ok(Value::Nodes(Nodes::new(vec![NodeGroup { document: document.clone(), ids }])))
    }

    /// Returns the envelope that was created around the message, if an expression has asked for one.
    pub(crate) fn made_infoset(&self) -> Option<&Infoset> {
        // Harmless: if there is an error, there is no envelope in which an expression could have found nodes.
        self.infoset.get()?.as_ref().ok().filter(|infoset| infoset.is_made)
    }

    /// True if it is neither XML nor JSON nor text.
    pub(crate) fn is_binary(&self) -> bool {
        matches!(self.view(), Ok(View::Bytes))
    }

    /// Returns true if this document is its parsed form.
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
        let once = self.refuses_duplicate_members;
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

    /// Reads a body without a content type. Its first character decides the format (RFC 9110, 8.3). If it is malformed in that format, it
    /// is text.
    fn read_unnamed(&self, levels: Option<usize>) -> View {
        let first = self.bytes.trim_ascii_start().first();
        let (format, content_type): (_, &[u8]) = match first {
            Some(b'<') => (Format::Xml, b"application/xml"),
            Some(b'{' | b'[' | 0xEF) => (Format::Json, b"application/json"),
            _ => return unlabelled(&self.bytes),
        };
        let read = read(format, content_type, &self.bytes, levels, self.refuses_duplicate_members);
        read.unwrap_or_else(|_| unlabelled(&self.bytes))
    }
}

#[cfg(test)]
mod tests {
    use fault::Kind;

    use super::*;

    #[test]
    fn an_envelope_is_known_however_few_levels_are_looked_at() {
        let soap = "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/'><s:Body><a/></s:Body></s:Envelope>";
        for levels in [None, Some(0), Some(1), Some(2)] {
            let body = GatheredBody::new(soap.into(), Trailers::new());
            let content = Content::of(body, Some(b"text/xml"), Sender::Client, levels, true);
            assert!(content.envelope().is_some(), "{levels:?}");
        }
    }

    #[test]
    fn a_malformed_body_is_its_makers_fault() {
        for (maker, kind) in [
            (Sender::Client, Kind::RequestInvalid),
            (Sender::Upstream, Kind::ReplyInvalid),
            (Sender::Flow, Kind::FlowFailed),
        ] {
            let content = Content::new("<a>".into(), Some(b"text/xml"), maker);
            assert_eq!(content.known().unwrap_err().kind, kind);
        }
    }
}
