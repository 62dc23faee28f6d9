//! The text of Kong's files as a tree in which each value has its place, and the mistakes that are found in it.

use std::collections::HashMap;
use std::path::Path;

use config::node::{Node, Value as Read};
use config::{At, Decode, Decoder, SchemaBuilder};
use serde_json::Value as Json;

use crate::table::ArtifactPosition;
use crate::yaml::variable;

/// A place in one of the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FilePosition {
    file: u32,
    line: u32,
    column: u32,
}

/// A value with its place.
#[derive(Debug, Clone, Default)]
pub(super) struct Item {
    pub(super) at: FilePosition,
    pub(super) value: Value,
}

#[derive(Debug, Clone, Default)]
pub(super) enum Value {
    #[default]
    Null,
    Text(String),
    List(Vec<Item>),
    Map(Vec<(String, Item)>),
}

/// Mistakes because of which Kong or decK would refuse the files.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    names: Vec<String>,
    found: Vec<(FilePosition, String)>,
}

/// Variables of decK's templates, and the values that are known.
#[derive(Default)]
pub(super) struct Variables {
    pub(super) known: HashMap<String, String>,
    /// The variables that the imported configuration refers to, each with a value that is used while the configuration is checked.
    pub(super) stand_ins: HashMap<String, String>,
    /// Whether `$NAME` and `${NAME}` are variables as well.
    pub(super) of_shell: bool,
}

/// The limit of reported mistakes.
const MISTAKES_MAX: usize = 1_000;

impl Mistakes {
    pub(super) fn add(&mut self, at: FilePosition, what: impl Into<String>) {
        let (known, what) = (&self.found, what.into());
        if known.len() < MISTAKES_MAX
            && !known.iter().any(|(place, told)| *place == at && *told == what)
        {
            self.found.push((at, what));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The place with the name of its file.
    pub(super) fn position(&self, at: FilePosition) -> ArtifactPosition {
        // Harmless: `read` adds the name of a file before it makes places in it.
        let file = self.names.get(at.file as usize).cloned().unwrap_or_default();
        ArtifactPosition { file, line: at.line, column: at.column }
    }

    /// All mistakes, in the order of their places.
    pub(super) fn lines(mut self) -> Vec<String> {
        self.found.sort();
        self.found.iter().map(|(at, what)| format!("{}: {what}", self.position(*at))).collect()
    }

    /// Reads one file.
    pub(super) fn read(
        &mut self,
        name: &str,
        text: &str,
        variables: &mut Variables,
    ) -> Option<Item> {
        let file = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.push(name.to_owned());
        let text = self.without_templates(file, text, variables);
        let (tree, report) = config::read::<Tree>(&text, Path::new(name));
        for complaint in report.errors() {
            self.add(place(file, complaint.at), complaint.what.clone());
        }
        tree.map(|Tree(node)| item(&node, file, &mut variables.stand_ins))
    }

    /// Replaces decK's templates in a text. A variable that becomes a number or a boolean is replaced by its value, any other by its name
    /// between two marks. Files are assumed not to contain these marks.
    fn without_templates(&mut self, file: u32, text: &str, variables: &mut Variables) -> String {
        let (mut out, mut rest, mut done) = (String::with_capacity(text.len()), text, 0);
        while let Some((before, after)) = rest.split_once("${{") {
            variables.write(before, &mut out);
            let at = place_of(file, text, done + before.len());
            let Some((inner, behind)) = after.split_once("}}") else {
                self.add(at, "`${{` without its `}}`");
                return out;
            };
            done += before.len() + inner.len() + 5;
            rest = behind;
            match named(inner) {
                Ok((name, true)) => match variables.known.get(&name) {
                    Some(value) => out.push_str(value),
                    None => {
                        let what =
                            format!("`{name}` must be set: its value becomes a number or a switch");
                        self.add(at, what);
                    }
                },
                Ok((name, false)) => {
                    variables.stand_in(&name);
                    out.push(OPEN);
                    out.push_str(&name);
                    out.push(CLOSE);
                }
                Err(why) => self.add(at, why),
            }
        }
        variables.write(rest, &mut out);
        out
    }
}

impl Variables {
    /// Notes a variable, with its value for the check.
    fn stand_in(&mut self, name: &str) {
        match self.known.get(name) {
            Some(value) => drop(self.stand_ins.insert(name.to_owned(), value.clone())),
            None => stand_in(&mut self.stand_ins, name),
        }
    }

    /// Appends to `out` a part of a file that contains no templates of decK. If `of_shell`, replaces each variable by its name between two
    /// marks.
    fn write(&mut self, text: &str, out: &mut String) {
        let mut rest = text;
        while let (true, Some((before, after))) = (self.of_shell, rest.split_once('$')) {
            out.push_str(before);
            match shell_name(after) {
                Some((name, behind)) => {
                    self.stand_in(name);
                    out.push(OPEN);
                    out.push_str(name);
                    out.push(CLOSE);
                    rest = behind;
                }
                None => {
                    out.push('$');
                    rest = after;
                }
            }
        }
        out.push_str(rest);
    }
}

/// Splits the text after a `$`, which begins with `NAME` or `{NAME}`, into the name and the rest. Returns `None` if there is no name.
fn shell_name(text: &str) -> Option<(&str, &str)> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let braced = text.strip_prefix('{').and_then(|rest| rest.split_once('}'));
    let (name, behind) = match braced {
        Some(found) => found,
        None => text.split_at(text.find(|c: char| !is_name(c)).unwrap_or(text.len())),
    };
    let begins = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (begins && name.chars().all(is_name)).then_some((name, behind))
}

/// The value of a variable while a configuration is checked. It is a valid host name, and long enough for a secret of any algorithm.
const STAND_IN: &str = "stand-in.stand-in.stand-in.stand-in.stand-in.stand-in.stand-in.stand-in";

/// Gives a variable a value that no other has, since keys and names must differ.
fn stand_in(stand_ins: &mut HashMap<String, String>, name: &str) {
    let number = stand_ins.len();
    stand_ins.entry(name.to_owned()).or_insert_with(|| format!("{STAND_IN}.v{number}"));
}

/// Begins the name of a variable in YAML that is not parsed yet. Both marks are characters for private use.
const OPEN: char = '\u{f8fe}';
/// Ends the name of a variable.
const CLOSE: char = '\u{f8ff}';

/// The variable of a template, and whether its value becomes a number or a boolean.
fn named(template: &str) -> Result<(String, bool), String> {
    let (call, kind) = match template.split_once('|') {
        Some((call, kind)) => (call.trim(), Some(kind.trim())),
        None => (template.trim(), None),
    };
    // In a double-quoted text, inner quotes are escaped with a backslash.
    let call = call.replace("\\\"", "\"");
    let name = call.strip_prefix("env").map(str::trim);
    let name = name.and_then(|name| name.strip_prefix(['"', '`'])?.strip_suffix(['"', '`']));
    let Some(name) = name else {
        return Err(format!("`{}` is not a template of decK; it knows `env`", template.trim()));
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.starts_with("DECK_") && name.chars().all(is_name) {
        match kind {
            None => Ok((name.to_owned(), false)),
            Some("toInt" | "toBool" | "toFloat") => Ok((name.to_owned(), true)),
            Some(other) => Err(format!("the import does not know the decK function `{other}`")),
        }
    } else {
        Err(format!("decK reads variables that begin with `DECK_`, and not `{name}`"))
    }
}

fn place_of(file: u32, text: &str, at: usize) -> FilePosition {
    let before = text.get(..at).unwrap_or(text);
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let line = number(before.matches('\n').count() + 1);
    let column = number(before.chars().rev().take_while(|c| *c != '\n').count() + 1);
    FilePosition { file, line, column }
}

fn place(file: u32, at: At) -> FilePosition {
    FilePosition { file, line: at.line, column: at.column }
}

/// The untyped tree of a file.
struct Tree(Node);

impl Decode for Tree {
    fn decode(node: &Node, _: &mut Decoder<'_>) -> Option<Tree> {
        Some(Tree(node.clone()))
    }

    fn encode(&self) -> Json {
        Json::Null
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        Json::Bool(true)
    }
}

fn item(node: &Node, file: u32, stand_ins: &mut HashMap<String, String>) -> Item {
    let value = match &node.value {
        Read::Null | Read::Unreadable => Value::Null,
        Read::Scalar(scalar) => Value::Text(match of_environment(&scalar.text) {
            Some(name) => {
                stand_in(stand_ins, &name);
                variable(&name)
            }
            None => with_variables(&scalar.text),
        }),
        Read::List(items) => {
            Value::List(items.iter().map(|node| item(node, file, stand_ins)).collect())
        }
        Read::Map(entries) => {
            let mut entry = |entry: &config::node::MapEntry| {
                (entry.key.clone(), item(&entry.node, file, stand_ins))
            };
            Value::Map(entries.iter().map(&mut entry).collect())
        }
    };
    Item { at: place(file, node.at), value }
}

/// The name of the environment variable in a reference to Kong's vault `env`, or `None` if the text is not such a reference.
fn of_environment(text: &str) -> Option<String> {
    let name = text.strip_prefix("{vault://env/")?.strip_suffix('}')?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let is_whole = !name.is_empty() && name.chars().all(is_name);
    is_whole.then(|| name.to_ascii_uppercase().replace('-', "_"))
}

fn with_variables(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(OPEN) {
        out.push_str(before);
        let (name, behind) = after.split_once(CLOSE).unwrap_or((after, ""));
        out.push_str(&variable(name));
        rest = behind;
    }
    out.push_str(rest);
    out
}

impl Item {
    pub(super) fn get(&self, key: &str) -> Option<&Item> {
        let entries = self.entries().iter();
        let mut found = entries.filter(|(name, item)| name == key && !item.is_null());
        found.next().map(|(_, item)| item)
    }

    pub(super) fn entries(&self) -> &[(String, Item)] {
        match &self.value {
            Value::Map(entries) => entries,
            Value::Null | Value::Text(_) | Value::List(_) => &[],
        }
    }

    pub(super) fn items(&self) -> &[Item] {
        match &self.value {
            Value::List(items) => items,
            Value::Null | Value::Text(_) | Value::Map(_) => &[],
        }
    }

    /// The items of the list under a key. Empty if the key is absent.
    pub(super) fn list(&self, key: &str) -> &[Item] {
        self.get(key).map_or(&[], Item::items)
    }

    /// The entries of the map under a key. Empty if the key is absent.
    pub(super) fn map(&self, key: &str) -> &[(String, Item)] {
        self.get(key).map_or(&[], Item::entries)
    }

    pub(super) fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// True if nothing is said: `null`, an empty list, or a map of nothing else.
    pub(super) fn is_empty(&self) -> bool {
        match &self.value {
            Value::Null => true,
            Value::Text(_) => false,
            Value::List(items) => items.is_empty(),
            Value::Map(entries) => entries.iter().all(|(_, item)| item.is_empty()),
        }
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.value, Value::Map(_))
    }

    /// The scalar as written.
    pub(super) fn scalar(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        }
    }

    /// True if a text in it contains another.
    pub(super) fn mentions(&self, text: &str) -> bool {
        match &self.value {
            Value::Null => false,
            Value::Text(own) => own.contains(text),
            Value::List(items) => items.iter().any(|item| item.mentions(text)),
            Value::Map(entries) => entries.iter().any(|(_, item)| item.mentions(text)),
        }
    }

    /// The place of the value of a key, or the place of this item if the key is absent.
    pub(super) fn place_of(&self, key: &str) -> FilePosition {
        self.get(key).map_or(self.at, |item| item.at)
    }

    /// The text of a key.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.get(key)?.scalar()
    }

    pub(super) fn is_true(&self, key: &str, absent: bool) -> bool {
        match self.text(key) {
            Some(text) => matches!(text, "true" | "True" | "TRUE"),
            None => absent,
        }
    }

    /// A whole number of a key.
    pub(super) fn whole(&self, key: &str, absent: u64) -> u64 {
        // Harmless: the table of fields reports other values.
        self.text(key).and_then(|text| text.parse().ok()).unwrap_or(absent)
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        // Harmless: the table of fields reports other values.
        self.text(key)?.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
    }

    /// The texts of a list, or of one scalar in its place.
    pub(super) fn texts(&self, key: &str) -> Vec<&str> {
        let Some(item) = self.get(key) else { return Vec::new() };
        match &item.value {
            Value::Text(text) => vec![text],
            // Harmless: the table of fields reports other values.
            Value::List(items) => items.iter().filter_map(Item::scalar).collect(),
            Value::Null | Value::Map(_) => Vec::new(),
        }
    }

    /// Adds the defaults of missing keys.
    pub(super) fn complete(&mut self, defaults: &Item) {
        if let Value::Map(entries) = &mut self.value {
            for (key, value) in defaults.entries() {
                match entries.iter_mut().find(|(known, _)| known == key) {
                    None => entries.push((key.clone(), value.clone())),
                    Some((_, item)) if item.is_map() => item.complete(value),
                    Some(_) => {}
                }
            }
        }
    }
}
