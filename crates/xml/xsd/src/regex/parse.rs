//! Parser for regular expressions (Part 2, appendix F): builds a tree of sets, sequences, choices and repetitions.

use super::category;
use super::set::CharSet;
use super::{NESTING_MAX, PATTERN_BYTES_MAX, RegexError};

/// A part of an expression.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Empty,
    /// One character of a set.
    Set(CharSet),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeat {
        what: Box<Node>,
        min: u32,
        /// `None` if unbounded.
        max: Option<u32>,
    },
}

/// Parses a whole expression.
pub(crate) fn parse(pattern: &str) -> Result<Node, RegexError> {
    let mut reader = Reader { pattern, at: 0, depth: 0 };
    if pattern.len() > PATTERN_BYTES_MAX {
        return reader.refuse(format!("the expression is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    let node = reader.choice()?;
    match reader.peek() {
        None => Ok(node),
        Some(c) => reader.refuse(format!("`{c}` closes nothing; write `\\{c}` for the character")),
    }
}

struct Reader<'a> {
    pattern: &'a str,
    at: usize,
    depth: u32,
}

/// A member of a character class.
enum Member {
    Char(char),
    Set(CharSet),
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn rest(&self) -> &str {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn take(&mut self, wanted: char) -> bool {
        let found = self.peek() == Some(wanted);
        if found {
            self.at += wanted.len_utf8();
        }
        found
    }

    fn refuse<T>(&self, message: impl Into<String>) -> Result<T, RegexError> {
        Err(RegexError { offset: self.at, message: message.into() })
    }

    /// Parses `branch ( '|' branch )*`.
    fn choice(&mut self) -> Result<Node, RegexError> {
        let mut branches = vec![self.branch()?];
        while self.take('|') {
            branches.push(self.branch()?);
        }
        Ok(match branches.len() {
            1 => branches.pop().unwrap_or(Node::Empty),
            _ => Node::Choice(branches),
        })
    }

    /// Parses `piece*`.
    fn branch(&mut self) -> Result<Node, RegexError> {
        let mut pieces = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let atom = self.atom()?;
            let piece = self.quantified(atom)?;
            if piece != Node::Empty {
                pieces.push(piece);
            }
        }
        Ok(match pieces.len() {
            0 => Node::Empty,
            1 => pieces.pop().unwrap_or(Node::Empty),
            _ => Node::Sequence(pieces),
        })
    }

    fn atom(&mut self) -> Result<Node, RegexError> {
        let Some(c) = self.peek() else {
            return self.refuse("an atom is missing");
        };
        match c {
            '(' => {
                self.at += 1;
                self.depth += 1;
                if self.depth > NESTING_MAX {
                    return self.refuse(format!("groups nest deeper than {NESTING_MAX}"));
                }
                let inside = self.choice()?;
                if !self.take(')') {
                    return self.refuse("a group is not closed by `)`");
                }
                self.depth -= 1;
                Ok(inside)
            }
            '[' => {
                self.at += 1;
                Ok(Node::Set(self.class()?))
            }
            '\\' => Ok(Node::Set(match self.escape()? {
                Member::Char(c) => CharSet::one(c),
                Member::Set(set) => set,
            })),
            '.' => {
                self.at += 1;
                Ok(Node::Set(CharSet::from_ranges(vec![(0xA, 0xA), (0xD, 0xD)]).complement()))
            }
            '?' | '*' | '+' | '{' => {
                self.refuse(format!("`{c}` has nothing to repeat; write `\\{c}` for the character"))
            }
            ']' | '}' => {
                self.refuse(format!("`{c}` closes nothing; write `\\{c}` for the character"))
            }
            _ => {
                self.at += c.len_utf8();
                Ok(Node::Set(CharSet::one(c)))
            }
        }
    }

    /// Parses an optional quantifier. A second one is an error.
    fn quantified(&mut self, atom: Node) -> Result<Node, RegexError> {
        let (min, max) = match self.peek() {
            Some('?') => (0, Some(1)),
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('{') => {
                self.at += 1;
                let (min, max) = self.quantity()?;
                return Ok(repeat(atom, min, max));
            }
            Some(_) | None => return Ok(atom),
        };
        self.at += 1;
        Ok(repeat(atom, min, max))
    }

    /// Parses `n}`, `n,}` or `n,m}`.
    fn quantity(&mut self) -> Result<(u32, Option<u32>), RegexError> {
        let min = self.number()?;
        let max = if !self.take(',') {
            Some(min)
        } else if self.peek() == Some('}') {
            None
        } else {
            Some(self.number()?)
        };
        if !self.take('}') {
            return self.refuse("a quantity is not closed by `}`");
        }
        if max.is_some_and(|max| max < min) {
            return self
                .refuse(format!("the maximum of a quantity is less than its minimum {min}"));
        }
        Ok((min, max))
    }

    fn number(&mut self) -> Result<u32, RegexError> {
        let digits = self.rest().bytes().take_while(u8::is_ascii_digit).count();
        let text = self.rest().get(..digits).unwrap_or_default();
        if digits == 0 {
            return self.refuse("a number is missing in a quantity");
        }
        let Ok(number) = text.parse() else {
            return self.refuse(format!("the quantity {text} is too large"));
        };
        self.at += digits;
        Ok(number)
    }

    /// Parses a character or a set after `\`.
    fn escape(&mut self) -> Result<Member, RegexError> {
        self.at += 1;
        let Some(c) = self.next() else {
            return self.refuse("the expression ends in `\\`");
        };
        Ok(Member::Char(match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            '\\' | '|' | '.' | '?' | '*' | '+' | '(' | ')' | '{' | '}' | '-' | '[' | ']' | '^' => c,
            'p' | 'P' => return self.property(c == 'P'),
            _ => match category::multi(c) {
                Some(set) => return Ok(Member::Set(set)),
                None => return self.refuse(format!("`\\{c}` is not an escape of XML Schema")),
            },
        }))
    }

    /// Parses `{name}` after `\p` or `\P`.
    fn property(&mut self, negated: bool) -> Result<Member, RegexError> {
        let inside = self.rest().strip_prefix('{').and_then(|rest| rest.split_once('}'));
        let Some((name, _)) = inside else {
            return self.refuse("`\\p` lacks its `{name}`");
        };
        let Some(set) = category::property(name) else {
            return self.refuse(format!("`{name}` is neither a category nor a block"));
        };
        self.at += name.len() + 2;
        Ok(Member::Set(if negated { set.complement() } else { set }))
    }

    /// Parses a class after `[`: an optional `^`, members, and an optional class to subtract.
    fn class(&mut self) -> Result<CharSet, RegexError> {
        self.depth += 1;
        if self.depth > NESTING_MAX {
            return self.refuse(format!("classes nest deeper than {NESTING_MAX}"));
        }
        let negated = self.take('^');
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        let mut taken_away = None;
        let mut first = true;
        loop {
            if !first && self.rest().starts_with("-[") {
                self.at += 2;
                taken_away = Some(self.class()?);
                if !self.take(']') {
                    return self.refuse("nothing may follow a subtracted class");
                }
                break;
            }
            if !first && self.take(']') {
                break;
            }
            self.member(first, &mut ranges)?;
            first = false;
        }
        self.depth -= 1;
        let mut set = CharSet::from_ranges(ranges);
        if negated {
            set = set.complement();
        }
        Ok(match taken_away {
            Some(other) => set.minus(&other),
            None => set,
        })
    }

    /// Parses a character, a range or a set. An unescaped `-` is literal only as the first or the last member.
    fn member(&mut self, first: bool, ranges: &mut Vec<(u32, u32)>) -> Result<(), RegexError> {
        let start = match self.class_char(first)? {
            Member::Set(set) => {
                ranges.extend(set.ranges());
                return Ok(());
            }
            Member::Char(c) => c,
        };
        let code = u32::from(start);
        let rest = self.rest();
        if !rest.starts_with('-') || rest.starts_with("-]") || rest.starts_with("-[") {
            ranges.push((code, code));
            return Ok(());
        }
        self.at += 1;
        if self.peek() == Some('-') {
            return self.refuse("a range cannot end in a bare `-`; write `\\-`");
        }
        let Member::Char(end) = self.class_char(false)? else {
            return self.refuse("a range cannot end in an escape for many characters");
        };
        if end < start {
            return self.refuse(format!("the range from `{start}` to `{end}` is empty"));
        }
        ranges.push((code, u32::from(end)));
        Ok(())
    }

    fn class_char(&mut self, first: bool) -> Result<Member, RegexError> {
        match self.peek() {
            None => self.refuse("a class is not closed by `]`"),
            Some('\\') => self.escape(),
            Some(c @ ('[' | ']')) => {
                self.refuse(format!("`{c}` is not escaped in a class; write `\\{c}`"))
            }
            Some('-') if !first && !self.rest().starts_with("-]") => {
                self.refuse("`-` is not escaped inside a class; write `\\-`")
            }
            Some(c) => {
                self.at += c.len_utf8();
                Ok(Member::Char(c))
            }
        }
    }
}

/// Creates a repetition, or a simpler node if the repetition is trivial.
fn repeat(what: Node, min: u32, max: Option<u32>) -> Node {
    match (&what, min, max) {
        (Node::Empty, _, _) | (_, _, Some(0)) => Node::Empty,
        (_, 1, Some(1)) => what,
        _ => Node::Repeat { what: Box::new(what), min, max },
    }
}
