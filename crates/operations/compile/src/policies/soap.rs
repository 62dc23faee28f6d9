//! Compiles `soap`: each schema or description is compiled once and shared by all routes that name it.

mod actions;
pub(crate) mod documents;
pub(crate) mod load;
mod operations;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use ::policies::reply_coding::Codings;
use ::policies::soap::{self as checks, SoapSettings};
use config::{
    ActionCheck, At, BadDefinitions, DefinitionAt, EmptyAction, MessageSide, Report, Route,
    SoapAction, SoapVersion, Spanned, UpstreamErrors,
};
use mediation::soap::{
    ActionRules, Api, Definitions, ENVELOPE_11, ENVELOPE_12, Envelope, Strictness, Version,
};

use super::{Facts, PolicyKind, PolicyPlace, Xml};
use crate::listeners::bytes;
use crate::policies;
use crate::policies::remote_definition;
use crate::policy::RouteScope;
use documents::Documents;
use load::{DefinitionError, ReferenceRules};
use wsdl::RpcMessages;

/// Returns the default form of a route's faults: SOAP if one of its policies processes XML.
pub(crate) fn faults(route: &Route) -> plan::Errors {
    if policies::of(route).iter().any(|row| row.xml.is_some()) {
        plan::Errors::Soap { verbose: is_verbose(route), flow: route.flow.is_some() }
    } else {
        plan::Errors::Problem
    }
}

/// Returns true if a policy that processes XML reports the reason of a fault to the client.
pub(crate) fn is_verbose(route: &Route) -> bool {
    policies::of(route).iter().any(|row| row.xml.is_some_and(|xml| xml.verbose))
}

/// Returns true if the policy determines the operation that a request calls.
pub(crate) fn tells_operations(keys: &config::Soap) -> bool {
    // The operations of a fetched schema are unknown at this point.
    let read = keys.schema.as_ref().is_some_and(|at| matches!(at.value, DefinitionAt::File(_)));
    read && keys.validate.value.contains(&MessageSide::Request)
}

/// Returns true if the policy reads the bodies of replies.
pub(crate) fn reads_replies(keys: &config::Soap) -> bool {
    keys.validate.value.contains(&MessageSide::Response)
        || keys.upstream_errors == UpstreamErrors::Fault
}

/// Returns true if requests get a fault when the definition does not compile, instead of a complaint at start.
pub(super) fn answers_with_faults(
    written: Option<BadDefinitions>,
    place: &RouteScope<'_, '_>,
) -> bool {
    match written {
        Some(BadDefinitions::Fault) => true,
        Some(BadDefinitions::Complain) => false,
        None => place.of.errors == config::Errors::Kong,
    }
}

/// Returns how this policy treats content codings of replies.
pub(super) fn codings(bytes_max: config::Size, place: &RouteScope<'_, '_>) -> Codings {
    let mut above = policies::above(place).into_iter().filter_map(|row| row.xml);
    Codings {
        gzip_only: place.of.errors == config::Errors::Kong,
        topmost: !above.any(|xml| xml.reads_replies),
        bytes_max: bytes(bytes_max),
    }
}

/// Returns true if a policy above turns replies with a status other than 200 into faults. This policy then ignores such replies.
pub(super) fn errors_pass(place: &RouteScope<'_, '_>) -> bool {
    policies::above(place).iter().any(|row| row.xml.is_some_and(|xml| xml.makes_faults))
}

/// Returns true if the route itself replies with 200 to all requests. No service sent this reply, so it is neither validated nor
/// transformed. With a `trigger`, other requests get replies of a service.
pub(super) fn is_mock(place: &RouteScope<'_, '_>) -> bool {
    let respond = place.of.respond.as_ref().map(|respond| &respond.value);
    respond.is_some_and(|respond| respond.trigger.is_none() && respond.status.get() == 200)
}

/// Builds the policy. Complaints about a definition name file, line and column.
impl PolicyKind for config::Soap {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        complain_of_empty_lists(self, report);
        let answers_with_faults = answers_with_faults(self.bad_definitions, place);
        let envelopes = [Version::V11, Version::V12]
            .map(|version| envelope(self, version, answers_with_faults, place, report));
        let mut definitions = Definitions {
            envelopes,
            api: Api::None,
            action: None,
            operations: HashMap::new(),
            lenient: place.of.errors == config::Errors::Kong,
        };
        match &self.schema {
            Some(schema) => {
                let known = remote_definition::may_be_fetched(schema, self.fetch.as_ref(), report);
                let documents = if known {
                    load::load(schema, &self.imports, ReferenceRules::of(self), report)
                } else {
                    None
                };
                if let Some(comment) = documents.as_ref().filter(|documents| documents.is_comment())
                {
                    if answers_with_faults {
                        definitions.action =
                            action_rules(comment, self, schema, answers_with_faults, report)
                    } else {
                        complain_of_action(self, report)
                    }
                } else if let Some(mut documents) = documents {
                    if definitions.lenient {
                        documents.rpc = RpcMessages::Undeclared;
                    }
                    definitions.operations = counted(&documents, self, schema.at, place, report);
                    definitions.action =
                        action_rules(&documents, self, schema, answers_with_faults, report);
                    definitions.api =
                        api(documents, self, schema, answers_with_faults, place, report);
                }
            }
            None => complain_of_unused_keys(self, report),
        }
        let has = |side| self.validate.value.contains(&side);
        let settings = SoapSettings {
            request: has(MessageSide::Request),
            response: has(MessageSide::Response) && !is_mock(place),
            verbose: self.verbose,
            upstream_errors_fault: self.upstream_errors == UpstreamErrors::Fault && !is_mock(place),
            errors_pass: errors_pass(place),
            codings: codings(self.body_bytes_max, place),
        };
        if !settings.request && self.action.value.check != ActionCheck::Off {
            let what = "`action` is only checked if requests are validated";
            report.error(self.action.at, what, "add `request` to `validate`, or remove `action`");
        }
        checks::policy(Arc::new(definitions), settings)
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            tells_operations: tells_operations(self),
            xml: Some(Xml {
                verbose: self.verbose,
                validates: &self.validate.value,
                reads_requests: self.validate.value.contains(&MessageSide::Request),
                reads_replies: reads_replies(self),
                makes_faults: self.upstream_errors == UpstreamErrors::Fault,
            }),
            ..Facts::NONE
        }
    }
}

/// Complains about lists that are written but empty.
fn complain_of_empty_lists(keys: &config::Soap, report: &mut Report) {
    if let Some(versions) =
        keys.versions.as_ref().filter(|list| list.value.is_empty() && list.intact)
    {
        let help = "write `versions: [1.1, 1.2]`, or remove it to accept both";
        report.error(versions.at, "no version of SOAP is accepted", help);
    }
    let validate = &keys.validate;
    if validate.value.is_empty() && validate.intact && keys.upstream_errors == UpstreamErrors::Pass
    {
        let help = "write `validate: [request]`, `[response]` or both, or remove the policy";
        report.error(validate.at, "neither side is validated", help);
    }
}

/// Complains about keys that have no effect without a schema.
fn complain_of_unused_keys(keys: &config::Soap, report: &mut Report) {
    complain_of_action(keys, report);
    let envelopes = match &keys.envelope {
        config::Envelope::Off => false,
        config::Envelope::Schemas(schemas) => schemas.iter().next().is_some(),
    };
    if let (Some((location, _)), false) = (keys.imports.iter().next(), envelopes) {
        let what = "`imports` needs `schema`";
        report.error(location.at, what, "add `schema`, or remove `imports`");
    }
}

/// Complains about `action` if there is no description that names actions.
fn complain_of_action(keys: &config::Soap, report: &mut Report) {
    if keys.action.value.check != ActionCheck::Off {
        let what = "`action` needs a WSDL that defines the actions";
        report.error(keys.action.at, what, "add `schema: FILE.wsdl`, or remove `action`");
    }
}

/// Returns the definition that bodies are validated against.
fn api(
    documents: Documents,
    keys: &config::Soap,
    schema: &Spanned<DefinitionAt>,
    answers_with_faults: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Api {
    if let (Some(fetch), false) = (&keys.fetch, documents.remote.is_empty()) {
        let definition =
            load::remote(documents, None, fetch, schema.at, answers_with_faults, place, report);
        return definition.map_or(Api::None, Api::Remote);
    }
    let made = load::compiled(&documents, place);
    let broken = match &*made {
        Ok(good) => good.flaws.broken.as_ref(),
        Err(wrong) => Some(wrong),
    };
    if let Some(wrong) = broken {
        complain(wrong, schema.at, answers_with_faults, report);
        if let (Some(location), None) = (documents.remote.first(), &keys.fetch) {
            let what = format!("`{location}` is imported, but `fetch` is not set");
            let help = "give a file for it in `imports`, or add `fetch: { ttl: 1h }`";
            report.warn(schema.at, what, help);
        }
    }
    match (&*made, &keys.fetch) {
        (Ok(good), fetch) => {
            warn_of_unresolved(&good.flaws.unresolved, schema.at, report);
            let help = "correct the schema: Kong and libxml2 accept it, but other tools do not";
            // Harmless: further complaints are reported once these are corrected.
            for what in good.flaws.noted.iter().take(UNRESOLVED_MAX) {
                report.warn(schema.at, what.as_str(), help);
            }
            if good.flaws.refuses_rpc {
                let what = "messages in the style rpc/literal are refused, as Kong refuses them: no schema declares the elements around them";
                let help =
                    "remove `errors: kong` to have them validated by the parts of their operations";
                report.warn(schema.at, what, help);
            }
            let Some(fetch) = fetch else { return Api::Fixed(Ok(good.compiled.clone())) };
            let first = Some(good.compiled.clone());
            let definition = load::remote(
                documents,
                first,
                fetch,
                schema.at,
                answers_with_faults,
                place,
                report,
            );
            definition.map_or(Api::None, Api::Remote)
        }
        (Err(wrong), _) => Api::Fixed(Err(wrong.failed())),
    }
}

/// The maximum number of warnings about one description. Once these are corrected, the next ones are reported.
const UNRESOLVED_MAX: usize = 20;

/// Warns of unresolved references in a description that are not needed.
fn warn_of_unresolved(flaws: &[String], at: At, report: &mut Report) {
    let help = "messages and actions are checked without it, but `soap_rest` needs it";
    // Harmless: the last warning states the number of omitted warnings.
    for what in flaws.iter().take(UNRESOLVED_MAX) {
        report.warn(at, what.as_str(), help);
    }
    if let Some(more) = flaws.len().checked_sub(UNRESOLVED_MAX).filter(|more| *more > 0) {
        report.warn(at, format!("and {more} more of this kind"), help);
    }
}

/// Returns how strictly requests must name their action, or `None` if the schema is not a description with actions.
fn action_rules(
    documents: &Documents,
    keys: &config::Soap,
    schema: &Spanned<DefinitionAt>,
    answers_with_faults: bool,
    report: &mut Report,
) -> Option<ActionRules> {
    let SoapAction { check, empty } = keys.action.value;
    let strictness = match check {
        ActionCheck::Off => return None,
        ActionCheck::Optional => Strictness::Optional,
        ActionCheck::Required => Strictness::Required,
    };
    if documents.is_schema() || documents.is_comment() {
        let what = format!("`{}` is not a WSDL, so it names no actions", schema.value);
        let help = "name a WSDL in `schema`, or remove `action`";
        if answers_with_faults {
            report.warn(
                keys.action.at,
                format!("{what}, and requests that name one are refused"),
                help,
            )
        } else {
            report.error(keys.action.at, what, help)
        }
    }
    Some(ActionRules { strictness, empty: empty == EmptyAction::Allow })
}

/// Returns the operations by which requests are counted, as indices into the route's list.
fn counted(
    documents: &Documents,
    keys: &config::Soap,
    at: At,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> HashMap<Box<str>, u32> {
    if !keys.validate.value.contains(&MessageSide::Request) {
        return HashMap::new();
    }
    let mut counted = HashMap::new();
    let mut named = operations::named(documents);
    if let Some(more) = named.len().checked_sub(operations::OPERATIONS_MAX).filter(|more| *more > 0)
    {
        let max = operations::OPERATIONS_MAX;
        let what = format!("{more} operations beyond {max} are counted together as unknown");
        report.warn(at, what, "make a route for each part of the service");
        // Harmless: the warning states the number of omitted operations.
        named.truncate(operations::OPERATIONS_MAX);
    }
    for (element, operation) in named {
        let index = place.operation(&operation);
        counted.entry(Box::from(element.as_str())).or_insert(index);
        // A message whose first element has the name of the operation itself is recognized, too.
        counted.entry(operation.into_boxed_str()).or_insert(index);
    }
    counted
}

/// Complains about a faulty definition: with a warning if requests get faults, or else with an error.
pub(super) fn complain(
    wrong: &DefinitionError,
    at: At,
    answers_with_faults: bool,
    report: &mut Report,
) {
    for what in &wrong.complaints {
        if answers_with_faults {
            report.warn(at, what.as_str(), "correct it; until then every message is refused")
        } else {
            report.error(at, what.as_str(), "correct the definition")
        }
    }
}

fn envelope(
    keys: &config::Soap,
    version: Version,
    answers_with_faults: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Envelope {
    let written = match version {
        Version::V11 => SoapVersion::V11,
        Version::V12 => SoapVersion::V12,
    };
    let taken = keys.versions.as_ref().map(|versions| versions.value.contains(&written));
    if taken == Some(false) {
        return Envelope::Missing;
    }
    let schemas = match &keys.envelope {
        config::Envelope::Off => return Envelope::Off,
        config::Envelope::Schemas(schemas) => schemas,
    };
    let (text, name) = match (schemas.get(version.text()), version, taken) {
        (Some(file), _, _) => return own_envelope(file, keys, answers_with_faults, place, report),
        (None, Version::V12, None) => return Envelope::Missing,
        (None, Version::V11, _) => {
            if place.of.errors == config::Errors::Kong {
                (Cow::Borrowed(ENVELOPE_11), "soap 1.1 envelope")
            } else {
                (mediation::soap::envelope_11_lenient(), "lenient soap 1.1 envelope")
            }
        }
        (None, Version::V12, Some(_)) => (Cow::Borrowed(ENVELOPE_12), "soap 1.2 envelope"),
    };
    match &*load::compiled(&Documents::of_text(&text, name), place) {
        Ok(good) => {
            let schema = good.compiled.schemas.first().cloned();
            schema.map_or(Envelope::Missing, Envelope::BuiltIn)
        }
        Err(wrong) => {
            // Not reachable: a test compiles both built-in schemas.
            complain(wrong, At::NOWHERE, false, report);
            Envelope::Missing
        }
    }
}

/// Returns the envelope schema that the configuration names.
fn own_envelope(
    file: &Spanned<DefinitionAt>,
    keys: &config::Soap,
    answers_with_faults: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Envelope {
    if !remote_definition::may_be_fetched(file, keys.fetch.as_ref(), report) {
        return Envelope::Missing;
    }
    let Some(documents) = load::load(file, &keys.imports, ReferenceRules::of(keys), report) else {
        return Envelope::Missing;
    };
    if let (Some(fetch), false) = (&keys.fetch, documents.remote.is_empty()) {
        let definition =
            load::remote(documents, None, fetch, file.at, answers_with_faults, place, report);
        return definition.map_or(Envelope::Missing, Envelope::Remote);
    }
    if documents.is_comment() {
        return Envelope::Off;
    }
    match (&*load::compiled(&documents, place), &keys.fetch) {
        (Ok(good), Some(fetch)) => {
            let first = Some(good.compiled.clone());
            let definition =
                load::remote(documents, first, fetch, file.at, answers_with_faults, place, report);
            definition.map_or(Envelope::Missing, Envelope::Remote)
        }
        (Ok(good), None) => {
            let schema = good.compiled.schemas.first().cloned();
            schema.map_or(Envelope::Missing, Envelope::Own)
        }
        (Err(wrong), _) => {
            complain(wrong, file.at, answers_with_faults, report);
            Envelope::Broken(wrong.failed_of_envelope())
        }
    }
}

/// Converts a file to UTF-8 if its encoding is one that the parser does not support.
pub(super) fn in_utf8(bytes: Vec<u8>) -> Vec<u8> {
    // Harmless: the parser refuses the file and says why.
    mediation::charset::to_utf8(None, &bytes).ok().flatten().unwrap_or(bytes)
}
