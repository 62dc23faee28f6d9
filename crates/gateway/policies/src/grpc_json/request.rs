//! The request side: translates path, query and JSON to the messages of a call.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::{GatheredBody, Names, RequestHead, Trailers};
use policy::{Decision, Exchange, Flow, OnBuffered, Onward, Slot};
use protobuf::{Match, NoMatch, RequestParts, TranslationError};

use super::{GrpcJsonSettings, StreamForm};
use crate::body_lines;
use crate::json_api::{no_body, no_such_path, not_allowed, require_json};

/// The request step.
pub(super) struct Translate {
    pub(super) service: Arc<GrpcJsonSettings>,
    pub(super) called: Slot<Match>,
}

/// Header lines about the JSON, and those that would let the service answer in a form that is not translated.
const OF_JSON: Names<7> = Names::new(
    [
        "content-type",
        "content-encoding",
        "accept",
        "accept-encoding",
        "grpc-encoding",
        "grpc-accept-encoding",
        "te",
    ],
    "content-type\ncontent-encoding\naccept\naccept-encoding\ngrpc-encoding\ngrpc-accept-encoding\nte",
);

impl OnBuffered<RequestHead> for Translate {
    /// Finds the method before the body is read. A call of gRPC passes unchanged.
    fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
        if ex.grpc.is_some() {
            return Ok(false);
        }
        let rest = head.path().strip_prefix(self.service.prefix.as_bytes());
        let path = rest.filter(|rest| rest.starts_with(b"/")).ok_or_else(no_such_path)?;
        let found = self.service.transcoder.find(head.method(), path).map_err(|why| match why {
            NoMatch::UnknownPath => no_such_path(),
            NoMatch::OtherMethods(methods) => not_allowed(&methods),
            NoMatch::NotUtf8 => invalid("the path is not UTF-8"),
        })?;
        ex.notes().operation = self.service.counted.get(found.binding).copied();
        self.called.put(ex, found);
        Ok(true)
    }

    fn bytes_max(&self) -> usize {
        self.service.body_bytes_max
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
        let transcoder = &*self.service.transcoder;
        let called =
            self.called.get(ex).and_then(|called| Some((called, transcoder.binding(called)?)));
        let Some((called, binding)) = called else {
            return Err(Fault::new(Kind::Internal, "no such method"));
        };
        if binding.takes_no_body() {
            if !body.bytes.is_empty() {
                return Err(no_body());
            }
        } else if !binding.takes_any_body(&transcoder.schema) {
            require_json(&head.headers, &body.bytes)?;
        }
        let parts = RequestParts {
            // Harmless: a request may have no query.
            query: head.query().unwrap_or_default(),
            // Harmless: a request may have no content type.
            content_type: head.headers.get("content-type").unwrap_or_default(),
            body: &body.bytes,
        };
        let made = transcoder.request(called, &parts).map_err(|why| match why {
            TranslationError::Wrong(what) => invalid(&what),
            TranslationError::TooLarge => {
                Fault::new(Kind::BodyTooLarge, "the messages of the call are too large")
            }
            TranslationError::NoRoom => message::no_room(),
        })?;
        let target = binding.target.as_bytes().into();
        // Event streams are limited separately on the client's side.
        let is_translated_call =
            !binding.is_server_streaming || self.service.stream != StreamForm::Events;
        *body = GatheredBody::new(made.into(), Trailers::new());
        body_lines::replaced(&mut head.headers);
        head.headers.remove_all(&OF_JSON);
        if head.method() != b"POST" {
            head.set_method(b"POST");
        }
        head.headers.add_known("Content-Type", grpc::Dialect::Grpc.name().as_bytes());
        // The status of a call is in its trailers.
        head.headers.add_known("TE", b"trailers");
        let notes = ex.notes();
        notes.target = Some(target);
        notes.is_translated_call = is_translated_call;
        Ok(Onward::Next)
    }
}

#[cold]
fn invalid(what: &str) -> Fault {
    Fault::new(Kind::RequestInvalid, format!("grpc_json: {what}")).with_errors(vec![what.into()])
}
