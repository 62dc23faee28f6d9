//! An interceptor service (the interceptor contract of Choreo Connect): it answers `handle-request` and `handle-response` with configured
//! answers, and refuses requests that no gateway would send.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use hyper::body::Incoming;
use serde_json::{Value, json};

use super::body::{JSON, Reply, full, gather, refusal, reply};

/// The maximum size of a call, enough for a body of several MiB in Base64 and everything else.
const CALL_BYTES_MAX: usize = 16 << 20;

/// The service's answers.
#[derive(Clone, Debug)]
pub struct Answers {
    /// The answer to `handle-request`, as JSON.
    pub request: String,
    /// The answer to `handle-response`, as JSON.
    pub response: String,
    /// The status of answers. With 200, the answer is sent. 204 means no change. With any other status, the interceptor fails.
    pub status: u16,
    /// Whether the body of the call is added to the answer, in upper case.
    pub uppercase_body: bool,
}

impl Default for Answers {
    fn default() -> Self {
        let adds = |side: &str| json!({ "headersToAdd": { "x-intercepted": side } }).to_string();
        Self {
            request: adds("request"),
            response: adds("response"),
            status: 200,
            uppercase_body: false,
        }
    }
}

pub(super) async fn answer(request: Request<Incoming>, answers: &Answers) -> Reply {
    let (head, body) = request.into_parts();
    let (answer, body_member) = match head.uri.path() {
        "/api/v1/handle-request" => (&answers.request, "requestBody"),
        "/api/v1/handle-response" => (&answers.response, "responseBody"),
        _ => {
            return refusal(
                StatusCode::NOT_FOUND,
                "an interceptor has /api/v1/handle-request and /api/v1/handle-response",
            );
        }
    };
    if head.method != Method::POST {
        return refusal(StatusCode::METHOD_NOT_ALLOWED, "only POST");
    }
    let call = match gather(body, CALL_BYTES_MAX).await {
        Ok(call) => call,
        Err(refusal) => return refusal,
    };
    let status = StatusCode::from_u16(answers.status).unwrap_or(StatusCode::OK);
    if status != StatusCode::OK {
        let mut reply = reply(status, JSON, "");
        *reply.body_mut() = full(Bytes::new());
        return reply;
    }
    // The call must contain an object, even if it is not used.
    if call.first() != Some(&b'{') {
        return refusal(StatusCode::BAD_REQUEST, "not a JSON object");
    }
    if answers.uppercase_body {
        match capitals(&call, answer, body_member) {
            Ok(answer) => reply(status, JSON, answer),
            Err(why) => refusal(StatusCode::BAD_REQUEST, &why),
        }
    } else {
        reply(status, JSON, answer.clone())
    }
}

fn capitals(call: &[u8], answer: &str, body_member: &str) -> Result<String, String> {
    let call: Value = serde_json::from_slice(call).map_err(|error| error.to_string())?;
    let mut answer: Value = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    // Harmless: a missing body is treated as empty.
    let body = call.get(body_member).and_then(Value::as_str).unwrap_or_default();
    let body = STANDARD.decode(body).map_err(|error| error.to_string())?;
    if let Some(members) = answer.as_object_mut() {
        let body = STANDARD.encode(body.to_ascii_uppercase());
        members.insert("body".to_owned(), Value::String(body));
    }
    Ok(answer.to_string())
}
