//! Checks the order of a route's policies: a policy that needs a fact, such as the client identity, must stand below the policy that
//! provides it.

use config::{At, Cache, Include, Policy, Report, Route, Spanned};

use crate::policies::{self, Access, CountedRequests, Diverts, Facts};
use crate::{client_lines, templates};

/// Names of the policies that authenticate clients, for complaints.
pub(crate) const IDENTIFY: &str =
    "jwt, api_key, basic, hmac, mutual_tls, ws_security, authenticate";

/// Checks the order of a route's policies. `open`: the route deliberately serves clients without an identity.
pub(crate) fn check(route: &Route, open: bool, report: &mut Report) {
    let rows = policies::of(route);
    // Harmless: `policies::of` returns one row for each policy, so `zip` drops none.
    let rows: Vec<Row<'_>> = route.policies.iter().zip(&rows).collect();
    for (at, (policy, row)) in rows.iter().enumerate() {
        let (above, from_here) = rows.split_at(at);
        let identifies = |(_, row): &&Row<'_>| row.access == Access::Identifies;
        let counts = row.counts != CountedRequests::Nothing;
        if row.asks_identity && !above.iter().any(|row| identifies(&row)) {
            match from_here.iter().find(identifies).map(|(policy, _)| policy.value.name()) {
                Some(identify) => {
                    let what = format!(
                        "`{}` {} subject, which only `{identify}` below it finds",
                        policy.value.name(),
                        if counts { "counts by" } else { "needs the" }
                    );
                    report.error(policy.at, what, format!("move it below `{identify}`"));
                }
                None if open => {}
                None => {
                    // Without an identity, a policy that requires a permission refuses every request, even if it also counts.
                    let what = if counts && row.access != Access::Guards {
                        "no policy identifies the client, so this counts by client address"
                    } else {
                        "no policy identifies the client, so there is no subject"
                    };
                    let help = format!("add one of {IDENTIFY} above it");
                    report.warn(policy.at, what, help);
                }
            }
        }
        if row.counts == CountedRequests::Operations
            && !above.iter().any(|(_, row)| row.tells_operations)
        {
            let what = format!(
                "`{}` counts by operation, but no operation is known at this point",
                policy.value.name()
            );
            let help =
                "move it below a `soap` that validates requests, a `soap_rest` or a `grpc_json`";
            report.error(policy.at, what, help);
        }
        if let Policy::Cache(keys) = &policy.value {
            check_cache(keys, policy.at, route, from_here, at + 1, report);
        }
        if let Policy::Sse(_) = policy.value.applied() {
            check_streams(policy.at, &rows, report);
        }
        // `cors` should be the first policy: pages of other origins cannot read the replies of policies above it. Only filters of addresses
        // and programs may stand above it, since pages need not be able to read their refusals.
        let hidden = above.iter().find(|(_, row)| {
            !matches!(row.access, Access::AnswersPreflights | Access::FiltersAddresses)
        });
        if let (Access::AnswersPreflights, Some((hidden, _))) = (row.access, hidden) {
            let what = format!(
                "web pages cannot read the replies of `{}`, because it is above `cors`",
                hidden.value.name()
            );
            report.warn(policy.at, what, "make `cors` the first policy");
        }
    }
}

/// A policy with its facts.
type Row<'r> = (&'r Spanned<Policy>, &'r Facts<'r>);

/// Warns of event streams on a route with a policy that needs whole replies.
fn check_streams(place: At, rows: &[Row<'_>], report: &mut Report) {
    let reader = rows.iter().find(|(policy, row)| reads_whole_replies(&policy.value, row));
    if let Some((reader, _)) = reader {
        let what = format!(
            "`{}` needs whole replies, so every event stream would be refused with 502",
            reader.value.name()
        );
        report.warn(place, what, "limit that policy to requests, or remove `sse`");
    }
}

/// Returns true for a policy that waits for the end of each reply. An event stream may never end.
fn reads_whole_replies(policy: &Policy, facts: &Facts<'_>) -> bool {
    let sends_bodies = matches!(policy.applied(), Policy::Interceptor(keys)
        if keys.response.iter().flat_map(|side| &side.value.includes)
            .any(|part| part.value == Include::ResponseBody));
    sends_bodies || facts.xml.is_some_and(|xml| xml.reads_replies)
}

/// Checks a cache. `from_cache_on` are the cache and the policies below it. `next` is the index of the policy after the cache.
fn check_cache(
    keys: &Cache,
    place: At,
    route: &Route,
    from_cache_on: &[Row<'_>],
    next: usize,
    report: &mut Report,
) {
    let parameters = templates::parameters(&route.matches.value);
    let find = |is: &dyn Fn(&Facts<'_>) -> bool| {
        from_cache_on.iter().find(|(_, row)| is(row)).map(|(policy, _)| policy.value.name())
    };
    let guards = [Access::Identifies, Access::Guards, Access::FiltersAddresses];
    if let Some(skipped) = find(&|row| guards.contains(&row.access)) {
        let what = format!("`cache` is above `{skipped}`, which does not run for cached replies");
        report.warn(place, what, format!("move it below `{skipped}`"));
    }
    let is_cache = |(policy, _): &Row<'_>| matches!(policy.value, Policy::Cache(_));
    if from_cache_on.iter().skip(1).any(is_cache) {
        let what = "`cache` is above another `cache`, which never sees the replies cached here";
        report.error(place, what, "keep one of the two");
    }
    if let Some(name) = find(&|row| row.diverts == Diverts::ByCaller) {
        let what = format!(
            "`cache` is above `{name}`, so some clients would get the reply of another upstream"
        );
        report.error(place, what, format!("move it below `{name}`"));
    }
    let may_tell = client_lines::first_identity_writer(route, next).filter(|_| keys.ttl.is_some());
    if let Some(name) = find(&|row| row.replies_differ) {
        let what = format!(
            "`cache` is above `{name}`, so a client could get a reply meant for another client"
        );
        report.error(place, what, format!("move it below `{name}`"));
    } else if let Some(name) = may_tell.map(Policy::name) {
        let what = format!(
            "`ttl` is not applied: `{name}` below `cache` may send the client's identity to the upstream, so a reply without `Cache-Control` may be for that client only"
        );
        let help = format!(
            "let the service send `Cache-Control`, or move `cache` below `{name}`, where `Vary` applies"
        );
        report.warn(place, what, help);
    }
    if keys.ttl.is_some() && is_triggered(route) {
        let what =
            "`cache` keeps the reply of `respond`, so requests without its `trigger` would get it";
        let help = "write `Cache-Control: no-store` into the `headers` of `respond`";
        report.warn(place, what, help);
    }
    if responds_to_each(route, &parameters) {
        let what = "`cache` would store a reply that `respond` makes for one client";
        report.error(place, what, "remove `cache`: such a reply needs no upstream");
    }
}

/// Returns true if some requests of the route get a fixed reply that does not say whether it may be cached.
fn is_triggered(route: &Route) -> bool {
    let says = |name: &Spanned<String>| name.value.eq_ignore_ascii_case("cache-control");
    route.respond.as_ref().is_some_and(|respond| {
        respond.value.trigger.is_some() && !respond.value.headers.iter().any(|(name, _)| says(name))
    })
}

/// Returns true if the route's fixed reply differs between clients.
fn responds_to_each(route: &Route, parameters: &[String]) -> bool {
    route.respond.as_ref().is_some_and(|respond| {
        let lines = respond.value.headers.iter().map(|(_, text)| text);
        let mut texts = lines.chain([&respond.value.body]);
        texts.any(|text| templates::depends_on_client(&text.value, parameters))
    })
}
