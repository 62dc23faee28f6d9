//! Faults of the policies that process XML messages. Each fault names the step that refused the message, as Kong's SOAP/XML plugins do.

use fault::{Fault, Kind, ProcessingFault};
use mediation::Rejection;
use message::{GatheredBody, ReplyHead};
use policy::Exchange;

/// The step named for a reply that is refused before its content is processed: for its status, or for a content coding that cannot be
/// removed.
pub(crate) const RESPONSE_GENERAL: &str = "Response - General process failed";

/// Returns true if the body is empty and the reply needs none: it answers a HEAD, or has the status of a one-way operation (202, 204), of a
/// tunnel (101), or of a reply without a body (205, 304).
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
/// An unsupported content coding is the exception: it is a client fault, since the client may request another coding.
pub(crate) fn refused_reply(
    step: &'static str,
    failed: Rejection,
    verbose: bool,
    status: u16,
) -> Fault {
    let kind = if failed.server { Kind::ProcessingFailed } else { Kind::ReplyInvalid };
    // Of the refusals with `RESPONSE_GENERAL`, only that of an unsupported coding blames the client.
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
