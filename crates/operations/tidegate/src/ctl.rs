//! `tidegate ctl`: the operations of the admin API on the command line.

use std::process::ExitCode;
use std::time::Duration;

use serde_json::{Value, json};

use crate::ask::{self, AdminRequest, Gateway};
use crate::operations::{Access, Ctl, Holder, OnMessages, Pausable};
use crate::{support, tail};

/// The longest wait for an answer. A rollback compiles a configuration.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A request of one operation.
struct Operation {
    request: String,
    body: Option<Value>,
}

pub(crate) fn ctl(url: &str, access: &Access, what: &Ctl) -> anyhow::Result<ExitCode> {
    if let Ctl::Support { out, log } = what {
        let gateway = Gateway::new(url, access, ANSWER_MAX)?;
        return support::support(&gateway, out, log.as_deref());
    }
    if let Ctl::Tail { route, r#for } = what {
        let gateway = Gateway::new(url, access, ANSWER_MAX)?;
        return tail::tail(&gateway, route.as_deref(), *r#for);
    }
    let Operation { request, body } = operation(what);
    // Harmless: most operations have no body.
    let body = body.map(|body| body.to_string()).unwrap_or_default();
    let question = AdminRequest {
        request: &request,
        headers: &[("Content-Type", "application/json")],
        body: body.as_bytes(),
    };
    let asked = Gateway::new(url, access, ANSWER_MAX).and_then(|gateway| gateway.ask(&question));
    match asked {
        Ok(answer) => ask::report_answer(&answer),
        Err(why) => Ok(ask::report_no_access(&why)),
    }
}

fn operation(what: &Ctl) -> Operation {
    match what {
        // `ctl` handles `support` and `tail` itself, so their requests here are not used.
        Ctl::Support { .. } | Ctl::Plan => get("/plan".to_owned()),
        Ctl::Tail { .. } => get("/tail".to_owned()),
        Ctl::Traffic { route } => get(below("/traffic", route.as_deref())),
        Ctl::Streams => get("/streams".to_owned()),
        Ctl::Memory => get("/memory".to_owned()),
        Ctl::Routes => get("/routes".to_owned()),
        Ctl::Upstreams { name } => get(below("/upstreams", name.as_deref())),
        Ctl::Target { upstream, id, weight, drain } => send(
            "PATCH",
            &format!("/upstreams/{}/targets/{}", part(upstream), part(id)),
            given([("weight", json!(weight)), ("drain", json!(drain))]),
        ),
        Ctl::Flows { name } => get(below("/flows", name.as_deref())),
        Ctl::Refusals { limit } => get(format!("/refusals?limit={limit}")),
        Ctl::Trace { route: None, flow: None, path: None, request_id: None, count: None } => {
            get("/trace".to_owned())
        }
        Ctl::Trace { route, flow, path, request_id, count } => send(
            "POST",
            "/trace",
            given([
                ("route", json!(route)),
                ("flow", json!(flow)),
                ("path", json!(path)),
                ("request_id", json!(request_id)),
                ("count", json!(count)),
            ]),
        ),
        Ctl::Certificates => get("/certificates".to_owned()),
        Ctl::Log { level: None, .. } => get("/log".to_owned()),
        Ctl::Log { level: Some(level), .. } if level == "reset" => {
            send("PUT", "/log", json!({ "level": null }))
        }
        Ctl::Log { level: Some(level), r#for } => {
            send("PUT", "/log", given([("level", json!(level)), ("for", json!(r#for))]))
        }
        Ctl::Messages(what) => on_messages(what),
        Ctl::Schedules => get("/schedules".to_owned()),
        Ctl::Run { schedule } => act("POST", format!("/schedules/{}/run", part(schedule))),
        Ctl::Revoked => get("/revoked".to_owned()),
        Ctl::Revoke { jti, until } => {
            send("POST", "/revoked", given([("jti", json!(jti)), ("until", json!(until))]))
        }
        Ctl::Unrevoke { jti } => act("DELETE", format!("/revoked/{}", part(jti))),
        Ctl::Bundles => get("/bundles".to_owned()),
        Ctl::History { generation: None } => get("/config/history".to_owned()),
        Ctl::History { generation: Some(number) } => get(format!("/config/history/{number}")),
        Ctl::Changes { generation, to } => {
            let to = to.map(|to| format!("?to={to}")).unwrap_or_default();
            get(format!("/config/history/{generation}/diff{to}"))
        }
        Ctl::Rollback { generation } => {
            act("POST", format!("/config/history/{generation}/rollback"))
        }
    }
}

fn on_messages(what: &OnMessages) -> Operation {
    match what {
        OnMessages::Queues { name } => get(below("/queues", name.as_deref())),
        OnMessages::Hubs { name } => get(below("/hubs", name.as_deref())),
        OnMessages::Subscriptions { hub, after } => {
            get(page(&format!("/hubs/{}/subscriptions", part(hub)), after.as_deref()))
        }
        OnMessages::Unsubscribe { hub, id } => {
            act("DELETE", format!("/hubs/{}/subscriptions/{}", part(hub), part(id)))
        }
        OnMessages::Messages { queue, after } => {
            get(page(&format!("/queues/{}/messages", part(queue)), after.as_deref()))
        }
        OnMessages::Dead { kind, name, id, after } => {
            get(page(&below(&dead(*kind, name), id.as_deref()), after.as_deref()))
        }
        OnMessages::Retry { kind, name, id } => {
            act("POST", format!("{}/retry", below(&dead(*kind, name), id.as_deref())))
        }
        OnMessages::Remove { kind, name, id } => {
            act("DELETE", below(&dead(*kind, name), id.as_deref()))
        }
        OnMessages::Pause { kind, name } => act("POST", format!("{}/pause", pausable(*kind, name))),
        OnMessages::Resume { kind, name } => {
            act("POST", format!("{}/resume", pausable(*kind, name)))
        }
    }
}

fn get(path: String) -> Operation {
    act("GET", path)
}

fn act(method: &str, path: String) -> Operation {
    Operation { request: format!("{method} {path}"), body: None }
}

fn send(method: &str, path: &str, body: Value) -> Operation {
    Operation { request: format!("{method} {path}"), body: Some(body) }
}

/// Returns an object of the members that are not null.
fn given<const N: usize>(members: [(&str, Value); N]) -> Value {
    let given = members.into_iter().filter(|(_, value)| !value.is_null());
    Value::Object(given.map(|(name, value)| (name.to_owned(), value)).collect())
}

fn dead(kind: Holder, name: &str) -> String {
    let kind = match kind {
        Holder::Queue => "queues",
        Holder::Hub => "hubs",
    };
    format!("/{kind}/{}/dead", part(name))
}

fn pausable(kind: Pausable, name: &str) -> String {
    let kind = match kind {
        Pausable::Queue => "queues",
        Pausable::Hub => "hubs",
        Pausable::Schedule => "schedules",
    };
    format!("/{kind}/{}", part(name))
}

fn below(path: &str, name: Option<&str>) -> String {
    name.map_or_else(|| path.to_owned(), |name| format!("{path}/{}", part(name)))
}

fn page(path: &str, after: Option<&str>) -> String {
    after.map_or_else(|| path.to_owned(), |after| format!("{path}?after={}", part(after)))
}

/// Escapes a name for a path.
fn part(name: &str) -> String {
    kit::percent::encoded(name.as_bytes(), b"")
}
