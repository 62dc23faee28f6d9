//! The description of the dashboard, and of the paths that show current traffic.

use serde_json::{Value, json};

use crate::openapi_parts::{by_name, problem, read};

pub(crate) fn live_paths() -> Value {
    json!({
        "/": { "get": read("page", "The dashboard", "text/html") },
        "/dashboard/{file}": { "get": file() },
        "/operator": { "get": read("operator", "The name and the role of the operator who asks", "application/json") },
        "/traffic": { "get": read("traffic", "Requests, errors and times of the last hour: of all routes in steps of 30 seconds, and of each route", "application/json") },
        "/traffic/{route}": { "get": by_name("trafficOf", "Requests, errors and times of one route in steps of 30 seconds", "200", &["route"], "There is no such route") },
        "/tail": { "get": tail() },
        "/streams": { "get": read("streams", "The open streams of each route that has some", "application/json") },
        "/memory": { "get": read("memory", "The memory of messages and of the process, and what each worker has", "application/json") },
    })
}

fn file() -> Value {
    json!({
        "operationId": "dashboardFile",
        "summary": "A file of the dashboard",
        "parameters": [{ "name": "file", "in": "path", "required": true, "schema": { "type": "string" } }],
        "responses": {
            "200": { "description": "The file", "content": { "text/javascript": {}, "text/css": {}, "image/svg+xml": {} } },
            "403": { "$ref": "#/components/responses/Forbidden" },
            "404": problem("The dashboard has no such file"),
        },
    })
}

fn tail() -> Value {
    json!({
        "operationId": "tail",
        "summary": "The exchanges that have ended since the previous request. The first request finds none and returns the number to continue from; the gateway keeps exchanges for ten seconds after each request",
        "parameters": [{
            "name": "after", "in": "query", "schema": { "type": "integer", "minimum": 0 },
            "description": "The `next` of the previous request",
        }],
        "responses": {
            "200": { "description": "The exchanges, and `left_out`: the number of exchanges that were not kept because there were too many", "content": { "application/json": {} } },
            "400": problem("`after` is not a whole number"),
            "403": { "$ref": "#/components/responses/Forbidden" },
        },
    })
}
