//! Current activity as JSON: the traffic of the last hour, ended exchanges, open streams, workers and memory.

use plan::Plan;
use serde_json::{Map, Value, json};
use std::time::Duration;
use telemetry::{
    EndedExchange, RouteStreams, RouteTraffic, StreamKind, TailPage, Telemetry, TrafficNumbers,
    TrafficPoint, WorkerReading,
};

/// The traffic of all routes.
pub fn traffic(telemetry: &Telemetry) -> Value {
    let (points, routes) = telemetry.traffic();
    let mut told = series(&points);
    if let Some(told) = told.as_object_mut() {
        told.insert("routes".to_owned(), routes.iter().map(route).collect());
    }
    told
}

/// The traffic of one route, if it is in service or had requests.
pub fn traffic_of(plan: &Plan, telemetry: &Telemetry, route: &str) -> Option<Value> {
    let points = telemetry.traffic_of(route);
    let is_known = plan.table.routes().any(|(_, known)| known.name == route);
    if !is_known && points.iter().all(|point| point.numbers.requests == 0) {
        return None;
    }
    let mut told = series(&points);
    told.as_object_mut()?.insert("route".to_owned(), json!(route));
    Some(told)
}

/// Lists with one item for each sample, oldest first. Lists take an eighth of the space of objects.
fn series(points: &[TrafficPoint]) -> Value {
    let list = |of: &dyn Fn(&TrafficPoint) -> Value| -> Value { points.iter().map(of).collect() };
    let numbers = |of: fn(&TrafficNumbers) -> u64| list(&|point| json!(of(&point.numbers)));
    let times =
        |of: fn(&TrafficNumbers) -> Option<Duration>| list(&|point| millis(of(&point.numbers)));
    json!({
        "times": list(&|point| json!(kit::calendar::rfc3339(point.begin))),
        "total": {
            "seconds": list(&|point| json!(point.seconds)),
            "requests": numbers(|numbers| numbers.requests),
            "client_errors": numbers(|numbers| numbers.client_errors),
            "server_errors": numbers(|numbers| numbers.server_errors),
            "p50_ms": times(|numbers| numbers.p50),
            "p95_ms": times(|numbers| numbers.p95),
            "p99_ms": times(|numbers| numbers.p99),
        },
    })
}

fn route(traffic: &RouteTraffic) -> Value {
    let numbers = &traffic.numbers;
    json!({
        "name": &*traffic.name,
        "requests": numbers.requests,
        "rate": traffic.rate,
        "client_errors": numbers.client_errors,
        "server_errors": numbers.server_errors,
        "p50_ms": millis(numbers.p50),
        "p95_ms": millis(numbers.p95),
        "p99_ms": millis(numbers.p99),
    })
}

/// The exchanges that ended after the one with this number.
pub fn tail(telemetry: &Telemetry, after: Option<u64>) -> Value {
    let TailPage { exchanges, next, left_out } =
        telemetry.tail().read_after(after, kit::clock::wall());
    let exchanges: Vec<Value> =
        exchanges.iter().map(|(number, exchange)| ended(*number, exchange)).collect();
    json!({ "exchanges": exchanges, "next": next, "left_out": left_out })
}

fn ended(number: u64, ended: &EndedExchange) -> Value {
    json!({
        "number": number,
        "time": kit::calendar::rfc3339(ended.time),
        "request_id": ended.request_id,
        "client": ended.client.to_canonical().to_string(),
        "method": ended.method,
        "path": ended.path,
        "route": ended.route,
        "status": ended.status,
        "reply_bytes": ended.reply_bytes,
        "duration_ms": millis(Some(ended.duration)),
        "upstream_ms": millis(Some(ended.upstream_wait)),
        "fault": ended.fault.as_ref().map(|(label, _)| *label),
        "cause": ended.fault.as_ref().map(|(_, cause)| cause),
        "subject": ended.subject,
    })
}

/// The open streams of each route that has any.
pub fn streams(telemetry: &Telemetry) -> Value {
    let one = |streams: &RouteStreams| {
        // Harmless: both arrays have one item for each kind.
        let counts = StreamKind::ALL.iter().zip(streams.open);
        let counts = counts.map(|(kind, open)| (kind.label().to_owned(), json!(open)));
        let route = ("route".to_owned(), json!(streams.route));
        Value::Object(std::iter::once(route).chain(counts).collect::<Map<String, Value>>())
    };
    json!({ "streams": telemetry.open_streams().iter().map(one).collect::<Vec<_>>() })
}

/// The memory of messages and of the process, and the memory, connections and requests of each worker.
pub fn memory(telemetry: &Telemetry) -> Value {
    let worker = |(index, worker): (usize, &WorkerReading)| {
        json!({
            "worker": index.to_string(),
            "memory_bytes": worker.memory_bytes,
            "connections_open": worker.connections_open,
            "requests": worker.requests,
            "panics": worker.panics,
        })
    };
    json!({
        "used_bytes": kit::memory::used(),
        "limit_bytes": kit::memory::limit(),
        "refused": kit::memory::refused(),
        "resident_bytes": telemetry.resident_bytes(),
        "workers": telemetry.worker_readings().iter().enumerate().map(worker).collect::<Vec<_>>(),
    })
}

/// Milliseconds with a precision of microseconds.
fn millis(time: Option<Duration>) -> Value {
    time.map_or(Value::Null, |time| json!((time.as_secs_f64() * 1e6).round() / 1e3))
}
