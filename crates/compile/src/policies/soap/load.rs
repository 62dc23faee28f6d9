//! Documents to a definition: compiled at once, or as soon as what they name by URL was fetched.
//!
//! What does not compile is remembered as well, so that the same bytes are not tried again.

use std::sync::Arc;

use ::policies::soap::{Compiled, Failed};
use ::policies::supply::{Fetched, Recipe, Supply, Wanted};
use config::{At, DefinitionFetch, Report};
use wsdl::{WSDL11, WSDL20};
use xml::Document;

use super::actions;
use super::documents::XSD;
pub(crate) use super::documents::{Documents, Following, Found, XSLT, load, read};
use crate::policies::supply::{self, Supplied};
use crate::policy::Place;

/// Why there is no definition.
pub(crate) struct Wrong {
    /// Each with its file, line and column.
    pub(crate) complaints: Vec<String>,
    /// The document is neither a description nor a schema.
    no_schema: bool,
}

impl Wrong {
    /// What a client is told.
    pub(crate) fn failed(&self) -> Failed {
        match self.no_schema {
            true => Failed::client("Unable to find a suitable Schema to validate the SOAP/XML"),
            false => Failed::server(self.complaints.first().map_or("", String::as_str)),
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
    let wrong = |complaints: Vec<String>| Wrong { complaints, no_schema: false };
    let found = Found { documents, fetched };
    let first = found.first();
    let document = Document::parse(first, &xml::Options::default())
        .map_err(|error| wrong(vec![format!("{location}:{error}")]))?;
    let root = document.root_element().map(|root| document.name(root));
    let root = root.map(|name| (name.namespace.uri, name.local));
    let told = |complaints: Vec<xsd::Complaint>| {
        wrong(complaints.iter().map(ToString::to_string).collect())
    };
    match root {
        Some((WSDL11 | WSDL20, "definitions" | "description")) => {
            let description = wsdl::read(location, &found, &wsdl::Limits::default());
            let description = description.map_err(told)?;
            if !description.has_types {
                let text = "Invalid WSDL/XSD schema. Unable to find the '< wsdl:types >'";
                return Err(wrong(vec![text.to_owned()]));
            }
            let actions = match description.version {
                wsdl::Version::V11 => actions::of_11(&description),
                wsdl::Version::V20 => actions::of_20(&document),
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
            Err(Wrong { complaints: vec![what], no_schema: true })
        }
        None => Err(wrong(vec![format!("{location}: there is no element")])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_envelopes_compile() {
        for text in [::policies::soap::ENVELOPE_11, ::policies::soap::ENVELOPE_12] {
            let compiled = compile(&Documents::of_text(text, "envelope"), &Fetched::new());
            let complaints = compiled.err().map(|wrong| wrong.complaints);
            assert_eq!(complaints, None);
        }
    }
}
