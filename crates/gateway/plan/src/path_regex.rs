//! Matches paths by regular expression, for routes that patterns cannot express. For any expression, matching takes time linear in the
//! length of the path.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kit::regex_error::reason;
use regex::bytes::{RegexSet, RegexSetBuilder};
use regex_automata::meta;
use regex_automata::util::captures::GroupInfo;
use regex_automata::{Anchored, Input, PatternID};
use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind, Look};

/// A regular expression that must match a whole path, or the beginning of one. Its named groups are path parameters.
#[derive(Debug, Clone)]
pub struct PathRegex {
    text: Arc<str>,
    open: bool,
    /// The text at the beginning of the expression.
    literal: Box<[u8]>,
    /// Whether it has named groups.
    is_named: bool,
    tail: Arc<Tail>,
    /// Each path that matches begins with one of these.
    beginnings: Arc<[Box<[u8]>]>,
}

/// The part of an expression after the text at its beginning.
#[derive(Debug)]
struct Tail {
    /// The part as an expression.
    text: String,
    /// It is searched only where the text before it ends. Its caches are in a pool in which no thread waits for another.
    regex: meta::Regex,
}

/// Tails of expressions by their texts, to use one for all expressions that differ only at the beginning: such as `/orders/[0-9]+` and
/// `/customers/[0-9]+`. Then thousands of expressions need the memory of few.
#[derive(Default)]
pub(crate) struct SharedTails(HashMap<String, Arc<Tail>>);

/// The reason why a text is not a regular expression for paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RegexError {
    Syntax(String),
    TooLarge,
    /// It begins with a character that a path cannot begin with.
    NoSlash,
    /// The name of a group is not allowed as the name of a parameter.
    Group(String),
}

/// The maximum size of a compiled expression. It allows a thousand alternatives. A larger expression probably contains a counted repetition
/// by mistake. The worst-case time for a path grows with this bound.
pub(crate) const COMPILED_BYTES_MAX: usize = 256 * 1024;

/// The maximum size of an expression's lazy DFA cache on each thread. Only a path crafted to be expensive needs more.
pub(crate) const STATES_BYTES_MAX: usize = 512 * 1024;

/// The maximum number of texts that an expression is known to begin with. With more, only their common beginning is used, which finds more
/// expressions than needed.
const BEGINNINGS_MAX: usize = 16;

impl PathRegex {
    /// Parses an expression of the configuration, for whole paths.
    pub fn parse(text: &str) -> Result<PathRegex, RegexError> {
        PathRegex::read(text, false)
    }

    /// Parses an expression of the configuration, for the beginnings of paths.
    pub fn parse_open(text: &str) -> Result<PathRegex, RegexError> {
        PathRegex::read(text, true)
    }

    /// Returns the names of the groups of a valid expression, in order, without the time that compiling takes.
    pub fn group_names(text: &str) -> Vec<String> {
        // Harmless: a check of the route complains of an invalid expression.
        parsed(text).map(|hir| names(&hir)).unwrap_or_default()
    }

    fn read(text: &str, open: bool) -> Result<PathRegex, RegexError> {
        let hir = parsed(text)?;
        // Every path begins with a slash. Other first characters may be syntax.
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(RegexError::NoSlash);
        }
        let names = names(&hir);
        let is_odd = |name: &&String| name.contains(['.', '[', ']']);
        if let Some(name) = names.iter().find(is_odd) {
            return Err(RegexError::Group(name.clone()));
        }
        let beginnings = beginnings(&hir);
        let (literal, rest) = split(hir);
        let tail = Tail::compiled(if open {
            rest
        } else {
            Hir::concat(vec![rest, Hir::look(Look::End)])
        })?;
        Ok(PathRegex {
            text: text.into(),
            open,
            literal,
            is_named: !names.is_empty(),
            tail: Arc::new(tail),
            beginnings: beginnings.into(),
        })
    }

    /// Returns true if the expression matches the beginning of a path.
    pub fn is_open(&self) -> bool {
        self.open
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the names of the groups, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        // Harmless: an unnamed group is not a parameter.
        group_names(self.tail.regex.group_info()).flatten()
    }

    /// Returns texts of which each path that matches begins with one.
    pub(crate) fn beginnings(&self) -> &[Box<[u8]>] {
        &self.beginnings
    }

    /// Returns the same expression, sharing its tail with others.
    pub(crate) fn shared(&self, tails: &mut SharedTails) -> PathRegex {
        let own = || self.tail.clone();
        let tail = tails.0.entry(self.tail.text.clone()).or_insert_with(own).clone();
        PathRegex { tail, ..self.clone() }
    }

    pub(crate) fn is_met(&self, path: &[u8]) -> bool {
        self.input(path).is_some_and(|input| self.tail.regex.is_match(input))
    }

    /// Returns the values of the named groups, in order, and the offset where the match ends, or `None` if the path does not match. A group
    /// that takes no part in the match has an empty value.
    pub(crate) fn captured<'p>(&self, path: &'p [u8]) -> Option<(Vec<&'p [u8]>, usize)> {
        let (input, regex) = (self.input(path)?, &self.tail.regex);
        if !self.is_named {
            return Some((Vec::new(), regex.search_half(&input)?.offset()));
        }
        let mut found = regex.create_captures();
        regex.search_captures(&input, &mut found);
        let end = found.get_match()?.end();
        // Harmless: there is a name for each group.
        let groups = group_names(regex.group_info()).zip(found.iter());
        let named = groups.filter(|(name, _)| name.is_some());
        // Harmless: a group that took no part is empty.
        let texts =
            named.map(|(_, group)| group.and_then(|at| path.get(at.range())).unwrap_or_default());
        Some((texts.collect(), end))
    }

    /// Returns the search in a path that begins with the literal text.
    fn input<'p>(&self, path: &'p [u8]) -> Option<Input<'p>> {
        path.starts_with(&self.literal).then(|| {
            // The text before the range is still seen by assertions such as `\b`.
            Input::new(path).range(self.literal.len()..).anchored(Anchored::Yes)
        })
    }

    /// Returns the whole expression with its anchors.
    fn anchored(&self) -> String {
        format!(r"\A(?:{}){}", self.text, if self.open { "" } else { r"\z" })
    }
}

impl Tail {
    fn compiled(hir: Hir) -> Result<Tail, RegexError> {
        // A complete DFA and searches for literals would cost most of the time and gain nothing here.
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(Some(COMPILED_BYTES_MAX))
            .hybrid_cache_capacity(STATES_BYTES_MAX)
            .dfa(false)
            .auto_prefilter(false);
        let regex = meta::Builder::new().configure(config).build_from_hir(&hir);
        let regex = regex.map_err(|error| match error.size_limit() {
            Some(_) => RegexError::TooLarge,
            None => RegexError::Syntax(reason(&error)),
        })?;
        // What `Hir` prints as an expression is ambiguous: `(?:a+)?` becomes `a+?`.
        Ok(Tail { text: format!("{hir:?}"), regex })
    }
}

fn group_names(groups: &GroupInfo) -> impl Iterator<Item = Option<&str>> {
    groups.pattern_names(PatternID::ZERO)
}

/// Parses an expression. Paths are bytes: `.` is any byte, and `\d` is an ASCII digit, as in Envoy, Kong and nginx.
pub(crate) fn parsed(text: &str) -> Result<Hir, RegexError> {
    let mut parser = regex_syntax::ParserBuilder::new().unicode(false).utf8(false).build();
    parser.parse(text).map_err(|error| RegexError::Syntax(reason(&error)))
}

/// Returns the names of an expression's groups, in order.
fn names(hir: &Hir) -> Vec<String> {
    let mut named = Vec::new();
    let mut left = vec![hir];
    while let Some(next) = left.pop() {
        if let HirKind::Capture(group) = next.kind()
            && let Some(name) = &group.name
        {
            named.push((group.index, name.to_string()));
        }
        left.extend(next.kind().subs());
    }
    named.sort_unstable();
    named.into_iter().map(|(_, name)| name).collect()
}

/// Returns texts of which each match begins with one: none of them begins with another.
fn beginnings(hir: &Hir) -> Vec<Box<[u8]>> {
    // A class of two is a letter in both cases. Larger ones, such as digits, would only multiply the texts.
    let found = Extractor::new().limit_class(2).limit_total(BEGINNINGS_MAX).extract(hir);
    // Without a limited number of texts, a match may begin with anything.
    let Some(literals) = found.literals() else { return vec![Box::default()] };
    let mut texts: Vec<&[u8]> = literals.iter().map(|literal| literal.as_bytes()).collect();
    texts.sort_unstable();
    texts.dedup_by(|text, before| text.starts_with(before));
    texts.into_iter().map(Box::from).collect()
}

/// Returns the parts of an expression that follow one another.
pub(crate) fn parts(hir: &Hir) -> &[Hir] {
    if let HirKind::Concat(parts) = hir.kind() { parts } else { std::slice::from_ref(hir) }
}

/// Splits an expression into the text at its beginning and the rest.
fn split(hir: Hir) -> (Box<[u8]>, Hir) {
    let parts = parts(&hir);
    // The search is anchored, so `^` at the beginning says nothing more.
    let is_start = |part: &&Hir| matches!(part.kind(), HirKind::Look(Look::Start));
    let parts = parts.get(parts.iter().take_while(is_start).count()..).unwrap_or_default();
    if let Some((first, rest)) = parts.split_first()
        && let HirKind::Literal(text) = first.kind()
    {
        return (text.0.clone(), Hir::concat(rest.to_vec()));
    }
    (Box::default(), hir)
}

/// Returns a set that matches all expressions at once, or `None` if they are too large together. Then each is matched separately.
pub(crate) fn set<'r>(all: impl Iterator<Item = &'r PathRegex>) -> Option<RegexSet> {
    let all: Vec<String> = all.map(PathRegex::anchored).collect();
    let bytes_max = COMPILED_BYTES_MAX.saturating_mul(all.len().min(SET_MAX));
    // Harmless: without a set, each expression is matched separately.
    RegexSetBuilder::new(all).unicode(false).size_limit(bytes_max).build().ok()
}

/// The size limit of a set, as a number of expressions of the maximum size.
const SET_MAX: usize = 64;

impl PartialEq for PathRegex {
    fn eq(&self, other: &PathRegex) -> bool {
        self.text == other.text && self.open == other.open
    }
}

impl Eq for PathRegex {}

/// Written with a leading `~`, as in Kong and nginx.
impl fmt::Display for PathRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rest = if self.open { "..." } else { "" };
        write!(f, "~{}{rest}", self.text)
    }
}

impl fmt::Display for RegexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RegexError::Syntax(why) => f.write_str(why),
            RegexError::TooLarge => {
                write!(f, "it is over {} KiB once compiled", COMPILED_BYTES_MAX / 1024)
            }
            RegexError::NoSlash => f.write_str("it does not begin with `/`, as every path does"),
            RegexError::Group(name) => {
                write!(
                    f,
                    "the group `{name}` is a parameter, whose name may have only letters, digits and `_`"
                )
            }
        }
    }
}

impl std::error::Error for RegexError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> PathRegex {
        PathRegex::parse(text).unwrap()
    }

    #[test]
    fn the_whole_path_is_matched() {
        for (regex, path, expected) in [
            ("/a", "/a", true),
            ("/a", "/ab", false),
            ("/a", "/b/a", false),
            ("/a|/b", "/b", true),
            ("/a|/b", "/bc", false),
            ("^/a$", "/a", true),
            ("/a$|/b", "/b", true),
            ("(?i)/a", "/A", true),
            (r"/\d+", "/123", true),
            (r"/\d+", "/\u{661}", false),
            ("/.", "/\u{e9}", false),
            ("/..", "/\u{e9}", true),
            ("/[^/]+", "/a/b", false),
            ("/a\n", "/a", false),
        ] {
            assert_eq!(parse(regex).is_met(path.as_bytes()), expected, "{regex} {path}");
        }
        assert!(!parse("/a.*").is_met(b"/a\n/b"), "a line feed is not a character of a path");
    }

    #[test]
    fn named_groups_are_parameters() {
        let regex = parse(r"/(?<version>v\d+)/(\w+)/(?P<id>[0-9]+)(?:/(?<rest>.*))?");
        assert_eq!(regex.parameters().collect::<Vec<_>>(), ["version", "id", "rest"]);
        let (captured, end) = regex.captured(b"/v2/orders/7").unwrap();
        assert_eq!((captured, end), (vec![&b"v2"[..], b"7", b""], 12));
        assert_eq!(regex.captured(b"/v2/orders/x"), None);
    }

    #[test]
    fn an_open_expression_matches_the_beginning_of_a_path() {
        let regex = PathRegex::parse_open(r"/a/\d+").unwrap();
        assert_eq!(regex.captured(b"/a/12/x"), Some((Vec::new(), 5)));
        assert_eq!(regex.captured(b"/x/a/1"), None);
        assert_ne!(regex, parse(r"/a/\d+"));
        let regex = PathRegex::parse_open(r"/a/(?<id>\d)").unwrap();
        assert_eq!(regex.captured(b"/a/12/x"), Some((vec![&b"1"[..]], 4)));
    }

    #[test]
    fn every_path_that_matches_begins_with_a_beginning() {
        for (regex, beginnings) in [
            ("/a/[0-9]+", vec!["/a/"]),
            ("^/a/(?<id>[^/]+)$", vec!["/a/"]),
            ("/a|/b/c", vec!["/a", "/b/c"]),
            ("/(?:orders|items)/x", vec!["/items/x", "/orders/x"]),
            ("/ab?", vec!["/a"]),
            ("(?i)/a", vec!["/A", "/a"]),
            ("/.*", vec!["/"]),
            (".*", vec![""]),
            ("[^x]*/a", vec![""]),
        ] {
            let regex = parse(regex);
            let found = regex.beginnings().iter().map(|text| std::str::from_utf8(text).unwrap());
            assert_eq!(found.collect::<Vec<_>>(), beginnings, "{regex}");
        }
    }

    #[test]
    fn expressions_with_the_same_rest_share_it() {
        let mut tails = SharedTails::default();
        let mut shared = |text| parse(text).shared(&mut tails);
        let (a, b, c) = (shared(r"/a/(?<id>\d+)"), shared(r"/b/c/(?<id>[0-9]+)"), shared("/a/.*"));
        assert!(Arc::ptr_eq(&a.tail, &b.tail));
        assert!(!Arc::ptr_eq(&a.tail, &c.tail));
        assert_eq!(a.captured(b"/a/12"), Some((vec![&b"12"[..]], 5)));
        assert_eq!(b.captured(b"/b/c/12"), Some((vec![&b"12"[..]], 7)));
        assert_eq!(b.captured(b"/a/12"), None);
        assert!(c.is_met(b"/a/") && !c.is_met(b"/b/"));
        let (maybe, lazy) = (shared("/a/(?:[0-9]+)?"), shared("/b/[0-9]+?"));
        assert!(maybe.is_met(b"/a/") && !lazy.is_met(b"/b/") && lazy.is_met(b"/b/1"));
    }

    #[test]
    fn assertions_see_the_text_before_them() {
        for (regex, path, expected) in [
            (r"/a\b.*", "/ab", false),
            (r"/a\b.*", "/a/b", true),
            (r"/a\B.*", "/ab", true),
            ("/a^b", "/ab", false),
            ("/a(?m:^)b", "/ab", false),
            ("/a\n(?m:^)b", "/a\nb", true),
            ("^^/a", "/a", true),
            ("/a$b", "/ab", false),
        ] {
            assert_eq!(parse(regex).is_met(path.as_bytes()), expected, "{regex} {path}");
        }
    }

    #[test]
    fn names_are_known_without_compiling() {
        for regex in [r"/(?<a>x)/(y)/(?<b>(?<c>z)|w)", "/x", "/(x)", "/(?<a>b){0}(?<c>d)"] {
            let names = PathRegex::group_names(regex);
            assert_eq!(names, parse(regex).parameters().collect::<Vec<_>>(), "{regex}");
        }
        assert!(PathRegex::group_names("/(?<a>").is_empty());
    }

    #[test]
    fn bad_expressions_say_why() {
        for (regex, why) in [
            ("/a(", "unclosed group"),
            ("/a)(/b", "unopened group"),
            ("/[", "unclosed character class"),
            ("/(?=a)", "look-around"),
            (r"/(a)\1", "backreferences are not supported"),
            ("/(?<a>b)(?<a>c)", "duplicate capture group name"),
            ("a", "it does not begin with `/`, as every path does"),
            ("/(?<a.b>c)", "the group `a.b` is a parameter"),
            ("/(a{1,1000}){1,1000}", "it is over 256 KiB once compiled"),
        ] {
            let error = PathRegex::parse(regex).unwrap_err().to_string();
            assert!(error.starts_with(why), "{regex}: {error}");
        }
    }
}
