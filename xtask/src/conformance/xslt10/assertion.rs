//! The assertions of a case about its result.

use std::sync::Arc;

use serde_json::Value;
use xml::{Document, Kind, NodeId, Options};
use xpath::{Budget, DocumentSet, Evaluation, Expr, NoHost, Plain};

use super::{Files, text};

/// The result of a case.
pub(super) enum Got {
    Result { bytes: Vec<u8>, tree: Arc<Document> },
    Failed(String),
}

impl Got {
    pub(super) fn show(&self) -> String {
        match self {
            Got::Result { bytes, .. } => format!("got {:?}", String::from_utf8_lossy(bytes)),
            Got::Failed(error) => format!("failed: {error}"),
        }
    }
}

/// Checks an assertion; the error says what does not hold.
pub(super) fn holds(
    assert: &Value,
    got: &Got,
    ignore_blank: bool,
    files: &Files<'_>,
) -> Result<(), String> {
    let list = |key: &str| assert.get(key).and_then(Value::as_array);
    let one = |assert: &Value| holds(assert, got, ignore_blank, files);
    if let Some(all) = list("all-of") {
        return all.iter().try_for_each(one);
    }
    if let Some(any) = list("any-of") {
        let mut complaints = String::new();
        for assert in any {
            match one(assert) {
                Ok(()) => return Ok(()),
                Err(complaint) => complaints.push_str(&complaint),
            }
        }
        return Err(complaints);
    }
    if let Some(not) = assert.get("not") {
        return match one(not) {
            Ok(()) => Err(format!("holds, but must not: {not}")),
            Err(_) => Ok(()),
        };
    }
    let kind = text(assert, "kind");
    let (bytes, tree) = match (got, kind) {
        (Got::Failed(_), "error") => return Ok(()),
        (Got::Failed(error), _) => return Err(format!("failed: {error}; expected {assert}")),
        (Got::Result { .. }, "error") => return Err("an error was expected".to_owned()),
        (Got::Result { bytes, tree }, _) => (bytes, tree),
    };
    let value = match assert.get("file").and_then(Value::as_str) {
        Some(path) => decoded(files.get(path)?),
        None => text(assert, "value").to_owned(),
    };
    match kind {
        "assert-xml" => same_tree(&decoded(bytes), &value, ignore_blank),
        "assert-string-value" => {
            let found = tree.string_value(Document::ROOT);
            let normal = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let same = match assert.get("normalize_space").and_then(Value::as_bool) {
                Some(true) => normal(&found) == normal(&value),
                Some(false) | None => *found == *value,
            };
            same.then_some(()).ok_or_else(|| format!("expected the text {value:?}"))
        }
        "assert-serialization" => {
            let same = lines(&decoded(bytes)) == lines(&value);
            same.then_some(()).ok_or_else(|| format!("expected {value:?}"))
        }
        "serialization-matches" => matches(&decoded(bytes), assert),
        "assert-xpath" => is_true(tree, assert),
        "assert-empty" => {
            if tree.string_value(Document::ROOT).trim().is_empty() {
                Ok(())
            } else {
                Err("expected nothing".to_owned())
            }
        }
        other => Err(format!("unknown assertion `{other}`")),
    }
}

/// Files of the suite are UTF-8 or UTF-16.
fn decoded(bytes: &[u8]) -> String {
    let units = |order: fn([u8; 2]) -> u16, bytes: &[u8]| {
        let pairs = bytes.chunks_exact(2).map(|pair| match pair {
            [a, b] => order([*a, *b]),
            _ => 0,
        });
        String::from_utf16_lossy(&pairs.collect::<Vec<u16>>())
    };
    match bytes {
        [0xfe, 0xff, rest @ ..] => units(u16::from_be_bytes, rest),
        [0xff, 0xfe, rest @ ..] => units(u16::from_le_bytes, rest),
        _ => String::from_utf8_lossy(bytes).into_owned(),
    }
}

/// Lines without outer white space and without white space around line ends.
fn lines(text: &str) -> Vec<String> {
    text.trim().lines().map(|line| line.trim().to_owned()).collect()
}

fn same_tree(got: &str, expected: &str, ignore_blank: bool) -> Result<(), String> {
    let (got, wanted) = (content(got)?, content(expected).map_err(|e| format!("expected: {e}"))?);
    let (mut a, mut b) = (Vec::new(), Vec::new());
    list(&got, ignore_blank, &mut a);
    list(&wanted, ignore_blank, &mut b);
    if a == b { Ok(()) } else { Err(format!("expected {expected:?}")) }
}

/// Parses a text as the content of an element, without its XML declaration and its document type declaration.
fn content(text: &str) -> Result<Document, String> {
    let mut rest = text.trim_start_matches('\u{feff}');
    if rest.trim_start().starts_with("<?xml ") {
        rest = rest.split_once("?>").map_or(rest, |(_, rest)| rest);
    }
    let mut without = rest.to_owned();
    if let Some(at) = rest.find("<!DOCTYPE") {
        let behind =
            rest.get(at..).and_then(|rest| rest.find('>')).map_or(rest.len(), |n| at + n + 1);
        without.replace_range(at..behind, "");
    }
    // Nodes between the prolog and the root are not part of the result.
    let wrapped = format!("<wrapper>{}</wrapper>", without.trim_matches([' ', '\t', '\r', '\n']));
    Document::parse(wrapped.as_bytes(), &Options::default())
        .map_err(|error| format!("not well-formed: {error}: {text:?}"))
}

/// Appends the tree as lines that have everything that is compared.
fn list(document: &Document, ignore_blank: bool, lines: &mut Vec<String>) {
    let mut open: Vec<NodeId> = Vec::new();
    let mut text = String::new();
    let flush = |text: &mut String, lines: &mut Vec<String>| {
        let blank = ignore_blank && text.trim().is_empty();
        if !text.is_empty() && !blank {
            lines.push(format!("text {text:?}"));
        }
        text.clear();
    };
    for id in document.descendants(Document::ROOT) {
        while open.last().is_some_and(|end| *end <= id) {
            flush(&mut text, lines);
            open.pop();
            lines.push("end".to_owned());
        }
        let name = document.name(id);
        match document.kind(id) {
            Kind::Element => {
                flush(&mut text, lines);
                lines.push(format!("start {{{}}}{}", name.namespace.uri, name.local));
                let attributes = document.attributes(id).map(|at| {
                    let name = document.name(at);
                    let value = document.value(at);
                    format!("@{{{}}}{}={value:?}", name.namespace.uri, name.local)
                });
                let mut attributes: Vec<String> = attributes.collect();
                attributes.sort();
                lines.extend(attributes);
                open.push(document.end(id));
            }
            Kind::Text => text.push_str(document.value(id)),
            Kind::Instruction => {
                flush(&mut text, lines);
                lines.push(format!("instruction {} {:?}", name.local, document.value(id)));
            }
            Kind::Document | Kind::Attribute | Kind::Comment => {}
        }
    }
    flush(&mut text, lines);
    lines.extend(open.iter().map(|_| "end".to_owned()));
}

fn is_true(tree: &Arc<Document>, assert: &Value) -> Result<(), String> {
    let namespaces = assert.get("namespaces").and_then(Value::as_object);
    let prefixes: Vec<(&str, &str)> = namespaces
        .into_iter()
        .flatten()
        .filter_map(|(prefix, uri)| Some((prefix.as_str(), uri.as_str()?)))
        .collect();
    let expr = text(assert, "expr");
    let statics = Plain { prefixes: &prefixes, ..Plain::default() };
    evaluate(tree, expr, &statics)
}

fn evaluate(tree: &Arc<Document>, expr: &str, statics: &Plain<'_>) -> Result<(), String> {
    let world = DocumentSet::new(tree.clone());
    let (mut host, mut budget) = (NoHost, Budget::default());
    let mut evaluation = Evaluation::of(&world, world.root(), &mut host, &mut budget);
    let compiled = Expr::compile(expr, statics);
    match compiled.and_then(|compiled| compiled.boolean(&mut evaluation)) {
        Ok(true) => Ok(()),
        Ok(false) => Err(format!("not true: {expr}")),
        Err(error) => Err(format!("{expr}: {error}")),
    }
}

/// Matches the serialised result with a regular expression, by XPath's `matches()`.
fn matches(got: &str, assert: &Value) -> Result<(), String> {
    let mut builder = xml::Builder::new();
    for (name, value) in [("got", got), ("regex", text(assert, "regex"))] {
        let built = builder
            .start("", name, "")
            .and_then(|_| builder.text(value))
            .and_then(|()| builder.end());
        built.map_err(|error| error.to_string())?;
    }
    let mut statics = Plain::default();
    statics.options.xpath2 = true;
    let expr = format!("matches(/got, /regex, '{}')", text(assert, "flags"));
    evaluate(&Arc::new(builder.finish()), &expr, &statics)
}
