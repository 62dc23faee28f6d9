//! The page for people: the plan in service, its routes and targets, and links to the rest. It has no scripts, and escapes all
//! text from elsewhere.

use serde_json::Value;
use std::fmt::{self, Display, Formatter};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1b2733}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid #d9e0e6}\
pre{background:#fff4f4;border:1px solid #e6b8b8;padding:.6rem;overflow:auto}.bad{color:#b00020;font-weight:600}\
a{color:#0b5cad}nav a{margin-right:1rem}";

const LINKS: [(&str, &str); 12] = [
    ("/plan", "plan"),
    ("/routes", "routes"),
    ("/upstreams", "upstreams"),
    ("/hubs", "hubs"),
    ("/queues", "queues"),
    ("/bundles", "bundles"),
    ("/config", "configuration"),
    ("/metrics", "metrics"),
    ("/healthz", "health"),
    ("/readyz", "readiness"),
    ("/openapi.json", "API"),
    ("/schema.json", "schema"),
];

/// The page, made from the JSON of `/plan`.
pub(crate) fn html(plan: &Value, status: &Value) -> String {
    let links: String =
        LINKS.iter().map(|(path, name)| format!("<a href=\"{path}\">{name}</a>")).collect();
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Tidegate</title><style>{STYLE}</style></head><body>\
         <h1>Tidegate</h1><nav>{links}</nav>\
         <p>Configuration {} in service (<code>{}</code>), {} workers.</p>{}\
         <h2>Listeners</h2>{}<h2>Routes</h2>{}<h2>Upstreams</h2>{}</body></html>\n",
        text(at(status, "/generation")),
        text(at(status, "/hash")),
        text(at(plan, "/workers")),
        failed(at(status, "/last_failed")),
        table(&["name", "address", "TLS", "HTTP/2"], list(at(plan, "/listeners")).map(listener)),
        table(
            &["name", "host", "path", "methods", "policies", "goes to"],
            list(at(plan, "/routes")).map(route)
        ),
        table(
            &["upstream", "target", "weight", "state", "active"],
            list(at(plan, "/upstreams")).flat_map(targets)
        ),
    )
}

fn failed(failed: &Value) -> String {
    if failed.is_null() {
        return String::new();
    }
    let why = text(at(failed, "/why"));
    format!(
        "<p class=\"bad\">The last change was refused; the configuration above stays in service.</p><pre>{why}</pre>"
    )
}

fn listener(listener: &Value) -> Vec<String> {
    ["/name", "/address", "/tls", "/http2"].map(|key| text(at(listener, key)).to_string()).into()
}

fn route(route: &Value) -> Vec<String> {
    let destination = at(route, "/destination");
    let upstream = at(destination, "/upstream");
    let goes_to =
        if upstream.is_null() {
            elsewhere(destination)
        } else {
            match upstream.as_object() {
                Some(shares) => joined(shares.iter().map(|(name, weight)| {
                    format!("{} {}", text(&name.as_str().into()), text(weight))
                })),
                None => text(upstream).to_string(),
            }
        };
    let policies = list(at(route, "/policies")).map(|policy| text(at(policy, "/name")).to_string());
    vec![
        text(at(route, "/name")).to_string(),
        any(text(at(route, "/match/host")).to_string()),
        text(at(route, "/match/path")).to_string(),
        any(joined(list(at(route, "/match/methods")).map(|method| text(method).to_string()))),
        joined(policies),
        goes_to,
    ]
}

/// A destination that is not an upstream.
fn elsewhere(destination: &Value) -> String {
    let named = |kind: &str| {
        let name = destination.get(kind).filter(|name| name.is_string())?;
        Some(format!("{kind} {}", text(name)))
    };
    let other = || {
        if destination.is_null() {
            "its policies answer".to_owned()
        } else {
            format!("a fixed {}", text(at(destination, "/respond/status")))
        }
    };
    named("flow").or_else(|| named("hub")).unwrap_or_else(other)
}

fn targets(upstream: &Value) -> impl Iterator<Item = Vec<String>> {
    list(at(upstream, "/targets")).map(|target| {
        let health = text(at(target, "/health")).to_string();
        // Harmless: a target without the mark is not ejected.
        let ejected = at(target, "/ejected").as_bool().unwrap_or_default();
        let suspended = at(target, "/suspended_until_unix_ms").is_u64();
        let state = match (at(target, "/healthy").as_bool(), ejected, suspended) {
            (_, _, true) => "<span class=\"bad\">suspended</span>".to_owned(),
            (Some(false), _, false) => format!("<span class=\"bad\">{health}</span>"),
            (_, true, false) => "<span class=\"bad\">ejected</span>".to_owned(),
            (Some(true) | None, false, false) => health,
        };
        vec![
            text(at(upstream, "/name")).to_string(),
            text(at(target, "/url")).to_string(),
            text(at(target, "/weight")).to_string(),
            state,
            text(at(target, "/requests_active")).to_string(),
        ]
    })
}

/// The value at a place, or null.
fn at<'v>(value: &'v Value, pointer: &str) -> &'v Value {
    value.pointer(pointer).unwrap_or(&Value::Null)
}

/// A table whose cells are already HTML.
fn table(heads: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let heads: String = heads.iter().map(|head| format!("<th>{head}</th>")).collect();
    let cells =
        |row: Vec<String>| row.iter().map(|cell| format!("<td>{cell}</td>")).collect::<String>();
    let rows: String = rows.map(|row| format!("<tr>{}</tr>", cells(row))).collect();
    match rows.as_str() {
        "" => "<p>none</p>".to_owned(),
        rows => format!("<table><tr>{heads}</tr>{rows}</table>"),
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    // Harmless: the page shows what the view has.
    value.as_array().into_iter().flatten()
}

fn joined(texts: impl Iterator<Item = String>) -> String {
    texts.collect::<Vec<_>>().join(", ")
}

fn any(cell: String) -> String {
    if cell.is_empty() { "any".to_owned() } else { cell }
}

/// A value as text inside HTML.
fn text(value: &Value) -> impl Display {
    let plain = value.as_str().map(str::to_owned);
    EscapedHtml(
        plain.unwrap_or_else(|| if value.is_null() { String::new() } else { value.to_string() }),
    )
}

struct EscapedHtml(String);

impl Display for EscapedHtml {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c => fmt::Write::write_char(f, c)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_name_can_become_markup() {
        let hostile = "<script>alert('\"&')</script>";
        let plan = json!({
            "workers": 2,
            "listeners": [{ "name": hostile, "address": "127.0.0.1:1", "tls": false, "http2": true }],
            "routes": [{
                "name": hostile,
                "match": { "host": hostile, "path": hostile, "methods": [hostile] },
                "policies": [{ "name": hostile }],
                "destination": { "upstream": hostile },
            }],
            "upstreams": [{ "name": hostile, "targets": [{ "url": hostile, "weight": 1, "health": "unhealthy", "healthy": false }] }],
        });
        let status = json!({ "generation": 3, "hash": hostile, "last_failed": { "why": hostile } });
        let page = html(&plan, &status);
        assert!(!page.contains("<script") && !page.contains("alert('"), "{page}");
        assert_eq!(
            page.matches("&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;").count(),
            11,
            "{page}"
        );
        assert!(page.contains("unhealthy") && page.contains("Configuration 3"));
    }
}
