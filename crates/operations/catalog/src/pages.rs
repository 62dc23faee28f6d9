//! The catalog's pages: APIs with their plans and documents, applications with their keys, and requests to try.
//!
//! The operators' API serves them at `/catalog/`, beside the dashboard. Their scripts use the catalog's REST interface below
//! `/catalog/rest/` as a user of the catalog. A client without a credential only gets these files.

use std::sync::Arc;

use admin::Peer;
use axum::Router;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderValue, Method, StatusCode, header};
use axum::response::Response;
use axum::routing::{any, get};

use crate::answers::{asked_of, dispatch};
use crate::http::{Answer, Refusal};
use crate::{Catalog, try_out};

/// The files, by their names and types.
const FILES: [(&str, &str, &str); 3] = [
    ("", "text/html; charset=utf-8", include_str!("pages/index.html")),
    ("pages.js", "text/javascript; charset=utf-8", include_str!("pages/pages.js")),
    ("pages.css", "text/css; charset=utf-8", include_str!("pages/pages.css")),
];

/// Only the files above may run, and nothing is loaded from other origins.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of the pages.
pub fn pages(catalog: Arc<Catalog>) -> Router {
    Router::new()
        .route("/catalog", get(moved))
        .route("/catalog/", get(async || file("")))
        .route("/catalog/{name}", get(async |Path(name): Path<String>| file(&name)))
        .route("/catalog/rest/{*path}", any(rest))
        .with_state(catalog)
}

/// Redirects to the path with a slash, which relative URLs of the page need.
async fn moved() -> Response {
    let mut response = Response::default();
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static("/catalog/"));
    response
}

fn file(name: &str) -> Answer {
    let found = FILES.iter().find(|(known, ..)| *known == name);
    let (_, kind, text) = found.ok_or_else(|| Refusal::missing("page"))?;
    let mut response = Response::new((*text).into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    // A newer version of the program may have other files, so caches have to ask for them again.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

async fn rest(
    State(catalog): State<Arc<Catalog>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Answer {
    let (asked, _place) = asked_of(&catalog, peer.address.ip(), request, "/catalog/rest").await?;
    // Public data of the catalog is not public on the operators' socket.
    if asked.header("authorization").is_none() {
        return Err(Refusal::unauthorized("Unauthenticated request"));
    }
    match (&asked.method, asked.path.as_str()) {
        (&Method::POST, "/try") => try_out::answer(&catalog, &asked).await,
        _ => dispatch(&catalog, &asked).await,
    }
}
