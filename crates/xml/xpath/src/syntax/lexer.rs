//! Tokens of an expression (XPath 1.0, 3.7). The parser decides whether `*` and `and` are operators, because it knows whether it expects an
//! operator or an operand. This is equivalent to the rule about the preceding token.

use crate::number::is_space;
use crate::{Error, ErrorKind};

/// A token.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    Number(f64),
    Literal(&'a str),
    /// The prefix, which may be empty, and the local part.
    Name(&'a str, &'a str),
    /// `p:*`
    PrefixAny(&'a str),
    Variable(&'a str, &'a str),
    /// One of `( ) [ ] @ , / | + - = < > * .`.
    Sign(u8),
    DotDot,
    ColonColon,
    SlashSlash,
    NotEqual,
    LessEqual,
    GreaterEqual,
    End,
}

/// Reads tokens from an expression's text.
#[derive(Debug, Clone)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
    /// Whether numbers may have an exponent, as in XPath 2.0.
    exponents: bool,
}

impl<'a> Lexer<'a> {
    pub(super) fn new(text: &'a str, exponents: bool) -> Lexer<'a> {
        Lexer { text, at: 0, exponents }
    }

    /// Returns the next token and its offset. At the end, returns `End` for every call.
    pub(super) fn next(&mut self) -> Result<(Token<'a>, u32), Error> {
        self.take_while(is_space);
        let offset = self.offset();
        let rest = self.rest();
        let Some(first) = rest.chars().next() else { return Ok((Token::End, offset)) };
        let token = match first {
            '0'..='9' => self.number(),
            '.' if rest.as_bytes().get(1).is_some_and(u8::is_ascii_digit) => self.number(),
            '"' | '\'' => self.literal(first)?,
            '$' => self.variable()?,
            c if is_name_start(c) => self.name(),
            _ => self.sign(first)?,
        };
        Ok((token, offset))
    }

    fn offset(&self) -> u32 {
        u32::try_from(self.at).unwrap_or(u32::MAX)
    }

    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !wanted(c)).unwrap_or(rest.len());
        self.skip(end);
        rest.get(..end).unwrap_or_default()
    }

    fn number(&mut self) -> Token<'a> {
        let from = self.at;
        self.take_while(|c| c.is_ascii_digit());
        if self.rest().starts_with('.') {
            self.skip(1);
            self.take_while(|c| c.is_ascii_digit());
        }
        if self.exponents {
            self.exponent();
        }
        let digits = self.text.get(from..self.at).unwrap_or_default();
        Token::Number(digits.parse().unwrap_or(f64::NAN))
    }

    fn exponent(&mut self) {
        let Some(rest) = self.rest().strip_prefix(['e', 'E']) else { return };
        let digits = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        if digits.starts_with(|c: char| c.is_ascii_digit()) {
            self.skip(1 + rest.len() - digits.len());
            self.take_while(|c| c.is_ascii_digit());
        }
    }

    fn literal(&mut self, quote: char) -> Result<Token<'a>, Error> {
        let offset = self.offset();
        self.skip(1);
        let text = self.take_while(|c| c != quote);
        if self.rest().is_empty() {
            Err(ErrorKind::syntax(format!("unterminated string that starts with {quote}"))
                .at(offset))
        } else {
            self.skip(1);
            Ok(Token::Literal(text))
        }
    }

    fn variable(&mut self) -> Result<Token<'a>, Error> {
        let offset = self.offset();
        self.skip(1);
        // White space may separate any tokens: `$ x` is a variable reference.
        self.take_while(is_space);
        match self.rest().starts_with(is_name_start).then(|| self.name()) {
            Some(Token::Name(prefix, local)) => Ok(Token::Variable(prefix, local)),
            _ => Err(ErrorKind::syntax("a variable's name is missing after `$`").at(offset)),
        }
    }

    /// Reads `name`, `prefix:name` or `prefix:*`. Does not consume the colons of `name::`.
    fn name(&mut self) -> Token<'a> {
        let first = self.take_while(is_name_char);
        let Some(rest) = self.rest().strip_prefix(':') else { return Token::Name("", first) };
        if rest.starts_with('*') {
            self.skip(2);
            return Token::PrefixAny(first);
        }
        if !rest.starts_with(is_name_start) {
            return Token::Name("", first);
        }
        self.skip(1);
        Token::Name(first, self.take_while(is_name_char))
    }

    fn sign(&mut self, first: char) -> Result<Token<'a>, Error> {
        for (text, token) in [
            ("..", Token::DotDot),
            ("::", Token::ColonColon),
            ("//", Token::SlashSlash),
            ("!=", Token::NotEqual),
            ("<=", Token::LessEqual),
            (">=", Token::GreaterEqual),
        ] {
            if self.rest().starts_with(text) {
                self.skip(text.len());
                return Ok(token);
            }
        }
        match first {
            '(' | ')' | '[' | ']' | '@' | ',' | '/' | '|' | '+' | '-' | '=' | '<' | '>' | '*'
            | '.' => {
                self.skip(1);
                Ok(Token::Sign(u8::try_from(first).unwrap_or(0)))
            }
            _ => Err(ErrorKind::syntax(format!("`{first}` cannot stand here")).at(self.offset())),
        }
    }
}

/// Returns whether an `NCName` may start with a character (XML 1.0, production 4, without the colon).
pub(super) fn is_name_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}' | '\u{F8}'..='\u{2FF}'
        | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}' | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}'
        | '\u{2C00}'..='\u{2FEF}' | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

/// Returns whether an `NCName` may contain a character (production 4a, without the colon).
pub(super) fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}

impl Token<'_> {
    /// Describes the token for messages.
    pub(super) fn shown(self) -> String {
        match self {
            Token::Number(value) => format!("the number {value}"),
            Token::Literal(_) => "a string".into(),
            Token::Name("", local) => format!("`{local}`"),
            Token::Name(prefix, local) => format!("`{prefix}:{local}`"),
            Token::PrefixAny(prefix) => format!("`{prefix}:*`"),
            Token::Variable("", local) => format!("`${local}`"),
            Token::Variable(prefix, local) => format!("`${prefix}:{local}`"),
            Token::Sign(sign) => format!("`{}`", char::from(sign)),
            Token::DotDot => "`..`".into(),
            Token::ColonColon => "`::`".into(),
            Token::SlashSlash => "`//`".into(),
            Token::NotEqual => "`!=`".into(),
            Token::LessEqual => "`<=`".into(),
            Token::GreaterEqual => "`>=`".into(),
            Token::End => "the end".into(),
        }
    }
}
