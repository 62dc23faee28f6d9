//! Compiles `endpoints`, and calls of URLs that are known only at run time.

use std::sync::Arc;
use std::time::Duration;

use ::flows::{CallTo, CallUrl, Endpoint, EndpointFinder};
use config::{
    CallStep, Config, Decode as _, EndpointAllow, EndpointTimeout, NamedStep, Report, Spanned,
    TargetUrl,
};
use expression::Kind;
use plan::upstreams::{
    AllowedHost, AllowedUrl, Breaker, Dns, Endpoints, Timeouts, UpstreamSettings,
};

use super::{Compiler, Namespaces};
use crate::policy_builder::PolicyBuilder;
use crate::upstream_settings;

/// The upstream name in metrics for all calls of endpoints.
const ENDPOINTS: &str = "(endpoints)";

/// The maximum number of connections to one origin. This bound and the next two are low because messages name the origins, so there may be
/// many of them.
const CONNECTIONS_MAX: u32 = 128;

/// The maximum number of concurrent calls to one origin.
const CALLS_MAX: u32 = 1024;

/// The maximum number of idle connections that a worker keeps to one origin.
const IDLE_MAX: usize = 16;

/// How long idle connections are kept. Most servers close theirs after about a minute.
const IDLE: Duration = Duration::from_secs(30);

/// Compiles the addresses that may be called. Returns `None` if the configuration has none.
pub(super) fn compile(
    config: &Config,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Option<Arc<Endpoints>> {
    let keys = &config.endpoints.as_ref()?.value;
    if keys.allow.is_empty() {
        let at = config.endpoints.as_ref()?.at;
        let help = "add URLs or networks, such as `allow: [\"https://*.example.com\"]`";
        report.error(at, "`endpoints` allows nothing", help);
    }
    let url =
        |url: &TargetUrl, host: AllowedHost| AllowedUrl { https: url.tls, host, port: url.port };
    let name = |url: &TargetUrl| url.host.to_ascii_lowercase();
    let urls = keys.allow.iter().filter_map(|allow| match &allow.value {
        EndpointAllow::Url(this) => Some(url(this, AllowedHost::This(name(this)))),
        EndpointAllow::Below(parent) => Some(url(parent, AllowedHost::Below(name(parent)))),
        EndpointAllow::Network(_) => None,
    });
    let networks = keys.allow.iter().filter_map(|allow| match &allow.value {
        EndpointAllow::Network(network) => Some(network.0),
        EndpointAllow::Url(_) | EndpointAllow::Below(_) => None,
    });
    let (urls, networks) = (urls.collect(), networks.collect());
    let settings = settings(keys, report)?;
    let metrics = builder.telemetry.upstream(ENDPOINTS);
    let key = format!("endpoints {} {settings:?}", keys.encode());
    Some(
        builder
            .reuse_or_build(&key, || Arc::new(Endpoints::new(urls, networks, settings, metrics))),
    )
}

/// Returns the settings that all origins share. The target is filled in at run time.
fn settings(keys: &config::Endpoints, report: &mut Report) -> Option<UpstreamSettings> {
    let timeout = match &keys.timeout {
        EndpointTimeout::Whole(whole) => Timeouts {
            connect: whole.0,
            response: whole.0,
            write: None,
            total: Some(whole.0),
            idle: IDLE,
        },
        EndpointTimeout::Parts(parts) => upstream_settings::timeouts(parts),
    };
    let nobody = TargetUrl { tls: false, host: "endpoint.invalid".to_owned(), port: 80 };
    let settings = upstream_settings::to_url(&nobody, timeout, &keys.tls, report)?;
    Some(UpstreamSettings {
        breaker: Breaker { connections: CONNECTIONS_MAX, requests: CALLS_MAX, pending: CALLS_MAX },
        idle_max: IDLE_MAX,
        // Names are resolved for each new connection, so periodic look-ups are not needed.
        dns: Dns::never(),
        ..settings
    })
}

impl Compiler<'_, '_> {
    /// Compiles the recipient of a `call`: an upstream or a URL.
    pub(super) fn call_to(
        &mut self,
        keys: &CallStep,
        step: &Spanned<NamedStep>,
        namespaces: &Namespaces,
    ) -> Option<CallTo> {
        match (&keys.upstream, &keys.url) {
            (Some(upstream), None) => {
                let to = self.builder.upstream_fetch(upstream, self.report)?;
                Some(CallTo::Upstream(to, upstream.value.as_str().into()))
            }
            (None, Some(url)) => {
                if let Some(path) = &keys.path {
                    let what = "`path` cannot be combined with `url`";
                    self.report.error(
                        path.at,
                        what,
                        "write the path into `url`, and remove `path`",
                    );
                }
                self.call_url(url, namespaces).map(|url| CallTo::Url(Box::new(url)))
            }
            (Some(_), Some(url)) => {
                let what = "`upstream` and `url` cannot be combined";
                self.report.error(url.at, what, "keep `upstream` or `url`");
                None
            }
            (None, None) => {
                if step.intact {
                    let help = "add `upstream: NAME`, or `url: URL` for an address that is known only at run time";
                    self.report.error(step.at, "a call needs `upstream` or `url`", help);
                }
                None
            }
        }
    }

    fn call_url(&mut self, text: &Spanned<String>, namespaces: &Namespaces) -> Option<CallUrl> {
        if self.config.endpoints.is_none() {
            let what = "`url` needs `endpoints`, which lists what may be called";
            let help = "add `endpoints: { allow: [\"https://*.example.com\"] }` at the top level";
            self.report.error(text.at, what, help);
            return None;
        }
        let Some(parts) = UrlParts::of(text.value.trim()) else {
            let what = "a URL must begin with `https://`, `http://` or a value";
            self.report.error(
                text.at,
                what,
                "write one such as `https://api.example.com/{{ $id }}`",
            );
            return None;
        };
        let part = |part: &str| Spanned { value: part.to_owned(), at: text.at, intact: true };
        let base = self.template(&part(parts.base), Kind::Text, namespaces);
        let rest = match parts.rest {
            "" => Some(None),
            rest => self.template(&part(rest), Kind::Path, namespaces).map(Some),
        };
        let (base, rest) = (base?, rest?);
        let endpoints = self.endpoints?.clone();
        if let Some(fixed) = base.literal().filter(|fixed| !endpoints.allows(fixed)) {
            let what = format!("`{}` is not in `endpoints.allow`", fixed.escape_debug());
            self.report.error(text.at, what, "add it there, or call another address");
            return None;
        }
        let find: EndpointFinder = Arc::new(move |url: &str| {
            let (endpoint, target) = endpoints.find(url)?;
            let name = endpoint.name().into();
            Ok(Endpoint { to: Arc::new(endpoint), name, target })
        });
        Some(CallUrl { base, has_scheme: parts.has_scheme, rest, find })
    }
}

/// The template of a URL, split in two.
#[derive(Debug, PartialEq, Eq)]
struct UrlParts<'t> {
    /// The part before the path or the query.
    base: &'t str,
    has_scheme: bool,
    rest: &'t str,
}

impl<'t> UrlParts<'t> {
    /// Splits a template. Returns `None` unless it begins with `http://`, `https://` or a placeholder.
    fn of(text: &'t str) -> Option<UrlParts<'t>> {
        let scheme = ["https://", "http://"].into_iter().find(|scheme| {
            text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
        });
        if scheme.is_none() && !text.starts_with("{{") {
            return None;
        }
        let mut at = scheme.map_or(0, str::len);
        loop {
            let rest = text.get(at..).unwrap_or_default();
            let next = rest.find(['/', '?', '{']).map(|next| at + next);
            let Some(next) = next else { break };
            if !text.get(next..)?.starts_with('{') {
                let (base, rest) = text.split_at_checked(next)?;
                return Some(UrlParts { base, has_scheme: scheme.is_some(), rest });
            }
            // A placeholder may contain any text, including `/` and `?`.
            let close = text.get(next..)?.find("}}");
            let Some(close) = close else { break };
            at = next + close + 2;
        }
        Some(UrlParts { base: text, has_scheme: scheme.is_some(), rest: "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_have_each_timeout_that_is_written() {
        let keys = serde_json::json!({
            "allow": ["https://a.test"],
            "timeout": { "connect": "2s", "response": "3s", "write": "4s", "total": "5s", "idle": "6s" },
        });
        let mut report = Report::default();
        let keys = config::decode::<config::Endpoints>(&keys, config::At::NOWHERE, &mut report);
        let settings = keys.and_then(|keys| settings(&keys, &mut report));
        let seconds = Duration::from_secs;
        let expected = Timeouts {
            connect: seconds(2),
            response: seconds(3),
            write: Some(seconds(4)),
            total: Some(seconds(5)),
            idle: seconds(6),
        };
        assert_eq!(settings.map(|settings| settings.timeout), Some(expected), "{report}");
    }

    #[test]
    fn a_url_is_split_at_its_path() {
        for (text, base, has_scheme, rest) in [
            ("https://a.test/b/{{ $c }}", "https://a.test", true, "/b/{{ $c }}"),
            (
                "HTTP://{{ $body/a }}.test:80?q={{ $q }}",
                "HTTP://{{ $body/a }}.test:80",
                true,
                "?q={{ $q }}",
            ),
            ("https://a.test", "https://a.test", true, ""),
            ("{{ $url }}", "{{ $url }}", false, ""),
            ("{{ $body/url }}/x", "{{ $body/url }}", false, "/x"),
        ] {
            assert_eq!(UrlParts::of(text), Some(UrlParts { base, has_scheme, rest }), "{text}");
        }
        assert_eq!(UrlParts::of("ftp://a"), None);
        assert_eq!(UrlParts::of("/a"), None);
    }
}
