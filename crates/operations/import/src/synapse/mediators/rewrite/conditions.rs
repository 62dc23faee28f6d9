//! Conditions of rules: known while the configuration is made, or computed in CEL when the flow runs.

use serde_json::{Value as Json, json};

use super::super::super::converter::Converter;
use super::super::super::element::Element;
use super::super::super::pending::KeptProperty;
use super::super::super::rewritten::Rewritten;
use super::super::super::value::{Value, header, member, quoted};
use super::super::super::xpath_text::XPathType;
use super::super::control::whole;
use super::{Chosen, apply};

/// The maximum number of rules with computed conditions. Each doubles the number of URLs.
const CONDITIONS_MAX: usize = 4;

/// A condition.
#[derive(Debug, Clone, PartialEq)]
enum Condition {
    Known(bool),
    /// An expression in CEL.
    Computed(String),
}

/// The steps that put the texts of conditions into variables.
struct Texts<'s> {
    steps: &'s mut Vec<Json>,
}

/// Applies rules with conditions. Returns the steps that compute the conditions, and what the rules give.
pub(super) fn chosen<'a>(
    c: &mut Converter<'a>,
    rules: &[Element<'a>],
    url: Rewritten,
) -> Result<(Vec<Json>, Chosen), String> {
    let mut steps = Vec::new();
    let choice = choose(c, rules, url, CONDITIONS_MAX, &mut Texts { steps: &mut steps })?;
    Ok((steps, choice))
}

/// Applies the rules from the first one on.
fn choose<'a>(
    c: &mut Converter<'a>,
    rules: &[Element<'a>],
    url: Rewritten,
    more: usize,
    texts: &mut Texts<'_>,
) -> Result<Chosen, String> {
    let Some((rule, rest)) = rules.split_first() else { return Ok(Chosen::Url(url)) };
    let condition = match rule.child("condition") {
        None => Condition::Known(true),
        Some(condition) => match condition.children().as_slice() {
            [one] => evaluated(c, one, &url, texts)?,
            _ => return Err("a condition has several expressions".to_owned()),
        },
    };
    let mut applied = url.clone();
    if condition != Condition::Known(false) {
        for action in rule.all("action") {
            apply(c, &action, &mut applied)?;
        }
    }
    let when = match condition {
        Condition::Known(true) => return choose(c, rest, applied, more, texts),
        Condition::Known(false) => return choose(c, rest, url, more, texts),
        Condition::Computed(when) => when,
    };
    let more = more.checked_sub(1).ok_or_else(|| {
        format!("over {CONDITIONS_MAX} rules with conditions that the message decides")
    })?;
    let then = choose(c, rest, applied, more, texts)?;
    let then = set(c, then)?;
    let otherwise = choose(c, rest, url, more, texts)?;
    let otherwise = set(c, otherwise)?;
    let filter = json!({ "filter": { "when": { "cel": when }, "then": then, "else": otherwise } });
    Ok(Chosen::Variable(vec![filter]))
}

/// The steps that put a URL into the variable of `To`.
fn set(c: &mut Converter<'_>, chosen: Chosen) -> Result<Vec<Json>, String> {
    match chosen {
        Chosen::Variable(steps) => Ok(steps),
        Chosen::Url(url) => {
            let variable = c.kept_variable(KeptProperty::To);
            if !c.out.allow(&url.target()?) {
                return Err("the host of a URL cannot be computed".to_owned());
            }
            let parts: Vec<String> = parts(&url.whole()?)?;
            let value = match parts.as_slice() {
                [one] => json!({ "xpath": one }),
                parts => json!({ "xpath": format!("concat({})", parts.join(", ")) }),
            };
            Ok(vec![json!({ "set": { variable: value } })])
        }
    }
}

/// The parts of a template, as XPath.
fn parts(template: &str) -> Result<Vec<String>, String> {
    let mut parts = Vec::new();
    let mut rest = template;
    while !rest.is_empty() {
        let (text, behind) = rest.split_once("{{").unwrap_or((rest, ""));
        if !text.is_empty() {
            parts.push(quoted(text).ok_or("a URL with both kinds of quotes")?);
        }
        if behind.is_empty() {
            break;
        }
        let (expression, after) = behind.split_once("}}").ok_or("a URL with braces")?;
        parts.push(expression.trim().to_owned());
        rest = after;
    }
    Ok(parts)
}

fn evaluated<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    url: &Rewritten,
    texts: &mut Texts<'_>,
) -> Result<Condition, String> {
    match item.name() {
        "and" | "or" => {
            let is_and = item.name() == "and";
            let mut computed = Vec::new();
            for child in item.children() {
                match evaluated(c, &child, url, texts)? {
                    Condition::Known(known) if known == is_and => {}
                    Condition::Known(known) => return Ok(Condition::Known(known)),
                    Condition::Computed(text) => computed.push(format!("({text})")),
                }
            }
            let sign = if is_and { " && " } else { " || " };
            Ok(match computed.as_slice() {
                [] => Condition::Known(is_and),
                parts => Condition::Computed(parts.join(sign)),
            })
        }
        "not" => match item.children().as_slice() {
            [one] => Ok(match evaluated(c, one, url, texts)? {
                Condition::Known(known) => Condition::Known(!known),
                Condition::Computed(text) => Condition::Computed(format!("!({text})")),
            }),
            _ => Err("`not` has several expressions".to_owned()),
        },
        "equal" | "match" => compared(c, item, url, texts),
        other => Err(format!("the condition `{other}` has no counterpart")),
    }
}

fn compared<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    url: &Rewritten,
    texts: &mut Texts<'_>,
) -> Result<Condition, String> {
    let known = item.attributes();
    let other =
        known.iter().find(|(name, _)| !["type", "source", "value", "regex"].contains(&&**name));
    if let Some((name, _)) = other {
        return Err(format!("`@{name}` of a condition has no counterpart"));
    }
    let wanted = item.attribute(if item.name() == "match" { "regex" } else { "value" });
    let wanted = wanted.ok_or_else(|| format!("`{}` compares with nothing", item.name()))?;
    let text = match looked_at(c, item, url)? {
        Value::Literal(text) => {
            return Ok(Condition::Known(match item.name() {
                "equal" => text == wanted,
                _ => regex::Regex::new(&whole(wanted)?).is_ok_and(|it| it.is_match(&text)),
            }));
        }
        value @ (Value::Path(..) | Value::Cel(_)) => value.as_text(),
    };
    let name = c.out.variable(&format!("rewrite_{}", texts.steps.len() + 1));
    texts.steps.push(json!({ "set": { name.clone(): text.expression() } }));
    let literal = |text: &str| Json::String(text.to_owned()).to_string();
    Ok(Condition::Computed(match item.name() {
        "equal" => format!("vars.{name} == {}", literal(wanted)),
        _ => format!("vars.{name}.matches({})", literal(&whole(wanted)?)),
    }))
}

/// The value that a condition tests.
fn looked_at<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    url: &Rewritten,
) -> Result<Value, String> {
    let source = item.attribute("source");
    let path = |text: String| Value::Path(text, XPathType::Other);
    let named = || source.ok_or_else(|| "a condition looks at nothing".to_owned());
    match item.attribute("type").unwrap_or("header") {
        "header" => Ok(path(header(named()?)?)),
        "param" => Ok(path(member("query", named()?)?)),
        "property" => {
            let source = named()?;
            c.named("default", source).map(path)
        }
        "soap" => c.expression(item, named()?),
        "url" => {
            let fragment = source.unwrap_or("full");
            let part = match fragment {
                "protocol" => &url.scheme,
                "host" => &url.host,
                "port" if url.scheme.is_some() && url.port.is_none() => {
                    return Ok(Value::Literal("-1".to_owned()));
                }
                "port" => &url.port,
                "path" if url.path.is_none() => {
                    return Ok(path(
                        "substring-before(concat($request.path, '?'), '?')".to_owned(),
                    ));
                }
                "query" if url.path.is_none() && url.query.is_none() => {
                    return Ok(path("substring-after($request.path, '?')".to_owned()));
                }
                "path" => &url.path,
                "query" => &url.query,
                other => return Err(format!("a condition about `{other}` of a URL")),
            };
            let part = part.clone().filter(|text| !text.contains("{{"));
            let unknown = || format!("a condition about `{fragment}` of a URL, which is not known");
            part.map(Value::Literal).ok_or_else(unknown)
        }
        other => Err(format!("a condition about `{other}` has no counterpart")),
    }
}
