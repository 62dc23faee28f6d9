//! The part of the API's description about hubs, queues and schedules.

use serde_json::{Value, json};

use crate::openapi_parts::{add_response, by_name, read};

/// Why a dead event may not be shown or delivered again.
const UNREADABLE: &str = "The event cannot be read, since another version of the gateway wrote it";

/// Why a dead message may not be put back.
const NOT_RETRIED: &str =
    "Another request is putting the message back, or the message's record is missing";

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
            "get": conflicting(hub("deadEvent", "Such an event: head, body, times and the fault of each attempt", "200", &["name", "id"]), UNREADABLE),
            "delete": hub("removeDead", "Delete an event that could not be delivered", "204", &["name", "id"]),
        },
        "/hubs/{name}/dead/{id}/retry": {
            "post": conflicting(hub("retryDead", "Deliver such an event again, with all its attempts", "202", &["name", "id"]), UNREADABLE),
        },
    })
}

/// The paths of queues and schedules.
pub(crate) fn queue_paths() -> Value {
    json!({
        "/queues": { "get": queue("queues", "The queues with their depth, numbers of dead messages and the gateway that processes each", "200", &[]) },
        "/queues/{name}": { "get": queue("queue", "One queue", "200", &["name"]) },
        "/queues/{name}/messages": {
            "get": queue("queuedMessages", "The messages that are not processed yet, a page at a time", "200", &["name", "after"]),
        },
        "/queues/{name}/pause": {
            "post": queue("pauseQueue", "Pause the queue: no message is started on any gateway until it is resumed", "204", &["name"]),
        },
        "/queues/{name}/resume": {
            "post": queue("resumeQueue", "Resume the queue", "204", &["name"]),
        },
        "/queues/{name}/dead": {
            "get": queue("deadMessages", "The messages that could not be processed, a page at a time", "200", &["name", "after"]),
            "delete": queue("removeMessages", "Delete all messages that could not be processed, and say how many (`removed`)", "200", &["name"]),
        },
        "/queues/{name}/dead/retry": {
            "post": queue("retryMessages", "Append all such messages to the queue again, in their order and with all their attempts, and say how many (`retried`, `left`)", "200", &["name"]),
        },
        "/queues/{name}/dead/{id}": {
            "get": queue("deadMessage", "Such a message with its head, the beginning of its body, its times and the fault of each attempt; secrets are masked", "200", &["name", "id"]),
            "delete": queue("removeMessage", "Delete a message that could not be processed", "204", &["name", "id"]),
        },
        "/queues/{name}/dead/{id}/retry": {
            "post": conflicting(queue("retryMessage", "Append such a message to its queue again, with all its attempts", "202", &["name", "id"]), NOT_RETRIED),
        },
        "/schedules": { "get": read("schedules", "The schedules with their times, and whether they are paused or running", "application/json") },
        "/schedules/{name}/run": {
            "post": run_schedule(),
        },
        "/schedules/{name}/pause": {
            "post": stored(schedule("pauseSchedule", "Pause the schedule: its times are skipped on all gateways until it is resumed", "204")),
        },
        "/schedules/{name}/resume": {
            "post": stored(schedule("resumeSchedule", "Resume the schedule", "204")),
        },
    })
}

/// An operation on hubs.
fn hub(id: &str, summary: &str, success: &str, parameters: &[&str]) -> Value {
    stored(by_name(id, summary, success, parameters, "There is no such hub, subscription or event"))
}

/// An operation on queues.
fn queue(id: &str, summary: &str, success: &str, parameters: &[&str]) -> Value {
    stored(by_name(id, summary, success, parameters, "There is no such queue or message"))
}

/// An operation on a schedule.
fn schedule(id: &str, summary: &str, success: &str) -> Value {
    by_name(id, summary, success, &["name"], "There is no such schedule")
}

fn run_schedule() -> Value {
    let summary = "Run the schedule now, even if it is paused";
    let operation = schedule("runSchedule", summary, "202");
    let mut operation = conflicting(operation, "A run of this schedule is in progress");
    add_response(&mut operation, "503", "Another gateway runs this schedule; `detail` says which");
    operation
}

/// An operation that needs the store.
fn stored(mut operation: Value) -> Value {
    add_response(&mut operation, "503", "The store is not available or overloaded");
    operation
}

/// An operation that is refused in some states.
fn conflicting(mut operation: Value, why: &str) -> Value {
    add_response(&mut operation, "409", why);
    operation
}
