//! Compiles `soap_rest`: reads the description, assigns paths to its operations, and generates the OpenAPI document.

mod places;

use std::sync::Arc;

use ::policies::soap_rest::{self as rest, SoapRestSettings, SoapTargets};
use bytes::Bytes;
use config::{FaultStatus, Report, RoutePath, SoapRest, Spanned};
use mediation::soap_json::Faults;
use wsdl::SoapVersion;
use wsdl::typed::{self, Api, Document, Operation, OperationPlace, PortChoice};

use super::{Facts, PolicyKind, PolicyPlace, or_nothing, soap};
use crate::paths;
use crate::policy::RouteScope;

/// The translation tables of a description, or its faults.
type TablesResult = Result<Arc<Api>, Vec<String>>;

impl PolicyKind for SoapRest {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { tells_operations: true, ..Facts::NONE }
    }
}

fn build(
    keys: &SoapRest,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<plan::Policy> {
    let prefix = prefix(keys, place, report);
    let made = api(keys, place);
    let api = match &*made {
        Ok(api) => api.clone(),
        Err(complaints) => {
            for what in complaints {
                let help =
                    "correct the WSDL, or name another; `soap` needs only its types and actions";
                report.error(keys.wsdl.at, what.as_str(), help);
            }
            return None;
        }
    };
    if api.operations().is_empty() {
        let all: Vec<String> =
            api.left_out().map(|(name, why)| format!("`{name}`: {why}")).collect();
        let what = format!("none of the operations can be offered as JSON: {}", all.join("; "));
        report.error(keys.wsdl.at, what, "name another `port`, or use `soap` and `xslt`");
        return None;
    }
    for (name, why) in api.left_out() {
        let what = format!("the operation `{name}` is not offered as JSON: {why}");
        report.warn(keys.wsdl.at, what, "name a `port` that supports it, or leave `port` out");
    }
    let document_path = document_path(keys, report);
    let places = places::places(keys, &api, document_path.as_deref(), place, report)?;
    let target = target(keys, &api, report)?;
    let document = document_path.map(|path| {
        let mut of = vec![OperationPlace::default(); api.operations().len()];
        for place in &places {
            if let Some(entry) = of.get_mut(place.operation) {
                *entry = places::offered(place);
            }
        }
        let text = api.openapi(&Document { server: &prefix, places: of });
        (path.into(), Bytes::from(text))
    });
    let statuses = keys.faults.iter();
    let statuses =
        statuses.map(|(name, status)| (name.value.as_str().into(), status.value.get_u16()));
    // The published description has the route's own address, so SOAP messages are taken there.
    let is_published = place.of.services.wsdl.is_some();
    let soap = is_published.then(|| soap_targets(keys, &api, &target));
    let settings = SoapRestSettings {
        api,
        prefix: prefix.into(),
        places,
        target: target.into_bytes().into(),
        document,
        soap,
        faults: Faults {
            by_code: keys.fault_status == FaultStatus::ByCode,
            statuses: statuses.collect(),
        },
        codings: soap::codings(keys.body_bytes_max, place),
    };
    Some(rest::policy(settings, place.slots))
}

/// Returns the translation tables, taken over from the previous plan if the documents did not change.
fn api(keys: &SoapRest, place: &mut RouteScope<'_, '_>) -> Arc<TablesResult> {
    let imports: Vec<_> = keys
        .imports
        .iter()
        .map(|(location, file)| (location.value.clone(), file.value.as_path().to_owned()))
        .collect();
    let path = keys.wsdl.value.as_path();
    let read = match import::wsdl::description(path, &imports) {
        Ok(read) => read,
        Err(complaints) => return Arc::new(Err(complaints)),
    };
    let text = |key: &Option<Spanned<String>>| key.as_ref().map(|key| key.value.clone());
    let (service, port) = (text(&keys.service), text(&keys.port));
    let key = format!("soap_rest {} {:x} {service:?} {port:?}", path.display(), read.content);
    place.builder.reuse_or_build(&key, || {
        let wanted = PortChoice { service: service.as_deref(), port: port.as_deref() };
        let made = typed::api(&read.description, wanted);
        Arc::new(made.map(Arc::new).map_err(|what| vec![what]))
    })
}

/// Returns the prefix of every path: as written, or else the fixed segments of the route's path.
fn prefix(keys: &SoapRest, place: &RouteScope<'_, '_>, report: &mut Report) -> String {
    let Some(written) = &keys.prefix else {
        let [route] = place.of.matches.value.path.0.as_slice() else {
            let what = "the route has several paths, so the paths of the operations are ambiguous";
            report.error(keys.wsdl.at, what, "set `prefix` to the path in front of the operations");
            return String::new();
        };
        let is_regex = matches!(route.value, RoutePath::Regex(_) | RoutePath::RegexPrefix(_));
        let route = route.value.text();
        let own = route.strip_suffix("/**").unwrap_or(route);
        if is_regex || own.contains(['{', '*']) {
            let what =
                "the route's path has parameters, so the paths of the operations are ambiguous";
            report.error(keys.wsdl.at, what, "set `prefix` to the path in front of the operations");
        }
        return paths::as_matched(own.trim_end_matches('/'));
    };
    if !paths::is_target(&written.value) || written.value.contains(['?', '{', '*']) {
        let what = format!("`{}` is not a path", written.value.escape_debug());
        report.error(written.at, what, "write it as it is sent, such as `/calculator`");
    }
    paths::as_matched(written.value.trim_end_matches('/'))
}

/// Returns the path of the OpenAPI document, or `None` if it is off.
fn document_path(keys: &SoapRest, report: &mut Report) -> Option<String> {
    let written = &keys.openapi;
    if written.value == "off" {
        return None;
    }
    if !paths::is_target(&written.value) || written.value.contains('?') {
        let what = format!("`{}` is not a path", written.value.escape_debug());
        report.error(written.at, what, "write `/openapi.json`, or `off`");
    }
    Some(paths::as_matched(&written.value))
}

/// Returns the default path of an operation: its name, percent-encoded.
fn own_path(operation: &Operation) -> String {
    format!("/{}", kit::percent::encoded(operation.name().as_bytes(), b""))
}

/// Returns the action as it is written in a request: `SOAPAction` in quotes, or a parameter of the content type.
fn action(api: &Api, operation: &Operation) -> Box<str> {
    let action = operation.action().unwrap_or("").replace('"', "%22");
    let text = match api.version() {
        SoapVersion::V11 => format!("\"{action}\""),
        SoapVersion::V12 if action.is_empty() => "application/soap+xml; charset=utf-8".to_owned(),
        SoapVersion::V12 => format!("application/soap+xml; charset=utf-8; action=\"{action}\""),
    };
    text.into()
}

/// Returns the path that is sent to the upstream: as written, or that of the port's address.
fn target(keys: &SoapRest, api: &Api, report: &mut Report) -> Option<String> {
    if let Some(written) = &keys.path {
        if !paths::is_target(&written.value) {
            let what = format!("`{}` is not a path", written.value.escape_debug());
            report.error(written.at, what, "write the path of the service, such as `/ws`");
            return None;
        }
        return Some(written.value.clone());
    }
    let address = api.address().unwrap_or("");
    if let Some(path) = path_of(address) {
        return Some(path.to_owned());
    }
    let what = format!("the address of the port, `{}`, has no usable path", address.escape_debug());
    report.error(keys.wsdl.at, what, "set `path` to the path at the upstream, such as `/ws`");
    None
}

/// Returns the paths that clients' own SOAP messages are sent to: as written, or those of the ports' addresses.
fn soap_targets(keys: &SoapRest, api: &Api, target: &str) -> SoapTargets {
    let of = |version| {
        // Harmless: the other port's address may have no usable path, and then the messages go to the port's own.
        let own = api.address_of(version).and_then(path_of).filter(|_| keys.path.is_none());
        own.unwrap_or(target).as_bytes().into()
    };
    SoapTargets { v11: of(SoapVersion::V11), v12: of(SoapVersion::V12) }
}

/// Returns the path and query of an address.
fn path_of(address: &str) -> Option<&str> {
    let rest = address.split_once("://").map_or("", |(_, rest)| rest);
    // Fragments are not sent.
    let sent = rest.split('#').next().unwrap_or_default();
    let path = sent.find('/').and_then(|at| sent.get(at..)).unwrap_or("/");
    paths::is_target(path).then_some(path)
}
