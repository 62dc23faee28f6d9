//! Converts the comparisons in an expression of Kong's router.

use serde_json::{Value as Json, json};

use super::certificates::{PUBLIC, SECURE};
use super::criteria::Criteria;
use super::expression::{self, Alternative, Comparison};
use super::order::{HostWant, PathCondition};

impl Criteria {
    /// The conditions of each alternative of an expression, in addition to `common`. The error names what has no counterpart.
    pub(super) fn alternatives(
        common: &Criteria,
        text: &str,
        has_tls: bool,
    ) -> Result<Vec<Criteria>, String> {
        let alternatives = expression::read(text)?;
        alternatives.iter().map(|one| common.with(one, has_tls)).collect()
    }

    fn with(&self, alternative: &Alternative, has_tls: bool) -> Result<Criteria, String> {
        let mut criteria = self.clone();
        for comparison in alternative {
            criteria.compare(comparison, has_tls)?;
        }
        if criteria.paths.is_empty() {
            criteria.paths.push(PathCondition::Any);
        }
        if criteria.hosts.is_empty() {
            criteria.hosts.push(HostWant::Any);
        }
        Ok(criteria)
    }

    fn compare(&mut self, comparison: &Comparison, has_tls: bool) -> Result<(), String> {
        let Comparison { field, operator, value } = comparison;
        let unknown = || format!("Tidegate has no condition `{field} {operator} {value}`");
        match (field.as_str(), *operator) {
            ("http.path", _) => {
                let path = path(operator, value).ok_or_else(unknown)?;
                only(&mut self.paths, path)
            }
            ("http.host", "==") => {
                only(&mut self.hosts, HostWant::Exact(value.to_ascii_lowercase()))
            }
            ("http.host", "^=") => {
                only(&mut self.hosts, HostWant::Begins(value.to_ascii_lowercase()))
            }
            ("http.host", "=^") => {
                let parent = value.strip_prefix('.').ok_or_else(unknown)?;
                only(&mut self.hosts, HostWant::Below(parent.to_ascii_lowercase()))
            }
            ("http.method", "==") => only(&mut self.methods, value.clone()),
            ("net.protocol", "==") => match value.as_str() {
                "https" if has_tls => way(&mut self.listener, SECURE),
                "http" if has_tls => way(&mut self.listener, PUBLIC),
                "http" => Ok(()),
                _ => Err("there is no certificate, so nothing listens for HTTPS".to_owned()),
            },
            ("tls.sni", "==") => only(&mut self.snis, value.to_ascii_lowercase()),
            ("tls.sni", "=^") if value.starts_with('.') => {
                only(&mut self.snis, format!("*{}", value.to_ascii_lowercase()))
            }
            ("net.src.ip", "==" | "in") => only(&mut self.sources, value.clone()),
            _ => {
                let named = |kind: &str| field.strip_prefix(kind).filter(|name| !name.is_empty());
                let want = condition(operator, value).ok_or_else(unknown)?;
                if let Some(name) = named("http.headers.") {
                    only_named(&mut self.raw_headers, name.replace('_', "-"), want)
                } else if let Some(name) = named("http.queries.") {
                    only_named(&mut self.queries, name.to_owned(), want)
                } else {
                    Err(unknown())
                }
            }
        }
    }
}

fn path(operator: &str, value: &str) -> Option<PathCondition> {
    // Harmless: the caller refuses an invalid regular expression.
    let regex =
        |text: String| regex::bytes::Regex::new(&text).ok().map(|_| PathCondition::Regex(text));
    match operator {
        "==" => Some(PathCondition::Exact(value.to_owned())),
        "^=" if value.starts_with('/') => Some(PathCondition::Prefix(value.to_owned())),
        "=^" => regex(format!("/.*{}$", regex::escape(value.strip_prefix('/')?))),
        "~" => match value.strip_prefix('^') {
            Some(text) if text.starts_with('/') || text.starts_with('(') => regex(text.to_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// The condition on a value of a header or a parameter.
fn condition(operator: &str, value: &str) -> Option<Json> {
    let text = regex::escape(value);
    match operator {
        "==" => Some(json!(value)),
        "^=" => Some(json!({ "regex": format!("{text}.*") })),
        "=^" => Some(json!({ "regex": format!(".*{text}") })),
        "contains" => Some(json!({ "regex": format!(".*{text}.*") })),
        "~" => {
            // Harmless: the caller refuses an invalid regular expression.
            let regex = regex::bytes::Regex::new(value).ok();
            regex.map(|_| json!({ "regex": format!(".*(?:{value}).*") }))
        }
        _ => None,
    }
}

/// Adds the only value of a condition. The error names a different value that is known already.
fn only<T: PartialEq + std::fmt::Debug>(list: &mut Vec<T>, value: T) -> Result<(), String> {
    match list.first() {
        None => list.push(value),
        Some(known) if *known == value => {}
        Some(known) => return Err(format!("{known:?} and {value:?} cannot both hold")),
    }
    Ok(())
}

fn way(listener: &mut Option<&'static str>, wanted: &'static str) -> Result<(), String> {
    match listener.replace(wanted) {
        Some(known) if known != wanted => Err("`http` and `https` cannot both hold".to_owned()),
        Some(_) | None => Ok(()),
    }
}

fn only_named(list: &mut Vec<(String, Json)>, name: String, want: Json) -> Result<(), String> {
    if list.iter().any(|(known, _)| *known == name) {
        return Err(format!("Tidegate has no second condition on `{name}`"));
    }
    list.push((name, want));
    Ok(())
}
