//! Finds the scalars of a text with their byte ranges, so that some can be changed without touching the rest of the text.

use std::collections::HashMap;
use std::ops::Range;

use saphyr_parser::{Event, Parser, ScalarStyle};

use crate::excerpt::closing;
use crate::sources::At;

/// One scalar as written, before references are replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrittenScalar {
    /// The path of the scalar: keys, and indices of list items.
    pub(crate) path: Vec<String>,
    /// Its place, as in complaints.
    pub(crate) at: At,
    /// The places of its aliases.
    pub(crate) aliases: Vec<At>,
    /// Its byte range, including quotes.
    pub(crate) range: Range<usize>,
    /// Its text.
    pub(crate) text: String,
    /// True if it spans several lines, so its source cannot be copied to another place.
    pub(crate) is_block: bool,
}

/// An open collection, and the position of its next value.
enum Open {
    List(usize),
    /// The key of the next value, or `None` before a key.
    Map(Option<String>),
}

/// Returns the scalars that are values, or `None` if the text cannot be parsed.
pub(crate) fn scalars(text: &str, file: u32) -> Option<Vec<WrittenScalar>> {
    let offsets: Vec<usize> =
        text.char_indices().map(|(at, _)| at).chain(std::iter::once(text.len())).collect();
    let offset = |index: usize| offsets.get(index).copied().unwrap_or(text.len());
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let (mut found, mut open) = (Vec::<WrittenScalar>::new(), Vec::<Open>::new());
    let mut anchors: HashMap<usize, usize> = HashMap::new();
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        let (start, end) = (span.start, span.end);
        let at = At { file, line: number(start.line()), column: number(start.col() + 1) };
        match event {
            Event::MappingStart(..) => open.push(Open::Map(None)),
            Event::SequenceStart(..) => open.push(Open::List(0)),
            Event::MappingEnd | Event::SequenceEnd => {
                open.pop();
                step(&mut open);
            }
            Event::Alias(anchor) => {
                // A key that is an alias is refused when the configuration is loaded.
                let of = anchors.get(&anchor).and_then(|index| found.get_mut(*index));
                if let Some(scalar) = of {
                    scalar.aliases.push(at);
                }
                step(&mut open);
            }
            Event::Scalar(value, style, anchor, _) => {
                if let Some(Open::Map(key @ None)) = open.last_mut() {
                    *key = Some(value.into_owned());
                    continue;
                }
                let mut range = written(text, offset(start.index())..offset(end.index()), style)?;
                let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if is_block {
                    range.start = indicator(text, range.start)?;
                }
                let is_block = is_block || text.get(range.clone())?.contains('\n');
                anchors.insert(anchor, found.len());
                let (text, aliases) = (value.into_owned(), Vec::new());
                found.push(WrittenScalar { path: path(&open), at, aliases, range, text, is_block });
                step(&mut open);
            }
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd => {}
        }
    }
    Some(found)
}

/// Returns the byte ranges of the comments, each from its `#` to the end of its line, or `None` if the text cannot be parsed.
pub(crate) fn comments(text: &str) -> Option<Vec<Range<usize>>> {
    let offsets: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let offset = |index: usize| offsets.get(index).copied().unwrap_or(text.len());
    let (mut found, mut from) = (Vec::new(), 0);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.ok()?;
        if let Event::Scalar(_, style, ..) = event {
            let Range { start, end } =
                written(text, offset(span.start.index())..offset(span.end.index()), style)?;
            comments_between(text, from..start, &mut found);
            from = from.max(end);
        }
    }
    comments_between(text, from..text.len(), &mut found);
    Some(found)
}

/// Adds the comments of a range without scalars.
fn comments_between(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let mut from = range.start;
    while let Some(at) = text.get(from..range.end).and_then(|rest| rest.find('#')) {
        let begin = from + at;
        // A `#` inside a word, such as the name of an anchor, begins no comment.
        if text
            .get(..begin)
            .is_some_and(|before| !before.is_empty() && !before.ends_with(char::is_whitespace))
        {
            from = begin + 1;
            continue;
        }
        let rest = text.get(begin..).unwrap_or_default();
        let end = begin + rest.find(['\n', '\r']).unwrap_or(rest.len());
        found.push(begin..end);
        from = end;
    }
}

/// Returns the bytes of a scalar without its anchor, where the parser also counts the white space after it, and after a quoted one the
/// comment.
fn written(text: &str, range: Range<usize>, style: ScalarStyle) -> Option<Range<usize>> {
    let raw = text.get(range.clone())?.trim_end();
    let start = range.start + anchor_len(raw);
    let scalar = text.get(start..range.start + raw.len())?;
    let end = match style {
        ScalarStyle::SingleQuoted => closing(scalar, '\''),
        ScalarStyle::DoubleQuoted => closing(scalar, '"'),
        ScalarStyle::Plain | ScalarStyle::Literal | ScalarStyle::Folded => None,
    };
    Some(start..start + end.unwrap_or(scalar.len()))
}

/// Returns the length in bytes of an anchor before a scalar, including the spaces after it.
fn anchor_len(raw: &str) -> usize {
    let Some(anchor) = raw.strip_prefix('&') else { return 0 };
    let scalar = anchor.trim_start_matches(|c: char| !c.is_whitespace()).trim_start();
    raw.len() - scalar.len()
}

/// Returns the offset of the `|` or `>` of a block whose text begins at an offset.
fn indicator(text: &str, begin: usize) -> Option<usize> {
    let before = text.get(..begin)?.trim_end();
    let line = before.rfind('\n').map_or(0, |end| end + 1);
    let head = before.get(line..)?;
    // Harmless: an indicator that is not in the line is skipped.
    let found = [" |", " >"].iter().filter_map(|mark| head.find(mark)).min()?;
    Some(line + found + 1)
}

/// Moves on to the next value of the innermost collection.
fn step(open: &mut [Open]) {
    match open.last_mut() {
        Some(Open::List(index)) => *index += 1,
        Some(Open::Map(key)) => *key = None,
        None => {}
    }
}

fn path(open: &[Open]) -> Vec<String> {
    let part = |open: &Open| match open {
        Open::List(index) => index.to_string(),
        // Harmless: a value in a map has a key.
        Open::Map(key) => key.clone().unwrap_or_default(),
    };
    open.iter().map(part).collect()
}

/// Returns a text with some ranges replaced. The ranges must be in order and must not overlap.
pub(crate) fn replaced(text: &str, by: &[(Range<usize>, String)]) -> String {
    let (mut done, mut from) = (String::with_capacity(text.len()), 0);
    for (range, new) in by {
        done.push_str(text.get(from..range.start).unwrap_or_default());
        done.push_str(new);
        from = range.end;
    }
    done.push_str(text.get(from..).unwrap_or_default());
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_everywhere_outside_of_scalars() {
        let text = "# 1\n\"k # no\": 'v # no' # 2\nb: | # 3\n  # no\n  a\n# 4\n  # 5\nc: [1, # 6\n  a#no, &x#no b] # 7\nd: > # 8\n\n\n  # no\n\n  # no\n\n # 9\ne: a\n  b # 10\nf: # 11\r\n  - \"a\n    # no\" # 12\n# 13";
        let found = comments(text).unwrap();
        let told: Vec<&str> = found.into_iter().map(|range| text.get(range).unwrap()).collect();
        let expected: Vec<String> = (1..=13).map(|n| format!("# {n}")).collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn scalars_have_their_bytes_and_their_paths() {
        let text = "# ä\na: { b: 'x''y', \"c\": [1, *z, \"ü \\\" q\"] } # no\nd: &z plain text # no\r\ne: |\n  one\n  two\nf:\n  - g: end\nh: 'x''y' # no\ni: \"x \\\" # y\" # no\n";
        let text = text.replace("*z, ", "");
        let told: Vec<_> = scalars(&text, 0)
            .unwrap()
            .into_iter()
            .map(|one| (one.path.join("."), text.get(one.range).unwrap().to_owned(), one.is_block))
            .collect();
        let told: Vec<_> = told.iter().map(|(a, b, c)| (a.as_str(), b.as_str(), *c)).collect();
        assert_eq!(
            told,
            [
                ("a.b", "'x''y'", false),
                ("a.c.0", "1", false),
                ("a.c.1", "\"ü \\\" q\"", false),
                ("d", "plain text", false),
                ("e", "|\n  one\n  two", true),
                ("f.0.g", "end", false),
                ("h", "'x''y'", false),
                ("i", "\"x \\\" # y\"", false),
            ]
        );
    }
}
