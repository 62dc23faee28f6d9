//! Faults of the policies over XML messages: the step that refuses a message, in the form in which their clients know it.

use fault::{Fault, Kind, ProcessingFault};
use mediation::Rejection;
use message::{GatheredBody, ReplyHead};
use policy::Exchange;

/// The step where no other fits.
pub(crate) const RESPONSE_GENERAL: &str = "Response - General process failed";

/// Replies that carry no message: of a one-way operation, of HEAD, of a tunnel.
pub(crate) fn has_no_body(ex: &Exchange, head: &ReplyHead, body: &GatheredBody) -> bool {
    let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
    body.bytes.is_empty() && (asked_head || matches!(head.status, 101 | 202 | 204 | 205 | 304))
}

/// The fault for a request that a step refuses.
pub(crate) fn refused_request(step: &'static str, failed: Rejection, verbose: bool) -> Fault {
    let kind = if failed.server { Kind::ProcessingFailed } else { Kind::RequestInvalid };
    fault(kind, step, failed, verbose, None)
}

/// The fault for a reply that a step refuses: the server's, whoever of those behind the client it was.
pub(crate) fn refused_reply(
    step: &'static str,
    failed: Rejection,
    verbose: bool,
    status: u16,
) -> Fault {
    let kind = if failed.server { Kind::ProcessingFailed } else { Kind::ReplyInvalid };
    // But for what is not about the message: a client may ask for another coding.
    let server = failed.server || step != RESPONSE_GENERAL;
    fault(kind, step, Rejection { server, ..failed }, verbose, Some(status))
}

fn fault(
    kind: Kind,
    step: &'static str,
    failed: Rejection,
    verbose: bool,
    backend_status: Option<u16>,
) -> Fault {
    let cause = format!("{step}: {}", failed.cause());
    let Rejection { text, server, told } = failed;
    let plain = told.map(|told| told.client);
    let detail = verbose.then(|| plain.as_ref().unwrap_or(&text).clone());
    let fault = Fault { detail, ..Fault::new(kind, cause) };
    fault.with_processing(ProcessingFault { step, text, plain, server, backend_status, verbose })
}
