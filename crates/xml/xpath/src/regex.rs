//! Regular expressions of XPath 2.0, translated to the syntax of the `regex` crate, which matches in linear time and has the Unicode
//! tables.
//!
//! The two syntaxes mostly agree. They differ in the escapes for XML names and white space, the dot, class subtraction, and
//! blocks. Syntax that only the crate has is refused, and so are back-references, which no linear matcher supports.

use crate::ErrorKind;

/// Maximum size of a compiled expression in bytes, enough for a few thousand states.
const SIZE_MAX: usize = 1 << 20;

/// Maximum nesting of groups and classes.
const NEST_MAX: u32 = 100;

/// A class that matches nothing, for the blocks of surrogates.
const NOTHING: &str = r"[^\x{0}-\x{10FFFF}]";

const SPACE: &str = r" \t\n\r";
const NAME_START: &str = r":A-Z_a-z\xC0-\xD6\xD8-\xF6\xF8-\x{2FF}\x{370}-\x{37D}\x{37F}-\x{1FFF}\x{200C}-\x{200D}\x{2070}-\x{218F}\x{2C00}-\x{2FEF}\x{3001}-\x{D7FF}\x{F900}-\x{FDCF}\x{FDF0}-\x{FFFD}\x{10000}-\x{EFFFF}";
const NAME_MORE: &str = r"\-.0-9\xB7\x{300}-\x{36F}\x{203F}-\x{2040}";

/// A compiled regular expression.
#[derive(Debug, Clone)]
pub(crate) struct Regex {
    source: Box<str>,
    regex: regex::Regex,
}

/// The replacement text of `replace()`.
#[derive(Debug)]
pub(crate) struct Replacement {
    parts: Vec<Part>,
}

#[derive(Debug)]
enum Part {
    Text(String),
    Group(usize),
}

impl Regex {
    /// Compiles a pattern with flags of `s`, `m`, `i`, `x`.
    pub(crate) fn new(pattern: &str, flags: &str) -> Result<Regex, ErrorKind> {
        let (mut dot_all, mut lines, mut caseless, mut spaced) = (false, false, false, false);
        for flag in flags.chars() {
            match flag {
                's' => dot_all = true,
                'm' => lines = true,
                'i' => caseless = true,
                'x' => spaced = true,
                _ => return Err(ErrorKind::Regex(format!("there is no flag `{flag}`").into())),
            }
        }
        let text =
            Rewriter { rest: pattern.chars().peekable(), out: String::new(), dot_all, spaced }
                .rewrite()?;
        let regex = regex::RegexBuilder::new(&text)
            .multi_line(lines)
            .case_insensitive(caseless)
            .size_limit(SIZE_MAX)
            .dfa_size_limit(SIZE_MAX)
            .nest_limit(NEST_MAX)
            .build()
            .map_err(|error| wrong(pattern, &kit::regex_error::reason(&error)))?;
        Ok(Regex { source: pattern.into(), regex })
    }

    /// Returns the pattern as written.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// Refuses a pattern that matches the empty string. XPath does not allow splitting or replacing by such a pattern.
    pub(crate) fn refuse_empty(&self) -> Result<(), ErrorKind> {
        if self.regex.is_match("") {
            Err(wrong(&self.source, "it matches the empty string"))
        } else {
            Ok(())
        }
    }

    /// Returns the pieces between matches. An empty text has none.
    pub(crate) fn split<'t>(&self, text: &'t str) -> Vec<&'t str> {
        if text.is_empty() { Vec::new() } else { self.regex.split(text).collect() }
    }

    /// Replaces all matches. Fails if the result is longer than `max` bytes.
    pub(crate) fn replace(
        &self,
        text: &str,
        replacement: &Replacement,
        max: u32,
    ) -> Result<String, ErrorKind> {
        let mut out = String::with_capacity(text.len());
        let mut after = 0;
        for groups in self.regex.captures_iter(text) {
            let Some(whole) = groups.get(0) else { continue };
            out.push_str(text.get(after..whole.start()).unwrap_or_default());
            after = whole.end();
            for part in &replacement.parts {
                match part {
                    Part::Text(text) => out.push_str(text),
                    Part::Group(number) => {
                        out.push_str(groups.get(*number).map_or("", |group| group.as_str()));
                    }
                }
            }
            if out.len() as u64 > u64::from(max) {
                return Err(ErrorKind::Limit { name: "text_bytes_max", max: u64::from(max) });
            }
        }
        out.push_str(text.get(after..).unwrap_or_default());
        Ok(out)
    }
}

impl Replacement {
    /// Reads `$1` to `$9`, `$0`, `\$` and `\\`.
    pub(crate) fn parse(text: &str) -> Result<Replacement, ErrorKind> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars();
        while let Some(c) = rest.next() {
            match (c, rest.clone().next()) {
                ('\\', Some(next @ ('\\' | '$'))) => {
                    rest.next();
                    literal.push(next);
                }
                ('$', Some(next)) if next.is_ascii_digit() => {
                    rest.next();
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                    parts.push(Part::Group(next.to_digit(10).map_or(0, |n| n as usize)));
                }
                ('\\' | '$', _) => {
                    let what = format!("a replacement has `{c}` only as `\\\\`, `\\$` or `$1`");
                    return Err(ErrorKind::Regex(what.into()));
                }
                _ => literal.push(c),
            }
        }
        parts.push(Part::Text(literal));
        Ok(Replacement { parts })
    }
}

struct Rewriter<'p> {
    rest: std::iter::Peekable<std::str::Chars<'p>>,
    out: String,
    dot_all: bool,
    spaced: bool,
}

impl Rewriter<'_> {
    fn rewrite(mut self) -> Result<String, ErrorKind> {
        while let Some(c) = self.rest.next() {
            match c {
                '\\' => self.escape(false)?,
                '[' => self.class()?,
                '.' if self.dot_all => self.out.push_str("(?s:.)"),
                '.' => self.out.push_str(r"[^\n\r]"),
                ' ' | '\t' | '\n' | '\r' if self.spaced => {}
                '(' => self.group()?,
                _ => self.out.push(c),
            }
        }
        Ok(self.out)
    }

    /// Reads a group. Of the constructs that begin with `(?`, XPath has only `(?:`.
    fn group(&mut self) -> Result<(), ErrorKind> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_some() {
            if self.rest.next_if_eq(&':').is_none() {
                return Err(ErrorKind::Regex("after `(?` only `:` can stand".into()));
            }
            self.out.push_str("?:");
        }
        Ok(())
    }

    /// Reads a class after its `[`. Subtraction, `[a-z-[aeiou]]`, is written `--` in the crate. It nests only at the end, so it is enough
    /// to count the open brackets.
    fn class(&mut self) -> Result<(), ErrorKind> {
        let mut open = 1_u32;
        self.out.push('[');
        self.negation();
        while let Some(c) = self.rest.next() {
            match c {
                ']' => {
                    self.out.push(']');
                    open -= 1;
                    if open == 0 {
                        return Ok(());
                    }
                    if self.rest.peek() != Some(&']') {
                        return Err(ErrorKind::Regex(
                            "a subtracted class ends the class it is taken from".into(),
                        ));
                    }
                }
                '-' if self.rest.peek() == Some(&'[') => {
                    self.rest.next();
                    self.out.push_str("--[");
                    open += 1;
                    if open > NEST_MAX {
                        return Err(ErrorKind::Limit {
                            name: "class_depth",
                            max: u64::from(NEST_MAX),
                        });
                    }
                    self.negation();
                }
                '[' => {
                    return Err(ErrorKind::Regex("`[` in a class has to be written `\\[`".into()));
                }
                '\\' => self.escape(true)?,
                '&' | '~' => {
                    self.out.push('\\');
                    self.out.push(c);
                }
                '-' if self.rest.peek() == Some(&'-') => self.out.push_str(r"\-"),
                _ => self.out.push(c),
            }
        }
        Err(ErrorKind::Regex("unterminated class".into()))
    }

    fn negation(&mut self) {
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
    }

    /// Reads the escape after a backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), ErrorKind> {
        let Some(c) = self.rest.next() else {
            return Err(ErrorKind::Regex("nothing follows the last `\\`".into()));
        };
        match c {
            'n' | 'r' | 't' | '\\' | '|' | '.' | '?' | '*' | '+' | '(' | ')' | '{' | '}' | '-'
            | '[' | ']' | '^' | '$' | 'd' | 'D' => {
                self.out.push('\\');
                self.out.push(c);
            }
            's' => self.set("", SPACE, in_class),
            'S' => self.set("^", SPACE, in_class),
            'i' => self.set("", NAME_START, in_class),
            'I' => self.set("^", NAME_START, in_class),
            'c' => self.set("", &[NAME_START, NAME_MORE].concat(), in_class),
            'C' => self.set("^", &[NAME_START, NAME_MORE].concat(), in_class),
            'w' => self.out.push_str(r"[^\p{P}\p{Z}\p{C}]"),
            'W' => self.out.push_str(r"[\p{P}\p{Z}\p{C}]"),
            'p' | 'P' => self.property(c, in_class)?,
            '0'..='9' => {
                return Err(ErrorKind::Regex(
                    "a reference back cannot be matched in linear time".into(),
                ));
            }
            _ => return Err(ErrorKind::Regex(format!("there is no escape `\\{c}`").into())),
        }
        Ok(())
    }

    /// Writes a class, or only its members inside another class.
    fn set(&mut self, negation: &str, members: &str, in_class: bool) {
        if in_class && negation.is_empty() {
            self.out.push_str(members)
        } else {
            self.out.extend(["[", negation, members, "]"]);
        }
    }

    /// Reads `\p{..}` with a category or a block.
    fn property(&mut self, sign: char, in_class: bool) -> Result<(), ErrorKind> {
        let refused = || ErrorKind::Regex("a category is written `\\p{..}`".into());
        if self.rest.next() != Some('{') {
            return Err(refused());
        }
        let mut name = String::new();
        loop {
            match self.rest.next() {
                Some('}') => break,
                Some(c) if c.is_ascii_alphanumeric() || c == '-' => name.push(c),
                _ => return Err(refused()),
            }
        }
        let Some(block) = name.strip_prefix("Is") else {
            if !xml::is_category(&name) {
                return Err(ErrorKind::Regex(format!("there is no category `{name}`").into()));
            }
            self.out.extend(['\\', sign, '{']);
            self.out.push_str(&name);
            self.out.push('}');
            return Ok(());
        };
        let Some(ranges) = xml::block(block) else {
            let why = format!("the block `{block}` is not known here");
            return Err(ErrorKind::Regex(why.into()));
        };
        let negation = match sign {
            'P' => "^",
            _ => "",
        };
        let members = |(first, last)| format!("\\x{{{first:X}}}-\\x{{{last:X}}}");
        let members: String = ranges.map(members).collect();
        if members.is_empty() {
            self.set(negation, NOTHING, in_class)
        } else {
            self.set(negation, &members, in_class)
        }
        Ok(())
    }
}

fn wrong(pattern: &str, why: &str) -> ErrorKind {
    ErrorKind::Regex(format!("the regular expression `{pattern}`: {why}").into())
}
