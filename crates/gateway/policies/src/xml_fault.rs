//! Faults of the policies over XML messages. They name the step that refuses a message, in the form that clients expect.

use fault::{Fault, Kind, ProcessingFault};
use mediation::Rejection;
use message::{GatheredBody, ReplyHead};
use policy::Exchange;

/// The name of the step where no other applies.
pub(crate) const RESPONSE_GENERAL: &str = "Response - General process failed";

/// Returns true for replies without a message: of a one-way operation, to a HEAD, or of a tunnel.
pub(crate) fn has_no_body(ex: &Exchange, head: &ReplyHead, body: &GatheredBody) -> bool {
    let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
    body.bytes.is_empty() && (asked_head || matches!(head.status, 101 | 202 | 204 | 205 | 304))
}

/// Returns the fault for a request that a step refuses.
pub(crate) fn refused_request(step: &'static str, failed: Rejection, verbose: bool) -> Fault {
    let kind = if failed.server { Kind::ProcessingFailed } else { Kind::RequestInvalid };
    fault(kind, step, failed, verbose, None)
}

/// Returns the fault for a reply that a step refuses. To the client, it is a server fault, whether the gateway or the upstream caused it.
pub(crate) fn refused_reply(
    step: &'static str,
    failed: Rejection,
    verbose: bool,
    status: u16,
) -> Fault {
    let kind = if failed.server { Kind::ProcessingFailed } else { Kind::ReplyInvalid };
    // The exception is a coding that is not supported: the client may request another one.
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
    let Rejection { text, server, separate_texts } = failed;
    let plain = separate_texts.map(|told| told.client);
    let detail = verbose.then(|| plain.as_ref().unwrap_or(&text).clone());
    let fault = Fault { detail, ..Fault::new(kind, cause) };
    fault.with_processing(ProcessingFault { step, text, plain, server, backend_status, verbose })
}
