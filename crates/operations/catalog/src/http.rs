//! Parsed requests of the catalog's interface, and answers in the format of WSO2 API Manager.

use std::net::IpAddr;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use mediation::json_schema::{Document, Schema};
use serde_json::{Value, json};

use crate::object_store::WriteError;

/// A parsed request.
pub(crate) struct CatalogRequest {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) client: IpAddr,
    /// The schema of its JSON body.
    pub(crate) schema: Option<Schema>,
}

/// A refusal of a request.
#[derive(Debug)]
pub(crate) struct Refusal {
    status: StatusCode,
    description: String,
    /// One text for each error.
    errors: Vec<String>,
    headers: Vec<(header::HeaderName, String)>,
    /// The error code in the format of the token endpoint (RFC 6749, 5.2).
    oauth: Option<&'static str>,
}

pub(crate) type Answer = Result<Response, Refusal>;

/// The number of rows in a list, if the request has no `limit`.
const PAGE: usize = 25;

/// The limit of rows in a list. It also applies to a larger `limit`.
const PAGE_MAX: usize = 1000;

/// The limit of errors about a body that an answer lists.
const ERRORS_MAX: usize = 100;

impl CatalogRequest {
    /// The value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        value_of(&self.query, name)
    }

    /// The value of a required query parameter.
    pub(crate) fn required(&self, name: &str) -> Result<&str, Refusal> {
        self.parameter(name)
            .ok_or_else(|| Refusal::bad(format!("The query parameter {name} is missing")))
    }

    /// The body as JSON, validated against the interface's schema if there is one.
    pub(crate) fn described(&self) -> Result<Value, Refusal> {
        let read: Value = serde_json::from_slice(&self.body)
            .map_err(|error| Refusal::bad(format!("The body is not JSON: {error}")))?;
        let Some(schema) = &self.schema else { return Ok(read) };
        let document = Document::read(&self.body).map_err(|why| Refusal::bad(why.to_string()))?;
        if schema.allows(&document) {
            Ok(read)
        } else {
            Err(Refusal::invalid(schema.refusal(&document, true, ERRORS_MAX)))
        }
    }

    /// The body as a JSON object.
    pub(crate) fn json(&self) -> Result<Value, Refusal> {
        let read = self.described()?;
        if read.is_object() {
            Ok(read)
        } else {
            Err(Refusal::bad("The body must be a JSON object"))
        }
    }

    /// The body as form parameters.
    pub(crate) fn form(&self) -> Vec<(String, String)> {
        pairs(&self.body)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        // Harmless: a header that is not text is ignored.
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

/// Parses the parameters of a query or a form.
pub(crate) fn pairs(text: &[u8]) -> Vec<(String, String)> {
    let decoded =
        // Harmless: bytes that are not UTF-8 are replaced, and the result is validated like any other text.
        |part: &[u8]| String::from_utf8_lossy(&kit::percent::decoded(part, true)).into_owned();
    kit::percent::raw_pairs(text).map(|(name, value)| (decoded(name), decoded(value))).collect()
}

/// The value of the first parameter of this name.
pub(crate) fn value_of<'p>(pairs: &'p [(String, String)], name: &str) -> Option<&'p str> {
    pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, description: impl Into<String>) -> Refusal {
        let description = description.into();
        Refusal { status, description, errors: Vec::new(), headers: Vec::new(), oauth: None }
    }

    pub(crate) fn bad(description: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::BAD_REQUEST, description)
    }

    /// 400 with a list of errors.
    pub(crate) fn invalid(errors: Vec<String>) -> Refusal {
        let refusal = Refusal::bad(errors.join("; "));
        Refusal { errors, ..refusal }
    }

    pub(crate) fn missing(what: &str) -> Refusal {
        Refusal::new(StatusCode::NOT_FOUND, format!("Requested {what} does not exist"))
    }

    pub(crate) fn conflict(description: impl Into<String>) -> Refusal {
        Refusal::new(StatusCode::CONFLICT, description)
    }

    /// 503, after which the client may retry.
    pub(crate) fn later(description: &str) -> Refusal {
        let refusal = Refusal::new(StatusCode::SERVICE_UNAVAILABLE, description);
        refusal.with(header::RETRY_AFTER, "1")
    }

    pub(crate) fn unready() -> Refusal {
        Refusal::later("The catalog is not ready")
    }

    /// The refusal of a change that was not stored. `conflict` is the text for a conflict.
    pub(crate) fn unwritten(error: WriteError, conflict: &str) -> Refusal {
        match error {
            WriteError::Conflict => Refusal::conflict(conflict),
            WriteError::Unavailable(why) => {
                tracing::warn!(why, "catalog: the store cannot be reached");
                Refusal::later("The store cannot be reached")
            }
        }
    }

    pub(crate) fn unauthorized(description: &str) -> Refusal {
        let refusal = Refusal::new(StatusCode::UNAUTHORIZED, description);
        refusal.with(header::WWW_AUTHENTICATE, "Bearer realm=\"tidegate\"")
    }

    pub(crate) fn unsupported() -> Refusal {
        Refusal::new(StatusCode::NOT_IMPLEMENTED, "This resource is not supported")
    }

    pub(crate) fn internal(why: &str) -> Refusal {
        tracing::error!(why, "catalog: a request failed");
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "The request could not be processed")
    }

    /// A refusal of the token endpoint.
    pub(crate) fn oauth(status: StatusCode, error: &'static str, why: &str) -> Refusal {
        Refusal { oauth: Some(error), ..Refusal::new(status, why) }
    }

    /// Converts the refusal to the format of the other resources.
    pub(crate) fn plain(self) -> Refusal {
        Refusal { oauth: None, ..self }
    }

    pub(crate) fn with(mut self, name: header::HeaderName, value: impl Into<String>) -> Refusal {
        self.headers.push((name, value.into()));
        self
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let reason = self.status.canonical_reason().unwrap_or("Error");
        let body = match self.oauth {
            Some(error) => json!({ "error": error, "error_description": self.description }),
            None => {
                let error = |text: &String| json!({ "code": self.status.as_u16().to_string(), "message": text, "description": text });
                json!({
                    "code": self.status.as_u16(),
                    "message": reason,
                    "description": self.description,
                    "moreInfo": "",
                    "error": self.errors.iter().map(error).collect::<Vec<_>>(),
                })
            }
        };
        let mut response = self::json(self.status, &body);
        for (name, value) in self.headers {
            // Harmless: all values are texts of the gateway, which are valid in a header.
            if let Ok(value) = HeaderValue::from_str(&value) {
                response.headers_mut().insert(name, value);
            }
        }
        response
    }
}

impl From<WriteError> for Refusal {
    fn from(error: WriteError) -> Refusal {
        Refusal::unwritten(error, "It exists already, or it was changed meanwhile")
    }
}

/// An answer in JSON.
pub(crate) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub(crate) fn ok(body: &Value) -> Answer {
    Ok(json(StatusCode::OK, body))
}

pub(crate) fn created(body: &Value) -> Answer {
    Ok(json(StatusCode::CREATED, body))
}

/// 200 without a body.
pub(crate) fn done() -> Answer {
    Ok(Response::new(Body::empty()))
}

/// Adds the version of the object as its `ETag`.
pub(crate) fn tagged(answer: Answer, version: u64) -> Answer {
    let mut response = answer?;
    // Harmless: digits are valid in a header.
    if let Ok(value) = HeaderValue::from_str(&format!("\"{version}\"")) {
        response.headers_mut().insert(header::ETAG, value);
    }
    Ok(response)
}

/// Refuses a change whose `If-Match` does not name the current version. A request without `If-Match` is accepted.
pub(crate) fn check_match(asked: &CatalogRequest, version: u64) -> Result<(), Refusal> {
    let Some(wanted) = asked.header("if-match") else { return Ok(()) };
    let own = format!("\"{version}\"");
    if wanted.split(',').map(str::trim).any(|tag| tag == "*" || tag == own) {
        Ok(())
    } else {
        Err(Refusal::new(StatusCode::PRECONDITION_FAILED, "It was changed meanwhile"))
    }
}

/// A page of a list, in the format of WSO2 API Manager.
pub(crate) fn list(asked: &CatalogRequest, all: Vec<Value>) -> Answer {
    list_of(asked, &all, |one| Some(one.clone()))
}

/// A page of a list of objects. Only those on the page are read, and objects that were removed meanwhile are left
/// out.
pub(crate) fn list_of<T>(
    asked: &CatalogRequest,
    all: &[T],
    shown: impl Fn(&T) -> Option<Value>,
) -> Answer {
    let number = |name: &str| {
        let count = asked.query.iter().filter(|(known, _)| known == name).count();
        let wrong = || Refusal::bad(format!("{name} must be a number"));
        match asked.parameter(name) {
            _ if count > 1 => Err(wrong()),
            Some(text) => kit::digits::whole::<u32>(text).map(Some).ok_or_else(wrong),
            None => Ok(None),
        }
    };
    let (limit, offset) = (number("limit")?, number("offset")?.unwrap_or(0) as usize);
    let limit = limit.map_or(PAGE, |limit| limit as usize).min(PAGE_MAX);
    let total = all.len();
    // Harmless: the rest is on other pages, to which the answer links.
    let page: Vec<Value> = all.iter().skip(offset).take(limit).filter_map(shown).collect();
    let at = |offset: usize| format!("{}?limit={limit}&offset={offset}", asked.path);
    let next = offset.saturating_add(limit);
    let next = if next < total && limit > 0 { at(next) } else { String::new() };
    let previous = if offset > 0 { at(offset.saturating_sub(limit)) } else { String::new() };
    ok(&json!({
        "count": page.len(),
        "list": page,
        "pagination": {
            "offset": offset, "limit": limit, "total": total, "next": next, "previous": previous,
        },
    }))
}
