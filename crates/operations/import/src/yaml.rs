//! Configuration as text: block style, in the given order, so that the same document always gives the same text.

use serde_json::{Value as Json, json};

/// The prefix of members that are comments. Names in documents never have it.
pub(crate) const COMMENT: &str = "\u{0}#";

/// The name of a member with the origin of its object. It is not written.
pub(crate) const ORIGIN: &str = "\u{0}@";

/// Stands for a `${` that begins a variable, until the text is written. Any other `${` is escaped.
const VARIABLE: &str = "\u{0}{";

/// A comment as an item of a list, or as a member whose name begins with [`COMMENT`].
pub(crate) fn comment(text: &str) -> Json {
    json!({ COMMENT: text })
}

/// Returns true if a value is a comment.
pub(crate) fn is_comment(value: &Json) -> bool {
    commented(value).is_some()
}

/// A variable of the configuration, as a part of a text.
pub(crate) fn variable(name: &str) -> String {
    format!("{VARIABLE}{name}}}")
}

fn commented(value: &Json) -> Option<&str> {
    match value {
        Json::Object(members) if members.len() == 1 => members.get(COMMENT)?.as_str(),
        Json::Object(_)
        | Json::Array(_)
        | Json::Null
        | Json::Bool(_)
        | Json::Number(_)
        | Json::String(_) => None,
    }
}

/// Writes a value as YAML.
pub fn yaml(value: &Json) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Json, depth: usize, out: &mut String) {
    match value {
        Json::Object(members) if !members.is_empty() => {
            for (name, member) in members.iter().filter(|(name, _)| *name != ORIGIN) {
                if let Some(text) = commented(member) {
                    remark(text, depth, out);
                    continue;
                }
                indent(depth, out);
                out.push_str(&scalar(name));
                out.push(':');
                below(member, depth, out);
            }
            if members.values().all(is_comment) {
                indent(depth, out);
                out.push_str("{}\n");
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                match commented(item) {
                    Some(text) => remark(text, depth, out),
                    None => self::item(item, depth, out),
                }
            }
            if items.iter().all(is_comment) {
                indent(depth, out);
                out.push_str("[]\n");
            }
        }
        Json::Object(_)
        | Json::Array(_)
        | Json::Null
        | Json::Bool(_)
        | Json::Number(_)
        | Json::String(_) => {
            indent(depth, out);
            out.push_str(&flow(value));
            out.push('\n');
        }
    }
}

/// Writes an item after its dash.
fn item(item: &Json, depth: usize, out: &mut String) {
    indent(depth, out);
    out.push('-');
    let is_block = match item {
        Json::Object(members) => !members.is_empty(),
        Json::Array(items) => !is_flow(items),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
    };
    if !is_block {
        return below(item, depth, out);
    }
    // A dash and a space are as wide as one level of indentation.
    let mut within = String::new();
    block(item, depth + 1, &mut within);
    out.push(' ');
    out.push_str(within.trim_start_matches(' '));
}

/// Writes a comment on separate lines.
fn remark(text: &str, depth: usize, out: &mut String) {
    for line in text.lines() {
        indent(depth, out);
        out.push_str("# ");
        out.extend(line.chars().filter(|c| !c.is_control()));
        out.push('\n');
    }
}

/// Returns true if a list is written on one line.
fn is_flow(items: &[Json]) -> bool {
    items.iter().all(|item| !item.is_object() && !item.is_array())
}

/// Writes the value after a key or a dash.
fn below(value: &Json, depth: usize, out: &mut String) {
    let is_short = match value {
        Json::Object(members) => members.is_empty(),
        Json::Array(items) => is_flow(items),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
    };
    if let Json::String(text) = value
        && is_lines(text)
    {
        return lines(text, depth + 1, out);
    }
    if is_short {
        out.push(' ');
        out.push_str(&flow(value));
        out.push('\n');
    } else {
        out.push('\n');
        block(value, depth + 1, out);
    }
}

/// Returns true if a text can be written as a block of lines without loss. Its first line has to show the indentation.
fn is_lines(text: &str) -> bool {
    let is_plain = |c: char| {
        c == '\n'
            || (!c.is_control()
                && c != '\u{feff}'
                && c != '\u{2028}'
                && c != '\u{2029}'
                && c != '\u{85}')
    };
    text.contains('\n')
        && text.starts_with(|c: char| !c.is_whitespace())
        && !text.ends_with(char::is_whitespace)
        && text.chars().all(is_plain)
}

/// Writes a text as a block of lines.
fn lines(text: &str, depth: usize, out: &mut String) {
    out.push_str(" |-\n");
    for line in text.replace("${", "$${").lines() {
        if !line.is_empty() {
            indent(depth, out);
            out.push_str(line);
        }
        out.push('\n');
    }
}

fn indent(depth: usize, out: &mut String) {
    out.extend(std::iter::repeat_n("  ", depth));
}

fn flow(value: &Json) -> String {
    match value {
        Json::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Json::Object(_) => "{}".to_owned(),
        Json::String(text) => scalar(text),
        Json::Null | Json::Bool(_) | Json::Number(_) => value.to_string(),
    }
}

/// Writes a text, without quotes if it cannot be read as anything else. A `${` is escaped, since texts of documents have no variables.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    if plain {
        text.to_owned()
    } else {
        Json::String(text.replace("${", "$${").replace(VARIABLE, "${")).to_string()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let value = json!({
            "flat": ["a", 1, true, "no"],
            "nested": [{ "a": { "b": [] } }, [[{ "c": "d" }], "e"], {}],
            "lines": "first\n  second\n\n# third",
            "unfit": [" blank\nfirst", "blank \n", "tab\t\nx", "cr\r\nx"],
            "item": ["x\ny", { "k": "x\ny" }],
        });
        let text = yaml(&value);
        let read = config::document(&text, Path::new("a.yaml")).unwrap();
        assert_eq!(read, value, "{text}");
        assert!(text.contains("lines: |-\n  first\n    second\n"), "{text}");
    }

    #[test]
    fn comments_stand_where_items_would() {
        let (key, origin) = (format!("{COMMENT}x"), ORIGIN);
        let value = json!({
            "a": [comment("one\ntwo"), { "b": variable("C"), origin: ["x"] }, [comment("x")]],
            "only": [comment("none")],
            "map": { key.clone(): comment("none") },
            "both": { key: comment("some"), "d": "${e}" },
        });
        let text = yaml(&value);
        let expected = "a:\n  # one\n  # two\n  - b: \"${C}\"\n  - # x\n    []\nonly:\n  # none\n  []\nmap:\n  # none\n  {}\nboth:\n  # some\n  d: \"$${e}\"\n";
        assert_eq!(text, expected);
        let read = config::document(&text, Path::new("a.yaml")).unwrap();
        assert_eq!(read["only"], json!([]));
        assert_eq!(read["a"][1], json!([]));
    }
}
