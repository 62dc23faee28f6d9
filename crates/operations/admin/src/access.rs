//! The operator who sends a request, and the role that the request needs.
//!
//! Owns the role that each operation needs. `openapi.json` shows the same roles.

use axum::extract::State;
use axum::http::{HeaderMap, Method, header};
use axum::{Extension, Json};
use control::{Admin, NOBODY, Role, tls};
use serde_json::{Value, json};

use crate::bounded::Peer;
use crate::dashboard;
use crate::extract::ControlState;

/// Paths that need no credential: probes, and the public keys of tokens. The files of the dashboard need none either.
const FOR_ANYBODY: [&str; 3] = ["/healthz", "/readyz", "/.well-known/jwks.json"];

/// Paths of POST requests that change nothing.
const QUESTIONS: [&str; 2] = ["/config/check", "/config/diff"];

/// Members of an answer that hold the body of a message.
const BODIES: [&str; 2] = ["body", "base64"];

/// The sender of a request.
#[derive(Debug, Clone)]
pub(crate) struct Operator {
    /// None if no `users` are configured and the client has no certificate.
    pub(crate) name: Option<String>,
    pub(crate) role: Role,
}

impl Operator {
    /// The author that the history records for this operator's changes.
    pub(crate) fn changer(self) -> String {
        self.name.unwrap_or_else(|| NOBODY.to_owned())
    }

    /// True if this operator may see the bodies of messages.
    pub(crate) fn sees_bodies(&self) -> bool {
        self.role >= Role::Write
    }
}

/// The role that an operation needs, or None if it needs no credential.
pub(crate) fn needed(method: &Method, path: &str, query: Option<&str>) -> Option<Role> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if reads && (FOR_ANYBODY.contains(&path) || dashboard::is_file(path)) {
        return None;
    }
    let only_reads = if reads {
        !asks_secrets(query)
    } else {
        *method == Method::POST && QUESTIONS.contains(&path)
    };
    Some(if only_reads { Role::Read } else { Role::Write })
}

/// True if a request asks for the secrets of a configuration. Access control, the audit log and the handlers all call this.
pub(crate) fn asks_secrets(query: Option<&str>) -> bool {
    // Harmless: a request without a query does not ask for secrets.
    query.unwrap_or_default().split('&').any(|pair| pair == "secrets=true")
}

/// The operator who sends a request. None if `users` are configured and the request has no valid credential.
pub(crate) fn operator(
    admin: Option<&Admin>,
    headers: &HeaderMap,
    peer: &Peer,
) -> Option<Operator> {
    let Some(admin) = admin.filter(|admin| !admin.users.is_empty()) else {
        let holder = |der: &[u8]| tls::Certificate::read(der)?.subject;
        let name = peer.certificate().and_then(holder);
        return Some(Operator { name, role: Role::Write });
    };
    let mut lines = headers.get_all(header::AUTHORIZATION).iter();
    let user = match (lines.next(), lines.next()) {
        (None, _) => admin.user_of_certificate(peer.certificate()?),
        // Harmless: a header that is not text has no token.
        (Some(line), None) => admin.user_of_token(bearer(line.to_str().ok()?)?),
        (Some(_), Some(_)) => None,
    };
    user.map(|user| Operator { name: Some(user.name.clone()), role: user.role })
}

/// The name and the role of the operator, and whether the catalog has pages beside the dashboard.
pub(crate) async fn show_operator(
    State(control): ControlState,
    Extension(operator): Extension<Operator>,
) -> Json<Value> {
    let has_catalog = control.plan().catalog.is_some();
    Json(json!({ "name": operator.name, "role": operator.role.name(), "catalog": has_catalog }))
}

fn bearer(line: &str) -> Option<&str> {
    let (scheme, token) = line.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Removes the bodies of messages from an answer, at any depth.
pub(crate) fn without_bodies(answer: &mut Value) {
    match answer {
        Value::Object(members) => {
            for name in BODIES {
                members.remove(name);
            }
            members.values_mut().for_each(without_bodies);
        }
        Value::Array(items) => items.iter_mut().for_each(without_bodies),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_needs_a_role() {
        let (read, write) = (Some(Role::Read), Some(Role::Write));
        for (method, target, role) in [
            (Method::GET, "/healthz", None),
            (Method::HEAD, "/readyz", None),
            (Method::GET, "/", None),
            (Method::GET, "/dashboard/app.js", None),
            (Method::GET, "/dashboard/nosuch", read),
            (Method::GET, "/traffic", read),
            (Method::POST, "/healthz", write),
            (Method::GET, "/metrics", read),
            (Method::GET, "/nosuch", read),
            (Method::GET, "/config", read),
            (Method::GET, "/config?secrets=true", write),
            (Method::GET, "/config?a=b&secrets=true", write),
            (Method::GET, "/config?secrets=false", read),
            (Method::POST, "/config/check", read),
            (Method::POST, "/config/diff", read),
            (Method::PUT, "/config", write),
            (Method::PATCH, "/upstreams/a/targets/b", write),
            (Method::DELETE, "/queues/a/dead", write),
        ] {
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            assert_eq!(needed(&method, path, Some(query)), role, "{method} {target}");
        }
    }

    #[test]
    fn bearer_is_read_in_any_case() {
        for (line, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc", Some("abc")),
            ("Basic abc", None),
            ("Bearer", None),
            ("abc", None),
        ] {
            assert_eq!(bearer(line), token, "{line}");
        }
    }
}
