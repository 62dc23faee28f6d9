//! `transaction`: the mediators from its beginning to its `commit`, as one step.

use serde_json::{Value as Json, json};

use super::super::converter::{Converter, Next, Side};
use super::super::element::Element;
use super::stores;

/// The mediators that may stand in a transaction: those that use databases, and those that neither call, answer nor run other sequences.
const WITHIN: &[&str] = &[
    "dblookup",
    "dbreport",
    "property",
    "propertyGroup",
    "variable",
    "log",
    "filter",
    "switch",
    "foreach",
    "enrich",
    "payloadFactory",
    "script",
    "description",
];

/// The elements of conditions and loops that have mediators.
const BRANCHES: &[&str] = &["then", "else", "case", "default", "sequence"];

/// Converts the mediator. `rest` are the mediators after it.
pub(super) fn transaction<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    match item.attribute("action").unwrap_or("") {
        "new" | "use-existing-or-new" => begun(c, rest, steps),
        "commit" => Err("what it ends does not begin in the same list of mediators".to_owned()),
        // A fault has rolled it back.
        "rollback" if c.flow.side == Side::Fault => Ok(Next::Continue),
        "rollback" => {
            Err("a transaction is rolled back by a fault; outside of a fault sequence `fault` raises one".to_owned())
        }
        other => Err(format!("the action `{other}` has no counterpart")),
    }
}

fn begun<'a>(
    c: &mut Converter<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let is_commit =
        |item: &Element<'a>| item.name() == "transaction" && item.is("action", "commit");
    let length = rest.iter().position(is_commit);
    let length = length.ok_or("it has no `commit` in the same list of mediators")?;
    let within = rest.get(..length).unwrap_or_default();
    if let Some(other) = within.iter().find_map(unfit) {
        return Err(format!("`{other}` stands in the transaction"));
    }
    let source = source(within)?;
    let database = stores::of_source(c, &source);
    let outer = std::mem::replace(&mut c.flow.in_transaction, true);
    let (made, _) = c.steps(within);
    c.flow.in_transaction = outer;
    steps.push(json!({ "transaction": { "database": database, "steps": made } }));
    Ok(Next::Skip(length + 1))
}

/// The name of a mediator, or of one in it, that may not stand in a transaction.
fn unfit<'a>(item: &Element<'a>) -> Option<&'a str> {
    let name = item.name();
    let is_branch = BRANCHES.contains(&name);
    let is_elsewhere =
        item.attribute("sequence").is_some() || is_branch && item.attribute("key").is_some();
    if is_elsewhere || !is_branch && !WITHIN.contains(&name) {
        return Some(name);
    }
    let has_mediators = is_branch || matches!(name, "filter" | "switch" | "foreach");
    if has_mediators { item.children().iter().find_map(unfit) } else { None }
}

/// The one data source of all statements.
fn source(within: &[Element<'_>]) -> Result<String, String> {
    let all = within.iter().flat_map(Element::descendants);
    let statements: Vec<Element<'_>> =
        all.filter(|it| matches!(it.name(), "dblookup" | "dbreport")).collect();
    let mut sources = Vec::new();
    for statement in &statements {
        let pool = statement.child("connection").and_then(|connection| connection.child("pool"));
        let source = pool.and_then(|pool| pool.text_of("dsName"));
        let source = source.filter(|source| !source.is_empty());
        sources.push(source.ok_or("a statement in it has a connection of its own")?);
    }
    sources.sort();
    sources.dedup();
    let [source] = <[String; 1]>::try_from(sources).map_err(|all| {
        format!("its statements use {} databases, which have no common transaction", all.len())
    })?;
    Ok(source)
}
