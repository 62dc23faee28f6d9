//! `exsl:node-set` and `exsl:object-type` (<http://exslt.org/common>), and other processors' names for the first.

use xpath::{Call, ErrorKind, Value};

use super::{Function, FunctionInputs};

const fn node_set_of(uri: &'static str, local: &'static str) -> Function {
    Function { uri, local, least: 1, most: 1, code: node_set }
}

pub(super) const FUNCTIONS: &[Function] = &[
    node_set_of("http://exslt.org/common", "node-set"),
    node_set_of("urn:schemas-microsoft-com:xslt", "node-set"),
    node_set_of("http://xmlsoft.org/XSLT/namespace", "node-set"),
    node_set_of("http://xml.apache.org/xalan", "nodeset"),
    node_set_of("http://icl.com/saxon", "node-set"),
    Function {
        uri: "http://exslt.org/common",
        local: "object-type",
        least: 1,
        most: 1,
        code: object_type,
    },
];

/// Converts to a node-set: a result tree fragment becomes its root, nodes stay, anything else becomes a new text node.
fn node_set(
    arguments: &[Value],
    call: &mut Call<'_>,
    _inputs: &mut FunctionInputs,
) -> Result<Value, ErrorKind> {
    match arguments.first() {
        Some(Value::Tree(root)) => Ok(Value::node(*root)),
        Some(Value::Nodes(nodes)) => Ok(Value::Nodes(nodes.clone())),
        Some(other) => {
            let mut builder = xml::Builder::new();
            let text = other.to_text(call.documents);
            builder.text(&text).map_err(|error| ErrorKind::Host(error.to_string().into()))?;
            let doc = call.documents.add(std::sync::Arc::new(builder.finish()))?;
            let root = xpath::Node::new(doc, xml::Document::ROOT);
            let text = call.documents.document(doc).first_child(root.id);
            Ok(text.map_or(Value::Nodes([].into()), |id| Value::node(root.with(id))))
        }
        None => Ok(Value::Nodes([].into())),
    }
}

fn object_type(
    arguments: &[Value],
    _call: &mut Call<'_>,
    _inputs: &mut FunctionInputs,
) -> Result<Value, ErrorKind> {
    let name = match arguments.first() {
        Some(Value::Nodes(_)) => "node-set",
        Some(Value::Boolean(_)) => "boolean",
        Some(Value::Number(_)) => "number",
        Some(Value::Text(_)) | None => "string",
        Some(Value::Tree(_)) => "RTF",
    };
    Ok(Value::text(name))
}
