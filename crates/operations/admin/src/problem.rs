//! Errors of this API as `application/problem+json` (RFC 9457).

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::HubFailure;
use serde_json::{Value, json};

/// The error of a request.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    detail: String,
    /// The complaints, as members of the answer.
    complaints: Option<Value>,
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Problem {
        Problem { status, detail: detail.into(), complaints: None }
    }

    /// A configuration that cannot be used, with all complaints as members of the answer.
    pub(crate) fn complaints(members: Value) -> Problem {
        let complaints = Some(members);
        let detail =
            "The configuration cannot be used; `complaints` says where and why.".to_owned();
        Problem { status: StatusCode::UNPROCESSABLE_ENTITY, detail, complaints }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut body = json!({
            "type": "about:blank",
            "title": self.status.canonical_reason().unwrap_or("Error"),
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        if let (Some(body), Some(Value::Object(members))) = (body.as_object_mut(), self.complaints)
        {
            body.extend(members);
        }
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        (self.status, kind, body.to_string()).into_response()
    }
}

impl From<HubFailure> for Problem {
    fn from(failure: HubFailure) -> Problem {
        match failure {
            HubFailure::Unknown(what) => Problem::new(StatusCode::NOT_FOUND, what),
            HubFailure::Conflict(why) => Problem::new(StatusCode::CONFLICT, why),
            HubFailure::Unavailable(why) => Problem::new(StatusCode::SERVICE_UNAVAILABLE, why),
        }
    }
}
