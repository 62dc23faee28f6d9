//! Writes the page of the guide that lists the keys of the configuration.
//!
//! Owns how the JSON Schema is described in words. Everything on the page comes from [`json_schema`].

use std::collections::HashSet;
use std::fmt::Write as _;

use serde_json::{Map, Value as Json};

use crate::schema_document::json_schema;

const HEAD: &str = "\
# Every key

<!-- Written by `make schema` from the program; a change here is lost. -->

Every key of a configuration with its default, section by section.
`NAME` stands for a name of your choice, `[]` for an item of a list. **Required** keys have no default. \"absent\" means that without the key nothing is done or limited.
Any text may be `${NAME}`, an environment variable, or `${file:PATH}`, the text of a file. [First steps](first-steps.md#how-a-configuration-is-written) has the rest of the rules.
";

/// Returns the page in Markdown: a table for each section, in the order in which the sections are found from the root.
pub fn reference() -> String {
    let schema = json_schema();
    let empty = Map::new();
    let sections = schema.get("$defs").and_then(Json::as_object).unwrap_or(&empty);
    let mut page =
        Page { sections, seen: HashSet::new(), places: Vec::new(), text: HEAD.to_owned() };
    let root = named(&schema).unwrap_or("");
    page.place(root, "");
    page.section(root, "");
    page.text
}

struct Page<'s> {
    sections: &'s Map<String, Json>,
    seen: HashSet<&'s str>,
    /// The path under which each section is described: the first one that leads to it.
    places: Vec<(&'s str, String)>,
    text: String,
}

impl<'s> Page<'s> {
    /// Finds the path of every section before any is referred to.
    fn place(&mut self, name: &'s str, path: &str) {
        if self.places.iter().any(|(placed, _)| *placed == name) {
            return;
        }
        self.places.push((name, path.to_owned()));
        for (name, path) in self.below(name, path) {
            self.place(name, &path);
        }
    }

    fn section(&mut self, name: &'s str, path: &str) {
        if !self.seen.insert(name) {
            return;
        }
        let Some(section) = self.sections.get(name) else { return };
        let title = if path.is_empty() { "The file" } else { &format!("`{path}`") };
        let words = text_of(section, "description");
        let _ = write!(self.text, "\n## {title}\n\n{words}\n");
        let required = list_of(section, "required");
        let keys = properties(section);
        if keys.is_some_and(|keys| !keys.is_empty()) {
            self.text.push_str("\n| key | takes | if absent | |\n| --- | --- | --- | --- |\n");
        }
        for (key, takes) in each(keys) {
            let absent = match takes.get("default") {
                Some(default) => shown(default),
                None if required.iter().any(|name| name == key) => "**required**".to_owned(),
                None => "absent".to_owned(),
            };
            let (kind, words) = (self.kind(takes), text_of(takes, "description"));
            let row = [format!("`{key}`"), kind, absent, words.to_owned()];
            let cells = row.map(|cell| cell.replace('|', "\\|"));
            let _ = writeln!(self.text, "| {} |", cells.join(" | "));
        }
        for (name, path) in self.below(name, path) {
            self.section(name, &path);
        }
    }

    /// Returns the sections that the keys of a section lead to, with their paths.
    fn below(&self, name: &str, path: &str) -> Vec<(&'s str, String)> {
        let mut found = Vec::new();
        let keys = self.sections.get(name).and_then(properties);
        for (key, takes) in each(keys) {
            let dot = if path.is_empty() { "" } else { "." };
            lead(takes, &format!("{path}{dot}{key}"), &mut found);
        }
        found
    }

    /// Describes the values that may be written.
    fn kind(&self, takes: &Json) -> String {
        if let Some(name) = named(takes) {
            let place = self.places.iter().find(|(placed, _)| *placed == name);
            let path = place.map_or("", |(_, path)| path.as_str());
            let anchor = path.chars().filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_'));
            return format!("[`{path}`](#{})", anchor.collect::<String>().to_lowercase());
        }
        let choices = list_of(takes, "anyOf");
        if !choices.is_empty() {
            let mut kinds: Vec<String> = choices.iter().map(|choice| self.kind(choice)).collect();
            kinds.dedup();
            return match kinds.len() {
                // Only policies have this many kinds.
                5.. => format!("one of {}", kinds.join(", ")),
                _ => kinds.join(" or "),
            };
        }
        let words = list_of(takes, "enum");
        if !words.is_empty() {
            // Harmless: this skips only numbers and booleans. Each number is also in the list as a text, and the description of the key
            // names the booleans.
            let texts = words.iter().filter_map(Json::as_str).map(|word| format!("`{word}`"));
            return texts.collect::<Vec<_>>().join(", ");
        }
        if let Some(word) = takes.get("const") {
            return shown(word);
        }
        match takes.get("type") {
            Some(Json::Array(types)) => bare(types, takes),
            Some(Json::String(kind)) if kind == "array" => {
                let items = takes.get("items").map_or_else(String::new, |item| self.kind(item));
                format!("a list: {items}")
            }
            Some(Json::String(kind)) if kind == "object" => self.map(takes),
            Some(Json::String(kind)) if kind == "integer" => bounds(takes),
            _ => text(text_of(takes, "pattern")).to_owned(),
        }
    }

    /// Describes a map whose keys the operator chooses, or a map with a few fixed keys that is not a section.
    fn map(&self, takes: &Json) -> String {
        if let Some(values) = takes.get("additionalProperties").filter(|values| values.is_object())
        {
            return format!("`NAME:` {}", self.kind(values));
        }
        let keys = properties(takes);
        if let Some((_, only)) = keys.filter(|keys| keys.len() == 1).and_then(|k| k.iter().next())
            && named(only).is_some()
        {
            return self.kind(only);
        }
        let keys = each(keys).map(|(key, takes)| format!("`{key}:` {}", self.kind(takes)));
        format!("a map: {}", keys.collect::<Vec<_>>().join(", "))
    }
}

/// Collects the sections that a schema refers to.
fn lead<'s>(takes: &'s Json, path: &str, found: &mut Vec<(&'s str, String)>) {
    if let Some(name) = named(takes) {
        return found.push((name, path.to_owned()));
    }
    for choice in list_of(takes, "anyOf") {
        lead(choice, path, found);
    }
    if let Some(values) = takes.get("additionalProperties") {
        lead(values, &format!("{path}.NAME"), found);
    }
    if let Some(items) = takes.get("items") {
        lead(items, &format!("{path}[]"), found);
    }
    for (key, takes) in each(properties(takes)) {
        // A policy is listed under its own name, since it is the same in every list of policies.
        let path = if path.ends_with("policies[]") { "policies[]" } else { path };
        lead(takes, &format!("{path}.{key}"), found);
    }
}

fn named(takes: &Json) -> Option<&str> {
    takes.get("$ref")?.as_str()?.strip_prefix("#/$defs/")
}

fn properties(takes: &Json) -> Option<&Map<String, Json>> {
    takes.get("properties").and_then(Json::as_object)
}

fn each(keys: Option<&Map<String, Json>>) -> impl Iterator<Item = (&String, &Json)> {
    // Harmless: a section may have no keys.
    keys.into_iter().flatten()
}

fn list_of<'s>(takes: &'s Json, key: &str) -> &'s [Json] {
    takes.get(key).and_then(Json::as_array).map_or(&[], Vec::as_slice)
}

fn text_of<'s>(takes: &'s Json, key: &str) -> &'s str {
    takes.get(key).and_then(Json::as_str).unwrap_or("")
}

/// Describes a value that has several JSON types: a number or a boolean that may also be a text with references, or a text that may also
/// be written like a number or a boolean.
fn bare(types: &[Json], takes: &Json) -> String {
    match types.first().and_then(Json::as_str) {
        Some("boolean") => "`true`, `false`".to_owned(),
        Some("integer") => bounds(takes),
        Some("number") => "a number".to_owned(),
        _ => "a text".to_owned(),
    }
}

fn bounds(takes: &Json) -> String {
    match (takes.get("minimum"), takes.get("maximum")) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, _) => "a whole number".to_owned(),
    }
}

/// Describes the format of a text. A format that only one key has is described in that key's description.
fn text(pattern: &str) -> &'static str {
    match pattern {
        p if p.starts_with("^[0-9]+(ms|") => "a duration: `250ms`, `5s`, `1h`",
        p if p.starts_with("^[0-9]+(B|") => "a size: `512B`, `64KiB`, `1MiB`",
        p if p.starts_with("^.+:[0-9]") => "`ADDRESS:PORT`",
        p if p.contains("[Hh][Tt][Tt][Pp]") => "a URL",
        _ => "a text",
    }
}

/// Returns a default as it would be written.
fn shown(value: &Json) -> String {
    match value {
        Json::String(text) if !text.is_empty() => format!("`{text}`"),
        Json::Object(map) if map.is_empty() => "none".to_owned(),
        Json::Array(list) if list.is_empty() => "none".to_owned(),
        // The defaults of a section are in its own table.
        Json::Object(_) => "its defaults".to_owned(),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) | Json::Array(_) => {
            format!("`{value}`")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_of_the_schema_is_described_once_with_its_values() {
        let (page, schema) = (reference(), json_schema());
        let sections = schema["$defs"].as_object().unwrap();
        assert_eq!(page.matches("\n## ").count(), sections.len());
        let rows = page.lines().filter(|line| line.starts_with("| `")).count();
        let keys = sections.values().filter_map(properties).map(Map::len).sum::<usize>();
        assert_eq!(rows, keys);
        for row in [
            "| `workers` | 1 to 256 | absent | ",
            "| `drain` | a duration: `250ms`, `5s`, `1h` | `30s` | ",
            "| `address` | `ADDRESS:PORT` | **required** | ",
            "| `upstreams` | `NAME:` [`upstreams.NAME`](#upstreamsname) | none | ",
        ] {
            assert!(page.contains(row), "{row}\n{page}");
        }
        assert!(page.contains("\n## `policies[].rate_limit`\n"), "{page}");
    }
}
