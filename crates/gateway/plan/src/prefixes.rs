//! Finds routes by how a path begins: by a textual prefix (`/p` also matches `/p2`), or by the text at the beginning of an expression.
//!
//! The beginnings form a tree, in which a node has the text that all beginnings below it share. So a path is compared with one text on each
//! level, however many beginnings there are. Nodes and texts lie side by side, so that thousands of them fit into a processor's cache.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use regex::bytes::RegexSet;

/// The beginnings of the paths of a host's routes.
#[derive(Default)]
pub(crate) struct Prefixes {
    /// The beginnings until [`Prefixes::link`] builds the tree.
    added: BTreeMap<Box<[u8]>, Added>,
    /// The nodes of the tree. The first is the root, and the children of a node are neighbours.
    nodes: Vec<Node>,
    /// For each node, the first byte of its text.
    firsts: Vec<u8>,
    /// The texts of all nodes.
    texts: Vec<u8>,
    beginnings: Vec<Beginning>,
    /// The routes and expressions of all beginnings.
    numbers: Vec<usize>,
}

#[derive(Default)]
struct Added {
    entries: Vec<usize>,
    regexes: Vec<usize>,
}

/// A place where a beginning ends, or where some differ.
#[derive(Default)]
struct Node {
    /// The range in `texts` of the text between the parent and this node.
    text: Range<u32>,
    /// The range of the children in `nodes`.
    children: Range<u32>,
    /// The index of the longest beginning that ends here or above.
    longest: Option<u32>,
}

struct Beginning {
    bytes: usize,
    /// The range in `numbers` of the indices of the routes with this prefix, most specific first.
    entries: Range<u32>,
    /// The range in `numbers` of the indices of the regular expressions that begin with this text, in the order in which they are tried.
    regexes: Range<u32>,
    /// These expressions as one set, if there are many.
    set: Option<Arc<RegexSet>>,
    /// The index of the longest other beginning that this one begins with.
    shorter: Option<u32>,
}

/// The beginnings of one path that have not been tried yet, longest first.
#[derive(Clone, Copy)]
pub(crate) struct RemainingBeginnings<'t> {
    all: &'t Prefixes,
    next: Option<&'t Beginning>,
}

/// A node that has no text and no children yet.
struct OpenNode {
    node: usize,
    /// The range of the beginnings at and below the node, in the sorted list of all.
    below: Range<usize>,
    /// The number of bytes of these beginnings that nodes above have.
    above_bytes: usize,
    /// The longest beginning that ends above.
    longest: Option<u32>,
}

/// At most this many expressions are tried one after the other. More are combined into a set.
const SINGLE_MAX: usize = 4;

impl Prefixes {
    /// Returns the list of entries for a prefix, which is created if necessary.
    pub(crate) fn list(&mut self, prefix: &[u8]) -> &mut Vec<usize> {
        &mut self.added.entry(prefix.into()).or_default().entries
    }

    /// Adds a regular expression that matches only paths that begin with this text. Expressions are tried in the order of their numbers.
    pub(crate) fn add_regex(&mut self, beginning: &[u8], regex: usize) {
        self.added.entry(beginning.into()).or_default().regexes.push(regex);
    }

    /// Builds the tree, after everything is added. `united` combines the expressions with these numbers into a set.
    pub(crate) fn link(&mut self, united: impl Fn(&[usize]) -> Option<RegexSet>) {
        let (texts, added): (Vec<Box<[u8]>>, Vec<Added>) =
            std::mem::take(&mut self.added).into_iter().unzip();
        // Several beginnings of the same expressions, such as a text in both cases, share one set.
        let mut sets: BTreeMap<Vec<usize>, Option<Arc<RegexSet>>> = BTreeMap::new();
        let mut numbers = Vec::new();
        let mut add = |more: Vec<usize>| {
            let from = number(numbers.len());
            numbers.extend(more);
            from..number(numbers.len())
        };
        let beginning = |(added, bytes): (Added, usize)| {
            let Added { entries, regexes } = added;
            let set = if regexes.len() > SINGLE_MAX {
                let compiled = || united(&regexes).map(Arc::new);
                sets.entry(regexes.clone()).or_insert_with(compiled).clone()
            } else {
                None
            };
            let (entries, regexes) = (add(entries), add(regexes));
            Beginning { bytes, entries, regexes, set, shorter: None }
        };
        // Harmless: each text has what was added for it.
        self.beginnings =
            added.into_iter().zip(texts.iter().map(|text| text.len())).map(beginning).collect();
        self.numbers = numbers;
        let mut open = VecDeque::new();
        if !texts.is_empty() {
            self.add_node(&mut open, 0..texts.len(), 0, None, 0);
        }
        // Not recursive: each of thousands of beginnings may begin with the one before it.
        while let Some(node) = open.pop_front() {
            self.complete(node, &texts, &mut open);
        }
    }

    fn add_node(
        &mut self,
        open: &mut VecDeque<OpenNode>,
        below: Range<usize>,
        above_bytes: usize,
        longest: Option<u32>,
        first: u8,
    ) {
        open.push_back(OpenNode { node: self.nodes.len(), below, above_bytes, longest });
        self.nodes.push(Node::default());
        self.firsts.push(first);
    }

    /// Gives a node its text and its children.
    fn complete(&mut self, open: OpenNode, texts: &[Box<[u8]>], all_open: &mut VecDeque<OpenNode>) {
        let OpenNode { node, mut below, above_bytes, mut longest } = open;
        let of = texts.get(below.start..below.end).unwrap_or_default();
        let (Some(first), Some(last)) = (of.first(), of.last()) else { return };
        // The texts are sorted, so what the first and the last share is in all of them.
        // Harmless: what two texts share at their beginning cannot be longer than the shorter one.
        let shared = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let from = self.texts.len();
        self.texts.extend_from_slice(first.get(above_bytes..shared).unwrap_or_default());
        if first.len() == shared {
            if let Some(ending) = self.beginnings.get_mut(below.start) {
                ending.shorter = longest;
            }
            longest = Some(number(below.start));
            below.start += 1;
        }
        let children = self.nodes.len();
        while let Some(byte) =
            texts.get(below.start).filter(|_| !below.is_empty()).and_then(|text| text.get(shared))
        {
            let rest = texts.get(below.start..below.end).unwrap_or_default();
            let same = rest.partition_point(|text| text.get(shared) == Some(byte));
            let child = below.start..below.start + same;
            below.start = child.end;
            self.add_node(all_open, child, shared, longest, *byte);
        }
        let children = number(children)..number(self.nodes.len());
        let text = number(from)..number(self.texts.len());
        if let Some(node) = self.nodes.get_mut(node) {
            *node = Node { text, children, longest };
        }
    }

    /// Returns the beginnings of a path.
    pub(crate) fn of(&self, path: &[u8]) -> RemainingBeginnings<'_> {
        let (mut rest, mut longest) = (path, None);
        let mut node = self.nodes.first();
        while let Some(here) = node {
            let text = self.texts.get(span(&here.text));
            let Some(after) = text.and_then(|text| rest.strip_prefix(text)) else { break };
            (rest, longest) = (after, here.longest);
            node = after.first().and_then(|byte| self.child(here, *byte));
        }
        RemainingBeginnings { all: self, next: self.beginning(longest) }
    }

    fn child(&self, node: &Node, byte: u8) -> Option<&Node> {
        let children = span(&node.children);
        let at = self.firsts.get(children.clone())?.iter().position(|first| *first == byte)?;
        self.nodes.get(children.start + at)
    }

    fn beginning(&self, number: Option<u32>) -> Option<&Beginning> {
        self.beginnings.get(usize::try_from(number?).ok()?)
    }

    fn numbers(&self, range: &Range<u32>) -> &[usize] {
        // Harmless: all ranges are in the list.
        self.numbers.get(span(range)).unwrap_or_default()
    }
}

impl<'t> RemainingBeginnings<'t> {
    /// Returns the length and the entries of the longest untried beginning if it is longer than `bytes`, and marks it as tried.
    pub(crate) fn longer_than(&mut self, bytes: usize) -> Option<(usize, &'t [usize])> {
        let longest = self.next.filter(|beginning| beginning.bytes > bytes)?;
        self.next = self.all.beginning(longest.shorter);
        Some((longest.bytes, self.all.numbers(&longest.entries)))
    }

    /// Returns the numbers of the regular expressions that may match the path, in the order in which they are tried.
    pub(crate) fn regexes(&self, path: &[u8]) -> Vec<usize> {
        let mut found = Vec::new();
        let mut next = self.next;
        while let Some(beginning) = next {
            let regexes = self.all.numbers(&beginning.regexes);
            match &beginning.set {
                Some(set) => {
                    // Harmless: the set has one expression for each number.
                    found.extend(set.matches(path).iter().filter_map(|at| regexes.get(at)).copied())
                }
                None => found.extend_from_slice(regexes),
            }
            next = self.all.beginning(beginning.shorter);
        }
        found.sort_unstable();
        found
    }
}

/// Numbers are half as long as usual, to keep the tree small. A configuration does not reach the largest one: it is in memory as text, too.
fn number(at: usize) -> u32 {
    debug_assert!(u32::try_from(at).is_ok(), "a tree of over 4 GiB");
    u32::try_from(at).unwrap_or(u32::MAX)
}

fn span(range: &Range<u32>) -> Range<usize> {
    let index = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
    index(range.start)..index(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(beginnings: &[&str]) -> Prefixes {
        let mut prefixes = Prefixes::default();
        for (at, prefix) in beginnings.iter().enumerate() {
            prefixes.list(prefix.as_bytes()).push(at);
        }
        prefixes.link(|_| None);
        prefixes
    }

    #[test]
    fn prefixes_of_a_path_come_longest_first() {
        let prefixes = linked(&["/a", "/", "/ab/", "/abc", "/ab", "/b", "/abd/x"]);
        for (path, expected) in [
            ("/", vec![1]),
            ("/a", vec![0, 1]),
            ("/abcd", vec![3, 4, 0, 1]),
            ("/ab/c", vec![2, 4, 0, 1]),
            ("/abd/a", vec![4, 0, 1]),
            ("/c", vec![1]),
            ("/aZ", vec![0, 1]),
            ("*", vec![]),
        ] {
            let mut untried = prefixes.of(path.as_bytes());
            let found = std::iter::from_fn(|| untried.longer_than(0));
            let found: Vec<usize> = found.flat_map(|(_, entries)| entries.to_vec()).collect();
            assert_eq!(found, expected, "{path}");
        }
        let mut untried = prefixes.of(b"/abcd");
        assert_eq!(untried.longer_than(3).map(|(length, _)| length), Some(4));
        assert_eq!(untried.longer_than(3).map(|(length, _)| length), None);
    }

    #[test]
    fn the_tree_finds_what_a_comparison_with_each_prefix_finds() {
        let texts: Vec<String> = (0..3_usize.pow(7))
            .map(|n| (0..7).map(|at| ["", "/", "a"][n / 3_usize.pow(at) % 3]).collect())
            .collect();
        for step in [1, 7, 101] {
            let mut known: Vec<&str> = texts.iter().step_by(step).map(String::as_str).collect();
            known.sort_unstable();
            known.dedup();
            let prefixes = linked(&known);
            for path in texts.iter().step_by(5) {
                let mut untried = prefixes.of(path.as_bytes());
                let found = std::iter::from_fn(|| untried.longer_than(0)).map(|(bytes, _)| bytes);
                let mut expected: Vec<usize> =
                    known.iter().filter(|p| path.starts_with(**p)).map(|p| p.len()).collect();
                expected.retain(|bytes| *bytes > 0);
                expected.sort_unstable_by(|a, b| b.cmp(a));
                assert_eq!(found.collect::<Vec<_>>(), expected, "{path}");
            }
        }
    }

    #[test]
    fn expressions_come_in_their_order_and_many_as_a_set() {
        let mut prefixes = Prefixes::default();
        let texts: Vec<String> = (0..9).map(|n| format!(r"\A/a/{n}")).collect();
        for (beginning, number) in [("/a/", 0), ("/", 9), ("/a/", 10), ("", 11), ("/b", 12)] {
            prefixes.add_regex(beginning.as_bytes(), number);
        }
        prefixes.link(|_| None);
        assert_eq!(prefixes.of(b"/a/x").regexes(b"/a/x"), [0, 9, 10, 11]);
        assert_eq!(prefixes.of(b"/b").regexes(b"/b"), [9, 11, 12]);
        assert_eq!(prefixes.of(b"*").regexes(b"*"), [11]);

        let mut prefixes = Prefixes::default();
        (0..9).for_each(|number| prefixes.add_regex(b"/a/", number));
        prefixes.link(|numbers| RegexSet::new(numbers.iter().map(|at| &texts[*at])).ok());
        assert_eq!(prefixes.of(b"/a/7").regexes(b"/a/7"), [7]);
    }
}
