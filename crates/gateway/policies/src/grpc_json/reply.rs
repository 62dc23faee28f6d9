//! The reply side: translates the messages of a call to JSON, and its status to one of HTTP.

use std::sync::Arc;

use bytes::Bytes;
use fault::{Fault, Kind};
use grpc::Dialect;
use message::{GatheredBody, ReplyHead};
use policy::{BodyTransform, Decision, Exchange, OnBuffered, Onward, Slot};
use protobuf::{Binding, Match};

use super::status::{self, CallStatus, OF_CALL};
use super::{GrpcJsonSettings, frames, message_json, stream};
use crate::body_lines;

/// The response step.
pub(super) struct Translate {
    pub(super) service: Arc<GrpcJsonSettings>,
    pub(super) called: Slot<Match>,
}

const JSON: &str = "application/json";

impl OnBuffered<ReplyHead> for Translate {
    /// A reply is gathered, unless its messages are translated as they pass. A head with a status has no messages after it.
    fn wants(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Result<bool, Fault> {
        let Some((_, binding)) = self.called(ex, head) else { return Ok(false) };
        refuse_coding(head)?;
        Ok(!binding.is_server_streaming || head.headers.contains("grpc-status"))
    }

    fn on_passing(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let Some((called, _)) = self.called(ex, head) else { return Ok(None) };
        let messages = stream::Messages::new(self.service.clone(), called.binding);
        relabel(head, self.service.stream.content_type());
        Ok(Some(Box::new(messages)))
    }

    fn bytes_max(&self) -> usize {
        self.service.body_bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let flow = self.reply(ex, head, body).map(|()| Onward::Next);
        Decision::Ready(flow)
    }
}

impl Translate {
    /// Returns the called method, if the reply is that of its call. Faults of the gateway are problem documents already, and other replies,
    /// such as those of a balancer, are none of the service.
    fn called<'a>(
        &'a self,
        ex: &'a Exchange,
        head: &ReplyHead,
    ) -> Option<(&'a Match, &'a Binding)> {
        let called = self.called.get(ex)?;
        // Harmless: a reply may have no content type.
        let content_type = head.headers.get("content-type").unwrap_or_default();
        let is_call = matches!(Dialect::of(content_type), Some((Dialect::Grpc, _)));
        let binding = self.service.binding(called)?;
        (is_call && ex.fault.is_none()).then_some((called, binding))
    }

    fn reply(
        &self,
        ex: &Exchange,
        head: &mut ReplyHead,
        body: &mut GatheredBody,
    ) -> Result<(), Fault> {
        let Some((_, binding)) = self.called(ex, head) else { return Ok(()) };
        let service = &*self.service;
        let status = CallStatus::in_head(&head.headers);
        let status = status.or_else(|| CallStatus::take(&mut body.trailers));
        let status = status.ok_or_else(status::missing)?;
        if !status.is_ok() {
            relabel(head, JSON);
            head.status = status.http();
            body.bytes = status.json(&service.transcoder).into();
            return Ok(());
        }
        if binding.is_server_streaming {
            relabel(head, service.stream.content_type());
            body.bytes = service.stream.empty().into();
            return Ok(());
        }
        let message = frames::only(&body.bytes, service.body_bytes_max)?;
        if let Some(made) = service.transcoder.http_body(binding, message) {
            let data = body.bytes.slice_ref(made.data);
            if !http_value(made.content_type) {
                return Err(Fault::new(
                    Kind::ReplyInvalid,
                    "the content type is not a header value",
                ));
            }
            relabel(head, made.content_type);
            body.bytes = data;
            return Ok(());
        }
        let json = message_json::translated(&service.transcoder, binding, message)?;
        relabel(head, JSON);
        body.bytes = Bytes::from(json);
        Ok(())
    }
}

/// Replaces the lines that describe the call by those of a translated body.
fn relabel(head: &mut ReplyHead, content_type: &str) {
    body_lines::replaced(&mut head.headers);
    head.headers.remove_all(&OF_CALL);
    if !content_type.is_empty() {
        head.headers.add_known("Content-Type", content_type.as_bytes());
    }
}

fn http_value(text: &str) -> bool {
    http1::is_header_value(text.as_bytes())
}

/// Refuses a body with a content coding, which the request did not offer.
fn refuse_coding(head: &ReplyHead) -> Result<(), Fault> {
    match head.headers.get("content-encoding") {
        Some(coding) if !coding.eq_ignore_ascii_case(b"identity") => {
            Err(Fault::new(Kind::ReplyInvalid, "the reply to the call has a content coding"))
        }
        Some(_) | None => Ok(()),
    }
}
