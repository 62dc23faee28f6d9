//! I-Regexp (RFC 9485), translated for an engine that matches in linear time.
//!
//! The grammar is checked to the letter, so that no syntax of the engine's own gets through. `^` and `$` are anchors, as the
//! compliance suite of JSONPath has them.

use std::iter::Peekable;
use std::str::Chars;

/// No pattern that a person wrote is longer, and one that comes from a message shall not cost more.
const PATTERN_BYTES_MAX: usize = 4096;

/// The most bytes of a compiled pattern.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Groups inside one another.
const NESTING_MAX: usize = 32;

/// A compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Regex(regex::Regex);

impl Regex {
    /// Compiles a pattern for the whole of a text, or for any part. None: it is no I-Regexp.
    pub(super) fn compile(pattern: &str, whole: bool) -> Option<Regex> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return None;
        }
        let mut reader = Reader { rest: pattern.chars().peekable(), out: String::new() };
        reader.branches(0)?;
        if reader.rest.next().is_some() {
            return None;
        }
        let translated = match whole {
            true => format!("\\A(?:{})\\z", reader.out),
            false => reader.out,
        };
        let mut builder = regex::RegexBuilder::new(&translated);
        builder.size_limit(COMPILED_BYTES_MAX).dfa_size_limit(COMPILED_BYTES_MAX);
        builder.build().ok().map(Regex)
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
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
                    self.atom(depth)?;
                    self.quantifier()?;
                }
            }
        }
    }

    fn atom(&mut self, depth: usize) -> Option<()> {
        match self.rest.next()? {
            '.' => self.out.push_str("[^\\n\\r]"),
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

    /// A character that means itself, whatever it means to the engine.
    fn literal(&mut self, c: char) {
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

    /// `\p{Lu}`
    fn category(&mut self, kind: char) -> Option<()> {
        self.rest.next_if_eq(&'{')?;
        let mut name = String::new();
        while let Some(c) = self.rest.next_if(char::is_ascii_alphabetic) {
            name.push(c);
        }
        self.rest.next_if_eq(&'}')?;
        if !is_category(&name) {
            return None;
        }
        self.out.push_str(&format!("\\{kind}{{{name}}}"));
        Some(())
    }

    fn class(&mut self) -> Option<()> {
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
                // The last one of a class means itself.
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

    /// One character of a class, or from one to another.
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

    fn quantifier(&mut self) -> Option<()> {
        match self.rest.peek() {
            Some(sign @ ('*' | '+' | '?')) => {
                self.out.push(*sign);
                self.rest.next();
            }
            Some('{') => {
                self.rest.next();
                self.out.push('{');
                self.number()?;
                if self.rest.next_if_eq(&',').is_some() {
                    self.out.push(',');
                    if self.rest.peek() != Some(&'}') {
                        self.number()?;
                    }
                }
                self.rest.next_if_eq(&'}')?;
                self.out.push('}');
            }
            Some(_) | None => {}
        }
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        let before = self.out.len();
        while let Some(digit) = self.rest.next_if(char::is_ascii_digit) {
            self.out.push(digit);
        }
        (self.out.len() > before).then_some(())
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
        // No escape of RFC 9485, but `$` is an anchor here, and one has to get out of it.
        '$' => Some(c),
        _ => None,
    }
}

/// `IsCategory` of RFC 9485.
fn is_category(name: &str) -> bool {
    const MINORS: [(char, &str); 7] = [
        ('L', "lmotu"),
        ('M', "cen"),
        ('N', "dlo"),
        ('P', "cdefios"),
        ('Z', "lps"),
        ('S', "ckmo"),
        ('C', "cfno"),
    ];
    let mut chars = name.chars();
    let (major, minor, rest) = (chars.next(), chars.next(), chars.next());
    let row = MINORS.iter().find(|(known, _)| Some(*known) == major);
    row.is_some_and(|(_, minors)| minor.is_none_or(|minor| minors.contains(minor)))
        && rest.is_none()
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
    fn what_is_no_pattern_is_none() {
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
