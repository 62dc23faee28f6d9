//! Properties and variables: values that steps share, headers, and words about the next call or reply.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::expressions::Value;
use super::super::xpath_text::Gives;

/// Properties of axis2 that are about how bytes are sent, which the gateway decides by itself.
const IDLE: [&str; 12] = [
    "DISABLE_CHUNKING",
    "FORCE_HTTP_1.0",
    "PRESERVE_WS_ADDRESSING",
    "FORCE_HTTP_CONTENT_LENGTH",
    "COPY_CONTENT_LENGTH_FROM_INCOMING",
    "ClientApiNonBlocking",
    "transportNonBlocking",
    "enableMTOM",
    "enableSwA",
    "setCharacterEncoding",
    "CHARACTER_SET_ENCODING",
    "POST_TO_URI",
];

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
    if item.attribute("pattern").is_some() {
        return Err("a part of a value by a regular expression has no counterpart".to_owned());
    }
    let removes = item.is("action", "remove");
    match item.attribute("scope").unwrap_or("default") {
        "default" | "synapse" | "operation" => own(c, item, name, removes, steps)?,
        "transport" if removes => steps.push(json!({ "header": { "remove": [name] } })),
        "transport" => {
            let value = needed(c, item)?;
            let value = c.placeholder(&value);
            steps.push(json!({ "header": { "set": { name: value } } }));
        }
        "axis2" | "axis2-client" => axis2(c, item, name, removes, steps)?,
        scope => {
            return Err(format!("properties of the scope `{scope}` have no counterpart"));
        }
    }
    Ok(Next::Continue)
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
            c.flow.pending.is_reply = item.is("value", "true");
            return Ok(());
        }
        "OUT_ONLY" => {
            c.flow.pending.one_way = item.is("value", "true");
            return Ok(());
        }
        "FORCE_ERROR_ON_SOAP_FAULT" => {
            c.flow.pending.fault_on_fault = item.is("value", "true");
            c.note("a SOAP fault of the service is told by its status 5xx");
            return Ok(());
        }
        // Sets the behaviour that Synapse has without it too.
        "preserveProcessedHeaders" | "PRESERVE_WS_ADDRESSING" | "enableREST" => {
            c.note("it has no effect here");
            return Ok(());
        }
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

/// A value with its type. Of elements, Synapse keeps the text unless the type says otherwise.
pub(super) fn typed(value: &Value, kind: &str) -> Json {
    let expression = value.expression();
    let kind = match kind.to_ascii_uppercase().as_str() {
        "OM" | "XML" => "xml",
        "JSON" => "json",
        "BOOLEAN" => "boolean",
        "INTEGER" | "LONG" | "SHORT" | "FLOAT" | "DOUBLE" => "number",
        _ => match value {
            Value::Path(_, Gives::Elements | Gives::Nodes) => "text",
            Value::Literal(_) | Value::Path(_, Gives::Other) | Value::Cel(_) => return expression,
        },
    };
    let is_nodes = matches!(value, Value::Path(_, Gives::Elements | Gives::Nodes));
    match kind {
        "xml" if is_nodes => expression,
        _ => json!({ "value": expression, "type": kind }),
    }
}

/// Properties of axis2: they say how the next call or reply is made.
fn axis2<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    name: &str,
    removes: bool,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    let literal = item.raw("value").map(str::trim);
    let is_true = literal.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    match name {
        "REST_URL_POSTFIX" if removes => c.flow.pending.postfix = Some(String::new()),
        "REST_URL_POSTFIX" => {
            let value = needed(c, item)?;
            c.flow.pending.postfix = Some(c.placeholder(&value));
        }
        "HTTP_SC" => match literal {
            Some(status)
                if status.parse::<u16>().is_ok_and(|status| (100..600).contains(&status)) =>
            {
                c.flow.pending.status = Some(status.to_owned());
            }
            _ => return Err("a status that is computed has no counterpart".to_owned()),
        },
        "HTTP_METHOD" => match literal {
            Some(method) => c.flow.pending.method = Some(method.to_ascii_uppercase()),
            None => return Err("a method that is computed has no counterpart".to_owned()),
        },
        "messageType" | "ContentType" if !removes => content_type(c, name, literal, steps)?,
        "NO_ENTITY_BODY" if is_true => {
            c.note("the body is empty, and the content type that of text");
            steps.push(json!({ "payload": { "text": "" } }));
        }
        "NO_ENTITY_BODY" => {}
        "OUT_ONLY" | "FORCE_SC_ACCEPTED" => c.flow.pending.one_way = is_true,
        "TRANSPORT_HEADERS" => {
            return Err("all headers at once cannot be removed; name them in `header: { remove }`"
                .to_owned());
        }
        _ if IDLE.contains(&name) => c.note("it has no effect here"),
        _ => return Err(format!("the property `{name}` of axis2 has no counterpart")),
    }
    Ok(())
}

/// The form in which the message is sent.
fn content_type(
    c: &mut Converter<'_>,
    name: &str,
    literal: Option<&str>,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    let Some(kind) = literal else {
        return Err("a content type that is computed has no counterpart".to_owned());
    };
    let plain = message::media_type(kind.as_bytes()).to_ascii_lowercase();
    // Harmless: it is a part of a text.
    let plain = String::from_utf8_lossy(&plain);
    if plain == FORM && std::mem::take(&mut c.flow.is_form) {
        return Ok(());
    }
    let to = match &*plain {
        "application/json" => Some("json"),
        "application/xml" | "text/xml" | "application/soap+xml" => Some("xml"),
        "text/plain" => Some("text"),
        _ => None,
    };
    match (name, to) {
        ("messageType", Some(to)) => {
            c.note("the message is converted here, not when it is sent");
            steps.push(json!({ "convert": { "to": to } }));
        }
        ("messageType", None) => return Err(format!("messages are not written as `{plain}`")),
        _ => steps.push(json!({ "header": { "set": { "content-type": kind } } })),
    }
    Ok(())
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
