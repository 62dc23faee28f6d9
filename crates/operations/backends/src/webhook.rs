//! A subscriber of a hub (W3C WebSub): it confirms subscriptions, checks the signatures of events, counts events, and fails on demand.
//!
//! The query of a callback determines its behaviour: `?status=503` always fails, `?fail=2` fails the first two attempts of each event,
//! `?confirm=no` confirms nothing. `GET /stats` returns the counts.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::hmac;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::body::{JSON, Reply, TEXT, gather, refusal, reply};

/// The maximum size of an event.
const EVENT_BYTES_MAX: usize = 64 << 20;

/// The maximum number of remembered events, which are used to distinguish retries from first attempts. When it is reached, all are dropped.
const KNOWN_MAX: usize = 1_000_000;

/// The state of a subscriber. Clones share their counts.
#[derive(Clone, Debug, Default)]
pub struct Webhook {
    /// The `hub.secret` of its subscriptions. Events without a valid signature are refused.
    secret: Option<String>,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    questions: u64,
    events: u64,
    bytes: u64,
    failed: u64,
    duplicates: u64,
    unsigned: u64,
    invalid: u64,
    /// The number of attempts by callback and event, and whether one was accepted.
    known: HashMap<(String, String), (u32, bool)>,
}

impl Webhook {
    /// Creates a subscriber, with a secret if given.
    #[must_use]
    pub fn new(secret: Option<String>) -> Self {
        Self { secret, counts: Arc::default() }
    }

    /// Returns the counts: verification requests of the hub, accepted events, and errors.
    #[must_use]
    pub fn statistics(&self) -> Value {
        let counts = self.lock();
        json!({
            "questions": counts.questions,
            "events": counts.events,
            "bytes": counts.bytes,
            "failed": counts.failed,
            "duplicates": counts.duplicates,
            "unsigned": counts.unsigned,
            "invalid": counts.invalid,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an event, and returns the status of the answer.
    fn take(&self, request: &http::request::Parts, body: &[u8]) -> StatusCode {
        // Harmless: a header that is not text counts as absent.
        let header = |name: &str| request.headers.get(name).and_then(|value| value.to_str().ok());
        // Harmless: a request without a query has no parameters.
        let query = request.uri.query().unwrap_or_default();
        let is_valid = match (&self.secret, header("x-hub-signature")) {
            (None, _) => true,
            (Some(_), None) => {
                self.lock().unsigned += 1;
                return StatusCode::UNAUTHORIZED;
            }
            (Some(secret), Some(signature)) => is_signed(secret, signature, body),
        };
        let mut counts = self.lock();
        if !is_valid {
            counts.invalid += 1;
            return StatusCode::FORBIDDEN;
        }
        if counts.known.len() >= KNOWN_MAX {
            counts.known.clear();
        }
        let key =
            // Harmless: an event without an id is identified by its URL alone.
            (request.uri.to_string(), header("x-hub-event-id").unwrap_or_default().to_owned());
        let (tries, was_taken) = counts.known.entry(key).or_default();
        *tries += 1;
        // Harmless: a parameter that is not a number counts as absent.
        let number = |name| parameter(query, name).and_then(|value| value.parse::<u32>().ok());
        // Harmless: an invalid status counts as absent.
        let status = number("status").and_then(|status| u16::try_from(status).ok());
        // Harmless: an invalid status counts as absent.
        let status = status.and_then(|status| StatusCode::from_u16(status).ok());
        let fails = number("fail").is_some_and(|fail| *tries <= fail);
        let status = match status {
            Some(status) => status,
            None if fails => StatusCode::SERVICE_UNAVAILABLE,
            None => StatusCode::OK,
        };
        let is_duplicate = status.is_success() && std::mem::replace(was_taken, true);
        match (status.is_success(), is_duplicate) {
            (false, _) => counts.failed += 1,
            (true, true) => counts.duplicates += 1,
            (true, false) => {
                counts.events += 1;
                // Harmless: the size of a body in memory fits in a `u64`.
                counts.bytes += u64::try_from(body.len()).unwrap_or_default();
            }
        }
        status
    }
}

pub(super) async fn answer(request: Request<Incoming>, webhook: &Webhook) -> Reply {
    let (head, body) = request.into_parts();
    // Harmless: a request without a query has no parameters.
    let query = head.uri.query().unwrap_or_default();
    if head.method == Method::POST {
        return match gather(body, EVENT_BYTES_MAX).await {
            Ok(body) => reply(webhook.take(&head, &body), TEXT, ""),
            Err(refusal) => refusal,
        };
    }
    match parameter(query, "hub.challenge") {
        Some(_) if parameter(query, "confirm").as_deref() == Some("no") => {
            webhook.lock().questions += 1;
            refusal(StatusCode::NOT_FOUND, "not asked for")
        }
        Some(challenge) => {
            webhook.lock().questions += 1;
            reply(StatusCode::OK, TEXT, challenge)
        }
        None if head.uri.path() == "/stats" => {
            reply(StatusCode::OK, JSON, webhook.statistics().to_string())
        }
        None => {
            refusal(StatusCode::NOT_FOUND, "a webhook takes POST, questions of a hub and /stats")
        }
    }
}

fn parameter(query: &str, name: &str) -> Option<String> {
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    pairs.find(|(found, _)| found == name).map(|(_, value)| value.into_owned())
}

/// Returns true if `signature`, `METHOD=HEX`, is a valid signature of the body.
fn is_signed(secret: &str, signature: &str, body: &[u8]) -> bool {
    let Some((method, hex)) = signature.split_once('=') else { return false };
    let algorithm = match method {
        "sha1" => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha256" => hmac::HMAC_SHA256,
        "sha384" => hmac::HMAC_SHA384,
        "sha512" => hmac::HMAC_SHA512,
        _ => return false,
    };
    let tag = hmac::sign(&hmac::Key::new(algorithm, secret.as_bytes()), body);
    kit::hex::encoded(tag.as_ref()).eq_ignore_ascii_case(hex)
}
