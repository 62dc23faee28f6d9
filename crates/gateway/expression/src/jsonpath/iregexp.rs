//! I-Regexp (RFC 9485), translated for an engine that matches in linear time.
//!
//! The grammar is checked strictly, so that no other syntax of the engine can be used. `^` and `$` are anchors, as in the compliance suite
//! of JSONPath.

use std::iter::Peekable;
use std::str::Chars;

/// Maximum length of a pattern. No hand-written one is longer, and it bounds the cost of patterns that come from a message.
pub(super) const PATTERN_BYTES_MAX: usize = 4096;

/// Maximum size of a compiled pattern.
pub(super) const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Maximum nesting of groups.
const NESTING_MAX: usize = 32;

/// Number of steps that compiling any pattern costs.
const BASE_STEPS: u64 = 4_000;
/// Number of steps for compiling a character, which is one state of the engine. A state takes about fifty nanoseconds.
const CHARACTER_STEPS: u64 = 20;
/// Number of steps for compiling a character class.
const CLASS_STEPS: u64 = 500;
/// Number of steps for compiling a category, which is about a thousand states of the engine.
const CATEGORY_STEPS: u64 = 10_000;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Regex(regex::Regex);

/// A pattern whose grammar was checked, with the cost of compiling it.
pub(super) struct Translation {
    text: String,
    pub(super) steps: u64,
}

impl Translation {
    /// Translates a pattern. If `whole` is true, it must match the whole text, otherwise any part of it. Returns `None` if it is not an
    /// I-Regexp.
    pub(super) fn of(pattern: &str, whole: bool) -> Option<Translation> {
        let mut reader = Reader { rest: pattern.chars().peekable(), out: String::new(), steps: 0 };
        reader.branches(0)?;
        if reader.rest.next().is_some() {
            return None;
        }
        let text = if whole { format!("\\A(?:{})\\z", reader.out) } else { reader.out };
        Some(Translation { text, steps: reader.steps.saturating_add(BASE_STEPS) })
    }

    /// Compiles the pattern. Fails if the engine refuses it because it is too large or a range is empty.
    pub(super) fn compile(&self) -> Result<Regex, regex::Error> {
        let mut builder = regex::RegexBuilder::new(&self.text);
        builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX);
        builder.build().map(Regex)
    }
}

impl Regex {
    /// Compiles a pattern of a query. Returns `None` if it is not an I-Regexp or is too large.
    pub(super) fn compile(pattern: &str, whole: bool) -> Option<Regex> {
        let translation = Translation::of(pattern, whole).filter(|_| !is_too_long(pattern))?;
        // Harmless: the caller reports `None` as an invalid pattern.
        translation.compile().ok()
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Returns true if a pattern exceeds the maximum length.
pub(super) fn is_too_long(pattern: &str) -> bool {
    pattern.len() > PATTERN_BYTES_MAX
}

struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
    /// The cost of what has been read so far in the innermost open group.
    steps: u64,
}

impl Reader<'_> {
    fn branches(&mut self, depth: usize) -> Option<()> {
        if depth > NESTING_MAX {
            return None;
        }
        loop {
            match self.rest.peek() {
                None | Some(')') => return Some(()),
                Some('|') => {
                    self.rest.next();
                    self.out.push('|');
                }
                Some(_) => {
                    let before = std::mem::take(&mut self.steps);
                    self.atom(depth)?;
                    let times = self.quantifier()?;
                    self.steps = before.saturating_add(self.steps.saturating_mul(times));
                }
            }
        }
    }

    fn atom(&mut self, depth: usize) -> Option<()> {
        match self.rest.next()? {
            '.' => {
                self.steps += CLASS_STEPS;
                self.out.push_str("[^\\n\\r]");
            }
            '(' => {
                self.out.push_str("(?:");
                self.branches(depth + 1)?;
                self.rest.next_if_eq(&')')?;
                self.out.push(')');
            }
            '[' => self.class()?,
            '\\' => self.escape()?,
            '^' => self.out.push_str("\\A"),
            '$' => self.out.push_str("\\z"),
            ')' | '*' | '+' | '?' | ']' | '{' | '|' | '}' => return None,
            plain => self.literal(plain),
        }
        Some(())
    }

    /// Writes a character so that the engine takes it literally.
    fn literal(&mut self, c: char) {
        self.steps += CHARACTER_STEPS;
        self.out.push_str(&format!("\\x{{{:x}}}", u32::from(c)));
    }

    fn escape(&mut self) -> Option<()> {
        match self.rest.next()? {
            kind @ ('p' | 'P') => self.category(kind),
            c => {
                let c = escaped(c)?;
                self.literal(c);
                Some(())
            }
        }
    }

    /// Reads a category such as `\p{Lu}`.
    fn category(&mut self, kind: char) -> Option<()> {
        self.rest.next_if_eq(&'{')?;
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(char::is_ascii_alphabetic) {
            name.push(c);
        }
        self.rest.next_if_eq(&'}')?;
        if !xml::is_category(&name) {
            return None;
        }
        self.steps += CATEGORY_STEPS;
        self.out.push_str(&format!("\\{kind}{{{name}}}"));
        Some(())
    }

    fn class(&mut self) -> Option<()> {
        self.steps += CLASS_STEPS;
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut any = false;
        if self.rest.next_if_eq(&'-').is_some() {
            self.literal('-');
            any = true;
        }
        loop {
            match self.rest.next()? {
                ']' => break,
                // A hyphen at the end of a class is literal.
                '-' => {
                    self.rest.next_if_eq(&']')?;
                    self.literal('-');
                    any = true;
                    break;
                }
                '\\' if matches!(self.rest.peek(), Some('p' | 'P')) => self.escape()?,
                first => self.range(first)?,
            }
            any = true;
        }
        self.out.push(']');
        any.then_some(())
    }

    /// Reads one character of a class, or a range.
    fn range(&mut self, first: char) -> Option<()> {
        let first = self.class_char(first)?;
        self.literal(first);
        let mut ahead = self.rest.clone();
        if ahead.next() != Some('-') || ahead.peek() == Some(&']') {
            return Some(());
        }
        self.rest.next();
        let last = self.rest.next()?;
        let last = self.class_char(last)?;
        self.out.push('-');
        self.literal(last);
        Some(())
    }

    fn class_char(&mut self, c: char) -> Option<char> {
        match c {
            '\\' => escaped(self.rest.next()?),
            '[' | ']' | '-' => None,
            c => Some(c),
        }
    }

    /// Reads a quantifier. Returns how many copies of the quantified part are compiled.
    fn quantifier(&mut self) -> Option<u64> {
        match self.rest.peek() {
            Some(sign @ ('*' | '+' | '?')) => {
                self.out.push(*sign);
                self.rest.next();
                Some(1)
            }
            Some('{') => {
                self.rest.next();
                self.out.push('{');
                let mut times = self.number()?;
                if self.rest.next_if_eq(&',').is_some() {
                    self.out.push(',');
                    times = match self.rest.peek() {
                        Some('}') => times.saturating_add(1),
                        Some(_) | None => times.max(self.number()?),
                    };
                }
                self.rest.next_if_eq(&'}')?;
                self.out.push('}');
                Some(times.max(1))
            }
            Some(_) | None => Some(1),
        }
    }

    fn number(&mut self) -> Option<u64> {
        let (before, mut number) = (self.out.len(), 0_u64);
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            self.out.push(digit);
            number = number.saturating_mul(10).saturating_add(digit.to_digit(10)?.into());
        }
        (self.out.len() > before).then_some(number)
    }
}

fn escaped(c: char) -> Option<char> {
    match c {
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        '(' | ')' | '*' | '+' | '-' | '.' | '?' | '[' | '\\' | ']' | '^' | '{' | '|' | '}' => {
            Some(c)
        }
        // Not an escape in RFC 9485, but `$` is an anchor here, so there has to be a way to escape it.
        '$' => Some(c),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(pattern: &str, text: &str) -> Option<bool> {
        Regex::compile(pattern, true).map(|regex| regex.matches(text))
    }

    #[test]
    fn patterns_mean_what_rfc_9485_says() {
        for (pattern, text, expected) in [
            ("a.c", "abc", true),
            ("a.c", "a\nc", false),
            ("a|bc", "bc", true),
            ("a|bc", "ac", false),
            ("", "", true),
            ("(ab)+", "abab", true),
            ("[a-c]{2,3}", "abc", true),
            ("[^a-c]", "d", true),
            ("[-a]", "-", true),
            ("[a-]", "-", true),
            ("[&&]", "&", true),
            ("[a~~b]", "~", true),
            ("\\p{Lu}\\P{L}", "Ä1", true),
            ("[\\p{Nd}x]+", "1x2", true),
            ("a{2}", "aaa", false),
            ("\\.\\-\\n", ".-\n", true),
            ("#  x", "#  x", true),
            ("^a$", "a", true),
            ("\\^\\$", "^$", true),
        ] {
            assert_eq!(whole(pattern, text), Some(expected), "{pattern} {text}");
        }
    }

    #[test]
    fn invalid_patterns_do_not_compile() {
        for pattern in [
            "(",
            ")",
            "a**",
            "*",
            "[",
            "[]",
            "[a",
            "a{",
            "a{x}",
            "a{3,2}",
            "\\d",
            "\\w",
            "\\b",
            "(?i)a",
            "(?:a)",
            "[[:alpha:]]",
            "[a[b]]",
            "[a-b-c]",
            "\\p{Foo}",
            "\\p{L",
            "\\pL",
            "\\p{Greek}",
            "\\x41",
            "a+?",
            "}",
            "]",
            "[z-a]",
        ] {
            assert_eq!(whole(pattern, ""), None, "{pattern}");
        }
        assert_eq!(whole(&"(".repeat(100), ""), None);
        assert_eq!(whole(&"a".repeat(5000), ""), None);
        assert_eq!(whole("((((a{1000}){1000}){1000}){1000})", ""), None);
    }
}
