//! Compiles `xpath_route`: its expressions, and the upstreams it names or creates.

use ::policies::xpath_route::{self as routing, Case, XpathRouteSettings};
use config::{Report, Spanned, UpstreamTimeout, UpstreamTls, WebUrl, XpathCase};
use wsdl::{SOAP_11, SOAP_12};
use xpath::{Expr, Plain};

use super::{Diverts, Facts, NamedUpstreams, PolicyKind, PolicyPlace, Xml};
use crate::listeners::bytes;
use crate::policy::RouteScope;
use crate::{names, upstream_settings, upstream_targets};

impl PolicyKind for config::XpathRoute {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let written =
            self.namespaces.iter().map(|(prefix, uri)| (prefix.value.as_str(), uri.value.as_str()));
        let prefixes: Vec<(&str, &str)> =
            written.chain([("soap", SOAP_11), ("soap12", SOAP_12)]).collect();
        if self.cases.value.is_empty() && self.cases.intact {
            let help = "write at least one `{ xpath: ..., equals: ..., upstream: ... }`";
            report.error(self.cases.at, "`cases` is empty", help);
        }
        if place.of.upstream.is_none() {
            let what = "the route has no upstream, so there is nothing to send elsewhere";
            report.error(self.cases.at, what, "give the route an `upstream`");
        }
        let mut cases = Vec::new();
        for case in &self.cases.value {
            let statics = Plain { prefixes: &prefixes, ..Plain::default() };
            let xpath = &case.value.xpath;
            let expression = Expr::compile(&xpath.value, &statics).map_err(|error| {
                let what = format!("the expression `{}`: {error}", xpath.value);
                report.error(xpath.at, what, "write XPath 1.0, with prefixes of `namespaces`");
            });
            let to = target(case, place, report);
            if let (Ok(expression), Some((diversion, target))) = (expression, to) {
                cases.push(Case {
                    expression,
                    equals: case.value.equals.clone(),
                    diversion,
                    target,
                });
            }
        }
        routing::policy(XpathRouteSettings {
            cases,
            verbose: self.verbose,
            bytes_max: bytes(self.body_bytes_max),
            attachments: place.of.errors != config::Errors::Kong,
        })
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            upstreams: NamedUpstreams::These(named(self)),
            diverts: Diverts::ByMessage,
            xml: Some(Xml {
                verbose: self.verbose,
                validates: &[],
                reads_requests: true,
                reads_replies: false,
                makes_faults: false,
            }),
            ..Facts::NONE
        }
    }
}

/// Returns the names of upstreams that the cases may refer to.
pub(crate) fn named(keys: &config::XpathRoute) -> Vec<&str> {
    // Harmless: a case with neither `upstream` nor `url` is reported when the policy is built.
    let named = keys.cases.value.iter().filter_map(|case| {
        let host = case.value.url.as_ref().map(|url| url.value.target.host.as_str());
        case.value.upstream.as_ref().map(|name| name.value.as_str()).or(host)
    });
    named.collect()
}

/// The target of a case: the index into the route's diversions, and the path, or `None` for the path of the request.
type Target = (usize, Option<Box<[u8]>>);

/// Returns the target of a case. Complains unless exactly one of `upstream` and `url` is written.
fn target(
    case: &Spanned<XpathCase>,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<Target> {
    match (&case.value.upstream, &case.value.url) {
        (Some(name), None) => {
            let known = place.builder.upstream_names();
            if !known.contains(&name.value) {
                let meant = report.suggest(&name.value, known.iter().map(String::as_str));
                let what = names::unknown("upstream", &name.value, meant);
                report.error(name.at, what, "name one of the `upstreams`, or write `url`");
                return None;
            }
            Some((place.diversion(&name.value), None))
        }
        (None, Some(url)) => {
            upstream_targets::warn_of_loop(place.config, &url.value.target, url.at, report);
            to_url(&url.value, place, report)
        }
        (Some(_), Some(url)) => {
            let what = "`upstream` and `url` cannot be combined";
            report.error(url.at, what, "keep one of the two");
            None
        }
        (None, None) => {
            if case.intact {
                let help = "add `upstream: NAME`, or `url: \"http://HOST:PORT/PATH\"`";
                report.error(case.at, "the case needs `upstream` or `url`", help);
            }
            None
        }
    }
}

/// Returns the target of a URL. If its host is the name of an upstream, ignoring case, requests go to that upstream.
fn to_url(url: &WebUrl, place: &mut RouteScope<'_, '_>, report: &mut Report) -> Option<Target> {
    let host = &url.target.host;
    let names = place.builder.upstream_names().iter();
    let exact = names.clone().find(|name| *name == host);
    let named = exact.or_else(|| names.clone().find(|name| name.eq_ignore_ascii_case(host)));
    let name = match named.cloned() {
        Some(name) => name,
        None => {
            let tls = <UpstreamTls as config::Decode>::absent()?;
            // The target of a URL has the defaults of an upstream.
            let timeouts =
                upstream_settings::timeouts(&<UpstreamTimeout as config::Decode>::absent()?);
            let settings = upstream_settings::to_url(&url.target, timeouts, &tls, report)?;
            place.builder.own_upstream(settings)
        }
    };
    Some((place.diversion(&name), Some(url.path.as_bytes().into())))
}
