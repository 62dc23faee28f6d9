//! Compiles documents to a definition: at once, or as soon as the documents that they refer to by URL are fetched.
//!
//! A failure is remembered, too, so that the same bytes are not compiled again.

use std::sync::Arc;

use ::policies::remote_definition::{DefinitionCompiler, DocumentRequest, FetchedDocuments};
use config::{At, DefinitionFetch, Report};
use mediation::Rejection;
use mediation::libxml_messages::not_starting_as_xml;
use mediation::remote_definition::RemoteDefinition;
use mediation::soap::{CompiledDefinition, NO_SCHEMA, SchemaResult, Schemas};
use wsdl::{Complaint, Outline, RpcMessages, WSDL11, WSDL20};

use super::actions;
use super::documents::XSD;
pub(crate) use super::documents::{
    DefinitionDocuments, Documents, ReferenceRules, XSLT, load, parsed, read,
};
use crate::policies::remote_definition::{self, DefinitionParts};
use crate::policy::RouteScope;

/// The reason why a definition did not compile.
pub(crate) struct DefinitionError {
    /// The complaints, each with its file, line and column.
    pub(crate) complaints: Vec<String>,
    client_reason: ClientReason,
}

/// The text for a client.
enum ClientReason {
    /// The first document is not XML, in the words of libxml2.
    NoXml(String),
    /// The first document is neither a description nor a schema.
    NoSchema,
    /// The first complaint.
    First(Rejection),
}

impl DefinitionError {
    /// Builds the error. In the text for clients, names of files are shortened.
    fn of(complaints: Vec<String>, found: &DefinitionDocuments<'_>) -> DefinitionError {
        let first = complaints.first().map_or("", String::as_str);
        let unusable = if complaints.iter().any(|complaint| is_of_another(complaint)) {
            found.unusable()
        } else {
            None
        };
        let why = unusable.as_deref().unwrap_or(first);
        let client_reason = ClientReason::First(found.documents.failed(why, found.fetched));
        DefinitionError { complaints, client_reason }
    }

    /// Returns the rejection that clients get.
    pub(crate) fn failed(&self) -> Rejection {
        match &self.client_reason {
            ClientReason::NoXml(text) => {
                Rejection::server(format!("Invalid WSDL/XSD schema. {text}"))
            }
            ClientReason::NoSchema => Rejection::client(NO_SCHEMA),
            ClientReason::First(failed) => failed.clone(),
        }
    }

    /// Returns the rejection for a failure of an envelope's schema.
    pub(crate) fn failed_of_envelope(&self) -> Rejection {
        match &self.client_reason {
            ClientReason::NoXml(text) => Rejection::server(format!(
                "Invalid XSD schema. {text}. Error code: 3067, Line: 0, Message: Failed to parse the \
                 XML resource 'in_memory_buffer'."
            )),
            ClientReason::NoSchema | ClientReason::First(_) => self.failed(),
        }
    }
}

/// A definition that compiled and can serve.
pub(crate) struct ServingDefinition {
    pub(crate) compiled: Arc<CompiledDefinition>,
    pub(crate) flaws: Flaws,
}

/// The flaws of a definition that serves.
#[derive(Default)]
pub(crate) struct Flaws {
    /// The error, if some schemas do not compile. Where requests get faults for such schemas, the schemas before them still serve.
    pub(crate) broken: Option<DefinitionError>,
    /// Unresolved references that are not needed, each with its file, line and column.
    pub(crate) unresolved: Vec<String>,
    /// Whether messages in the style rpc/literal are refused.
    pub(crate) refuses_rpc: bool,
    /// Complaints about rules that libxml2 does not check.
    pub(crate) noted: Vec<String>,
}

/// Returns true if a complaint may be caused by a referenced document that is missing or of the wrong kind.
fn is_of_another(complaint: &str) -> bool {
    const CODES: [&str; 7] = [
        ": src-resolve",
        ": src-include",
        ": src-import",
        ": src-redefine",
        ": src-not-a-schema",
        ": s4s-not-xml",
        ": wsdl-",
    ];
    CODES.iter().any(|code| complaint.contains(code))
}

/// A definition, or the reason why there is none.
pub(crate) type DefinitionResult = Arc<Result<ServingDefinition, DefinitionError>>;

/// Compiles documents, or takes the result over from the previous plan.
pub(crate) fn compiled(documents: &Documents, place: &mut RouteScope<'_, '_>) -> DefinitionResult {
    let metrics = place.builder.telemetry.definition(&documents.location);
    place.builder.reuse_or_build(&documents.key(), || {
        let made = compile(documents, &FetchedDocuments::new());
        metrics.compiled(made.as_ref().is_ok_and(|(_, flaws)| flaws.broken.is_none()));
        Arc::new(
            made.map(|(compiled, flaws)| ServingDefinition { compiled: Arc::new(compiled), flaws }),
        )
    })
}

/// Returns the remote definition that messages are validated against, for a definition that is partly fetched or renewed from time to time.
/// `first` is the part that can be compiled at once.
pub(crate) fn remote(
    documents: Documents,
    first: Option<Arc<CompiledDefinition>>,
    fetch: &DefinitionFetch,
    at: At,
    answers_with_faults: bool,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<Arc<RemoteDefinition<CompiledDefinition>>> {
    let definition = Arc::new(SoapDefinition { documents, answers_with_faults });
    let documents = &definition.documents;
    let parts = DefinitionParts {
        location: &documents.location,
        key: format!("{} {answers_with_faults}", documents.key()),
        remote: &documents.remote,
        compiler: definition.clone(),
        first,
        answers_with_faults,
    };
    parts.build(fetch, at, place, report)
}

/// Documents with everything that they refer to.
struct SoapDefinition {
    documents: Documents,
    /// Whether requests get a fault while the definition is faulty.
    answers_with_faults: bool,
}

impl DefinitionCompiler<CompiledDefinition> for SoapDefinition {
    fn wanted(&self, fetched: &mut FetchedDocuments) -> Result<Vec<DocumentRequest>, String> {
        remote_definition::wanted(self.documents.missing(fetched))
    }

    fn compile(&self, fetched: &FetchedDocuments) -> Result<CompiledDefinition, Rejection> {
        let made = compile(&self.documents, fetched).map_err(|wrong| wrong.failed());
        let (compiled, flaws) = made?;
        match flaws.broken {
            Some(wrong) if !self.answers_with_faults => Err(wrong.failed()),
            Some(_) | None => Ok(compiled),
        }
    }
}

fn compile(
    documents: &Documents,
    fetched: &FetchedDocuments,
) -> Result<(CompiledDefinition, Flaws), DefinitionError> {
    let location = documents.location.as_str();
    let found = DefinitionDocuments { documents, fetched };
    let wrong = |complaints: Vec<String>| DefinitionError::of(complaints, &found);
    let first = found.first();
    let document = parsed(first).map_err(|error| {
        let wrong = wrong(vec![format!("{location}:{error}")]);
        match not_starting_as_xml(&error, first) {
            Some(text) => DefinitionError { client_reason: ClientReason::NoXml(text), ..wrong },
            None => wrong,
        }
    })?;
    let root = document.root_element().map(|root| document.name(root));
    let root = root.map(|name| (name.namespace.uri, name.local));
    let broken = |complaints: Vec<Complaint>| wrong(texts(&complaints));
    let as_libxml = documents.rpc == RpcMessages::Undeclared;
    let xsd_limits = xsd::Limits { as_libxml, ..xsd::Limits::default() };
    match root {
        Some((WSDL11 | WSDL20, "definitions" | "description")) => {
            let limits = wsdl::Limits { xsd: xsd_limits, ..wsdl::Limits::default() };
            let outline = wsdl::outline(location, &found, &limits, documents.rpc);
            // Without schemas, every message would be invalid anyway. This rejection states the cause.
            let typed = outline.as_ref().map_or_else(|_| found.types(), |read| read.has_types);
            if !typed {
                let none =
                    || "Invalid WSDL/XSD schema. Unable to find the '< wsdl:types >'".to_owned();
                return Err(wrong(vec![found.unusable().unwrap_or_else(none)]));
            }
            described(&outline.map_err(broken)?, &found)
        }
        Some((XSD, "schema")) => {
            let mut set = xsd::SchemaSet::new(&found, xsd_limits);
            set.add_bytes(first, location);
            let schema = set.compile().map_err(broken)?;
            let flaws = Flaws { noted: texts(schema.noted()), ..Flaws::default() };
            let schemas = Schemas::one(Arc::new(schema));
            Ok((CompiledDefinition { schemas, actions: None }, flaws))
        }
        Some((uri, local)) => {
            let what = format!(
                "{location}: the root is {{{uri}}}{local}, which is neither a WSDL's nor a schema's"
            );
            Err(DefinitionError { complaints: vec![what], client_reason: ClientReason::NoSchema })
        }
        None => Err(wrong(vec![format!("{location}: there is no element")])),
    }
}

/// Compiles the schemas and actions of a description. Fails if all schemas are faulty.
fn described(
    outline: &Outline,
    found: &DefinitionDocuments<'_>,
) -> Result<(CompiledDefinition, Flaws), DefinitionError> {
    let mut complaints: Vec<String> = Vec::new();
    let tried = outline.schemas.iter().map(|made| {
        made.clone().map_err(|of_schema| {
            let wrong = DefinitionError::of(texts(&of_schema), found);
            let failed = wrong.failed();
            // A faulty document that several schemas import is reported once.
            for complaint in wrong.complaints {
                if !complaints.contains(&complaint) {
                    complaints.push(complaint);
                }
            }
            failed
        })
    });
    let tried: Vec<SchemaResult> = tried.collect();
    let mut noted = Vec::new();
    // Harmless: failures are reported separately.
    for text in tried.iter().flatten().flat_map(|schema| texts(schema.noted())) {
        if !noted.contains(&text) {
            noted.push(text);
        }
    }
    let serves = tried.is_empty() || tried.iter().any(Result::is_ok);
    let broken = (!complaints.is_empty()).then(|| DefinitionError::of(complaints, found));
    let broken = match (serves, broken) {
        (false, Some(wrong)) => return Err(wrong),
        (_, broken) => broken,
    };
    let documents = found.all_of(&outline.documents);
    let actions = match outline.version {
        wsdl::Version::V11 => actions::of_11(outline, &documents),
        wsdl::Version::V20 => actions::of_20(&documents),
    };
    let compiled = CompiledDefinition { schemas: Schemas::new(tried), actions: Some(actions) };
    let (unresolved, refuses_rpc) = (texts(&outline.unresolved), outline.refuses_rpc);
    Ok((compiled, Flaws { broken, unresolved, refuses_rpc, noted }))
}

fn texts(complaints: &[Complaint]) -> Vec<String> {
    complaints.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_envelopes_compile() {
        let lenient = mediation::soap::envelope_11_lenient();
        assert_ne!(lenient, mediation::soap::ENVELOPE_11);
        for text in [mediation::soap::ENVELOPE_11, &lenient, mediation::soap::ENVELOPE_12] {
            let compiled = compile(&Documents::of_text(text, "envelope"), &FetchedDocuments::new());
            let complaints = compiled.err().map(|wrong| wrong.complaints);
            assert_eq!(complaints, None);
        }
    }
}
