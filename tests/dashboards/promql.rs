//! A parser for the part of PromQL's grammar that distinguishes names of metrics and labels from other words.

/// The names in an expression.
#[derive(Default)]
pub(crate) struct Reading {
    pub(crate) selectors: Vec<Selector>,
    /// Labels of `by`, `without`, `on` and their like.
    pub(crate) grouped: Vec<String>,
    /// The dashboard's variables, without the dollar sign.
    pub(crate) variables: Vec<String>,
}

pub(crate) struct Selector {
    pub(crate) name: String,
    pub(crate) labels: Vec<Label>,
}

pub(crate) struct Label {
    pub(crate) name: String,
    pub(crate) operator: Operator,
    pub(crate) value: String,
}

#[derive(Debug, PartialEq, Clone, Copy)]
pub(crate) enum Operator {
    Equal,
    Other,
}

#[derive(Debug, PartialEq)]
enum Token {
    Word(String),
    Text(String),
    Symbol(&'static str),
    /// Numbers and durations.
    Amount,
    Variable(String),
}

const SYMBOLS: [&str; 23] = [
    "=~", "!~", "!=", "==", ">=", "<=", "(", ")", "{", "}", "[", "]", ",", "=", ">", "<", "+", "-",
    "*", "/", "%", "^", ":",
];
const FUNCTIONS: &[&str] = &[
    "sum",
    "min",
    "max",
    "avg",
    "count",
    "topk",
    "bottomk",
    "quantile",
    "stddev",
    "rate",
    "irate",
    "increase",
    "delta",
    "deriv",
    "histogram_quantile",
    "clamp_min",
    "clamp_max",
    "avg_over_time",
    "max_over_time",
    "min_over_time",
    "absent",
    "time",
    "vector",
    "scalar",
    "label_replace",
];
const GROUPING: &[&str] = &["by", "without", "on", "ignoring", "group_left", "group_right"];
const OPERATORS: &[&str] = &["and", "or", "unless", "bool", "offset", "atan2"];

/// Reads the names in an expression; the error is its fault.
pub(crate) fn read(expression: &str) -> Result<Reading, String> {
    let tokens = tokens(expression)?;
    balanced(&tokens)?;
    let mut reading = Reading::default();
    for token in &tokens {
        match token {
            Token::Variable(name) => reading.variables.push(name.clone()),
            Token::Text(text) => reading.variables.extend(variables(text)),
            Token::Word(_) | Token::Symbol(_) | Token::Amount => {}
        }
    }
    let mut rest = &tokens[..];
    while let [token, after @ ..] = rest {
        rest = after;
        let Token::Word(word) = token else { continue };
        let called = matches!(after.first(), Some(Token::Symbol("(")));
        let grouped = matches!(after, [Token::Word(next), ..] if GROUPING.contains(&next.as_str()));
        if GROUPING.contains(&word.as_str()) {
            let (names, after) = list(after)?;
            reading.grouped.extend(names);
            rest = after;
        } else if OPERATORS.contains(&word.as_str()) {
        } else if called || grouped && FUNCTIONS.contains(&word.as_str()) {
            if !FUNCTIONS.contains(&word.as_str()) {
                return Err(format!("there is no function {word}"));
            }
        } else {
            let (labels, after) = labels(after)?;
            reading.selectors.push(Selector { name: word.clone(), labels });
            rest = after;
        }
    }
    Ok(reading)
}

/// The names in brackets.
fn list(tokens: &[Token]) -> Result<(Vec<String>, &[Token]), String> {
    let [Token::Symbol("("), rest @ ..] = tokens else { return Ok((Vec::new(), tokens)) };
    let end = rest.iter().position(|token| *token == Token::Symbol(")")).ok_or("not closed")?;
    let names = rest[..end].iter().filter_map(|token| match token {
        Token::Word(name) => Some(name.clone()),
        Token::Text(_) | Token::Symbol(_) | Token::Amount | Token::Variable(_) => None,
    });
    Ok((names.collect(), &rest[end + 1..]))
}

/// The matchers in braces.
fn labels(tokens: &[Token]) -> Result<(Vec<Label>, &[Token]), String> {
    let [Token::Symbol("{"), rest @ ..] = tokens else { return Ok((Vec::new(), tokens)) };
    let (mut rest, mut labels) = (rest, Vec::new());
    loop {
        rest = match rest {
            [Token::Symbol("}"), rest @ ..] => return Ok((labels, rest)),
            [Token::Symbol(","), rest @ ..] => rest,
            [Token::Word(name), Token::Symbol(operator), Token::Text(value), rest @ ..] => {
                let operator = match *operator {
                    "=" => Operator::Equal,
                    "!=" | "=~" | "!~" => Operator::Other,
                    _ => return Err(format!("{operator} compares no label")),
                };
                labels.push(Label { name: name.clone(), operator, value: value.clone() });
                rest
            }
            _ => return Err("matchers that are none".to_owned()),
        };
    }
}

fn balanced(tokens: &[Token]) -> Result<(), String> {
    let mut open = Vec::new();
    for token in tokens {
        let Token::Symbol(symbol) = token else { continue };
        match *symbol {
            "(" => open.push(")"),
            "[" => open.push("]"),
            "{" => open.push("}"),
            ")" | "]" | "}" if open.pop() != Some(*symbol) => {
                return Err(format!("{symbol} is not opened"));
            }
            _ => {}
        }
    }
    open.pop().map_or(Ok(()), |symbol| Err(format!("not closed: {symbol}")))
}

fn tokens(expression: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let word =
            |of: &str| of.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == ':'));
        let (token, end) = match first {
            'a'..='z' | 'A'..='Z' | '_' => {
                let end = word(rest).unwrap_or(rest.len());
                (Token::Word(rest[..end].to_owned()), end)
            }
            '$' => {
                let end = word(&rest[1..]).map_or(rest.len(), |end| end + 1);
                (Token::Variable(rest[1..end].to_owned()), end)
            }
            '0'..='9' | '.' => {
                let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '.'));
                (Token::Amount, end.unwrap_or(rest.len()))
            }
            '"' => {
                // An escaped backslash or quote is as long as two other characters.
                let plain = rest[1..].replace("\\\\", "..").replace("\\\"", "..");
                let end = plain.find('"').ok_or("a text that is not closed")? + 1;
                (Token::Text(rest[1..end].to_owned()), end + 1)
            }
            _ => {
                let symbol = SYMBOLS.into_iter().find(|symbol| rest.starts_with(symbol));
                let symbol = symbol.ok_or_else(|| format!("no PromQL from {rest:?}"))?;
                (Token::Symbol(symbol), symbol.len())
            }
        };
        tokens.push(token);
        rest = rest[end..].trim_start();
    }
    Ok(tokens)
}

/// Variables in a text, such as `$route` and `${route}`.
fn variables(text: &str) -> Vec<String> {
    let names = text.split('$').skip(1).map(|rest| rest.trim_start_matches('{'));
    let name = |rest: &str| {
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>()
    };
    names.map(name).filter(|name| !name.is_empty()).collect()
}
