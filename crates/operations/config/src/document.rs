//! Reads documents other than configurations, such as API definitions, from YAML or JSON into JSON values, and decodes configuration that
//! was generated from them.

use std::path::Path;

use serde_json::{Map, Number, Value as Json};

use crate::decode::{Decode, Decoder};
use crate::node::{MapEntry, Node, Scalar, Value};
use crate::policies::Policy;
use crate::report::{Complaint, Report};
use crate::sources::{At, Source, Sources};
use crate::yaml;

/// The limits of documents in JSON. The maximum depth is that of `serde_json`. The number of values is not limited.
const JSON_LIMITS: json::Limits = json::Limits { depth_max: 128, entries_max: usize::MAX };

/// Reads JSON. Duplicate members are refused, since one reader could take the first and another the last.
pub fn json_text(text: &str) -> Result<Json, String> {
    let read = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut tape = Vec::new();
    let place = |at: usize| {
        let before = text.get(..at).unwrap_or(text);
        let lines = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("line {lines} column {column}")
    };
    json::read(text, &JSON_LIMITS, &mut tape)
        .map_err(|error| format!("expected {} at {}", error.what, place(error.at)))?;
    match json::duplicate_name(text, &tape) {
        None => Ok(read),
        Some(json::DuplicateName { name, .. }) => {
            let entry = tape.get(name as usize);
            let (from, to) = entry.map_or((0, 0), |entry| (entry.from as usize, entry.to as usize));
            let name = text.get(from..to).unwrap_or("?");
            let place = place(from.saturating_sub(1));
            Err(format!(
                "the member `{name}` appears twice in its object, the second time at {place}"
            ))
        }
    }
}

/// Reads a document: JSON if the text begins with a brace, else YAML. Null, booleans and decimal numbers are those of YAML's core schema;
/// any other scalar is a text. Duplicate members are refused in both.
pub fn document(text: &str, name: &Path) -> Result<Json, String> {
    if text.trim_start().starts_with('{') {
        return json_text(text);
    }
    let source = Source {
        name: name.display().to_string(),
        folder: Default::default(),
        text: text.to_owned(),
    };
    let mut report = Report::new(Sources::new(vec![source]));
    match yaml::read(text, 0, &mut report) {
        Some(node) if !report.has_errors() => Ok(json(&node)),
        None if !report.has_errors() => Ok(Json::Null),
        Some(_) | None => Err(report.errors().map(described).collect::<Vec<_>>().join("; ")),
    }
}

/// Returns the text of a complaint about a document, without its help, which is meant for configurations.
fn described(complaint: &Complaint) -> String {
    let Complaint { at, what, .. } = complaint;
    match at.line {
        0 => what.clone(),
        line => format!("line {line}, column {}: {what}", at.column),
    }
}

/// Returns the path (keys and indices) of the innermost value that begins at or before a place in a text.
pub fn path_at(text: &str, line: u32, column: u32) -> Vec<String> {
    let mut path = Vec::new();
    let mut report = Report::new(Sources::default());
    let root = yaml::read(text, 0, &mut report);
    let begins = |at: At| (at.line, at.column) <= (line, column);
    let mut node = root.as_ref();
    while let Some(found) = node {
        node = None;
        match &found.value {
            Value::Map(entries) => {
                if let Some(entry) = entries.iter().rev().find(|entry| begins(entry.key_at)) {
                    path.push(entry.key.clone());
                    node = Some(&entry.node);
                }
            }
            Value::List(items) => {
                if let Some(at) = items.iter().rposition(|item| begins(item.at)) {
                    path.push(at.to_string());
                    node = items.get(at);
                }
            }
            Value::Null | Value::Unreadable | Value::Scalar(_) => {}
        }
    }
    path
}

/// Returns the line and column of the member or item that a JSON pointer (RFC 6901) names, or of its innermost parent that exists.
pub fn place_of(text: &str, pointer: &str) -> (u32, u32) {
    let names = pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~"));
    let names: Vec<String> = names.collect();
    if text.trim_start().starts_with('{') {
        place_in_json(text, &names)
    } else {
        place_in_yaml(text, &names)
    }
}

fn place_in_yaml(text: &str, names: &[String]) -> (u32, u32) {
    let mut report = Report::new(Sources::default());
    let root = yaml::read(text, 0, &mut report);
    let mut place = (1, 1);
    let mut node = root.as_ref();
    for name in names {
        let found = match node.map(|node| &node.value) {
            Some(Value::Map(entries)) => {
                let entry = entries.iter().find(|entry| entry.key == *name);
                entry.map(|entry| (entry.key_at, &entry.node))
            }
            Some(Value::List(items)) => {
                // Harmless: a name that is not a number does not name an item.
                let item = name.parse::<usize>().ok().and_then(|at| items.get(at));
                item.map(|item| (item.at, item))
            }
            Some(Value::Null | Value::Unreadable | Value::Scalar(_)) | None => None,
        };
        let Some((at, inner)) = found else { break };
        place = (at.line, at.column);
        node = Some(inner);
    }
    place
}

fn place_in_json(text: &str, names: &[String]) -> (u32, u32) {
    let mut tape = Vec::new();
    if json::read(text, &JSON_LIMITS, &mut tape).is_err() {
        return (1, 1);
    }
    let (mut value, mut begins) = (0, 0);
    for name in names {
        let Some((at, offset)) = json_child(text, &tape, value, name) else { break };
        (value, begins) = (at, offset);
    }
    let before = text.get(..begins).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    (number(line), number(column))
}

/// Returns the index of a child's value on the tape, and the offset of its name, or of the value in a list.
fn json_child(
    text: &str,
    tape: &[json::TapeEntry],
    value: usize,
    name: &str,
) -> Option<(usize, usize)> {
    let parent = tape.get(value)?;
    let is_object = match parent.kind {
        json::Kind::Object => true,
        json::Kind::Array => false,
        json::Kind::Null
        | json::Kind::False
        | json::Kind::True
        | json::Kind::Number
        | json::Kind::Plain
        | json::Kind::Escaped => return None,
    };
    let mut at = value + 1;
    for index in 0..parent.count {
        let first = tape.get(at)?;
        let text_of = || -> Option<String> {
            Some(json::unescaped(text.get(first.from as usize..first.to as usize)?))
        };
        let begins = |entry: &json::TapeEntry| {
            let is_text = matches!(entry.kind, json::Kind::Plain | json::Kind::Escaped);
            (entry.from as usize).saturating_sub(usize::from(is_text))
        };
        let (is_it, inner) = if is_object {
            (text_of().as_deref() == Some(name), at + 1)
        } else {
            (index.to_string() == name, at)
        };
        if is_it {
            return Some((inner, begins(first)));
        }
        at = tape.get(inner)?.next as usize;
    }
    None
}

/// Reads a file that is not a configuration, but whose keys were defined by [`crate::keys`]. References are not replaced. The report
/// lists everything that cannot be read, with its place.
pub fn read<T: Decode>(text: &str, name: &Path) -> (Option<T>, Report) {
    let folder = name.parent().unwrap_or(Path::new("")).to_owned();
    let source = Source { name: name.display().to_string(), folder, text: text.to_owned() };
    let mut report = Report::new(Sources::new(vec![source]));
    let tree = yaml::read(text, 0, &mut report);
    let read =
        tree.and_then(|tree| T::decode(&tree, &mut Decoder::new(&mut report, Policy::NAMES)));
    (read, report)
}

/// Decodes generated configuration, all of which gets the same place.
pub fn decode<T: Decode>(made: &Json, at: At, report: &mut Report) -> Option<T> {
    T::decode(&node(made, at), &mut Decoder::new(report, Policy::NAMES))
}

fn json(node: &Node) -> Json {
    match &node.value {
        Value::Null | Value::Unreadable => Json::Null,
        Value::Scalar(scalar) if scalar.quoted => Json::String(scalar.text.clone()),
        Value::Scalar(scalar) => plain(&scalar.text),
        Value::List(items) => Json::Array(items.iter().map(json).collect()),
        Value::Map(entries) => {
            let members = entries.iter().map(|entry| (entry.key.clone(), json(&entry.node)));
            Json::Object(members.collect::<Map<_, _>>())
        }
    }
}

/// Returns the JSON value of a scalar without quotes.
fn plain(text: &str) -> Json {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        "true" | "True" | "TRUE" => Json::Bool(true),
        "false" | "False" | "FALSE" => Json::Bool(false),
        _ => match number(text) {
            Some(number) => Json::Number(number),
            None => Json::String(text.to_owned()),
        },
    }
}

fn number(text: &str) -> Option<Number> {
    let digits = text.trim_start_matches(['-', '+']);
    let bare = digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
        && digits.chars().all(|c| c.is_ascii_digit() || ".eE+-".contains(c));
    if !bare {
        return None;
    }
    // Harmless: other texts are tried as fractions below.
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    // Harmless: other texts are tried as fractions below.
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    // Harmless: anything but a number stays a text.
    text.parse().ok().and_then(Number::from_f64)
}

fn node(made: &Json, at: At) -> Node {
    let scalar = |text: String, quoted| Value::Scalar(Scalar { text, quoted });
    let value = match made {
        Json::Null => Value::Null,
        Json::Bool(switch) => scalar(switch.to_string(), false),
        Json::Number(number) => scalar(number.to_string(), false),
        // Not quoted, so that keys for numbers and booleans also accept texts: a document may have `timeout: "60"`.
        Json::String(text) => scalar(text.clone(), false),
        Json::Array(items) => Value::List(items.iter().map(|item| node(item, at)).collect()),
        Json::Object(members) => Value::Map(
            members
                .iter()
                .map(|(key, value)| MapEntry {
                    key: key.clone(),
                    key_at: at,
                    node: node(value, at),
                })
                .collect(),
        ),
    };
    Node { at, owner: at, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_and_json_say_the_same() {
        let yaml =
            "a: 1\nb: [1.5, -2, '3', true, ~, null, 1.2.3, 2020-01-01, .5e1]\nc: { '200': x }\n";
        let same =
            r#"{"a":1,"b":[1.5,-2,"3",true,null,null,"1.2.3","2020-01-01",5.0],"c":{"200":"x"}}"#;
        let read = document(yaml, Path::new("a.yaml")).unwrap();
        assert_eq!(read, document(same, Path::new("a.json")).unwrap());
        assert!(document("{", Path::new("a.json")).is_err());
    }

    #[test]
    fn what_stands_at_a_place_has_a_path() {
        let text =
            "a:\n  - b: 1\n    c:\n      - d: |-\n          x\n          y\n  - e\nf: { g: h }\n";
        for (line, column, path) in [
            (1, 1, "a"),
            (2, 8, "a 0 b"),
            (4, 12, "a 0 c 0 d"),
            (6, 11, "a 0 c 0 d"),
            (7, 5, "a 1"),
            (8, 11, "f g"),
        ] {
            assert_eq!(path_at(text, line, column).join(" "), path, "{line}:{column}");
        }
    }

    #[test]
    fn a_pointer_leads_to_a_place() {
        let yaml = "a:\n  b/c: [x, { d: 1 }]\n  e: 2\n";
        let json = "{\"a\": {\n  \"b/c\": [\"x\", { \"d\": 1 }],\n\t\"\\u0065\": 2 } }";
        for (pointer, in_yaml, in_json) in [
            ("", (1, 1), (1, 1)),
            ("/a", (1, 1), (1, 2)),
            ("/a/b~1c", (2, 3), (2, 3)),
            ("/a/b~1c/0", (2, 9), (2, 11)),
            ("/a/b~1c/1/d", (2, 14), (2, 18)),
            ("/a/b~1c/7/d", (2, 3), (2, 3)),
            ("/a/e", (3, 3), (3, 2)),
            ("/a/e/none/at/all", (3, 3), (3, 2)),
            ("/none", (1, 1), (1, 1)),
        ] {
            assert_eq!(place_of(yaml, pointer), in_yaml, "{pointer}");
            assert_eq!(place_of(json, pointer), in_json, "{pointer}");
        }
    }

    #[test]
    fn a_document_that_cannot_be_read_is_reported_with_its_line() {
        for (text, said) in [
            ("", "the file is empty"),
            ("a: 1\na: 3\n", "line 2, column 1: the key `a` appears twice; the first is on line 1"),
            ("a: [", "line 2, column 1: this is not YAML: "),
            (
                "{\"a\": 1,\n \"b\": [{\"c\": 1, \"\\u0063\": 2}]}",
                "the member `\\u0063` appears twice in its object, the second time at line 2 column 17",
            ),
        ] {
            let told = document(text, Path::new("a.yaml")).unwrap_err();
            assert!(told.starts_with(said) && !told.contains('\n'), "{told}");
        }
    }
}
