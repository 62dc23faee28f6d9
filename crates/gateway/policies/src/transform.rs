//! `transform`: changes the method, the query and forms of requests, and JSON in the bodies of requests and replies.
//!
//! Owns the choice of bodies to edit, and the headers that describe their bytes. A body whose content type is not JSON passes unchanged. A
//! body that is declared as JSON but cannot be parsed is refused, since the omitted edit could be one that protects a service.

mod multipart;
mod query;

use std::borrow::Cow;

use bytes::Bytes;
use fault::{Fault, Kind};
use mediation::content_coding::is_coded;
use mediation::form::FormKind;
use message::{GatheredBody, Headers, ReplyHead, RequestHead};
use policy::{
    Decision, Escape, Exchange, Flow, OnBuffered, OnHead, Onward, Policy, Step, Template,
};

pub use crate::json_edits::{JsonEdits, Overlap, Pointer};
pub use query::QueryEdits;

use crate::body_lines;
use crate::json_edits::EditRefusal;
use crate::statuses::Statuses;

/// Settings of the policy. Sides without edits have no step.
#[derive(Debug, Default)]
pub struct TransformSettings {
    /// The method that replaces that of the request.
    pub method: Option<Box<str>>,
    pub query: QueryEdits,
    /// Edits of requests that are forms.
    pub form: QueryEdits,
    pub request: JsonEdits,
    pub response: JsonEdits,
    /// The statuses of replies that are changed.
    pub statuses: Statuses,
    /// The maximum size of a body that is edited.
    pub bytes_max: usize,
}

/// Returns the policy.
pub fn policy(settings: TransformSettings) -> Policy {
    let TransformSettings { method, query, form, request, response, statuses, bytes_max } =
        settings;
    let edits_body = !(request.is_empty() && form.is_empty());
    let reads_reply = !response.is_empty();
    let edits_head = reads_reply || !query.is_empty() || method.is_some();
    let asked = RequestStep { method, query, form, json: request, reads_reply, bytes_max };
    let request = match (edits_body, edits_head) {
        (true, _) => Some(Step::Buffered(Box::new(asked) as Box<dyn OnBuffered<RequestHead>>)),
        (false, true) => Some(Step::Head(Box::new(asked) as Box<dyn OnHead<RequestHead>>)),
        (false, false) => None,
    };
    let replied = ResponseStep { json: response, statuses, bytes_max };
    let response =
        reads_reply.then(|| Step::Buffered(Box::new(replied) as Box<dyn OnBuffered<ReplyHead>>));
    Policy { name: "transform", request, response }
}

struct RequestStep {
    method: Option<Box<str>>,
    query: QueryEdits,
    form: QueryEdits,
    json: JsonEdits,
    /// Whether the reply will be edited, and so must be readable.
    reads_reply: bool,
    bytes_max: usize,
}

struct ResponseStep {
    json: JsonEdits,
    statuses: Statuses,
    bytes_max: usize,
}

impl RequestStep {
    /// Returns a form of several parts after the edits, or `None` if it does not change or is empty.
    fn edited_parts(
        &self,
        ex: &Exchange,
        head: &RequestHead,
        body: &GatheredBody,
    ) -> Result<Option<Bytes>, Fault> {
        if body.bytes.is_empty() {
            return Ok(None);
        }
        // Harmless: a form has a content type.
        let content_type = head.headers.get("content-type").unwrap_or_default();
        let fill = |value: &Template| value.fill(ex, Some(head), Escape::Plain);
        let edited = self.form.of_parts(content_type, &body.bytes, fill).map_err(|why| {
            let detail = "The form cannot be split into its parts.";
            Fault::with_detail(Kind::RequestInvalid, format!("transform: {why}"), detail)
        })?;
        Ok(edited.map(Bytes::from))
    }

    fn edit_head(&self, ex: &mut Exchange, head: &mut RequestHead) {
        if let Some(method) = &self.method {
            head.set_method(method.as_bytes());
            // The reply to a HEAD has no body, even if the client has sent another method.
            if ex.notes.is_some() || head.method() == b"HEAD" {
                ex.notes().asked_head = head.method() == b"HEAD";
            }
        }
        self.query.apply(ex, head);
        if self.reads_reply {
            // A partial or compressed reply could not be edited.
            for name in ["accept-encoding", "range", "if-range"] {
                head.headers.remove(name);
            }
            if head.method() == b"HEAD" {
                ex.notes().asked_head = true;
            }
        }
    }
}

impl OnHead<RequestHead> for RequestStep {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.edit_head(ex, head);
        Ok(Onward::Next)
    }
}

impl OnBuffered<RequestHead> for RequestStep {
    fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
        self.edit_head(ex, head);
        let json = !self.json.is_empty() && is_json(&head.headers);
        let wants = json || !self.form.is_empty() && form_kind(&head.headers).is_some();
        if wants && is_coded(&head.headers) {
            let detail = "Send JSON and forms without a content coding.";
            let cause = "transform: the body is encoded";
            return Err(Fault::with_detail(Kind::MediaTypeUnsupported, cause, detail));
        }
        Ok(wants)
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let edited = match form_kind(&head.headers).filter(|_| !self.form.is_empty()) {
            Some(FormKind::UrlEncoded) => {
                Ok(self.form.of_form(ex, head, &body.bytes).map(Bytes::from))
            }
            Some(FormKind::Multipart) => self.edited_parts(ex, head, body),
            None => {
                let values = filled(&self.json, ex, Some(head));
                edited(&self.json, body, &values).map_err(|refused| {
                    let cause = format!("transform: {refused}");
                    Fault::with_detail(Kind::RequestInvalid, cause, refused.detail())
                })
            }
        };
        Decision::Ready(edited.map(|bytes| {
            if let Some(bytes) = bytes {
                body.bytes = bytes;
                body_lines::edited(&mut head.headers);
            }
            Onward::Next
        }))
    }
}

impl OnBuffered<ReplyHead> for ResponseStep {
    fn wants(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Result<bool, Fault> {
        // The gateway's own faults are not edited. A reply that a cache below serves in place of a fault has an `Age`.
        let is_own = ex.fault.is_some() && !head.headers.contains("age");
        if is_own || !is_json(&head.headers) || !self.statuses.contains(head.status) {
            return Ok(false);
        }
        let why = if is_coded(&head.headers) {
            "is encoded, although no coding was requested"
        } else if head.status == 206 {
            "is partial, although no range was requested"
        } else {
            return Ok(true);
        };
        Err(Fault::new(Kind::ReplyInvalid, format!("transform: the reply {why}")))
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let values = filled(&self.json, ex, None);
        let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
        let flow = match edited(&self.json, body, &values) {
            Ok(None) if !asked_head => Ok(Onward::Next),
            Ok(bytes) => {
                // Harmless: the reply to a HEAD has no body.
                body.bytes = bytes.unwrap_or_default();
                body_lines::edited(&mut head.headers);
                Ok(Onward::Next)
            }
            Err(refused) => Err(Fault::new(Kind::ReplyInvalid, format!("transform: {refused}"))),
        };
        Decision::Ready(flow)
    }
}

/// Returns a body after the edits, or `None` if it does not change or is empty.
fn edited(
    edits: &JsonEdits,
    body: &mut GatheredBody,
    values: &[Cow<'_, [u8]>],
) -> Result<Option<Bytes>, EditRefusal> {
    if body.bytes.is_empty() {
        return Ok(None);
    }
    let edited = edits.apply(body, values)?;
    Ok((edited != body.bytes).then(|| edited.into()))
}

/// Returns the values for this exchange, as JSON.
fn filled<'e>(
    edits: &'e JsonEdits,
    ex: &Exchange,
    head: Option<&RequestHead>,
) -> Vec<Cow<'e, [u8]>> {
    let fill = |value: &'e Template| match value.constant() {
        Some(text) => Cow::Borrowed(text.as_bytes()),
        None => Cow::Owned(value.fill(ex, head, Escape::Json)),
    };
    edits.values().map(fill).collect()
}

/// Returns true if any `Content-Type` line is JSON: with several lines, a reader of the body may use any of them.
fn is_json(headers: &Headers) -> bool {
    headers.get_all("content-type").any(|value| {
        let kind = message::media_type(value);
        message::is_json(kind) || kind.eq_ignore_ascii_case(b"text/json")
    })
}

/// Returns the kind of form that the body is, or `None` if it is not a form.
fn form_kind(headers: &Headers) -> Option<FormKind> {
    FormKind::of(headers.get("content-type")?)
}
