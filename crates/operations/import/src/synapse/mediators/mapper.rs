//! `datamapper`: its program, which maps JSON or XML to JSON or XML, becomes a step `script`.
//!
//! The titles of the two schemas name the program's function and its input. XML is read by the input schema before the program runs, and
//! written by the names and namespaces of its result. Both are JavaScript too, and follow the reader and the writer of Micro Integrator.

mod schema;

use serde_json::{Map, Value as Json, json};

use self::schema::{HYPHEN, Schema};
use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::pending::KeptProperty;
use super::super::value::Value;
use super::{properties, script};

/// The function of mappings that are written in TypeScript. It takes the message as its argument.
const TYPED: &str = "mapFunction";

/// Names that only Synapse's engine has: the properties of the message, and what divides a name from its `xsi:type`.
const FOREIGN: [&str; 2] = ["DM_PROPERTIES", "_Separat0r_"];

const READER: &str = include_str!("mapper/read.js");
const WRITER: &str = include_str!("mapper/write.js");

const OF_JSON: &str = "JSON is mapped without the schemas: members that are null are written, \
    and members that the output schema does not name are kept";
const OF_STYLESHEET: &str =
    "the mapping is run and not its stylesheet, which Synapse runs for a mapping of XML to XML";
const OF_XML_IN: &str = "an element that the input schema does not have at its place is a fault, and so is an empty number; \
    in Synapse it depends on the version";
const OF_XML_OUT: &str =
    "a value that is null or undefined is left out of XML; in Synapse it depends on the version";

pub(super) fn mapper<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    let kind = |name: &str| item.attribute(name).ok_or_else(|| format!("it has no `{name}`"));
    let (reads_xml, writes_xml) = (kind("inputType")? == "XML", kind("outputType")? == "XML");
    let key = item.attribute("config").ok_or("it has no mapping")?;
    if key.contains('{') {
        return Err("a mapping that is computed has no counterpart".to_owned());
    }
    let program = script::source(c, key)?;
    if let Some(name) = FOREIGN.into_iter().find(|name| program.contains(name)) {
        return Err(format!("`{name}` of its mapping is not there for scripts"));
    }
    if let Some((name, _)) = script::foreign(&program) {
        return Err(format!("`{name}` of its mapping is not there for scripts"));
    }
    if reads_xml && names_parents(&program) {
        return Err("the attributes of elements with text alone, in `ATTR` of its mapping, have other names in each version".to_owned());
    }
    let text = text(c, item, &program, reads_xml, writes_xml)?;
    let mut keys = Map::from_iter([("js".to_owned(), json!(text))]);
    if reads_xml {
        keys.insert("values".to_owned(), json!({ "payload": "$infoset_payload" }));
        c.note(OF_XML_IN);
    }
    if writes_xml {
        let (made, nodes) = (c.out.variable("mapper.made"), c.out.variable("mapper.nodes"));
        keys.insert("into".to_owned(), json!(made));
        steps.push(json!({ "script": keys }));
        let set = json!({ nodes.clone(): { "value": format!("${made}"), "type": "xml" } });
        steps.push(json!({ "set": set }));
        steps.push(json!({ "payload": { "from": format!("${nodes}") } }));
        c.note(OF_XML_OUT);
        if reads_xml && item.attribute("xsltStyleSheet").is_some() {
            c.note(OF_STYLESHEET);
        }
    } else {
        steps.push(json!({ "script": keys }));
    }
    if !reads_xml || !writes_xml {
        c.note(OF_JSON);
    }
    // The mediator replaces the message type and the content type, whatever they were before.
    let kind = if writes_xml { "application/xml" } else { "" };
    properties::keep(c, KeptProperty::MessageType, Value::Literal(kind.to_owned()), steps);
    c.flow.pending.content_type = None;
    Ok(Next::Continue)
}

/// True if a program reads the attributes of an element with text alone as older versions name them.
fn names_parents(program: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || "_$.[]'\"".contains(c);
    let mut paths = program.split(|c: char| !is_part(c)).filter(|path| path.starts_with("input"));
    paths.any(|path| path.contains("ATTR.") || path.contains("ATTR["))
}

/// The mapping with a call of its function. A message that is not of the input's type is a fault, as in Synapse.
fn text(
    c: &Converter<'_>,
    item: &Element<'_>,
    program: &str,
    reads_xml: bool,
    writes_xml: bool,
) -> Result<String, String> {
    let is_typed = program.contains(TYPED) && !program.contains("map_S_");
    let mut before = Vec::new();
    let input = if reads_xml {
        before.push(reader(&schema(c, item, "inputSchema")?)?);
        "read$(values.payload)"
    } else {
        before.push("if (typeof message !== 'object' || message === null) throw new Error('the mapping takes JSON');".to_owned());
        "message"
    };
    if writes_xml {
        before.push(writer(&schema(c, item, "outputSchema")?)?);
    }
    let (call, has_hyphens) = if is_typed {
        (format!("{TYPED}({input})"), program.contains(HYPHEN))
    } else {
        let (variable, from) = schema(c, item, "inputSchema")?.names()?;
        let (_, to) = schema(c, item, "outputSchema")?.names()?;
        let function = format!("map_S_{from}_S_{to}");
        if !program.contains(&function) {
            return Err(format!("its mapping has no function `{function}`"));
        }
        before.push(format!("var input{variable} = {input};"));
        let own = program.replace(&function, "").replace(&format!("input{variable}"), "");
        (format!("{function}()"), own.contains(HYPHEN))
    };
    before.push(program.to_owned());
    if has_hyphens && !reads_xml {
        return Err(format!("`{HYPHEN}` of its mapping stands for no member of JSON"));
    }
    let made = if writes_xml {
        format!("write$({call})")
    } else if has_hyphens {
        format!("JSON.parse(JSON.stringify({call}).replaceAll('{HYPHEN}', '-'))")
    } else {
        call
    };
    Ok(format!("{}\nreturn {made};", before.join("\n")))
}

/// The code that reads XML.
fn reader(schema: &Schema<'_>) -> Result<String, String> {
    const XSI: &str = "http://www.w3.org/2001/XMLSchema-instance";
    schema.check_root()?;
    if matches!(schema.title.as_str(), "jsonObject" | "jsonArray") {
        return Err("it maps JSON as XML; write `inputType=\"JSON\"`".to_owned());
    }
    let (elements, namespaces) = (schema.elements()?, schema.namespaces()?);
    let has_xsi = namespaces.iter().any(|(_, uri)| uri == XSI);
    let prefixes: Map<String, Json> =
        namespaces.into_iter().map(|(prefix, uri)| (uri, Json::String(prefix))).collect();
    Ok(format!(
        "const title$ = {}, xsi$ = {has_xsi}, prefixes$ = {};\nconst schema$ = {elements};\n{READER}",
        json!(schema.title),
        Json::Object(prefixes)
    ))
}

/// The code that writes XML.
fn writer(schema: &Schema<'_>) -> Result<String, String> {
    schema.check_root()?;
    let uris: Map<String, Json> =
        schema.namespaces()?.into_iter().map(|(prefix, uri)| (prefix, Json::String(uri))).collect();
    Ok(format!("const root$ = {}, uris$ = {};\n{WRITER}", json!(schema.title), Json::Object(uris)))
}

fn schema<'k>(
    c: &Converter<'_>,
    item: &Element<'k>,
    attribute: &str,
) -> Result<Schema<'k>, String> {
    let key = item.attribute(attribute).ok_or_else(|| format!("it has no `{attribute}`"))?;
    Schema::read(key, &script::source(c, key)?)
}
