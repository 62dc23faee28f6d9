//! Compiles `interceptor`: it connects the policy to its services, turns endpoints into diversions, and describes the route's API for the
//! service.

use std::sync::Arc;

use ::policies::interceptor::{self, Api, Includes, InterceptorSettings, Service};
use config::{Include, Interception, Interceptor, Report, Route, Spanned, UpstreamTls};
use plan::Fetch;
use plan::upstreams::Timeouts;

use super::{Diverts, Facts, NamedUpstreams, PolicyKind, PolicyPlace, WrittenLines};
use crate::listeners::bytes;
use crate::policy::RouteScope;
use crate::upstream_settings;

impl PolicyKind for Interceptor {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let Interceptor { request, response, .. } = self;
        if request.is_none() && response.is_none() && written.intact {
            let help = "add `request: { url: \"http://HOST:PORT\", includes: [request_headers] }`, or `response`";
            report.error(written.at, "an interceptor needs `request` or `response`", help);
        }
        if let Some(side) = request {
            without_reply(&side.value, report);
        }
        let request = request.as_ref().and_then(|side| service(side, place, report));
        let response = response.as_ref().and_then(|side| service(side, place, report));
        let endpoints = if request.is_some() { endpoints(self, place, report) } else { Vec::new() };
        let api = api(self, place);
        interceptor::policy(InterceptorSettings { request, response, api, endpoints }, place.slots)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            writes: match self.request {
                Some(_) => WrittenLines::Any,
                None => WrittenLines::These(Vec::new()),
            },
            upstreams: named(self),
            diverts: match self.request {
                Some(_) => Diverts::ByService,
                None => Diverts::Never,
            },
            ..Facts::NONE
        }
    }
}

/// Returns the upstreams that the policy calls, or may divert requests to.
pub(crate) fn named(keys: &Interceptor) -> NamedUpstreams<'_> {
    // Without `endpoints`, the service may name any upstream.
    if keys.request.is_some() && keys.endpoints.is_empty() {
        return NamedUpstreams::Any;
    }
    let sides = [&keys.request, &keys.response].into_iter().flatten();
    let services = sides.filter_map(|side| side.value.upstream.as_ref());
    let endpoints = keys.endpoints.iter().map(|(_, endpoint)| endpoint.upstream.value.as_str());
    NamedUpstreams::These(services.map(|name| name.value.as_str()).chain(endpoints).collect())
}

/// Complains if the request side includes a part that only replies have.
fn without_reply(side: &Interception, report: &mut Report) {
    for include in &side.includes {
        let of_reply = matches!(
            include.value,
            Include::ResponseHeaders | Include::ResponseBody | Include::ResponseTrailers
        );
        if of_reply {
            let what = format!("`{}` is not available on the request side", include.value.word());
            report.error(include.at, what, "move it to the `response` side of the interceptor");
        }
    }
}

fn service(
    side: &Spanned<Interception>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<Service> {
    let keys = &side.value;
    let has = |include| keys.includes.iter().any(|written| written.value == include);
    Some(Service {
        fetch: connect(side, place, report)?,
        includes: Includes {
            request_headers: has(Include::RequestHeaders),
            request_body: has(Include::RequestBody),
            request_trailers: has(Include::RequestTrailers),
            response_headers: has(Include::ResponseHeaders),
            response_body: has(Include::ResponseBody),
            response_trailers: has(Include::ResponseTrailers),
            invocation_context: has(Include::InvocationContext),
        },
        timeout: keys.timeout.0,
        body_bytes_max: bytes(keys.body_bytes_max),
    })
}

/// Returns the connection to the service. Complains unless exactly one of `url` and `upstream` is written.
fn connect(
    side: &Spanned<Interception>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<Arc<dyn Fetch>> {
    let keys = &side.value;
    match (&keys.url, &keys.upstream) {
        (Some(url), None) => {
            let timeout = Timeouts {
                connect: keys.connect_timeout.0,
                response: keys.timeout.0,
                write: None,
                total: None,
                // As for upstreams, it is shorter than the timeout of most servers.
                idle: std::time::Duration::from_secs(60),
            };
            let none = <UpstreamTls as config::Decode>::absent()?;
            let tls = keys.tls.as_ref().map_or(&none, |tls| &tls.value);
            let settings = upstream_settings::to_url(&url.value.0, timeout, tls, report)?;
            Some(place.builder.own_fetch(settings))
        }
        (None, Some(name)) => {
            if let Some(tls) = &keys.tls {
                let help = "write `tls` below the upstream";
                report.error(tls.at, "`tls` cannot be combined with `upstream`", help);
            }
            place.builder.upstream_fetch(name, report)
        }
        (Some(_), Some(name)) => {
            let what = "`url` and `upstream` cannot be combined";
            report.error(name.at, what, "keep one of the two");
            None
        }
        (None, None) => {
            if side.intact {
                let help = "add `url: \"http://HOST:PORT\"`, or `upstream: NAME` for replicas";
                report.error(side.at, "an interceptor needs `url` or `upstream`", help);
            }
            None
        }
    }
}

/// Returns the endpoints that `dynamicEndpoint` may name: those listed, or else every upstream by its name.
fn endpoints(
    keys: &Interceptor,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Vec<interceptor::Endpoint> {
    let known = place.builder.upstream_names().to_vec();
    if keys.endpoints.is_empty() {
        let all = known.iter().map(|name| interceptor::Endpoint {
            name: name.clone(),
            diversion: place.diversion(name),
            base_path: None,
        });
        return all.collect();
    }
    let mut endpoints = Vec::new();
    for (name, endpoint) in keys.endpoints.iter() {
        let upstream = &endpoint.upstream;
        if !known.contains(&upstream.value) {
            let meant = report.suggest(&upstream.value, known.iter().map(String::as_str));
            let what = crate::names::unknown("upstream", &upstream.value, meant);
            report.error(upstream.at, what, "name one of the `upstreams`");
            continue;
        }
        endpoints.push(interceptor::Endpoint {
            name: name.value.clone(),
            diversion: place.diversion(&upstream.value),
            base_path: Some(endpoint.base_path.trim_end_matches('/').to_owned()),
        });
    }
    endpoints
}

fn api(keys: &Interceptor, place: &RouteScope<'_, '_>) -> Api {
    let Route { matches, upstream, .. } = place.of;
    let written = &keys.api;
    let methods = if written.methods.is_empty() {
        matches.value.methods.0.iter().map(|method| method.value.clone()).collect()
    } else {
        written.methods.clone()
    };
    let first = || upstream.as_ref().and_then(|upstream| upstream.value.names().next());
    let ends = || first().unwrap_or("").to_owned();
    Api {
        name: written.name.clone().unwrap_or_else(|| place.route.to_owned()),
        version: written.version.clone(),
        vhost: written.vhost.clone(),
        base_path: crate::paths::as_matched(&written.base_path),
        path_template: written
            .path_template
            .clone()
            .or_else(|| matches.value.path.0.first().map(|path| path.value.text().to_owned()))
            // Harmless: a route without a path has no path to describe.
            .unwrap_or_default(),
        methods: methods.join(" "),
        production: written.production.clone().unwrap_or_else(ends),
        sandbox: written.sandbox.clone(),
    }
}
