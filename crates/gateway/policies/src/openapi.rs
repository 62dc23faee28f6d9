//! `openapi`: validates requests and replies against an OpenAPI document.
//!
//! Owns the choice of exchanges to validate, and the treatment of invalid ones. The checks are in [`mediation::openapi`]. Messages that
//! pass are not changed.

mod reply;
mod request;

use std::sync::Arc;

use mediation::openapi::Operations;
use message::RequestHead;
use policy::{Policy, Slots, Step};

/// The settings of one `openapi`, made by `compile`.
pub struct OpenApiSettings {
    pub operations: Arc<Operations>,
    /// The index of the only path to validate, or `None` for all paths.
    pub only: Option<usize>,
    pub request: bool,
    pub response: bool,
    /// Whether paths and methods that are not in the document are refused.
    pub refuses: bool,
    /// Whether errors are reported to the client, with their places.
    pub verbose: bool,
    pub body_bytes_max: usize,
}

/// The maximum number of errors reported for one message.
const ERRORS_MAX: usize = 16;

/// Returns the policy for these settings.
pub fn policy(settings: OpenApiSettings, slots: &mut Slots) -> Policy {
    let bodies = settings.request && settings.operations.have_bodies(settings.only);
    let watches = settings.request || settings.response || settings.refuses;
    let replies = settings.response;
    let checks = Arc::new(request::Checks::new(settings, slots.assign()));
    Policy {
        name: "openapi",
        request: watches.then(|| request_step(&checks, bodies)),
        response: replies.then(|| Step::Buffered(Box::new(reply::Checks(checks.clone())))),
    }
}

fn request_step(checks: &Arc<request::Checks>, bodies: bool) -> Step<RequestHead> {
    if bodies {
        Step::Buffered(Box::new(request::Step(checks.clone())))
    } else {
        Step::Head(Box::new(request::Step(checks.clone())))
    }
}
