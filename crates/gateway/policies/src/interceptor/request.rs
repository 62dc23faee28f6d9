//! The request side: calls `handle-request`, and keeps what the reply side needs.

use std::sync::Arc;

use bytes::Bytes;
use fault::{Fault, Kind};
use message::{Body, GatheredBody, Reply, RequestHead};
use policy::{Decision, Exchange, Flow, OnBuffered, OnCall, OnHead, Onward, Slot};

use super::answer::{self, Answer, invalid};
use super::call_body::{self, JsonObject};
use super::{Interception, InterceptorSettings, Service, apply, call};
use crate::{body_lines, rebased};

const PATH: &[u8] = b"/api/v1/handle-request";

/// Capacity for the parts of the call whose sizes are not computed.
const TOLD_BYTES: usize = 256;

/// The request step.
pub(super) struct Interceptor {
    settings: Arc<InterceptorSettings>,
    call: RequestHead,
    slot: Slot<Interception>,
}

impl OnHead<RequestHead> for Interceptor {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.note(ex, head, None);
        Ok(Onward::Next)
    }
}

impl OnCall<RequestHead> for Interceptor {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        self.note(ex, head, None);
        match &self.settings.request {
            Some(service) => Decision::Waits(Box::pin(self.intercept(service, ex, head, None))),
            None => Decision::Ready(Ok(Onward::Next)),
        }
    }
}

impl OnBuffered<RequestHead> for Interceptor {
    fn bytes_max(&self) -> usize {
        // Harmless: without a service, no body is needed.
        let services = [&self.settings.request, &self.settings.response].into_iter().flatten();
        let gathering = services.filter(|service| service.includes.request_payload());
        gathering.map(|service| service.body_bytes_max).min().unwrap_or(0)
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        self.note(ex, head, Some(body));
        match &self.settings.request {
            Some(service) => {
                Decision::Waits(Box::pin(self.intercept(service, ex, head, Some(body))))
            }
            None => Decision::Ready(Ok(Onward::Next)),
        }
    }
}

impl Interceptor {
    pub(super) fn new(settings: Arc<InterceptorSettings>, slot: Slot<Interception>) -> Interceptor {
        Interceptor { settings, call: call::head(PATH), slot }
    }

    /// Keeps the parts of the request that the call with the reply needs.
    fn note(&self, ex: &mut Exchange, head: &RequestHead, body: Option<&GatheredBody>) {
        let Some(service) = &self.settings.response else { return };
        let includes = service.includes;
        let invocation = if includes.invocation_context {
            call_body::invocation(&self.settings.api, ex, head)
        } else {
            String::new()
        };
        let interception = Interception {
            request_headers: if includes.request_headers {
                call_body::kept(&head.headers)
            } else {
                Vec::new()
            },
            request_trailers: body
                .filter(|_| includes.request_trailers)
                .map_or_else(call_body::Lines::new, |body| {
                    call_body::kept_trailers(&body.trailers)
                }),
            request_body: body.filter(|_| includes.request_body).map(|body| body.bytes.clone()),
            invocation: invocation.into(),
            context: Vec::new(),
        };
        self.slot.put(ex, interception);
    }

    async fn intercept(
        &self,
        service: &Service,
        ex: &mut Exchange,
        head: &mut RequestHead,
        body: Option<&mut GatheredBody>,
    ) -> Flow {
        let told = self.told(service, ex, head, body.as_deref());
        let answered = call::call(service, ex, &self.call, told).await?;
        match answered {
            Some(answer) => {
                self.obey(service, answer::read(&answer, service.body_bytes_max)?, ex, head, body)
            }
            None => Ok(Onward::Next),
        }
    }

    fn told(
        &self,
        service: &Service,
        ex: &Exchange,
        head: &RequestHead,
        body: Option<&GatheredBody>,
    ) -> Vec<u8> {
        let includes = service.includes;
        let size = body.map_or(0, |body| call_body::encoded_len(body.bytes.len()));
        let mut told = JsonObject::new(TOLD_BYTES + head.headers.len() * 64 + size);
        if includes.request_headers {
            told.headers("requestHeaders", &head.headers);
        }
        if let Some(body) = body {
            if includes.request_trailers {
                told.lines("requestTrailers", &call_body::kept_trailers(&body.trailers));
            }
            if includes.request_body {
                told.bytes("requestBody", &body.bytes);
            }
        }
        if includes.invocation_context {
            told.raw("invocationContext", &call_body::invocation(&self.settings.api, ex, head));
        }
        told.finish()
    }

    /// Applies the answer. The whole answer is ignored if it changes a body that the service did not get. Changes of trailers are ignored
    /// if the message is not buffered.
    fn obey(
        &self,
        service: &Service,
        answer: Answer<'_>,
        ex: &mut Exchange,
        head: &mut RequestHead,
        body: Option<&mut GatheredBody>,
    ) -> Flow {
        if answer.direct {
            return direct(answer, ex).map(Onward::Turn);
        }
        if answer.body.is_some() && !service.includes.request_body {
            tracing::error!(
                request_id = ex.id.as_str(),
                "an interceptor changed the request's body, but `includes` does not list `request_body`; its answer is ignored"
            );
            return Ok(Onward::Next);
        }
        self.redirect(&answer, ex, head)?;
        if answer.body.is_some() {
            body_lines::replaced(&mut head.headers);
        }
        apply::to_headers(&answer.headers, &mut head.headers)?;
        if let Some(body) = body {
            apply::to_trailers(&answer.trailers, &mut body.trailers)?;
            if let Some(bytes) = answer.body {
                body.bytes = bytes;
            }
        } else if !answer.trailers.is_empty() {
            log_ignored_trailers(ex);
        }
        if let Some(noted) = self.slot.get_mut(ex) {
            noted.context = answer.context;
        }
        Ok(Onward::Next)
    }

    /// Applies `dynamicEndpoint` and `pathToRewrite`.
    fn redirect(
        &self,
        answer: &Answer<'_>,
        ex: &mut Exchange,
        head: &RequestHead,
    ) -> Result<(), Fault> {
        if let Some(name) = &answer.endpoint {
            let endpoint = self.settings.endpoints.iter().find(|endpoint| endpoint.name == *name);
            let endpoint = endpoint.ok_or_else(|| {
                Fault::with_detail(
                    Kind::InterceptorFailed,
                    format!("the interceptor named the endpoint `{name}`, which is not among `endpoints`"),
                    "The interceptor service named an endpoint that does not exist",
                )
            })?;
            ex.notes().divert = Some(endpoint.diversion);
            if let Some(base) = &endpoint.base_path {
                let own = &self.settings.api.base_path;
                ex.notes().target = Some(rebased::target(ex, head, own, base));
            }
        }
        if let Some(path) = &answer.path {
            let good =
                path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic() && b != b'#');
            if !good {
                return Err(invalid("`pathToRewrite` is not a path"));
            }
            if has_dots(path.split('?').next().unwrap_or_default()) {
                return Err(invalid("`pathToRewrite` has a segment `.` or `..`"));
            }
            let query = head.query().filter(|_| !path.contains('?'));
            ex.notes().rewritten = true;
            ex.notes().target = Some(match query {
                Some(query) => [path.as_bytes(), b"?", query].concat().into(),
                None => path.as_bytes().into(),
            });
        }
        Ok(())
    }
}

/// Returns true if a server could interpret a segment of a path as `.` or `..`. The service may have built the path from client input, and
/// it is sent to the upstream unchanged.
fn has_dots(path: &str) -> bool {
    let decoded = kit::percent::decoded(path.as_bytes(), false);
    let mut segments = decoded.split(|b| matches!(b, b'/' | b'\\'));
    segments.any(|segment| {
        let name = segment.split(|b| *b == b';').next().unwrap_or_default();
        matches!(name, b"." | b"..")
    })
}

pub(super) fn log_ignored_trailers(ex: &Exchange) {
    tracing::error!(
        request_id = ex.id.as_str(),
        "an interceptor changed trailers, but `includes` lists neither the body nor the trailers; the trailers are unchanged"
    );
}

/// Returns the interceptor's reply, for `directRespond`.
fn direct(answer: Answer<'_>, ex: &Exchange) -> Result<Reply, Fault> {
    let mut bytes = answer.body.map_or_else(Bytes::new, Bytes::from);
    let status = answer.status.unwrap_or(if bytes.is_empty() { 204 } else { 200 });
    if matches!(status, 204 | 205 | 304) && !bytes.is_empty() {
        tracing::error!(
            request_id = ex.id.as_str(),
            status,
            "an interceptor gave a body for a status that does not allow one; the body is dropped"
        );
        bytes = Bytes::new();
    }
    let mut gathered = GatheredBody::new(bytes, Vec::new());
    apply::to_trailers(&answer.trailers, &mut gathered.trailers)?;
    let mut reply = Reply::new(status, Body::gathered(gathered));
    apply::to_headers(&answer.headers, &mut reply.head.headers)?;
    Ok(reply)
}
