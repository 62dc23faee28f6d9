//! Compiles `routes` to the route table.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use config::{At, Config, Map, Match, Report, Route, Spanned, ValueMatch};
use plan::telemetry::{Telemetry, UNKNOWN_OPERATION};
use plan::upstreams::Upstream;
use plan::{
    Errors, Matcher, OnReload, PathCondition, Policy, Preflights, PublishedDescription, Slots,
    Streams, Table, ValueCondition, ValueRegex,
};

use crate::destinations::{Ends, KnownDestinations, UnresolvedDestination};
use crate::flows::Flows;
use crate::hubs::Hubs;
use crate::policies::{self, Access, CountedRequests, Facts};
use crate::policy::RouteScope;
use crate::policy_builder::PolicyBuilder;
use crate::{destinations, facts, names, paths, published, streams};

/// A checked route, not yet connected to its upstream and its metrics.
pub(crate) struct Draft<'c> {
    name: &'c Spanned<String>,
    /// The place of the match in its file.
    at: At,
    /// One matcher for each host and path. Empty if the match could not be read.
    matchers: Vec<Matcher>,
    /// Whether the match was read without errors, so that a conflict with another route is worth a complaint.
    intact: bool,
    policies: Vec<Policy>,
    /// The place of each policy in the configuration.
    places: Vec<Box<str>>,
    preflights: Preflights,
    /// Names of other upstreams that its policies may divert to.
    diversions: Vec<String>,
    operations: Vec<String>,
    errors: Errors,
    /// Query parameters that contain credentials.
    secrets: Box<[String]>,
    /// The destination, or `None` after a complaint.
    end: Option<UnresolvedDestination<'c>>,
    body_bytes_max: Option<u64>,
    length_required: bool,
    streams: Streams,
}

/// Checks each route on its own, and then all routes for conflicts.
pub(crate) fn check<'c>(
    config: &'c Config,
    flows: &'c Flows,
    hubs: &'c Hubs,
    open: &HashSet<String>,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Vec<Draft<'c>> {
    if config.routes.is_empty() && !report.has_errors() {
        let help = "write `routes: { NAME: { match: { path: \"/**\" }, upstream: NAME } }`";
        report.warn(At::file(0), "there is no route, so every request is answered with 404", help);
    }
    let upstreams: BTreeSet<&str> = config.upstreams.names().collect();
    let named = KnownDestinations { upstreams, flows, hubs };
    let mut drafts: Vec<Draft<'c>> = Vec::new();
    for (name, route) in config.routes.iter() {
        facts::check(&route.value, open.contains(&name.value), report);
        drafts.push(draft(name, route, config, &named, builder, report));
        if let Some(file) = &route.value.services.wsdl
            && let Some(described) = published::compile(file, &route.value.services.imports, report)
        {
            // The faults of the route were already reported, so the report of this copy is discarded.
            let mut again = Report::new(report.sources().clone());
            let whole = draft(name, route, config, &named, builder, &mut again);
            drafts.push(description(whole, &route.value, described));
        }
    }
    // Conflicts are searched among all routes, even if some of them cannot be built.
    let placeholder = Arc::new(plan::Route::placeholder());
    let routes = drafts.iter().map(|draft| (draft, placeholder.clone()));
    if let Err(conflicts) = table(routes) {
        complain_of_conflicts(&conflicts, report);
    }
    drafts
}

/// Builds the table. Called only if there are no errors.
pub(crate) fn build(
    mut drafts: Vec<Draft<'_>>,
    upstreams: &[Arc<Upstream>],
    telemetry: &Telemetry,
    mut report: Report,
) -> Result<(Table, Report), Report> {
    let upstreams: HashMap<&str, &Arc<Upstream>> =
        upstreams.iter().map(|upstream| (upstream.settings().name.as_str(), upstream)).collect();
    let mut routes = Vec::with_capacity(drafts.len());
    for draft in &mut drafts {
        match route(draft, &upstreams, telemetry) {
            Some(route) => routes.push(route),
            None => {
                let what = format!("the route `{}` cannot be built", draft.name.value);
                report.error(draft.at, what, "fix the other errors");
            }
        }
    }
    if report.has_errors() {
        return Err(report);
    }
    // Harmless: without an error there is a route for each draft.
    match table(drafts.iter().zip(routes)) {
        Ok(table) => Ok((table, report)),
        Err(conflicts) => {
            complain_of_conflicts(&conflicts, &mut report);
            Err(report)
        }
    }
}

/// Returns the generation in which a route last changed, for routes whose streams a reload may end.
pub(crate) fn unchanged_since(drafts: &[Draft<'_>]) -> HashMap<Box<str>, u64> {
    let of = |draft: &Draft<'_>| match draft.streams.reload {
        OnReload::Close { since } => Some((draft.name.value.as_str().into(), since)),
        OnReload::Keep => None,
    };
    // Harmless: a reload does not end the streams of other routes.
    drafts.iter().filter_map(of).collect()
}

fn route(
    draft: &mut Draft<'_>,
    upstreams: &HashMap<&str, &Arc<Upstream>>,
    telemetry: &Telemetry,
) -> Option<Arc<plan::Route>> {
    // All matchers of a route have the same parameters.
    let path = draft.matchers.first().map(|matcher| &matcher.path);
    let parameters: Vec<&str> = path.into_iter().flat_map(PathCondition::parameters).collect();
    let (name, diversions) = (&*draft.name.value, &draft.diversions);
    let Ends { destination, split, diversions } =
        draft.end.take()?.build(name, &parameters, diversions, upstreams, telemetry)?;
    Some(Arc::new(plan::Route {
        name: draft.name.value.clone(),
        policies: std::mem::take(&mut draft.policies).into(),
        places: std::mem::take(&mut draft.places).into(),
        preflights: draft.preflights,
        destination,
        diversions,
        split,
        errors: draft.errors,
        secrets: std::mem::take(&mut draft.secrets),
        body_bytes_max: draft.body_bytes_max,
        length_required: draft.length_required,
        streams: draft.streams,
        metrics: telemetry.route(&draft.name.value),
        operations: operations(draft, telemetry),
    }))
}

/// Returns the operations of a route with their counters. The last one counts requests of unknown operations. The list is empty if no
/// policy distinguishes operations.
fn operations(draft: &Draft<'_>, telemetry: &Telemetry) -> Box<[plan::Operation]> {
    let unknown = (!draft.operations.is_empty()).then_some(UNKNOWN_OPERATION);
    let names = draft.operations.iter().map(String::as_str).chain(unknown);
    let operation = |name: &str| plan::Operation {
        name: name.into(),
        metrics: telemetry.operation(&draft.name.value, name),
    };
    names.map(operation).collect()
}

/// Two routes that match the same requests.
type Conflict<'d, 'c> = (&'d Draft<'c>, &'d Draft<'c>);

fn table<'d, 'c>(
    routes: impl Iterator<Item = (&'d Draft<'c>, Arc<plan::Route>)>,
) -> Result<Table, Vec<Conflict<'d, 'c>>> {
    let mut owners = Vec::new();
    let mut entries = Vec::new();
    for (draft, route) in routes {
        for matcher in &draft.matchers {
            owners.push(draft);
            entries.push((matcher.clone(), route.clone()));
        }
    }
    // `owners` has one draft for each entry of the table.
    let owner = |entry: usize| owners.get(entry).copied();
    Table::build(entries).map_err(|conflicts| {
        // Harmless: each entry has an owner.
        let of = |conflict: &plan::Conflict| owner(conflict.first).zip(owner(conflict.second));
        // Harmless: each entry has an owner.
        conflicts.iter().filter_map(of).collect()
    })
}

fn complain_of_conflicts(conflicts: &[Conflict<'_, '_>], report: &mut Report) {
    for (first, second) in conflicts {
        if !first.intact || !second.intact {
            continue;
        }
        let (what, help) = if std::ptr::eq(*first, *second) {
            ("a host or a path appears twice".to_owned(), "remove one of the two")
        } else {
            let place = report.sources().place(first.at);
            let what = format!(
                "the routes `{}` and `{}` match the same requests; the other match is at {place}",
                second.name.value, first.name.value
            );
            (
                what,
                "give one of them another path, host, listener, method, header or query parameter, or a `priority`",
            )
        };
        report.error(second.at, what, help);
    }
}

fn draft<'c>(
    name: &'c Spanned<String>,
    route: &'c Spanned<Route>,
    config: &'c Config,
    named: &KnownDestinations<'c>,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Draft<'c> {
    let Route { matches, limits, policies, .. } = &route.value;
    // Harmless: `conditions` reports invalid paths.
    let paths = paths::conditions(matches, report).unwrap_or_default();
    // Harmless: `paths` has one item for each path, or is empty after a complaint.
    for (path, condition) in matches.value.path.0.iter().zip(&paths) {
        paths::warn_of_unreachable(path, &matches.value, condition, config, report);
    }
    let parameters: Vec<&str> =
        paths.first().into_iter().flat_map(PathCondition::parameters).collect();
    destinations::warn_of_uncaptured(&route.value, &parameters, config, report);
    // Called even if a path is invalid, so that faults in other parts of the match are reported, too.
    let matchers = matchers(&matches.value, &paths, config, report);
    // The upstreams of a split come first, because its shares refer to them by index, and so that every policy sees them.
    let mut diversions = destinations::split_names(&route.value);
    let mut operations = Vec::new();
    let mut slots = Slots::default();
    let mut place = RouteScope {
        route: &name.value,
        config,
        of: &route.value,
        builder,
        diversions: &mut diversions,
        operations: &mut operations,
        slots: &mut slots,
        at: 0,
    };
    let mut places: Vec<Box<str>> =
        policies.iter().map(|item| report.sources().place(item.at).into()).collect();
    let build = |(at, item)| {
        place.at = at;
        let built = policies::build(item, &mut place, report);
        policies::openapi::seen_below(built, &route.value, at)
    };
    let mut policies: Vec<Policy> = policies.iter().enumerate().map(build).collect();
    if let Some((at, policy)) = destinations::triggered(&route.value, report) {
        places.push(report.sources().place(at).into());
        policies.push(policy);
    }
    let streams = streams::of(&name.value, &route.value, &diversions, config, builder);
    Draft {
        name,
        at: matches.at,
        matchers,
        intact: matches.intact,
        policies,
        places,
        preflights: preflights(&route.value),
        diversions,
        operations,
        errors: errors(&route.value),
        secrets: secrets(&route.value),
        end: destinations::end(name, route, &paths, named, report),
        body_bytes_max: limits.body_bytes_max.map(|size| size.0),
        length_required: limits.length_required,
        streams,
    }
}

/// Turns a copy of a route's draft into one that publishes its description: for `GET ?wsdl`, and `?xsd` if it imports schemas, in lower or
/// upper case. It keeps the policies that refuse requests.
fn description<'c>(
    mut draft: Draft<'c>,
    route: &'c Route,
    described: PublishedDescription,
) -> Draft<'c> {
    let spelled = |name: &str| {
        let mut matchers = draft.matchers.clone();
        for matcher in &mut matchers {
            matcher.methods = vec!["GET".to_owned(), "HEAD".to_owned()];
            matcher.query.push((name.to_owned(), ValueCondition::Present));
        }
        matchers
    };
    let mut names = vec!["wsdl", "WSDL"];
    if !described.schemas.is_empty() {
        names.extend(["xsd", "XSD"]);
    }
    draft.matchers = names.into_iter().flat_map(spelled).collect();
    let rows = policies::of(route);
    let places = std::mem::take(&mut draft.places);
    // Harmless: `places` has one item for each policy.
    let built = std::mem::take(&mut draft.policies).into_iter().zip(places);
    let guards =
        |row: &Facts<'_>| row.access != Access::Open || row.counts != CountedRequests::Nothing;
    // Harmless: `rows` has one item for each policy of the list, in the same order. The policy of a triggered reply comes after them, has
    // no row, and is dropped.
    let kept = built.zip(&rows).filter(|(_, row)| guards(row)).map(|(policy, _)| policy);
    (draft.policies, draft.places) = kept.unzip();
    draft.end = Some(UnresolvedDestination::Description(described));
    draft.operations = Vec::new();
    draft
}

/// Returns whether CORS preflight requests are routed by their `Access-Control-Request-Method`, and how many policies at the top of the
/// list answer them.
fn preflights(route: &Route) -> Preflights {
    let rows = policies::of(route);
    let answers = |row: &Facts<'_>| row.access == Access::AnswersPreflights;
    Preflights {
        attracted: rows.iter().any(|row| row.attracts_preflights),
        topmost: rows.iter().take_while(|row| answers(row)).count(),
    }
}

/// Returns the query parameters that must not be logged: those in which policies look for credentials, and for a hub the secret of a
/// subscription and its callback, which is as confidential as a secret (WebSub, 8.1).
fn secrets(route: &Route) -> Box<[String]> {
    const OF_HUBS: [&str; 2] = ["hub.callback", "hub.secret"];
    let rows = policies::of(route);
    let of_policies = rows.iter().flat_map(|row| &row.secrets).copied();
    let of_hub = if route.hub.is_some() { OF_HUBS.as_slice() } else { &[] };
    of_policies.chain(of_hub.iter().copied()).map(str::to_owned).collect()
}

fn errors(route: &Route) -> Errors {
    match route.errors {
        config::Errors::Problem => {
            let errors = policies::soap::faults(route);
            let own = errors == Errors::Problem && route.flow.is_some();
            if own { Errors::Flow } else { errors }
        }
        config::Errors::Kong => Errors::Kong { verbose: policies::soap::is_verbose(route) },
        config::Errors::Wso2 => Errors::Wso2,
        config::Errors::Apim => Errors::Apim,
    }
}

/// Returns one matcher for each combination of host and path. Without hosts, any host matches.
fn matchers(
    matches: &Match,
    paths: &[PathCondition],
    config: &Config,
    report: &mut Report,
) -> Vec<Matcher> {
    let any = Matcher {
        host: None,
        path: PathCondition::Pattern(plan::Pattern { segments: Vec::new(), open: true }),
        priority: matches.priority.value.0,
        server_names: server_names(matches, config, report),
        sources: matches.source.0.iter().map(|network| network.value.0).collect(),
        listeners: matches.listener.0.iter().map(|name| listener(name, config, report)).collect(),
        methods: matches
            .methods
            .0
            .iter()
            .filter_map(|method| names::method(method, report))
            .collect(),
        get_takes_head: matches.head,
        headers: conditions(&matches.headers, report, |name, report| {
            names::header(&name.value, name.at, report)
        }),
        query: conditions(&matches.query, report, |name, _| Some(name.value.clone())),
    };
    let hosts = matches.host.0.iter().filter_map(|host| names::host(&host.value, host.at, report));
    let hosts: Vec<Option<plan::HostPattern>> =
        if matches.host.0.is_empty() { vec![None] } else { hosts.map(Some).collect() };
    let on = |host: &Option<plan::HostPattern>, path: &PathCondition| Matcher {
        host: host.clone(),
        path: path.clone(),
        ..any.clone()
    };
    hosts.iter().flat_map(|host| paths.iter().map(move |path| on(host, path))).collect()
}

/// Returns the name of a listener. An unknown name is reported but kept; without it, the route would seem to match on all listeners.
fn listener(name: &Spanned<String>, config: &Config, report: &mut Report) -> String {
    if !config.listen.has(&name.value) {
        let meant = report.suggest(&name.value, config.listen.names());
        let what = names::unknown("listener", &name.value, meant);
        report.error(name.at, what, "name one of those below `listen`");
    }
    name.value.clone()
}

/// Returns the names of `sni`. Complains if no listener of the route has TLS, since then no request has a server name.
fn server_names(matches: &Match, config: &Config, report: &mut Report) -> Vec<plan::HostPattern> {
    let Match { sni, listener: bound, .. } = matches;
    let serves = |name: &str| bound.0.is_empty() || bound.0.iter().any(|b| b.value == name);
    let mut listeners = config.listen.iter().filter(|(name, _)| serves(&name.value));
    if let Some(first) = sni.0.first()
        && !listeners.any(|(_, listener)| listener.tls.is_some())
    {
        let help = "add `tls` to a listener of the route, or use `host`";
        report.warn(
            first.at,
            "no listener of this route uses TLS, so clients send no server name",
            help,
        );
    }
    sni.0.iter().filter_map(|name| names::host(&name.value, name.at, report)).collect()
}

fn conditions(
    map: &Map<Spanned<ValueMatch>>,
    report: &mut Report,
    name_of: impl Fn(&Spanned<String>, &mut Report) -> Option<String>,
) -> Vec<(String, ValueCondition)> {
    map.iter()
        .filter_map(|(name, condition)| {
            let condition = value_condition(condition, report);
            Some((name_of(name, report)?, condition?))
        })
        .collect()
}

fn value_condition(condition: &Spanned<ValueMatch>, report: &mut Report) -> Option<ValueCondition> {
    Some(match &condition.value {
        ValueMatch::Present => ValueCondition::Present,
        ValueMatch::Exact(value) => ValueCondition::Equals(value.as_bytes().into()),
        ValueMatch::Any(values) if values.is_empty() => {
            report.error(
                condition.at,
                "no value is listed, so nothing can match",
                "write `{ any: [a, b] }`",
            );
            return None;
        }
        ValueMatch::Any(values) => {
            ValueCondition::OneOf(values.iter().map(|value| value.as_bytes().into()).collect())
        }
        ValueMatch::Regex(text) => match ValueRegex::parse(text) {
            Ok(regex) => ValueCondition::Regex(regex),
            Err(why) => {
                let what = format!(
                    "the regular expression `{}` cannot be used: {why}",
                    text.escape_debug()
                );
                report.error(
                    condition.at,
                    what,
                    "write an expression for the whole value, without look-around and backreferences",
                );
                return None;
            }
        },
    })
}
