//! Cross-origin requests (CORS) from the web pages of `admin.origins`.

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::Admin;

/// The origin of the page that sent a request, if it may call the API.
pub(crate) fn allowed(admin: Option<&Admin>, headers: &HeaderMap) -> Option<HeaderValue> {
    let mut lines = headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (lines.next(), lines.next()) else { return None };
    // Harmless: an origin that is not text is not in the list.
    let text = origin.to_str().ok()?;
    let listed = admin?.origins.iter().any(|listed| listed.eq_ignore_ascii_case(text));
    listed.then(|| origin.clone())
}

/// True for a preflight request of a browser.
pub(crate) fn is_preflight(method: &Method, headers: &HeaderMap) -> bool {
    *method == Method::OPTIONS && headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight request.
pub(crate) fn preflight() -> Response {
    let lines = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD, POST, PUT, PATCH, DELETE"),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "accept, authorization, content-type, if-match, x-request-id",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, lines).into_response()
}

/// Allows the page to read the answer.
pub(crate) fn expose(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    let exposed = HeaderValue::from_static("etag, retry-after, www-authenticate, x-request-id");
    headers.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, exposed);
    headers.append(header::VARY, HeaderValue::from_static("Origin"));
}
