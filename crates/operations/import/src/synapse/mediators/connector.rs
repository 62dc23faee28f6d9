//! Converts operations of the HTTP connector, such as `http.get`. A local entry describes the connection that they use.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;

/// The supported settings of a connection. Others are refused, because they would be lost.
const CONNECTION: [&str; 4] = ["name", "connectionName", "baseUrl", "connectionType"];

/// Converts one operation to a call.
pub(super) fn operation<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let key = item.attribute("configKey").ok_or("the attribute `configKey` is missing")?;
    let entry = c.artifacts.entries.get(key).copied();
    let entry =
        entry.ok_or_else(|| format!("the connection `{key}` is not among the artifacts"))?;
    let init = entry
        .child("http.init")
        .ok_or_else(|| format!("the entry `{key}` is not an HTTP connection"))?;
    for part in init.children() {
        let is_empty = part.text().is_empty();
        if !CONNECTION.contains(&part.name()) && !is_empty {
            return Err(format!(
                "the setting `{}` of the connection `{key}` is not supported",
                part.name()
            ));
        }
    }
    let base =
        init.text_of("baseUrl").ok_or_else(|| format!("the connection `{key}` has no URL"))?;
    let mut target = c.address(item, &base)?;
    target.is_exact = true;
    if let Some(path) = item.text_of("relativePath").filter(|path| !path.is_empty()) {
        let path = c.template(item, &path)?;
        let (path, query) =
            path.split_once('?').map_or((path.as_str(), None), |(path, query)| (path, Some(query)));
        let slash = if path.starts_with('/') { "" } else { "/" };
        target.path = format!("{}{slash}{path}", target.path.trim_end_matches('/'));
        target.query = query.map(str::to_owned);
    }
    if item.text_of("headers").is_some_and(|headers| !matches!(headers.as_str(), "" | "[]")) {
        return Err(
            "headers of one operation have no counterpart; use a `header` mediator before it"
                .to_owned(),
        );
    }
    let operation = item.name().strip_prefix("http.").unwrap_or("get");
    target.method = Some(operation.to_ascii_uppercase());
    body(c, item, steps)?;
    c.call(&target, Map::new(), steps)?;
    steps.extend(c.begin_kept());
    Ok(Next::Continue)
}

/// Adds a step that sets the body, if the operation defines one.
fn body<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<(), String> {
    // Harmless: without a type the message is sent unchanged.
    let kind = item.text_of("requestBodyType").unwrap_or_default();
    let (part, made) = match kind.to_ascii_uppercase().as_str() {
        "" | "NONE" => return Ok(()),
        "JSON" => ("requestBodyJson", "json"),
        "XML" => ("requestBodyXml", "xml"),
        "TEXT" => ("requestBodyText", "text"),
        other => return Err(format!("a body of the type `{other}` has no counterpart")),
    };
    let written = item.child(part).ok_or_else(|| format!("it has no `{part}`"))?;
    let text = c.template(&written, &written.content())?;
    steps.push(json!({ "payload": { made: text } }));
    Ok(())
}
