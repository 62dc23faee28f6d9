//! Changes to documents of flows; see [`mediation::xml_edit`].

use expression::{NodeGroup, Nodes, Value};
use fault::{Fault, Kind};
use xml::Document;

pub(crate) use mediation::xml_edit::{Edits, has_default_namespace};

use crate::content::Content;
use crate::infoset::unwrapped;
use crate::json_xml::xml_as_json;
use crate::soap::Envelope;
use crate::state::{Run, State};
use crate::view::View;

/// Returns the markup for a place where a default namespace is in scope: elements without a namespace reset it.
pub(crate) fn undefaulted(markup: &str, run: &Run<'_>) -> Result<String, Fault> {
    let failed = |what: String| Fault::new(Kind::FlowFailed, what);
    let document = Document::parse(format!("<a>{markup}</a>").as_bytes(), &xml::Options::default())
        .map_err(|error| failed(error.to_string()))?;
    let ids = document.root_element().map(|root| document.children(root).collect());
    // Harmless: a document has a root.
    let group = NodeGroup { document: document.into(), ids: ids.unwrap_or_default() };
    let nodes = Value::Nodes(Nodes::new(vec![group]));
    let mut out = String::with_capacity(markup.len());
    nodes.write_xml(true, &mut out, &mut run.budget()).map_err(|kind| failed(kind.to_string()))?;
    Ok(out)
}

/// Replaces the message by the content of an envelope that was made around it and then changed.
pub(crate) fn put_back(
    step: &str,
    text: &str,
    content: &Content,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let failed = |what: String| Fault::new(Kind::FlowFailed, format!("{step}: {what}"));
    let document = Document::parse(text.as_bytes(), &xml::Options::default());
    let document = document.map_err(|error| failed(error.to_string()))?;
    let envelope = Envelope::of(&document);
    let envelope = envelope.ok_or_else(|| failed("the message lost its Body".to_owned()))?;
    let elements = document.children(envelope.body);
    let elements = elements.filter(|node| document.kind(*node) == xml::Kind::Element).count();
    if elements > 1 {
        return Err(failed("a message that is not SOAP must have one root element".to_owned()));
    }
    let text = match content.known()? {
        View::Json(_) => xml_as_json(&document, envelope.body, content.maker)?,
        View::Empty | View::Xml { .. } => unwrapped(&document, &envelope),
        View::Text(_) | View::Bytes => {
            return Err(failed("a text cannot contain elements".to_owned()));
        }
    };
    run.bound(text.len())?;
    state.message.rewrite(text)
}
