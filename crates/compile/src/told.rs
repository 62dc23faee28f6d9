//! What the policies of a route tell the upstream of each client: lines whose value a cache above them cannot know.

use config::{Headers, HeadersEdit, Map, Policy, Route, Spanned};
use plan::Template;
use policies::cache::Unseen;

use crate::templates;

/// Lines that the gateway itself writes for each client. Scheme and host, which it writes too, are part of a cache's key.
const OWN: [&str; 3] = ["x-forwarded-for", "via", "x-request-id"];

/// Lines of which the cache at this place among the route's policies does not know what the upstream sees. What is the same for all
/// clients is none of them.
pub(crate) fn unseen(route: &Route, at: usize) -> Unseen {
    let parameters = templates::parameters(&route.matches.value);
    let mut names = OWN.to_vec();
    names.extend(route.policies.iter().flat_map(|policy| removed(&policy.value)));
    for policy in route.policies.iter().skip(at) {
        match written(&policy.value, &parameters) {
            Written::These(written) => names.extend(written),
            Written::Any => return Unseen::Any,
        }
    }
    Unseen::These(names.into_iter().map(str::to_owned).collect())
}

/// The first policy below this place that tells the upstream who asks, or may.
pub(crate) fn teller(route: &Route, at: usize) -> Option<&Policy> {
    let parameters = templates::parameters(&route.matches.value);
    let mut below = route.policies.iter().skip(at).map(|policy| &policy.value);
    below.find(|policy| match written(policy, &parameters) {
        Written::These(names) => !names.is_empty(),
        Written::Any => true,
    })
}

/// What a policy writes into requests for each client.
enum Written<'p> {
    These(Vec<&'p str>),
    /// Whatever a service says.
    Any,
}

#[allow(clippy::wildcard_enum_match_arm, reason = "all others write nothing of the client")]
fn written<'p>(policy: &'p Policy, parameters: &[String]) -> Written<'p> {
    Written::These(match policy {
        Policy::Headers(Headers { request: HeadersEdit { set, add, .. }, .. }) => {
            let telling = |map: &'p Map<Spanned<String>>| {
                map.iter()
                    .filter(|(_, text)| tells_who_asks(&text.value, parameters))
                    .map(|(name, _)| name.value.as_str())
            };
            telling(set).chain(telling(add)).collect()
        }
        Policy::Jwt(keys) => keys.claims_to_headers.names().collect(),
        Policy::BackendJwt(keys) => vec![&keys.header.value],
        Policy::Interceptor(keys) if keys.request.is_some() => return Written::Any,
        _ => Vec::new(),
    })
}

/// Lines that a policy takes out of requests or gives another name: credentials, and what the operator says.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others take nothing out")]
fn removed(policy: &Policy) -> Vec<&str> {
    fn named(name: &Spanned<String>) -> &str {
        &name.value
    }
    match policy {
        Policy::Headers(Headers { request: HeadersEdit { remove, rename, .. }, .. }) => {
            let renamed = rename.iter().flat_map(|(old, new)| [&*old.value, &*new.value]);
            remove.iter().map(named).chain(renamed).collect()
        }
        Policy::Jwt(keys) if !keys.forward => vec![&keys.header.value],
        Policy::ApiKey(keys) if !keys.forward => keys.header.0.iter().map(named).collect(),
        Policy::Basic(keys) if !keys.forward => vec!["authorization"],
        Policy::MutualTls(keys) => keys.header.iter().map(named).collect(),
        _ => Vec::new(),
    }
}

/// Whether a text may be another one for each client, on a route with these parameters.
pub(crate) fn tells_who_asks(text: &str, parameters: &[String]) -> bool {
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    Template::parse(text, &parameters).is_ok_and(|read| read.tells_who_asks())
}
