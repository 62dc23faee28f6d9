//! Matches paths by regular expression, for routes that patterns cannot express. For any expression, matching takes time linear in the
//! length of the path.

use std::fmt;
use std::sync::Arc;

use kit::regex_error::reason;
use regex::bytes::{Regex, RegexBuilder, RegexSet, RegexSetBuilder};

/// A regular expression that must match a whole path, or the beginning of one. Its named groups are path parameters.
#[derive(Debug, Clone)]
pub struct PathRegex {
    text: Arc<str>,
    /// The expression, anchored at both ends, or only at the beginning if it is open. Its caches are in a pool in which no thread waits for
    /// another.
    regex: Regex,
    open: bool,
}

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
const COMPILED_BYTES_MAX: usize = 256 * 1024;

/// The maximum size of an expression's lazy DFA cache on each thread. Only a path crafted to be expensive needs more.
const STATES_BYTES_MAX: usize = 512 * 1024;

impl PathRegex {
    /// Parses an expression of the configuration, for whole paths.
    pub fn parse(text: &str) -> Result<PathRegex, RegexError> {
        PathRegex::read(text, false)
    }

    /// Parses an expression of the configuration, for the beginnings of paths.
    pub fn parse_open(text: &str) -> Result<PathRegex, RegexError> {
        PathRegex::read(text, true)
    }

    fn read(text: &str, open: bool) -> Result<PathRegex, RegexError> {
        // The text is compiled on its own first. Otherwise, an unmatched parenthesis could close the group that is added around it.
        compiled(text)?;
        // Every path begins with a slash. Other first characters may be syntax.
        if text.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            return Err(RegexError::NoSlash);
        }
        let end = if open { "" } else { r"\z" };
        let regex = compiled(&format!(r"\A(?:{text}){end}"))?;
        let is_odd = |name: &&str| name.contains(['.', '[', ']']);
        // Harmless: an unnamed group is not a parameter.
        if let Some(name) = regex.capture_names().flatten().find(is_odd) {
            return Err(RegexError::Group(name.to_owned()));
        }
        Ok(PathRegex { text: text.into(), regex, open })
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
        self.regex.capture_names().flatten()
    }

    pub(crate) fn is_met(&self, path: &[u8]) -> bool {
        self.regex.is_match(path)
    }

    /// Returns the values of the named groups, in order, and the offset where the match ends, or `None` if the path does not match. A group
    /// that takes no part in the match has an empty value.
    pub(crate) fn captured<'p>(&self, path: &'p [u8]) -> Option<(Vec<&'p [u8]>, usize)> {
        if self.parameters().next().is_none() {
            return Some((Vec::new(), self.regex.find(path)?.end()));
        }
        let found = self.regex.captures(path)?;
        let end = found.get(0)?.end();
        // Harmless: there is a name for each group.
        let groups = self.regex.capture_names().zip(found.iter());
        let named = groups.filter(|(name, _)| name.is_some());
        // Harmless: a group that took no part is empty.
        let texts = named.map(|(_, group)| group.map(|group| group.as_bytes()).unwrap_or_default());
        Some((texts.collect(), end))
    }
}

fn compiled(text: &str) -> Result<Regex, RegexError> {
    // Paths are bytes: `.` is any byte, and `\d` is an ASCII digit, as in Envoy, Kong and nginx.
    RegexBuilder::new(text)
        .unicode(false)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(STATES_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => RegexError::TooLarge,
            other @ (regex::Error::Syntax(_) | _) => RegexError::Syntax(reason(&other)),
        })
}

/// A regular expression that must match a whole value.
#[derive(Debug, Clone)]
pub struct ValueRegex {
    text: Arc<str>,
    regex: Regex,
}

impl ValueRegex {
    /// Parses an expression of the configuration.
    pub fn parse(text: &str) -> Result<ValueRegex, RegexError> {
        compiled(text)?;
        Ok(ValueRegex { text: text.into(), regex: compiled(&format!(r"\A(?:{text})\z"))? })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_met(&self, value: &[u8]) -> bool {
        self.regex.is_match(value)
    }
}

impl PartialEq for ValueRegex {
    fn eq(&self, other: &ValueRegex) -> bool {
        self.text == other.text
    }
}

impl Eq for ValueRegex {}

/// Returns a set that matches all expressions at once, or `None` if they are too large together. Then each is matched separately.
pub(crate) fn set<'r>(all: impl Iterator<Item = &'r PathRegex>) -> Option<RegexSet> {
    let all: Vec<&str> = all.map(|regex| regex.regex.as_str()).collect();
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
