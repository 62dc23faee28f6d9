//! Converts the arguments of EXSLT functions, and creates node-sets.

use std::rc::Rc;
use std::sync::Arc;

use xpath::{Call, ErrorKind, Node, Value};

/// Returns an argument as a string. A missing argument is an empty string.
pub(super) fn text(arguments: &[Value], place: usize, call: &Call<'_>) -> String {
    arguments
        .get(place)
        .map_or_else(String::new, |value| value.to_text(call.documents).into_owned())
}

/// Returns an argument as a number. A missing argument is NaN.
pub(super) fn number(arguments: &[Value], place: usize, call: &Call<'_>) -> f64 {
    arguments.get(place).map_or(f64::NAN, |value| value.to_number(call.documents))
}

/// Returns an argument that must be a node-set.
pub(super) fn nodes(arguments: &[Value], place: usize) -> Result<&[Node], ErrorKind> {
    let nodes = arguments.get(place).and_then(Value::as_nodes);
    nodes
        .ok_or_else(|| ErrorKind::Type(format!("argument {} must be a node-set", place + 1).into()))
}

/// Returns the strings of a node-set, or the single string of any other value.
pub(super) fn texts(arguments: &[Value], place: usize, call: &Call<'_>) -> Vec<String> {
    match arguments.get(place).map(|value| (value, value.as_nodes())) {
        None => Vec::new(),
        Some((_, Some(nodes))) => {
            nodes.iter().map(|&node| call.documents.string_value(node).into_owned()).collect()
        }
        Some((value, None)) => vec![value.to_text(call.documents).into_owned()],
    }
}

/// Returns an empty node-set.
pub(super) fn none() -> Value {
    Value::Nodes(Rc::new([]))
}

/// Creates a new document with a `token` element for each token. Returns the elements as a node-set.
pub(super) fn tokens<'t>(
    tokens: impl Iterator<Item = &'t str>,
    call: &mut Call<'_>,
) -> Result<Value, ErrorKind> {
    let limits = call.budget.limits();
    let mut builder =
        xml::Builder::with_limits(limits.nodes_max.saturating_mul(2), limits.text_bytes_max);
    let mut any = false;
    for token in tokens {
        call.budget.charge(2 + token.len() as u64 / 8)?;
        builder.start("", "token", "").map_err(too_large)?;
        builder.text(token).map_err(too_large)?;
        builder.end().map_err(too_large)?;
        any = true;
    }
    if !any {
        return Ok(none());
    }
    let doc = call.documents.add(Arc::new(builder.finish()))?;
    let root = Node::new(doc, xml::Document::ROOT);
    Ok(Value::Nodes(call.documents.of(root).children(root.id).map(|id| root.with(id)).collect()))
}

/// Converts the error of a builder. The only possible error is that the tree is too large.
fn too_large(error: xml::BuildError) -> ErrorKind {
    ErrorKind::Host(error.to_string().into())
}
