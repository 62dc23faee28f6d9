//! Recursive-descent parser for expressions (XPath 1.0, section 3).
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "each place accepts a few tokens, and all others are the same error"
)]

use std::sync::Arc;

use super::functions::{self, Type};
use super::lexer::{Lexer, Token};
use super::{Arithmetic, Comparison, Core, DEPTH_MAX, Op, Start, TEXT_BYTES_MAX, optimise};
use crate::regex::Regex;
use crate::{Error, ErrorKind, Lookup, Name, NameTest, Options, Statics, Unknown};

/// Maximum number of comparisons chained without parentheses. They nest, and chains of more than two are hardly useful.
const COMPARISONS_CHAINED_MAX: u32 = 4;

/// The state of the parser.
pub(super) struct Parser<'a> {
    lexer: Lexer<'a>,
    pub(super) token: Token<'a>,
    pub(super) offset: u32,
    pub(super) statics: &'a dyn Statics,
    pub(super) options: Options,
    depth: u32,
}

/// Compiles a text as an expression.
pub(crate) fn compile_expr(text: &str, statics: &dyn Statics) -> Result<Op, Error> {
    let mut parser = Parser::new(text, statics)?;
    let op = parser.expr()?;
    parser.end()?;
    Ok(op)
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, statics: &'a dyn Statics) -> Result<Parser<'a>, Error> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(
                ErrorKind::Limit { name: "expression_bytes", max: TEXT_BYTES_MAX as u64 }.at(0)
            );
        }
        let mut lexer = Lexer::new(text, statics.options().xpath2);
        let (token, offset) = lexer.next()?;
        Ok(Parser { lexer, token, offset, statics, options: statics.options(), depth: 0 })
    }

    /// Parses an expression. All nesting goes through this function.
    pub(super) fn expr(&mut self) -> Result<Op, Error> {
        if self.depth >= DEPTH_MAX {
            let kind = ErrorKind::Limit { name: "expression_depth", max: u64::from(DEPTH_MAX) };
            return Err(kind.at(self.offset));
        }
        self.depth += 1;
        let op = if self.options.xpath2 && self.is_name("if") && self.peek()? == Token::Sign(b'(') {
            self.condition()
        } else {
            self.or()
        };
        self.depth -= 1;
        op
    }

    fn condition(&mut self) -> Result<Op, Error> {
        self.advance()?;
        self.expect(b'(')?;
        let test = self.expr()?;
        self.expect(b')')?;
        self.keyword("then")?;
        let then = self.expr()?;
        self.keyword("else")?;
        let other = self.expr()?;
        Ok(Op::If(Box::new([test, then, other])))
    }

    fn or(&mut self) -> Result<Op, Error> {
        let first = self.and()?;
        self.chain(first, "or", Parser::and, Op::Any)
    }

    fn and(&mut self) -> Result<Op, Error> {
        let first = self.equality()?;
        self.chain(first, "and", Parser::equality, Op::All)
    }

    fn chain(
        &mut self,
        first: Op,
        word: &str,
        next: impl Fn(&mut Self) -> Result<Op, Error>,
        join: impl FnOnce(Box<[Op]>) -> Op,
    ) -> Result<Op, Error> {
        if !self.is_name(word) {
            return Ok(first);
        }
        let mut all = vec![first];
        while self.is_name(word) {
            self.advance()?;
            all.push(next(self)?);
        }
        Ok(join(all.into()))
    }

    fn equality(&mut self) -> Result<Op, Error> {
        let mut left = self.relational()?;
        let mut links = 0;
        loop {
            let comparison = match self.token {
                Token::Sign(b'=') => Comparison::Equal,
                Token::NotEqual => Comparison::NotEqual,
                _ => return Ok(left),
            };
            links = self.link(links)?;
            left = Op::Compare(comparison, Box::new([left, self.relational()?]));
        }
    }

    fn relational(&mut self) -> Result<Op, Error> {
        let mut left = self.additive()?;
        let mut links = 0;
        loop {
            let comparison = match self.token {
                Token::Sign(b'<') => Comparison::Less,
                Token::LessEqual => Comparison::LessEqual,
                Token::Sign(b'>') => Comparison::Greater,
                Token::GreaterEqual => Comparison::GreaterEqual,
                _ => return Ok(left),
            };
            links = self.link(links)?;
            left = Op::Compare(comparison, Box::new([left, self.additive()?]));
        }
    }

    /// Skips a comparison operator. `a = b = c` nests to the left, one level deeper with each operator.
    fn link(&mut self, links: u32) -> Result<u32, Error> {
        if links >= COMPARISONS_CHAINED_MAX {
            let kind =
                ErrorKind::Limit { name: "comparisons", max: u64::from(COMPARISONS_CHAINED_MAX) };
            return Err(kind.at(self.offset));
        }
        self.advance()?;
        Ok(links + 1)
    }

    fn additive(&mut self) -> Result<Op, Error> {
        let first = self.multiplicative()?;
        let mut rest = Vec::new();
        loop {
            let arithmetic = match self.token {
                Token::Sign(b'+') => Arithmetic::Add,
                Token::Sign(b'-') => Arithmetic::Subtract,
                _ => break,
            };
            self.advance()?;
            rest.push((arithmetic, self.multiplicative()?));
        }
        Ok(calculation(first, rest))
    }

    fn multiplicative(&mut self) -> Result<Op, Error> {
        let first = self.unary()?;
        let mut rest = Vec::new();
        loop {
            let arithmetic = match self.token {
                Token::Sign(b'*') => Arithmetic::Multiply,
                Token::Name("", "div") => Arithmetic::Divide,
                Token::Name("", "mod") => Arithmetic::Modulo,
                _ => break,
            };
            self.advance()?;
            rest.push((arithmetic, self.unary()?));
        }
        Ok(calculation(first, rest))
    }

    fn unary(&mut self) -> Result<Op, Error> {
        let mut signs = 0_u32;
        while self.token == Token::Sign(b'-') {
            self.advance()?;
            signs += 1;
        }
        let op = self.union()?;
        Ok(match (signs, op) {
            (0, op) => op,
            (signs, Op::Number(value)) if signs % 2 == 1 => Op::Number(-value),
            (signs, op) if signs % 2 == 1 => Op::Negate(Box::new(op)),
            // An even number of minus signs still converts the operand to a number.
            (_, op) => Op::Negate(Box::new(Op::Negate(Box::new(op)))),
        })
    }

    fn union(&mut self) -> Result<Op, Error> {
        let offset = self.offset;
        let first = self.path()?;
        if self.token != Token::Sign(b'|') {
            return Ok(first);
        }
        let mut all = vec![self.must_be_nodes(first, offset)?];
        while self.token == Token::Sign(b'|') {
            self.advance()?;
            let offset = self.offset;
            let next = self.path()?;
            all.push(self.must_be_nodes(next, offset)?);
        }
        Ok(Op::Union(all.into(), offset))
    }

    fn path(&mut self) -> Result<Op, Error> {
        let offset = self.offset;
        match self.token {
            Token::Sign(b'/') => {
                self.advance()?;
                let steps = if self.starts_step() { self.relative()? } else { Vec::new() };
                Ok(optimise::path(Start::Root, steps, offset))
            }
            Token::SlashSlash => {
                self.advance()?;
                let mut steps = vec![optimise::anywhere()];
                steps.extend(self.relative()?);
                Ok(optimise::path(Start::Root, steps, offset))
            }
            Token::Variable(..) | Token::Literal(_) | Token::Number(_) | Token::Sign(b'(') => {
                self.path_from_value()
            }
            Token::Name(prefix, local)
                if !is_node_type(prefix, local) && self.peek()? == Token::Sign(b'(') =>
            {
                self.path_from_value()
            }
            _ if !self.starts_step() => Err(self.unexpected("an expression")),
            _ => {
                let steps = self.relative()?;
                Ok(optimise::path(Start::Focus, steps, offset))
            }
        }
    }

    /// Parses a path that starts with another expression, or only that expression.
    fn path_from_value(&mut self) -> Result<Op, Error> {
        let offset = self.offset;
        let mut op = self.primary()?;
        let mut predicates = Vec::new();
        if self.token == Token::Sign(b'[') {
            op = self.must_be_nodes(op, offset)?;
            predicates = self.predicates()?;
        }
        let steps = match self.token {
            Token::Sign(b'/') => {
                self.advance()?;
                self.relative()?
            }
            Token::SlashSlash => {
                self.advance()?;
                let mut steps = vec![optimise::anywhere()];
                steps.extend(self.relative()?);
                steps
            }
            _ if predicates.is_empty() => return Ok(op),
            _ => Vec::new(),
        };
        let op = self.must_be_nodes(op, offset)?;
        Ok(optimise::path(Start::Op(op, predicates.into()), steps, offset))
    }

    fn primary(&mut self) -> Result<Op, Error> {
        let offset = self.offset;
        match self.token {
            Token::Number(value) => self.advance().map(|()| Op::Number(value)),
            Token::Literal(text) => self.advance().map(|()| Op::Text(text.into())),
            Token::Sign(b'(') => {
                self.advance()?;
                let op = self.expr()?;
                self.expect(b')')?;
                Ok(op)
            }
            Token::Variable(prefix, local) => {
                let name = self.name(prefix, local, offset)?;
                self.advance()?;
                match self.statics.variable(&name) {
                    Some(number) => Ok(Op::Variable { number, offset }),
                    None => Err(ErrorKind::UnknownVariable(shown(prefix, local)).at(offset)),
                }
            }
            Token::Name(prefix, local) => self.call(prefix, local),
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn call(&mut self, prefix: &str, local: &str) -> Result<Op, Error> {
        let offset = self.offset;
        self.advance()?;
        let arguments = self.arguments()?;
        if prefix.is_empty() {
            if let Some(row) = functions::find(local, self.options.xpath2) {
                return core(row, arguments, offset);
            }
            if local == "current" && self.options.current && arguments.is_empty() {
                return Ok(Op::Current);
            }
        }
        let name = self.name(prefix, local, offset)?;
        let literals: Vec<Option<&str>> = arguments.iter().map(Op::literal).collect();
        match (self.statics.function(&name, &literals), self.options.unknown) {
            (Lookup::Found(number), _) => {
                Ok(Op::Host { number, arguments: arguments.into(), offset })
            }
            (Lookup::WrongArguments(why), _) => Err(ErrorKind::Host(why).at(offset)),
            (Lookup::Unknown, Unknown::FailAtCall) => {
                Ok(Op::Unknown { name: shown(prefix, local), offset })
            }
            (Lookup::Unknown, Unknown::Refuse) => {
                Err(ErrorKind::UnknownFunction(shown(prefix, local)).at(offset))
            }
        }
    }

    fn arguments(&mut self) -> Result<Vec<Op>, Error> {
        self.expect(b'(')?;
        let mut arguments = Vec::new();
        if self.token == Token::Sign(b')') {
            self.advance()?;
            return Ok(arguments);
        }
        loop {
            arguments.push(self.expr()?);
            match self.token {
                Token::Sign(b',') => self.advance()?,
                _ => {
                    self.expect(b')')?;
                    return Ok(arguments);
                }
            }
        }
    }

    /// Resolves a prefix. A name without a prefix is in no namespace, because XPath has no default namespace.
    pub(super) fn name(&self, prefix: &str, local: &str, offset: u32) -> Result<Name, Error> {
        Ok(Name { uri: self.uri(prefix, offset)?.into(), local: local.into() })
    }

    fn uri(&self, prefix: &str, offset: u32) -> Result<&'a str, Error> {
        match prefix {
            "" => Ok(""),
            "xml" => Ok(xml::XML_NAMESPACE),
            _ => self
                .statics
                .namespace(prefix)
                .ok_or_else(|| ErrorKind::UndeclaredPrefix(prefix.into()).at(offset)),
        }
    }

    /// Returns the name test of `p:*`.
    pub(super) fn namespace_test(&self, prefix: &str) -> Result<NameTest, Error> {
        Ok(NameTest::Namespace(self.uri(prefix, self.offset)?.into()))
    }

    fn must_be_nodes(&self, op: Op, offset: u32) -> Result<Op, Error> {
        match optimise::type_of(&op) {
            None | Some(Type::Nodes) => Ok(op),
            Some(Type::Boolean | Type::Number | Type::Text) => {
                Err(ErrorKind::Type("only a node-set can be asked for nodes".into()).at(offset))
            }
        }
    }

    pub(super) fn starts_step(&self) -> bool {
        matches!(
            self.token,
            Token::Name(..) | Token::PrefixAny(_) | Token::DotDot | Token::Sign(b'*' | b'@' | b'.')
        )
    }

    pub(super) fn is_name(&self, word: &str) -> bool {
        self.token == Token::Name("", word)
    }

    pub(super) fn peek(&self) -> Result<Token<'a>, Error> {
        Ok(self.lexer.clone().next()?.0)
    }

    pub(super) fn advance(&mut self) -> Result<(), Error> {
        (self.token, self.offset) = self.lexer.next()?;
        Ok(())
    }

    pub(super) fn expect(&mut self, sign: u8) -> Result<(), Error> {
        if self.token == Token::Sign(sign) {
            self.advance()
        } else {
            Err(self.unexpected(&format!("`{}`", char::from(sign))))
        }
    }

    fn keyword(&mut self, word: &str) -> Result<(), Error> {
        if self.is_name(word) { self.advance() } else { Err(self.unexpected(&format!("`{word}`"))) }
    }

    pub(super) fn end(&self) -> Result<(), Error> {
        match self.token {
            Token::End => Ok(()),
            _ => Err(self.unexpected("the end or an operator")),
        }
    }

    pub(super) fn unexpected(&self, wanted: &str) -> Error {
        ErrorKind::syntax(format!("expected {wanted}, found {}", self.token.shown()))
            .at(self.offset)
    }
}

/// Parses a call of a function of XPath itself.
fn core(row: &functions::Row, mut arguments: Vec<Op>, offset: u32) -> Result<Op, Error> {
    let given = arguments.len();
    if given < row.least || given > row.most {
        return Err(ErrorKind::Arity { function: row.name.into(), given }.at(offset));
    }
    if row.focus && given == 0 {
        arguments.push(optimise::path(Start::Focus, Vec::new(), offset));
    }
    let takes_nodes = matches!(
        row.function,
        Core::Count | Core::Sum | Core::LocalName | Core::NamespaceUri | Core::Name
    );
    let wrong = |op: &Op| !matches!(optimise::type_of(op), None | Some(Type::Nodes));
    if takes_nodes && arguments.iter().any(wrong) {
        return Err(ErrorKind::Type(format!("`{}()` takes a node-set", row.name).into()).at(offset));
    }
    if matches!(row.function, Core::Matches | Core::Replace | Core::Tokenize) {
        compile_literal(row.function, &mut arguments, offset)?;
    }
    Ok(match row.function {
        Core::True => Op::Boolean(true),
        Core::False => Op::Boolean(false),
        function => Op::Core { function, arguments: arguments.into(), offset },
    })
}

/// Compiles a regular expression in advance if it and its flags are literals.
fn compile_literal(function: Core, arguments: &mut [Op], offset: u32) -> Result<(), Error> {
    let flags = arguments.get(2 + usize::from(function == Core::Replace));
    let flags = flags.map_or(Some(""), Op::literal);
    let pattern = arguments.get(1).and_then(Op::literal);
    if let (Some(pattern), Some(flags)) = (pattern, flags) {
        let compiled = Regex::new(pattern, flags).map_err(|kind| kind.at(offset))?;
        if let Some(pattern) = arguments.get_mut(1) {
            *pattern = Op::Pattern(Arc::new(compiled));
        }
    }
    Ok(())
}

fn calculation(first: Op, rest: Vec<(Arithmetic, Op)>) -> Op {
    if rest.is_empty() { first } else { Op::Arithmetic(Box::new(first), rest.into()) }
}

pub(super) fn is_node_type(prefix: &str, local: &str) -> bool {
    prefix.is_empty() && matches!(local, "comment" | "text" | "processing-instruction" | "node")
}

fn shown(prefix: &str, local: &str) -> Box<str> {
    match prefix {
        "" => local.into(),
        _ => format!("{prefix}:{local}").into(),
    }
}
