//! Compiles the destination of a route: `upstream`, `flow`, `hub` or `respond`. No other file of this crate distinguishes kinds of
//! destination.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use config::{
    At, Balance, Config, Decode as _, HashBy, Map, Report, Respond, Route, RouteHost, RouteMirror,
    RouteShare, RouteUpstream, Size, Spanned,
};
use message::Headers;
use plan::telemetry::Telemetry;
use plan::upstreams::{HostSent, Mirror, Upstream};
use plan::{
    Destination, Escape, FilledReply, FixedReply, Forward, NoDestination, PathCondition, PathSent,
    PreparedAnswerer, PublishedDescription, Share, Split,
};

use ::flows::FlowEnd;
use ::hub::HubEnd;

use crate::flows::Flows;
use crate::hubs::Hubs;
use crate::listeners::bytes;
use crate::{names, paths, policies, templates};

/// A destination whose upstreams are still names, not yet resolved.
pub(crate) enum UnresolvedDestination<'c> {
    Upstream {
        name: &'c str,
        split: Option<Split>,
        mirror: Option<&'c RouteMirror>,
        path: PathSent,
        host: HostSent,
        /// The label of the flow's single step, if the destination was a flow that only calls this upstream.
        call: Option<Arc<str>>,
    },
    Flow {
        end: FlowEnd,
        path: PathSent,
        host: HostSent,
    },
    Hub(HubEnd),
    Respond(FixedReply),
    Description(PublishedDescription),
    /// The route needs no destination because its policies answer every request.
    None,
}

/// The destinations that a route may name.
pub(crate) struct KnownDestinations<'c> {
    pub(crate) upstreams: BTreeSet<&'c str>,
    pub(crate) flows: &'c Flows,
    pub(crate) hubs: &'c Hubs,
}

/// Everything a route may forward to: its destination, and the diversions of its policies.
pub(crate) struct Ends {
    pub(crate) destination: Destination,
    pub(crate) diversions: Box<[Destination]>,
    pub(crate) split: Option<Split>,
}

/// Upstreams by their names.
type Upstreams<'u> = HashMap<&'u str, &'u Arc<Upstream>>;

/// Returns the destination of a route. Complains if there is none or more than one.
pub(crate) fn end<'c>(
    name: &Spanned<String>,
    route: &'c Spanned<Route>,
    paths: &[PathCondition],
    named: &KnownDestinations<'c>,
    report: &mut Report,
) -> Option<UnresolvedDestination<'c>> {
    let KnownDestinations { upstreams, flows, hubs } = named;
    // Every destination is checked even if there is more than one, so that every mistake is reported.
    let Route { upstream, flow, hub, respond, .. } = &route.value;
    let forward = upstream.as_ref().map(|to| forward(to, &route.value, paths, upstreams, report));
    let flow =
        flow.as_ref().map(|flow| self::flow(flow, &name.value, &route.value, paths, flows, report));
    let hub = hub
        .as_ref()
        .map(|name| hubs.end(name, &route.value, report).map(UnresolvedDestination::Hub));
    let whole = respond.as_ref().filter(|respond| respond.value.trigger.is_none());
    let reply = whole.map(|respond| self::reply(respond, &route.value, report));
    let reply = reply.map(|reply| reply.map(UnresolvedDestination::Respond));
    let mut ends = [forward, flow, hub, reply].into_iter().flatten();
    match (ends.next(), ends.next()) {
        (Some(end), None) => {
            complain_of_unreached(name, &route.value, report);
            end
        }
        (_, Some(_)) => {
            complain_of_several(name, &route.value, report);
            None
        }
        (None, None) if policies::of(&route.value).iter().any(|row| row.answers) => {
            Some(UnresolvedDestination::None)
        }
        (None, None) => {
            // If a part of the route could not be read, that part may be the destination, and was already reported.
            if route.intact {
                let what = format!("the route `{}` has no destination", name.value);
                let help = "add `upstream: NAME`, `flow: NAME`, `hub: NAME` or `respond: { status: 200, body: \"...\" }`";
                report.error(name.at, what, help);
            }
            None
        }
    }
}

/// Returns the destination keys that a route has, with their places.
fn written(route: &Route) -> Vec<(&'static str, At)> {
    let ends = [
        ("upstream", route.upstream.as_ref().map(|end| end.at)),
        ("flow", route.flow.as_ref().map(|end| end.at)),
        ("hub", route.hub.as_ref().map(|end| end.at)),
        (
            "respond",
            route.respond.as_ref().filter(|end| end.value.trigger.is_none()).map(|end| end.at),
        ),
    ];
    // Harmless: keys that the route does not have are skipped.
    ends.iter().filter_map(|(key, at)| Some((*key, (*at)?))).collect()
}

/// Complains about a destination that no request reaches because a policy answers every request.
fn complain_of_unreached(name: &Spanned<String>, route: &Route, report: &mut Report) {
    let rows = policies::of(route);
    // Harmless: `policies::of` returns one row for each policy, so `zip` drops none.
    let answering = route.policies.iter().zip(&rows).find(|(_, row)| row.answers);
    let Some((policy, _)) = answering else { return };
    let policy = policy.value.name();
    for (key, at) in written(route) {
        let what = format!(
            "`{policy}` answers every request of the route `{}`, so `{key}` is never reached",
            name.value
        );
        report.error(at, what, format!("remove `{key}`, or remove `{policy}`"));
    }
}

/// Complains if a route has more than one destination.
fn complain_of_several(name: &Spanned<String>, route: &Route, report: &mut Report) {
    let there = written(route);
    let keys: Vec<String> = there.iter().map(|(key, _)| format!("`{key}`")).collect();
    let at = there.last().map_or(name.at, |(_, at)| *at);
    let what =
        format!("the route `{}` has more than one destination: {}", name.value, keys.join(" and "));
    report.error(
        at,
        what,
        if keys.len() == 2 { "keep one of the two" } else { "keep one of them" },
    );
}

/// Compiles a flow as destination. A flow that only calls an upstream becomes that upstream.
fn flow<'c>(
    name: &'c Spanned<String>,
    route_name: &str,
    route: &'c Route,
    paths: &[PathCondition],
    flows: &'c Flows,
    report: &mut Report,
) -> Option<UnresolvedDestination<'c>> {
    let path = sent(route, paths, report);
    let host = host(route, report);
    if let Some(mirror) = &route.mirror {
        let what = "`mirror` has no effect on a flow";
        report.warn(mirror.at, what, "remove it, or add a `call` with `into` to the flow");
    }
    if !flows.has(&name.value) {
        let meant = report.suggest(&name.value, flows.names());
        let what = names::unknown("flow", &name.value, meant);
        report.error(name.at, what, "name one of the `flows`");
        return None;
    }
    let flow = flows.get(&name.value)?;
    let (path, host) = (path?, host?);
    if let Some((upstream, name_of_call)) = flow.plain_upstream() {
        return Some(UnresolvedDestination::Upstream {
            name: upstream,
            split: None,
            mirror: None,
            path,
            host,
            call: Some(name_of_call),
        });
    }
    let parameters = templates::parameters(&route.matches.value);
    let end = FlowEnd {
        flow: flow.clone(),
        route: route_name.into(),
        slots: flows.slots.clone(),
        parameters: parameters.into_iter().map(Into::into).collect(),
    };
    Some(UnresolvedDestination::Flow { end, path, host })
}

/// Returns the path that is sent to the upstream. It is the same for all paths of the match, since these have the same parameters.
fn sent(route: &Route, paths: &[PathCondition], report: &mut Report) -> Option<PathSent> {
    let sent = paths.iter().map(|want| paths::sent(route, want, report));
    sent.collect::<Option<Vec<_>>>().and_then(|sent| sent.into_iter().next())
}

fn host(route: &Route, report: &mut Report) -> Option<HostSent> {
    match &route.host.value {
        RouteHost::Preserve => Some(HostSent::Unchanged),
        RouteHost::Target => Some(HostSent::Target),
        RouteHost::Name(name) if names::is_authority(name) => {
            Some(HostSent::Named(name.as_str().into()))
        }
        RouteHost::Name(name) => {
            let what = format!("`{}` is not a valid Host", name.escape_debug());
            let help = "write `preserve`, `target`, or a name such as `orders.internal`";
            report.error(route.host.at, what, help);
            None
        }
    }
}

fn forward<'c>(
    to: &'c Spanned<RouteUpstream>,
    route: &'c Route,
    paths: &[PathCondition],
    upstreams: &BTreeSet<&str>,
    report: &mut Report,
) -> Option<UnresolvedDestination<'c>> {
    let split = match &to.value {
        RouteUpstream::One(name) => {
            known(name, to.at, upstreams, report);
            None
        }
        RouteUpstream::Split(shares) => split(shares, to, upstreams, report),
    };
    let path = sent(route, paths, report);
    let host = host(route, report)?;
    let mirror = route.mirror.as_ref().map(|mirror| &mirror.value);
    if let Some(mirror) = mirror {
        check_mirror(mirror, upstreams, report);
    }
    Some(UnresolvedDestination::Upstream {
        name: to.value.names().next()?,
        split,
        mirror,
        path: path?,
        host,
        call: None,
    })
}

/// The upper limit of `mirror.body_bytes_max`. With it, the copies in flight on one worker hold at most 4 GiB.
const MIRROR_BODY_BYTES_MAX: Size = Size(16 * 1024 * 1024);

fn check_mirror(mirror: &RouteMirror, upstreams: &BTreeSet<&str>, report: &mut Report) {
    known(&mirror.upstream.value, mirror.upstream.at, upstreams, report);
    let size = &mirror.body_bytes_max;
    if size.value > MIRROR_BODY_BYTES_MAX {
        let help = "write at most `16MiB`: a copy's body is held in memory";
        report.error(size.at, "the limit is too large for the body of a copy", help);
    }
}

/// Complains if there is no upstream of that name.
fn known(name: &str, at: At, upstreams: &BTreeSet<&str>, report: &mut Report) {
    if !upstreams.contains(name) {
        let meant = report.suggest(name, upstreams.iter().copied());
        let help = "name one of the `upstreams`";
        report.error(at, names::unknown("upstream", name, meant), help);
    }
}

/// Returns the shares of a split. Its upstreams are the first diversions of the route.
fn split(
    shares: &Map<RouteShare>,
    to: &Spanned<RouteUpstream>,
    upstreams: &BTreeSet<&str>,
    report: &mut Report,
) -> Option<Split> {
    for (name, _) in shares.iter().filter(|(name, _)| name.intact) {
        known(&name.value, name.at, upstreams, report);
    }
    let weights = shares.iter().map(|(_, weight)| weight.get());
    let shares = weights.enumerate().map(|(diversion, weight)| Share { diversion, weight });
    let split = Split::new(shares.collect());
    if split.is_none() && to.intact {
        let help = "write weights such as `{ a: 90, b: 10 }`, at least one of them above 0";
        report.error(to.at, "no upstream gets a share of the requests", help);
    }
    split
}

/// Returns the policy that sends a fixed reply to requests with the trigger, a header or a query parameter, and the place of `respond`.
/// Returns `None` if the route has no trigger, or after a complaint.
pub(crate) fn triggered(route: &Route, report: &mut Report) -> Option<(At, plan::Policy)> {
    let respond = route.respond.as_ref()?;
    let trigger = respond.value.trigger.as_ref()?;
    let name = names::header(&trigger.value, trigger.at, report)?;
    let reply = reply(respond, route, report)?;
    Some((respond.at, plan::triggered(name, reply)))
}

fn reply(respond: &Spanned<Respond>, route: &Route, report: &mut Report) -> Option<FixedReply> {
    let without_effect = [
        ("strip_prefix", route.strip_prefix.as_ref().map(|key| key.at)),
        ("rewrite", route.rewrite.as_ref().map(|key| key.at)),
        ("mirror", route.mirror.as_ref().map(|key| key.at)),
        ("host", Some(route.host.at).filter(|at| *at != At::NOWHERE)),
    ];
    for (key, at) in without_effect {
        if let Some(at) = at.filter(|_| respond.value.trigger.is_none()) {
            let what = format!("`{key}` has no effect on a fixed reply");
            report.warn(at, what, "remove it");
        }
    }
    let Respond { status, body, headers, .. } = &respond.value;
    let status = status.get_u16();
    if !body.value.is_empty() && matches!(status, 204 | 205 | 304) {
        let what = format!("a reply with status {status} has no body");
        report.error(respond.at, what, "remove `body`, or write another status");
        return None;
    }
    let parameters = templates::parameters(&route.matches.value);
    let mut filled = FilledReply::default();
    let mut lines = Headers::new();
    let mut escape = Escape::Plain;
    let upgrades = |name: &str| status == 426 && name.eq_ignore_ascii_case("upgrade");
    if headers.iter().any(|(name, _)| upgrades(&name.value)) {
        lines.add_known("Connection", b"upgrade");
    }
    let name = |name: &str, at, report: &mut Report| {
        if upgrades(name) {
            Some("upgrade".to_owned())
        } else {
            names::changeable_header(name, at, report)
        }
    };
    for (name, value) in templates::lines_named(headers, &parameters, report, name) {
        match value.constant() {
            Some(value) => {
                if name == "content-type" {
                    escape = Escape::of(value);
                }
                let refused = |_| {
                    let what = format!("the header `{name}` is too large");
                    report.error(respond.at, what, "write fewer or shorter headers");
                };
                lines.add(&name, value.as_bytes()).map_err(refused).ok()?;
            }
            None => filled.lines.push((name, value)),
        }
    }
    let body = templates::read(body, &parameters, report)?;
    let fixed = match body.constant() {
        Some(body) => Bytes::from(body.to_owned()),
        None => {
            filled.body = Some((body, escape));
            Bytes::new()
        }
    };
    let filled = (!filled.lines.is_empty() || filled.body.is_some()).then(|| Box::new(filled));
    Some(FixedReply { status, headers: lines, body: fixed, filled })
}

/// Returns the names of the upstreams among which a route's requests are split.
pub(crate) fn split_names(route: &Route) -> Vec<String> {
    match route.upstream.as_ref().map(|upstream| &upstream.value) {
        Some(RouteUpstream::Split(shares)) => {
            shares.iter().map(|(name, _)| name.value.clone()).collect()
        }
        Some(RouteUpstream::One(_)) | None => Vec::new(),
    }
}

/// Warns of an upstream that balances by a parameter that the route does not have.
pub(crate) fn warn_of_uncaptured(
    route: &Route,
    parameters: &[&str],
    config: &Config,
    report: &mut Report,
) {
    let Some(to) = &route.upstream else { return };
    for name in to.value.names() {
        let upstream = config.upstreams.iter().find(|(known, _)| known.value == name);
        let Some((_, config::Upstream { balance: Balance::Hash(keys), .. })) = upstream else {
            continue;
        };
        // A key before the last one has an `else`.
        if let Some(HashBy::Capture(missing)) = keys.by.last()
            && !parameters.contains(&missing.as_str())
        {
            let what = format!(
                "`{name}` balances by the path parameter `{missing}`, which this route does not have"
            );
            let help = "name the parameter in `match.path`, or give the balance an `else`";
            report.warn(to.at, what, help);
        }
    }
}

/// Returns a text that describes the destination of a route and how requests are rewritten for it. When the text changes, the replies
/// cached so far are dropped, because they came from another destination.
pub(crate) fn fingerprint(route: &Route) -> String {
    let Route { upstream, flow, hub, respond, strip_prefix, rewrite, host, .. } = route;
    let [flow, hub] = [flow, hub].map(|name| name.as_ref().map(|name| &name.value));
    // For a split only the names count: changed shares do not change any reply, and the cache key names the upstream of each.
    let upstream = upstream.as_ref().map(|upstream| upstream.value.names().collect::<Vec<_>>());
    let [strip_prefix, rewrite] =
        [strip_prefix, rewrite].map(|key| key.as_ref().map(|key| &key.value));
    let respond = respond.as_ref().map(|respond| respond.value.encode());
    format!(
        "{upstream:?} {flow:?} {hub:?} {strip_prefix:?} {rewrite:?} {:?} {respond:?}",
        host.value
    )
}

impl UnresolvedDestination<'_> {
    /// Resolves the names to upstreams. `diversions` are the names of the upstreams that a policy or split may divert to.
    pub(crate) fn build(
        self,
        route: &str,
        parameters: &[&str],
        diversions: &[String],
        upstreams: &Upstreams<'_>,
        telemetry: &Telemetry,
    ) -> Option<Ends> {
        let to = |name: &str| upstreams.get(name).map(|upstream| Arc::clone(upstream));
        let captured = |upstream: &Upstream| {
            let name = upstream.settings().balance.captured()?;
            parameters.iter().position(|known| *known == name)
        };
        // A diverted request is sent with the same path, host, mirror and label as other requests of the route.
        let diverted = |path: &PathSent,
                        host: &HostSent,
                        mirror: &Option<Arc<Mirror>>,
                        call: &Option<Arc<str>>| {
            // Harmless: an unknown upstream got a complaint earlier.
            let forwards = diversions.iter().filter_map(|name| {
                let (path, host, mirror) = (path.clone(), host.clone(), mirror.clone());
                let call = call.clone();
                let upstream = to(name)?;
                let captured = captured(&upstream);
                let forward = Forward { upstream, mirror, path, host, captured, call };
                Some(Destination::forward(forward))
            });
            forwards.collect()
        };
        let answered = |destination| Ends {
            destination,
            diversions: diverted(&PathSent::Unchanged, &HostSent::Unchanged, &None, &None),
            split: None,
        };
        Some(match self {
            UnresolvedDestination::Respond(reply) => answered(Destination::answerer(reply)),
            UnresolvedDestination::Description(described) => {
                answered(Destination::answerer(described))
            }
            UnresolvedDestination::None => answered(Destination::answerer(NoDestination)),
            UnresolvedDestination::Hub(end) => answered(Destination::answerer(end)),
            UnresolvedDestination::Flow { end, path, host } => Ends {
                diversions: diverted(&path, &host, &None, &None),
                destination: Destination::answerer(PreparedAnswerer { path, host, to: end }),
                split: None,
            },
            UnresolvedDestination::Upstream { name, split, mirror, path, host, call } => {
                let mirror = match mirror {
                    Some(keys) => Some(Arc::new(Mirror {
                        upstream: to(&keys.upstream.value)?,
                        share: keys.percent.of_million(),
                        body_bytes_max: bytes(keys.body_bytes_max.value),
                        host: host.clone(),
                        metrics: telemetry.route(route),
                    })),
                    None => None,
                };
                let diversions = diverted(&path, &host, &mirror, &call);
                let upstream = to(name)?;
                let captured = captured(&upstream);
                let forward = Forward { upstream, mirror, path, host, captured, call };
                Ends { destination: Destination::forward(forward), diversions, split }
            }
        })
    }
}
