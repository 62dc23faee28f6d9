//! Mediators that transform or validate by a document.

use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;

/// The input of a transformation in Synapse: the first element in the Body of SOAP, and the root of other XML.
pub(super) const PAYLOAD: &str = "(/soap:Envelope/soap:Body/* | /soap12:Envelope/soap12:Body/* | /*[not(self::soap:Envelope or self::soap12:Envelope)])[1]";

/// `xslt`: its stylesheet becomes a file.
pub(super) fn xslt<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let key = item.attribute("key").ok_or("it has no stylesheet")?;
    if key.contains('{') {
        return Err("a stylesheet that is computed has no counterpart".to_owned());
    }
    // Each of these expressions means the content of the Body.
    let whole = ["$body", "$body/*", "$body/*[1]", "$body/child::*", "//*[1]"];
    let of = match item.attribute("source").filter(|source| !whole.contains(source)) {
        Some(source) => c.expression(item, source)?.expression(),
        None => json!({ "xpath": PAYLOAD }),
    };
    let written = c.artifacts.resource(key)?;
    // Harmless: for a stylesheet that is not UTF-8, only the note may be missing.
    if String::from_utf8_lossy(&written.content).contains("method=\"text\"") {
        c.note("the text that it makes stands in an element `text` there");
    }
    let stylesheet = file(c, key, "xsl")?;
    for resource in item.all("resource") {
        let (location, key) = (resource.attribute("location"), resource.attribute("key"));
        if let (Some(location), Some(key)) = (location, key) {
            let found = c.artifacts.resource(key)?;
            let path = c.out.file(found, "xsl");
            if path != location {
                c.note(&format!("the stylesheet names `{location}`, which is the file `{path}`"));
            }
        }
    }
    let mut keys =
        Map::from_iter([("stylesheet".to_owned(), json!(stylesheet)), ("of".to_owned(), of)]);
    let mut parameters = Map::new();
    for property in item.all("property") {
        let name = property.attribute("name").ok_or("a parameter without a name")?;
        if let Some(value) = c.value(&property, "value", "expression")? {
            parameters.insert(name.to_owned(), value.as_text().expression());
        }
    }
    if !parameters.is_empty() {
        keys.insert("parameters".to_owned(), Json::Object(parameters));
    }
    steps.push(json!({ "xslt": keys }));
    Ok(Next::Continue)
}

/// The file for a key.
fn file(c: &mut Converter<'_>, key: &str, ending: &str) -> Result<String, String> {
    let resource = c.artifacts.resource(key)?;
    Ok(c.out.file(resource, ending))
}

/// `validate`: a schema, and the mediators that run if the message is not valid.
pub(super) fn validate<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let schemas = item.all("schema");
    let [schema] = schemas.as_slice() else {
        return Err("several schemas at once have no counterpart; import them from one".to_owned());
    };
    let key = schema.attribute("key").ok_or("it has no schema")?;
    let resource = c.artifacts.resource(key)?;
    let is_json = resource.content.trim_ascii_start().starts_with(b"{");
    let (word, ending) = if is_json { ("json_schema", "json") } else { ("schema", "xsd") };
    let of = match item.attribute("source") {
        Some(source) if !is_json || !source.is_empty() => Some(c.expression(item, source)?),
        _ => None,
    };
    if item.child("resource").is_some() {
        c.note("what the schema imports is looked for beside it");
    }
    let path = c.out.file(resource, ending);
    let mut keys = Map::from_iter([(word.to_owned(), json!(path))]);
    keys.extend(of.map(|of| ("of".to_owned(), of.expression())));
    if let Some(fails) = item.child("on-fail") {
        let outer = std::mem::replace(&mut c.flow.in_on_fail, true);
        let made = c.branch(&fails.children()).0;
        c.flow.in_on_fail = outer;
        keys.insert("else".to_owned(), Json::Array(made));
    }
    steps.push(json!({ "validate": keys }));
    Ok(Next::Continue)
}

/// `jsontransform`: XML to JSON, without the types of a schema.
pub(super) fn json(steps: &mut Vec<Json>) -> Result<Next, String> {
    steps.push(json!({ "convert": { "to": "json", "types": true } }));
    Ok(Next::Continue)
}
