//! The action of a message: `SOAPAction`, or in SOAP 1.2 a parameter of the content type.
//!
//! Owns the expression that reads it, and the steps that set it and keep it when the version of SOAP changes.

use serde_json::{Value as Json, json};

use super::converter::Converter;
use super::value::{Value, escaped};

/// The action in the content type, up to a semicolon as in Synapse. Empty if there is none.
const OF_TYPE: &str = r#"translate(substring-before(concat(substring-after($headers.content-type, 'action='), ';'), ';'), '" ', '')"#;

/// The action in the header.
const OF_HEADER: &str = r#"translate($headers.SOAPAction, '"', '')"#;

/// The content type of SOAP 1.2 without an action. It keeps the character set, in which the message may have been sent.
const TYPE_12: &str = "application/soap+xml{{ concat(substring('; charset=', 1 + 9999999 * not(contains($headers.content-type, 'charset='))), substring-before(concat(substring-after($headers.content-type, 'charset='), ';'), ';')) }}";

/// The expression of the action.
pub(super) fn expression() -> String {
    let beside = "1 + 9999999 * contains($headers.content-type, 'action=')";
    format!("concat({OF_TYPE}, substring({OF_HEADER}, {beside}))")
}

/// The step that sets the action.
pub(super) fn set(c: &mut Converter<'_>, value: &Value) -> Json {
    c.flow.pending.has_action = true;
    let value = value.as_text();
    let text = match &value {
        Value::Literal(text) => escaped(text.trim_matches('"')),
        Value::Path(text, _) => format!("{{{{ translate({text}, '\"', '') }}}}"),
        Value::Cel(_) => c.placeholder(&value),
    };
    if text.is_empty() {
        return removed();
    }
    let in_type = set_header("content-type", &format!("{TYPE_12}; action=\"{text}\""));
    let in_header = set_header("SOAPAction", &format!("\"{text}\""));
    let cases = json!([{ "matches": "(?i)^application/soap\\+xml", "steps": [in_type] }]);
    let made = json!({ "switch": { "on": "$headers.content-type", "cases": cases, "default": [in_header] } });
    match value {
        Value::Literal(_) => made,
        Value::Path(..) | Value::Cel(_) => {
            let when = value.expression();
            json!({ "filter": { "when": when, "then": [made], "else": [removed()] } })
        }
    }
}

/// The step that removes the action of a SOAP 1.2 message. `SOAPAction` of the request is sent nevertheless.
pub(super) fn removed() -> Json {
    let when =
        json!({ "value": "$headers.content-type", "matches": "(?i)^application/soap\\+xml" });
    json!({ "filter": { "when": when, "then": [set_header("content-type", TYPE_12)] } })
}

/// The step before a message becomes SOAP 1.1.
pub(super) fn into_header() -> Json {
    let set = set_header("SOAPAction", &format!("\"{{{{ {OF_TYPE} }}}}\""));
    json!({ "filter": { "when": OF_TYPE, "then": [set] } })
}

/// The step after a message has become SOAP 1.2. If something set the action, `SOAPAction` becomes that of the request again.
pub(super) fn into_type(was_set: bool) -> Json {
    let when = format!("{OF_HEADER} != '' and not(contains($headers.content-type, 'action='))");
    let set = set_header("content-type", &format!("{TYPE_12}; action=\"{{{{ {OF_HEADER} }}}}\""));
    let mut steps = vec![set];
    if was_set {
        let came = "$request.headers.SOAPAction";
        let again = set_header("SOAPAction", &format!("{{{{ {came} }}}}"));
        let none = json!({ "header": { "remove": ["SOAPAction"] } });
        steps.push(json!({ "filter": { "when": came, "then": [again], "else": [none] } }));
    }
    json!({ "filter": { "when": when, "then": steps } })
}

fn set_header(name: &str, value: &str) -> Json {
    json!({ "header": { "set": { name: value } } })
}
