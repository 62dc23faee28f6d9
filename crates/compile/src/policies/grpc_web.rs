//! `grpc_web`.

use ::policies::grpc_web;
use config::{At, Report};

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
    grpc_web::policy()
}
