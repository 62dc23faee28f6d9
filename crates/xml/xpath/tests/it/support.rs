//! Evaluates one expression for one document and shows the value.

use std::sync::Arc;

use xml::{Doctype, Document};
use xpath::{
    Budget, DocumentSet, Error, Evaluation, Expr, NoHost, Node, NodeKind, Options, Plain, Value,
};

pub(crate) const PREFIXES: &[(&str, &str)] = &[("p", "urn:p"), ("q", "urn:q")];

/// A set of documents with one document.
pub(crate) fn documents(text: &str) -> DocumentSet {
    let options = xml::Options { doctype: Doctype::Internal, ..xml::Options::default() };
    DocumentSet::new(Arc::new(
        Document::parse(text.as_bytes(), &options)
            .unwrap_or_else(|error| panic!("{text}: {error}")),
    ))
}

/// Returns the value of an expression at the root as text.
pub(crate) fn shown(
    documents: &DocumentSet,
    text: &str,
    options: Options,
) -> Result<String, Error> {
    let expr = Expr::compile(text, &Plain { prefixes: PREFIXES, options })?;
    let (mut host, mut budget) = (NoHost, Budget::default());
    let mut evaluation = Evaluation::of(documents, documents.root(), &mut host, &mut budget);
    let value = expr.value(&mut evaluation)?;
    consistent(&expr, &value, &mut evaluation);
    Ok(show(documents, &value))
}

/// Checks that the other conversions agree with the value.
fn consistent(expr: &Expr, value: &Value, evaluation: &mut Evaluation<'_>) {
    let documents = evaluation.documents;
    assert_eq!(expr.boolean(evaluation).unwrap(), value.to_boolean());
    assert_eq!(expr.number(evaluation).unwrap().to_bits(), value.to_number(documents).to_bits());
    // Tokens are created anew each time, so the nodes would differ.
    assert_eq!(expr.text(evaluation).unwrap(), value.to_text(documents));
    if let Some(nodes) = value.as_nodes()
        && nodes.iter().all(|node| node.doc == documents.root().doc)
    {
        assert_eq!(expr.nodes(evaluation).unwrap(), nodes);
        assert_eq!(expr.first(evaluation).unwrap(), nodes.first().copied());
        assert!(nodes.is_sorted_by(|a, b| a < b));
    }
}

pub(crate) fn show(documents: &DocumentSet, value: &Value) -> String {
    match value {
        Value::Nodes(nodes) => {
            nodes.iter().map(|&node| show_node(documents, node)).collect::<Vec<_>>().join(" ")
        }
        Value::Boolean(value) => value.to_string(),
        Value::Number(_) => value.to_text(documents).into_owned(),
        Value::Text(text) => format!("{text:?}"),
        Value::Tree(root) => format!("tree {}", show_node(documents, *root)),
    }
}

pub(crate) fn show_node(documents: &DocumentSet, node: Node) -> String {
    let name = documents.name(node);
    let name = match name.prefix {
        "" => name.local.to_owned(),
        prefix => format!("{prefix}:{}", name.local),
    };
    let value = documents.string_value(node);
    match documents.kind(node) {
        NodeKind::Root => "/".into(),
        NodeKind::Element => match documents.of(node).attribute(node.id, "", "id") {
            Some(id) => format!("{name}#{id}"),
            None => name,
        },
        NodeKind::Attribute => format!("@{name}={value}"),
        NodeKind::Text => format!("{value:?}"),
        NodeKind::Comment => format!("<!--{value}-->"),
        NodeKind::Instruction => format!("<?{name} {value}?>"),
        NodeKind::Namespace => format!("xmlns:{name}={value}"),
    }
}

/// Checks a table of expressions on one document.
pub(crate) fn check(document: &str, options: Options, cases: &[(&str, &str)]) {
    let documents = documents(document);
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let found =
            shown(&documents, text, options).unwrap_or_else(|error| format!("error: {error}"));
        if found != *expected {
            wrong.push(format!("{text}\n  expected {expected}\n  found    {found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
