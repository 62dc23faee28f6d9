//! Documents to a definition: compiled at once, or as soon as what they name by URL was fetched.
//!
//! What does not compile is remembered as well, so that the same bytes are not tried again.

use std::sync::Arc;

use ::policies::soap::{Compiled, Failed, no_xml};
use ::policies::supply::{Fetched, Recipe, Supply, Wanted};
use config::{At, DefinitionFetch, Report};
use wsdl::{WSDL11, WSDL20};

use super::actions;
pub(crate) use super::documents::{Documents, Following, Found, XSLT, load, read};
use super::documents::{XSD, parsed};
use crate::policies::supply::{self, Supplied};
use crate::policy::Place;

/// Why there is no definition.
pub(crate) struct Wrong {
    /// Each with its file, line and column.
    pub(crate) complaints: Vec<String>,
    told: Told,
}

/// What a client is told of it.
enum Told {
    /// The first document is no XML, in the words of libxml2.
    NoXml(String),
    /// It is neither a description nor a schema.
    NoSchema,
    /// The first complaint.
    First(Failed),
}

impl Wrong {
    /// With files as clients may read them.
    fn of(complaints: Vec<String>, found: &Found<'_>) -> Wrong {
        let first = complaints.first().map_or("", String::as_str);
        let told = Told::First(found.documents.failed(first, found.fetched));
        Wrong { complaints, told }
    }

    /// What a client is told.
    pub(crate) fn failed(&self) -> Failed {
        match &self.told {
            Told::NoXml(text) => Failed::server(format!("Invalid WSDL/XSD schema. {text}")),
            Told::NoSchema => {
                Failed::client("Unable to find a suitable Schema to validate the SOAP/XML")
            }
            Told::First(failed) => failed.clone(),
        }
    }

    /// The same of an envelope's schema.
    pub(crate) fn failed_of_envelope(&self) -> Failed {
        match &self.told {
            Told::NoXml(text) => Failed::server(format!(
                "Invalid XSD schema. {text}. Error code: 3067, Line: 0, Message: Failed to parse the \
                 XML resource 'in_memory_buffer'."
            )),
            Told::NoSchema | Told::First(_) => self.failed(),
        }
    }
}

/// A definition, or why there is none.
pub(crate) type Made = Arc<Result<Arc<Compiled>, Wrong>>;

/// Documents compiled; taken over from the plan before where that has it.
pub(crate) fn compiled(documents: &Documents, place: &mut Place<'_, '_>) -> Made {
    let metrics = place.making.telemetry.definition(&documents.location);
    place.making.kept_or(&documents.key(), || {
        let made = compile(documents, &Fetched::new());
        metrics.compiled(made.is_ok());
        Arc::new(made.map(Arc::new))
    })
}

/// What holds messages to these documents from now on, where some of it is fetched or it is made anew from time to time.
/// `first` is what can be compiled at once.
pub(crate) fn supplied(
    documents: Documents,
    first: Option<Arc<Compiled>>,
    fetch: &DefinitionFetch,
    (at, faulty): (At, bool),
    place: &mut Place<'_, '_>,
    report: &mut Report,
) -> Option<Arc<Supply<Compiled>>> {
    let documents = Arc::new(documents);
    let supplied = Supplied {
        location: &documents.location,
        key: documents.key(),
        remote: &documents.remote,
        recipe: documents.clone(),
        first,
        faulty,
    };
    supplied.by(fetch, at, place, report)
}

impl Recipe<Compiled> for Documents {
    fn wanted(&self, fetched: &mut Fetched) -> Result<Vec<Wanted>, String> {
        supply::wanted(self.missing(fetched))
    }

    fn compile(&self, fetched: &Fetched) -> Result<Compiled, Failed> {
        compile(self, fetched).map_err(|wrong| wrong.failed())
    }
}

fn compile(documents: &Documents, fetched: &Fetched) -> Result<Compiled, Wrong> {
    let location = documents.location.as_str();
    let found = Found { documents, fetched };
    let wrong = |complaints: Vec<String>| Wrong::of(complaints, &found);
    let first = found.first();
    let document = parsed(first).map_err(|error| {
        let wrong = wrong(vec![format!("{location}:{error}")]);
        match no_xml(&error, first) {
            Some(text) => Wrong { told: Told::NoXml(text), ..wrong },
            None => wrong,
        }
    })?;
    let root = document.root_element().map(|root| document.name(root));
    let root = root.map(|name| (name.namespace.uri, name.local));
    let told = |complaints: Vec<xsd::Complaint>| {
        wrong(complaints.iter().map(ToString::to_string).collect())
    };
    match root {
        Some((WSDL11 | WSDL20, "definitions" | "description")) => {
            let description = wsdl::read(location, &found, &wsdl::Limits::default());
            // Without schemas every message breaks some rule as well; this is the one that tells why.
            let typed = description.as_ref().map_or_else(|_| found.types(), |read| read.has_types);
            if !typed {
                let text = "Invalid WSDL/XSD schema. Unable to find the '< wsdl:types >'";
                return Err(wrong(vec![text.to_owned()]));
            }
            let description = description.map_err(told)?;
            let actions = match description.version {
                wsdl::Version::V11 => actions::of_11(&description),
                wsdl::Version::V20 => actions::of_20(&found.all_of(&description)),
            };
            Ok(Compiled { schema: description.schema, actions: Some(actions) })
        }
        Some((XSD, "schema")) => {
            let mut set = xsd::SchemaSet::new(&found, xsd::Limits::default());
            set.add_bytes(first, location);
            let schema = set.compile().map_err(told)?;
            Ok(Compiled { schema: Arc::new(schema), actions: None })
        }
        Some((uri, local)) => {
            let what = format!(
                "{location}: the root is {{{uri}}}{local}, which is neither a WSDL's nor a schema's"
            );
            Err(Wrong { complaints: vec![what], told: Told::NoSchema })
        }
        None => Err(wrong(vec![format!("{location}: there is no element")])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_envelopes_compile() {
        let lenient = ::policies::soap::envelope_11_lenient();
        assert_ne!(lenient, ::policies::soap::ENVELOPE_11);
        for text in [::policies::soap::ENVELOPE_11, &lenient, ::policies::soap::ENVELOPE_12] {
            let compiled = compile(&Documents::of_text(text, "envelope"), &Fetched::new());
            let complaints = compiled.err().map(|wrong| wrong.complaints);
            assert_eq!(complaints, None);
        }
    }
}
