//! One request to a callback: an event, an intent verification, or the denial of a subscription.

use std::future::poll_fn;
use std::time::{Duration, UNIX_EPOCH};

use aws_lc_rs::rand;
use fault::{Fault, Kind};
use kit::{clock, scratch};
use message::{Body, Fill, Protocol, Reply, Request, RequestHead};
use policy::{CallTrace, Caller};

use crate::callback;
use crate::compact::CompactSubscription;
use crate::event::Event;
use crate::places::RequestPermit;
use crate::signature::{Algorithm, SigningKey};
use crate::subscription::Intent;

/// The outcome of sending an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The subscriber accepted it.
    Taken,
    /// The subscriber ends the subscription (410).
    Gone,
    Failed {
        why: String,
        /// The pause that the callback asks for.
        retry_after: Option<Duration>,
    },
}

/// The answer of a callback to an intent verification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntentAnswer {
    Confirmed,
    /// It refused.
    Refused,
    /// It did not answer in time, or its server failed.
    Silence,
}

/// The size up to which a reply is read, so that its connection can be reused.
const REPLY_BYTES_MAX: usize = 16 * 1024;
/// The time for which a reply is read.
const REPLY_WAIT: Duration = Duration::from_secs(1);

/// The `User-Agent` of requests to callbacks. Some servers refuse requests without one.
const USER_AGENT: &[u8] = concat!("tidegate/", env!("CARGO_PKG_VERSION")).as_bytes();

/// The number of random bytes of a challenge, which is sent in hex.
const CHALLENGE_BYTES: usize = 16;

/// Sends an event. Returns the outcome with the status of the reply. Without a reply the status is that of the fault, or 0 if the request
/// could not be made.
pub(crate) async fn event(
    permit: &RequestPermit,
    caller: &Caller,
    known: &CompactSubscription,
    algorithm: Algorithm,
    timeout: Duration,
    event: &Event,
    trace: Option<CallTrace<'_>>,
) -> (u16, SendOutcome) {
    let request = match delivery(known, algorithm, event) {
        Ok(request) => request,
        Err(fault) => return (0, SendOutcome::failed(&fault)),
    };
    let deadline = clock::now().checked_add(timeout);
    match permit.origin().send(caller, deadline, request, trace).await {
        Ok(reply) => {
            let status = reply.head.status;
            let retry_after = reply.head.headers.get("retry-after").and_then(retry_after);
            discard(reply).await;
            let sent = match status {
                200..=299 => SendOutcome::Taken,
                410 => SendOutcome::Gone,
                status => SendOutcome::Failed { why: format!("status {status}"), retry_after },
            };
            (status, sent)
        }
        Err(fault) => (fault.kind.status(), SendOutcome::failed(&fault)),
    }
}

impl SendOutcome {
    fn failed(fault: &Fault) -> SendOutcome {
        SendOutcome::Failed { why: fault.to_string(), retry_after: None }
    }
}

/// The time that a `Retry-After` names: seconds, or a date (RFC 9110, 10.2.3).
fn retry_after(value: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(value).ok()?.trim();
    if let Some(seconds) = kit::digits::saturating(text.as_bytes()) {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
    Some(date.saturating_sub(clock::wall()))
}

fn delivery(
    known: &CompactSubscription,
    algorithm: Algorithm,
    event: &Event,
) -> Result<Request, Fault> {
    let target = callback::split(&known.callback).map(|(_, target)| target);
    let target = target.ok_or_else(|| Fault::new(Kind::Internal, "no callback"))?;
    let mut head = RequestHead::new(Protocol::Http11, b"POST", target.as_bytes());
    let headers = &mut head.headers;
    headers.add_known("User-Agent", USER_AGENT);
    let unwritable = |_| Fault::new(Kind::Internal, "a header that cannot be written");
    if !event.representation.content_type.is_empty() {
        headers.add("Content-Type", &event.representation.content_type).map_err(unwritable)?;
    }
    for (name, value) in event.representation.lines() {
        // Harmless: a name is a token, which is ASCII.
        let name = std::str::from_utf8(name).unwrap_or_default();
        headers.add(name, value).map_err(unwritable)?;
    }
    headers.add("Link", known.common.links.as_bytes()).map_err(unwritable)?;
    if let Some(secret) = &known.secret {
        let signature = SigningKey::new(algorithm, secret.as_bytes()).sign(&event.body);
        headers.add_known("X-Hub-Signature", signature.as_bytes());
    }
    headers.add_known("X-Hub-Event-Id", event.id.to_string().as_bytes());
    if event.body.is_empty() {
        // A POST without a body has a length too (RFC 9110, 8.6): some servers answer 411 otherwise.
        headers.add_known("Content-Length", b"0");
    }
    Ok(Request { head, body: Body::whole(event.body.clone()) })
}

/// Verifies an intent. The callback confirms by a 2xx whose body is the challenge (W3C WebSub, 5.3).
pub(crate) async fn confirmation(
    permit: &RequestPermit,
    caller: &Caller,
    written: &str,
    timeout: Duration,
    intent: &Intent,
) -> IntentAnswer {
    let Some((_, target)) = callback::split(written) else { return IntentAnswer::Refused };
    let Some(challenge) = challenge() else { return IntentAnswer::Refused };
    let parameters = match intent {
        Intent::Subscribe(terms) => format!(
            "hub.mode=subscribe&hub.topic={}&hub.challenge={challenge}&hub.lease_seconds={}",
            escaped(&terms.asked),
            terms.lease_seconds
        ),
        Intent::Unsubscribe(asked) => {
            format!("hub.mode=unsubscribe&hub.topic={}&hub.challenge={challenge}", escaped(asked))
        }
    };
    let target = callback::with_parameters(&target, &parameters);
    let mut head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
    head.headers.add_known("User-Agent", USER_AGENT);
    let deadline = clock::now().checked_add(timeout);
    let answered = async {
        let sent =
            permit.origin().send(caller, deadline, Request { head, body: Body::Empty }, None).await;
        let reply = match sent {
            Ok(reply) if reply.head.status < 500 => reply,
            Ok(_) | Err(_) => return IntentAnswer::Silence,
        };
        if !(200..300).contains(&reply.head.status) {
            return IntentAnswer::Refused;
        }
        match reply.body.gather(challenge.len(), Kind::ReplyTooLarge).await {
            Ok(body) if *body == *challenge.as_bytes() => IntentAnswer::Confirmed,
            Ok(_) | Err(_) => IntentAnswer::Refused,
        }
    };
    // The timeout covers the whole answer with its body.
    tokio::time::timeout(timeout, answered).await.unwrap_or(IntentAnswer::Silence)
}

/// Informs a callback that the hub has ended its subscription (W3C WebSub, 5.2). Returns true if its server answers.
pub(crate) async fn denial(
    permit: &RequestPermit,
    caller: &Caller,
    known: &CompactSubscription,
    timeout: Duration,
    reason: &str,
) -> bool {
    let Some((_, target)) = callback::split(&known.callback) else { return false };
    let asked = match (&*known.common.asked, known.intent.as_deref()) {
        ("", Some(Intent::Subscribe(terms))) => &terms.asked,
        ("", Some(Intent::Unsubscribe(_)) | None) => &*known.common.topic,
        (asked, _) => asked,
    };
    let parameters =
        format!("hub.mode=denied&hub.topic={}&hub.reason={}", escaped(asked), escaped(reason));
    let target = callback::with_parameters(&target, &parameters);
    let mut head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
    head.headers.add_known("User-Agent", USER_AGENT);
    let deadline = clock::now().checked_add(timeout);
    match permit.origin().send(caller, deadline, Request { head, body: Body::Empty }, None).await {
        Ok(reply) => {
            discard(reply).await;
            true
        }
        Err(fault) => {
            tracing::debug!(
                "a subscriber could not be informed that its subscription has ended: {fault}"
            );
            false
        }
    }
}

/// Random text that cannot be guessed.
fn challenge() -> Option<String> {
    let mut bytes = [0; CHALLENGE_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(kit::hex::encoded(&bytes))
}

/// A text as the value of a parameter.
fn escaped(text: &str) -> String {
    kit::percent::encoded(text.as_bytes(), b"")
}

/// Reads a short reply to its end, and closes the connection of a longer or slower one.
async fn discard(mut reply: Reply) {
    if !matches!(reply.body, Body::Stream(_)) {
        return;
    }
    let reading = async {
        let mut left = REPLY_BYTES_MAX;
        while left > 0 {
            let read = poll_fn(|cx| {
                let mut bytes = scratch::lend();
                reply.body.poll_fill(cx, &mut bytes).map_ok(|fill| (fill, bytes.len()))
            });
            match read.await {
                Ok((Fill::More | Fill::Later, len)) => left = left.saturating_sub(len),
                Ok((Fill::End, _)) | Err(_) => return,
            }
        }
    };
    // Harmless: a reply that has not ended by then is dropped with its connection.
    let _ = tokio::time::timeout(REPLY_WAIT, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_for_a_query() {
        assert_eq!(escaped("http://a/b?c=d&e f\u{e9}"), "http%3A%2F%2Fa%2Fb%3Fc%3Dd%26e%20f%C3%A9");
        assert_eq!(escaped("a-b._~9Z"), "a-b._~9Z");
    }

    #[tokio::test(start_paused = true)]
    async fn retry_after_is_a_number_of_seconds_or_a_date() {
        kit::fake::wall(Duration::from_secs(784_111_777 - 30));
        for (text, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("Sun, 06 Nov 1994 08:49:37 GMT", Some(30)),
            ("Sat, 06 Nov 1993 08:49:37 GMT", Some(0)),
            ("-1", None),
            ("1.5", None),
            ("soon", None),
            ("", None),
        ] {
            let read = retry_after(text.as_bytes()).map(|time| time.as_secs());
            assert_eq!(read, seconds, "{text}");
        }
    }

    #[test]
    fn challenges_differ() {
        let (one, other) = (challenge().unwrap(), challenge().unwrap());
        assert!(one != other && one.len() == 32);
    }
}
