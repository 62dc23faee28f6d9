//! `soap` to its policy: schemas and descriptions compiled once, and shared by all routes that name the same.

mod actions;
pub(super) mod load;

use std::sync::Arc;

use ::policies::soap::{
    self as checks, Actions, Codings, Definitions, ENVELOPE_11, ENVELOPE_12, Failed, Settings,
    Strictness, Version,
};
use config::{
    At, BadDefinitions, FilePath, MessageSide, Policy, Report, Route, SoapAction, SoapVersion,
    Spanned, UpstreamErrors,
};

use crate::listeners::bytes;
use crate::policy::Place;
use load::{Compiled, Loaded, Wrong};

/// The form of a route's faults where nothing is written: those of SOAP where a policy looks into XML.
pub(crate) fn faults(route: &Route) -> plan::Errors {
    let about_xml = |policy: &Spanned<Policy>| {
        matches!(policy.value, Policy::Soap(_) | Policy::Xslt(_) | Policy::XpathRoute(_))
    };
    match route.policies.iter().any(about_xml) {
        true => plan::Errors::Soap { verbose: tells(route) },
        false => plan::Errors::Problem,
    }
}

/// Whether some policy over XML tells the client what is wrong.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others are not about XML")]
pub(crate) fn tells(route: &Route) -> bool {
    route.policies.iter().any(|policy| match &policy.value {
        Policy::Soap(keys) => keys.verbose,
        Policy::Xslt(keys) => keys.verbose,
        Policy::XpathRoute(keys) => keys.verbose,
        _ => false,
    })
}

/// Whether definitions that do not compile are answered with faults.
pub(super) fn faulty_pass(written: Option<BadDefinitions>, place: &Place<'_, '_>) -> bool {
    match written {
        Some(BadDefinitions::Fault) => true,
        Some(BadDefinitions::Complain) => false,
        None => place.of.errors == config::Errors::Kong,
    }
}

/// How a policy at this place treats content codings of replies.
#[allow(clippy::wildcard_enum_match_arm, reason = "all others read no reply as XML")]
pub(super) fn codings(at: At, bytes_max: config::Size, place: &Place<'_, '_>) -> Codings {
    let mut above = place.of.policies.iter().take_while(|policy| policy.at != at);
    let looks_too = |policy: &Spanned<Policy>| match &policy.value {
        Policy::Soap(keys) => {
            keys.validate.value.contains(&MessageSide::Response)
                || keys.upstream_errors == UpstreamErrors::Fault
        }
        Policy::Xslt(keys) => keys.on.value == MessageSide::Response,
        _ => false,
    };
    Codings {
        gzip_only: place.of.errors == config::Errors::Kong,
        topmost: !above.any(looks_too),
        bytes_max: bytes(bytes_max),
    }
}

/// Builds the policy; what is wrong with a definition is complained about with its file, line and column.
pub(crate) fn build(
    keys: &config::Soap,
    at: At,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> plan::Policy {
    let faulty = faulty_pass(keys.bad_definitions, place);
    let envelopes =
        [Version::V11, Version::V12].map(|version| envelope(keys, version, faulty, place, report));
    let mut definitions = Definitions { envelopes, api: None, broken: None, actions: None };
    match &keys.schema {
        Some(schema) => {
            let compiled = load::api(schema, &keys.imports, place, report);
            match compiled.as_deref() {
                Some(Ok(api)) => take(api, keys, schema, &mut definitions, report),
                Some(Err(wrong)) => {
                    complain(wrong, schema.at, faulty, report);
                    definitions.broken = Some(wrong.failed());
                }
                None => {}
            }
        }
        None => useless(keys, report),
    }
    let has = |side| keys.validate.value.contains(&side);
    let settings = Settings {
        request: has(MessageSide::Request),
        response: has(MessageSide::Response),
        verbose: keys.verbose,
        upstream_errors_fault: keys.upstream_errors == UpstreamErrors::Fault,
        codings: codings(at, keys.body_bytes_max, place),
    };
    if !settings.request && keys.action.value != SoapAction::Off {
        let what = "`action` is looked at where requests are validated";
        report.error(keys.action.at, what, "add `request` to `validate`, or remove `action`");
    }
    checks::policy(Arc::new(definitions), settings)
}

/// Keys that mean nothing without a schema.
fn useless(keys: &config::Soap, report: &mut Report) {
    if keys.action.value != SoapAction::Off {
        let what = "`action` needs the WSDL that says what it has to be";
        report.error(keys.action.at, what, "add `schema: FILE.wsdl`, or remove `action`");
    }
    if let Some((location, _)) = keys.imports.iter().next() {
        let what = "`imports` are those of a `schema`, and there is none";
        report.error(location.at, what, "add `schema`, or remove `imports`");
    }
}

fn take(
    api: &Compiled,
    keys: &config::Soap,
    schema: &Spanned<FilePath>,
    definitions: &mut Definitions,
    report: &mut Report,
) {
    definitions.api = Some(api.schema.clone());
    let strictness = match keys.action.value {
        SoapAction::Off => return,
        SoapAction::Optional => Strictness::Optional,
        SoapAction::Required => Strictness::Required,
    };
    match &api.actions {
        Some(actions) => definitions.actions = Some((strictness, Arc::<Actions>::clone(actions))),
        None => {
            let what = format!(
                "`{}` is no WSDL, so it names no actions",
                schema.value.as_path().display()
            );
            report.error(keys.action.at, what, "name a WSDL in `schema`, or remove `action`");
        }
    }
}

/// Says what is wrong with a definition: a complaint, or a warning where it is answered with faults.
pub(super) fn complain(wrong: &Wrong, at: At, faulty: bool, report: &mut Report) {
    for what in &wrong.complaints {
        match faulty {
            true => {
                report.warn(at, what.as_str(), "correct it: until then every message is refused")
            }
            false => report.error(at, what.as_str(), "correct the definition"),
        }
    }
}

fn envelope(
    keys: &config::Soap,
    version: Version,
    faulty: bool,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> checks::Envelope {
    let written = match version {
        Version::V11 => SoapVersion::V11,
        Version::V12 => SoapVersion::V12,
    };
    let taken = keys.versions.as_ref().map(|versions| versions.value.contains(&written));
    if taken == Some(false) {
        return checks::Envelope::Missing;
    }
    let schemas = match &keys.envelope {
        config::Envelope::Off => return checks::Envelope::Off,
        config::Envelope::Schemas(schemas) => schemas,
    };
    let (text, name) = match (schemas.get(version.text()), version, taken) {
        (Some(file), _, _) => return own(file, faulty, place, report),
        (None, Version::V12, None) => return checks::Envelope::Missing,
        (None, Version::V11, _) => (ENVELOPE_11, "soap 1.1 envelope"),
        (None, Version::V12, Some(_)) => (ENVELOPE_12, "soap 1.2 envelope"),
    };
    let loaded = Loaded::of_text(text, name);
    match &*load::compiled(&loaded, place) {
        Ok(compiled) => checks::Envelope::BuiltIn(compiled.schema.clone()),
        Err(wrong) => {
            // Not reachable: a test compiles both.
            complain(wrong, At::NOWHERE, false, report);
            checks::Envelope::Missing
        }
    }
}

fn own(
    file: &Spanned<FilePath>,
    faulty: bool,
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> checks::Envelope {
    let Some(loaded) = load::load(file, &config::Map::default(), report) else {
        return checks::Envelope::Missing;
    };
    if loaded.is_comment() {
        return checks::Envelope::Off;
    }
    match &*load::compiled(&loaded, place) {
        Ok(compiled) => checks::Envelope::Own(compiled.schema.clone()),
        Err(wrong) => {
            complain(wrong, file.at, faulty, report);
            checks::Envelope::Broken(wrong.failed().text)
        }
    }
}

impl Wrong {
    /// What a client is told.
    fn failed(&self) -> Failed {
        match self.no_schema {
            true => Failed::client("Unable to find a suitable Schema to validate the SOAP/XML"),
            false => Failed::server(self.complaints.first().map_or("", String::as_str)),
        }
    }
}
