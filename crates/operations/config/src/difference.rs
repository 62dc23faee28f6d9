//! Computes the differences of two configurations, place by place.
//!
//! Decides when two values are equivalent, how the path of a place is written, and which parts of a value may be shown. Defaults
//! are filled in, so that a default that is written out is not a difference; neither is the order of names.

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use serde_json::{Map, Value as Json, json};

use crate::decode::Decode as _;
use crate::excerpt::is_secret;
use crate::hidden::without_user;
use crate::load::LoadedConfig;
use crate::node::{Node, Value};
use crate::secret_words::{FREE_MAPS, NOT_SHOWN};
use crate::substitute::open;

/// One place at which two configurations differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The path, such as `routes.a.policies[1].jwt.issuers`. Indices of lists are those of the configuration that has the item, and of the
    /// new one if both have it.
    pub path: String,
    /// The difference at this place.
    pub change: Change,
}

/// A difference at a place. Secrets are masked.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Only the new configuration has this value.
    Added(Json),
    /// Only the old configuration has this value.
    Removed(Json),
    /// The old and the new value. They look alike if both are secrets.
    Changed(Json, Json),
    /// Both configurations name this file, and its contents differ.
    Content(Json),
}

/// The audience of the differences, which determines what may be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShownValue {
    /// An operator with access to both texts: everything except secrets.
    Operator,
    /// A user of the admin API: everything except secrets, values of headers and parameters, and message bodies.
    Api,
}

/// How many bytes of each file are read at a time.
const PIECE_BYTES_MAX: u64 = 64 * 1024;

/// The number of pieces of two files that are compared. Files that are equal up to here, at 1 GiB, count as different, so that a
/// file that never ends, such as `/dev/zero`, is not read forever.
const PIECES_MAX: usize = 16 * 1024;

/// Keys with the body of a message, or with a template of one.
const BODIES: &[&str] = &["body", "xml", "json", "text", "form"];

/// Returns the differences of two configurations, in the order of their sections.
pub fn differences(old: &LoadedConfig, new: &LoadedConfig, shown: ShownValue) -> Vec<Difference> {
    let encoded = |loaded: &LoadedConfig| loaded.config.as_ref().map(|config| config.encode());
    let (before, after) = (encoded(old), encoded(new));
    let comparison = Comparison { old, new, shown };
    let mut found = Vec::new();
    if let (Some(before), Some(after)) = (&before, &after) {
        let before = Side { json: before, node: old.tree.as_ref() };
        let after = Side { json: after, node: new.tree.as_ref() };
        comparison.compare("", before, after, &mut found);
    }
    found
}

/// Returns a configuration with all defaults and without secrets, for display to operators.
pub fn shown(loaded: &LoadedConfig) -> Option<Json> {
    let comparison = Comparison { old: loaded, new: loaded, shown: ShownValue::Operator };
    loaded.config.as_ref().map(|config| comparison.show("", &config.encode()))
}

impl Difference {
    /// Returns the difference as JSON, for the admin API.
    pub fn to_json(&self) -> Json {
        let path = &self.path;
        match &self.change {
            Change::Added(new) => json!({ "path": path, "change": "added", "new": new }),
            Change::Removed(old) => json!({ "path": path, "change": "removed", "old": old }),
            Change::Changed(old, new) => {
                json!({ "path": path, "change": "changed", "old": old, "new": new })
            }
            Change::Content(file) => json!({ "path": path, "change": "content", "new": file }),
        }
    }

    /// Parses the JSON of [`Difference::to_json`].
    pub fn from_json(told: &Json) -> Option<Difference> {
        let value = |name: &str| told.get(name).cloned();
        let change = match told.get("change")?.as_str()? {
            "added" => Change::Added(value("new")?),
            "removed" => Change::Removed(value("old")?),
            "changed" => Change::Changed(value("old")?, value("new")?),
            "content" => Change::Content(value("new")?),
            _ => return None,
        };
        Some(Difference { path: told.get("path")?.as_str()?.to_owned(), change })
    }
}

/// A value with all defaults, and the node as written. The node contains the secrets, which are masked in `json`.
#[derive(Clone, Copy)]
struct Side<'a> {
    json: &'a Json,
    node: Option<&'a Node>,
}

impl<'a> Side<'a> {
    fn member(self, key: &str) -> Option<Side<'a>> {
        let node = self.node.and_then(|node| node.get(key));
        Some(Side { json: self.json.get(key)?, node })
    }

    fn items(self) -> Vec<Side<'a>> {
        let nodes = self.node.and_then(|node| match &node.value {
            Value::List(nodes) => Some(nodes.as_slice()),
            // A single item may be written without a list.
            Value::Map(_) | Value::Scalar(_) => Some(std::slice::from_ref(node)),
            Value::Null | Value::Unreadable => None,
        });
        let items = self.json.as_array().map_or(&[][..], Vec::as_slice).iter().enumerate();
        items.map(|(at, json)| Side { json, node: nodes.and_then(|nodes| nodes.get(at)) }).collect()
    }
}

struct Comparison<'l> {
    old: &'l LoadedConfig,
    new: &'l LoadedConfig,
    shown: ShownValue,
}

impl Comparison<'_> {
    fn compare(&self, path: &str, old: Side<'_>, new: Side<'_>, found: &mut Vec<Difference>) {
        match (old.json, new.json) {
            (Json::Object(before), Json::Object(after)) => {
                for key in
                    before.keys().chain(after.keys().filter(|key| !before.contains_key(*key)))
                {
                    let path = below(path, key);
                    self.pair(&path, old.member(key), new.member(key), found);
                }
            }
            (Json::Array(before), Json::Array(after))
                if before.iter().chain(after).any(Json::is_object) =>
            {
                self.lists(path, &old.items(), &new.items(), found);
            }
            (Json::Array(_), Json::Array(_)) if self.names_same_files(old, new) => {
                // Harmless: lists that name the same files have equal lengths.
                for (index, (old, new)) in old.items().into_iter().zip(new.items()).enumerate() {
                    found.extend(self.leaf(&format!("{path}[{index}]"), old, new));
                }
            }
            _ => found.extend(self.leaf(path, old, new)),
        }
    }

    fn pair(
        &self,
        path: &str,
        old: Option<Side<'_>>,
        new: Option<Side<'_>>,
        found: &mut Vec<Difference>,
    ) {
        let change = match (old, new) {
            (Some(old), Some(new)) => return self.compare(path, old, new, found),
            (Some(old), None) => Change::Removed(self.show(path, old.json)),
            (None, Some(new)) => Change::Added(self.show(path, new.json)),
            (None, None) => return,
        };
        found.push(Difference { path: path.to_owned(), change });
    }

    /// Compares lists of maps, such as policies. An inserted item shifts the items after it, which do not count as different.
    fn lists(&self, path: &str, old: &[Side<'_>], new: &[Side<'_>], found: &mut Vec<Difference>) {
        let same = |pair: &(&Side<'_>, &Side<'_>)| {
            let mut found = Vec::new();
            self.compare(path, *pair.0, *pair.1, &mut found);
            found.is_empty()
        };
        // Harmless: items outside the common beginning and the common end are compared below.
        let first = old.iter().zip(new).take_while(same).count();
        let rest = |all: usize| all.saturating_sub(first);
        // Harmless: items outside the common beginning and the common end are compared below.
        let last = old.iter().rev().zip(new.iter().rev()).take_while(same).count();
        let last = last.min(rest(old.len())).min(rest(new.len()));
        let middle = |all: &[Side<'_>]| first..all.len().saturating_sub(last);
        let at = |index: usize| format!("{path}[{index}]");
        let mut unpaired = middle(old);
        let changed = middle(new);
        for (index, new) in new.iter().copied().enumerate().filter(|(at, _)| changed.contains(at)) {
            let pair = unpaired.clone().find_map(|index| {
                let old = *old.get(index)?;
                (kind(old.json) == kind(new.json)).then_some((index, old))
            });
            let before = pair.map_or(unpaired.start, |(index, _)| index);
            for gone in unpaired.start..before {
                self.pair(&at(gone), old.get(gone).copied(), None, found);
            }
            unpaired.start = pair.map_or(before, |(index, _)| index + 1);
            self.pair(&at(index), pair.map(|(_, old)| old), Some(new), found);
        }
        for gone in unpaired {
            self.pair(&at(gone), old.get(gone).copied(), None, found);
        }
    }

    /// Returns true if two lists of texts differ at most in the folders of files.
    fn names_same_files(&self, old: Side<'_>, new: Side<'_>) -> bool {
        let (old, new) = (old.items(), new.items());
        let same = |(old, new): (&Side<'_>, &Side<'_>)| {
            let name = |side: &Side<'_>, of| beside(side.json.as_str()?, of).map(Path::to_owned);
            old.json == new.json
                || name(old, self.old).is_some_and(|name_of| name(new, self.new) == Some(name_of))
        };
        old.len() == new.len() && old.iter().zip(&new).all(same)
    }

    fn leaf(&self, path: &str, old: Side<'_>, new: Side<'_>) -> Option<Difference> {
        let change = match (old.json.as_str(), new.json.as_str()) {
            (Some(NOT_SHOWN), Some(NOT_SHOWN)) => {
                if same_text(old.node, new.node) {
                    return None;
                }
                Change::Changed(NOT_SHOWN.into(), NOT_SHOWN.into())
            }
            (Some(before), Some(after)) if before != after => {
                match (beside(before, self.old), beside(after, self.new)) {
                    (Some(name), Some(other)) if name == other => {
                        if same_content(Path::new(before), Path::new(after)) {
                            return None;
                        }
                        Change::Content(name.to_string_lossy().into())
                    }
                    _ => self.changed(path, old.json, new.json),
                }
            }
            _ if old.json == new.json => return None,
            _ => self.changed(path, old.json, new.json),
        };
        Some(Difference { path: path.to_owned(), change })
    }

    fn changed(&self, path: &str, old: &Json, new: &Json) -> Change {
        Change::Changed(self.show(path, old), self.show(path, new))
    }

    /// Returns a value in which the parts that must not be shown are masked.
    fn show(&self, path: &str, value: &Json) -> Json {
        let mut keys = path.rsplit('.').map(|key| key.trim_matches('"'));
        let key = keys.next().unwrap_or("");
        // A value that is set in a body may be a whole document.
        let holder = if path.contains(".json.set.") { "set" } else { keys.next().unwrap_or("") };
        self.show_member(key, holder, value)
    }

    fn show_member(&self, key: &str, holder: &str, value: &Json) -> Json {
        match value {
            Json::Object(members) => {
                let key = if FREE_MAPS.contains(&holder) { holder } else { key };
                let show = |(name, value): (&String, &Json)| {
                    (name.clone(), self.show_member(name, key, value))
                };
                Json::Object(members.iter().map(show).collect::<Map<_, _>>())
            }
            Json::Array(items) => {
                items.iter().map(|item| self.show_member(key, holder, item)).collect()
            }
            Json::String(text) if self.is_hidden(key, holder, text) => NOT_SHOWN.into(),
            Json::String(text) => without_user(text).into(),
            Json::Number(_) if self.is_hidden(key, holder, "") => NOT_SHOWN.into(),
            Json::Null | Json::Bool(_) | Json::Number(_) => value.clone(),
        }
    }

    fn is_hidden(&self, key: &str, holder: &str, text: &str) -> bool {
        let names_file = || {
            let file = Path::new(text);
            [self.old, self.new].iter().any(|loaded| loaded.files.iter().any(|one| one == file))
        };
        match self.shown {
            ShownValue::Api if FREE_MAPS.contains(&holder) || BODIES.contains(&key) => true,
            // `key: key.pem` names a file, and is not itself a secret.
            ShownValue::Api | ShownValue::Operator => is_secret(key) && !names_file(),
        }
    }
}

/// Returns the path of a member.
fn below(path: &str, key: &str) -> String {
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let key = if plain && !key.is_empty() { key.to_owned() } else { format!("\"{key}\"") };
    if path.is_empty() { key } else { format!("{path}.{key}") }
}

/// Returns the kind of a list item, which is its key if it has exactly one, as a policy has. Other items have no kind.
fn kind(item: &Json) -> Option<&str> {
    let keys = item.as_object().filter(|keys| keys.len() == 1)?;
    keys.keys().next().map(String::as_str)
}

/// Returns the path of a file relative to the folder of the configuration that names it, or `None` if `loaded` does not name it.
fn beside<'t>(text: &'t str, loaded: &LoadedConfig) -> Option<&'t Path> {
    let path = Path::new(text);
    let named = loaded.files.iter().any(|file| file == path);
    let mut folders = loaded.report.sources().iter().map(|source| &source.folder);
    // Harmless: a file outside of the folders is compared by its whole path.
    named.then(|| folders.find_map(|folder| path.strip_prefix(folder).ok())).flatten()
}

/// Returns true if two files have the same bytes, or if reading both fails with the same kind of error.
fn same_content(old: &Path, new: &Path) -> bool {
    let opened = |path: &Path| open(path).map_err(|error| error.kind());
    let piece = |file: &Result<File, ErrorKind>| {
        let mut bytes = Vec::new();
        // Harmless: the next piece begins where this one ends.
        let read =
            file.as_ref().map_err(|kind| *kind)?.take(PIECE_BYTES_MAX).read_to_end(&mut bytes);
        read.map(|_| bytes).map_err(|error| error.kind())
    };
    let (old, new) = (opened(old), opened(new));
    for _ in 0..PIECES_MAX {
        let (old, new) = (piece(&old), piece(&new));
        if old != new {
            return false;
        }
        if old.is_ok_and(|bytes| bytes.is_empty()) || new.is_err() {
            return true;
        }
    }
    false
}

/// Returns true if two nodes have the same content as written. Ignores positions, quotes and the order of keys.
fn same_text(old: Option<&Node>, new: Option<&Node>) -> bool {
    let (Some(old), Some(new)) = (old, new) else { return old.is_none() && new.is_none() };
    match (&old.value, &new.value) {
        (Value::Scalar(old), Value::Scalar(new)) => old.text == new.text,
        (Value::Map(before), Value::Map(after)) => {
            before.len() == after.len()
                && before.iter().all(|entry| same_text(Some(&entry.node), new.get(&entry.key)))
        }
        (Value::List(old), Value::List(new)) => {
            old.len() == new.len()
                && old.iter().zip(new).all(|(old, new)| same_text(Some(old), Some(new)))
        }
        (Value::Null, Value::Null) | (Value::Unreadable, Value::Unreadable) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::parse;

    /// Returns the differences as `path change`.
    fn told(old: &str, new: &str) -> Vec<String> {
        let loaded = |text: &str| {
            let loaded = parse(text, Path::new("a.yaml"));
            assert!(!loaded.report.has_errors(), "{}", loaded.report);
            loaded
        };
        let found = differences(&loaded(old), &loaded(new), ShownValue::Operator);
        let told = found.iter().map(|one| {
            let again = Difference::from_json(&one.to_json());
            assert_eq!(again.as_ref(), Some(one));
            format!("{} {}", one.path, one.to_json()["change"].as_str().unwrap())
        });
        told.collect()
    }

    fn policies(list: &str) -> String {
        format!("routes: {{ a: {{ match: {{ path: /a }}, respond: {{}}, policies: [{list}] }} }}")
    }

    #[test]
    fn policies_that_moved_are_not_reported_as_changed() {
        let (ip, one, two) =
            ("ip_filter: { deny: [\"10.0.0.0/8\"] }", "cors: { origins: [\"*\"] }", "compress: {}");
        let list = |of: &[&str]| {
            policies(&of.iter().map(|p| format!("{{ {p} }}")).collect::<Vec<_>>().join(", "))
        };
        let at = |index: u32, change: &str| format!("routes.a.policies[{index}] {change}");
        for (old, new, expected) in [
            (vec![one, two], vec![ip, one, two], vec![at(0, "added")]),
            (vec![one, two], vec![one, two, ip], vec![at(2, "added")]),
            (vec![one, two], vec![one, ip, two], vec![at(1, "added")]),
            (vec![ip, one, two], vec![one, two], vec![at(0, "removed")]),
            (
                vec![ip, one, two],
                vec![],
                vec![at(0, "removed"), at(1, "removed"), at(2, "removed")],
            ),
            (vec![ip], vec![ip, ip], vec![at(1, "added")]),
            (vec![one, two], vec![two, one], vec![at(0, "removed"), at(1, "added")]),
            (
                vec![one, ip, two],
                vec![one, "ip_filter: { deny: [\"10.0.0.0/9\"] }", two],
                vec!["routes.a.policies[1].ip_filter.deny changed".to_owned()],
            ),
        ] {
            assert_eq!(told(&list(&old), &list(&new)), expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn users_of_urls_are_not_shown() {
        for (url, shown) in [
            ("http://ann:pw@a/b@c", "http://(not shown)@a/b@c"),
            ("http://a/b@c", "http://a/b@c"),
            ("redis://:pw@a:1", "redis://(not shown)@a:1"),
            ("no url", "no url"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }

    #[test]
    fn what_is_set_in_a_body_is_not_shown_to_the_api() {
        let loaded = |value: &str| {
            let set = format!("{{ transform: {{ json: {{ set: {{ {value} }} }} }} }}");
            parse(&policies(&set), Path::new("a.yaml"))
        };
        let values =
            ["/a: { b: hush, n: 17 }", "/a: { b: hush2, n: 18 }", "/c: [{ d: [hush, 17] }]"];
        for (old, new) in [(0, 1), (0, 2), (2, 1)] {
            let found = differences(&loaded(values[old]), &loaded(values[new]), ShownValue::Api);
            let told = format!("{found:?}");
            assert!(!found.is_empty() && !told.contains("hush"), "{told}");
            assert!(!told.contains("17") && !told.contains("18"), "{told}");
        }
    }

    #[test]
    fn files_that_are_no_text_are_compared_by_their_bytes() {
        let folder =
            std::env::temp_dir().join(format!("tidegate-difference-{}", std::process::id()));
        let loaded = |side: &str, bytes: &[u8]| {
            let folder = folder.join(side);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("a.der"), bytes).unwrap();
            let text = "upstreams: { u: { targets: [\"https://a.test\"], tls: { ca: a.der } } }";
            parse(text, &folder.join("a.yaml"))
        };
        let told = |old: &[u8], new: &[u8]| {
            let (old, new) = (loaded("old", old), loaded("new", new));
            let found = differences(&old, &new, ShownValue::Operator);
            found.into_iter().map(|one| (one.path, one.change)).collect::<Vec<_>>()
        };
        assert_eq!(told(b"\xff1", b"\xff1"), []);
        let changed = [("upstreams.u.tls.ca".to_owned(), Change::Content("a.der".into()))];
        assert_eq!(told(b"\xff1", b"\xff2"), changed);
        let long = vec![b'a'; 17 * 1024 * 1024];
        assert_eq!(told(&long, &long), []);
        assert_eq!(told(&long, &[&*long, b"b"].concat()), changed);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn bodies_of_messages_are_not_shown_to_the_api() {
        let loaded = |value: &str| {
            let text = format!(
                "flows: {{ f: [{{ payload: {{ text: {value}1 }} }}, {{ respond: {{ form: {{ a: {value}2 }} }} }}] }}\nschedules: {{ s: {{ every: 1m, flow: f, message: {{ xml: {value}3 }} }} }}\n"
            );
            let loaded = parse(&text, Path::new("a.yaml"));
            assert!(!loaded.report.has_errors(), "{}", loaded.report);
            loaded
        };
        let told = |shown| format!("{:?}", differences(&loaded("hush"), &loaded("still"), shown));
        let api = told(ShownValue::Api);
        assert!(!api.contains("hush") && !api.contains("still"), "{api}");
        let operator = told(ShownValue::Operator);
        assert!((1..=3).all(|n| operator.contains(&format!("still{n}"))), "{operator}");
    }

    #[test]
    fn odd_names_are_quoted_in_paths() {
        let route = |name: &str, path: &str| {
            format!("routes: {{ \"{name}\": {{ match: {{ path: {path} }}, respond: {{}} }} }}")
        };
        let told = told(&route("a.b c", "/a"), &route("a.b c", "/b"));
        assert_eq!(told, ["routes.\"a.b c\".match.path changed"]);
    }
}
