//! Expands `apis` into routes and upstreams before anything else is compiled, so that routes from an OpenAPI document are compiled exactly
//! like those that the operator wrote.

mod subscriptions;

use std::borrow::Cow;
use std::collections::HashSet;

use config::{
    Api, At, Authenticate, Config, CredentialKind, Decode as _, LimitPlan, Policy, Report, Route,
    Spanned, SubscriptionCheck, Upstream, WithoutCredential, ready_plans,
};
use import::{Documents, GeneratedApi, GeneratedRoute, Model, Options};
use serde_json::{Map, Value as Json, json};

use crate::plans;
use crate::policies::{self, Access, Diverts};

/// The result of expanding a configuration's APIs.
pub(crate) struct ExpandedApis<'c> {
    /// The configuration, with the routes and upstreams of its APIs added.
    pub(crate) config: Cow<'c, Config>,
    /// Names of routes that do not require authentication although their API does: routes for paths that the document does not describe,
    /// and operations that the document allows without credentials.
    pub(crate) open: HashSet<String>,
}

/// Expands all APIs into routes and upstreams.
pub(crate) fn expand<'c>(config: &'c Config, report: &mut Report) -> ExpandedApis<'c> {
    let mut open = HashSet::new();
    if config.apis.is_empty() {
        return ExpandedApis { config: Cow::Borrowed(config), open };
    }
    let mut all = config.clone();
    for (name, api) in config.apis.iter() {
        if let Some(made) = generate(config, &name.value, api, report) {
            open.extend(open_beside_others(&made));
            add(&mut all, &name.value, made, api, report);
        }
    }
    ExpandedApis { config: Cow::Owned(all), open }
}

/// Returns the names of the API's open routes, if another of its routes authenticates clients. If none does, a policy that needs the client
/// identity is a mistake on every route, so the list is empty.
fn open_beside_others(made: &GeneratedApi) -> Vec<String> {
    let (open, asking): (Vec<_>, Vec<_>) = made.routes.iter().partition(|route| route.open);
    if asking.is_empty() {
        Vec::new()
    } else {
        open.iter().map(|route| route.name.clone()).collect()
    }
}

/// Generates the routes and upstreams of one API from its OpenAPI document. Returns `None` after a complaint.
fn generate(
    config: &Config,
    name: &str,
    api: &Spanned<Api>,
    report: &mut Report,
) -> Option<GeneratedApi> {
    let keys = &api.value;
    let document = &keys.openapi;
    let read = Documents::read(document.value.as_path(), |path| report.depends_on(path.to_owned()));
    let help = policies::openapi::UNREADABLE_HELP;
    let refuse = |faults: Vec<String>, help: &str, report: &mut Report| {
        faults.into_iter().for_each(|fault| report.error(document.at, fault, help));
    };
    let documents = read.map_err(|faults| refuse(faults, help, report)).ok()?;
    let model = Model::read(&documents);
    let model = model.map_err(|faults| refuse(faults, "", report)).ok()?;
    let text = |value: &Option<Spanned<String>>| value.as_ref().map(|value| value.value.clone());
    let ready = ready_plans(At::NOWHERE);
    let ready = ready.filter(|(name, _)| !config.plans.has(name));
    let ready = ready.map(|(name, plan)| (name.to_owned(), of_requests(&plan.value)));
    let plans =
        config.plans.iter().map(|(name, plan)| (name.value.clone(), of_requests(&plan.value)));
    let plans = plans.chain(ready);
    let options = Options {
        name: name.to_owned(),
        document: std::path::absolute(document.value.as_path())
            .map_err(|error| refuse(vec![config::reason(&error)], help, report))
            .ok()?,
        base_path: text(&keys.base_path),
        upstream: text(&keys.upstream),
        host: keys.host.0.iter().map(|host| host.value.clone()).collect(),
        errors: keys.errors.word().to_owned(),
        request: keys.validate.request,
        response: keys.validate.response,
        verbose: keys.validate.verbose,
        body_bytes_max: format!("{}B", keys.validate.body_bytes_max.0),
        issuers: config.issuers.names().map(str::to_owned).collect(),
        plans: plans.collect::<Map<String, Json>>(),
        plan_unknown: None,
        secured: keys.policies.iter().any(|policy| authenticates(&policy.value)),
        subscription: keys.subscription.is_some(),
    };
    let mut made = import::expand(&documents, &model, &options);
    refuse_wrong_cors(&mut made);
    for fault in &made.errors {
        report.error(document.at, format!("the API `{name}` cannot be built: {fault}"), "");
    }
    for note in &made.notes {
        report.warn(document.at, note.text.as_str(), "");
    }
    Some(made)
}

/// Checks `cors` once, with complaints at its place in the document. Otherwise each route would repeat them, at the place of the API.
fn refuse_wrong_cors(made: &mut GeneratedApi) {
    let Some((location, policy)) = &made.cors else { return };
    let mut report = Report::default();
    if let Some(Policy::Cors(keys)) = config::decode(policy, At::NOWHERE, &mut report) {
        policies::cors::check(&keys, &mut report);
    }
    if !report.has_errors() {
        return;
    }
    let told = report.errors().map(|wrong| match &wrong.help {
        Some(help) => format!("{location}: {}; {help}", wrong.what),
        None => format!("{location}: {}", wrong.what),
    });
    made.errors.extend(told);
    for route in &mut made.routes {
        if let Some(policies) = route.route.get_mut("policies").and_then(Json::as_array_mut) {
            policies.retain(|policy| policy.get("cors").is_none());
            route.own_at = route.own_at.saturating_sub(1);
        }
    }
}

/// Returns a plan's request limits in the form of the keys of `rate_limit`.
fn of_requests(plan: &LimitPlan) -> Json {
    if !plans::bounds_requests(plan) {
        return json!({ "unlimited": true });
    }
    let mut of_requests = plan.clone();
    (of_requests.events, of_requests.bytes, of_requests.subscriptions) = (None, None, None);
    of_requests.windows.retain(|window| window.value.requests.is_some());
    for window in &mut of_requests.windows {
        (window.value.events, window.value.bytes) = (None, None);
    }
    if of_requests.requests.is_none() {
        of_requests.per = None;
    }
    let mut encoded = of_requests.encode();
    if let Some(keys) = encoded.as_object_mut() {
        // `rate_limit` does not have these keys. They apply to subscriptions only.
        keys.remove("stop_on_quota");
        keys.remove("burst_rate");
    }
    encoded
}

fn add(all: &mut Config, name: &str, made: GeneratedApi, api: &Spanned<Api>, report: &mut Report) {
    let check = subscriptions::check(name, &made.base, &api.value);
    for (name, upstream) in made.upstreams {
        let at = api.value.openapi.at;
        let Some(upstream) = config::decode::<Upstream>(&upstream, at, report) else { continue };
        if !all.upstreams.add(named(&name, at), upstream) {
            let what =
                format!("the API adds an upstream `{name}`, but one with this name already exists");
            report.error(api.at, what, "give the API or that upstream another name");
        }
    }
    for route in made.routes {
        add_route(all, route, api, check.as_ref(), report);
    }
}

fn add_route(
    all: &mut Config,
    made: GeneratedRoute,
    api: &Spanned<Api>,
    check: Option<&Spanned<SubscriptionCheck>>,
    report: &mut Report,
) {
    // Complaints point at the API, which the operator can change, and not at the document.
    let mut route = route_of(&made, api.at, report);
    let Some(route_) = &mut route else { return };
    if let (Some(to), Some(from)) = (&mut route_.upstream, &api.value.upstream) {
        to.at = from.at;
    }
    let own = api.value.policies.iter();
    let own = own.filter(|policy| !(made.open && is_security(&policy.value)));
    let own = own.map(|policy| scoped(policy, &made.scopes));
    let mut own: Vec<_> = own.collect();
    if made.alternatives {
        join_alternatives(&mut own, made.optional);
    }
    if route_.respond.is_some() {
        // This route refuses requests that the document does not describe. It has no upstream, so policies that choose one by message are
        // removed. Policies from the first that reads XML on are moved to the end, so that a request is refused for its path, not its body.
        own.retain(|policy| !chooses_by_message(&policy.value));
        let first = own.iter().position(|policy| reads_xml(&policy.value));
        route_.policies.extend(own.split_off(first.unwrap_or(own.len())));
    }
    let own = own.into_iter();
    // A `cache` goes below the policies that choose the upstream, because the key of a cached reply must include the upstream that it came
    // from.
    let chooses = route_.policies.iter().rposition(|policy| chooses_upstream(&policy.value));
    let (low, own): (Vec<_>, Vec<_>) =
        own.partition(|policy| chooses.is_some() && matches!(policy.value, Policy::Cache(_)));
    let below = chooses.map_or(0, |at| at + 1);
    route_.policies.splice(below..below, low);
    let at = made.own_at.min(route_.policies.len());
    route_.policies.splice(at..at, own);
    route_.matches.value.listener = api.value.listener.clone();
    if let Some(check) = check.filter(|_| !made.open) {
        subscriptions::add(check, &made, &mut route_.policies, at, &all.issuers);
    }
    let Some(route) = route else { return };
    let route = Spanned { value: route, at: api.at, intact: api.intact };
    if !all.routes.add(named(&made.name, api.at), route) {
        let what =
            format!("the API adds a route `{}`, but one with this name already exists", made.name);
        report.error(api.at, what, "give the API or that route another name");
    }
}

/// Merges the API's authentication policies into one `authenticate` where the document accepts any one of several credentials.
fn join_alternatives(own: &mut Vec<Spanned<Policy>>, optional: bool) {
    let kind = |policy: &Spanned<Policy>| {
        let value = if let Policy::Jwt(keys) = &policy.value {
            CredentialKind::Jwt(keys.clone())
        } else if let Policy::ApiKey(keys) = &policy.value {
            CredentialKind::ApiKey(keys.clone())
        } else if let Policy::Basic(keys) = &policy.value {
            CredentialKind::Basic(keys.clone())
        } else if let Policy::MutualTls(keys) = &policy.value {
            CredentialKind::MutualTls(keys.clone())
        } else {
            return None;
        };
        Some(Spanned { value, at: policy.at, intact: policy.intact })
    };
    // Harmless: policies of other kinds remain in `own`.
    let kinds: Vec<_> = own.iter().filter_map(kind).collect();
    let Some(first) = own.iter().position(|policy| kind(policy).is_some()) else { return };
    if kinds.len() < 2 {
        return;
    }
    let (at, intact) = (own.get(first).map_or(At::NOWHERE, |policy| policy.at), true);
    own.retain(|policy| kind(policy).is_none());
    let otherwise = if optional { WithoutCredential::Anonymous } else { WithoutCredential::Refuse };
    let any = Spanned { value: kinds, at, intact };
    let joined = Policy::Authenticate(Authenticate { any, otherwise });
    own.insert(first.min(own.len()), Spanned { value: joined, at, intact });
}

fn route_of(made: &GeneratedRoute, at: At, report: &mut Report) -> Option<Route> {
    config::decode::<Route>(&made.route, at, report)
}

fn named(name: &str, at: At) -> Spanned<String> {
    Spanned { value: name.to_owned(), at, intact: true }
}

/// Adds the document's scopes to those of the API's own `jwt`.
fn scoped(policy: &Spanned<Policy>, scopes: &[String]) -> Spanned<Policy> {
    let mut policy = policy.clone();
    if let Policy::Jwt(jwt) = &mut policy.value {
        join_scopes(jwt, scopes);
    } else if let Policy::Authenticate(keys) = &mut policy.value {
        // Harmless: only `jwt` has scopes, so credentials of other kinds are skipped.
        let tokens = keys.any.value.iter_mut().filter_map(as_jwt);
        tokens.for_each(|jwt| join_scopes(jwt, scopes));
    }
    policy
}

fn join_scopes(jwt: &mut config::Jwt, scopes: &[String]) {
    for scope in scopes {
        if !jwt.scopes.any.contains(scope) {
            jwt.scopes.any.push(scope.clone());
        }
    }
}

fn as_jwt(kind: &mut Spanned<CredentialKind>) -> Option<&mut config::Jwt> {
    match &mut kind.value {
        CredentialKind::Jwt(jwt) => Some(jwt),
        CredentialKind::ApiKey(_)
        | CredentialKind::Basic(_)
        | CredentialKind::Hmac(_)
        | CredentialKind::MutualTls(_) => None,
    }
}

/// Returns true if the policy may send two equal requests to different upstreams, for a reason other than the body.
fn chooses_upstream(policy: &Policy) -> bool {
    matches!(policies::facts(policy, &[]).diverts, Diverts::ByCaller | Diverts::ByService)
}

fn reads_xml(policy: &Policy) -> bool {
    policies::facts(policy, &[]).xml.is_some()
}

fn chooses_by_message(policy: &Policy) -> bool {
    policies::facts(policy, &[]).diverts == Diverts::ByMessage
}

/// Returns true for policies that `x-wso2-disable-security` turns off: authentication, and rules about the client identity, which cannot be
/// applied without it.
fn is_security(policy: &Policy) -> bool {
    let row = policies::facts(policy, &[]);
    row.access == Access::Identifies || row.access == Access::Guards && row.asks_identity
}

/// Returns true for policies that authenticate clients. They replace the authentication that the document describes.
pub(super) fn authenticates(policy: &Policy) -> bool {
    policies::facts(policy, &[]).access == Access::Identifies
}
