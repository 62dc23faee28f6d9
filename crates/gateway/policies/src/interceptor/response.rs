//! The reply side: calls `handle-response`.

use std::sync::Arc;

use bytes::Bytes;
use message::{GatheredBody, ReplyHead, RequestHead};
use policy::{Decision, Exchange, Flow, OnBuffered, OnCall, Onward, Slot};

use crate::body_lines;

use super::answer::{self, Answer};
use super::call_body::{self, JsonObject};
use super::request::log_ignored_trailers;
use super::{Interception, InterceptorSettings, Service, apply, call};

const PATH: &[u8] = b"/api/v1/handle-response";

/// Capacity for the parts of the call whose sizes are not computed.
const TOLD_BYTES: usize = 256;

/// The response step.
pub(super) struct Interceptor {
    settings: Arc<InterceptorSettings>,
    call: RequestHead,
    slot: Slot<Interception>,
}

impl OnCall<ReplyHead> for Interceptor {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut ReplyHead) -> Decision<'a> {
        Decision::Waits(Box::pin(self.intercept(ex, head, None)))
    }
}

impl OnBuffered<ReplyHead> for Interceptor {
    fn bytes_max(&self) -> usize {
        self.settings.response.as_ref().map_or(0, |service| service.body_bytes_max)
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        Decision::Waits(Box::pin(self.intercept(ex, head, Some(body))))
    }
}

impl Interceptor {
    pub(super) fn new(settings: Arc<InterceptorSettings>, slot: Slot<Interception>) -> Interceptor {
        Interceptor { settings, call: call::head(PATH), slot }
    }

    async fn intercept(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: Option<&mut GatheredBody>,
    ) -> Flow {
        let Some(service) = &self.settings.response else { return Ok(Onward::Next) };
        // The data after a 101 is not the body of the reply.
        if head.status == 101 {
            return Ok(Onward::Next);
        }
        let told = told(service, self.slot.get(ex), head, body.as_deref());
        let answered = call::call(service, ex, &self.call, told).await?;
        if let Some(answer) = answered {
            obey(service, answer::read(&answer, service.body_bytes_max)?, ex, head, body)?;
        }
        Ok(Onward::Next)
    }
}

fn told(
    service: &Service,
    noted: Option<&Interception>,
    head: &ReplyHead,
    body: Option<&GatheredBody>,
) -> Vec<u8> {
    let includes = service.includes;
    let size = body.map_or(0, |body| call_body::encoded_len(body.bytes.len()));
    let mut told = JsonObject::new(TOLD_BYTES + head.headers.len() * 64 + size);
    told.raw("responseCode", &head.status.to_string());
    if let Some(noted) = noted {
        if includes.request_headers {
            told.lines("requestHeaders", &noted.request_headers);
        }
        if includes.request_trailers {
            told.lines("requestTrailers", &noted.request_trailers);
        }
        if let Some(body) = &noted.request_body {
            told.bytes("requestBody", body);
        }
    }
    if includes.response_headers {
        told.headers("responseHeaders", &head.headers);
    }
    if let Some(body) = body {
        if includes.response_trailers {
            told.lines("responseTrailers", &call_body::kept_trailers(&body.trailers));
        }
        if includes.response_body {
            told.bytes("responseBody", &body.bytes);
        }
    }
    if let Some(noted) = noted {
        if includes.invocation_context {
            told.raw("invocationContext", &noted.invocation);
        }
        if !noted.context.is_empty() {
            told.lines("interceptorContext", &noted.context);
        }
    }
    told.finish()
}

/// Applies the answer. The whole answer is ignored if it changes a body that the service did not get. Changes of trailers are ignored if
/// the message is not buffered.
fn obey(
    service: &Service,
    answer: Answer<'_>,
    ex: &Exchange,
    head: &mut ReplyHead,
    body: Option<&mut GatheredBody>,
) -> Result<(), fault::Fault> {
    if answer.body.is_some() && !service.includes.response_body {
        tracing::error!(
            request_id = ex.id.as_str(),
            "an interceptor changed the reply's body, but `includes` does not list `response_body`; its answer is ignored"
        );
        return Ok(());
    }
    if answer.body.is_some() {
        body_lines::replaced(&mut head.headers);
    }
    apply::to_headers(&answer.headers, &mut head.headers)?;
    head.status = answer.status.unwrap_or(head.status);
    let Some(body) = body else {
        if !answer.trailers.is_empty() {
            log_ignored_trailers(ex);
        }
        return Ok(());
    };
    apply::to_trailers(&answer.trailers, &mut body.trailers)?;
    if let Some(bytes) = answer.body {
        body.bytes = bytes;
    }
    if matches!(head.status, 204 | 205 | 304) {
        (body.bytes, body.trailers) = (Bytes::new(), Vec::new());
    }
    Ok(())
}
