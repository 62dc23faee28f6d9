//! Splits Rust source into code and comments, without a parser.
//!
//! Owns the few facts of Rust's grammar that the rules need: comments, literals, and code that is compiled only for tests. Each
//! result has the length and the lines of the original, with spaces in place of removed parts, so that an offset is valid in
//! all of them.

use std::collections::BTreeSet;
use std::ops::Range;

use super::{Complaint, Text, line_of};

/// One Rust file.
pub(crate) struct Source {
    /// The path from the root of the workspace.
    pub(crate) path: String,
    /// The source without comments and without the contents of literals.
    pub(crate) code: String,
    /// The code without parts that are only for tests.
    pub(crate) shipped: String,
    /// The comments only.
    pub(crate) comments: String,
}

/// The kind of a piece of source.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    /// A string or character literal.
    Text,
}

impl Source {
    pub(crate) fn read(text: &Text) -> Source {
        let pieces = pieces(&text.text);
        let view = |wanted: Kind| keep(&text.text, &pieces, wanted);
        let code = view(Kind::Code);
        let shipped = without_tests(&code);
        Source { path: text.path.clone(), code, shipped, comments: view(Kind::Comment) }
    }

    /// The name of the crate, the second folder below `crates/`, if the file is part of the crate itself.
    pub(crate) fn crate_name(&self) -> Option<&str> {
        let (_group, below) = self.path.strip_prefix("crates/")?.split_once('/')?;
        let (name, rest) = below.split_once('/')?;
        rest.starts_with("src/").then_some(name)
    }

    /// Returns true if the file is used only by tests and benches.
    pub(crate) fn is_test(&self) -> bool {
        let in_folder = |folder: &str| self.path.split('/').any(|part| part == folder);
        in_folder("tests") || in_folder("benches") || self.path.ends_with("/tests.rs")
    }

    /// Returns the modules in separate files that are compiled only for tests, each as its path without `.rs`.
    pub(crate) fn test_modules(&self) -> Vec<String> {
        let stem = self.path.strip_suffix(".rs").unwrap_or(&self.path);
        let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
        let folder = if matches!(name, "lib" | "main" | "mod") { folder } else { stem };
        let items = self.code.split(TEST_MARK).skip(1);
        let named = items.filter_map(|item| {
            let (declared, _) = item.split_once(';')?;
            let (_, name) = declared.rsplit_once("mod ")?;
            name.bytes().all(is_name).then(|| format!("{folder}/{name}"))
        });
        named.collect()
    }

    pub(crate) fn complain(&self, offset: usize, what: String, instead: String) -> Complaint {
        Complaint { file: self.path.clone(), line: line_of(&self.code, offset), what, instead }
    }
}

/// The files that are not compiled for tests alone, each with its path without `.rs`.
pub(crate) fn shipped(sources: &[Source]) -> impl Iterator<Item = (&str, &Source)> {
    let for_tests: BTreeSet<String> = sources.iter().flat_map(Source::test_modules).collect();
    let stems = sources
        .iter()
        .filter(|source| !source.is_test())
        .map(|source| (source.path.strip_suffix(".rs").unwrap_or(&source.path), source));
    stems.filter(move |(stem, _)| {
        let mut parents = stem.match_indices('/').map(|(at, _)| stem.split_at(at).0);
        !for_tests.contains(*stem) && !parents.any(|parent| for_tests.contains(parent))
    })
}

/// The mark of an item that is compiled only for tests.
const TEST_MARK: &str = "#[cfg(test)]";

/// Returns the offset after the bracket that closes the one at `open`, or the end of the code if it is never closed.
pub(crate) fn closing(code: &str, open: usize) -> usize {
    let mut depth = 0usize;
    for (offset, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 {
            return offset + 1;
        }
    }
    code.len()
}

/// True if a byte may be part of a name.
pub(crate) fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The offsets of `text` as a whole word, not as part of a longer name.
pub(crate) fn whole<'a>(code: &'a str, text: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    let part = |at: Option<usize>| at.and_then(|at| bytes.get(at)).is_some_and(|b| is_name(*b));
    let begins = text.bytes().next().is_some_and(is_name);
    let ends = text.bytes().next_back().is_some_and(is_name);
    code.match_indices(text).map(|(at, _)| at).filter(move |at| {
        let inside_before = begins && part(at.checked_sub(1));
        let inside_after = ends && part(Some(at + text.len()));
        !inside_before && !inside_after
    })
}

fn keep(text: &str, pieces: &[(Kind, Range<usize>)], wanted: Kind) -> String {
    let kept = pieces.iter().map(|(kind, range)| {
        let piece = text.get(range.clone()).unwrap_or_default();
        if *kind == wanted { piece.to_owned() } else { blank(piece) }
    });
    kept.collect()
}

/// Returns as many blanks as the piece has bytes. Line ends are kept.
fn blank(piece: &str) -> String {
    piece.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

fn pieces(text: &str) -> Vec<(Kind, Range<usize>)> {
    let mut pieces: Vec<(Kind, Range<usize>)> = Vec::new();
    let (mut at, mut before) = (0, b' ');
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (kind, len) = piece(rest, before);
        let end = at + len.max(1).min(rest.len());
        before = text.as_bytes().get(end - 1).copied().unwrap_or(b' ');
        match pieces.last_mut() {
            Some((last, range)) if *last == kind => range.end = end,
            _ => pieces.push((kind, at..end)),
        }
        at = end;
    }
    pieces
}

/// Returns the kind and the length of the piece at the start of `rest`. `before` is the byte before it.
fn piece(rest: &str, before: u8) -> (Kind, usize) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest));
    }
    let prefix = if is_name(before) { "" } else { text_prefix(rest) };
    let opened = rest.strip_prefix(prefix).unwrap_or(rest);
    if prefix.contains('r') {
        let hashes = opened.bytes().take_while(|byte| *byte == b'#').count();
        let close = format!("\"{}", "#".repeat(hashes));
        let start = prefix.len() + hashes + 1;
        let inside = rest.get(start..).unwrap_or_default();
        return (Kind::Text, start + inside.find(&close).map_or(inside.len(), |n| n + close.len()));
    }
    if opened.starts_with('"') {
        return (Kind::Text, prefix.len() + quoted(opened, b'"'));
    }
    if opened.starts_with('\'') && is_character(opened) {
        return (Kind::Text, prefix.len() + quoted(opened, b'\''));
    }
    (Kind::Code, rest.chars().next().map_or(1, char::len_utf8))
}

/// Returns the prefix `b`, `r`, `br`, `c` or `cr`, if a literal follows.
fn text_prefix(rest: &str) -> &'static str {
    let raw = |rest: &str| rest.trim_start_matches('#').starts_with('"');
    for prefix in ["br", "cr", "r", "b", "c"] {
        let Some(after) = rest.strip_prefix(prefix) else { continue };
        let follows = match prefix {
            "b" => after.starts_with(['"', '\'']),
            "c" => after.starts_with('"'),
            _ => raw(after),
        };
        if follows {
            return prefix;
        }
    }
    ""
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0usize, 0);
    while let Some(here) = rest.get(at..).filter(|here| !here.is_empty()) {
        at += if here.starts_with("/*") {
            depth += 1;
            2
        } else if here.starts_with("*/") {
            depth -= 1;
            2
        } else {
            here.chars().next().map_or(1, char::len_utf8)
        };
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of a quoted literal, with both quotes.
fn quoted(rest: &str, quote: u8) -> usize {
    let mut escaped = true;
    for (offset, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            _ if byte == quote => return offset + 1,
            _ => {}
        }
    }
    rest.len()
}

/// Distinguishes the character `'a'` from the lifetime `'a`.
fn is_character(rest: &str) -> bool {
    let mut chars = rest.chars().skip(1);
    match chars.next() {
        Some('\\') => true,
        Some(_) => chars.next() == Some('\''),
        None => false,
    }
}

/// Blanks out items that are compiled only for tests.
fn without_tests(code: &str) -> String {
    let mut kept = String::new();
    let mut rest = code;
    while let Some((before, after)) = rest.split_once(TEST_MARK) {
        kept.push_str(before);
        let (item, behind) = after.split_at_checked(item_len(after)).unwrap_or((after, ""));
        kept.push_str(&blank(TEST_MARK));
        kept.push_str(&blank(item));
        rest = behind;
    }
    kept + rest
}

/// Returns the length of the item at the start of the code: to its semicolon, or to the end of its block.
fn item_len(code: &str) -> usize {
    let mut at = 0;
    while let Some(byte) = code.as_bytes().get(at) {
        at = match byte {
            b'{' => return closing(code, at),
            b';' => return at + 1,
            b'(' | b'[' => closing(code, at),
            _ => at + 1,
        };
    }
    code.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, text: &str) -> Source {
        Source::read(&Text { path: path.to_owned(), text: text.to_owned() })
    }

    #[test]
    fn code_comments_and_texts_are_distinguished() {
        let cases = [
            ("a // b\nc", "a     \nc", "  // b\n "),
            ("a /* b /* c */ d */ e", "a                   e", "  /* b /* c */ d */  "),
            (r#"f("// \" x", y)"#, "f(         , y)", "               "),
            (
                r###"f(r#"a"b"#, br"\", b'"', 'x', '\'')"###,
                "f(        ,      ,     ,    ,     )",
                "",
            ),
            ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}", ""),
            ("r#type + bar\"x\"", "r#type + bar   ", ""),
            ("'ä' + \"ü\" // ö", "    ", "// ö"),
        ];
        for (text, code, comments) in cases {
            let source = read("a.rs", text);
            assert_eq!(source.code.len(), text.len(), "{text}");
            assert_eq!(source.comments.len(), text.len(), "{text}");
            assert!(source.code.starts_with(code), "{text}: {}", source.code);
            assert!(source.comments.ends_with(comments), "{text}: {}", source.comments);
        }
    }

    #[test]
    fn code_that_is_only_for_tests_is_blanked() {
        let source = read(
            "a.rs",
            "a\n#[cfg(test)]\nmod tests { fn b() { '{' } }\nc\n#[cfg(test)]\nmod d;\ne",
        );
        let words: Vec<&str> = source.shipped.split_whitespace().collect();
        assert_eq!(words, ["a", "c", "e"]);
        assert_eq!(source.shipped.lines().count(), 7);
    }

    #[test]
    fn modules_for_tests_are_not_shipped() {
        let sources = [
            read("a/src/lib.rs", "mod b;\n#[cfg(test)]\nmod c;\n"),
            read("a/src/b.rs", ""),
            read("a/src/c/mod.rs", ""),
            read("a/src/c/d.rs", ""),
            read("a/src/tests.rs", ""),
        ];
        let stems: Vec<&str> = shipped(&sources).map(|(stem, _)| stem).collect();
        assert_eq!(stems, ["a/src/lib", "a/src/b"]);
    }

    #[test]
    fn the_path_determines_the_crate_and_whether_a_file_is_a_test() {
        for (path, name, test) in [
            ("crates/net/kit/src/clock.rs", Some("kit"), false),
            ("crates/net/kit/src/clock/tests.rs", Some("kit"), true),
            ("crates/net/kit/tests/a.rs", None, true),
            ("crates/net/kit/benches/a.rs", None, true),
            ("tests/cases/a.rs", None, true),
            ("xtask/src/main.rs", None, false),
        ] {
            let source = read(path, "");
            assert_eq!((source.crate_name(), source.is_test()), (name, test), "{path}");
        }
    }
}
