//! Compiles `websocket`.

use std::sync::Arc;

use config::{
    At, Decode as _, Errors, FilePath, MessageWindow, OnLimit, OneOrMore, Report, Spanned,
    TopicUse, UpstreamProtocol, WebSocket,
};
use mediation::json_schema::{Schema, Schemas};
use policies::websocket::{self, Codes, MalformedTopic, Topic, WebSocketSettings};

use super::quotas::{self, kept, own_key};
use super::rate_limit::by;
use super::{Access, Facts, PolicyKind, PolicyPlace, counts, counts_identity};
use crate::files;
use crate::plans::{self, Window};
use crate::policy::RouteScope;

impl PolicyKind for WebSocket {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let by = self.by.as_ref();
        if place.of.upstream.is_none() && written.intact {
            let what = "no WebSocket can be opened here: the route has no upstream";
            report.error(written.at, what, "remove the policy, or add `upstream: NAME`");
        }
        refuse_http2(written.at, written.intact, place, report);
        let limits = limits(self, written.at, written.intact).compile(place.config, report);
        let settings = WebSocketSettings {
            by: by.map_or_else(|| own_key(self.plans), |by| self::by(by, report)),
            tiers: quotas::tiers(&limits),
            closes: self.on_limit == OnLimit::Close,
            message_bytes_max: self.message_bytes_max.map(|max| max.0),
            idle: self.idle.map(|idle| idle.0),
            ping: self.ping.map(|ping| ping.0),
            connections: self.connections.map(|connections| connections.get()),
            schema: self.schema.as_ref().and_then(|file| schema(file, report)).map(Arc::new),
            topics: topics(self, report),
            codes: match place.of.errors {
                Errors::Wso2 | Errors::Apim => Codes::WSO2,
                Errors::Problem | Errors::Kong => Codes::REGISTERED,
            },
        };
        let kept = kept("websocket", &self.encode(), &limits, self.shared.as_ref(), place, report);
        let metrics = place.builder.telemetry.route(place.route);
        websocket::policy(settings, kept, metrics, place.slots)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        let topics = self.topics.iter().flat_map(|topics| topics.value.iter());
        let asks_scopes = topics
            .map(|(_, topic)| topic)
            .any(|topic| !topic.publish.0.is_empty() || !topic.subscribe.0.is_empty());
        Facts {
            access: if asks_scopes { Access::Guards } else { Access::Open },
            asks_identity: asks_scopes
                || self.plans
                || self.by.as_ref().is_some_and(|by| counts_identity(&by.value)),
            counts: counts(self.by.as_ref().map(|by| &by.value)),
            ..Facts::NONE
        }
    }
}

/// Complains about upstreams that only use HTTP/2, over which no WebSocket is opened.
fn refuse_http2(at: At, intact: bool, place: &RouteScope<'_, '_>, report: &mut Report) {
    let names = place.of.upstream.iter().flat_map(|to| to.value.names());
    for name in names.filter(|_| intact) {
        let upstream = place.config.upstreams.get(name);
        if upstream.is_some_and(|upstream| upstream.protocol == UpstreamProtocol::Http2) {
            let what = format!("no WebSocket can be opened at `{name}`, because it uses HTTP/2");
            report.error(at, what, "write `protocol: http1` or `protocol: auto` there");
        }
    }
}

fn limits(keys: &WebSocket, at: At, intact: bool) -> plans::LimitKeys<'_> {
    plans::LimitKeys {
        at,
        intact,
        noun: "messages",
        events: keys.messages.as_ref(),
        bytes: keys.bytes.as_ref(),
        per: keys.per.as_ref(),
        windows: keys.windows.iter().map(window).collect(),
        subscriptions: None,
        plans: keys.plans,
        default: keys.default.as_ref(),
    }
}

fn window(written: &Spanned<MessageWindow>) -> Spanned<Window> {
    let MessageWindow { messages, bytes, per } = &written.value;
    let events = messages.map(|messages| u64::from(messages.get()));
    let value = Window { events, bytes: bytes.map(|bytes| bytes.0), per: *per };
    Spanned { value, at: written.at, intact: written.intact }
}

fn schema(file: &Spanned<FilePath>, report: &mut Report) -> Option<Schema> {
    files::json_schema(file, |schema| Schemas::new([], true)?.compile(schema), report)
}

fn topics(keys: &WebSocket, report: &mut Report) -> Option<Vec<Topic>> {
    let written = keys.topics.as_ref()?;
    let mut topics: Vec<Topic> = Vec::new();
    for (name, topic) in written.value.iter() {
        let path = topic.path.as_ref().map(|path| path.value.as_str());
        let may = |right: TopicUse, scopes: &OneOrMore<String>| {
            topic.allow.0.contains(&right).then(|| scopes.0.clone())
        };
        let publish = may(TopicUse::Publish, &topic.publish);
        let subscribe = may(TopicUse::Subscribe, &topic.subscribe);
        match Topic::new(&name.value, path, publish, subscribe) {
            Ok(topic) if topics.iter().any(|other| other.is_like(&topic)) => {
                let what = format!(
                    "another topic matches the same paths as `{}`",
                    name.value.escape_debug()
                );
                report.error(name.at, what, "remove one of the two");
            }
            Ok(topic) => topics.push(topic),
            Err(MalformedTopic::Path(path)) => {
                let what = format!("`{}` is not a topic path", path.escape_debug());
                report.error(name.at, what, "write a path such as `/room/{id}`");
            }
            Err(MalformedTopic::Unknown(parameter)) => {
                let at = topic.path.as_ref().map_or(name.at, |path| path.at);
                let what = format!("the topic has no parameter `{}`", parameter.escape_debug());
                report.error(at, what, "name it in the topic, in braces");
            }
            Err(MalformedTopic::Twice(parameter)) => {
                let what = format!("the parameter `{}` appears twice", parameter.escape_debug());
                report.error(name.at, what, "give each one a different name");
            }
        }
    }
    topics.sort_by_key(Topic::rank);
    Some(topics)
}
