//! `grpc_web`.

use ::policies::grpc_web;
use config::{At, Report, Upstream, UpstreamProtocol};

use crate::policy::RouteScope;

pub(crate) fn build(
    at: At,
    intact: bool,
    place: &RouteScope<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    if place.of.upstream.is_none() && intact {
        let what = "nothing answers calls here: the route has no upstream";
        report.error(at, what, "remove the policy, or add `upstream: NAME`");
    }
    let names = place.of.upstream.iter().flat_map(|upstream| upstream.value.names());
    for name in names.filter(|_| intact) {
        if place.config.upstreams.get(name).is_some_and(is_http1) {
            let what = format!("the upstream `{name}` is asked in HTTP/1, which gRPC cannot use");
            report.warn(at, what, "add `protocol: http2` to the upstream");
        }
    }
    grpc_web::policy()
}

/// True if none of its targets is ever asked in HTTP/2.
fn is_http1(upstream: &Upstream) -> bool {
    match upstream.protocol {
        UpstreamProtocol::Http1 => true,
        // It is agreed on with TLS.
        UpstreamProtocol::Auto => {
            upstream.targets.value.iter().all(|target| !target.url.value.tls())
        }
        UpstreamProtocol::Http2 => false,
    }
}
