//! Parser for patterns (XSLT 1.0, 5.2). Also determines the default priority and the shape of each alternative (5.5).
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "each match accepts a few tokens, and all others are the same error"
)]

use super::lexer::Token;
use super::parser::Parser;
use super::{Axis, PatternStart, PatternStep, Test, optimise};
use crate::{Alternative, Error, ErrorKind, Name, NameTest, Shape, Statics};

/// Compiles a pattern.
pub(crate) fn compile_pattern(
    text: &str,
    statics: &dyn Statics,
) -> Result<Box<[Alternative]>, Error> {
    let mut parser = Parser::new(text, statics)?;
    let mut alternatives = vec![parser.alternative()?];
    while parser.token == Token::Sign(b'|') {
        parser.advance()?;
        alternatives.push(parser.alternative()?);
    }
    parser.end()?;
    Ok(alternatives.into())
}

impl NameTest {
    /// Compiles `*`, `p:*`, `p:local` or `local`, as listed in `xsl:strip-space`.
    pub fn compile(text: &str, statics: &dyn Statics) -> Result<NameTest, Error> {
        let mut parser = Parser::new(text, statics)?;
        match parser.test()? {
            Test::Name(test) => parser.end().map(|()| test),
            Test::Node | Test::Text | Test::Comment | Test::Instruction(_) => {
                Err(ErrorKind::syntax("only a name test is allowed here").at(0))
            }
        }
    }
}

impl Parser<'_> {
    fn alternative(&mut self) -> Result<Alternative, Error> {
        let (start, joined) = self.pattern_start()?;
        let mut steps = Vec::new();
        if let Some(mut anywhere) = joined {
            loop {
                steps.push(self.pattern_step(anywhere)?);
                anywhere = match self.token {
                    Token::Sign(b'/') => false,
                    Token::SlashSlash => true,
                    _ => break,
                };
                self.advance()?;
            }
        }
        steps.reverse();
        Ok(described(start, steps))
    }

    /// Parses the start of a pattern. If steps follow, also returns whether the first one is joined by `//`.
    fn pattern_start(&mut self) -> Result<(PatternStart, Option<bool>), Error> {
        match self.token {
            Token::Sign(b'/') => {
                self.advance()?;
                Ok((PatternStart::Root, self.starts_step().then_some(false)))
            }
            Token::SlashSlash => {
                self.advance()?;
                Ok((PatternStart::Root, Some(true)))
            }
            Token::Name("", "id" | "key") if self.peek()? == Token::Sign(b'(') => {
                let start = self.pattern_call()?;
                let joined = match self.token {
                    Token::Sign(b'/') => Some(false),
                    Token::SlashSlash => Some(true),
                    _ => None,
                };
                if joined.is_some() {
                    self.advance()?;
                }
                Ok((start, joined))
            }
            _ => Ok((PatternStart::Anywhere, Some(false))),
        }
    }

    /// Parses `id('..')` or `key('..', '..')`.
    fn pattern_call(&mut self) -> Result<PatternStart, Error> {
        let is_id = self.is_name("id");
        self.advance()?;
        self.expect(b'(')?;
        let offset = self.offset;
        let first = self.pattern_literal()?;
        if is_id {
            self.expect(b')')?;
            return Ok(PatternStart::Id(first.into()));
        }
        let name = self.key_name(first, offset)?;
        self.expect(b',')?;
        let value = self.pattern_literal()?.into();
        self.expect(b')')?;
        match self.statics.key(&name) {
            Some(number) => Ok(PatternStart::Key { number, value }),
            None => Err(ErrorKind::Host(format!("there is no key `{first}`").into()).at(offset)),
        }
    }

    fn key_name(&self, text: &str, offset: u32) -> Result<Name, Error> {
        let (prefix, local) = text.trim().split_once(':').unwrap_or(("", text.trim()));
        self.name(prefix, local, offset)
    }

    fn pattern_step(&mut self, anywhere: bool) -> Result<PatternStep, Error> {
        let offset = self.offset;
        let axis = self.axis()?;
        if !matches!(axis, Axis::Child | Axis::Attribute) {
            return Err(
                ErrorKind::syntax("a pattern's steps are children and attributes").at(offset)
            );
        }
        let test = self.test()?;
        let predicates = self.predicates()?;
        Ok(PatternStep { step: optimise::step(axis, test, predicates), anywhere })
    }
}

impl<'a> Parser<'a> {
    fn pattern_literal(&mut self) -> Result<&'a str, Error> {
        match self.token {
            Token::Literal(text) => self.advance().map(|()| text),
            _ => Err(self.unexpected("a string")),
        }
    }
}

/// Creates an alternative, and determines its default priority and shape.
fn described(start: PatternStart, steps: Vec<PatternStep>) -> Alternative {
    let alone = matches!(start, PatternStart::Anywhere) && steps.len() == 1;
    let Some(last) = steps.first().map(|last| &last.step) else {
        let shape = match start {
            PatternStart::Root | PatternStart::Anywhere => Shape::Root,
            PatternStart::Id(_) | PatternStart::Key { .. } => Shape::Any,
        };
        let settled = shape == Shape::Root;
        return Alternative { priority: 0.5, shape, settled, start, steps: steps.into() };
    };
    let bare = alone && last.predicates.is_empty();
    let priority = match (&last.test, bare) {
        (_, false) => 0.5,
        (Test::Name(NameTest::Name(_)) | Test::Instruction(Some(_)), true) => 0.0,
        (Test::Name(NameTest::Namespace(_)), true) => -0.25,
        (_, true) => -0.5,
    };
    // No attribute passes such a test.
    let is_never = last.axis == Axis::Attribute
        && matches!(last.test, Test::Text | Test::Comment | Test::Instruction(_));
    Alternative {
        priority,
        shape: shape(last.axis, &last.test),
        settled: bare && !is_never,
        start,
        steps: steps.into(),
    }
}

fn shape(axis: Axis, test: &Test) -> Shape {
    match (axis, test) {
        (Axis::Attribute, Test::Name(test)) => Shape::Attribute(test.clone()),
        (Axis::Attribute, _) => Shape::Attribute(NameTest::Any),
        (_, Test::Name(test)) => Shape::Element(test.clone()),
        (_, Test::Node) => Shape::Child,
        (_, Test::Text) => Shape::Text,
        (_, Test::Comment) => Shape::Comment,
        (_, Test::Instruction(target)) => Shape::Instruction(target.clone()),
    }
}
