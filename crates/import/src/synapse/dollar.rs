//! Expressions in `${...}`: a place in the message becomes its name, computations and comparisons become CEL.

use super::converter::Converter;
use super::element::Element;
use super::expressions::{Value, header};
use super::xpath_text::Gives;

/// Operators of both languages, longest first, with their counterparts in CEL.
const OPERATORS: [(&str, &str); 18] = [
    ("==", "=="),
    ("!=", "!="),
    (">=", ">="),
    ("<=", "<="),
    ("&&", "&&"),
    ("||", "||"),
    (">", ">"),
    ("<", "<"),
    ("+", "+"),
    ("-", "-"),
    ("*", "*"),
    ("/", "/"),
    ("%", "%"),
    ("!", "!"),
    ("(", "("),
    (")", ")"),
    ("?", "?"),
    (":", ":"),
];

/// Words that are operators.
const WORDS: [(&str, &str); 6] = [
    ("and", "&&"),
    ("or", "||"),
    ("not", "!"),
    ("true", "true"),
    ("false", "false"),
    ("null", "null"),
];

/// The value of the text between the braces.
pub(super) fn value<'a>(
    converter: &mut Converter<'a>,
    element: &Element<'a>,
    text: &str,
) -> Result<Value, String> {
    let text = text.trim();
    if let Some(inner) = called(text, "xpath") {
        return converter.xpath(element, inner);
    }
    match place(converter, text)? {
        Some(MessagePath { end, path, .. }) if end == text.len() && !path.is_empty() => {
            Ok(Value::Path(path, Gives::Other))
        }
        Some(_) | None => rule(converter, text).map(Value::Cel),
    }
}

/// The text up to the brace that closes, and the rest behind it.
pub(super) fn close(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') => return Some((text.get(..at)?, text.get(at + 1..)?)),
            // Harmless: any other character is a part of the expression.
            _ => {}
        }
    }
    None
}

/// The literal argument of `name('...')`, where that is the whole text.
fn called<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let inner = text.strip_prefix(name)?.trim_start().strip_prefix('(')?.strip_suffix(')')?.trim();
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    inner.get(1..)?.strip_suffix(quote).filter(|inner| !inner.contains(quote))
}

/// A place in the message.
#[derive(Default)]
struct MessagePath {
    /// Bytes of the text that it takes.
    end: usize,
    /// In the language of flows.
    path: String,
    /// In CEL.
    rule: String,
}

/// Reads `payload.a[0]`, `vars.x`, `headers["X"]`, `params.queryParams.x`, `properties.synapse.x` at the beginning of a text.
fn place(converter: &mut Converter<'_>, text: &str) -> Result<Option<MessagePath>, String> {
    let first: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let end = chain(text, first.len());
    let tail = text.get(first.len()..end).unwrap_or_default();
    let made = |path: String, rule: String| Ok(Some(MessagePath { end, path, rule }));
    let taken = |count: usize| parts(tail, count).ok_or_else(|| format!("`{text}` names nothing"));
    match first.as_str() {
        "payload" => made(format!("$body{tail}"), format!("body{tail}")),
        "" if text.starts_with("$.") || text.starts_with("$[") => {
            let end = chain(text, 1);
            let tail = text.get(1..end).unwrap_or_default();
            Ok(Some(MessagePath { end, path: format!("$body{tail}"), rule: format!("body{tail}") }))
        }
        "vars" | "var" => {
            let (names, rest) = taken(1)?;
            let variable = converter.named("default", names.first().map_or("", String::as_str))?;
            let rule = format!("vars.{}{rest}", variable.trim_start_matches('$'));
            made(format!("{variable}{rest}"), rule)
        }
        "headers" => {
            let (names, _) = taken(1)?;
            let name = names.first().map_or("", String::as_str);
            made(header(name)?, format!("headers[\"{}\"]", name.to_ascii_lowercase()))
        }
        "params" => {
            let (names, _) = taken(2)?;
            let [group, name] = names.as_slice() else { return Ok(None) };
            let group = match group.as_str() {
                "queryParams" => "query",
                "pathParams" | "uriParams" => "path",
                _ => {
                    // The parameters of a template.
                    let path = converter.named("func", name)?;
                    let rule = format!("vars.{}", path.trim_start_matches('$'));
                    return made(path, rule);
                }
            };
            made(format!("${group}.{name}"), format!("{group}[\"{name}\"]"))
        }
        "properties" => {
            let (names, rest) = taken(2)?;
            let [scope, name] = names.as_slice() else { return Ok(None) };
            let path = converter.named(scope, name)?;
            let rule = match path.split_once('.') {
                Some(_) => path.trim_start_matches('$').to_owned(),
                None => format!("vars.{}{rest}", path.trim_start_matches('$')),
            };
            made(format!("{path}{rest}"), rule)
        }
        "configs" => {
            let (names, _) = taken(1)?;
            let name = names.first().map_or("", String::as_str);
            Err(format!(
                "`configs.{name}` is read at run time; write `${{{name}}}` where it is used"
            ))
        }
        _ => Ok(None),
    }
}

/// The end of a chain of members and indices.
fn chain(text: &str, from: usize) -> usize {
    let mut end = from;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let word = |rest: &str| {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        };
        let dots = if rest.starts_with("..") { 2 } else { usize::from(rest.starts_with('.')) };
        let behind = rest.get(dots..).unwrap_or_default();
        let step = match (dots, rest.starts_with('[')) {
            (0, true) => rest.find(']').map_or(0, |close| close + 1),
            (0, false) => 0,
            _ => match word(behind) {
                0 => 0,
                len => dots + len,
            },
        };
        match step {
            0 => return end,
            step => end += step,
        }
    }
}

/// The first names of a chain, and the rest of it.
fn parts(tail: &str, count: usize) -> Option<(Vec<String>, &str)> {
    let (mut names, mut rest) = (Vec::new(), tail);
    while names.len() < count {
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            rest.strip_prefix('[')?.strip_prefix(quote)?.split_once(&format!("{quote}]"))
        });
        let (name, after) = match quoted {
            Some(found) => found,
            None => {
                let plain = rest.strip_prefix('.')?;
                let len = plain.find(['.', '[']).unwrap_or(plain.len());
                plain.split_at_checked(len)?
            }
        };
        names.push(name.to_owned());
        rest = after;
    }
    Some((names, rest))
}

/// A text that computes or compares, as CEL.
fn rule(converter: &mut Converter<'_>, text: &str) -> Result<String, String> {
    let mut out: Vec<String> = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let at = text.len() - rest.len();
        let refused =
            |what: &str| format!("{what} has no counterpart (character {} of `{text}`)", at + 1);
        let word: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let known = WORDS.iter().find(|(name, _)| *name == word);
        let operator = OPERATORS.iter().find(|(sign, _)| rest.starts_with(sign));
        let len = if matches!(first, '\'' | '"') {
            let close = rest.get(1..).and_then(|rest| rest.find(first));
            let len = close.ok_or_else(|| refused("a text without an end"))? + 2;
            out.push(rest.get(..len).unwrap_or_default().to_owned());
            len
        } else if first.is_ascii_digit() {
            let len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            out.push(rest.get(..len).unwrap_or_default().to_owned());
            len
        } else if let Some((name, sign)) = known {
            out.push((*sign).to_owned());
            name.len()
        } else if let Some(found) = place(converter, rest)? {
            out.push(found.rule);
            found.end
        } else if let Some(inside) = rest.strip_prefix("length").filter(|_| word == "length") {
            let _ = inside;
            out.push("size".to_owned());
            word.len()
        } else if let Some((sign, meant)) = operator {
            out.push((*meant).to_owned());
            sign.len()
        } else {
            let what = match word.is_empty() {
                true => format!("`{first}`"),
                false => format!("`{word}`"),
            };
            return Err(refused(&what));
        };
        rest = rest.get(len..).unwrap_or_default().trim_start();
    }
    let text = out.join(" ");
    Ok(text.replace("! ", "!").replace("( ", "(").replace(" )", ")").replace("size (", "size("))
}
