//! The list of paths. A new path has to be described in `openapi.json` too; a test compares the two.

use crate::answer;
use crate::text::ARCHIVE_BYTES_MAX;
use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, delete, get, post, put};
use control::Control;
use std::sync::Arc;

pub(crate) fn all() -> [(&'static str, MethodRouter<Arc<Control>>); 18] {
    [
        ("/", get(answer::page)),
        ("/healthz", get(answer::healthz)),
        ("/readyz", get(answer::readyz)),
        ("/metrics", get(answer::metrics)),
        ("/config", get(answer::config).put(answer::put_config)),
        ("/config/check", post(answer::check_config)),
        ("/config/diff", post(answer::compare_config)),
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
        ("/revoked", get(answer::revoked).post(answer::revoke)),
        ("/revoked/{jti}", delete(answer::take_back)),
        ("/trace", get(answer::trace).post(answer::ask_trace)),
        ("/.well-known/jwks.json", get(answer::own_keys)),
        ("/openapi.json", get(answer::openapi)),
        ("/schema.json", get(answer::schema)),
    ]
}
