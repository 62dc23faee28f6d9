//! `policies` to policies: one arm for each kind.

use config::{Config, Report, Spanned};
use plan::{Slots, UNKNOWN_OPERATION};

use crate::making::Making;
use crate::policies as made;

/// Where a policy stands.
pub(crate) struct Place<'a, 'p> {
    /// The route's name.
    pub(crate) route: &'a str,
    pub(crate) config: &'a Config,
    /// The route itself, as written.
    pub(crate) of: &'a config::Route,
    pub(crate) making: &'a mut Making<'p>,
    /// Names of the upstreams that policies of the route may send an exchange to; a policy notes the index.
    pub(crate) diversions: &'a mut Vec<String>,
    /// Operations that policies of the route tell apart; a policy notes the index.
    pub(crate) operations: &'a mut Vec<String>,
    /// Where policies keep something between their sides.
    pub(crate) slots: &'a mut Slots,
    /// Its index among the route's policies.
    pub(crate) at: usize,
}

impl Place<'_, '_> {
    /// The index of an operation among the route's.
    pub(crate) fn operation(&mut self, name: &str) -> u32 {
        let known = self.operations.iter().position(|known| known == name);
        let index = known.unwrap_or_else(|| {
            self.operations.push(name.to_owned());
            self.operations.len() - 1
        });
        u32::try_from(index).unwrap_or(UNKNOWN_OPERATION)
    }

    /// The index of an upstream among the route's diversions.
    pub(crate) fn diversion(&mut self, upstream: &str) -> usize {
        let known = self.diversions.iter().position(|name| name == upstream);
        known.unwrap_or_else(|| {
            self.diversions.push(upstream.to_owned());
            self.diversions.len() - 1
        })
    }
}

/// Builds one policy. What is wrong with it is in the report, and the plan is not built then.
pub(crate) fn build(
    policy: &Spanned<config::Policy>,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    match &policy.value {
        config::Policy::Headers(keys) => made::headers::build(keys, place, report),
        config::Policy::ApiKey(keys) => whole(made::api_key::build(keys, policy.at, report)),
        config::Policy::Authorize(keys) => whole(made::authorize::build(keys, report)),
        config::Policy::BackendJwt(keys) => whole(made::jwt::backend(keys, place, report)),
        config::Policy::Basic(keys) => made::basic::build(keys, report),
        config::Policy::Jwks(keys) => made::jwt::jwks(keys, place),
        config::Policy::Jwt(keys) => made::jwt::build(keys, place, report),
        config::Policy::KeyType(keys) => made::key_type::build(keys, place, report),
        config::Policy::MutualTls(keys) => made::mutual_tls::build(keys, policy.at, place, report),
        config::Policy::RateLimit(keys) => {
            made::rate_limit::build(keys, policy.at, policy.intact, place, report)
        }
        config::Policy::Concurrency(keys) => made::concurrency::build(keys, place, report),
        config::Policy::Cors(keys) => made::cors::build(keys, place, report),
        config::Policy::Cache(keys) => made::cache::build(keys, place, report),
        config::Policy::Compress(keys) => made::compress::build(keys, place, report),
        config::Policy::IpRules(keys) => {
            made::ip_filter::build(keys, policy.at, policy.intact, report)
        }
        config::Policy::Interceptor(keys) => {
            made::interceptor::build(keys, policy.at, policy.intact, place, report)
        }
        // Sets were put in their places before; one that could not be was complained about.
        config::Policy::NamedSet(_) => whole(None),
        config::Policy::OpenApi(keys) => made::openapi::build(keys, place, report),
        config::Policy::Soap(keys) => made::soap::build(keys, place, report),
        config::Policy::SoapRest(keys) => whole(made::soap_rest::build(keys, place, report)),
        config::Policy::Transform(keys) => made::transform::build(keys, place, report),
        config::Policy::XpathRoute(keys) => made::xpath_route::build(keys, place, report),
        config::Policy::Xslt(keys) => made::xslt::build(keys, place, report),
    }
}

/// A policy that could not be built was complained about, and nothing is served in its place.
fn whole(policy: Option<plan::Policy>) -> plan::Policy {
    policy.unwrap_or(plan::Policy { name: "nothing", request: None, response: None })
}
