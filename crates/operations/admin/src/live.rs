//! Paths that show current traffic.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use control::view;
use serde_json::Value;

use crate::answer;
use crate::extract::{ControlState, parameter};
use crate::problem::Problem;

/// The traffic of the last hour.
pub(crate) async fn traffic(State(control): ControlState) -> Result<Json<Value>, Problem> {
    beside(move || view::traffic(control.telemetry())).await
}

/// The traffic of one route that is in service or had requests.
pub(crate) async fn traffic_of(
    State(control): ControlState,
    Path(route): Path<String>,
) -> Result<Json<Value>, Problem> {
    let missing = || {
        Problem::new(
            StatusCode::NOT_FOUND,
            "No route has this name, and no request was counted for one.",
        )
    };
    let found = move || view::traffic_of(&control.plan(), control.telemetry(), &route);
    let found = tokio::task::spawn_blocking(found).await;
    found.map_err(|error| answer::internal(&error))?.map(Json).ok_or_else(missing)
}

/// The exchanges that have ended since the previous request.
pub(crate) async fn tail(State(control): ControlState, uri: Uri) -> Result<Json<Value>, Problem> {
    let after = parameter(&uri, "after").map(|after| {
        let wrong = || Problem::new(StatusCode::BAD_REQUEST, "`after` must be a whole number.");
        kit::digits::whole::<u64>(after).ok_or_else(wrong)
    });
    Ok(Json(view::tail(control.telemetry(), after.transpose()?)))
}

/// The open streams of each route.
pub(crate) async fn streams(State(control): ControlState) -> Result<Json<Value>, Problem> {
    beside(move || view::streams(control.telemetry())).await
}

/// The memory of the process and its workers.
pub(crate) async fn memory(State(control): ControlState) -> Result<Json<Value>, Problem> {
    beside(move || view::memory(control.telemetry())).await
}

/// Runs work that takes a while with thousands of routes on another thread, so that `/healthz` does not wait for it.
async fn beside(work: impl FnOnce() -> Value + Send + 'static) -> Result<Json<Value>, Problem> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map(Json).map_err(|error| answer::internal(&error))
}
