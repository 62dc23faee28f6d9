//! AsyncAPI documents: reads topics from a document, and writes the document of an API with topics.

use serde_json::{Map, Value, json};

use crate::definition::operation;
use crate::endpoints::PRODUCTION;
use crate::objects::{items, set, text, texts};

/// The contents of a document that define an API with topics.
pub(crate) struct Described {
    pub(crate) operations: Vec<Value>,
    /// The type of the API, according to the protocol of its first server.
    pub(crate) kind: Option<&'static str>,
    /// The URL of the first server. None if the server is a hub, or if the URL has variables.
    pub(crate) server: Option<String>,
}

/// The limit of channels in one document.
const CHANNELS_MAX: usize = 2000;

/// True for an AsyncAPI document.
pub(crate) fn is_asyncapi(document: &Value) -> bool {
    document.get("asyncapi").is_some()
}

/// Reads a document of version 2 or 3, or returns all errors. Without a `kind`, the type of the API is taken from the protocol of the
/// first server.
pub(crate) fn describe(document: &Value, kind: Option<&str>) -> Result<Described, Vec<String>> {
    let mut wrong = Vec::new();
    let version = text(document, "asyncapi");
    let Some(channels) = document.get("channels").and_then(Value::as_object) else {
        return Err(vec!["the AsyncAPI document has no channels".to_owned()]);
    };
    if channels.len() > CHANNELS_MAX {
        return Err(vec![format!("there are more than {CHANNELS_MAX} channels")]);
    }
    let (by_protocol, server) = of_servers(document);
    let kind = kind.or(by_protocol);
    let operations = match version.split('.').next() {
        Some("2") => of_version_2(channels, kind),
        Some("3") => of_version_3(document, channels, kind, &mut wrong),
        _ => {
            wrong.push(format!("AsyncAPI {version:?} is not supported; write version 2 or 3"));
            Vec::new()
        }
    };
    if wrong.is_empty() {
        Ok(Described { operations, kind: by_protocol, server })
    } else {
        Err(wrong)
    }
}

/// The type of the API according to the protocol of the first server, and the URL of that server.
fn of_servers(document: &Value) -> (Option<&'static str>, Option<String>) {
    let servers = document.get("servers").and_then(Value::as_object);
    let Some(server) = servers.and_then(|servers| servers.values().next()) else {
        return (None, None);
    };
    let protocol = text(server, "protocol").to_ascii_lowercase();
    let kind = match protocol.as_str() {
        "ws" | "wss" => Some("WS"),
        "sse" => Some("SSE"),
        "websub" => Some("WEBSUB"),
        _ => None,
    };
    let scheme = match protocol.as_str() {
        "sse" => "http",
        protocol => protocol,
    };
    let url = match (text(server, "url"), text(server, "host")) {
        ("", "") => None,
        ("", host) => Some(format!("{scheme}://{host}{}", text(server, "pathname"))),
        (url, _) if url.contains("://") => Some(url.to_owned()),
        (url, _) => Some(format!("{scheme}://{url}")),
    };
    // A URL with variables is not an address, and a hub has no backend.
    (kind, url.filter(|url| !url.contains('{') && kind != Some("WEBSUB")))
}

fn of_version_2(channels: &Map<String, Value>, kind: Option<&str>) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, channel) in channels {
        let mut found = false;
        for (key, verb) in [("subscribe", "SUBSCRIBE"), ("publish", "PUBLISH")] {
            if let Some(one) = channel.get(key) {
                found = true;
                if is_verb_of(verb, kind) {
                    all.push(topic(&target(name, kind), verb, &[one, channel]));
                }
            }
        }
        if !found {
            all.push(topic(&target(name, kind), "SUBSCRIBE", &[channel]));
        }
    }
    all
}

/// In version 3 the actions are those of the application: it sends what its clients receive.
fn of_version_3(
    document: &Value,
    channels: &Map<String, Value>,
    kind: Option<&str>,
    wrong: &mut Vec<String>,
) -> Vec<Value> {
    let mut all = Vec::new();
    let address = |name: &str| {
        let channel = channels.get(name)?;
        let address = channel.get("address").and_then(Value::as_str).unwrap_or(name);
        Some((target(address, kind), channel))
    };
    let operations = document.get("operations").and_then(Value::as_object);
    // Harmless: a document without operations is handled below.
    for (name, one) in operations.into_iter().flatten() {
        let verb = match text(one, "action") {
            "send" => "SUBSCRIBE",
            "receive" => "PUBLISH",
            other => {
                wrong.push(format!("the action {other:?} of the operation {name:?} is unknown"));
                continue;
            }
        };
        let reference = one.get("channel").map(|channel| text(channel, "$ref"));
        let channel = reference.and_then(|reference| reference.strip_prefix("#/channels/"));
        let channel = channel.map(|name| name.replace("~1", "/").replace("~0", "~"));
        match channel.as_deref().and_then(address) {
            Some((target, channel)) if is_verb_of(verb, kind) => {
                all.push(topic(&target, verb, &[one, channel]));
            }
            Some(_) => {}
            None => wrong.push(format!("the operation {name:?} names no channel of the document")),
        }
    }
    if operations.is_none_or(Map::is_empty) {
        let names = channels.keys().map(String::as_str);
        // Harmless: `address` finds each channel of the document.
        all.extend(names.filter_map(|name| {
            let (target, channel) = address(name)?;
            Some(topic(&target, "SUBSCRIBE", &[channel]))
        }));
    }
    all
}

/// True if clients of an API of this type may use the verb. Only over a WebSocket may they also publish.
fn is_verb_of(verb: &str, kind: Option<&str>) -> bool {
    verb == "SUBSCRIBE" || kind == Some("WS")
}

/// The target for a channel. Topics of hubs have no leading slash.
fn target(channel: &str, kind: Option<&str>) -> String {
    if channel.starts_with('/') || kind == Some("WEBSUB") {
        channel.to_owned()
    } else {
        format!("/{channel}")
    }
}

/// An operation. Each of its members comes from the first of the objects `says` that has it.
fn topic(target: &str, verb: &str, says: &[&Value]) -> Value {
    let first = |key: &str| says.iter().find_map(|one| one.get(key));
    let mut made = operation(target, verb);
    let mut scopes = texts(first("x-scopes"));
    if scopes.is_empty() {
        // Harmless: a requirement is an object; other values have no scopes.
        let schemes = items(first("security")).iter().filter_map(Value::as_object);
        scopes = schemes.flat_map(|one| one.values()).flat_map(|list| texts(Some(list))).collect();
    }
    set(&mut made, "scopes", json!(scopes));
    for (theirs, ours) in [("x-auth-type", "authType"), ("x-throttling-tier", "throttlingPolicy")] {
        if let Some(value) = first(theirs).and_then(Value::as_str) {
            set(&mut made, ours, json!(value));
        }
    }
    if let Some(mapped) = first("x-uri-mapping").and_then(Value::as_str) {
        set(&mut made, "uriMapping", json!(mapped));
    }
    made
}

/// The document of an API: the imported one, or one made from its topics.
pub(crate) fn document(dto: &Value, imported: Option<&Value>) -> Value {
    if let Some(imported) = imported.filter(|document| is_asyncapi(document)) {
        return imported.clone();
    }
    let mut channels: Map<String, Value> = Map::new();
    for operation in items(dto.get("operations")) {
        let channel = channels.entry(text(operation, "target")).or_insert_with(|| json!({}));
        let mut made = json!({});
        let scopes = texts(operation.get("scopes"));
        if !scopes.is_empty() {
            set(&mut made, "x-scopes", json!(scopes));
        }
        let mapped = text(operation, "uriMapping");
        if !mapped.is_empty() {
            set(&mut made, "x-uri-mapping", json!(mapped));
        }
        set(channel, &text(operation, "verb").to_ascii_lowercase(), made);
    }
    let protocol = match text(dto, "type") {
        "SSE" => "sse",
        "WEBSUB" => "websub",
        _ => "ws",
    };
    let url = PRODUCTION.urls(dto.get("endpointConfig")).into_iter().next();
    let servers = url.map(|url| json!({ "production": { "url": url, "protocol": protocol } }));
    json!({
        "asyncapi": "2.6.0",
        "info": { "title": text(dto, "name"), "version": text(dto, "version") },
        "servers": servers.unwrap_or_else(|| json!({})),
        "channels": channels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(document: &Value) -> Vec<(String, String, Value)> {
        let described = describe(document, None).map_err(|wrong| wrong.join("; ")).unwrap();
        let one = |one: &Value| {
            (text(one, "target").to_owned(), text(one, "verb").to_owned(), one["scopes"].clone())
        };
        described.operations.iter().map(one).collect()
    }

    #[test]
    fn versions_2_and_3_describe_the_same_operations() {
        let second = json!({
            "asyncapi": "2.6.0",
            "servers": { "production": { "url": "wss://b.test/ws", "protocol": "wss" } },
            "channels": {
                "/room/{id}": { "subscribe": { "x-scopes": ["read"] }, "publish": { "security": [{ "oauth2": ["write"] }] } },
            },
        });
        let third = json!({
            "asyncapi": "3.0.0",
            "servers": { "production": { "host": "b.test", "pathname": "/ws", "protocol": "wss" } },
            "channels": { "room": { "address": "room/{id}" } },
            "operations": {
                "out": { "action": "send", "channel": { "$ref": "#/channels/room" }, "x-scopes": ["read"] },
                "in": { "action": "receive", "channel": { "$ref": "#/channels/room" }, "x-scopes": ["write"] },
            },
        });
        for document in [second, third] {
            let described = describe(&document, None).map_err(|wrong| wrong.join("; ")).unwrap();
            assert_eq!(
                (described.kind, described.server.as_deref()),
                (Some("WS"), Some("wss://b.test/ws"))
            );
            let mut operations = read(&document);
            operations.sort_by(|one, other| one.1.cmp(&other.1));
            let wanted = |verb: &str, scope: &str| {
                ("/room/{id}".to_owned(), verb.to_owned(), json!([scope]))
            };
            assert_eq!(operations, [wanted("PUBLISH", "write"), wanted("SUBSCRIBE", "read")]);
        }
    }

    #[test]
    fn invalid_documents_are_refused() {
        for document in [
            json!({ "asyncapi": "2.0.0" }),
            json!({ "asyncapi": "1.0.0", "channels": {} }),
            json!({ "asyncapi": 3, "channels": {} }),
            json!({ "asyncapi": "3.0.0", "channels": {}, "operations": { "a": { "action": "send", "channel": { "$ref": "#/channels/none" } } } }),
            json!({ "asyncapi": "3.0.0", "channels": {}, "operations": { "a": { "action": "jump" } } }),
        ] {
            assert!(describe(&document, None).is_err(), "{document}");
        }
    }
}
