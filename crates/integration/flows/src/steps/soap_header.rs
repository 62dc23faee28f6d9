//! `soap_header`: changes elements in the header of a SOAP message.

use expression::Template;
use fault::{Fault, Kind};
use xml::{Document, NodeId};

use crate::edit::{Edits, has_default_namespace, undefaulted};
use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, ended};
use crate::view::View;

/// Changes to the header of a SOAP message, `remove` first.
pub struct SoapHeader {
    /// Namespaces and local names.
    pub remove: Vec<(Box<str>, Box<str>)>,
    /// Elements, each of which replaces those of the same name.
    pub set: Vec<Template>,
}

impl Action for SoapHeader {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let slots = self.set.iter().flat_map(Template::slots).collect();
        ActionNeeds { slots, content: true, ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        ended(edit(self, run, state))
    }
}

/// Changes the SOAP Header. A message that is not SOAP is its sender's fault.
fn edit(edit: &SoapHeader, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let Some(content) = state.message.content().cloned() else { return Ok(()) };
    let View::Xml { document, envelope: Some(envelope) } = content.known()? else {
        return Err(Fault::with_detail(
            content.maker.fault_kind(),
            "soap_header: the message is not a SOAP message",
            "A SOAP message is expected.",
        ));
    };
    let mut added = String::new();
    let mut gone = edit.remove.clone();
    for template in &edit.set {
        let markup = run.fill(state, template)?;
        let around = envelope.header.unwrap_or(envelope.root);
        let markup = if has_default_namespace(document, around) {
            undefaulted(&markup, run)?
        } else {
            markup
        };
        gone.push(name_of(&markup)?);
        added.push_str(&markup);
    }
    let mut edits = Edits::default();
    for block in envelope.header.iter().flat_map(|header| document.children(*header)) {
        if is_one_of(document, block, &gone) {
            edits.at(block).instead = Some(String::new());
        }
    }
    match envelope.header {
        Some(header) => edits.at(header).last.push_str(&added),
        None if added.is_empty() => {}
        None => {
            let prefix = document.name(envelope.root).prefix;
            let colon = if prefix.is_empty() { "" } else { ":" };
            let header = format!("<{prefix}{colon}Header>{added}</{prefix}{colon}Header>");
            edits.at(envelope.root).first.push_str(&header);
        }
    }
    let text = edits.write(document);
    run.bound(text.len())?;
    state.message.rewrite(text)
}

fn is_one_of(document: &Document, node: NodeId, names: &[(Box<str>, Box<str>)]) -> bool {
    let name = document.name(node);
    names.iter().any(|(uri, local)| **uri == *name.namespace.uri && **local == *name.local)
}

/// Returns the namespace and the local name of an element, from its markup.
fn name_of(markup: &str) -> Result<(Box<str>, Box<str>), Fault> {
    let document = Document::parse(markup.as_bytes(), &xml::Options::default())
        .map_err(|error| Fault::new(Kind::Template, format!("soap_header: {error}")))?;
    let root = document.root_element().map(|root| document.name(root));
    let root = root.ok_or_else(|| Fault::new(Kind::Template, "soap_header: no element"))?;
    Ok((root.namespace.uri.into(), root.local.into()))
}
