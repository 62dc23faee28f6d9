//! The resulting configuration and its files.

use std::collections::HashMap;

use serde_json::{Map, Value as Json, json};

use crate::wsdl::slug;

/// Everything that is written.
#[derive(Debug, Default)]
pub(super) struct Output {
    pub(super) listen: Map<String, Json>,
    pub(super) stores: Map<String, Json>,
    pub(super) issuers: Map<String, Json>,
    pub(super) upstreams: Map<String, Json>,
    pub(super) policy_sets: Map<String, Json>,
    pub(super) routes: Map<String, Json>,
    pub(super) telemetry: Map<String, Json>,
    /// The settings for scraping metrics.
    pub(super) status: Map<String, Json>,
    /// The files of the configuration, by their paths.
    pub(super) files: Vec<(String, Vec<u8>)>,
    /// The names in use, each after its kind, with the last number that was appended to it.
    taken: HashMap<String, usize>,
}

impl Output {
    /// A name that nothing of this kind has yet.
    pub(super) fn fresh(&mut self, kind: &str, wanted: &str) -> String {
        let wanted = match slug(wanted).trim_matches('-') {
            "" => kind.to_owned(),
            name => name.to_owned(),
        };
        let mut number = self.taken.get(&format!("{kind} {wanted}")).copied().unwrap_or(0);
        let mut name = wanted.clone();
        while self.taken.contains_key(&format!("{kind} {name}")) {
            number += 1;
            name = format!("{wanted}-{number}");
        }
        self.taken.insert(format!("{kind} {name}"), 1);
        self.taken.insert(format!("{kind} {wanted}"), number.max(1));
        name
    }

    /// Adds a file to the configuration, and returns its path. Equal files are stored once.
    pub(super) fn file(&mut self, wanted: &str, ending: &str, content: Vec<u8>) -> String {
        let known =
            self.files.iter().find(|(path, bytes)| *bytes == content && path.ends_with(ending));
        if let Some((path, _)) = known {
            return path.clone();
        }
        let path = format!("{}.{ending}", self.fresh("file", wanted));
        self.files.push((path.clone(), content));
        path
    }

    /// The whole configuration.
    pub(super) fn configuration(&self) -> Json {
        let sections = [
            ("listen", &self.listen),
            ("stores", &self.stores),
            ("issuers", &self.issuers),
            ("upstreams", &self.upstreams),
            ("policy_sets", &self.policy_sets),
            ("routes", &self.routes),
            ("telemetry", &self.telemetry),
            ("status", &self.status),
        ];
        let written = sections.into_iter().filter(|(_, section)| !section.is_empty());
        let all = written.map(|(name, section)| (name.to_owned(), Json::Object(section.clone())));
        Json::Object(all.collect())
    }
}

/// A text of Kong's with its braces escaped, so that nothing in it is a placeholder.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        out.push_str(before);
        let named = after.split_once('}').filter(|(name, _)| is_name(name));
        match named {
            // After `$`, a template takes a brace for text. After the mark, the brace begins a variable of the configuration.
            Some((name, behind)) if !out.ends_with(['$', '\u{0}']) => {
                out.push_str("{{");
                out.push_str(name);
                out.push_str("}}");
                rest = behind;
            }
            Some(_) | None => {
                out.push('{');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// True for a text that would be a name in a placeholder.
fn is_name(text: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || matches!(c, '{' | '}' | '"' | '\'' | ';' | ',');
    let prefixes = ["claims.", "attributes.", "headers.", "query."];
    match prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)) {
        Some(name) => !name.is_empty() && !name.contains(odd),
        None => {
            let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
            let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
            begins && text.chars().all(name)
        }
    }
}

/// Checks that the gateway supports a regular expression of Kong. The error is the reason if it does not.
pub(super) fn regex_here(text: &str) -> Result<(), &'static str> {
    let built = regex::bytes::RegexBuilder::new(text).unicode(false).build();
    built
        .map(drop)
        .map_err(|_| "Tidegate's regular expressions have no look-around and no references")
}

/// A duration of `number` milliseconds.
pub(super) fn milliseconds(number: u64) -> String {
    match number % 1000 {
        0 => format!("{}s", number / 1000),
        _ => format!("{number}ms"),
    }
}

/// A value alone, or a list of several.
pub(super) fn one_or_more(values: Vec<Json>) -> Json {
    match <[Json; 1]>::try_from(values) {
        Ok([one]) => one,
        Err(several) => Json::Array(several),
    }
}

/// The content of a file with a certificate or a key.
pub(super) fn pem(text: &str) -> Vec<u8> {
    format!("{}\n", text.trim_end()).into_bytes()
}

/// The answer of a route that is closed because of a guard that has no counterpart.
pub(super) fn closed() -> Json {
    json!({ "status": 503, "body": "{\"message\":\"Service unavailable\"}\n", "headers": { "content-type": "application/json" } })
}
