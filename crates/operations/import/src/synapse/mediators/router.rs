//! `conditionalRouter` and `throwError`.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::value::{Value, escaped};
use super::control;

/// The maximum depth of nested conditions.
const DEPTH_MAX: usize = 16;

/// `conditionalRouter`: a filter for each route. After a route that breaks, the others are in its `else`.
pub(super) fn router<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let routes = item.all("conditionalRoute");
    if routes.is_empty() {
        return Err("it has no routes".to_owned());
    }
    let made = self::routes(c, &routes)?;
    steps.extend(made);
    if item.is("continueAfter", "true") {
        Ok(Next::Continue)
    } else {
        c.note("the flow ends behind it, with the message that it has then");
        Ok(Next::End)
    }
}

fn routes<'a>(c: &mut Converter<'a>, routes: &[Element<'a>]) -> Result<Vec<Json>, String> {
    let Some((route, rest)) = routes.split_first() else { return Ok(Vec::new()) };
    if route.is("asynchronous", "true") {
        return Err(
            "a route beside the others has no counterpart; write it as `scatter`".to_owned()
        );
    }
    let condition = route.child("condition").and_then(|it| it.children().into_iter().next());
    let condition = condition.ok_or("a route without a condition")?;
    let when = cel(&condition, 0)?;
    let target = route.child("target").ok_or("a route without a target")?;
    let then = match (target.attribute("sequence"), target.child("sequence")) {
        (Some(key), _) => control::named(c, key)?.0,
        (None, Some(sequence)) => c.branch(&sequence.children()).0,
        (None, None) => return Err("a target without a sequence".to_owned()),
    };
    let mut keys = Map::from_iter([
        ("when".to_owned(), json!({ "cel": when })),
        ("then".to_owned(), json!(then)),
    ]);
    let others = self::routes(c, rest)?;
    let breaks = !route.is("breakRoute", "false");
    if breaks && !others.is_empty() {
        keys.insert("else".to_owned(), json!(others));
        return Ok(vec![json!({ "filter": keys })]);
    }
    Ok(std::iter::once(json!({ "filter": keys })).chain(others).collect())
}

/// A condition in CEL.
fn cel(condition: &Element<'_>, depth: usize) -> Result<String, String> {
    if depth > DEPTH_MAX {
        return Err(format!("conditions are more than {DEPTH_MAX} deep"));
    }
    let inner = || -> Result<Vec<String>, String> {
        let inner = condition.children();
        inner.iter().map(|inner| cel(inner, depth + 1)).collect()
    };
    let joined = |parts: Vec<String>, by: &str| {
        if parts.is_empty() {
            Err(format!("`{}` has no conditions", condition.name()))
        } else {
            Ok(format!("({})", parts.join(by)))
        }
    };
    match condition.name() {
        "and" => joined(inner()?, " && "),
        "or" => joined(inner()?, " || "),
        "not" => joined(inner()?, " && ").map(|inner| format!("!{inner}")),
        "exist" => Ok(source(condition)?.1),
        "equal" => {
            let value = condition.attribute("value").ok_or("`equal` has no value")?;
            let (text, is_there) = source(condition)?;
            Ok(format!("({is_there} && {text} == {})", quoted(value)))
        }
        "match" => {
            let regex = condition.raw("regex").ok_or("`match` has no regex")?;
            let regex = control::whole(regex)?;
            let (text, is_there) = source(condition)?;
            Ok(format!("({is_there} && {text}.matches({}))", quoted(&regex)))
        }
        other => Err(format!("the condition `{other}` has no counterpart")),
    }
}

/// The value that a condition tests, and the condition that it is there.
fn source(condition: &Element<'_>) -> Result<(String, String), String> {
    let name = condition.attribute("source").ok_or("a condition without a source")?;
    match condition.attribute("type").unwrap_or("url") {
        "header" => {
            let name = quoted(&name.to_ascii_lowercase());
            Ok((format!("headers[{name}]"), format!("({name} in headers)")))
        }
        "param" => {
            let name = quoted(name);
            Ok((format!("query[{name}]"), format!("({name} in query)")))
        }
        kind => {
            Err(format!("a condition over `{kind}` has no counterpart; a route matches the path"))
        }
    }
}

/// A text of CEL.
fn quoted(text: &str) -> String {
    json!(text).to_string()
}

/// `throwError`: a fault for the nearest `catch`.
pub(super) fn throw<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let message = item.raw("errorMessage").unwrap_or("");
    let reason = match c.literal(item, message)? {
        Value::Literal(text) => c.template(item, &text)?,
        value @ (Value::Path(..) | Value::Cel(_)) => c.placeholder(&value),
    };
    let mut keys = Map::from_iter([
        ("code".to_owned(), json!("server")),
        ("reason".to_owned(), json!(reason)),
    ]);
    if let Some(kind) = item.attribute("type").filter(|kind| !kind.is_empty()) {
        keys.insert("detail".to_owned(), json!(escaped(kind)));
        c.note("its type is the detail of the fault; `$error.code` is 0");
    }
    steps.push(json!({ "fault": keys }));
    Ok(Next::End)
}
