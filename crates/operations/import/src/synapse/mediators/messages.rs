//! Mediators that change or report a part of the message.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::pending::KeptProperty;
use super::super::soap_action;
use super::super::value::{Value, escaped};
use super::super::xpath_text::XPathType;
use super::properties;

/// `header`: of the transport, or of SOAP.
pub(super) fn header<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let removes = item.is("action", "remove");
    let Some(name) = item.attribute("name") else {
        let made: Vec<String> = item.children().iter().map(|e| escaped(&e.markup())).collect();
        if made.is_empty() {
            return Err("it has no name".to_owned());
        }
        steps.push(in_soap(json!({ "soap_header": { "set": made } })));
        return Ok(Next::Continue);
    };
    if item.is("scope", "transport") {
        let of_message = ["content-type", "soapaction"];
        if of_message.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            c.note("Synapse writes the content type and the action of the message in place of `Content-Type` and `SOAPAction` of the transport");
        }
        if removes {
            steps.push(json!({ "header": { "remove": [name] } }));
        } else {
            let value = c.value(item, "value", "expression")?.ok_or("it has no value")?;
            steps.push(properties::header(c, name, &value));
        }
        return Ok(Next::Continue);
    }
    match (name, removes) {
        // A message without an address is an answer, so the next `send` answers the client.
        ("To", true) => {
            let value = Value::Literal("true".to_owned());
            properties::keep(c, KeptProperty::Response, value, steps);
        }
        ("To", false) => {
            let value = c.value(item, "value", "expression")?.ok_or("it has no value")?;
            // Its literal part determines the hosts that may be called.
            let written = item.attribute("expression").or(item.attribute("value"));
            let is_allowed = written.is_some_and(|written| c.out.allow(written));
            if !is_allowed && !matches!(value, Value::Literal(_)) {
                c.out.allow_from("SYNAPSE_HOSTS");
                c.note("the hosts that may be called are in the variable SYNAPSE_HOSTS");
            }
            properties::keep(c, KeptProperty::To, value, steps);
        }
        ("Action", true) => steps.push(soap_action::removed()),
        ("Action", false) => {
            let value = c.value(item, "value", "expression")?.ok_or("it has no value")?;
            steps.push(soap_action::set(c, &value));
        }
        ("From" | "ReplyTo" | "FaultTo" | "RelatesTo" | "MessageID", _) => {
            return Err(format!("`{name}` of WS-Addressing has no counterpart"));
        }
        _ => soap_header(c, item, name, removes, steps)?,
    }
    Ok(Next::Continue)
}

fn soap_header<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    name: &str,
    removes: bool,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    let Some((prefix, local)) = name.split_once(':') else {
        return Err(format!("the header `{name}` has no namespace"));
    };
    if removes {
        let value = c.xpath(item, &format!("/{name}"))?;
        let name = value.path().unwrap_or("").trim_start_matches("$infoset/").to_owned();
        steps.push(in_soap(json!({ "soap_header": { "remove": [name] } })));
        return Ok(());
    }
    let uri =
        item.namespace(prefix).ok_or_else(|| format!("the prefix `{prefix}` is not declared"))?;
    let value = c.value(item, "value", "expression")?.ok_or("it has no value")?;
    let value = match value.as_text() {
        Value::Literal(text) => {
            let mut plain = String::new();
            xml::escape_text(&text, &mut plain);
            escaped(&plain)
        }
        Value::Path(text, _) => format!("{{{{ string({text}) }}}}"),
        value @ Value::Cel(_) => c.placeholder(&value),
    };
    let mut quoted = String::new();
    xml::escape_attribute(uri, &mut quoted);
    let markup =
        format!("<{prefix}:{local} xmlns:{prefix}=\"{quoted}\">{value}</{prefix}:{local}>");
    steps.push(in_soap(json!({ "soap_header": { "set": [markup] } })));
    Ok(())
}

/// A step for SOAP messages only, since others have no such header.
fn in_soap(step: Json) -> Json {
    let when = json!({ "value": "$headers.content-type", "matches": "(?i)^(text/xml|application/soap\\+xml)" });
    json!({ "filter": { "when": when, "then": [step] } })
}

/// `builder`: nothing, since bodies are read when a step looks into them.
pub(super) fn builder() -> Result<Next, String> {
    Ok(Next::Continue)
}

/// `log`: a line with the parts of its level and its properties.
pub(super) fn log<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let mut parts: Vec<String> = Vec::new();
    match item.attribute("level").unwrap_or("simple") {
        "custom" => {}
        "full" => parts.push("{{ $method }} {{ $headers.SOAPAction }} {{ $envelope }}".to_owned()),
        "headers" => parts.push("{{ $header }}".to_owned()),
        _ if item.child("message").is_some() => {}
        _ => parts.push("{{ $method }} {{ $headers.SOAPAction }}".to_owned()),
    }
    let says_more = !parts.is_empty();
    if let Some(message) = item.child("message") {
        parts.push(c.template(&message, &message.text())?);
    }
    for property in item.all("property") {
        let name = property.attribute("name").unwrap_or("");
        let value = c.value(&property, "value", "expression")?;
        let value = value.map_or_else(String::new, |value| c.text_placeholder(&value));
        parts.push(format!("{} = {value}", escaped(name)));
    }
    if says_more && item.attribute("level").is_none() {
        c.note("the line has the method, `SOAPAction` and the texts of the message, not the addresses of WS-Addressing");
    }
    let level = match item.attribute("category").unwrap_or("INFO").to_ascii_uppercase().as_str() {
        "ERROR" | "FATAL" => "error",
        "WARN" => "warn",
        "DEBUG" | "TRACE" => "debug",
        _ => "info",
    };
    let separator = item.raw("separator").unwrap_or(", ");
    steps.push(json!({ "log": { "level": level, "message": parts.join(&escaped(separator)) } }));
    Ok(Next::Continue)
}

/// The source of an `enrich`.
#[derive(Clone)]
enum Source {
    Expression(Json),
    /// An expression whose value is a text.
    Computed(Json),
    /// The body's content as one whole.
    Body,
    Envelope,
    /// A template of XML.
    Markup(String),
    Text(String),
}

/// The reason why `enrich` with a target of the type `key` is refused.
const NEW_KEY: &str = "a new key in JSON has no counterpart; `payload: { json }` writes it";

pub(super) fn enrich<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let (Some(from), Some(to)) = (item.child("source"), item.child("target")) else {
        return Err("it needs a source and a target".to_owned());
    };
    let action = match to.attribute("action").unwrap_or("replace") {
        "sibling" => "after",
        action @ ("replace" | "child" | "remove") => action,
        other => return Err(format!("the action `{other}` has no counterpart")),
    };
    let source = source(c, &from)?;
    if action == "remove" {
        let target = match source {
            Source::Expression(expression) | Source::Computed(expression) => expression,
            Source::Body => json!("$infoset_body/*"),
            Source::Envelope | Source::Markup(_) | Source::Text(_) => {
                return Err("only what an expression finds can be removed".to_owned());
            }
        };
        steps.push(json!({ "enrich": { "target": target, "action": "remove" } }));
        return Ok(Next::Continue);
    }
    let kind = to.attribute("type").unwrap_or("custom");
    if action == "replace" && replace_whole(c, &to, kind, &source, steps)? {
        return Ok(Next::Continue);
    }
    let target = match kind {
        "property" | "variable" => {
            let variable = c.out.variable(name_of(&to)?);
            json!(format!("${variable}"))
        }
        "body" => json!("$infoset_body/*[1]"),
        "custom" => {
            let path = to.attribute("xpath").ok_or("its target has no expression")?;
            let found = c.expression(&to, path)?;
            if let (Value::Path(path, XPathType::Elements), true) =
                (&found, is_text(&source, action))
            {
                in_element(c, expression_of(source), path, steps);
                return Ok(Next::Continue);
            }
            found.expression()
        }
        "key" => return Err(NEW_KEY.to_owned()),
        other => return Err(format!("the target `{other}` has no counterpart")),
    };
    let is_json = matches!(&source, Source::Text(text) if text.starts_with(['{', '[']));
    let mut source = expression_of(source);
    if is_json {
        // A literal in an expression is not JSON, so a variable converts it first.
        let variable = c.out.variable("inline");
        let value = json!({ "value": source, "type": "json" });
        steps.push(json!({ "set": { variable.clone(): value } }));
        source = json!(format!("${variable}"));
    }
    if matches!(kind, "custom" | "body") && from.is("clone", "false") && is_in_message(&source) {
        // Without a clone, Synapse moves the selected nodes.
        let variable = c.out.variable("moved");
        steps.push(json!({ "set": { variable.clone(): source.clone() } }));
        steps.push(json!({ "enrich": { "target": source, "action": "remove" } }));
        source = json!(format!("${variable}"));
    }
    steps.push(json!({ "enrich": { "source": source, "target": target, "action": action } }));
    Ok(Next::Continue)
}

/// True for a text that replaces the selected nodes.
fn is_text(source: &Source, action: &str) -> bool {
    action == "replace"
        && match source {
            Source::Text(text) => !text.starts_with(['{', '[']),
            Source::Computed(_) => true,
            Source::Expression(_) | Source::Body | Source::Envelope | Source::Markup(_) => false,
        }
}

/// Replaces the content of an element with a text. An empty text leaves the element unchanged.
fn in_element(c: &mut Converter<'_>, text: Json, path: &str, steps: &mut Vec<Json>) {
    let variable = c.out.variable("enrich.text");
    let source = format!("${variable}");
    steps.push(json!({ "set": { variable: text } }));
    let within = Value::Path(format!("{path}/node()"), XPathType::Nodes).expression();
    let target = Value::Path(path.to_owned(), XPathType::Elements).expression();
    steps.push(json!({ "filter": { "when": source, "then": [
        { "enrich": { "target": within, "action": "remove" } },
        { "enrich": { "source": source, "target": target, "action": "child" } },
    ] } }));
}

fn name_of<'a>(part: &Element<'a>) -> Result<&'a str, String> {
    let name = part.attribute("property").or(part.attribute("name"));
    name.or(part.attribute("variable")).ok_or_else(|| "it names no property".to_owned())
}

/// Replaces a variable, the body or the envelope as a whole. False if the target is none of these.
fn replace_whole<'a>(
    c: &mut Converter<'a>,
    to: &Element<'a>,
    kind: &str,
    source: &Source,
    steps: &mut Vec<Json>,
) -> Result<bool, String> {
    match kind {
        "property" | "variable" => {
            let value = match source {
                Source::Markup(markup) if markup.contains("{{") => {
                    return Err("markup with `{{` cannot be kept in a variable".to_owned());
                }
                Source::Markup(markup) => json!({ "value": markup, "type": "xml" }),
                Source::Expression(_)
                | Source::Computed(_)
                | Source::Body
                | Source::Envelope
                | Source::Text(_) => expression_of(source.clone()),
            };
            steps.push(json!({ "set": { c.out.variable(name_of(to)?): value } }));
        }
        "body" => steps.push(json!({ "payload": payload_of(source.clone()) })),
        "envelope" => {
            let mut payload = payload_of(source.clone());
            payload.insert("envelope".to_owned(), json!("drop"));
            steps.push(json!({ "payload": payload }));
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// True for an expression of nodes of the message.
fn is_in_message(expression: &Json) -> bool {
    let xpath = expression.get("xpath").and_then(Json::as_str);
    let text = expression.as_str().or(xpath).unwrap_or("");
    text.starts_with("$infoset") || text.starts_with("$header/")
}

fn expression_of(source: Source) -> Json {
    match source {
        Source::Expression(expression) | Source::Computed(expression) => expression,
        Source::Body => json!("$infoset_payload"),
        Source::Envelope => json!("$envelope"),
        Source::Markup(markup) => json!({ "xml": markup }),
        Source::Text(text) => Value::Literal(text).expression(),
    }
}

fn payload_of(source: Source) -> Map<String, Json> {
    let (key, value) = match source {
        Source::Markup(markup) => ("xml", json!(markup)),
        Source::Text(text) if text.starts_with(['{', '[']) => ("json", json!(escaped(&text))),
        Source::Text(text) => ("text", json!(escaped(&text))),
        other @ (Source::Expression(_) | Source::Computed(_) | Source::Body | Source::Envelope) => {
            ("from", expression_of(other))
        }
    };
    Map::from_iter([(key.to_owned(), value)])
}

fn source<'a>(c: &mut Converter<'a>, from: &Element<'a>) -> Result<Source, String> {
    Ok(match from.attribute("type").unwrap_or("custom") {
        "body" => Source::Body,
        "envelope" => Source::Envelope,
        "property" | "variable" => Source::Expression(json!(c.named("default", name_of(from)?)?)),
        "custom" => {
            let path = from.attribute("xpath").ok_or("its source has no expression")?;
            let value = c.expression(from, path)?;
            let is_text = match &value {
                Value::Path(_, XPathType::Texts | XPathType::Number) => true,
                // An expression with `$` may be a JSON value or the nodes in a variable.
                Value::Path(text, XPathType::Other) => !text.starts_with('$'),
                Value::Path(_, XPathType::Elements | XPathType::Nodes)
                | Value::Literal(_)
                | Value::Cel(_) => false,
            };
            if is_text {
                Source::Computed(value.as_text().expression())
            } else {
                Source::Expression(value.expression())
            }
        }
        "inline" => match (from.attribute("key"), from.children().is_empty()) {
            (Some(key), _) => {
                let text = c.artifacts.resource(key)?.text()?;
                if text.starts_with('<') {
                    Source::Markup(escaped(&text))
                } else {
                    Source::Text(text)
                }
            }
            (None, false) => Source::Markup(escaped(&from.content())),
            (None, true) => Source::Text(from.text()),
        },
        other => return Err(format!("the source `{other}` has no counterpart")),
    })
}
