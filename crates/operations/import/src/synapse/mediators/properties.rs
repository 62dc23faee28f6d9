//! Properties and variables: values that steps share, headers, and settings of the next call or reply.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::known::{self, ConversionResult};
use super::super::pending::{KeptProperty, Postfix};
use super::super::value::Value;
use super::super::xpath_text::XPathType;

/// The content type of forms.
pub(super) const FORM: &str = "application/x-www-form-urlencoded";

pub(super) fn property<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let name = item.attribute("name").ok_or("it has no name")?;
    if name.contains('{') {
        return Err("a name that is computed has no counterpart".to_owned());
    }
    let removes = item.is("action", "remove");
    let scope = item.attribute("scope").unwrap_or("default");
    let group = match scope {
        "synapse" | "operation" => "default",
        scope => scope,
    };
    // Harmless: a computed value has no row in the table.
    let value = item.attribute("value").unwrap_or_default();
    match known::named(&format!("property {group}"), name, value) {
        ConversionResult::Refused(why) => {
            return Err(format!("the property `{name}` of {scope}: {why}"));
        }
        ConversionResult::Differs(how) => c.note(how),
        ConversionResult::Same | ConversionResult::MayDiffer(_) => {}
    }
    match scope {
        "default" | "synapse" | "operation" => own(c, item, name, removes, steps)?,
        "transport" if removes => steps.push(json!({ "header": { "remove": [name] } })),
        "transport" => {
            let value = needed(c, item)?;
            steps.push(header(c, name, &value));
        }
        "axis2" => axis2(c, item, name, removes, steps)?,
        scope => {
            return Err(format!("properties of the scope `{scope}` have no counterpart"));
        }
    }
    Ok(Next::Continue)
}

/// True for a single variable, whose value may be absent, and for the empty text. False for other computed texts.
fn is_one_value(text: &str) -> bool {
    let is_computed = text.contains(['/', ' ', '(', '=', '<', '>', '+', '*', '|']);
    text == "''" || text.starts_with('$') && !is_computed
}

/// The step that sets a header. If the value may be absent, the step removes the header without it.
pub(super) fn header(c: &mut Converter<'_>, name: &str, value: &Value) -> Json {
    let set = json!({ "header": { "set": { name: c.text_placeholder(value) } } });
    match value {
        Value::Path(text, XPathType::Other) if is_one_value(text) => {
            let none = json!([{ "header": { "remove": [name] } }]);
            json!({ "filter": { "when": value.expression(), "then": [set], "else": none } })
        }
        Value::Literal(_) | Value::Path(..) | Value::Cel(_) => set,
    }
}

fn needed<'a>(c: &mut Converter<'a>, item: &Element<'a>) -> Result<Value, String> {
    c.value(item, "value", "expression")?.ok_or_else(|| "it has no value".to_owned())
}

fn own<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    name: &str,
    removes: bool,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    match name {
        "RESPONSE" => {
            let value = if item.is("value", "true") && !removes { "true" } else { "" };
            keep(c, KeptProperty::Response, Value::Literal(value.to_owned()), steps);
            return Ok(());
        }
        "OUT_ONLY" => {
            c.flow.pending.one_way = item.is("value", "true");
            return Ok(());
        }
        "FORCE_ERROR_ON_SOAP_FAULT" => {
            c.flow.pending.fault_on_fault = item.is("value", "true");
            return Ok(());
        }
        // These set behaviour that Synapse has by default.
        "preserveProcessedHeaders" | "PRESERVE_WS_ADDRESSING" | "enableREST" => return Ok(()),
        // Harmless: any other property is a variable.
        _ => {}
    }
    let variable = c.out.variable(name);
    if removes {
        steps.push(json!({ "set": { variable: "" } }));
        return Ok(());
    }
    let inline = item.children();
    let value = match inline.first() {
        Some(_) => json!({ "value": item.content(), "type": "xml" }),
        None => typed(&needed(c, item)?, item.attribute("type").unwrap_or("STRING")),
    };
    steps.push(json!({ "set": { variable: value } }));
    Ok(())
}

/// A value with its type. For elements, Synapse keeps the text unless the type is another one.
pub(super) fn typed(value: &Value, kind: &str) -> Json {
    let expression = value.expression();
    let kind = match kind.to_ascii_uppercase().as_str() {
        "OM" | "XML" => "xml",
        "JSON" => "json",
        "BOOLEAN" => "boolean",
        "INTEGER" | "LONG" | "SHORT" | "FLOAT" | "DOUBLE" => "number",
        _ => return value.as_text().expression(),
    };
    let is_nodes = matches!(value, Value::Path(_, XPathType::Elements | XPathType::Nodes));
    match kind {
        "xml" if is_nodes => expression,
        _ => json!({ "value": expression, "type": kind }),
    }
}

/// axis2 properties, which control the next call or reply.
fn axis2<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    name: &str,
    removes: bool,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    // Harmless: the value may be an expression instead of a literal.
    let literal = item.raw("value").map(str::trim).unwrap_or_default();
    let is_true = literal.eq_ignore_ascii_case("true");
    match name {
        "HTTP_SC" | "HTTP_METHOD" | "REST_URL_POSTFIX" | "messageType" if removes => {
            let kept = kept(name);
            keep(c, kept, Value::Literal(String::new()), steps);
        }
        "HTTP_SC" => {
            let value = needed(c, item)?;
            if let Value::Literal(status) = &value
                && !status.parse::<u16>().is_ok_and(|status| (200..600).contains(&status))
            {
                return Err(format!("`{status}` is not the status of a reply"));
            }
            if matches!(value, Value::Path(_, XPathType::Number)) {
                return Err(
                    "a number with a fraction, as all that are computed, does not become a status there"
                        .to_owned(),
                );
            }
            keep(c, KeptProperty::Status, value, steps);
        }
        "HTTP_METHOD" => {
            let value = match needed(c, item)? {
                Value::Literal(method) => Value::Literal(method.to_ascii_uppercase()),
                value @ (Value::Path(..) | Value::Cel(_)) => value,
            };
            keep(c, KeptProperty::Method, value, steps);
        }
        "REST_URL_POSTFIX" => {
            let value = needed(c, item)?;
            keep(c, KeptProperty::Postfix, value, steps);
        }
        "messageType" => {
            let Value::Literal(kind) = needed(c, item)? else {
                return Err("a message type that is computed has no counterpart".to_owned());
            };
            message_type(c, &kind, steps)?;
        }
        "ContentType" | "Content-Type" if removes => c.flow.pending.content_type = None,
        "ContentType" | "Content-Type" => {
            let kind = c.flow.pending.message_type.as_deref();
            let is_soap = |kind: &str| matches!(kind, "text/xml" | "application/soap+xml");
            if !c.flow.is_form && kind.is_none_or(is_soap) {
                c.note("SOAP gets it too, for which Synapse keeps its own unless `messageType` is another");
            }
            let value = needed(c, item)?;
            let value = c.text_placeholder(&value);
            if !std::mem::take(&mut c.flow.is_form) {
                c.flow.pending.content_type = Some(value);
            }
        }
        "NO_ENTITY_BODY" if is_true => steps.push(json!({ "payload": { "text": "" } })),
        "OUT_ONLY" | "FORCE_SC_ACCEPTED" => c.flow.pending.one_way = is_true,
        // Harmless: according to the table, the gateway does this anyway.
        _ => {}
    }
    Ok(())
}

fn kept(name: &str) -> KeptProperty {
    match name {
        "HTTP_SC" => KeptProperty::Status,
        "HTTP_METHOD" => KeptProperty::Method,
        "messageType" => KeptProperty::MessageType,
        _ => KeptProperty::Postfix,
    }
}

/// Keeps a property for a later call or reply: a literal directly, and any other value in a variable, since it is
/// computed now.
pub(in super::super) fn keep<'a>(
    c: &mut Converter<'a>,
    kept: KeptProperty,
    value: Value,
    steps: &mut Vec<Json>,
) {
    let literal = match &value {
        Value::Literal(text) if !c.keeps(kept) => Some(text.clone()),
        Value::Literal(_) | Value::Path(..) | Value::Cel(_) => None,
    };
    let variable = c.kept_variable(kept);
    if literal.is_none() {
        steps.push(json!({ "set": { variable.clone(): typed(&value, "STRING") } }));
    }
    if c.keeps(kept) {
        return;
    }
    let pending = &mut c.flow.pending;
    let template = format!("{{{{ ${variable} }}}}");
    let text = literal.clone().filter(|text| !text.is_empty());
    match kept {
        KeptProperty::Status => {
            pending.status = if literal.is_some() { text } else { Some(template) }
        }
        KeptProperty::Method => {
            pending.method = if literal.is_some() { text } else { Some(template) }
        }
        KeptProperty::Postfix => {
            pending.postfix = Some(match literal {
                Some(text) => Postfix::Text(text),
                None => Postfix::Computed(format!("${variable}")),
            });
        }
        KeptProperty::MessageType => pending.message_type = text,
        KeptProperty::Response => pending.is_reply = text.is_some(),
        KeptProperty::To => {
            pending.has_computed_to = literal.is_none();
            pending.to = text;
            pending.rewritten = None;
        }
    }
}

/// Sets the format in which the message is sent.
fn message_type(c: &mut Converter<'_>, kind: &str, steps: &mut Vec<Json>) -> Result<(), String> {
    // Harmless: the media type is a part of a valid text, so no character is replaced.
    let plain = String::from_utf8_lossy(message::media_type(kind.as_bytes())).to_ascii_lowercase();
    if plain == FORM && c.flow.is_form {
        return Ok(());
    }
    if conversion(&plain).is_empty() {
        return Err(format!("messages are not written as `{plain}`"));
    }
    keep(c, KeptProperty::MessageType, Value::Literal(plain), steps);
    Ok(())
}

/// The steps that write a message in the format of a media type. Empty if the media type is unknown.
pub(in super::super) fn conversion(kind: &str) -> Vec<Json> {
    let to = |to: &str| json!({ "convert": { "to": to } });
    match kind {
        "application/json" => vec![json!({ "convert": { "to": "json", "types": true } })],
        "application/xml" => {
            vec![json!({ "convert": { "to": "xml", "root": "jsonObject" } }), to("pox")]
        }
        "text/xml" => vec![to("soap11")],
        "application/soap+xml" => vec![to("soap12")],
        "text/plain" => vec![to("text")],
        _ => Vec::new(),
    }
}

/// `propertyGroup`: its properties, one after the other.
pub(super) fn group<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    steps.extend(c.steps(&item.children()).0);
    Ok(Next::Continue)
}

/// `variable`: as a property of the message.
pub(super) fn variable<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let name = item.attribute("name").ok_or("it has no name")?;
    let variable = c.out.variable(name);
    if item.is("action", "remove") {
        steps.push(json!({ "set": { variable: "" } }));
        return Ok(Next::Continue);
    }
    let value = match item.children().first() {
        Some(_) => json!({ "value": item.content(), "type": "xml" }),
        None => typed(&needed(c, item)?, item.attribute("type").unwrap_or("STRING")),
    };
    steps.push(json!({ "set": Map::from_iter([(variable, value)]) }));
    Ok(Next::Continue)
}
