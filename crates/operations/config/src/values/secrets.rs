//! Secret texts, which are never shown, and files that contain them.

use std::fmt;
use std::path::Path;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys};
use crate::node::{MapEntry, Node, Value};
use crate::report::Report;
use crate::schema::{SchemaBuilder, marked};
use crate::secret_words::NOT_SHOWN;
use crate::sources::{Source, Sources};
use crate::substitute::read_text;
use crate::values::{FilePath, Map, Spanned};
use crate::yaml;

/// A text that is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(pub String);

/// Secrets with their owners: written out, or in a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Credentials {
    /// `{ file: PATH }`
    File(Spanned<FilePath>),
    /// `{ NAME: SECRET }`
    Written(Vec<Spanned<Credential>>),
}

/// One subject and its secret.
#[derive(Clone, Debug, PartialEq)]
pub struct Credential {
    /// The name of the entry, which a client of `basic` sends.
    pub name: String,
    /// The owner.
    pub subject: String,
    /// The secret, or its hash.
    pub secret: Secret,
    /// The subject's plan.
    pub tier: Option<String>,
    /// The application that the secret was issued to.
    pub application: Option<Spanned<String>>,
    /// The groups of the subject.
    pub groups: Vec<String>,
    /// Other attributes of the subject, by name.
    pub attributes: Vec<(String, String)>,
}

keys! {
    /// A secret, and the attributes of its subject.
    pub(crate) struct CredentialKeys {
        /// The secret, or its hash.
        key or "password": Option<Secret>,
        /// The SHA-1 of a password followed by a salt, as `SALT:HEX`, which is the format of Kong.
        sha1: Option<Secret>,
        /// The subject, if it differs from the name of the entry. Several entries may have the same subject.
        subject: Option<String>,
        /// The subject's plan.
        tier: Option<String>,
        /// The application of `applications` that the secret was issued to, for APIs with `subscription`.
        application: Option<Spanned<String>>,
        /// The groups of the subject, for `authorize` and rules in CEL.
        groups: Vec<String> = Vec::new(),
        /// Other attributes of the subject, by name: texts for rules in CEL and templates.
        attributes: Map<String> = Map::default(),
    }
}

const HELP: &str =
    "write `{ SUBJECT: SECRET }`, or `{ file: PATH }` for a file with one `SUBJECT: SECRET` a line";

impl Credentials {
    /// Returns all credentials. Faults of their file are reported at the place where it is named.
    pub fn read(&self, report: &mut Report) -> Vec<Spanned<Credential>> {
        match self {
            Credentials::Written(written) => written.clone(),
            Credentials::File(file) => match read_file(file.value.as_path()) {
                Ok(read) => read.into_iter().map(|one| Spanned { at: file.at, ..one }).collect(),
                Err(why) => {
                    let what = format!("cannot use `{}`: {why}", file.value.as_path().display());
                    report.error(file.at, what, "write one `SUBJECT: SECRET` a line, as YAML");
                    Vec::new()
                }
            },
        }
    }
}

/// Reads the credentials of a file. The error is the first fault.
fn read_file(path: &Path) -> Result<Vec<Spanned<Credential>>, String> {
    let text = read_text(path, yaml::FILE_BYTES_MAX)?;
    if text.trim().is_empty() {
        return Err("the file is empty".to_owned());
    }
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let source = Source { name: path.display().to_string(), folder, text: text.clone() };
    let mut report = Report::new(Sources::new(vec![source]));
    let read = yaml::read(&text, 0, &mut report)
        .and_then(|node| entries(&node, &mut Decoder::new(&mut report, &[])));
    match report.errors().next() {
        // The error does not quote the line, which may contain a secret.
        Some(first) => Err(format!("line {}: {}", first.at.line, first.what)),
        None => read.ok_or_else(|| "it has no credentials".to_owned()),
    }
}

fn entries(node: &Node, decoder: &mut Decoder<'_>) -> Option<Vec<Spanned<Credential>>> {
    if matches!(node.value, Value::Scalar(_)) {
        return by_subject(node, decoder);
    }
    let entries = decoder.entries(node, "secrets by subject")?;
    Some(entries.iter().filter_map(|entry| credential(entry, decoder)).collect())
}

/// Complains about a text without quoting it, since it may be a secret.
fn by_subject<T>(node: &Node, decoder: &mut Decoder<'_>) -> Option<T> {
    decoder.error(node.at, "expected secrets by subject", HELP);
    None
}

fn credential(entry: &MapEntry, decoder: &mut Decoder<'_>) -> Option<Spanned<Credential>> {
    let CredentialKeys { key, sha1, subject, tier, application, groups, attributes } =
        match &entry.node.value {
            Value::Map(_) => CredentialKeys::decode(&entry.node, decoder)?,
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => CredentialKeys {
                key: Some(Secret::decode(&entry.node, decoder)?),
                sha1: None,
                subject: None,
                tier: None,
                application: None,
                groups: Vec::new(),
                attributes: Map::default(),
            },
        };
    let key = match (key, sha1) {
        (Some(key), None) => key,
        (None, Some(hash)) => Secret(format!("sha1:{}", hash.0)),
        (Some(_), Some(_)) | (None, None) => {
            let help = "write `key: SECRET`, or `sha1: SALT:HEX`";
            decoder.error(
                entry.node.at,
                "a credential needs exactly one secret: a key or a hash",
                help,
            );
            return None;
        }
    };
    if key.0.is_empty() {
        decoder.error(entry.node.at, "the secret must not be empty", HELP);
        return None;
    }
    let attributes = attributes.iter().map(|(name, text)| (name.value.clone(), text.clone()));
    let attributes = attributes.collect();
    let name = entry.key.clone();
    let subject = subject.unwrap_or_else(|| name.clone());
    let value = Credential { name, subject, secret: key, tier, application, groups, attributes };
    Some(Spanned { value, at: entry.key_at, intact: true })
}

impl Decode for Credentials {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(list) => match list.as_slice() {
                [one] if one.key == "file" => {
                    let file: Spanned<FilePath> = Spanned::decode(&one.node, decoder)?;
                    decoder.keep_file_secret(file.value.as_path());
                    Some(Self::File(file))
                }
                _ => entries(node, decoder).map(Self::Written),
            },
            Value::Scalar(_) => by_subject(node, decoder),
            Value::Null | Value::Unreadable | Value::List(_) => {
                decoder.expected(node, "secrets by subject", HELP);
                None
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Credentials::File(file) => json!({ "file": file.encode() }),
            Credentials::Written(written) => {
                let one = |one: &Spanned<Credential>| (one.value.name.clone(), NOT_SHOWN.into());
                Json::Object(written.iter().map(one).collect())
            }
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        let one = json!({ "anyOf": [Secret::schema(schema), CredentialKeys::schema(schema)] });
        json!({ "type": "object", "additionalProperties": one })
    }
}

impl Decode for Secret {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let text = node.text();
        decoder.keep_secret(node.at);
        if text.is_none() {
            decoder.expected(
                node,
                "a secret",
                "write a text, preferably `${NAME}` or `${file:PATH}`",
            );
        }
        text.map(|text| Self(text.to_owned()))
    }

    fn encode(&self) -> Json {
        NOT_SHOWN.into()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        marked(String::schema(schema))
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}
