//! Generates a text that an expression matches.

use super::parse::{self, Node};
use super::set::CharSet;

/// Maximum length of a sample.
const SAMPLE_CHARS_MAX: usize = 10_000;

/// Returns a text that matches an expression: with the first alternative of each choice, and repetitions as close to `times` as allowed.
pub(crate) fn sample(pattern: &str, times: u32) -> Option<String> {
    let node = parse::parse(pattern).ok()?;
    let mut text = String::new();
    add(&node, times, &mut text)?;
    Some(text)
}

/// Appends a match. The parser's limits bound the recursion.
fn add(node: &Node, times: u32, text: &mut String) -> Option<()> {
    if text.len() > SAMPLE_CHARS_MAX {
        return None;
    }
    match node {
        Node::Empty => {}
        Node::Set(set) => text.push(readable_char(set)?),
        Node::Sequence(nodes) => nodes.iter().try_for_each(|node| add(node, times, text))?,
        Node::Choice(nodes) => {
            let before = text.len();
            let taken = nodes.iter().any(|node| {
                // Harmless: the next alternative is tried instead.
                text.truncate(before);
                add(node, times, text).is_some()
            });
            if !taken && !nodes.is_empty() {
                return None;
            }
        }
        Node::Repeat { what, min, max } => {
            let times_here = max.map_or(times, |max| max.min(times)).max(*min);
            (0..times_here).try_for_each(|_| add(what, times, text))?;
        }
    }
    Some(())
}

/// Returns a readable character of a set, if there is one.
fn readable_char(set: &CharSet) -> Option<char> {
    let plain = "1aA0".chars().chain('2'..='9').chain('b'..='z').chain('B'..='Z');
    let printable = || ('!'..='~').find(|c| set.contains(*c));
    let any = || {
        let from = set.ranges().iter().map(|range| range.0).find(|code| *code >= 0x20)?;
        char::from_u32(from)
    };
    let mut plain = plain;
    plain.find(|c| set.contains(*c)).or_else(printable).or_else(any)
}
