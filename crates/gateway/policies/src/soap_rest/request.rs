//! The request side: translates a path and JSON to an envelope. Where the route publishes a description, SOAP messages pass as they are.

use std::sync::Arc;

use fault::{Fault, Kind};
use mediation::soap_json::TranslationError;
use message::{Body, GatheredBody, Reply, RequestHead, Trailers};
use policy::{Decision, Exchange, Flow, MessageFormat, OnBuffered, Onward, Slot};

use super::{OperationPath, Service, SoapTargets};
use crate::body_lines;
use crate::json_api::{no_body, no_such_path, not_allowed, require_json};

/// The request step.
pub(super) struct Translate {
    pub(super) service: Arc<Service>,
    pub(super) called: Slot<usize>,
}

impl OnBuffered<RequestHead> for Translate {
    fn bytes_max(&self) -> usize {
        self.service.codings.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        Decision::Ready(self.request(ex, head, body))
    }
}

impl Translate {
    fn request(&self, ex: &mut Exchange, head: &mut RequestHead, body: &mut GatheredBody) -> Flow {
        let service = &*self.service;
        if let Some(targets) = &service.soap
            && let Some(format) = soap_format(head)
        {
            pass(ex, targets, format);
            return Ok(Onward::Next);
        }
        ex.notes().message_format = Some(MessageFormat::Json);
        let rest = head.path().strip_prefix(service.prefix.as_bytes());
        let path = rest.filter(|rest| rest.starts_with(b"/")).unwrap_or(b"");
        if let Some((document, bytes)) = &service.document
            && path == document.as_bytes()
        {
            return match head.method() {
                b"GET" | b"HEAD" => Ok(Onward::Turn(published(head, bytes))),
                _ => Err(not_allowed("GET")),
            };
        }
        let place = self.place(path, head.method())?;
        // Harmless: a request may have no query.
        match place.json(path, head.query().unwrap_or_default())? {
            Some(_) if !body.bytes.is_empty() => return Err(no_body()),
            Some(json) => *body = GatheredBody::new(json.into(), Trailers::new()),
            None => require_json(&head.headers, &body.bytes)?,
        }
        let operation = service.operation(place.operation);
        let operation = operation.ok_or_else(|| Fault::new(Kind::Internal, "no such operation"))?;
        body.bytes = service.translation.to_soap(operation, body).map_err(refused)?;
        body_lines::replaced(&mut head.headers);
        if head.method() != b"POST" {
            *head = as_post(head);
        }
        service.translation.label(&mut head.headers, &place.action);
        self.called.put(ex, place.operation);
        let notes = ex.notes();
        notes.translated = true;
        notes.target = Some(service.target.clone());
        notes.operation = Some(place.counted);
        Ok(Onward::Next)
    }

    /// Returns the operation at a path.
    fn place(&self, path: &[u8], method: &[u8]) -> Result<&OperationPath, Fault> {
        let places = &self.service.places;
        let plain = places.partition_point(|place| place.segments.is_none());
        let (plain, others) = places.split_at_checked(plain).unwrap_or((places, &[]));
        let from = plain.partition_point(|place| place.path.as_bytes() < path);
        let at_path = || {
            let rest = plain.get(from..).unwrap_or_default().iter();
            let own = rest.take_while(|place| place.path.as_bytes() == path);
            own.chain(others.iter().filter(|place| place.is_at(path)))
        };
        if let Some(place) = at_path().find(|place| place.method.as_bytes() == method) {
            return Ok(place);
        }
        let methods: Vec<&str> = at_path().map(|place| &*place.method).collect();
        if methods.is_empty() { Err(no_such_path()) } else { Err(not_allowed(&methods.join(", "))) }
    }
}

/// Sends a client's own SOAP message to the service as it is. A later `soap` policy finds its operation.
fn pass(ex: &mut Exchange, targets: &SoapTargets, format: MessageFormat) {
    let notes = ex.notes();
    notes.message_format = Some(format);
    notes.operation = Some(policy::UNKNOWN_OPERATION);
    let target = if format == MessageFormat::Soap12 { &targets.v12 } else { &targets.v11 };
    notes.target = Some(target.clone());
}

/// Returns the version of a client's own SOAP message, alone or with attachments (SwA, MTOM), by its content type.
fn soap_format(head: &RequestHead) -> Option<MessageFormat> {
    let value = head.headers.get("content-type").filter(|_| head.method() == b"POST")?;
    let media = message::media_type(value);
    let is = |known: &[u8]| media.eq_ignore_ascii_case(known);
    if is(b"application/soap+xml") {
        Some(MessageFormat::Soap12)
    } else if is(b"multipart/related") {
        // Harmless: a message that names no version is SOAP 1.1.
        Some(MessageFormat::of_attachments(value).unwrap_or(MessageFormat::Soap11))
    } else {
        is(b"text/xml").then_some(MessageFormat::Soap11)
    }
}

fn published(head: &RequestHead, document: &bytes::Bytes) -> Reply {
    let body = match head.method() {
        b"HEAD" => Body::Empty,
        _ => Body::whole(document.clone()),
    };
    let mut reply = Reply::new(200, body);
    reply.head.headers.add_known("Content-Type", b"application/json");
    reply
}

#[cold]
fn refused(why: TranslationError) -> Fault {
    let (kind, texts) = match why {
        TranslationError::Wrong(texts) => (Kind::RequestInvalid, texts),
        TranslationError::TooLarge(text) => (Kind::BodyTooLarge, vec![text]),
    };
    let errors = texts.iter().map(|text| text.as_str().into()).collect();
    Fault::new(kind, texts.join("; ")).with_errors(errors)
}

/// Returns the same head with the method POST, the only method that SOAP uses.
#[cold]
fn as_post(head: &RequestHead) -> RequestHead {
    let mut post = RequestHead::new(head.protocol, b"POST", head.target());
    for (name, value) in head.headers.iter() {
        // Harmless: a name is a token.
        if let Ok(name) = std::str::from_utf8(name) {
            post.headers.add_known(name, value);
        }
    }
    post
}
