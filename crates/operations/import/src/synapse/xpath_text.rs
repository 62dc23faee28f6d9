//! Rewrites the XPath of an artifact: names of Synapse become names of flows, and the rest is unchanged.
//!
//! Owns the reading of XPath 1.0 as far as names in it can be told apart. The caller replaces the names.

/// The result type of an expression, as far as its text shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum XPathType {
    /// Elements of one name.
    Elements,
    /// Any nodes.
    Nodes,
    /// Attributes, or pieces of text.
    Texts,
    /// A number that is computed.
    Number,
    /// A text, a boolean, or an unknown type.
    Other,
}

/// The meaning of names.
pub(super) trait NameResolver {
    /// The text for `$prefix:name`.
    fn variable(&mut self, prefix: &str, name: &str) -> Result<String, String>;
    /// The text for `get-property(scope, name)`.
    fn property(&mut self, scope: &str, name: &str) -> Result<String, String>;
    /// The prefix to write in place of a prefix.
    fn prefix(&mut self, prefix: &str) -> Result<String, String>;
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Token<'t> {
    Literal,
    Number,
    /// A name test: the prefix and the local name.
    Name(&'t str, &'t str),
    Any,
    NodeType(&'t str),
    Axis,
    Attribute,
    Dots(&'t str),
    Variable(&'t str, &'t str),
    Function(&'t str, &'t str),
    Operator,
    Slash,
    Open,
    Close,
    OpenBracket,
    CloseBracket,
    Comma,
}

/// A token with its place in the text.
type PlacedToken<'t> = (Token<'t>, usize, usize);

/// Functions of XPath 1.0.
const CORE: [&str; 27] = [
    "last",
    "position",
    "count",
    "id",
    "local-name",
    "namespace-uri",
    "name",
    "string",
    "concat",
    "starts-with",
    "contains",
    "substring-before",
    "substring-after",
    "substring",
    "string-length",
    "normalize-space",
    "translate",
    "boolean",
    "not",
    "true",
    "false",
    "lang",
    "number",
    "sum",
    "floor",
    "ceiling",
    "round",
];

/// Rewrites an expression. The error names the part without a counterpart, and its place in the text.
#[allow(clippy::wildcard_enum_match_arm, reason = "most tokens are copied as they are")]
pub(super) fn rewrite(
    text: &str,
    meaning: &mut dyn NameResolver,
) -> Result<(String, XPathType), String> {
    let tokens = tokens(text)?;
    let mut out = String::new();
    let (mut last, mut at, mut brackets) = (0, 0, 0_usize);
    let mut before: Option<Token<'_>> = None;
    while let Some(&(token, start, end)) = tokens.get(at) {
        out.push_str(text.get(last..start).unwrap_or_default());
        let placed = |what: String| format!("{what} (character {} of `{text}`)", start + 1);
        if brackets == 0 && begins_step(before, token) {
            relative(token, &mut out).map_err(placed)?;
        }
        if begins_path(before, token) {
            out.push_str("$infoset");
            let goes_on = tokens.get(at + 1).is_some_and(|next| begins_step(None, next.0));
            if !goes_on {
                // The slash is the whole path.
                (last, before, at) = (end, Some(token), at + 1);
                continue;
            }
        }
        let mut until = end;
        match token {
            Token::Variable(prefix, name) => {
                out.push_str(&meaning.variable(prefix, name).map_err(placed)?);
            }
            Token::Function(_, "get-property") => {
                let (scope, name, close) = arguments(&tokens, at, text).map_err(placed)?;
                out.push_str(&meaning.property(scope, name).map_err(placed)?);
                at = close;
                until = tokens.get(close).map_or(end, |(_, _, end)| *end);
            }
            Token::Function(_, name) if CORE.contains(&name) => out.push_str(name),
            Token::Function(prefix, name) => {
                let colon = if prefix.is_empty() { "" } else { ":" };
                return Err(placed(format!(
                    "the function `{prefix}{colon}{name}` has no counterpart"
                )));
            }
            Token::Name(prefix, local) if !prefix.is_empty() => {
                out.push_str(&meaning.prefix(prefix).map_err(placed)?);
                out.push(':');
                out.push_str(local);
            }
            Token::Dots(_) if brackets == 0 && begins_step(before, token) => {}
            _ => out.push_str(text.get(start..end).unwrap_or_default()),
        }
        match token {
            Token::OpenBracket => brackets += 1,
            Token::CloseBracket => brackets = brackets.saturating_sub(1),
            // Harmless: no other token is a bracket.
            _ => {}
        }
        before = Some(match token {
            Token::Function(_, "get-property") => Token::Close,
            token => token,
        });
        last = until;
        at += 1;
    }
    out.push_str(text.get(last..).unwrap_or_default());
    Ok((out.trim().to_owned(), gives(text, &tokens)))
}

/// Returns true if a token begins a path that is relative to the place of the expression.
fn begins_step(before: Option<Token<'_>>, token: Token<'_>) -> bool {
    let is_step = matches!(
        token,
        Token::Name(..)
            | Token::Any
            | Token::NodeType(_)
            | Token::Axis
            | Token::Attribute
            | Token::Dots(_)
    );
    is_step
        && matches!(
            before,
            None | Some(Token::Operator | Token::Open | Token::Comma | Token::Function(..))
        )
}

/// Returns true if a token begins a path from the document.
fn begins_path(before: Option<Token<'_>>, token: Token<'_>) -> bool {
    token == Token::Slash
        && matches!(
            before,
            None | Some(
                Token::Operator
                    | Token::Open
                    | Token::OpenBracket
                    | Token::Comma
                    | Token::Function(..)
            )
        )
}

/// Begins a relative path at the root element: Synapse evaluates expressions at the envelope, and flows at the document.
#[allow(clippy::wildcard_enum_match_arm, reason = "all other steps are below the root element")]
fn relative(token: Token<'_>, out: &mut String) -> Result<(), String> {
    match token {
        Token::Dots(".") => out.push_str("$infoset/*"),
        Token::Dots(_) => return Err("`..` leads above the envelope".to_owned()),
        _ => out.push_str("$infoset/*/"),
    }
    Ok(())
}

/// The scope and the name in a `get-property`, and the index of its closing parenthesis. The default scope is the message's own.
fn arguments<'t>(
    tokens: &[PlacedToken<'t>],
    at: usize,
    text: &'t str,
) -> Result<(&'t str, &'t str, usize), String> {
    let literal = |at: usize| match tokens.get(at) {
        Some(&(Token::Literal, start, end)) => text.get(start + 1..end - 1),
        _ => None,
    };
    let is = |at: usize, token: Token<'_>| tokens.get(at).is_some_and(|found| found.0 == token);
    match (literal(at + 2), literal(at + 4)) {
        (Some(name), _) if is(at + 3, Token::Close) => Ok(("default", name, at + 3)),
        (Some(scope), Some(name)) if is(at + 3, Token::Comma) && is(at + 5, Token::Close) => {
            Ok((scope, name, at + 5))
        }
        _ => Err("`get-property` of a name that is computed has no counterpart".to_owned()),
    }
}

/// True for an expression whose value is a number: a number as written, a function that gives one, or a computation.
fn is_number(text: &str, tokens: &[PlacedToken<'_>]) -> bool {
    const FUNCTIONS: [&str; 7] =
        ["count", "sum", "string-length", "number", "floor", "ceiling", "round"];
    let (mut depth, mut computes) = (0_usize, false);
    for &(token, from, to) in tokens {
        if matches!(token, Token::Open | Token::OpenBracket) {
            depth += 1;
        } else if matches!(token, Token::Close | Token::CloseBracket) {
            depth = depth.saturating_sub(1);
        } else if token == Token::Operator && depth == 0 {
            match text.get(from..to) {
                Some("+" | "-" | "*" | "div" | "mod") => computes = true,
                _ => return false,
            }
        }
    }
    let is_alone = tokens.len() == 1;
    computes
        || match tokens.first() {
            Some((Token::Number, ..)) => is_alone,
            Some((Token::Function("", name), ..)) => FUNCTIONS.contains(name),
            _ => false,
        }
}

/// The result type of an expression, by its last step.
fn gives(text: &str, tokens: &[PlacedToken<'_>]) -> XPathType {
    if is_number(text, tokens) {
        return XPathType::Number;
    }
    let (mut depth, mut found, mut attribute) = (0_usize, XPathType::Other, false);
    for (token, _, _) in tokens {
        match token {
            Token::OpenBracket => depth += 1,
            Token::CloseBracket => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            Token::Operator | Token::Function(..) | Token::Open => return XPathType::Other,
            Token::Attribute => attribute = true,
            Token::Name(..) if attribute => found = XPathType::Texts,
            Token::Name(..) => found = XPathType::Elements,
            Token::Any | Token::Dots(_) => found = XPathType::Nodes,
            Token::NodeType("node") => found = XPathType::Nodes,
            Token::NodeType("text") => found = XPathType::Texts,
            Token::NodeType(_) => found = XPathType::Other,
            Token::Variable("", "body" | "header" | "env") => found = XPathType::Nodes,
            Token::Variable(..) => found = XPathType::Other,
            Token::Slash => attribute = false,
            Token::Literal | Token::Number | Token::Axis | Token::Close | Token::Comma => {}
        }
    }
    found
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.')
}

fn name_at(text: &str, at: usize) -> &str {
    let rest = text.get(at..).unwrap_or_default();
    if !rest.starts_with(|c: char| c.is_alphabetic() || c == '_') {
        return "";
    }
    rest.get(..rest.find(|c| !is_name(c)).unwrap_or(rest.len())).unwrap_or_default()
}

fn tokens(text: &str) -> Result<Vec<PlacedToken<'_>>, String> {
    let mut tokens: Vec<PlacedToken<'_>> = Vec::new();
    let mut at = 0;
    while let Some(c) = text.get(at..).and_then(|rest| rest.chars().next()) {
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let before = tokens.last().map(|(token, _, _)| *token);
        let (token, end) = token(text, at, c, before)
            .ok_or_else(|| format!("`{text}` is not an XPath at character {}", at + 1))?;
        tokens.push((token, at, end));
        at = end;
    }
    Ok(tokens)
}

fn token<'t>(
    text: &'t str,
    at: usize,
    c: char,
    before: Option<Token<'t>>,
) -> Option<(Token<'t>, usize)> {
    let rest = text.get(at..)?;
    let one = |token| Some((token, at + 1));
    match c {
        '\'' | '"' => {
            let len = rest.get(1..)?.find(c)?;
            Some((Token::Literal, at + len + 2))
        }
        '(' => one(Token::Open),
        ')' => one(Token::Close),
        '[' => one(Token::OpenBracket),
        ']' => one(Token::CloseBracket),
        ',' => one(Token::Comma),
        '@' => one(Token::Attribute),
        '/' if rest.starts_with("//") => Some((Token::Slash, at + 2)),
        '/' => one(Token::Slash),
        '.' if rest.starts_with("..") => Some((Token::Dots(".."), at + 2)),
        '.' | '0'..='9'
            if rest.get(usize::from(c == '.')..)?.starts_with(|c: char| c.is_ascii_digit()) =>
        {
            let len = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            Some((Token::Number, at + len))
        }
        '.' => one(Token::Dots(".")),
        '$' => {
            let first = name_at(text, at + 1);
            let end = at + 1 + first.len();
            let second =
                if text.get(end..)?.starts_with(':') { name_at(text, end + 1) } else { "" };
            match (first.is_empty(), second.is_empty()) {
                (true, _) => None,
                (false, true) => Some((Token::Variable("", first), end)),
                (false, false) => Some((Token::Variable(first, second), end + 1 + second.len())),
            }
        }
        '*' if is_operand(before) => one(Token::Operator),
        '*' => one(Token::Any),
        '|' | '+' | '-' | '=' => one(Token::Operator),
        '!' if rest.starts_with("!=") => Some((Token::Operator, at + 2)),
        '<' | '>' => {
            let equals = usize::from(rest.get(1..)?.starts_with('='));
            Some((Token::Operator, at + 1 + equals))
        }
        _ => named(text, at, before),
    }
}

/// Returns true if a token ends an operand, after which `*` and `and` are operators.
fn is_operand(before: Option<Token<'_>>) -> bool {
    match before {
        None => false,
        Some(token) => !matches!(
            token,
            Token::Operator
                | Token::Slash
                | Token::Open
                | Token::OpenBracket
                | Token::Comma
                | Token::Attribute
                | Token::Axis
                | Token::Function(..)
        ),
    }
}

/// A name: of an operator, an axis, a function, a type of node, an element or an attribute.
fn named<'t>(text: &'t str, at: usize, before: Option<Token<'t>>) -> Option<(Token<'t>, usize)> {
    let first = name_at(text, at);
    if first.is_empty() {
        return None;
    }
    let end = at + first.len();
    if is_operand(before) && matches!(first, "and" | "or" | "div" | "mod") {
        return Some((Token::Operator, end));
    }
    let rest = text.get(end..)?;
    if rest.trim_start().starts_with("::") {
        return Some((Token::Axis, end + rest.find("::")? + 2));
    }
    let (prefix, local, end) = match rest.strip_prefix(':') {
        Some(behind) if behind.starts_with('*') => (first, "*", end + 2),
        Some(_) => {
            let local = name_at(text, end + 1);
            (first, local, end + 1 + local.len())
        }
        None => ("", first, end),
    };
    if local.is_empty() {
        return None;
    }
    let calls = text.get(end..)?.trim_start().starts_with('(');
    let is_type = matches!(local, "node" | "text" | "comment" | "processing-instruction");
    Some(match (calls, is_type && prefix.is_empty()) {
        (false, _) => (Token::Name(prefix, local), end),
        (true, false) => (Token::Function(prefix, local), end),
        (true, true) => {
            // The parentheses are part of the test.
            let close = text.get(end..)?.find(')')?;
            (Token::NodeType(local), end + close + 1)
        }
    })
}
