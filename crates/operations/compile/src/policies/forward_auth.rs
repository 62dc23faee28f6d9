//! Compiles `forward_auth`: connects it to its service.

use std::sync::Arc;

use ::policies::forward_auth::{self, ForwardAuthSettings};
use config::{At, ForwardAuth, OnAuthFailure, Report, Spanned, UpstreamTls};
use plan::Fetch;
use plan::upstreams::Timeouts;

use super::{
    Access, Facts, NamedUpstreams, PolicyKind, PolicyPlace, WrittenLines, or_nothing, texts,
};
use crate::listeners::bytes;
use crate::policy::RouteScope;
use crate::{names, paths, upstream_settings};

/// The idle timeout of connections. As for upstreams, it is shorter than the timeout of most servers.
const IDLE: std::time::Duration = std::time::Duration::from_secs(60);

impl PolicyKind for ForwardAuth {
    fn build(
        &self,
        written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, written.at, written.intact, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            access: Access::Guards,
            replies_differ: !self.headers.take.0.is_empty(),
            writes: WrittenLines::These(texts(&self.headers.take.0)),
            upstreams: NamedUpstreams::These(texts(&self.upstream)),
            ..Facts::NONE
        }
    }
}

fn build(
    keys: &ForwardAuth,
    at: At,
    intact: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<plan::Policy> {
    let take = keys.headers.take.0.iter();
    let take =
        take.filter_map(|name| names::changeable_header(&name.value, name.at, report)).collect();
    let send = keys.headers.send.as_ref().map(|list| {
        list.0.iter().filter_map(|name| names::header(&name.value, name.at, report)).collect()
    });
    let (fetch, path) = service(keys, at, intact, place, report)?;
    Some(forward_auth::policy(ForwardAuthSettings {
        fetch,
        path,
        send,
        take,
        timeout: keys.timeout.0,
        passes_on_failure: keys.on_failure == OnAuthFailure::Pass,
        body_bytes_max: bytes(keys.body_bytes_max),
    }))
}

/// Returns the service and the path to request. Complains unless exactly one of `url` and `upstream` is written.
fn service(
    keys: &ForwardAuth,
    at: At,
    intact: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<(Arc<dyn Fetch>, String)> {
    match (&keys.url, &keys.upstream) {
        (Some(url), None) => {
            if let Some(path) = &keys.path {
                report.error(
                    path.at,
                    "`path` cannot be combined with `url`",
                    "write it in `url`, and remove `path`",
                );
            }
            let connect = std::time::Duration::from_secs(1).min(keys.timeout.0);
            let timeout = Timeouts {
                connect,
                response: keys.timeout.0,
                write: None,
                total: None,
                idle: IDLE,
            };
            let none = <UpstreamTls as config::Decode>::absent()?;
            let tls = keys.tls.as_ref().map_or(&none, |tls| &tls.value);
            let settings = upstream_settings::to_url(&url.value.target, timeout, tls, report)?;
            Some((place.builder.own_fetch(settings), url.value.path.clone()))
        }
        (None, Some(name)) => {
            if let Some(tls) = &keys.tls {
                let help = "write `tls` below the upstream";
                report.error(tls.at, "`tls` cannot be combined with `upstream`", help);
            }
            let path = path(keys.path.as_ref(), report);
            Some((place.builder.upstream_fetch(name, report)?, path))
        }
        (Some(_), Some(name)) => {
            let what = "`url` and `upstream` cannot be combined";
            report.error(name.at, what, "keep one of the two");
            None
        }
        (None, None) => {
            if intact {
                let help = "add `url: \"http://HOST:PORT/PATH\"`, or `upstream: NAME` for replicas";
                report.error(at, "`forward_auth` needs `url` or `upstream`", help);
            }
            None
        }
    }
}

fn path(written: Option<&Spanned<String>>, report: &mut Report) -> String {
    let Some(path) = written else { return "/".to_owned() };
    if !paths::is_target(&path.value) {
        let what = format!("`{}` is not a valid request path", path.value.escape_debug());
        report.error(path.at, what, "write a path that begins with `/`, such as `/verify`");
    }
    path.value.clone()
}
