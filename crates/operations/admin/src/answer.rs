//! The answer of each path.

use crate::access::{self, Operator};
use crate::extract::{ControlState, members, unusable, whole};
use crate::problem::Problem;
use crate::text::{Archive, Text};
use crate::{places, scrape};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use control::{Control, Failure, Outcome, view};
use serde_json::{Value, json};
use std::sync::LazyLock;
use telemetry::trace::{TRACES_MAX, TraceRequest};

/// Reports that the process is alive. Nothing else is checked.
pub(crate) async fn healthz() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

/// Reports whether new clients should connect here. An unavailable store is reported, but does not count: all gateways share it, so
/// no other gateway could serve the requests that need the store. All other requests work.
pub(crate) async fn readyz(State(control): ControlState) -> Result<Json<Value>, Problem> {
    if let Some(why) = control.not_ready() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, why));
    }
    let generation = control.status().generation;
    Ok(Json(if control.is_store_unavailable() {
        json!({ "status": "ready", "generation": generation, "store": "away" })
    } else {
        json!({ "status": "ready", "generation": generation })
    }))
}

/// The metrics. A separate thread renders them while they are sent, so that even a large number of metrics neither delays `/healthz` nor
/// has to fit into memory at once.
///
/// OpenMetrics is used only if the scraper requests it, as Prometheus does. Other readers, such as `promtool`, know only the older
/// format.
pub(crate) async fn metrics(State(control): ControlState, headers: HeaderMap) -> Response {
    let Some(place) = places::of_scrape() else { return places::none_left() };
    let format = scrape::format(&headers);
    let body = scrape::body(control, format, place);
    let lines = [(header::CONTENT_TYPE, format.content_type()), (header::VARY, "Accept")];
    (lines, body).into_response()
}

/// The answer to a change.
pub(crate) fn changed(control: &Control, outcome: Outcome) -> Value {
    let (generation, changed, unwritten) = match outcome {
        Outcome::Serving(generation) => (generation, true, None),
        Outcome::Unwritten(generation, why) => (generation, true, Some(why)),
        Outcome::Unchanged(generation) => (generation, false, None),
    };
    let warnings = control.status().warnings;
    let told = json!({ "generation": generation, "changed": changed, "unwritten": unwritten });
    view::with_complaints(told, "warnings", &warnings)
}

/// The bundles.
pub(crate) async fn bundles(State(control): ControlState) -> Result<Json<Value>, Problem> {
    let bundles = control.bundles().await.map_err(problem)?;
    Ok(Json(view::bundles(&bundles)))
}

/// Puts a bundle into service, all of it or nothing.
pub(crate) async fn put_bundle(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
    Path(name): Path<String>,
    Archive(archive): Archive,
) -> Result<Json<Value>, Problem> {
    let by = operator.changer();
    let (outcome, notes) = control.deploy(name, archive, by).await.map_err(problem)?;
    let mut told = changed(&control, outcome);
    if let Some(told) = told.as_object_mut() {
        told.insert("notes".to_owned(), json!(notes));
    }
    Ok(Json(told))
}

/// Takes a bundle out of service.
pub(crate) async fn delete_bundle(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let outcome = control.take_out(name, operator.changer()).await.map_err(problem)?;
    Ok(Json(changed(&control, outcome)))
}

/// The plan in service, with the state of its configuration.
pub(crate) async fn plan(State(control): ControlState) -> Json<Value> {
    let mut plan = view::plan(&control.plan());
    if let Some(plan) = plan.as_object_mut() {
        let mut status = view::status(&control.status());
        if let Some(status) = status.as_object_mut() {
            status.insert("shared".to_owned(), control.shared_view());
        }
        plan.insert("configuration".to_owned(), status);
    }
    Json(plan)
}

pub(crate) async fn routes(State(control): ControlState) -> Json<Value> {
    Json(view::routes(&control.plan()))
}

pub(crate) async fn upstreams(State(control): ControlState) -> Json<Value> {
    Json(view::upstreams(&control.plan()))
}

/// The requested traces. Bodies of messages are left out for operators who may only read.
pub(crate) async fn trace(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
) -> Json<Value> {
    let mut traces = view::traces(control.telemetry().tracer());
    if !operator.sees_bodies() {
        access::without_bodies(&mut traces);
    }
    Json(traces)
}

/// Requests traces of the next messages that meet the given conditions.
pub(crate) async fn ask_trace(
    State(control): ControlState,
    Text(text): Text,
) -> Result<Json<Value>, Problem> {
    const FORM: &str =
        "Send any of `route`, `flow`, `path`, `request_id` and `count`, which is 1 to 100.";
    let text = if text.trim().is_empty() { "{}" } else { text.as_str() };
    let mut asked = members(text, &["route", "flow", "path", "request_id", "count"], FORM)?;
    let count = match asked.remove("count") {
        None => Some(1),
        // Harmless: the check below refuses any other value.
        Some(count) => whole(&count).and_then(|count| usize::try_from(count).ok()),
    };
    let count = count.filter(|count| (1..=TRACES_MAX).contains(count));
    let count = count.ok_or_else(|| unusable(FORM))?;
    let mut member = |name: &str| match asked.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(unusable(FORM)),
    };
    let wish = TraceRequest {
        route: member("route")?,
        flow: member("flow")?,
        path: member("path")?,
        request_id: member("request_id")?,
        count,
    };
    control.telemetry().tracer().ask(wish);
    Ok(Json(view::traces(control.telemetry().tracer())))
}

/// The revoked tokens.
pub(crate) async fn revoked(State(control): ControlState) -> Json<Value> {
    Json(view::revoked(&control.plan()))
}

/// Revokes a token.
pub(crate) async fn revoke(
    State(control): ControlState,
    Text(text): Text,
) -> Result<Json<Value>, Problem> {
    const FORM: &str = "Send `{ \"jti\": \"...\", \"until\": UNIX_SECONDS }`.";
    // A misspelled member would revoke the token for the wrong time.
    let asked = members(&text, &["jti", "until"], FORM)?;
    let id = asked.get("jti").and_then(Value::as_str).ok_or_else(|| unusable(FORM))?;
    let until = match asked.get("until") {
        None => None,
        Some(until) => {
            let wrong = || unusable("`until` must be a time in whole seconds since 1970.");
            Some(whole(until).ok_or_else(wrong)?)
        }
    };
    match control.revoke(id, until) {
        Ok(until) => Ok(Json(json!({ "jti": id, "until": until }))),
        Err(why) => Err(unusable(&why)),
    }
}

/// Undoes a revocation.
pub(crate) async fn take_back(
    State(control): ControlState,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    if control.undo_revocation(&id) {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Problem::new(StatusCode::NOT_FOUND, "That token is not revoked."))
    }
}

/// The public keys of the tokens that the gateway signs.
pub(crate) async fn own_keys(State(control): ControlState) -> Response {
    let keys = control.plan().own_keys.to_string();
    ([(header::CONTENT_TYPE, "application/jwk-set+json")], keys).into_response()
}

/// The description of this API.
pub(crate) async fn openapi() -> Json<Value> {
    Json(crate::openapi::document())
}

/// The schema of the configuration, for editors.
pub(crate) async fn schema() -> Response {
    // The schema never changes, and generating it takes a while.
    static SCHEMA: LazyLock<String> = LazyLock::new(|| control::json_schema().to_string());
    ([(header::CONTENT_TYPE, "application/schema+json")], SCHEMA.as_str()).into_response()
}

pub(crate) async fn no_such_path(uri: Uri) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        format!("There is no {}; /openapi.json lists all paths.", uri.path()),
    )
}

pub(crate) async fn no_such_status(uri: Uri) -> Problem {
    let what =
        format!("There is no {}; this socket has /healthz, /readyz and /metrics.", uri.path());
    Problem::new(StatusCode::NOT_FOUND, what)
}

pub(crate) async fn no_such_method(method: Method, uri: Uri) -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, format!("{} does not allow {method}.", uri.path()))
}

pub(crate) fn problem(failure: Failure) -> Problem {
    match failure {
        Failure::Complaints(report) => {
            Problem::complaints(view::with_complaints(json!({}), "complaints", &report))
        }
        // The configuration is correct, but its environment is not: an address it names is taken, or the disk is read-only.
        Failure::Unwritable(_) | Failure::Unpublished(_) | Failure::Unchecked(_) => {
            Problem::new(StatusCode::CONFLICT, failure.to_string())
        }
        Failure::Invalid(_) | Failure::BadName(_) | Failure::FilesMissing(_) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, failure.to_string())
        }
        Failure::NoBundle(_) | Failure::NoGeneration(_) => {
            Problem::new(StatusCode::NOT_FOUND, failure.to_string())
        }
        Failure::TooLarge(_) => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, failure.to_string()),
        Failure::Stale => Problem::new(StatusCode::PRECONDITION_FAILED, failure.to_string()),
        Failure::Internal(why) => internal(&why),
    }
}

pub(crate) fn internal(why: &dyn std::fmt::Display) -> Problem {
    tracing::error!(%why, "the admin API failed");
    Problem::new(
        StatusCode::INTERNAL_SERVER_ERROR,
        "The gateway failed to do this; its log says why.",
    )
}
