//! The list of paths. A new path also has to be described in `openapi.json`; a test compares the two.

use crate::text::ARCHIVE_BYTES_MAX;
use crate::{access, answer, configuration, dashboard, hubs, live, look, schedules};
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, delete, get, patch, post, put};
use control::Control;
use std::sync::Arc;

/// The paths for probes and scrapers, which also have a separate socket.
pub(crate) fn status() -> [(&'static str, MethodRouter<Arc<Control>>); 3] {
    [
        ("/healthz", get(answer::healthz)),
        ("/readyz", get(answer::readyz)),
        ("/metrics", get(answer::metrics)),
    ]
}

pub(crate) fn all() -> impl Iterator<Item = (&'static str, MethodRouter<Arc<Control>>)> {
    status().into_iter().chain(own()).chain(of_traffic()).chain(of_messages())
}

/// Paths of the gateway itself.
fn own() -> [(&'static str, MethodRouter<Arc<Control>>); 28] {
    [
        ("/", get(dashboard::page)),
        ("/dashboard/{file}", get(dashboard::file)),
        ("/operator", get(access::show_operator)),
        (
            "/config",
            get(configuration::get)
                .put(configuration::put)
                .layer(DefaultBodyLimit::max(ARCHIVE_BYTES_MAX)),
        ),
        (
            "/config/check",
            post(configuration::check).layer(DefaultBodyLimit::max(ARCHIVE_BYTES_MAX)),
        ),
        (
            "/config/diff",
            post(configuration::compare).layer(DefaultBodyLimit::max(ARCHIVE_BYTES_MAX)),
        ),
        ("/config/history", get(configuration::history)),
        ("/config/history/{generation}", get(configuration::past)),
        ("/config/history/{generation}/diff", get(configuration::past_differences)),
        ("/config/history/{generation}/rollback", post(configuration::roll_back)),
        ("/bundles", get(answer::bundles)),
        (
            "/bundles/{name}",
            put(answer::put_bundle)
                .delete(answer::delete_bundle)
                .layer(DefaultBodyLimit::max(ARCHIVE_BYTES_MAX)),
        ),
        ("/plan", get(answer::plan)),
        ("/routes", get(answer::routes)),
        ("/upstreams", get(answer::upstreams)),
        ("/upstreams/{name}", get(look::upstream)),
        ("/upstreams/{name}/targets/{id}", patch(look::set_target)),
        ("/flows", get(look::flows)),
        ("/flows/{name}", get(look::flow)),
        ("/refusals", get(look::refusals)),
        ("/certificates", get(look::certificates)),
        ("/log", get(look::log).put(look::set_log)),
        ("/revoked", get(answer::revoked).post(answer::revoke)),
        ("/revoked/{jti}", delete(answer::take_back)),
        ("/trace", get(answer::trace).post(answer::ask_trace)),
        ("/.well-known/jwks.json", get(answer::own_keys)),
        ("/openapi.json", get(answer::openapi)),
        ("/schema.json", get(answer::schema)),
    ]
}

/// Paths of the traffic.
fn of_traffic() -> [(&'static str, MethodRouter<Arc<Control>>); 5] {
    [
        ("/traffic", get(live::traffic)),
        ("/traffic/{route}", get(live::traffic_of)),
        ("/tail", get(live::tail)),
        ("/streams", get(live::streams)),
        ("/memory", get(live::memory)),
    ]
}

/// Paths of hubs, queues and schedules.
fn of_messages() -> [(&'static str, MethodRouter<Arc<Control>>); 23] {
    [
        ("/hubs", get(hubs::all)),
        ("/hubs/{name}", get(hubs::one)),
        ("/hubs/{name}/subscriptions", get(hubs::subscriptions)),
        ("/hubs/{name}/subscriptions/{id}", delete(hubs::remove_subscription)),
        ("/hubs/{name}/pause", post(hubs::pause)),
        ("/hubs/{name}/resume", post(hubs::resume)),
        ("/hubs/{name}/dead", get(hubs::dead).delete(hubs::remove_all)),
        ("/hubs/{name}/dead/retry", post(hubs::retry_all)),
        ("/hubs/{name}/dead/{id}", get(hubs::dead_event).delete(hubs::remove_dead)),
        ("/hubs/{name}/dead/{id}/retry", post(hubs::retry)),
        ("/queues", get(hubs::queues)),
        ("/queues/{name}", get(hubs::queue)),
        ("/queues/{name}/messages", get(hubs::queued_messages)),
        ("/queues/{name}/pause", post(hubs::pause_queue)),
        ("/queues/{name}/resume", post(hubs::resume_queue)),
        ("/queues/{name}/dead", get(hubs::dead_messages).delete(hubs::remove_messages)),
        ("/queues/{name}/dead/retry", post(hubs::retry_messages)),
        ("/queues/{name}/dead/{id}", get(hubs::dead_message).delete(hubs::remove_message)),
        ("/queues/{name}/dead/{id}/retry", post(hubs::retry_message)),
        ("/schedules", get(schedules::all)),
        ("/schedules/{name}/run", post(schedules::run)),
        ("/schedules/{name}/pause", post(schedules::pause)),
        ("/schedules/{name}/resume", post(schedules::resume)),
    ]
}
