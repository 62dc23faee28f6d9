//! The paths of hubs and queues.

use crate::access::{self, Operator};
use crate::extract::{ControlState, parameter};
use crate::problem::Problem;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use axum::{Extension, Json};
use serde_json::Value;

pub(crate) async fn all(State(control): ControlState) -> Result<Json<Value>, Problem> {
    control.hubs().await.map(Json).map_err(Problem::from)
}

pub(crate) async fn one(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    control.hub(&name).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn subscriptions(
    State(control): ControlState,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let after = after(&uri)?;
    control.subscriptions(&name, after.as_deref()).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn remove_subscription(
    State(control): ControlState,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    control.remove_subscription(&name, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn dead(
    State(control): ControlState,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let after = after(&uri)?;
    control.dead(&name, after.as_deref()).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn dead_event(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    control.dead_event(&name, &id).await.map(|event| shown(event, &operator)).map_err(Problem::from)
}

/// A message as an operator may see it.
fn shown(mut message: Value, operator: &Operator) -> Json<Value> {
    if !operator.sees_bodies() {
        access::without_bodies(&mut message);
    }
    Json(message)
}

pub(crate) async fn retry_all(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    control.retry_all_dead(&name).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn remove_all(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    control.remove_all_dead(&name).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn pause(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    control.pause_hub(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn resume(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    control.resume_hub(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn retry(
    State(control): ControlState,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    control.retry_dead(&name, &id).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn remove_dead(
    State(control): ControlState,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    control.remove_dead(&name, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn queues(State(control): ControlState) -> Result<Json<Value>, Problem> {
    control.queues().await.map(Json).map_err(Problem::from)
}

pub(crate) async fn queue(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    control.queue(&name).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn dead_messages(
    State(control): ControlState,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    control.dead_messages(&name, after(&uri)?.as_deref()).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn retry_message(
    State(control): ControlState,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    control.retry_message(&name, &id).await?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn remove_message(
    State(control): ControlState,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    control.remove_message(&name, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn queued_messages(
    State(control): ControlState,
    Path(name): Path<String>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    control.queued_messages(&name, after(&uri)?.as_deref()).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn dead_message(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Json<Value>, Problem> {
    control
        .dead_message(&name, &id)
        .await
        .map(|message| shown(message, &operator))
        .map_err(Problem::from)
}

pub(crate) async fn retry_messages(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    control.retry_messages(&name).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn remove_messages(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    control.remove_messages(&name).await.map(Json).map_err(Problem::from)
}

pub(crate) async fn pause_queue(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    control.pause_queue(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn resume_queue(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    control.resume_queue(&name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// The query parameter `after`: the last item of the previous page.
fn after(uri: &Uri) -> Result<Option<String>, Problem> {
    let Some(value) = parameter(uri, "after") else { return Ok(None) };
    let value = String::from_utf8(kit::percent::decoded(value.as_bytes(), true).into_owned());
    let refused = |_| Problem::new(StatusCode::BAD_REQUEST, "`after` must be text in UTF-8.");
    value.map(Some).map_err(refused)
}
