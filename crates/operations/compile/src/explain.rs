//! Prints a plan as text: the whole plan, or how it treats one request.
//!
//! Owns the text that `tidegate explain` prints. It searches the same route table that serves requests, so its output agrees with what the
//! gateway does.

mod differences;
mod verdicts;
mod yaml;

pub use differences::explain_differences;

use std::collections::HashSet;
use std::fmt::Write as _;
use std::net::IpAddr;

use bytes::Bytes;
use config::{LoadedConfig, is_secret};
use message::{Protocol, RequestHead};
use plan::nodes::{LEASE, PARTITIONS};
use plan::path::PathRefusal;
use plan::{
    Arrival, Listener, Matcher, PathCondition, Plan, Policy, Refusal, Route, RouteMatch,
    StoreLocation, ValueCondition,
};
use policy::Scheme;

use verdicts::{Outcome, RequestFacts, Verdict};

/// The maximum number of other routes listed with the reason why they did not match. Only the nearest few are of interest.
const OTHERS_MAX: usize = 20;

/// Returns the configuration as YAML, with every default written out and secrets masked, and the routes with their matchers.
pub fn explain(loaded: &LoadedConfig, plan: &Plan) -> String {
    let mut text = String::from("# Everything that is in effect, defaults included.\n");
    // Harmless: a plan exists only for a configuration that could be read, so there is a value to show.
    yaml::write(&config::shown(loaded).unwrap_or_default(), &mut text);
    line(&mut text, format_args!("\n# Plan {}: {} workers.", plan.generation, plan.workers));
    text.push_str(
        "# Routes, as written. The highest priority wins, then the most specific match:\n",
    );
    text.push_str("# exact host, then a literal path, a regular expression, the longer path, then listener,\n");
    text.push_str("# server name, source, methods, headers, query.\n");
    for (matcher, route) in plan.table.routes() {
        line(&mut text, format_args!("#   {}: {}", route.name, describe(matcher)));
        line(&mut text, format_args!("#     -> {}", destination(route, &matcher.path)));
        for policy in &route.policies {
            line(&mut text, format_args!("#     {}", steps(policy)));
        }
    }
    if !plan.schedules.is_empty() {
        text.push_str("# Schedules:\n");
    }
    for schedule in &plan.schedules {
        line(&mut text, format_args!("#   {}", schedule.explained()));
    }
    if let Some(store) = &plan.store {
        line(&mut text, format_args!("# Store: {}", describe_store(store.place())));
    }
    text
}

/// Describes the store.
fn describe_store(place: &StoreLocation) -> String {
    match place {
        StoreLocation::Folder(path) => {
            format!("the folder {}, for this gateway only", path.display())
        }
        StoreLocation::Database(_) => format!(
            "{place}, shared by all gateways that use it. Each of {PARTITIONS} partitions of deliveries, queues and schedules\n\
             #   belongs to one gateway at a time, for a lease of {LEASE:?}"
        ),
    }
}

/// A request that is explained.
#[derive(Debug, Clone, Copy)]
pub struct ExplainedRequest<'a> {
    /// The address of its client.
    pub client: IpAddr,
    pub method: &'a str,
    pub url: &'a str,
    pub headers: &'a [(String, String)],
    /// The body, or `None` if it is not given. Verdicts that depend on it are then left open.
    pub body: Option<&'a [u8]>,
}

/// Explains one request: the route that takes it, why the other routes do not, and the verdict of each policy.
/// Returns an error with the reason if the request cannot be explained.
pub fn explain_request(plan: &Plan, asked: &ExplainedRequest<'_>) -> Result<String, String> {
    let ExplainedRequest { client, method, url, .. } = *asked;
    let head = request(asked)?;
    let scheme = if url.starts_with("https://") { Scheme::Https } else { Scheme::Http };
    let mut text = format!("{method} {url}\n");
    if !http1::is_target(head.method(), head.target()) {
        text.push_str("refused with 400: the request target is not a path, or has a character that is not allowed in a path\n");
        return Ok(text);
    }
    if http1::is_refused_method(head.method()) {
        text.push_str("refused with 405: the gateway does not serve this method\n");
        return Ok(text);
    }
    let listener = listener(plan, url, &mut text);
    // Harmless: without a listener, the default path rules of listeners apply.
    let rules = listener.map(|listener| listener.paths).unwrap_or_default();
    let name = listener.map_or("", |listener| listener.name.as_str());
    let server_name = server_name(&head, scheme);
    let by = Arrival { listener: name, client, server_name: server_name.as_deref() };
    let resolved = match plan::path::resolve(head.path(), rules) {
        Ok(resolved) => resolved,
        Err(why) => {
            write_refused_path(&mut text, why);
            return Ok(text);
        }
    };
    if resolved.moved {
        line(&mut text, format_args!("matched as {}", shown(&resolved.path)));
    }
    let is_usual = http1::is_registered_method(head.method());
    match plan.table.find(by, &head, &resolved.path) {
        None => match plan.table.options(by, &head, &resolved.path) {
            Some(allow) => {
                line(
                    &mut text,
                    format_args!("no route accepts OPTIONS: 204 with `Allow: {allow}`"),
                );
            }
            None => text.push_str(&reply_without_route(plan, by, &head, &resolved.path)),
        },
        Some(found) if !found.names_method && !is_usual => {
            text.push_str("refused with 501: the method is not registered, and the route");
            line(&mut text, format_args!(" `{}` does not name it", found.route.name));
        }
        Some(found) => {
            let mut head = head.clone();
            if resolved.path != head.path() {
                head.set_path(&resolved.path);
            }
            let body = asked.body.map(Bytes::copy_from_slice);
            write_match(&mut text, found, RequestFacts { client, scheme, head, body }, plan);
        }
    }
    write_others(&mut text, plan, by, &head, &resolved.path);
    Ok(text)
}

/// Returns the server name that a client sends in its TLS handshake: the host of the URL.
fn server_name(head: &RequestHead, scheme: Scheme) -> Option<String> {
    let host = head.host_name();
    // Harmless: a host that is not text has no routes.
    (scheme == Scheme::Https && !host.is_empty()).then(|| String::from_utf8_lossy(&host).into())
}

/// Returns the listener that the URL leads to, chosen by port, or else by scheme. Prints its name if the result may depend on the listener.
fn listener<'p>(plan: &'p Plan, url: &str, text: &mut String) -> Option<&'p Listener> {
    let authority = url.split_once("://").and_then(|(_, rest)| rest.split(['/', '?', '#']).next());
    // Harmless: a URL without a port uses the default port of its scheme.
    let port = authority.and_then(|host| kit::digits::whole::<u16>(host.rsplit_once(':')?.1));
    let has_port = |listener: &Listener| Some(listener.address.port()) == port;
    let has_scheme = |listener: &Listener| listener.tls.is_some() == url.starts_with("https://");
    let listeners = || plan.listeners.iter().map(|listener| &**listener);
    let by_port = listeners().find(|listener| has_port(listener));
    let by_scheme = || listeners().find(|listener| has_scheme(listener));
    let listener = by_port.or_else(by_scheme).or_else(|| listeners().next())?;
    let is_bound = plan.table.routes().any(|(matcher, _)| !matcher.listeners.is_empty());
    if is_bound || listeners().any(|other| other.paths != listener.paths) {
        line(text, format_args!("received by the listener `{}`", listener.name));
    }
    Some(listener)
}

/// Prints why a path is refused.
fn write_refused_path(text: &mut String, why: PathRefusal) {
    let told = why.why().trim_end_matches('.').replacen("The", "the", 1);
    let see = why.key().map(|key| format!(", see the listener's `paths.{key}`"));
    // Harmless: some refusals have no key.
    line(text, format_args!("refused with 400: {told}{}", see.unwrap_or_default()));
}

/// Describes the reply to a request that no route matches.
fn reply_without_route(plan: &Plan, by: Arrival<'_>, head: &RequestHead, path: &[u8]) -> String {
    let method = shown(head.method());
    let known = http1::is_registered_method(head.method()) || plan.table.names(head.method());
    match plan.table.other_methods(by, head, path) {
        Some((allow, _)) if known => {
            format!("no route accepts {method} here: 405 with `Allow: {allow}`\n")
        }
        Some(_) => {
            format!(
                "refused with 501: {method} is not a registered method, and no route names it\n"
            )
        }
        None => "no route matches: 404\n".to_owned(),
    }
}

/// Prints the route that takes the request, the verdicts of its policies, and its destination.
fn write_match(text: &mut String, found: RouteMatch<'_>, asking: RequestFacts, plan: &Plan) {
    let route = &**found.route;
    line(text, format_args!("route `{}`", route.name));
    let entries = plan.table.routes().filter(|(_, other)| std::ptr::eq(other.as_ref(), route));
    let matchers: Vec<&Matcher> = entries.map(|(matcher, _)| matcher).collect();
    for matcher in &matchers {
        line(text, format_args!("  matches {}", describe(matcher)));
    }
    // All matchers of a route name the same parameters, so the first one is enough.
    let Some(Matcher { path, .. }) = matchers.first() else { return };
    // Harmless: a match has a value for each parameter.
    for (name, value) in path.parameters().zip(&found.parameters) {
        line(text, format_args!("  {{{name}}} is {}", shown(value)));
    }
    if let Some(bytes_max) = route.body_bytes_max {
        line(text, format_args!("  a body over {bytes_max} bytes is refused with 413"));
        let given = asking.body.as_ref().map_or(0, Bytes::len);
        if u64::try_from(given).is_ok_and(|given| given > bytes_max) {
            line(text, format_args!("  refused with 413: the body has {given} bytes"));
            return;
        }
    }
    let (verdicts, way) = verdicts::walk(route, found.parameters, found.prefix, asking);
    for Verdict { name, place, decision, changes, body } in verdicts {
        line(text, format_args!("  policy {name}: {decision} ({place})"));
        changes.iter().for_each(|change| line(text, format_args!("    {change}")));
        let made = body.iter().flat_map(|body| body.lines());
        made.for_each(|part| line(text, format_args!("      {}", printable(part))));
    }
    let destination = destination(route, path);
    match way {
        Outcome::Clear => line(text, format_args!("  -> {destination}")),
        Outcome::Open(policy) => {
            line(text, format_args!("  -> {destination}, if `{policy}` allows it"))
        }
        Outcome::Ended => line(text, format_args!("  not reached: {destination}")),
    }
}

/// Prints the routes that did not match, nearest first, each with the reason.
fn write_others(text: &mut String, plan: &Plan, by: Arrival<'_>, head: &RequestHead, path: &[u8]) {
    let examined = plan.table.examine(by, head, path);
    // Harmless: every route was examined; one without a refusal matches.
    let mut refused: Vec<(&Matcher, &Route, &Refusal)> = plan
        .table
        .routes()
        .zip(&examined)
        .filter_map(|((matcher, route), (_, refusal))| {
            Some((matcher, route.as_ref(), refusal.as_ref()?))
        })
        .collect();
    if refused.is_empty() {
        return;
    }
    refused.sort_by_key(|(_, _, refusal)| distance(refusal));
    // A route with several matchers is listed once, by the one that came nearest to a match.
    let taken =
        plan.table.find(by, head, path).map(|found| std::ptr::from_ref(found.route.as_ref()));
    let mut told: HashSet<*const Route> = taken.into_iter().collect();
    refused.retain(|(_, route, _)| told.insert(std::ptr::from_ref(*route)));
    text.push_str("not chosen:\n");
    // Harmless: a line below reports the number of omitted routes.
    for (matcher, route, refusal) in refused.iter().take(OTHERS_MAX) {
        line(text, format_args!("  `{}`: {}", route.name, why(matcher, refusal, head)));
    }
    if let Some(more) = refused.len().checked_sub(OTHERS_MAX).filter(|more| *more > 0) {
        line(text, format_args!("  and {more} more"));
    }
}

/// Ranks a refusal: a lower number is closer to a match.
fn distance(refusal: &Refusal) -> u8 {
    match refusal {
        Refusal::LowerPriority | Refusal::LessSpecific => 0,
        Refusal::Query(_) => 1,
        Refusal::Header(_) => 2,
        Refusal::Method => 3,
        Refusal::Path => 4,
        Refusal::Host => 5,
        Refusal::Source => 6,
        Refusal::ServerName => 7,
        Refusal::Listener => 8,
    }
}

fn why(matcher: &Matcher, refusal: &Refusal, head: &RequestHead) -> String {
    match refusal {
        Refusal::LessSpecific => format!("matches too, but {} is less specific", describe(matcher)),
        Refusal::LowerPriority => {
            format!("matches too, but its priority {} is lower", matcher.priority)
        }
        Refusal::ServerName => {
            format!("the client's TLS server name is not {}", any_of(&matcher.server_names))
        }
        Refusal::Source => format!("the client is not in {}", any_of(&matcher.sources)),
        Refusal::Host => {
            format!("the host is not {}", host(matcher))
        }
        Refusal::Listener => format!("the listener is not {}", matcher.listeners.join(" or ")),
        Refusal::Path => format!("the path is not {}", matcher.path),
        Refusal::Method => {
            let method = shown(head.method());
            format!("the method {method} is not {}", matcher.methods.join(" or "))
        }
        Refusal::Header(name) => format!("the header {}", unmet(name, &matcher.headers)),
        Refusal::Query(name) => format!("the query parameter {}", unmet(name, &matcher.query)),
    }
}

fn unmet(name: &str, wants: &[(String, ValueCondition)]) -> String {
    match wants.iter().find(|(wanted, _)| wanted == name) {
        Some((_, want)) if is_secret(name) && *want != ValueCondition::Present => {
            format!("`{name}` has another value")
        }
        Some((_, ValueCondition::Equals(value))) => {
            format!("`{name}` is not `{}`", shown(value))
        }
        Some((_, ValueCondition::OneOf(values))) => {
            format!("`{name}` is none of {}", one_of(values))
        }
        Some((_, ValueCondition::Regex(regex))) => {
            format!("`{name}` does not match `{}`", regex.text())
        }
        Some((_, ValueCondition::Present)) | None => format!("`{name}` is missing"),
    }
}

/// Returns the host pattern of a matcher, or an empty text if it accepts any host.
fn host(matcher: &Matcher) -> String {
    matcher.host.as_ref().map_or_else(String::new, ToString::to_string)
}

fn any_of(wanted: &[impl ToString]) -> String {
    wanted.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}

/// Returns bytes as text for display.
fn shown(bytes: &[u8]) -> String {
    // Harmless: the text is only displayed, with a replacement character for each invalid byte.
    String::from_utf8_lossy(bytes).into_owned()
}

fn one_of(values: &[Box<[u8]>]) -> String {
    values.iter().map(|value| format!("`{}`", shown(value))).collect::<Vec<_>>().join(", ")
}

/// Describes the match of a route on one line.
fn describe(matcher: &Matcher) -> String {
    let mut text = host(matcher);
    text.push_str(&matcher.path.to_string());
    if !matcher.methods.is_empty() {
        text.push(' ');
        text.push_str(&matcher.methods.join("|"));
    }
    if !matcher.listeners.is_empty() {
        text.push_str(&format!(", listener {}", matcher.listeners.join(" or ")));
    }
    if !matcher.server_names.is_empty() {
        text.push_str(&format!(", sni {}", any_of(&matcher.server_names)));
    }
    if !matcher.sources.is_empty() {
        text.push_str(&format!(", source {}", any_of(&matcher.sources)));
    }
    if matcher.priority != 0 {
        text.push_str(&format!(", priority {}", matcher.priority));
    }
    for (kind, wants) in [("header", &matcher.headers), ("query", &matcher.query)] {
        for (name, want) in wants {
            let want = match want {
                ValueCondition::Present => "present".to_owned(),
                _ if is_secret(name) => "= (not shown)".to_owned(),
                ValueCondition::Equals(value) => format!("= {}", shown(value)),
                ValueCondition::OneOf(values) => format!("is one of {}", one_of(values)),
                ValueCondition::Regex(regex) => format!("~ {}", regex.text()),
            };
            text.push_str(&format!(", {kind} {name} {want}"));
        }
    }
    text
}

fn destination(route: &Route, matched: &PathCondition) -> String {
    route.explained(&matched.parameters().collect::<Vec<_>>())
}

fn steps(policy: &Policy) -> String {
    let request = policy.request.as_ref().map(|step| format!(" request: {}", step.cost()));
    let response = policy.response.as_ref().map(|step| format!(" response: {}", step.cost()));
    let both: Vec<String> = request.into_iter().chain(response).collect();
    if both.is_empty() {
        format!("policy {}: nothing to do", policy.name)
    } else {
        format!("policy {}:{}", policy.name, both.join(","))
    }
}

/// Builds the head of the request to be explained.
fn request(asked: &ExplainedRequest<'_>) -> Result<RequestHead, String> {
    let ExplainedRequest { method, url, headers, body, .. } = *asked;
    if !http1::is_token(method.as_bytes()) {
        return Err(format!("`{method}` is not a method"));
    }
    let (host, target) = match url.split_once("://") {
        Some(("http" | "https", rest)) => {
            let path_start = rest.find(['/', '?', '#']).unwrap_or(rest.len());
            let (host, target) = rest.split_at(path_start);
            (Some(host), target)
        }
        Some(_) => return Err(format!("`{url}` is neither http nor https")),
        None => (None, url),
    };
    // Clients do not send the fragment of a URL.
    let target = match target.split_once('#').map_or(target, |(target, _)| target) {
        "" => "/".to_owned(),
        query if query.starts_with('?') => format!("/{query}"),
        path => path.to_owned(),
    };
    if !target.starts_with('/') && target != "*" {
        return Err(format!("`{url}` is not a URL; write http://HOST/PATH or /PATH"));
    }
    let mut head = RequestHead::new(Protocol::Http11, method.as_bytes(), target.as_bytes());
    let host = host.map(|host| ("host".to_owned(), host.to_owned()));
    for (name, value) in host.iter().chain(headers) {
        let added = head.headers.add(name, value.as_bytes());
        added.map_err(|_| format!("`{name}: {value}` is not a header"))?;
    }
    let is_framed =
        ["content-length", "transfer-encoding"].iter().any(|n| head.headers.contains(n));
    if let Some(body) = body.filter(|_| !is_framed) {
        head.headers.add_known("Content-Length", body.len().to_string().as_bytes());
    }
    Ok(head)
}

/// Returns a text with its control characters escaped.
fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() { shown.extend(c.escape_debug()) } else { shown.push(c) }
    }
    shown
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    let _ = writeln!(text, "{words}");
}
