//! `interceptor`: calls a service that decides about the request and the reply, by the interceptor contract of Choreo Connect.
//!
//! Owns the two calls, their contents, and the effects of their answers. The connection to the service is a [`policy::Fetch`].

mod answer;
mod apply;
mod call;
mod call_body;
mod request;
mod response;

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::engine::{DecodePaddingMode, GeneralPurposeConfig, Simd};
use bytes::Bytes;
use message::{ReplyHead, RequestHead};
use policy::{Fetch, Policy, Slot, Slots, Step};

/// The settings of one `interceptor`, made by `compile`.
pub struct InterceptorSettings {
    pub request: Option<Service>,
    pub response: Option<Service>,
    pub api: Api,
    /// The endpoints that `dynamicEndpoint` may name.
    pub endpoints: Vec<Endpoint>,
}

/// The service for one side: requests or replies.
pub struct Service {
    pub fetch: Arc<dyn Fetch>,
    pub includes: Includes,
    /// The timeout of the whole call.
    pub timeout: Duration,
    /// The maximum size of a body that is sent to the service or returned by it.
    pub body_bytes_max: usize,
}

/// The parts of an exchange that are sent to a service.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Includes {
    pub request_headers: bool,
    pub request_body: bool,
    pub request_trailers: bool,
    pub response_headers: bool,
    pub response_body: bool,
    pub response_trailers: bool,
    pub invocation_context: bool,
}

/// A destination that `dynamicEndpoint` may select.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub name: String,
    /// The index among the route's diversions.
    pub diversion: usize,
    /// The base path of the endpoint, if it differs from that of the API.
    pub base_path: Option<String>,
}

/// The facts about the API in `invocationContext`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Api {
    pub name: String,
    pub version: String,
    /// The host of the API, or `None` for the host that the client used.
    pub vhost: Option<String>,
    pub base_path: String,
    pub path_template: String,
    pub methods: String,
    pub production: String,
    pub sandbox: String,
}

/// The request as the interceptor saw it, for the call with the reply.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Interception {
    request_headers: Vec<(Box<str>, Box<str>)>,
    request_trailers: Vec<(Box<str>, Box<str>)>,
    request_body: Option<Bytes>,
    /// The `invocationContext` that was sent.
    invocation: Box<str>,
    /// The `interceptorContext` that the request call returned, as pairs of name and text.
    context: Vec<(Box<str>, Box<str>)>,
}

/// Returns the policy for these settings.
pub fn policy(settings: InterceptorSettings, slots: &mut Slots) -> Policy {
    let settings = Arc::new(settings);
    let slot = slots.assign();
    Policy {
        name: "interceptor",
        request: request_step(&settings, slot),
        response: response_step(&settings, slot),
    }
}

fn request_step(
    settings: &Arc<InterceptorSettings>,
    slot: Slot<Interception>,
) -> Option<Step<RequestHead>> {
    let told = settings.request.as_ref().map_or_else(Includes::default, |service| service.includes);
    let later =
        settings.response.as_ref().map_or_else(Includes::default, |service| service.includes);
    let gathers = told.request_payload() || later.request_payload();
    let notes = later.request_headers || later.invocation_context;
    match (gathers, settings.request.is_some(), notes) {
        (true, _, _) => {
            Some(Step::Buffered(Box::new(request::Interceptor::new(settings.clone(), slot))))
        }
        (false, true, _) => {
            Some(Step::Call(Box::new(request::Interceptor::new(settings.clone(), slot))))
        }
        (false, false, true) => {
            Some(Step::Head(Box::new(request::Interceptor::new(settings.clone(), slot))))
        }
        (false, false, false) => None,
    }
}

fn response_step(
    settings: &Arc<InterceptorSettings>,
    slot: Slot<Interception>,
) -> Option<Step<ReplyHead>> {
    let includes = settings.response.as_ref()?.includes;
    Some(if includes.response_body || includes.response_trailers {
        Step::Buffered(Box::new(response::Interceptor::new(settings.clone(), slot)))
    } else {
        Step::Call(Box::new(response::Interceptor::new(settings.clone(), slot)))
    })
}

/// Returns the Base64 codec for bodies. It uses vector instructions where available, since a body is the largest part of a call. Answers
/// are accepted with or without padding, since interceptors send both.
fn base64() -> &'static Simd {
    static ENGINE: LazyLock<Simd> = LazyLock::new(|| {
        let config = GeneralPurposeConfig::new();
        Simd::standard(config.with_decode_padding_mode(DecodePaddingMode::Indifferent))
    });
    &ENGINE
}

impl Includes {
    fn request_payload(self) -> bool {
        self.request_body || self.request_trailers
    }
}
