//! `openapi`: holds requests and replies to what an OpenAPI document says.
//!
//! Owns which exchanges are looked at, and what becomes of those that break the document. How they are checked is
//! [`mediation::openapi`]'s. It changes nothing of what passes.

mod reply;
mod request;

use std::sync::Arc;

use mediation::openapi::Operations;
use message::RequestHead;
use policy::{Policy, Slots, Step};

/// One `openapi`, as `compile` settles it.
pub struct OpenApiSettings {
    pub operations: Arc<Operations>,
    /// The index of the only path that is looked at.
    pub only: Option<usize>,
    pub request: bool,
    pub response: bool,
    /// Paths and methods that the document does not have are refused.
    pub refuses: bool,
    /// The client is told what is wrong, and where.
    pub verbose: bool,
    pub body_bytes_max: usize,
}

/// More than this many things wrong with one message are not told.
const ERRORS_MAX: usize = 16;

/// The policy for these settings.
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
