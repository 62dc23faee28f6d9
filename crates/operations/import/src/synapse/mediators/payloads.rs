//! Mediators that make a whole message: from a template, or a SOAP fault.

use serde_json::{Map, Value as Json, json};
use wsdl::{SOAP_11, SOAP_12};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::pending::KeptProperty;
use super::super::value::{Value, escaped};
use super::super::xpath_text::XPathType;
use super::properties::{self, FORM};

/// `payloadFactory`: its format as a template, its arguments as placeholders.
pub(super) fn payload<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    rest: &[Element<'a>],
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    if item.is("template-type", "freemarker") {
        return Err("FreeMarker is not run; write the format with `{{ }}`".to_owned());
    }
    let format = item.child("format").ok_or("it has no format")?;
    let written = match format.attribute("key") {
        Some(key) => c.artifacts.resource(key)?.text()?,
        None => format.content(),
    };
    let kind = match item.attribute("media-type").unwrap_or("xml") {
        kind @ ("xml" | "json" | "text") => kind,
        other => return Err(format!("the media type `{other}` has no counterpart")),
    };
    // As in Synapse, without `messageType` only a payload of text becomes a form. Any other payload just gets the content type.
    let written_as_form = becomes_form(rest).filter(|formatter| *formatter || kind == "text");
    let kind_of_values = if written_as_form.is_some() { "text" } else { kind };
    let arguments = item.child("args").map_or_else(Vec::new, |args| args.all("arg"));
    let arguments: Vec<String> = arguments
        .iter()
        .map(|argument| placeholder(c, argument, kind_of_values))
        .collect::<Result<_, _>>()?;
    if written_as_form.is_some() {
        let made = form(c, &format, kind, &written, &arguments)?;
        c.flow.is_form = true;
        steps.push(json!({ "payload": { "form": made } }));
        return Ok(Next::Continue);
    }
    let text = c.template(&format, &written)?;
    let filled = filled(&text, &arguments)?;
    if kind == "json" && unquoted(&text) {
        c.note(
            "a value without quotes around it is written as the JSON it is: text of XML in quotes",
        );
    }
    steps.push(json!({ "payload": { kind: filled } }));
    // The payload itself sets the type of the message.
    properties::keep(c, KeptProperty::MessageType, Value::Literal(String::new()), steps);
    Ok(Next::Continue)
}

/// Whether the mediators that follow make the message a form: by `messageType` (true), or by the content type alone (false). `None` if
/// they do not, or if another mediator sends or replaces the message first.
fn becomes_form(rest: &[Element<'_>]) -> Option<bool> {
    let keeps = |item: &&Element<'_>| matches!(item.name(), "property" | "header" | "log");
    rest.iter().take_while(keeps).find_map(|item| {
        let kind = item.raw("value").map(|kind| message::media_type(kind.as_bytes()));
        let is_form = kind.is_some_and(|kind| kind.eq_ignore_ascii_case(FORM.as_bytes()))
            && !item.is("action", "remove");
        let is_axis2 = matches!(item.attribute("scope"), Some("axis2" | "axis2-client"));
        match item.attribute("name") {
            Some("messageType") if is_form && is_axis2 => Some(true),
            Some("ContentType") if is_form && is_axis2 => Some(false),
            _ => None,
        }
    })
}

/// Converts a format to a form. XML and JSON give the fields of their root, and a text is the whole form.
fn form<'a>(
    c: &mut Converter<'a>,
    format: &Element<'a>,
    kind: &str,
    written: &str,
    arguments: &[String],
) -> Result<Json, String> {
    let fields = match kind {
        "text" => {
            c.note("the values of the form are percent-encoded; Synapse writes them as they are");
            let text = c.template(format, written)?;
            return Ok(json!(filled(&text, arguments)?));
        }
        "json" => json_fields(written),
        _ => xml_fields(format),
    };
    let fields = fields.ok_or(
        "a form is made of a format with one level of fields; write `payload: { form }` for it",
    )?;
    let mut made = Map::new();
    for (name, text) in fields {
        let text = c.template(format, &text)?;
        if made.insert(name.clone(), json!(filled(&text, arguments)?)).is_some() {
            return Err(format!(
                "the form has the field `{name}` twice; write `payload: {{ form }}` for it"
            ));
        }
    }
    Ok(Json::Object(made))
}

/// The fields of a format in XML: the elements in its root, each with text alone.
fn xml_fields(format: &Element<'_>) -> Option<Vec<(String, String)>> {
    let children = format.children();
    let [root] = children.as_slice() else { return None };
    let field = |field: &Element<'_>| {
        field.children().is_empty().then(|| (field.name().to_owned(), field.text()))
    };
    let fields: Vec<_> = root.children().iter().map(field).collect::<Option<_>>()?;
    (!fields.is_empty()).then_some(fields)
}

/// The fields of a format in JSON: the members of an object, each a string, a number or a placeholder.
fn json_fields(written: &str) -> Option<Vec<(String, String)>> {
    let quoted = quoted_placeholders(written);
    let Ok(Json::Object(members)) = config::json_text(&quoted) else { return None };
    let field = |(name, value): (&String, &Json)| match value {
        Json::String(text) => Some((name.clone(), text.clone())),
        Json::Number(_) | Json::Bool(_) => Some((name.clone(), value.to_string())),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    };
    let fields: Vec<_> = members.iter().map(field).collect::<Option<_>>()?;
    (!fields.is_empty()).then_some(fields)
}

/// The format with quotes around each `$1` outside of strings.
fn quoted_placeholders(written: &str) -> String {
    let (mut out, mut is_quoted, mut before) = (String::new(), false, ' ');
    let mut rest = written.chars().peekable();
    while let Some(c) = rest.next() {
        is_quoted ^= c == '"' && before != '\\';
        let begins = c == '$' && !is_quoted && rest.peek().is_some_and(char::is_ascii_digit);
        if begins {
            out.push_str("\"$");
            while let Some(digit) = rest.next_if(char::is_ascii_digit) {
                out.push(digit);
            }
            out.push('"');
        } else {
            out.push(c)
        }
        before = c;
    }
    out
}

/// True if a `$1` is outside of a JSON string.
fn unquoted(text: &str) -> bool {
    let mut quoted = false;
    let mut before = ' ';
    for c in text.chars() {
        match c {
            '"' if before != '\\' => quoted = !quoted,
            c if before == '$' && !quoted && c.is_ascii_digit() => return true,
            // Harmless: any other character is not a placeholder.
            _ => {}
        }
        before = c;
    }
    false
}

/// The placeholder for `$n`. Synapse writes the text of an element that only has text, and the markup of any other element.
fn placeholder<'a>(
    c: &mut Converter<'a>,
    argument: &Element<'a>,
    kind: &str,
) -> Result<String, String> {
    let value = c.value(argument, "value", "expression")?.ok_or("an argument without a value")?;
    Ok(match &value {
        Value::Literal(text) if kind == "xml" => {
            let mut plain = String::new();
            xml::escape_text(text, &mut plain);
            escaped(&plain)
        }
        // Synapse writes a whole JSON message as the elements of its members.
        Value::Path(text, _) if kind == "xml" && text == "$body" => {
            let around = "*[local-name()='jsonObject' or local-name()='jsonArray']";
            format!("{{{{ $infoset_body/{around}/* }}}}")
        }
        Value::Path(text, XPathType::Elements)
            if kind == "xml" && !argument.is("literal", "true") =>
        {
            format!("{{{{ {text}[not(*)]/text() | {text}[*] }}}}")
        }
        Value::Path(text, XPathType::Nodes) if kind == "xml" && text.ends_with('*') => {
            c.note(
                "an element without elements in it is written as an element, as in Micro Integrator; Synapse writes its text",
            );
            c.placeholder(&value)
        }
        Value::Path(text, XPathType::Other)
            if kind == "xml"
                && ["$body.", "$body["].iter().any(|of_json| text.starts_with(of_json)) =>
        {
            c.note(
                "an object or a list of JSON in it is written as its text; Synapse writes elements",
            );
            c.placeholder(&value)
        }
        Value::Path(_, XPathType::Elements | XPathType::Nodes | XPathType::Texts)
            if kind != "xml" =>
        {
            c.text_placeholder(&value)
        }
        Value::Path(_, XPathType::Number) if kind != "json" => c.text_placeholder(&value),
        Value::Literal(_) | Value::Path(..) | Value::Cel(_) => c.placeholder(&value),
    })
}

/// A format with its arguments put in.
fn filled(format: &str, arguments: &[String]) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), format);
    while let Some((front, behind)) = rest.split_once('$') {
        out.push_str(front);
        let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
        let (number, after) = behind.split_at_checked(digits).unwrap_or(("", behind));
        // A `$` before a name belongs to an existing placeholder.
        match number.parse::<usize>() {
            Ok(number) => {
                let argument = number.checked_sub(1).and_then(|at| arguments.get(at));
                out.push_str(
                    argument.ok_or_else(|| format!("there is no argument for `${number}`"))?,
                );
            }
            Err(_) => out.push('$'),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

/// `makefault`: replaces the message with a fault in the same format.
pub(super) fn makefault<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let reason = match item.child("reason") {
        Some(reason) => c.value(&reason, "value", "expression")?,
        None => None,
    };
    let form = plain_form(item);
    let detail = match item.child("detail") {
        Some(detail) => match detail.attribute("expression") {
            Some(text) => Some(c.expression(&detail, text)?),
            None => Some(Value::Literal(detail.content())),
        },
        None => None,
    };
    let code = item.child("code");
    if code.is_some_and(|code| code.attribute("expression").is_some()) {
        return Err("a code that is computed has no counterpart".to_owned());
    }
    let code = code.and_then(|code| code.attribute("value")).unwrap_or("Server");
    let local = code.rsplit(':').next().unwrap_or(code);
    if !matches!(local, "Client" | "Sender" | "Server" | "Receiver") {
        c.note("the code is that of the server");
    }
    let is_client = matches!(local, "Client" | "Sender");
    let detail = match detail {
        Some(value @ Value::Path(_, XPathType::Elements | XPathType::Nodes)) => {
            c.placeholder(&value)
        }
        detail => as_markup(c, detail),
    };
    let reason = as_markup(c, reason);
    let payload = |xml: &str| json!([{ "payload": { "xml": xml } }]);
    let (first, second) =
        (soap11(is_client, &reason, &detail), soap12(is_client, &reason, &detail));
    let plain = payload(&form.unwrap_or_else(|| format!("<Exception>{reason}</Exception>")));
    let whole = |namespace: &str, fault: &str| {
        payload(&format!(
            "<s:Envelope xmlns:s=\"{namespace}\"><s:Body>{fault}</s:Body></s:Envelope>"
        ))
    };
    // The message is written in its own type: XML without SOAP has no other form for a fault. A fault in the
    // message's own SOAP version is put into its envelope, whose header is kept.
    let (of_11, of_12) = match item.attribute("version") {
        Some("soap11") => (payload(&first), whole(SOAP_11, &first)),
        Some("soap12") => (whole(SOAP_12, &second), payload(&second)),
        Some("pox") => (plain.clone(), plain.clone()),
        _ => (payload(&first), payload(&second)),
    };
    let cases = json!([
        { "matches": "(?i)^application/soap\\+xml", "steps": of_12 },
        { "matches": "(?i)^text/xml", "steps": of_11 },
    ]);
    steps.push(json!({
        "switch": { "on": "$headers.content-type", "cases": cases, "default": plain },
    }));
    faulty(c, steps);
    if item.is("response", "true") {
        properties::keep(c, KeptProperty::Response, Value::Literal("true".to_owned()), steps);
    }
    Ok(Next::Continue)
}

/// The plain XML of a fault with a literal detail: the first element of the detail, or an empty `Exception` if the detail is text.
/// `None` without such a detail. The plain XML is then made of the reason.
fn plain_form(item: &Element<'_>) -> Option<String> {
    let detail = item.child("detail").filter(|detail| detail.attribute("expression").is_none())?;
    let first = detail.children().into_iter().next();
    Some(first.map_or_else(|| "<Exception/>".to_owned(), |first| escaped(&first.markup())))
}

/// Lets the fault be sent to the client with status 500, unless a property sets another status.
fn faulty(c: &mut Converter<'_>, steps: &mut Vec<Json>) {
    if !c.keeps(KeptProperty::Status) {
        c.flow.pending.status.get_or_insert_with(|| "500".to_owned());
        return;
    }
    let variable = c.kept_variable(KeptProperty::Status);
    let value = format!("vars.{variable} == '' ? '500' : vars.{variable}");
    steps.push(json!({ "set": { variable: { "cel": value } } }));
}

/// A value as a part of a template of XML: a text is escaped.
fn as_markup(c: &mut Converter<'_>, value: Option<Value>) -> String {
    match value {
        Some(Value::Literal(text)) => {
            let mut plain = String::new();
            xml::escape_text(&text, &mut plain);
            escaped(&plain)
        }
        Some(value @ (Value::Path(..) | Value::Cel(_))) => c.text_placeholder(&value),
        None => String::new(),
    }
}

fn soap11(is_client: bool, reason: &str, detail: &str) -> String {
    let code = if is_client { "Client" } else { "Server" };
    let detail =
        if detail.is_empty() { String::new() } else { format!("<detail>{detail}</detail>") };
    format!(
        "<s:Fault xmlns:s=\"{SOAP_11}\"><faultcode>s:{code}</faultcode><faultstring>{reason}</faultstring>{detail}</s:Fault>"
    )
}

fn soap12(is_client: bool, reason: &str, detail: &str) -> String {
    let code = if is_client { "Sender" } else { "Receiver" };
    let detail =
        if detail.is_empty() { String::new() } else { format!("<s:Detail>{detail}</s:Detail>") };
    format!(
        "<s:Fault xmlns:s=\"{SOAP_12}\"><s:Code><s:Value>s:{code}</s:Value></s:Code><s:Reason><s:Text xml:lang=\"en\">{reason}</s:Text></s:Reason>{detail}</s:Fault>"
    )
}
