//! Paths that show flows, refusals and certificates, and paths that change targets and the level of the log.

use std::time::Duration;

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{StatusCode, Uri};
use control::{Control, LOG_LEVEL_MAX, view};
use serde_json::{Value, json};

use crate::extract::{ControlState, members, parameter, unusable, whole};
use crate::problem::Problem;
use crate::text::Text;

/// The number of refusals in an answer, if the request has no `limit`.
const REFUSALS: usize = 100;

/// How long a log level is set, if the request has no `for`.
const LOG_LEVEL_TIME: Duration = Duration::from_secs(10 * 60);

/// The levels of the log.
const LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];

pub(crate) async fn upstream(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let found = view::upstream_named(&control.plan(), &name);
    found.map(Json).ok_or_else(|| not_there("There is no such upstream."))
}

/// Sets the weight of a target, or stops new requests to it.
pub(crate) async fn set_target(
    State(control): ControlState,
    Path((name, id)): Path<(String, String)>,
    Text(text): Text,
) -> Result<Json<Value>, Problem> {
    const FORM: &str =
        "Send `{ \"weight\": 0 to 65535, \"drain\": true or false }`, one of them or both.";
    let asked = members(&text, &["weight", "drain"], FORM)?;
    let weight = asked.get("weight").map(|weight| {
        // Harmless: any other value is refused.
        whole(weight).and_then(|weight| u16::try_from(weight).ok()).ok_or_else(|| unusable(FORM))
    });
    let drain = asked.get("drain").map(|drain| drain.as_bool().ok_or_else(|| unusable(FORM)));
    let (weight, drain) = (weight.transpose()?, drain.transpose()?);
    if weight.is_none() && drain.is_none() {
        return Err(unusable(FORM));
    }
    let set = control.set_target(&name, &id, weight, drain).await;
    set.map(Json).map_err(Problem::from)
}

pub(crate) async fn flows(State(control): ControlState) -> Json<Value> {
    Json(view::flows(&control.plan(), control.telemetry()))
}

pub(crate) async fn flow(
    State(control): ControlState,
    Path(name): Path<String>,
) -> Result<Json<Value>, Problem> {
    let found = view::flow(&control.plan(), control.telemetry(), &name);
    found.map(Json).ok_or_else(|| not_there("There is no such flow."))
}

/// The last refused exchanges.
pub(crate) async fn refusals(
    State(control): ControlState,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let limit = parameter(&uri, "limit").map_or(Ok(REFUSALS), |limit| {
        let wrong = || Problem::new(StatusCode::BAD_REQUEST, "`limit` must be a whole number.");
        kit::digits::whole::<usize>(limit).ok_or_else(wrong)
    })?;
    Ok(Json(view::refusals(control.telemetry(), limit)))
}

pub(crate) async fn certificates(State(control): ControlState) -> Json<Value> {
    Json(view::certificates(&control.plan()))
}

/// The level of the program's log, if one was set.
pub(crate) async fn log(State(control): ControlState) -> Json<Value> {
    Json(level(&control))
}

/// Sets the program's log level for a while.
pub(crate) async fn set_log(
    State(control): ControlState,
    Text(text): Text,
) -> Result<Json<Value>, Problem> {
    const FORM: &str = "Send `{ \"level\": \"debug\", \"for\": \"10m\" }` for at most a day, or `{ \"level\": null }`.";
    let asked = members(&text, &["level", "for"], FORM)?;
    let time = match asked.get("for") {
        None => LOG_LEVEL_TIME,
        Some(time) => {
            // Harmless: a text that is not a duration is refused.
            let time = time.as_str().and_then(|text| control::duration(text).ok());
            time.ok_or_else(|| unusable(FORM))?
        }
    };
    let is_good = !time.is_zero() && time <= LOG_LEVEL_MAX;
    let level = match asked.get("level") {
        Some(Value::Null) => None,
        Some(Value::String(level)) if LEVELS.contains(&level.as_str()) => Some(level.as_str()),
        _ => return Err(unusable(&format!("{FORM} The levels are {}.", LEVELS.join(", ")))),
    };
    if !is_good {
        return Err(unusable(FORM));
    }
    control.set_log_level(level, time).map_err(|why| Problem::new(StatusCode::CONFLICT, why))?;
    Ok(Json(self::level(&control)))
}

fn level(control: &Control) -> Value {
    let set = control.log_level();
    let until = set.as_ref().map(|(_, until)| kit::calendar::rfc3339(*until));
    json!({ "level": set.map(|(level, _)| level), "until": until })
}

fn not_there(what: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, what)
}
