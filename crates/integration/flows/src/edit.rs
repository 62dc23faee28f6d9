//! Changes to documents of flows; see [`mediation::xml_edit`].

use expression::{NodeGroup, Nodes, Value};
use fault::Fault;
use xml::Document;

pub(crate) use mediation::xml_edit::{Edits, has_default_namespace};

use crate::state::Run;

/// Returns the markup for a place where a default namespace is in scope: elements without a namespace reset it.
pub(crate) fn undefaulted(markup: &str, run: &Run<'_>) -> Result<String, Fault> {
    let failed = |what: String| Fault::new(fault::Kind::FlowFailed, what);
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
