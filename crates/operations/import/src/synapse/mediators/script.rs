//! `script`: JavaScript programs that access the message through the object `mc`.
//!
//! A program may read and set the message as JSON, set it as XML, and read and set properties with literal names. The values that it reads
//! become values of the step; the values that it sets become members of its result, which later steps use. Everything else is refused
//! here, since such a program would fail for each message.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value as Json, json};

use super::super::converter::{Converter, Next};
use super::super::element::Element;
use super::super::pending::KeptProperty;
use super::super::value::Value;
use super::super::xpath_text::XPathType;
use super::properties;

/// Names that only Synapse's interpreter of JavaScript has: those of Java, and of XML in the language.
static FOREIGN: LazyLock<Option<Regex>> = LazyLock::new(|| {
    // Harmless: the expression compiles, as each test of a script shows.
    Regex::new(r"\b(?:java|javax|org\.apache)\s*\.|\b(?:Packages|Java)\s*\.|\b(?:importPackage|importClass|JavaImporter|load|print|println|XML|XMLList)\s*\(").ok()
});

/// A property that a program reads or sets.
#[derive(Debug, PartialEq, Eq)]
struct Used {
    scope: String,
    name: String,
}

/// The uses of `mc` in a program.
#[derive(Debug, Default)]
struct Uses {
    reads: Vec<Used>,
    sets: Vec<Used>,
    reads_xml: bool,
}

pub(super) fn script<'a>(
    c: &mut Converter<'a>,
    item: &Element<'a>,
    steps: &mut Vec<Json>,
) -> Result<Next, String> {
    if let Some(sets) = constants(c, item) {
        steps.extend((!sets.is_empty()).then(|| json!({ "set": sets })));
        return Ok(Next::Continue);
    }
    let program = program(c, item)?;
    let mut uses = uses(&program)?;
    let has_key = item.attribute("key").is_some();
    let call = if has_key {
        let function = item.attribute("function").unwrap_or("mediate");
        format!("\nreturn {function}(mc);")
    } else {
        String::new()
    };
    let mut values = Map::new();
    if uses.reads_xml {
        c.note("the markup of `getPayloadXML()` is not indented");
        values.insert("payload".to_owned(), json!("$infoset_payload"));
    }
    for used in std::mem::take(&mut uses.reads) {
        match c.named(&used.scope, &used.name) {
            Ok(value) => {
                values.insert(format!("r{}", uses.reads.len()), json!(value));
                uses.reads.push(used);
            }
            // Only the script itself sets it.
            Err(_) if uses.sets.contains(&used) => {}
            Err(why) => return Err(why),
        }
    }
    let made = c.out.variable("script.made");
    let text = format!("{}{program}{call}\n}}(mc$));\nreturn out$;", before(&uses));
    let mut keys = Map::from_iter([("js".to_owned(), json!(text))]);
    if !values.is_empty() {
        keys.insert("values".to_owned(), Json::Object(values));
    }
    keys.insert("into".to_owned(), json!(made));
    steps.push(json!({ "script": keys }));
    for (at, used) in uses.sets.iter().enumerate() {
        let value = Value::Path(format!("${made}.w{at}"), XPathType::Other);
        let then = set(c, used, value)?;
        steps.push(json!({ "filter": { "when": format!("${made}.h{at}"), "then": then } }));
    }
    if program.contains("setPayloadJSON") {
        let payload = json!({ "json": format!("{{{{ ${made}.json }}}}") });
        let then = json!([{ "payload": payload }]);
        steps.push(json!({ "filter": { "when": format!("${made}.is_json"), "then": then } }));
    }
    if program.contains("setPayloadXML") {
        let nodes = c.out.variable("script.nodes");
        let set = json!({ nodes.clone(): { "value": format!("${made}.xml"), "type": "xml" } });
        let then = json!([{ "set": set }, { "payload": { "from": format!("${nodes}") } }]);
        steps.push(json!({ "filter": { "when": format!("${made}.is_xml"), "then": then } }));
    }
    if has_key {
        let ends = json!([{ "drop": {} }]);
        steps.push(json!({ "filter": { "when": format!("${made}.ends"), "then": ends } }));
    }
    Ok(Next::Continue)
}

/// The text of a program, after the texts of the programs that it includes.
fn program<'a>(c: &mut Converter<'a>, item: &Element<'a>) -> Result<String, String> {
    let mut text = String::new();
    for include in item.all("include") {
        let key = include.attribute("key").ok_or("an `include` without a key")?;
        text.push_str(&source(c, key)?);
        text.push('\n');
    }
    match item.attribute("key") {
        Some(key) if key.contains('{') => {
            return Err("a program that is computed has no counterpart".to_owned());
        }
        Some(key) => text.push_str(&source(c, key)?),
        None => text.push_str(&item.text()),
    }
    Ok(text)
}

/// The text of a program in a resource.
pub(super) fn source(c: &Converter<'_>, key: &str) -> Result<String, String> {
    let is_markup = c.artifacts.entries.get(key).is_some_and(|entry| !entry.children().is_empty());
    if is_markup {
        return Err(format!("the program `{key}` is markup"));
    }
    c.artifacts.resource(key)?.text()
}

/// The code before a program, which defines the object `mc`.
fn before(uses: &Uses) -> String {
    let names = |all: &[Used]| {
        json!(all.iter().map(|used| format!("{} {}", used.scope, used.name)).collect::<Vec<_>>())
    };
    format!(
        "const out$ = {{}}, reads$ = {}, sets$ = {};
let json$ = typeof message === 'object' && message !== null ? message : {{}};
const mc$ = {{
  getPayloadJSON() {{ return json$; }},
  setPayloadJSON(value) {{ json$ = typeof value === 'string' ? JSON.parse(value) : value; out$.json = json$; out$.is_json = true; out$.is_xml = false; }},
  getPayloadXML() {{ return {{ toString() {{ return values.payload; }}, toXMLString() {{ return values.payload; }} }}; }},
  setPayloadXML(value) {{ out$.xml = String(value); out$.is_xml = true; out$.is_json = false; }},
  getProperty(name, scope) {{
    const key = (scope || 'default') + ' ' + name, set = sets$.indexOf(key), read = reads$.indexOf(key);
    if (set >= 0 && out$['h' + set]) return out$['w' + set];
    if (read < 0 && set < 0) throw new Error('the property ' + name + ' is not named where the script is read');
    return read < 0 ? null : values['r' + read];
  }},
  setProperty(name, value, scope) {{
    const at = sets$.indexOf((scope || 'default') + ' ' + name);
    if (at < 0) throw new Error('the property ' + name + ' is not named where the script is read');
    out$['h' + at] = true;
    out$['w' + at] = value === undefined ? null : value;
  }},
}};
out$.ends = false === (function (mc) {{
",
        names(&uses.reads),
        names(&uses.sets)
    )
}

/// The steps that set a property to a value that a program gave it.
fn set<'a>(c: &mut Converter<'a>, used: &Used, value: Value) -> Result<Vec<Json>, String> {
    let Used { scope, name } = used;
    let mut steps = Vec::new();
    match &**scope {
        "default" => {
            let variable = c.out.variable(name);
            c.flow.made.insert(name.clone());
            steps.push(json!({ "set": { variable: value.expression() } }));
        }
        "transport" => {
            let value = c.text_placeholder(&value);
            steps.push(json!({ "header": { "set": { name.clone(): value } } }));
        }
        _ => {
            let kept = match &**name {
                "HTTP_SC" => KeptProperty::Status,
                "HTTP_METHOD" => KeptProperty::Method,
                "REST_URL_POSTFIX" => KeptProperty::Postfix,
                _ => return Err(format!("a script cannot set `{name}` of {scope} here")),
            };
            let (pending, side) = (c.flow.pending.clone(), c.flow.side);
            properties::keep(c, kept, value, &mut steps);
            c.leave(pending, side, false);
        }
    }
    Ok(steps)
}

/// The first name in a program that only Synapse's interpreter has, and where it is.
pub(super) fn foreign(program: &str) -> Option<(&str, usize)> {
    let found = FOREIGN.as_ref().and_then(|foreign| foreign.find(program))?;
    Some((found.as_str().trim_end_matches(['.', '(', ' ']), found.start()))
}

/// Finds the uses of `mc` in a program. The error names what is not supported, with its line.
fn uses(program: &str) -> Result<Uses, String> {
    let line = |at: usize| program.get(..at).map_or(1, |before| before.matches('\n').count() + 1);
    let refused = |at: usize, why: &str| Err(format!("{why} (line {} of the script)", line(at)));
    if let Some((name, at)) = foreign(program) {
        return refused(at, &format!("`{name}` is not there for scripts"));
    }
    let mut uses = Uses::default();
    for (at, _) in program.match_indices("mc") {
        let before = program.get(..at).and_then(|text| text.chars().last());
        let rest = program.get(at + 2..).unwrap_or_default();
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        if before.is_some_and(|c| is_part(c) || c == '.') || rest.starts_with(is_part) {
            continue;
        }
        let rest = rest.trim_start();
        let Some(member) = rest.strip_prefix('.') else {
            if rest.starts_with([')', ',']) {
                continue;
            }
            return refused(at, "`mc` is only there for its functions");
        };
        let member = member.trim_start();
        let end = member.find(|c| !is_part(c)).unwrap_or(member.len());
        let (name, behind) = member.split_at_checked(end).unwrap_or((member, ""));
        let given = arguments(behind.trim_start());
        match (name, given) {
            ("getPayloadJSON" | "setPayloadJSON" | "setPayloadXML", Some(_)) => {}
            ("getPayloadXML", Some((_, after))) => {
                let after = after.trim_start();
                if !after.starts_with(".toString()") && !after.starts_with(".toXMLString()") {
                    return refused(
                        at,
                        "XML is a text for scripts: write `mc.getPayloadXML().toXMLString()`",
                    );
                }
                uses.reads_xml = true;
            }
            ("getProperty" | "setProperty", Some((given, _))) => {
                let scope = usize::from(name == "setProperty") + 1;
                let used = used(&given, scope);
                let Some(used) = used else {
                    return refused(
                        at,
                        &format!("`{name}` of a name that is computed has no counterpart"),
                    );
                };
                let all = if name == "getProperty" { &mut uses.reads } else { &mut uses.sets };
                if !all.contains(&used) {
                    all.push(used);
                }
            }
            (name, _) => return refused(at, &format!("`mc.{name}` is not there for scripts")),
        }
    }
    Ok(uses)
}

/// The property that arguments name. `scope` is the index of the argument with its scope.
fn used(given: &[&str], scope: usize) -> Option<Used> {
    let name = literal(given.first()?)?;
    let scope = match given.get(scope) {
        None => "default",
        Some(scope) => literal(scope)?,
    };
    let scope = if matches!(scope, "synapse" | "operation") { "default" } else { scope };
    Some(Used { scope: scope.to_owned(), name: name.to_owned() })
}

/// The arguments in parentheses at the beginning of a text, and the rest.
fn arguments(text: &str) -> Option<(Vec<&str>, &str)> {
    let inner = text.strip_prefix('(')?;
    let (mut all, mut from, mut depth, mut quote, mut is_escaped) =
        (Vec::new(), 0, 0_usize, None, false);
    for (at, c) in inner.char_indices() {
        match (quote, c) {
            (Some(_), _) if is_escaped => is_escaped = false,
            (Some(_), '\\') => is_escaped = true,
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(c),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')') if depth == 0 => {
                all.push(inner.get(from..at)?.trim());
                return Some((all, inner.get(at + 1..)?));
            }
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                all.push(inner.get(from..at)?.trim());
                from = at + 1;
            }
            // Harmless: any other character is a part of an argument.
            _ => {}
        }
    }
    None
}

/// The text of a literal that is the whole of an argument.
fn literal(text: &str) -> Option<&str> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let inner = text.get(1..)?.strip_suffix(quote)?;
    (!inner.contains([quote, '\\'])).then_some(inner)
}

/// The properties of a script that only sets properties to texts, or `None` for any other script.
fn constants<'a>(c: &mut Converter<'a>, item: &Element<'a>) -> Option<Map<String, Json>> {
    if item.attribute("key").is_some() {
        return None;
    }
    let text = item.text();
    let statements =
        text.split([';', '\n']).map(str::trim).filter(|s| !s.is_empty() && !s.starts_with("//"));
    let mut sets = Map::new();
    for statement in statements {
        let (given, after) = arguments(statement.strip_prefix("mc.setProperty")?)?;
        let [name, value] = given.as_slice() else { return None };
        let (name, value) = (literal(name)?, literal(value)?);
        if !after.trim().is_empty() {
            return None;
        }
        let variable = c.out.variable(name);
        c.flow.made.insert(name.to_owned());
        sets.insert(variable, Value::Literal(value.to_owned()).expression());
    }
    Some(sets)
}
