//! Compiles `hubs`.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use ::hub::{
    AddressRule, Algorithm, Delivery, Hub, HubEnd, HubSettings, HubState, LimitedBy, Limits, Parts,
    Retention, Retries, Tier, TopicScopes, Window,
};
use ::store::Store;
use config::{
    Config, Decode as _, HubAlgorithm, HubLimitBy, HubLimits, Report, Route, RoutePath, Spanned,
    UpstreamTls,
};

use crate::kafka;
use crate::listeners::{bytes, count};
use crate::names;
use crate::plans::{self, Plans, Streams};
use crate::policies::quotas::window;
use crate::policy_builder::PolicyBuilder;
use crate::upstream_tls;

/// Hubs by name. The value is `None` for a hub that could not be compiled.
#[derive(Default)]
pub(crate) struct Hubs {
    hubs: BTreeMap<String, Option<Arc<Hub>>>,
}

/// The upper limit of `event_bytes_max`, within the maximum size of a record in the store.
const EVENT_BYTES_MAX: u64 = 16 << 20;

/// The maximum length of a topic name, in bytes.
const TOPIC_BYTES_MAX: usize = 256;

/// The upstream name in metrics for connections to callbacks.
const CALLBACKS: &str = "(callbacks)";

/// The factor, in thousandths, by which the wait grows from one retry to the next.
const FACTOR_PERMILLE: u32 = 2000;

impl Hubs {
    /// Returns the hubs that could be compiled, in the order of their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Hub>> {
        // Harmless: an invalid hub got a complaint earlier.
        self.hubs.values().flatten()
    }

    /// Returns the destination of a route that ends in a hub.
    pub(crate) fn end(
        &self,
        name: &Spanned<String>,
        route: &Route,
        report: &mut Report,
    ) -> Option<HubEnd> {
        let without_effect = [
            ("strip_prefix", route.strip_prefix.as_ref().map(|key| key.at)),
            ("rewrite", route.rewrite.as_ref().map(|key| key.at)),
            ("mirror", route.mirror.as_ref().map(|key| key.at)),
        ];
        for (key, at) in without_effect {
            if let Some(at) = at {
                report.warn(at, format!("`{key}` has no effect on a hub"), "remove it");
            }
        }
        if !self.hubs.contains_key(&name.value) {
            let meant = report.suggest(&name.value, self.hubs.keys().map(String::as_str));
            report.error(
                name.at,
                names::unknown("hub", &name.value, meant),
                "name one of the `hubs`",
            );
            return None;
        }
        let hub = self.hubs.get(&name.value)?.clone()?;
        Some(HubEnd { hub, is_open: is_open(route) })
    }
}

/// Returns true if a path of the route ends in `/**` or is a prefix, so that the rest of a request's path can name a topic.
fn is_open(route: &Route) -> bool {
    route.matches.value.path.0.iter().any(|path| match &path.value {
        RoutePath::Pattern(text) => text.ends_with("/**"),
        RoutePath::Prefix(_) | RoutePath::RegexPrefix(_) => true,
        RoutePath::Regex(_) => false,
    })
}

/// Compiles all hubs and complains about their faults.
pub(crate) fn compile(
    config: &Config,
    workers: usize,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Hubs {
    // Hubs that could not be read are included, so that their names are known.
    let mut hubs: BTreeMap<String, Option<Arc<Hub>>> =
        config.hubs.names().map(|name| (name.to_owned(), None)).collect();
    for (name, hub) in config.hubs.iter() {
        let settings = settings(name, hub, config, report);
        let is_used = |route: &Route| route.hub.as_ref().is_some_and(|hub| hub.value == name.value);
        let routes = config.routes.iter().map(|(_, route)| &route.value);
        let mut routes = routes.filter(|route| is_used(route)).peekable();
        if routes.peek().is_none() {
            let what = format!("no route leads to the hub `{}`", name.value);
            report.warn(name.at, what, "remove it, or name it in a route's `hub`");
        } else if !routes.any(is_open) {
            let what = format!(
                "no route to the hub `{}` has a path that ends in `/**`, so parts of it cannot be reached",
                name.value
            );
            report.warn(name.at, what, "write a path such as `match: { path: \"/news/**\" }`");
        }
        let log = kafka::log(&hub.value, report);
        let tls = UpstreamTls::absent().and_then(|tls| upstream_tls::client(&tls, report));
        // Harmless: a hub without settings got a complaint earlier.
        let made = settings.filter(|_| hub.intact).zip(tls).map(|(mut settings, tls)| {
            let telemetry = builder.telemetry;
            // Positions of readers and deliveries are kept per log, so the place of the log is part of the key.
            let place = log.as_ref().map_or("", |log| log.place.as_str());
            let key = format!("what lasts of the hub {}{place}", name.value);
            settings.log = log.as_ref().map(|log| (log.description.as_str().into(), log.key));
            let parts = Parts {
                store: match &log {
                    Some(log) => kafka::store(log, builder),
                    None => store(builder),
                },
                nodes: builder.store.get_or_default().nodes().clone(),
                state: builder.reuse_or_build(&key, || Arc::new(HubState::new(workers))),
                tls,
                connections: telemetry.upstream(CALLBACKS),
                metrics: &|topic| telemetry.topic(&name.value, topic),
            };
            let new = Arc::new(Hub::new(settings.clone(), parts));
            let key = format!("hub {}", name.value);
            builder.reuse_if(&key, |known: &Hub| known.is_of(&settings), &new)
        });
        hubs.insert(name.value.clone(), made);
    }
    Hubs { hubs }
}

/// Returns the store of events and messages.
pub(crate) fn store(builder: &mut PolicyBuilder<'_>) -> Arc<dyn Store> {
    builder.store.get_or_default()
}

fn settings(
    name: &Spanned<String>,
    hub: &Spanned<config::Hub>,
    config: &Config,
    report: &mut Report,
) -> Option<HubSettings> {
    let keys = &hub.value;
    check_topics(hub, report);
    check_publish(hub, report);
    let url = keys.url.as_ref().and_then(|url| hub_url(url, report));
    let header = keys.signature.value.to_ascii_lowercase();
    if !http1::is_token(header.as_bytes()) {
        let what = format!("`{}` is not a header name", header.escape_debug());
        report.error(keys.signature.at, what, "write a name such as `x-hub-signature`");
    }
    if let Some(secret) = &keys.secret
        && secret.value.0.is_empty()
    {
        let what = "the secret must not be empty";
        report.error(secret.at, what, "write a secret, preferably as `${NAME}`, or remove the key");
    }
    let (default, max) = (keys.leases.default.value.0, keys.leases.max.value.0);
    for lease in [&keys.leases.default, &keys.leases.max] {
        if lease.value.0 < Duration::from_secs(1) {
            let what = "a lease must be at least one second";
            report.error(lease.at, what, "write at least `1s`");
        }
    }
    if default > max {
        let what = "`default` is longer than `max`";
        report.error(keys.leases.default.at, what, "write at most `max`");
    }
    if keys.event_bytes_max.value.0 > EVENT_BYTES_MAX {
        let what = "events of that size are too large for a hub";
        report.error(keys.event_bytes_max.at, what, "write at most `16MiB`");
    }
    check_retention(keys, report);
    if keys.delivery.initial.0 > keys.delivery.max.0 {
        let what = "`initial` is longer than `max`, so `max` is used";
        report.warn(hub.at, what, "in `delivery`, write an `initial` of at most `max`");
    }
    Some(HubSettings {
        name: name.value.as_str().into(),
        topics: keys.topics.iter().map(|topic| topic.value.as_str().into()).collect(),
        scopes: scopes(keys, report),
        url,
        secret: keys.secret.as_ref().map(|secret| secret.value.0.as_str().into()),
        signature: header.into(),
        algorithm: match keys.algorithm {
            HubAlgorithm::Sha1 => Algorithm::Sha1,
            HubAlgorithm::Sha256 => Algorithm::Sha256,
            HubAlgorithm::Sha384 => Algorithm::Sha384,
            HubAlgorithm::Sha512 => Algorithm::Sha512,
        },
        publish: keys.publish.0.iter().map(|path| path.value.as_str().into()).collect(),
        lease_default: default,
        lease_max: max,
        subscriptions_max: count(keys.subscriptions_max.get()),
        verify: keys.verify,
        delivery: delivery(&keys.delivery),
        callbacks: AddressRule {
            allow: keys.callbacks.allow.iter().map(|network| network.0).collect(),
            public: true,
        },
        retention: Retention { age: keys.retention.age.0, bytes: keys.retention.bytes.value.0 },
        log: None,
        limits: keys.limits.as_ref().map(|written| limits(written, config, report)),
        event_bytes_max: bytes(keys.event_bytes_max.value),
    })
}

/// Returns the scopes of each topic.
fn scopes(keys: &config::Hub, report: &mut Report) -> Box<[TopicScopes]> {
    let mut all: Vec<TopicScopes> = Vec::new();
    for (topic, scopes) in keys.scopes.iter() {
        if !keys.topics.iter().any(|known| known.value == topic.value) {
            let what = format!("`{}` is not a topic of the hub", topic.value.escape_debug());
            report.error(topic.at, what, "add it to `topics`, or remove it here");
        }
        if scopes.0.is_empty() {
            let what = "the topic has no scopes";
            report.error(topic.at, what, "add at least one, or remove the topic here");
        }
        all.push((
            topic.value.as_str().into(),
            scopes.0.iter().map(|one| one.as_str().into()).collect(),
        ));
    }
    all.into()
}

/// Complains about a retention that keeps no events, or less than the largest event.
fn check_retention(keys: &config::Hub, report: &mut Report) {
    let (bytes, largest) = (&keys.retention.bytes, keys.event_bytes_max.value);
    if bytes.value.0 == 0 {
        let what = "a hub that keeps no events cannot deliver any";
        report.error(bytes.at, what, "write the maximum size of a topic, such as `1GiB`");
    } else if bytes.value.0 < largest.0 {
        let what = "an event larger than this would never be delivered";
        report.warn(bytes.at, what, "write at least `event_bytes_max`");
    }
}

fn limits(written: &Spanned<HubLimits>, config: &Config, report: &mut Report) -> Limits {
    let keys = &written.value;
    let limits = plans::LimitKeys {
        at: written.at,
        intact: written.intact,
        noun: "events",
        events: keys.events.as_ref(),
        bytes: keys.bytes.as_ref(),
        per: keys.per.as_ref(),
        windows: keys.windows.iter().map(window).collect(),
        subscriptions: keys.subscriptions.as_ref().map(|max| max.value),
        plans: keys.plans,
        default: keys.default.as_ref(),
    };
    let Plans { otherwise, named } = limits.compile(config, report);
    Limits {
        by: match keys.by {
            HubLimitBy::Subject => LimitedBy::Subject,
            HubLimitBy::Subscription => LimitedBy::Subscription,
        },
        otherwise: tier(otherwise),
        plans: named.into_iter().map(|(name, streams)| (name, tier(streams))).collect(),
    }
}

fn tier(streams: Streams) -> Tier {
    let window = |window: plans::Window| Window {
        events: window.events,
        bytes: window.bytes,
        per: window.per.0,
    };
    Tier {
        windows: streams.windows.into_iter().map(window).collect(),
        subscriptions: streams.subscriptions.map(|max| count(max.get())),
    }
}

fn delivery(keys: &config::HubDelivery) -> Delivery {
    Delivery {
        timeout: keys.timeout.0,
        retries: Retries {
            attempts: keys.retries.get().saturating_add(1),
            initial: keys.initial.0,
            factor_permille: FACTOR_PERMILLE,
            max: keys.max.0,
        },
        dead_letter: keys.dead_letter,
        concurrency: count(keys.concurrency.get()),
    }
}

fn check_topics(hub: &Spanned<config::Hub>, report: &mut Report) {
    let topics = &hub.value.topics;
    if topics.is_empty() && hub.intact {
        report.error(hub.at, "a hub needs at least one topic", "write `topics: [NAME]`");
    }
    let mut seen = HashSet::new();
    for topic in topics {
        let name = &topic.value;
        // A topic name may be a path or a URL. It must not contain characters that are invalid in URLs, or a fragment, which requests do
        // not carry.
        let is_plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`|#".contains(&byte);
        let is_name = !name.is_empty()
            && name.len() <= TOPIC_BYTES_MAX
            && name.bytes().all(is_plain)
            && !matches!(name.as_str(), "." | "..");
        if !is_name {
            let what = format!("`{}` is not a valid topic name", name.escape_debug());
            let help = "use at most 256 characters that are allowed in a URL, except `#`";
            report.error(topic.at, what, help);
        } else if !seen.insert(name) {
            let what = format!("the topic `{name}` appears twice");
            report.error(topic.at, what, "remove one of the two");
        }
    }
}

/// Returns the hub's URL if links can begin with it, or complains.
fn hub_url(url: &Spanned<String>, report: &mut Report) -> Option<Box<str>> {
    let rest = ["https://", "http://"].iter().find_map(|scheme| url.value.strip_prefix(scheme));
    let is_url = rest.is_some_and(|rest| {
        let (host, path) = rest.find('/').map_or((rest, ""), |path| rest.split_at(path));
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%".contains(&byte);
        names::is_authority(host) && path.bytes().all(is_plain)
    });
    if !is_url {
        let what = format!("`{}` is not a valid hub URL", url.value.escape_debug());
        report.error(url.at, what, "write a URL such as `https://hub.example/news`");
        return None;
    }
    Some(url.value.trim_end_matches('/').into())
}

fn check_publish(hub: &Spanned<config::Hub>, report: &mut Report) {
    let paths = &hub.value.publish.0;
    if paths.is_empty() && hub.intact {
        report.error(hub.at, "the hub does not accept events", "write `publish: /publish`");
    }
    for path in paths {
        let below = path.value.strip_prefix('/').unwrap_or("");
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte);
        let is_path = !below.is_empty() && below.bytes().all(is_plain);
        if !is_path || below.starts_with("topics/") {
            let what = format!("events cannot be published at `{}`", path.value.escape_debug());
            report.error(path.at, what, "write a path below the hub's own, such as `/publish`");
        }
    }
}
