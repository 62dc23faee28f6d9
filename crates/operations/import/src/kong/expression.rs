//! Expressions of Kong's router, as alternatives of conditions.
//!
//! Owns the grammar (fields, operators, `&&`, `||` and parentheses) and the conversion to a list of alternatives. [`super::criteria`]
//! converts the conditions.

/// A comparison of a field with a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    /// Such as `http.path` or `http.headers.x_tier`.
    pub(super) field: String,
    pub(super) operator: &'static str,
    pub(super) value: String,
}

/// Comparisons that all have to hold.
pub(super) type Alternative = Vec<Comparison>;

/// The limit of alternatives, each of which becomes a route.
const ALTERNATIVES_MAX: usize = 256;

/// The limit of nested parentheses.
const DEPTH_MAX: usize = 64;

/// The operators. A longer operator stands before its beginning.
const OPERATORS: [&str; 12] =
    ["not in", "contains", "==", "!=", "^=", "=^", ">=", "<=", "~", ">", "<", "in"];

/// Parses an expression. The error names the part that cannot be parsed.
pub(super) fn read(text: &str) -> Result<Vec<Alternative>, String> {
    let mut reader = Reader { rest: text, depth: 0 };
    let alternatives = reader.any()?;
    match reader.rest.trim_start() {
        "" => Ok(alternatives),
        rest => Err(format!("`{}` is not expected", shown(rest))),
    }
}

struct Reader<'t> {
    rest: &'t str,
    depth: usize,
}

impl<'t> Reader<'t> {
    fn eat(&mut self, token: &str) -> bool {
        let rest = self.rest.trim_start().strip_prefix(token);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn any(&mut self) -> Result<Vec<Alternative>, String> {
        let mut all = self.every()?;
        while self.eat("||") {
            all.extend(self.every()?);
            bounded(all.len())?;
        }
        Ok(all)
    }

    fn every(&mut self) -> Result<Vec<Alternative>, String> {
        let mut all = self.one()?;
        while self.eat("&&") {
            let more = self.one()?;
            bounded(all.len().saturating_mul(more.len()))?;
            let with = |one: &Alternative| {
                more.iter().map(|other| [one.as_slice(), other].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        Ok(all)
    }

    fn one(&mut self) -> Result<Vec<Alternative>, String> {
        if self.rest.trim_start().starts_with('!') {
            return Err("Tidegate has no negation".to_owned());
        }
        if !self.eat("(") {
            return Ok(vec![vec![self.comparison()?]]);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("it is nested too deep".to_owned());
        }
        let inner = self.any()?;
        self.depth -= 1;
        if self.eat(")") { Ok(inner) } else { Err("a `(` without its `)`".to_owned()) }
    }

    fn comparison(&mut self) -> Result<Comparison, String> {
        let function = ["any", "lower"].into_iter().find(|name| {
            let rest = self.rest.trim_start().strip_prefix(name);
            rest.is_some_and(|rest| rest.trim_start().starts_with('('))
        });
        if let Some(function) = function {
            self.eat(function);
            self.eat("(");
        }
        let text = self.rest.trim_start();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.' || c == '-';
        let end = text.find(|c: char| !is_name(c)).unwrap_or(text.len());
        let (field, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        if field.is_empty() {
            return Err(format!("`{}` is not a field", shown(text)));
        }
        self.rest = rest;
        if function.is_some() && !self.eat(")") {
            return Err("a `(` without its `)`".to_owned());
        }
        if function == Some("lower") {
            return Err(format!("Tidegate has no `lower({field})`"));
        }
        let operator = OPERATORS.into_iter().find(|operator| self.eat(operator));
        let operator = operator.ok_or_else(|| format!("`{field}` is compared with nothing"))?;
        let (field, value) = (field.to_owned(), self.value()?);
        Ok(Comparison { field, operator, value })
    }

    fn value(&mut self) -> Result<String, String> {
        let text = self.rest.trim_start();
        if let Some(raw) = text.strip_prefix("r#\"") {
            let (value, rest) = raw.split_once("\"#").ok_or("a text without its end")?;
            self.rest = rest;
            return Ok(value.to_owned());
        }
        if let Some(quoted) = text.strip_prefix('"') {
            return self.quoted(quoted);
        }
        let end =
            text.find(|c: char| c.is_whitespace() || "()&|".contains(c)).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end).unwrap_or((text, ""));
        self.rest = rest;
        if value.is_empty() {
            Err("a comparison without a value".to_owned())
        } else {
            Ok(value.to_owned())
        }
    }

    /// Parses a text after its opening quotation mark.
    fn quoted(&mut self, text: &'t str) -> Result<String, String> {
        let mut value = String::new();
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = text.get(at + 1..).unwrap_or_default();
                    return Ok(value);
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => value.push('\n'),
                    Some((_, 'r')) => value.push('\r'),
                    Some((_, 't')) => value.push('\t'),
                    Some((_, c @ ('"' | '\\'))) => value.push(c),
                    _ => return Err("an unknown escape in a text".to_owned()),
                },
                c => value.push(c),
            }
        }
        Err("a text without its end".to_owned())
    }
}

fn bounded(alternatives: usize) -> Result<(), String> {
    if alternatives > ALTERNATIVES_MAX {
        Err(format!("it has more than {ALTERNATIVES_MAX} alternatives"))
    } else {
        Ok(())
    }
}

fn shown(text: &str) -> String {
    // Harmless: the beginning shows which part it is.
    text.chars().take(24).collect()
}

#[cfg(test)]
mod tests {
    use super::read;

    fn words(text: &str) -> String {
        match read(text) {
            Err(why) => why,
            Ok(alternatives) => {
                let one = |list: &Vec<super::Comparison>| {
                    let all =
                        list.iter().map(|c| format!("{} {} {}", c.field, c.operator, c.value));
                    all.collect::<Vec<_>>().join(", ")
                };
                alternatives.iter().map(one).collect::<Vec<_>>().join(" | ")
            }
        }
    }

    #[test]
    fn alternatives_are_multiplied_out() {
        for (text, expected) in [
            (r#"http.path ^= "/a""#, "http.path ^= /a"),
            (
                r##"(http.path == "/a" || http.path ~ r#"^/b\d"#) && http.method == "GET""##,
                r"http.path == /a, http.method == GET | http.path ~ ^/b\d, http.method == GET",
            ),
            (
                r#"any(http.headers.x_a) == "1\"2" && net.src.ip in 10.0.0.0/8"#,
                "http.headers.x_a == 1\"2, net.src.ip in 10.0.0.0/8",
            ),
            (r#"!(http.path == "/a")"#, "Tidegate has no negation"),
            (r#"lower(http.path) == "/a""#, "Tidegate has no `lower(http.path)`"),
            (r#"(http.path == "/a""#, "a `(` without its `)`"),
            (r#"http.path == "/a" http"#, "`http` is not expected"),
            (r#"http.path == "/a"#, "a text without its end"),
            ("http.path", "`http.path` is compared with nothing"),
            ("", "`` is not a field"),
            (r#"http.path == "\x""#, "an unknown escape in a text"),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        let many = [r#"(a == 1 || a == 2)"#; 9].join(" && ");
        assert_eq!(words(&many), "it has more than 256 alternatives");
        assert_eq!(words(&"(".repeat(10_000)), "it is nested too deep");
    }
}
