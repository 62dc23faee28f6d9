//! One request to a callback: an event, or the question whether it wants what was asked for.

use std::future::poll_fn;
use std::time::Duration;

use aws_lc_rs::rand;
use fault::{Fault, Kind};
use kit::{clock, scratch};
use message::{Body, Fill, Protocol, Reply, Request, RequestHead};
use policy::Caller;

use crate::callback;
use crate::callbacks::UnderWay;
use crate::compact::CompactSubscription;
use crate::event::Event;
use crate::signature::{Algorithm, SigningKey};
use crate::subscription::Intent;

/// What came of sending an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SendOutcome {
    /// The subscriber has it.
    Taken,
    /// The subscriber wants no more.
    Gone,
    Failed(String),
}

/// The most that is read of a reply so that its connection can be used again, and for how long.
const REPLY_BYTES_MAX: usize = 16 * 1024;
const REPLY_WAIT: Duration = Duration::from_secs(1);

/// Bytes of a challenge, before they are written in hex.
const CHALLENGE_BYTES: usize = 16;

/// Sends an event, and gives the status of the reply, or of the fault without one.
pub(crate) async fn event(
    way: &UnderWay,
    caller: &Caller,
    known: &CompactSubscription,
    (algorithm, timeout): (Algorithm, Duration),
    event: &Event,
) -> (u16, SendOutcome) {
    let request = match delivery(known, algorithm, event) {
        Ok(request) => request,
        Err(fault) => return (0, SendOutcome::Failed(fault.to_string())),
    };
    let deadline = clock::now().checked_add(timeout);
    match way.send(caller, deadline, request).await {
        Ok(reply) => {
            let status = reply.head.status;
            read_away(reply).await;
            let sent = match status {
                200..=299 => SendOutcome::Taken,
                410 => SendOutcome::Gone,
                status => SendOutcome::Failed(format!("status {status}")),
            };
            (status, sent)
        }
        Err(fault) => (fault.kind.status(), SendOutcome::Failed(fault.to_string())),
    }
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
    let unwritable = |_| Fault::new(Kind::Internal, "a header that cannot be written");
    if !event.content_type.is_empty() {
        headers.add("Content-Type", &event.content_type).map_err(unwritable)?;
    }
    headers.add("Link", known.common.links.as_bytes()).map_err(unwritable)?;
    if let Some(secret) = &known.secret {
        let signature = SigningKey::new(algorithm, secret.as_bytes()).sign(&event.body);
        headers.add_known("X-Hub-Signature", signature.as_bytes());
    }
    headers.add_known("X-Hub-Event-Id", event.id.to_string().as_bytes());
    if event.body.is_empty() {
        // A POST says so (RFC 9110, 8.6): some servers answer 411 otherwise.
        headers.add_known("Content-Length", b"0");
    }
    Ok(Request { head, body: Body::whole(event.body.clone()) })
}

/// The links of a topic: to the hub, and to itself (W3C WebSub, 4), as one line: some readers see only one.
pub(crate) fn links(base: &str, topic: &str) -> String {
    let hub = if base.matches('/').count() > 2 { base.to_owned() } else { format!("{base}/") };
    format!("<{hub}>; rel=\"hub\", <{base}/topics/{topic}>; rel=\"self\"")
}

/// True if a callback confirms an intent (W3C WebSub, 5.3): with success, and the challenge as all of its body.
pub(crate) async fn is_confirmed(
    way: &UnderWay,
    caller: &Caller,
    (written, timeout): (&str, Duration),
    intent: &Intent,
) -> bool {
    let Some((_, target)) = callback::split(written) else { return false };
    let Some(challenge) = challenge() else { return false };
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
    let head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
    let deadline = clock::now().checked_add(timeout);
    let answered = async {
        let reply = way.send(caller, deadline, Request { head, body: Body::Empty }).await.ok()?;
        if !(200..300).contains(&reply.head.status) {
            return None;
        }
        reply.body.gather(challenge.len(), Kind::ReplyTooLarge).await.ok()
    };
    // The whole answer within the time, however slowly it comes.
    let body = tokio::time::timeout(timeout, answered).await.ok().flatten();
    body.is_some_and(|body| *body == *challenge.as_bytes())
}

/// Tells a callback that its subscription is over, without its wish (W3C WebSub, 5.2).
pub(crate) async fn denial(
    way: &UnderWay,
    caller: &Caller,
    known: &CompactSubscription,
    timeout: Duration,
) {
    let Some((_, target)) = callback::split(&known.callback) else { return };
    let asked = match (&*known.common.asked, known.intent.as_deref()) {
        ("", Some(Intent::Subscribe(terms))) => &terms.asked,
        ("", Some(Intent::Unsubscribe(_)) | None) => &*known.common.topic,
        (asked, _) => asked,
    };
    let parameters = format!(
        "hub.mode=denied&hub.topic={}&hub.reason={}",
        escaped(asked),
        escaped("the subscription was removed")
    );
    let target = callback::with_parameters(&target, &parameters);
    let head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
    let deadline = clock::now().checked_add(timeout);
    match way.send(caller, deadline, Request { head, body: Body::Empty }).await {
        Ok(reply) => read_away(reply).await,
        Err(fault) => tracing::debug!("a subscriber was not told that it gets no more: {fault}"),
    }
}

/// Random text that nobody can guess.
fn challenge() -> Option<String> {
    let mut bytes = [0; CHALLENGE_BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A text as the value of a parameter.
fn escaped(text: &str) -> String {
    kit::percent::encoded(text.as_bytes(), b"")
}

/// Reads a short reply to its end. The connection of a longer or slower one is closed.
async fn read_away(mut reply: Reply) {
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
    // What has not ended by then is dropped with its connection.
    let _late = tokio::time::timeout(REPLY_WAIT, reading).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_for_a_query() {
        assert_eq!(escaped("http://a/b?c=d&e f\u{e9}"), "http%3A%2F%2Fa%2Fb%3Fc%3Dd%26e%20f%C3%A9");
        assert_eq!(escaped("a-b._~9Z"), "a-b._~9Z");
    }

    #[test]
    fn links_name_the_hub_and_the_topic() {
        let expected = "<http://a/news>; rel=\"hub\", <http://a/news/topics/x>; rel=\"self\"";
        assert_eq!(links("http://a/news", "x"), expected);
        assert_eq!(
            links("http://a", "x"),
            "<http://a/>; rel=\"hub\", <http://a/topics/x>; rel=\"self\""
        );
    }

    #[test]
    fn challenges_differ() {
        let (one, other) = (challenge().unwrap(), challenge().unwrap());
        assert!(one != other && one.len() == 32);
    }
}
