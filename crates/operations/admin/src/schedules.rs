//! The paths of schedules.

use crate::extract::ControlState;
use crate::problem::Problem;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::Value;

pub(crate) async fn all(State(control): ControlState) -> Json<Value> {
    Json(control.schedules().await)
}

pub(crate) async fn run(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    control.run_schedule(&name)?;
    Ok(StatusCode::ACCEPTED)
}

pub(crate) async fn pause(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    control.pause_schedule(&name, true).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(crate) async fn resume(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<StatusCode, Problem> {
    control.pause_schedule(&name, false).await?;
    Ok(StatusCode::NO_CONTENT)
}
