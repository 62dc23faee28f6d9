//! Derives parsing, default, schema and help text of a key from one definition.
//!
//! Owns the [`Decode`] trait and the two macros that define sections and words. Decoding collects all complaints: after a value that cannot
//! be read, the other values are still read.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::excerpt::hidden_at;
use crate::hidden::without_secret;
use crate::node::{MapEntry, Node, Value};
use crate::report::{Report, did_you_mean};
use crate::schema::{SchemaBuilder, SectionSchema};
use crate::sources::{At, quote};

/// A type that can be written in a configuration.
pub trait Decode: Sized {
    /// Reads a value. If that fails, complains and returns `None`.
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self>;

    /// Returns the value of an absent key, or `None` if the key is required.
    fn absent() -> Option<Self> {
        None
    }

    /// Returns the value as it could be written, with every default written out. Secrets are not shown.
    fn encode(&self) -> Json;

    /// Returns the JSON Schema of the values that may be written.
    fn schema(schema: &mut SchemaBuilder) -> Json;
}

/// The state of decoding: where to complain, and where relative paths start.
pub struct Decoder<'a> {
    report: &'a mut Report,
    /// The names of all policies. One of them in the place of another key gets its own help.
    policies: &'static [&'static str],
    /// The number of mistakes so far: complaints, and values whose references could not be replaced, which were reported earlier.
    mistakes: usize,
    /// Files that values name, which are watched for changes.
    named: Vec<PathBuf>,
    /// The places of secrets that are written in the configuration.
    secrets: Vec<At>,
    /// Files that contain secrets.
    secret_files: Vec<PathBuf>,
}

/// The findings of decoding in addition to the values.
pub(crate) struct Decoded {
    /// Files that values name.
    pub(crate) named: Vec<PathBuf>,
    /// The places of secrets that are written in the configuration, in order.
    pub(crate) secrets: Vec<At>,
    /// The files that contain secrets.
    pub(crate) secret_files: Vec<PathBuf>,
}

/// A map whose keys were checked.
pub struct Section<'n> {
    node: &'n Node,
    /// Alternative names of keys, each with the primary name.
    other_names: &'n [(&'n str, &'n str)],
    /// Known keys that were probably misspelt. They are not reported as missing.
    misspelt: Vec<&'n str>,
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(report: &'a mut Report, policies: &'static [&'static str]) -> Self {
        Self {
            report,
            policies,
            mistakes: 0,
            named: Vec::new(),
            secrets: Vec::new(),
            secret_files: Vec::new(),
        }
    }

    pub(crate) fn finish(self) -> Decoded {
        let Self { named, mut secrets, secret_files, .. } = self;
        secrets.sort();
        Decoded { named, secrets, secret_files }
    }

    /// Records that the value at a place is secret.
    pub(crate) fn keep_secret(&mut self, at: At) {
        self.secrets.push(at);
    }

    /// Records that a file contains secrets.
    pub(crate) fn keep_file_secret(&mut self, file: &Path) {
        self.secret_files.push(file.to_owned());
    }

    /// Complains at a place. If the value there is a secret, the complaint does not quote it.
    pub fn error(&mut self, at: At, what: impl Into<String>, help: impl Into<String>) {
        self.mistakes += 1;
        let what = what.into();
        let secret =
            if self.report.is_full() { None } else { hidden_at(self.report.sources(), at) };
        let what = secret.map_or_else(|| what.clone(), |secret| without_secret(&what, secret));
        self.report.error(at, what, help);
    }

    /// Returns the candidate that the operator most likely meant.
    pub(crate) fn suggest<'c>(
        &self,
        wrong: &str,
        candidates: impl IntoIterator<Item = &'c str>,
    ) -> Option<&'c str> {
        self.report.suggest(wrong, candidates)
    }

    /// Returns the number of mistakes so far. A value is intact if the number does not change while it is decoded.
    pub(crate) fn mistakes(&self) -> usize {
        self.mistakes
    }

    /// Complains that a value does not have the type of the key.
    pub fn expected(&mut self, node: &Node, what: &str, help: impl Into<String>) {
        if let Value::Unreadable = node.value {
            self.mistakes += 1;
            return;
        }
        self.error(node.at, format!("expected {what}, found {}", node.describe()), help);
    }

    /// Resolves a path relative to the file that names it, and records it as a dependency.
    pub(crate) fn resolve(&mut self, path: &str, at: At) -> PathBuf {
        let path = self.resolve_unwatched(path, at);
        self.named.push(path.clone());
        path
    }

    /// Like `resolve`, for a file that is not watched for changes.
    pub(crate) fn resolve_unwatched(&self, path: &str, at: At) -> PathBuf {
        let folder = self.report.sources().of(at).map(|source| source.folder.as_path());
        folder.unwrap_or(Path::new("")).join(path)
    }

    /// Returns the entries of a map, whatever its keys.
    pub(crate) fn entries<'n>(&mut self, node: &'n Node, what: &str) -> Option<&'n [MapEntry]> {
        match &node.value {
            Value::Map(entries) => Some(entries),
            Value::Null => {
                let help = "write it with its keys indented below, `{}` for an empty one, or remove the key";
                self.error(node.owner, format!("expected {what}, found nothing"), help);
                None
            }
            Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                self.expected(
                    node,
                    what,
                    "write `{ key: value }`, or one `key: value` on each line",
                );
                None
            }
        }
    }

    /// Returns the node as a section if it is a map. Complains about every key that is neither in `known` nor an alternative name of one,
    /// and about a key that is written under two names.
    pub fn section<'n>(
        &mut self,
        node: &'n Node,
        known: &[&'n str],
        other_names: &'n [(&'n str, &'n str)],
    ) -> Option<Section<'n>> {
        let entries = self.entries(node, "a map")?;
        self.refuse_two_names(entries, known, other_names);
        let mut misspelt = Vec::new();
        let unknown = |entry: &&MapEntry| first_name(&entry.key, known, other_names).is_none();
        for entry in entries.iter().filter(unknown) {
            let meant = self.suggest(&entry.key, known.iter().copied());
            misspelt.extend(meant);
            let has_policies = ["policies", "policy_sets"].iter().any(|key| known.contains(key));
            let of_kong = kong_key(&entry.key, known);
            let help = if has_policies && self.policies.contains(&entry.key.as_str()) {
                format!("write policies as a list: `policies: [{{ {}: .. }}]`", entry.key)
            } else {
                of_kong
                    .map(str::to_owned)
                    .unwrap_or_else(|| format!("the keys here are {}", list(known, "and")))
            };
            let what = format!("unknown key {}{}", quote(&entry.key), did_you_mean(meant));
            self.error(entry.key_at, what, help);
        }
        Some(Section { node, other_names, misspelt })
    }

    fn refuse_two_names(
        &mut self,
        entries: &[MapEntry],
        known: &[&str],
        other_names: &[(&str, &str)],
    ) {
        for (_, first) in other_names {
            let same =
                |entry: &&MapEntry| first_name(&entry.key, known, other_names) == Some(first);
            let mut names = entries.iter().filter(same);
            let Some(kept) = names.next() else { continue };
            for other in names {
                let what = format!("`{}` and `{}` are the same key", kept.key, other.key);
                self.error(
                    other.key_at,
                    what,
                    format!("keep one of the two, preferably `{first}`"),
                );
            }
        }
    }

    /// Returns the value of a key of a section, or else its default. Complains if there is neither.
    ///
    /// A value that cannot be read is reported and counts as absent, so that the rest of the configuration can still be checked. Such a
    /// configuration is never served.
    pub fn field<T: Decode>(
        &mut self,
        section: &Section<'_>,
        key: &str,
        doc: &str,
        absent: Option<T>,
    ) -> Option<T> {
        if let Some(node) = section.get(key) {
            return T::decode(node, self).or(absent);
        }
        if absent.is_none() && !section.misspelt.contains(&key) {
            let doc = doc.trim().split("\n").next().unwrap_or_default();
            self.error(
                section.node.owner,
                format!("the key `{key}` is missing"),
                format!("add `{key}`: {doc}"),
            );
        }
        absent
    }

    /// Reads one of a fixed list of words.
    pub fn word<'w>(&mut self, node: &Node, words: &[&'w str]) -> Option<&'w str> {
        self.word_or(node, words, "")
    }

    /// Like `word`, for a key that also allows other values. `other` describes them, such as `"a status, "`, and the help lists it first.
    pub(crate) fn word_or<'w>(
        &mut self,
        node: &Node,
        words: &[&'w str],
        other: &str,
    ) -> Option<&'w str> {
        let help = format!("write {other}{}", list(words, "or"));
        let Some(text) = node.text() else {
            self.expected(node, "a word", help);
            return None;
        };
        let found = words.iter().copied().find(|word| *word == text);
        if found.is_none() {
            let meant = self.suggest(&text.to_ascii_lowercase(), words.iter().copied());
            let what = format!("unknown value {}{}", quote(text), did_you_mean(meant));
            self.error(node.at, what, help);
        }
        found
    }
}

impl SectionSchema<'_> {
    /// Adds a key of the section.
    pub fn key<T: Decode>(&mut self, key: &'static str, doc: &str, absent: Option<T>) {
        let schema = T::schema(self.builder);
        self.add(key, doc, schema, absent.as_ref().map(Decode::encode));
    }
}

impl<'n> Section<'n> {
    /// Returns the value of a key, by any of its names.
    fn get(&self, key: &str) -> Option<&'n Node> {
        let by_other_name = || {
            let names = self.other_names.iter().filter(|(_, first)| *first == key);
            names.flat_map(|(name, _)| spellings(name)).find_map(|name| self.node.get(name))
        };
        self.node.get(key).or_else(by_other_name)
    }
}

/// Returns the help for one of Kong's keys. `known` are the keys of this section, one of which identifies the section.
fn kong_key(name: &str, known: &[&str]) -> Option<&'static str> {
    const KEYS: [(&str, &str, &str); 13] = [
        ("services", "upstreams", "Kong's services are `upstreams` here, with `targets`"),
        (
            "consumers",
            "upstreams",
            "Kong's consumers are entries of the files of `api_key`, `basic` and `jwt` here",
        ),
        (
            "plugins",
            "upstreams",
            "Kong's plugins are `policies` here, below a route or in `defaults`",
        ),
        ("_format_version", "upstreams", "this is a configuration of Kong"),
        ("_transform", "upstreams", "this is a configuration of Kong"),
        ("paths", "strip_prefix", "Kong's `paths` are `match: { path: \"/orders/**\" }` here"),
        ("methods", "strip_prefix", "Kong's `methods` are `match: { methods: [GET] }` here"),
        ("hosts", "strip_prefix", "Kong's `hosts` are `match: { host: api.example.com }` here"),
        ("service", "strip_prefix", "Kong's `service` is `upstream: NAME` here"),
        ("strip_path", "strip_prefix", "Kong's `strip_path` is `strip_prefix: /orders` here"),
        ("preserve_host", "strip_prefix", "Kong's `preserve_host` is `host: preserve` here"),
        ("plugins", "strip_prefix", "Kong's plugins are `policies` here"),
        ("retries", "targets", "Kong's `retries` is `retry: { attempts: 2 }` here"),
    ];
    let found = KEYS.iter().find(|(theirs, beside, _)| *theirs == name && known.contains(beside));
    found.map(|(.., ours)| *ours)
}

/// Returns the primary name of a key, if the name is known.
fn first_name<'k>(
    name: &str,
    known: &[&'k str],
    other_names: &[(&str, &'k str)],
) -> Option<&'k str> {
    let first = known.iter().copied().find(|key| *key == name);
    let by_other_name =
        || other_names.iter().find(|(other, _)| spellings(other).any(|other| other == name));
    first.or_else(|| by_other_name().map(|(_, first)| *first))
}

/// Returns the possible spellings of a name. YAML 1.1 tools treat the key `on` as a boolean and write it as `true`.
fn spellings(name: &str) -> impl Iterator<Item = &str> {
    std::iter::once(name).chain((name == "on").then_some("true"))
}

/// Joins words for a sentence: `a`, `b` and `c`.
pub(crate) fn list(words: &[&str], and: &str) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} {and} {last}", others.join(", ")),
        None => "none".to_owned(),
    }
}

/// Defines a section: a map with fixed keys.
///
/// `name: Type` takes its default from the type, and is a required key if the type has no default. `name: Type = value` states the
/// default. `name as "key"` is for keys that are reserved words in Rust, and `name or "other"` for keys with another valid name. The doc
/// comments are the help texts and the schema's descriptions.
#[macro_export]
macro_rules! keys {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $field_doc:literal])*
                $field:ident $(as $key:literal)? $(or $other:literal)? : $ty:ty $(= $default:expr)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {
            $( $(#[doc = $field_doc])* $vis $field: $ty, )*
        }

        #[allow(unused_variables, unused_mut, reason = "a section may have no keys")]
        impl $crate::decode::Decode for $name {
            fn decode(
                node: &$crate::node::Node,
                decoder: &mut $crate::decode::Decoder<'_>,
            ) -> Option<Self> {
                const KEYS: &[&str] = &[$( $crate::decode::keys!(@key $field $($key)?) ),*];
                const OTHER_NAMES: &[(&str, &str)] =
                    &[$( $( ($other, stringify!($field)), )? )*];
                let section = decoder.section(node, KEYS, OTHER_NAMES)?;
                $(
                    let $field = decoder.field::<$ty>(
                        &section,
                        $crate::decode::keys!(@key $field $($key)?),
                        concat!($($field_doc, "\n"),*),
                        $crate::decode::keys!(@absent $ty $(, $default)?),
                    );
                )*
                Some(Self { $( $field: $field?, )* })
            }

            fn absent() -> Option<Self> {
                Some(Self { $( $field: $crate::decode::keys!(@absent $ty $(, $default)?)?, )* })
            }

            fn encode(&self) -> serde_json::Value {
                let mut map = serde_json::Map::new();
                $(
                    let value = $crate::decode::Decode::encode(&self.$field);
                    if !value.is_null() {
                        map.insert($crate::decode::keys!(@key $field $($key)?).to_owned(), value);
                    }
                )*
                serde_json::Value::Object(map)
            }

            fn schema(schema: &mut $crate::schema::SchemaBuilder) -> serde_json::Value {
                schema.section(stringify!($name), concat!($($doc, "\n"),*), |section| {
                    $(
                        section.key::<$ty>(
                            $crate::decode::keys!(@key $field $($key)?),
                            concat!($($field_doc, "\n"),*),
                            $crate::decode::keys!(@absent $ty $(, $default)?),
                        );
                        $( section.other_name(stringify!($field), $other); )?
                    )*
                })
            }
        }
    };
    (@key $field:ident) => { stringify!($field) };
    (@key $field:ident $key:literal) => { $key };
    (@absent $ty:ty) => { <$ty as $crate::decode::Decode>::absent() };
    (@absent $ty:ty, $default:expr) => { Some::<$ty>($default) };
}

/// Defines a value that is one of a few words.
#[macro_export]
macro_rules! words {
    (
        $(#[doc = $doc:literal])*
        pub enum $name:ident {
            $( $(#[doc = $word_doc:literal])* $variant:ident = $word:literal ),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $( $(#[doc = $word_doc])* $variant, )*
        }

        impl $name {
            const WORDS: &[&str] = &[$($word),*];

            /// Returns the word in the configuration.
            pub fn word(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )*
                }
            }
        }

        impl $crate::decode::Decode for $name {
            fn decode(
                node: &$crate::node::Node,
                decoder: &mut $crate::decode::Decoder<'_>,
            ) -> Option<Self> {
                match decoder.word(node, Self::WORDS)? {
                    $( $word => Some(Self::$variant), )*
                    _ => None,
                }
            }

            fn encode(&self) -> serde_json::Value {
                self.word().into()
            }

            fn schema(_: &mut $crate::schema::SchemaBuilder) -> serde_json::Value {
                $crate::schema::one_of(Self::WORDS)
            }
        }
    };
}

pub use {keys, words};
