//! Mediators that control the flow: conditions, cases, loops, sequences and templates.

use serde_json::{Map, Value as Json, json};

use super::super::artifacts;
use super::super::converter::{Converter, Flow, Next, Side};
use super::super::element::Element;
use super::super::value::Value;
use super::properties;

/// True for a regular expression that only matches its own text.
fn is_plain(regex: &str) -> bool {
    !regex.contains(['.', '*', '+', '?', '(', ')', '[', ']', '{', '}', '^', '$', '|', '\\'])
}

/// Anchors a regular expression of Java, which has to match a whole text, since flows search for matches within a text.
pub(super) fn whole(regex: &str) -> Result<String, String> {
    let anchored = format!("^(?:{regex})$");
    match regex::Regex::new(&anchored) {
        Ok(_) => Ok(anchored),
        Err(_) => Err(format!(
            "the regular expression `{regex}` has no counterpart: it looks around or back, or is none"
        )),
    }
}

pub(super) fn filter<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let when = match (item.attribute("xpath"), item.attribute("source"), item.attribute("regex")) {
        (Some(xpath), _, _) => match c.expression(item, xpath)? {
            Value::Literal(text) => json!({ "text": text }),
            value @ (Value::Path(..) | Value::Cel(_)) => value.expression(),
        },
        (None, Some(source), Some(regex)) => {
            let value = c.expression(item, source)?.as_text().expression();
            json!({ "value": value, "matches": whole(regex)? })
        }
        _ => return Err("it needs `xpath`, or `source` and `regex`".to_owned()),
    };
    let parts = item.children();
    let is_part = |part: &Element<'_>| matches!(part.name(), "then" | "else" | "description");
    if parts.iter().any(is_part) && !parts.iter().all(is_part) {
        return Err("it has mediators beside `then` and `else`, which never run".to_owned());
    }
    let then = match item.child("then") {
        Some(then) => part(c, &then)?,
        None if item.child("else").is_none() => c.branch(&item.children()),
        None => (Vec::new(), false),
    };
    let otherwise = match item.child("else") {
        Some(otherwise) => part(c, &otherwise)?,
        None => (Vec::new(), false),
    };
    let mut keys = Map::from_iter([("when".to_owned(), when), ("then".to_owned(), json!(then.0))]);
    if !otherwise.0.is_empty() {
        keys.insert("else".to_owned(), json!(otherwise.0));
    }
    steps.push(json!({ "filter": keys }));
    Ok(if then.1 && otherwise.1 { Next::End } else { Next::Continue })
}

/// The steps of `then` or `else`: a sequence by name, or the mediators within.
fn part<'a>(c: &mut Converter<'a>, part: &Element<'a>) -> Result<(Vec<Json>, bool), String> {
    match part.attribute("sequence") {
        None => Ok(c.branch(&part.children())),
        Some(key) => named(c, key),
    }
}

/// The steps of a sequence by name, as a branch.
pub(super) fn named(c: &mut Converter<'_>, key: &str) -> Result<(Vec<Json>, bool), String> {
    let (pending, side) = (c.flow.pending.clone(), c.flow.side);
    let mut steps = Vec::new();
    let next = c.named_sequence(key, &mut steps);
    let ended = next == Ok(Next::End);
    c.leave(pending, side, ended);
    next.map(|_| (steps, ended))
}

pub(super) fn switch<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let source = item.attribute("source").ok_or("it has no source")?;
    let on = c.expression(item, source)?.as_text().expression();
    let mut all_end = true;
    let mut cases = Vec::new();
    for case in item.all("case") {
        let regex = case.raw("regex").ok_or("a case without a regex")?;
        let (key, value) =
            if is_plain(regex) { ("equals", regex.to_owned()) } else { ("matches", whole(regex)?) };
        let (made, ended) = c.branch(&case.children());
        all_end &= ended;
        cases.push(json!({ key: value, "steps": made }));
    }
    let mut keys = Map::from_iter([("on".to_owned(), on), ("cases".to_owned(), json!(cases))]);
    match item.child("default") {
        Some(default) => {
            let (made, ended) = c.branch(&default.children());
            all_end &= ended;
            keys.insert("default".to_owned(), json!(made));
        }
        None => all_end = false,
    }
    steps.push(json!({ "switch": keys }));
    Ok(if all_end { Next::End } else { Next::Continue })
}

/// `in` and `out`: their mediators only run on requests or only on replies.
pub(super) fn side<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let runs = (item.name() == "in") == (c.flow.side == Side::Request);
    if !runs {
        return Ok(Next::Continue);
    }
    let (made, ended) = match item.attribute("sequence") {
        Some(key) => named(c, key)?,
        None => c.steps(&item.children()),
    };
    steps.extend(made);
    Ok(if ended { Next::End } else { Next::Continue })
}

pub(super) fn sequence<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let Some(key) = item.attribute("key") else {
        let (made, ended) = c.steps(&item.children());
        steps.extend(made);
        return Ok(if ended { Next::End } else { Next::Continue });
    };
    if key.contains(['{', '$']) {
        Err("a sequence whose name is computed has no counterpart; write the cases as `switch`"
            .to_owned())
    } else {
        c.named_sequence(key, steps)
    }
}

/// `call-template`: its parameters as variables, then the template's flow.
pub(super) fn call_template<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let key = item.attribute("target").ok_or("it has no target")?;
    let found = c.artifacts.templates.get_key_value(key);
    let (&key, &template) =
        found.ok_or_else(|| format!("the template `{key}` is not among the artifacts"))?;
    let sequence =
        template.child("sequence").ok_or("a template of an endpoint has no counterpart")?;
    let mut sets = Map::new();
    for parameter in template.all("parameter") {
        let name = parameter.attribute("name").ok_or("a parameter of the template has no name")?;
        let given =
            item.all("with-param").into_iter().find(|given| given.attribute("name") == Some(name));
        let value = match (given, parameter.attribute("defaultValue")) {
            (Some(given), _) => c.value(&given, "value", "expression")?,
            (None, Some(default)) => Some(Value::Literal(default.to_owned())),
            (None, None) if parameter.is("isMandatory", "true") => {
                return Err(format!("the parameter `{name}` is not given"));
            }
            (None, None) => None,
        };
        let value = value.unwrap_or(Value::Literal(String::new()));
        let variable = c.out.variable(&format!("{key}.{name}"));
        sets.insert(variable, properties::typed(&value, "STRING"));
    }
    for given in item.all("with-param") {
        let name = given.attribute("name").unwrap_or("");
        if !template.all("parameter").iter().any(|known| known.attribute("name") == Some(name)) {
            c.note(&format!("the template has no parameter `{name}`; it is left out"));
        }
    }
    if !sets.is_empty() {
        steps.push(json!({ "set": sets }));
    }
    if c.flow.expanding.contains(&key) {
        return Err(format!("the template `{key}` runs itself"));
    }
    if c.has_side(&sequence, &mut Vec::new()) {
        let outer = c.flow.template.replace(key);
        c.flow.expanding.push(key);
        let (made, ended) = c.steps(&sequence.children());
        c.flow.expanding.pop();
        c.flow.template = outer;
        steps.extend(made);
        return Ok(if ended { Next::End } else { Next::Continue });
    }
    let name = template_flow(c, key, template, sequence);
    steps.push(json!({ "sequence": name }));
    c.flow.pending.has_action |= c.artifacts.sets_action;
    Ok(Next::Continue)
}

/// The flow of a template; it is made once.
fn template_flow<'a>(
    c: &mut Converter<'a>,
    key: &'a str,
    template: Element<'a>,
    sequence: Element<'a>,
) -> String {
    let known = c.template_flows.iter().find(|(known, _)| *known == key);
    if let Some((_, name)) = known {
        return name.clone();
    }
    let name = c.out.fresh("flow", key);
    c.template_flows.push((key, name.clone()));
    c.artifact(&template, crate::table::Outcome::Converted, "");
    let mut expanding = c.flow.expanding.clone();
    expanding.push(key);
    let flow = Flow { name, expanding, template: Some(key), ..Flow::default() };
    let catch = match template.attribute("onError").or(sequence.attribute("onError")) {
        Some(key) => c.fault_sequence(Some(key), None),
        None => None,
    };
    c.inner_flow(flow, |c| c.steps(&sequence.children()).0, catch)
}

/// `foreach`: both versions.
pub(super) fn foreach<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let over = item.attribute("expression").or(item.attribute("collection"));
    let over = c.expression(item, over.ok_or("it has no expression")?)?.expression();
    let is_second = item.attribute("collection").is_some();
    let sender = c.flow.pending.sender;
    let is_parallel = is_second && !item.is("parallel-execution", "false");
    let counter = begin_loop(c, item, is_second, steps);
    let mut made = match (item.attribute("sequence"), item.child("sequence")) {
        (Some(key), _) => named(c, key)?,
        (None, Some(sequence)) => match sequence.attribute("key") {
            Some(key) => named(c, key)?,
            None => c.branch(&sequence.children()),
        },
        (None, None) => return Err("it has no sequence".to_owned()),
    };
    if let Some(counter) = counter {
        let next = json!({ "cel": format!("vars.{counter} + 1") });
        made.0.push(json!({ "set": { counter: next } }));
    }
    // The message keeps its sender; only its parts change.
    c.flow.pending.sender = sender;
    let mut keys = Map::from_iter([("over".to_owned(), over), ("steps".to_owned(), json!(made.0))]);
    if is_parallel {
        keys.insert("parallel".to_owned(), json!(8));
    }
    if item.attribute("result-target").is_some_and(|target| !target.eq_ignore_ascii_case("body"))
        || item.attribute("counter-variable").is_some()
    {
        c.note(
            "what comes out is put in the place of each; there is no counter and no other target",
        );
    }
    steps.push(json!({ "foreach": keys }));
    Ok(Next::Continue)
}

/// The step that sets the properties of a loop of the first version, if something reads them. Returns the variable of the counter.
fn begin_loop<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    is_second: bool,
    steps: &mut Vec<Json>,
) -> Option<String> {
    if is_second || !c.artifacts.reads_loops {
        return None;
    }
    let [counter, original] = artifacts::loop_properties(item).map(|name| c.out.variable(&name));
    let message = json!({ "value": "$infoset/*", "type": "xml" });
    steps.push(json!({ "set": { counter.clone(): { "cel": "0" }, original: message } }));
    Some(counter)
}
