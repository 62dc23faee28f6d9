//! The paths of the configuration: the current one, new ones and earlier ones.

use axum::extract::{Path, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use control::{ChangeRequest, Condition, Control, Outcome, view};
use serde_json::{Value, json};

use crate::access::{Operator, asks_secrets};
use crate::answer::{changed, problem};
use crate::audit::Changes;
use crate::extract::{ControlState, parameter};
use crate::problem::Problem;
use crate::text::{Configuration, ZIP};

/// The header that tells whether the configuration is a file or a folder.
const KIND: &str = "x-configuration";

/// The configuration in service, as text or as an archive.
pub(crate) async fn get(
    State(control): ControlState,
    uri: Uri,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let with_secrets = shows_secrets(&uri)?;
    let tag = etag(&control.status().hash);
    let kind = if control.is_folder() { "folder" } else { "file" };
    let lines = [
        (header::ETAG.as_str(), tag),
        (header::VARY.as_str(), HeaderValue::from_static("Accept")),
        (KIND, HeaderValue::from_static(kind)),
    ];
    if wants_archive(&headers) {
        let archive = control.shown_archive(with_secrets).await.map_err(problem)?;
        return Ok((lines, [(header::CONTENT_TYPE, ZIP)], archive).into_response());
    }
    let text = control.shown_text(with_secrets).await.map_err(problem)?;
    Ok((lines, [(header::CONTENT_TYPE, "application/yaml")], text).into_response())
}

/// Puts a configuration into service.
pub(crate) async fn put(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
    headers: HeaderMap,
    Configuration(sent): Configuration,
) -> Result<Response, Problem> {
    let demand = demand(operator, &headers)?;
    let (outcome, changes) = control.put(sent, demand).await.map_err(problem)?;
    Ok(done(&control, outcome, changes))
}

/// The answer to a change, with the tag of the configuration that is now in service.
fn done(control: &Control, outcome: Outcome, changes: usize) -> Response {
    let tag = etag(&control.status().hash);
    let told = changed(control, outcome);
    ([(header::ETAG, tag)], Extension(Changes(changes)), Json(told)).into_response()
}

/// Checks a configuration without changing anything.
pub(crate) async fn check(
    State(control): ControlState,
    Configuration(sent): Configuration,
) -> Result<Json<Value>, Problem> {
    let report = control.check(sent).await.map_err(problem)?;
    if report.has_errors() {
        Err(Problem::complaints(view::with_complaints(json!({}), "complaints", &report)))
    } else {
        let told = json!({ "usable": true });
        Ok(Json(view::with_complaints(told, "complaints", &report)))
    }
}

/// Compares a configuration with the one in service without changing anything. The answer has the tag of the one in
/// service.
pub(crate) async fn compare(
    State(control): ControlState,
    Configuration(sent): Configuration,
) -> Result<Response, Problem> {
    let (found, hash) = control.compare(sent).await.map_err(problem)?;
    let told = json!({ "equal": found.is_empty(), "differences": view::differences(&found) });
    Ok(([(header::ETAG, etag(&hash))], Json(told)).into_response())
}

/// The configurations that were in service, newest first.
pub(crate) async fn history(State(control): ControlState) -> Json<Value> {
    Json(control.history().iter().map(control::HistoryEntry::to_json).collect())
}

/// An earlier configuration.
pub(crate) async fn past(
    State(control): ControlState,
    Path(generation): Path<String>,
    uri: Uri,
) -> Result<Response, Problem> {
    let generation = number(&generation)?;
    let text = control.history_text(generation, shows_secrets(&uri)?).await.map_err(problem)?;
    let entry = control.history().into_iter().find(|entry| entry.generation == generation);
    let tag = etag(&entry.map_or_else(String::new, |entry| entry.hash));
    let lines =
        [(header::ETAG, tag), (header::CONTENT_TYPE, HeaderValue::from_static("application/yaml"))];
    Ok((lines, text).into_response())
}

/// The differences from an earlier configuration to another one, or to the one in service.
pub(crate) async fn past_differences(
    State(control): ControlState,
    Path(generation): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let to = parameter(&uri, "to").map(number).transpose()?;
    let found = control.history_differences(number(&generation)?, to).await.map_err(problem)?;
    Ok(Json(json!({ "equal": found.is_empty(), "differences": view::differences(&found) })))
}

/// Puts an earlier configuration into service again.
pub(crate) async fn roll_back(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
    Path(generation): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let demand = demand(operator, &headers)?;
    let (outcome, changes) =
        control.roll_back(number(&generation)?, demand).await.map_err(problem)?;
    Ok(done(&control, outcome, changes))
}

fn number(text: &str) -> Result<u64, Problem> {
    let wrong = || {
        let what = format!("The history has no configuration {text}: generations are numbers.");
        Problem::new(StatusCode::NOT_FOUND, what)
    };
    kit::digits::whole(text).ok_or_else(wrong)
}

fn demand(operator: Operator, headers: &HeaderMap) -> Result<ChangeRequest, Problem> {
    Ok(ChangeRequest { by: operator.name, condition: condition(headers)? })
}

/// The tags of `If-Match` (RFC 9110, 13.1.1). Weak ones never match, so they are left out.
fn condition(headers: &HeaderMap) -> Result<Option<Condition>, Problem> {
    let mut lines = headers.get_all(header::IF_MATCH).iter().peekable();
    if lines.peek().is_none() {
        return Ok(None);
    }
    let mut hashes = Vec::new();
    for line in lines {
        let wrong = || {
            Problem::new(StatusCode::BAD_REQUEST, "`If-Match` must have quoted tags, or be `*`.")
        };
        let line = line.to_str().map_err(|_| wrong())?;
        for tag in line.split(',').map(str::trim).filter(|tag| !tag.is_empty()) {
            if tag == "*" {
                return Ok(Some(Condition::Any));
            }
            let weak = tag.strip_prefix("W/");
            let hash = weak.unwrap_or(tag).strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            let hash = hash.ok_or_else(wrong)?;
            hashes.extend(weak.is_none().then(|| hash.to_owned()));
        }
    }
    Ok(Some(Condition::OneOf(hashes)))
}

/// True if a request asks for secrets. The access control has already checked the role.
fn shows_secrets(uri: &Uri) -> Result<bool, Problem> {
    match parameter(uri, "secrets") {
        None | Some("true" | "false") => Ok(asks_secrets(uri.query())),
        Some(_) => {
            Err(Problem::new(StatusCode::BAD_REQUEST, "`secrets` must be `true` or `false`."))
        }
    }
}

fn etag(hash: &str) -> HeaderValue {
    // Harmless: a hash has only hexadecimal digits, which are valid in a header.
    HeaderValue::from_str(&format!("\"{hash}\"")).unwrap_or(HeaderValue::from_static("\"\""))
}

/// True if `Accept` names ZIP archives.
fn wants_archive(headers: &HeaderMap) -> bool {
    // Harmless: a line that is not text names no format.
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let mut ranges = lines.flat_map(|line| line.split(',')).map(|range| range.split(';').next());
    ranges.any(|name| name.is_some_and(|name| name.trim().eq_ignore_ascii_case(ZIP)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_lists_of_strong_tags() {
        let read = |line: &'static str| {
            let headers =
                HeaderMap::from_iter([(header::IF_MATCH, HeaderValue::from_static(line))]);
            match condition(&headers) {
                Ok(Some(Condition::OneOf(hashes))) => hashes.join(" "),
                Ok(Some(Condition::Any)) => "any".to_owned(),
                Ok(None) => "none".to_owned(),
                Err(_) => "wrong".to_owned(),
            }
        };
        for (line, read_as) in [
            ("\"a\"", "a"),
            ("\"a\", \"b\",", "a b"),
            ("W/\"a\", \"b\"", "b"),
            ("W/\"a\"", ""),
            ("*", "any"),
            ("a", "wrong"),
            ("\"a", "wrong"),
        ] {
            assert_eq!(read(line), read_as, "{line}");
        }
    }
}
