//! Parser for location paths: steps, node tests, predicates.
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "each place accepts a few tokens, and all others are the same error"
)]

use super::lexer::Token;
use super::parser::{Parser, is_node_type};
use super::{Axis, Predicate, Step, Test, optimise};
use crate::{Error, ErrorKind, NameTest};

impl Parser<'_> {
    /// Parses steps joined by `/` and `//`.
    pub(super) fn relative(&mut self) -> Result<Vec<Step>, Error> {
        let mut steps = vec![self.step()?];
        loop {
            match self.token {
                Token::Sign(b'/') => self.advance()?,
                Token::SlashSlash => {
                    self.advance()?;
                    steps.push(optimise::anywhere());
                }
                _ => return Ok(steps),
            }
            steps.push(self.step()?);
        }
    }

    fn step(&mut self) -> Result<Step, Error> {
        match self.token {
            Token::Sign(b'.') => {
                self.advance()?;
                return Ok(optimise::step(Axis::SelfNode, Test::Node, Vec::new()));
            }
            Token::DotDot => {
                self.advance()?;
                return Ok(optimise::step(Axis::Parent, Test::Node, Vec::new()));
            }
            // Harmless: a step that begins with any other token has an axis or a node test.
            _ => {}
        }
        let axis = self.axis()?;
        let test = self.test()?;
        let predicates = self.predicates()?;
        Ok(optimise::step(axis, test, predicates))
    }

    /// Parses `axis::`, `@`, or nothing, which means the child axis.
    pub(super) fn axis(&mut self) -> Result<Axis, Error> {
        if self.token == Token::Sign(b'@') {
            self.advance()?;
            return Ok(Axis::Attribute);
        }
        let Token::Name(prefix, local) = self.token else { return Ok(Axis::Child) };
        if self.peek()? != Token::ColonColon {
            return Ok(Axis::Child);
        }
        let axis = Axis::of(local).filter(|_| prefix.is_empty());
        let axis = axis.ok_or_else(|| {
            ErrorKind::syntax(format!("there is no axis `{local}`")).at(self.offset)
        })?;
        self.advance()?;
        self.advance()?;
        Ok(axis)
    }

    /// Parses a node test.
    pub(super) fn test(&mut self) -> Result<Test, Error> {
        let offset = self.offset;
        match self.token {
            Token::Sign(b'*') => self.advance().map(|()| Test::Name(NameTest::Any)),
            Token::PrefixAny(prefix) => {
                let test = self.namespace_test(prefix)?;
                self.advance()?;
                Ok(Test::Name(test))
            }
            Token::Name(prefix, local) => {
                if is_node_type(prefix, local) && self.peek()? == Token::Sign(b'(') {
                    return self.kind_test(local);
                }
                let name = self.name(prefix, local, offset)?;
                self.advance()?;
                match self.token {
                    Token::Sign(b'(') => {
                        Err(ErrorKind::syntax("a function cannot be a step").at(offset))
                    }
                    _ => Ok(Test::Name(NameTest::Name(name))),
                }
            }
            _ => Err(self.unexpected("a step")),
        }
    }

    fn kind_test(&mut self, kind: &str) -> Result<Test, Error> {
        self.advance()?;
        self.expect(b'(')?;
        let test = match (kind, self.token) {
            ("processing-instruction", Token::Literal(target)) => {
                self.advance()?;
                Test::Instruction(Some(target.into()))
            }
            ("processing-instruction", _) => Test::Instruction(None),
            ("comment", _) => Test::Comment,
            ("text", _) => Test::Text,
            (_, _) => Test::Node,
        };
        self.expect(b')')?;
        Ok(test)
    }

    /// Parses any number of predicates.
    pub(super) fn predicates(&mut self) -> Result<Vec<Predicate>, Error> {
        let mut predicates = Vec::new();
        while self.token == Token::Sign(b'[') {
            self.advance()?;
            let op = self.expr()?;
            self.expect(b']')?;
            predicates.push(optimise::predicate(op));
        }
        Ok(predicates)
    }
}
