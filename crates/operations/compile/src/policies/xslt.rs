//! Compiles `xslt`: each stylesheet is compiled once for its engine, and shared by all routes that name it.

mod error_text;
mod saxon;

use std::path::Path;
use std::sync::Arc;

use ::policies::remote_definition::{DefinitionCompiler, DocumentRequest, FetchedDocuments};
use ::policies::xslt::{self as transforms, TransformedSide, XsltSettings};
use ::saxon::Engine;
use config::{Map, MessageSide, Report, XsltEngine, XsltOutput};
use mediation::Rejection;
use mediation::xslt::{CompiledStylesheet, FeedCaches, StylesheetSource, Transformation};
use xslt::{Argument, Parameter, Resolver, Resource, Style, Stylesheet};

use super::remote_definition::{self, DefinitionParts};
use super::soap::load::{self, DefinitionDocuments, Documents, ReferenceRules, XSLT};
use super::{Facts, PolicyKind, PolicyPlace, Xml, soap};
use crate::listeners::bytes;
use crate::policies;
use crate::policy::RouteScope;

/// The newest XSLT version that the gateway's own engine runs. Version 1.1 is 1.0 with features that were later withdrawn.
const NATIVE_VERSION_MAX: f64 = 1.1;

/// Builds the policy. Complaints about the stylesheet name file, line and column.
impl PolicyKind for config::Xslt {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let on = match self.side.value {
            MessageSide::Request => TransformedSide::Request,
            MessageSide::Response => TransformedSide::Response,
        };
        let codings = soap::codings(self.body_bytes_max, place);
        let mut transformation = transformation(self, place, report);
        transformation.transcribe = is_read(self.side.value, place);
        let settings = XsltSettings {
            transformation,
            before: is_before(self.side.value, place),
            verbose: self.verbose,
            errors_pass: soap::errors_pass(place),
            codings,
        };
        if on == TransformedSide::Response && soap::is_mock(place) {
            plan::Policy { name: "xslt", request: None, response: None }
        } else {
            transforms::policy(on, settings)
        }
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts {
            xml: Some(Xml {
                verbose: self.verbose,
                validates: &[],
                reads_requests: self.side.value == MessageSide::Request,
                reads_replies: self.side.value == MessageSide::Response,
                makes_faults: false,
            }),
            ..Facts::NONE
        }
    }
}

/// Returns the transformation of a policy or of a step of a flow. If the stylesheet cannot be used, complains, and returns a transformation
/// that always fails.
pub(crate) fn transformation(
    keys: &config::Xslt,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Transformation {
    let parameters = keys.parameters.iter().map(|(name, value)| Parameter {
        uri: "".into(),
        local: name.value.as_str().into(),
        value: Argument::Text(value.as_str().into()),
    });
    Transformation {
        sheet: stylesheet_source(keys, place, report)
            .unwrap_or(StylesheetSource::Fixed(Err(Rejection::server("")))),
        parameters: parameters.collect(),
        style: style(keys, place),
        strip_empty_namespaces: keys.strip_empty_namespaces,
        transcribe: false,
        bytes_max: bytes(keys.body_bytes_max),
        timeout: place.config.saxon.timeout.0,
        known: FeedCaches::default(),
    }
}

/// Returns true if the gateway's own engine runs the transformation.
pub(crate) fn is_native(transformation: &Transformation) -> bool {
    match &transformation.sheet {
        StylesheetSource::Fixed(Ok(sheet)) => matches!(**sheet, CompiledStylesheet::Native(_)),
        StylesheetSource::Fixed(Err(_)) => true,
        StylesheetSource::Remote(_) => false,
    }
}

/// Returns the style in which the gateway's own engine writes XML.
fn style(keys: &config::Xslt, place: &RouteScope<'_, '_>) -> Style {
    match keys.output.as_ref().map(|output| output.value) {
        Some(XsltOutput::Canonical) => Style::Canonical,
        None if place.of.errors == config::Errors::Kong => Style::Canonical,
        Some(XsltOutput::Plain) | None => Style::Plain,
    }
}

/// Returns true if this side is validated after the transformation: by a policy below on requests, or above on replies.
fn is_before(on: MessageSide, place: &RouteScope<'_, '_>) -> bool {
    let validates = |row: &Facts<'_>| row.xml.is_some_and(|xml| xml.validates.contains(&on));
    match on {
        MessageSide::Request => policies::of(place.of).iter().skip(place.at).any(validates),
        MessageSide::Response => policies::above(place).iter().any(validates),
    }
}

/// Returns true if a later policy reads the result: one below on requests, or above on replies.
fn is_read(on: MessageSide, place: &RouteScope<'_, '_>) -> bool {
    match on {
        MessageSide::Request => {
            let rows = policies::of(place.of);
            let mut below = rows.iter().skip(place.at + 1).filter_map(|row| row.xml);
            below.any(|xml| xml.reads_requests)
        }
        MessageSide::Response => {
            let mut above = policies::above(place).into_iter().filter_map(|row| row.xml);
            above.any(|xml| xml.reads_replies)
        }
    }
}

/// Returns the stylesheet, compiled for its engine. Complains about its faults.
fn stylesheet_source(
    keys: &config::Xslt,
    place: &mut RouteScope<'_, '_>,
    report: &mut Report,
) -> Option<StylesheetSource> {
    let stylesheet = &keys.stylesheet;
    if !remote_definition::may_be_fetched(stylesheet, keys.fetch.as_ref(), report) {
        return None;
    }
    let documents = load::load(stylesheet, &Map::default(), ReferenceRules::NO_OPTIONAL, report)?;
    let first = (DefinitionDocuments { documents: &documents, fetched: &FetchedDocuments::new() })
        .first()
        .to_vec();
    let by_saxon = runs_on_saxon(&keys.engine, &first);
    let engine = if by_saxon { saxon::engine(place, report).map(Some) } else { Ok(None) };
    if let (true, Some(output)) = (by_saxon, &keys.output) {
        let what = "`output` applies only to the native engine, but this stylesheet uses Saxon";
        report.error(output.at, what, "remove `output`");
    }
    let definition = match engine {
        Ok(None) => StylesheetDefinition { documents, saxon: None },
        Ok(Some(engine)) => {
            let parameters = keys.parameters.iter();
            let parameters = parameters.map(|(name, value)| (name.value.clone(), value.clone()));
            let modules = saxon::modules(stylesheet, &first, report);
            let saxon = BySaxon { engine, parameters: parameters.collect(), modules };
            StylesheetDefinition { documents, saxon: Some(saxon) }
        }
        Err(unavailable) => {
            let what = format!("it needs Saxon: {}", unavailable.what);
            complain(&what, unavailable.instead, keys, place, report);
            let text = error_text::UNAVAILABLE;
            return Some(StylesheetSource::Fixed(Err(Rejection::hiding(text, text, what))));
        }
    };
    let definition = Arc::new(definition);
    let remote = definition.remote();
    let first = match &keys.fetch {
        Some(_) if !remote.is_empty() => None,
        Some(_) | None => match definition.at_once(place) {
            Ok(sheet) => Some(warn_of_missing(sheet, stylesheet.at, report)),
            Err(wrong) => {
                let help = if remote.is_empty() {
                    "correct the stylesheet"
                } else {
                    "name files in the stylesheet, or add `fetch: { ttl: 1h }`"
                };
                complain(&wrong.complaints, help, keys, place, report);
                let failed = wrong.failed(&definition.documents, &FetchedDocuments::new());
                return Some(StylesheetSource::Fixed(Err(failed)));
            }
        },
    };
    let Some(fetch) = &keys.fetch else {
        return first.map(|sheet| StylesheetSource::Fixed(Ok(sheet)));
    };
    let parts = DefinitionParts {
        location: &definition.documents.location,
        key: definition.key(),
        remote,
        compiler: definition.clone(),
        first,
        answers_with_faults: soap::answers_with_faults(keys.bad_definitions, place),
    };
    parts.build(fetch, stylesheet.at, place, report).map(StylesheetSource::Remote)
}

/// Returns true if Saxon runs a stylesheet: by the configuration, or because its version is too new for the gateway's own engine.
fn runs_on_saxon(engine: &XsltEngine, stylesheet: &[u8]) -> bool {
    match engine {
        XsltEngine::Native => false,
        XsltEngine::Saxon => true,
        XsltEngine::Auto => {
            version(stylesheet).is_some_and(|(_, version)| version > NATIVE_VERSION_MAX)
        }
    }
}

/// Compiles a stylesheet from its modules.
struct StylesheetDefinition {
    documents: Documents,
    /// The form for Saxon, or `None` if the gateway's own engine runs it.
    saxon: Option<BySaxon>,
}

/// The reason why a stylesheet did not compile.
#[derive(Clone)]
struct StylesheetError {
    /// The complaints, one per line, each with its file, line and column.
    complaints: String,
    /// The text for clients.
    client_text: String,
}

impl StylesheetError {
    /// Returns the rejection. It has three texts: the exact text for clients that compare it with that of Kong, a text without
    /// hosts for all other clients, and the complaints with their places for the log.
    fn failed(self, documents: &Documents, fetched: &FetchedDocuments) -> Rejection {
        let client = documents.without_hosts(&self.client_text, fetched);
        Rejection::hiding(self.client_text, client, self.complaints)
    }
}

/// The parts of a stylesheet that Saxon runs.
struct BySaxon {
    engine: Arc<Engine>,
    parameters: Vec<(String, String)>,
    /// The stylesheet and its modules, if it is a file. Empty if it is at a URL.
    modules: Vec<saxon::Module>,
}

impl StylesheetDefinition {
    /// Returns the modules that must be fetched. For a stylesheet in a file, Saxon gets no fetched modules.
    fn remote(&self) -> &[String] {
        match &self.saxon {
            Some(saxon) if !saxon.modules.is_empty() => &[],
            Some(_) | None => &self.documents.remote,
        }
    }

    fn key(&self) -> String {
        let parameters = self.saxon.as_ref().map(|saxon| &saxon.parameters);
        format!("stylesheet {} {parameters:?}", self.documents.key())
    }

    /// Compiles the stylesheet, or takes it over from the previous plan if the bytes are the same.
    fn at_once(
        &self,
        place: &mut RouteScope<'_, '_>,
    ) -> Result<Arc<CompiledStylesheet>, StylesheetError> {
        let metrics = place.builder.telemetry.definition(&self.documents.location);
        let kept = place.builder.reuse_or_build(&self.key(), || {
            let made = self.made(&FetchedDocuments::new());
            metrics.compiled(made.is_ok());
            Arc::new(made.map(Arc::new))
        });
        (*kept).clone()
    }

    fn made(&self, fetched: &FetchedDocuments) -> Result<CompiledStylesheet, StylesheetError> {
        let found = DefinitionDocuments { documents: &self.documents, fetched };
        let location = &self.documents.location;
        if let Some(saxon) = &self.saxon {
            return saxon::compiled(saxon, &found).map(CompiledStylesheet::Saxon);
        }
        let bytes = found.first();
        if let Some(complaints) = refused_version(bytes, location) {
            return Err(StylesheetError { complaints, client_text: error_text::later() });
        }
        let sheet = Stylesheet::compile(bytes, location, &found);
        sheet.map(|sheet| CompiledStylesheet::Native(Box::new(sheet))).map_err(|error| {
            StylesheetError {
                complaints: error.to_string(),
                client_text: error_text::broken(&error, &found),
            }
        })
    }
}

impl DefinitionCompiler<CompiledStylesheet> for StylesheetDefinition {
    fn wanted(&self, fetched: &mut FetchedDocuments) -> Result<Vec<DocumentRequest>, String> {
        if self.remote().is_empty() {
            Ok(Vec::new())
        } else {
            remote_definition::wanted(self.documents.missing(fetched))
        }
    }

    fn compile(&self, fetched: &FetchedDocuments) -> Result<CompiledStylesheet, Rejection> {
        self.made(fetched).map_err(|wrong| wrong.failed(&self.documents, fetched))
    }
}

/// Warns of references to missing templates and variables. As with libxslt, messages that never reach them are still transformed.
fn warn_of_missing(
    sheet: Arc<CompiledStylesheet>,
    at: config::At,
    report: &mut Report,
) -> Arc<CompiledStylesheet> {
    if let CompiledStylesheet::Native(native) = &*sheet {
        for missing in native.missing() {
            let help = "correct the stylesheet: a message that reaches this place is answered with a fault";
            report.warn(at, missing.to_string(), help);
        }
    }
    sheet
}

/// Reports the complaints, one for each line.
fn complain(
    what: &str,
    help: &'static str,
    keys: &config::Xslt,
    place: &RouteScope<'_, '_>,
    report: &mut Report,
) {
    let at = keys.stylesheet.at;
    for line in what.lines() {
        if soap::answers_with_faults(keys.bad_definitions, place) {
            report.warn(at, line, format!("{help}; until then every message is refused"))
        } else {
            report.error(at, line, help)
        }
    }
}

/// Returns a complaint if the stylesheet declares a version that is not supported.
fn refused_version(bytes: &[u8], name: &str) -> Option<String> {
    let (place, version) = version(bytes).filter(|(_, version)| *version > NATIVE_VERSION_MAX)?;
    let shown = if version.fract() == 0.0 { format!("{version:.1}") } else { version.to_string() };
    Some(format!(
        "{name}:{place}: the stylesheet uses XSLT {shown}, but only 1.1 features are supported"
    ))
}

/// Returns the version that a stylesheet declares, with its position.
fn version(bytes: &[u8]) -> Option<(xml::Position, f64)> {
    let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
    // Harmless: the compiler reports what it cannot read.
    let document = xml::Document::parse(bytes, &options).ok()?;
    let root = document.root_element()?;
    let uri = if document.name(root).namespace.uri == XSLT { "" } else { XSLT };
    // Harmless: the compiler reports an invalid version.
    let version = document.attribute(root, uri, "version")?.trim().parse().ok()?;
    Some((document.position(root), version))
}

/// Resolves modules to files next to the stylesheet, and to fetched documents.
impl Resolver for DefinitionDocuments<'_> {
    fn resolve(&self, href: &str, base: &str) -> Result<Resource, String> {
        let uri = xsd::join(base, href);
        let known = self.documents.all.get(&uri).or_else(|| self.fetched.get(&uri));
        match known {
            Some(bytes) => Ok(Resource { uri, bytes: bytes.clone() }),
            None if uri.contains("://") => Err("it was not fetched".to_owned()),
            // The module was not found before; reading it again returns the error to report.
            None => load::read(Path::new(&uri)).map(|bytes| Resource { uri, bytes }),
        }
    }
}
