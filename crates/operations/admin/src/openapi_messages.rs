//! The part of the API's description about hubs, queues and schedules.

use serde_json::{Value, json};

use crate::openapi::problem;

/// The paths of hubs.
pub(crate) fn hub_paths() -> Value {
    json!({
        "/hubs": { "get": hub("hubs", "The hubs with their numbers of subscriptions and dead events, and the gateways that share their deliveries", "200", &[]) },
        "/hubs/{name}": { "get": hub("hub", "One hub", "200", &["name"]) },
        "/hubs/{name}/subscriptions": {
            "get": hub("subscriptions", "Its subscriptions, a page at a time", "200", &["name", "after"]),
        },
        "/hubs/{name}/subscriptions/{id}": {
            "delete": hub("removeSubscription", "Remove a subscription without verification", "204", &["name", "id"]),
        },
        "/hubs/{name}/dead": {
            "get": hub("dead", "The events that could not be delivered, a page at a time", "200", &["name", "after"]),
            "delete": hub("removeAllDead", "Delete all events that could not be delivered, and say how many (`removed`)", "200", &["name"]),
        },
        "/hubs/{name}/dead/retry": {
            "post": hub("retryAllDead", "Deliver all such events again, with all their attempts, and say how many (`retried`, `left`)", "200", &["name"]),
        },
        "/hubs/{name}/pause": {
            "post": hub("pauseHub", "Pause the deliveries: none is started until they are resumed", "204", &["name"]),
        },
        "/hubs/{name}/resume": {
            "post": hub("resumeHub", "Resume the deliveries", "204", &["name"]),
        },
        "/hubs/{name}/dead/{id}": {
            "get": hub("deadEvent", "Such an event: head, body, times and the fault of each attempt", "200", &["name", "id"]),
            "delete": hub("removeDead", "Delete an event that could not be delivered", "204", &["name", "id"]),
        },
        "/hubs/{name}/dead/{id}/retry": {
            "post": hub("retryDead", "Deliver such an event again, with all its attempts", "202", &["name", "id"]),
        },
    })
}

/// The paths of queues and schedules.
pub(crate) fn queue_paths() -> Value {
    json!({
        "/queues": { "get": hub("queues", "The queues with their depth, numbers of dead messages and the gateway that processes each", "200", &[]) },
        "/queues/{name}": { "get": hub("queue", "One queue", "200", &["name"]) },
        "/queues/{name}/messages": {
            "get": hub("queuedMessages", "The messages that are not processed yet, a page at a time", "200", &["name", "after"]),
        },
        "/queues/{name}/pause": {
            "post": hub("pauseQueue", "Pause the queue: no message is started on any gateway until it is resumed", "204", &["name"]),
        },
        "/queues/{name}/resume": {
            "post": hub("resumeQueue", "Resume the queue", "204", &["name"]),
        },
        "/queues/{name}/dead": {
            "get": hub("deadMessages", "The messages that could not be processed, a page at a time", "200", &["name", "after"]),
            "delete": hub("removeMessages", "Delete all messages that could not be processed, and say how many (`removed`)", "200", &["name"]),
        },
        "/queues/{name}/dead/retry": {
            "post": hub("retryMessages", "Append all such messages to the queue again, in their order and with all their attempts, and say how many (`retried`, `left`)", "200", &["name"]),
        },
        "/queues/{name}/dead/{id}": {
            "get": hub("deadMessage", "Such a message with its head, the beginning of its body, its times and the fault of each attempt; secrets are masked", "200", &["name", "id"]),
            "delete": hub("removeMessage", "Delete a message that could not be processed", "204", &["name", "id"]),
        },
        "/queues/{name}/dead/{id}/retry": {
            "post": hub("retryMessage", "Append such a message to its queue again, with all its attempts", "202", &["name", "id"]),
        },
        "/schedules": { "get": hub("schedules", "The schedules with their times, and whether they are paused or running", "200", &[]) },
        "/schedules/{name}/run": {
            "post": hub("runSchedule", "Run the schedule now, even if it is paused; 409 while a run is in progress", "202", &["name"]),
        },
        "/schedules/{name}/pause": {
            "post": hub("pauseSchedule", "Pause the schedule: its times are skipped on all gateways until it is resumed", "204", &["name"]),
        },
        "/schedules/{name}/resume": {
            "post": hub("resumeSchedule", "Resume the schedule", "204", &["name"]),
        },
    })
}

/// An operation on hubs, queues, schedules, upstreams, flows or routes. Its parameter `after` is in the query, and the others are in
/// the path.
pub(crate) fn hub(id: &str, summary: &str, success: &str, parameters: &[&str]) -> Value {
    let parameters = parameters.iter().map(|name| match *name {
        "after" => json!({
            "name": "after", "in": "query", "schema": { "type": "string" },
            "description": "`next` of the previous page",
        }),
        name => json!({
            "name": name, "in": "path", "required": true, "schema": { "type": "string" },
        }),
    });
    let content = match success {
        "200" => json!({ "description": summary, "content": { "application/json": {} } }),
        _ => json!({ "description": summary }),
    };
    json!({
        "operationId": id,
        "summary": summary,
        "parameters": parameters.collect::<Vec<_>>(),
        "responses": {
            success: content,
            "403": { "$ref": "#/components/responses/Forbidden" },
            "404": problem("There is no such hub, queue, schedule, subscription, event or message"),
            "503": problem("The store is not available or overloaded"),
        },
    })
}
