//! The basic types of values: text, numbers, lists, maps, and values with their place.

mod addresses;
mod database_url;
mod definition_at;
mod json_text;
mod matching;
mod quantities;
mod receiver_urls;
mod secrets;
mod web_url;

use std::path::{Path, PathBuf};

use serde_json::{Value as Json, json};

pub use addresses::{Address, NameServer, Network, SrvUrl, TargetAddress, TargetUrl};
pub use database_url::DatabaseUrl;
pub use definition_at::DefinitionAt;
pub use json_text::JsonText;
pub use matching::{
    CookieName, CookiePath, HashBy, Priority, RetryOn, StatusRange, TlsVersion, ValueMatch,
};
pub use quantities::{Factor, Fraction, MemoryLimit, Percent, Size, Timeout, duration};
pub use receiver_urls::{CollectorUrl, SocketScheme, SocketUrl};
pub use secrets::{Credential, Credentials, Secret};
pub use web_url::WebUrl;

use crate::decode::{Decode, Decoder};
use crate::node::{Node, Value};
use crate::schema::{SchemaBuilder, bare};
use crate::secret_words::PEM;
use crate::sources::{At, quote};

/// A value and its place. The place does not affect equality.
#[derive(Clone, Copy, Debug)]
pub struct Spanned<T> {
    /// The value that was written.
    pub value: T,
    /// Its place.
    pub at: At,
    /// False if a part of the value could not be read, so that complaints about missing parts would be misleading.
    pub intact: bool,
}

/// A map with names chosen by the operator, in the order written. Names are unique.
#[derive(Clone, Debug, PartialEq)]
pub struct Map<T> {
    entries: Vec<(Spanned<String>, T)>,
    /// Names whose values could not be read.
    unreadable: Vec<String>,
}

/// One value, or a list of them.
#[derive(Clone, Debug, PartialEq)]
pub struct OneOrMore<T>(pub Vec<T>);

/// A whole number within inclusive bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Between<const MIN: u32, const MAX: u32>(u32);

/// A path, resolved relative to the folder of the file that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePath(PathBuf);

/// The maximum length of a name, since names are labels of metrics.
const NAME_CHARS_MAX: usize = 128;

impl<T> Spanned<T> {
    /// Creates a value that was not written: a default.
    pub fn unwritten(value: T) -> Self {
        Self { value, at: At::NOWHERE, intact: true }
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T> Map<T> {
    /// Returns the value of a name.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.iter().find(|(key, _)| key.value == name).map(|(_, value)| value)
    }

    /// Returns the values in the order written, for replacement.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().map(|(_, value)| value)
    }

    /// Adds a generated value. Returns false if the name is taken.
    pub fn add(&mut self, name: Spanned<String>, value: T) -> bool {
        let free = !self.has(&name.value);
        if free {
            self.entries.push((name, value));
        }
        free
    }

    /// Returns names with their values, in the order written.
    pub fn iter(&self) -> impl Iterator<Item = (&Spanned<String>, &T)> {
        self.entries.iter().map(|(name, value)| (name, value))
    }

    /// Returns every name that was written, including those whose values could not be read.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let readable = self.entries.iter().map(|(name, _)| name.value.as_str());
        readable.chain(self.unreadable.iter().map(String::as_str))
    }

    /// Returns true if a name was written, even if its value could not be read. What names it needs no complaint.
    pub fn has(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// Returns the number of values that could be read.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no value that could be read.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self { entries: Vec::new(), unreadable: Vec::new() }
    }
}

impl<const MIN: u32, const MAX: u32> Between<MIN, MAX> {
    /// Creates the number. For constants, the bounds are checked at compile time.
    pub const fn new(number: u32) -> Self {
        assert!(MIN <= number && number <= MAX, "the number is outside its bounds");
        Self(number)
    }

    /// Returns the number.
    pub fn get(self) -> u32 {
        self.0
    }

    /// Returns the number as 16 bits, such as for a status. Does not compile if the upper bound needs more bits.
    pub fn get_u16(self) -> u16 {
        const { assert!(MAX <= 0xffff, "the bound has more than 16 bits") };
        u16::try_from(self.0).unwrap_or(u16::MAX)
    }
}

impl FilePath {
    /// Returns the path.
    pub fn as_path(&self) -> &Path {
        &self.0
    }
}

impl Decoder<'_> {
    /// Parses a value from text. If `parse` fails, complains with the text that it returns.
    pub(crate) fn parse<T>(
        &mut self,
        node: &Node,
        what: &str,
        help: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let Some(text) = node.text() else {
            self.expected(node, what, help);
            return None;
        };
        parse(text).map_err(|why| self.error(node.at, why, help)).ok()
    }
}

impl<T: Decode> Decode for Spanned<T> {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let mistakes = decoder.mistakes();
        let value = T::decode(node, decoder)?;
        Some(Self { value, at: node.at, intact: decoder.mistakes() == mistakes })
    }

    // `absent` is not implemented: only a value that was written has a place.

    fn encode(&self) -> Json {
        self.value.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        T::schema(schema)
    }
}

impl<T: Decode> Decode for Option<T> {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        T::decode(node, decoder).map(Some)
    }

    fn absent() -> Option<Self> {
        Some(None)
    }

    fn encode(&self) -> Json {
        self.as_ref().map_or(Json::Null, Decode::encode)
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        T::schema(schema)
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Value::List(items) = &node.value else {
            decoder.expected(node, "a list", "write `[a, b]`, or one `- a` on each line");
            return None;
        };
        // Items that cannot be read are omitted; they were already reported.
        Some(items.iter().filter_map(|item| T::decode(item, decoder)).collect())
    }

    fn encode(&self) -> Json {
        self.iter().map(Decode::encode).collect()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "type": "array", "items": T::schema(schema) })
    }
}

impl<T: Decode> Decode for OneOrMore<T> {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match node.value {
            Value::List(_) => Vec::decode(node, decoder).map(Self),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::Map(_) => {
                T::decode(node, decoder).map(|one| Self(vec![one]))
            }
        }
    }

    fn encode(&self) -> Json {
        match self.0.as_slice() {
            [one] => one.encode(),
            _ => self.0.encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [T::schema(schema), Vec::<T>::schema(schema)] })
    }
}

impl<T: Decode> Decode for Map<T> {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let entries = decoder.entries(node, "a map from names to values")?;
        let mut read = Self::default();
        for entry in entries {
            let intact = check_name(&entry.key, entry.key_at, decoder);
            match T::decode(&entry.node, decoder) {
                Some(value) => {
                    let name = Spanned { value: entry.key.clone(), at: entry.key_at, intact };
                    read.entries.push((name, value));
                }
                None => read.unreadable.push(entry.key.clone()),
            }
        }
        Some(read)
    }

    fn encode(&self) -> Json {
        let entry = |(name, value): &(Spanned<String>, T)| (name.value.clone(), value.encode());
        Json::Object(self.entries.iter().map(entry).collect())
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "type": "object", "additionalProperties": T::schema(schema) })
    }
}

fn check_name(name: &str, at: At, decoder: &mut Decoder<'_>) -> bool {
    let good = !name.is_empty()
        && name.chars().count() <= NAME_CHARS_MAX
        && !name.chars().any(char::is_control);
    if !good {
        decoder.error(
            at,
            format!("{} cannot be a name", quote(name)),
            format!("write 1 to {NAME_CHARS_MAX} printable characters"),
        );
    }
    good
}

impl Decode for String {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let text = node.text();
        if text.is_none() {
            decoder.expected(node, "text", "write a text; quote it where YAML would misread it");
        }
        text.map(str::to_owned)
    }

    fn encode(&self) -> Json {
        self.as_str().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        // Header values and versions are often written without quotes: `x-on: true` means the text `true`.
        json!({ "type": ["string", "number", "boolean"] })
    }
}

impl Decode for bool {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match node.bare_text() {
            Some("true") => Some(true),
            Some("false") => Some(false),
            _ => {
                decoder.expected(
                    node,
                    "`true` or `false`",
                    "write `true` or `false` without quotes",
                );
                None
            }
        }
    }

    fn encode(&self) -> Json {
        (*self).into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        bare("boolean")
    }
}

impl<const MIN: u32, const MAX: u32> Decode for Between<MIN, MAX> {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        // Harmless: an invalid number gets a complaint below.
        let number = node.bare_text().and_then(kit::digits::whole::<u32>);
        let within = number.filter(|number| (MIN..=MAX).contains(number));
        if within.is_none() {
            let what = format!("a whole number from {MIN} to {MAX}");
            decoder.expected(node, &what, format!("write {what} without quotes"));
        }
        within.map(Self)
    }

    fn encode(&self) -> Json {
        self.0.into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        let mut schema = bare("integer");
        if let Some(keys) = schema.as_object_mut() {
            keys.insert("minimum".to_owned(), MIN.into());
            keys.insert("maximum".to_owned(), MAX.into());
        }
        schema
    }
}

impl Decode for FilePath {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write the path of a file, such as `tls/key.pem`; a relative one starts at this file's folder";
        let path = decoder.parse(node, "a file's path", help, |text| match text {
            "" => Err("the path must not be empty".to_owned()),
            text if text.contains(PEM) || text.contains(char::is_control) => {
                Err("expected the path of a file, found its content".to_owned())
            }
            text => Ok(text.to_owned()),
        })?;
        Some(Self(decoder.resolve(&path, node.at)))
    }

    fn encode(&self) -> Json {
        self.0.to_string_lossy().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "string" })
    }
}
