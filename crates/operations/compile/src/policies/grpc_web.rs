//! Compiles `grpc_web`.

use ::policies::grpc_web;
use config::{GrpcWeb, Report, Upstream, UpstreamProtocol};

use super::{PolicyKind, PolicyPlace};
use crate::policy::RouteScope;

impl PolicyKind for GrpcWeb {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        check_upstreams(written, place, report);
        grpc_web::policy()
    }
}

/// Complains if the route has no upstream that could be a gRPC service.
pub(super) fn check_upstreams(
    written: PolicyPlace,
    place: &RouteScope<'_, '_>,
    report: &mut Report,
) {
    if place.of.upstream.is_none() && written.intact {
        let what = "nothing answers calls here: the route has no upstream";
        report.error(written.at, what, "remove the policy, or add `upstream: NAME`");
    }
    let names = place.of.upstream.iter().flat_map(|upstream| upstream.value.names());
    for name in names.filter(|_| written.intact) {
        if place.config.upstreams.get(name).is_some_and(is_http1) {
            let what = format!("the upstream `{name}` uses HTTP/1, but gRPC needs HTTP/2");
            report.warn(written.at, what, "add `protocol: http2` to the upstream");
        }
    }
}

/// Returns true if requests to this upstream never use HTTP/2.
fn is_http1(upstream: &Upstream) -> bool {
    match upstream.protocol {
        UpstreamProtocol::Http1 => true,
        // HTTP/2 is negotiated in the TLS handshake, so it needs TLS.
        UpstreamProtocol::Auto => {
            upstream.targets.value.iter().all(|target| !target.url.value.tls())
        }
        UpstreamProtocol::Http2 => false,
    }
}
