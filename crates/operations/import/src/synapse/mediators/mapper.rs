//! `datamapper`: its program, which maps JSON to JSON, becomes a step `script`.
//!
//! The titles of the two schemas name the program's function and its input. Nothing else of the schemas is applied.

use serde_json::{Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::script;

/// The function of mappings that are written in TypeScript. It takes the message as its argument.
const TYPED: &str = "mapFunction";

/// Names that only Synapse's engine has: the properties of the message, and what stands for characters of XML names.
const FOREIGN: [&str; 3] = ["DM_PROPERTIES", "_EnC0DeCHaRHyPh3n_", "_Separat0r_"];

pub(super) fn mapper<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    for kind in ["inputType", "outputType"] {
        if item.attribute(kind).is_none() {
            return Err(format!("without `{kind}` it maps XML, which is read by the schema"));
        }
    }
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
    let text = text(c, item, &program)?;
    steps.push(json!({ "script": { "js": text } }));
    Ok(Next::Continue)
}

/// The mapping with a call of its function. A message that is not JSON is a fault, as in Synapse.
fn text(c: &Converter<'_>, item: &Element<'_>, program: &str) -> Result<String, String> {
    let check = "if (typeof message !== 'object' || message === null) throw new Error('the mapping takes JSON');";
    if program.contains(TYPED) && !program.contains("map_S_") {
        return Ok(format!("{check}\n{program}\nreturn {TYPED}(message);"));
    }
    let (input, output) = (title(c, item, "inputSchema")?, title(c, item, "outputSchema")?);
    let function = format!("map_S_{input}_S_{output}");
    if !program.contains(&function) {
        return Err(format!("its mapping has no function `{function}`"));
    }
    Ok(format!("{check}\nvar input{input} = message;\n{program}\nreturn {function}();"))
}

/// The title of a schema, which is a part of names in the program.
fn title(c: &Converter<'_>, item: &Element<'_>, attribute: &str) -> Result<String, String> {
    let key = item.attribute(attribute).ok_or_else(|| format!("it has no `{attribute}`"))?;
    let text = script::source(c, key)?;
    let schema: Json =
        serde_json::from_str(&text).map_err(|why| format!("`{key}` is not JSON: {why}"))?;
    let title = schema.get("title").and_then(Json::as_str);
    let title = title.ok_or_else(|| format!("the schema `{key}` has no title"))?;
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if title.is_empty() || !title.chars().all(is_part) {
        return Err(format!(
            "the title `{title}` of the schema `{key}` cannot be a part of a name"
        ));
    }
    Ok(title.to_owned())
}
