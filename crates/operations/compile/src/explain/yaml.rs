//! Writes a value as YAML: maps and lists of maps in block style, everything else on one line.

use serde_json::Value;

/// Writes a map as the top level of a file.
pub(crate) fn write(value: &Value, out: &mut String) {
    block(value, 0, out);
}

fn block(value: &Value, indent: usize, out: &mut String) {
    // Harmless: the callers pass only maps.
    for (key, value) in value.as_object().into_iter().flatten() {
        out.push_str(&" ".repeat(indent));
        out.push_str(&self::key(key));
        out.push(':');
        below(value, indent, out);
    }
}

/// Writes the value after a key and its colon.
fn below(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            block(value, indent + 2, out);
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            out.push('\n');
            for item in items {
                out.push_str(&" ".repeat(indent + 2));
                out.push_str("- ");
                out.push_str(&flow(item));
                out.push('\n');
            }
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => {
            out.push(' ');
            out.push_str(&flow(value));
            out.push('\n');
        }
    }
}

/// Returns a value on one line (flow style).
pub(crate) fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) if map.is_empty() => "{}".to_owned(),
        Value::Object(map) => {
            let entries: Vec<String> = map
                .iter()
                .map(|(key, value)| format!("{}: {}", self::key(key), flow(value)))
                .collect();
            format!("{{ {} }}", entries.join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::String(words) => text(words),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

/// Returns a text as a YAML scalar. `${` is escaped as `$${`, because variables have already been substituted.
fn text(words: &str) -> String {
    key(&words.replace("${", "$${"))
}

/// Returns a key as a YAML scalar, in which nothing is ever substituted: without quotes if YAML reads it back as the same text, and
/// otherwise in quotes.
fn key(words: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '/' | '.');
    let starts_plain = words.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let reserved = matches!(
        words.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off"
    );
    let bare = starts_plain && words.chars().all(plain) && !reserved;
    if bare || is_quantity(words) {
        words.to_owned()
    } else {
        // A quoted JSON string is also a valid YAML string.
        Value::from(words).to_string()
    }
}

/// Returns true for a duration or a size: digits and a unit.
fn is_quantity(words: &str) -> bool {
    let unit = words.trim_start_matches(|c: char| c.is_ascii_digit());
    let units = ["ms", "s", "m", "h", "d", "B", "KB", "KiB", "MB", "MiB", "GB", "GiB"];
    unit.len() < words.len() && units.contains(&unit)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_escaped_where_they_would_be_replaced() {
        assert_eq!(flow(&json!({ "${a}": "${b}" })), r#"{ "${a}": "$${b}" }"#);
        let mut text = String::new();
        write(&json!({ "${a}": { "b": "${c}" } }), &mut text);
        assert_eq!(text, "\"${a}\":\n  b: \"$${c}\"\n");
    }
}
