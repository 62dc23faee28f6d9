//! Configuration as text: block style, in the given order, so that the same document always gives the same text.

use serde_json::Value as Json;

/// Writes a value as YAML.
pub fn yaml(value: &Json) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

fn block(value: &Json, depth: usize, out: &mut String) {
    match value {
        Json::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                indent(depth, out);
                out.push_str(&scalar(name));
                out.push(':');
                below(member, depth, out);
            }
        }
        Json::Array(items) if !items.is_empty() => {
            for item in items {
                indent(depth, out);
                out.push('-');
                below(item, depth, out);
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

/// Writes the value after a key or a dash.
fn below(value: &Json, depth: usize, out: &mut String) {
    let is_short = match value {
        Json::Object(members) => members.is_empty(),
        Json::Array(items) => items.iter().all(|item| !item.is_object() && !item.is_array()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => true,
    };
    if is_short {
        out.push(' ');
        out.push_str(&flow(value));
        out.push('\n');
    } else {
        out.push('\n');
        block(value, depth + 1, out);
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

/// A text, without quotes if it cannot be read as anything else. `${` would begin a variable, which documents do not have.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c))
        && !matches!(
            text.to_ascii_lowercase().as_str(),
            "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
        );
    match plain {
        true => text.to_owned(),
        false => Json::String(text.replace("${", "$${")).to_string(),
    }
}
