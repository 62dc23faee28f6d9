//! `websocket`.

use std::sync::Arc;

use config::{At, Decode as _, Errors, FilePath, LimitBy, OnLimit, Report, Spanned, WebSocket};
use mediation::json_schema::{Schema, Schemas};
use policies::quota::Quota;
use policies::websocket::{self, Codes, MalformedTopic, Settings, Topic};

use super::rate_limit::by;
use super::sse::kept;
use crate::files;
use crate::policy::RouteScope;

pub(crate) fn build(
    keys: &WebSocket,
    at: At,
    intact: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let by = keys.by.clone().unwrap_or_else(|| Spanned::unwritten(LimitBy::Subject));
    if place.of.upstream.is_none() && intact {
        let what = "no WebSocket can be opened here: the route has no upstream";
        report.error(at, what, "remove the policy, or add `upstream: NAME`");
    }
    let settings = Settings {
        by: self::by(&by, report),
        quota: quota(keys, intact, report),
        closes: keys.on_limit == OnLimit::Close,
        message_bytes_max: keys.message_bytes_max.map(|max| max.0),
        idle: keys.idle.map(|idle| idle.0),
        ping: keys.ping.map(|ping| ping.0),
        connections: keys.connections.map(|connections| connections.get()),
        schema: keys.schema.as_ref().and_then(|file| schema(file, report)).map(Arc::new),
        topics: topics(keys, report),
        codes: match place.of.errors {
            Errors::Wso2 => Codes::WSO2,
            Errors::Problem | Errors::Kong => Codes::REGISTERED,
        },
    };
    let (quotas, permits) = kept("websocket", &keys.encode(), place);
    let metrics = place.builder.telemetry.route(place.route);
    websocket::policy(settings, quotas, permits, metrics, place.slots)
}

fn quota(keys: &WebSocket, intact: bool, report: &mut Report) -> Option<Quota> {
    let messages = keys.messages.as_ref().map(|messages| u64::from(messages.value.get()));
    let bytes = keys.bytes.as_ref().map(|bytes| bytes.value.0);
    let written = keys.messages.as_ref().map(|messages| messages.at);
    let written = written.or(keys.bytes.as_ref().map(|bytes| bytes.at));
    match (written, &keys.per) {
        (Some(_), Some(per)) => Some(Quota { messages, bytes, per: per.value.0 }),
        (Some(at), None) if intact => {
            report.error(at, "so much, but in how long?", "add `per: 1s`");
            None
        }
        (None, Some(alone)) if intact => {
            report.error(alone.at, "a time, but how much?", "add `messages: 10`");
            None
        }
        (Some(_) | None, None) | (None, Some(_)) => None,
    }
}

fn schema(file: &Spanned<FilePath>, report: &mut Report) -> Option<Schema> {
    let bytes = files::read(file, report)?;
    let read = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
    let built = read.and_then(|schema| Schemas::new([], true)?.compile(&schema));
    match built {
        Ok(schema) => Some(schema),
        Err(what) => {
            let what = format!("`{}`: {what}", file.value.as_path().display());
            report.error(file.at, what, "correct the schema");
            None
        }
    }
}

fn topics(keys: &WebSocket, report: &mut Report) -> Option<Vec<Topic>> {
    let written = keys.topics.as_ref()?;
    let mut topics = Vec::new();
    for (name, topic) in written.value.iter() {
        let path = topic.path.as_ref().map(|path| path.value.as_str());
        let (publish, subscribe) = (topic.publish.0.clone(), topic.subscribe.0.clone());
        match Topic::new(&name.value, path, publish, subscribe) {
            Ok(topic) => topics.push(topic),
            Err(MalformedTopic::Path(path)) => {
                let what = format!("`{}` is no path of a topic", path.escape_debug());
                report.error(name.at, what, "write a path such as `/room/{id}`");
            }
            Err(MalformedTopic::Unknown(parameter)) => {
                let at = topic.path.as_ref().map_or(name.at, |path| path.at);
                let what = format!("the topic has no parameter `{}`", parameter.escape_debug());
                report.error(at, what, "name it in the topic, in braces");
            }
            Err(MalformedTopic::Twice(parameter)) => {
                let what = format!("the parameter `{}` stands twice", parameter.escape_debug());
                report.error(name.at, what, "give each one a name of its own");
            }
        }
    }
    Some(topics)
}
