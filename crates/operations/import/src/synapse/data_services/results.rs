//! Results of data services: a program in jq that writes rows as XML.

use serde_json::Value as Json;

use crate::synapse::element::Element;

/// The difference that all results have.
pub(super) const DIFFERENCE: &str = "values are written as `sql` returns them: floating point without `.0`, dates without a zone, and a `tinyint(1)` of MySQL as a number unless its type is xs:boolean";

/// The functions that every program has, for texts, elements, attributes and columns.
const FUNCTIONS: &str = r#"def t: if type == "string" then . else tojson end | @html;
def e($n): if . == null then "<\($n) xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:nil=\"true\"/>" else "<\($n)>\(t)</\($n)>" end;
def b: if . == 0 then false elif . == 1 then true else . end;
def c($k): if has($k) then .[$k] else error("there is no column \($k)") end;
def n($k): to_entries | if length >= $k then .[$k - 1].value else error("there is no column \($k)") end;
def o($k; $n; f): if has($k) then (.[$k] | f | e($n)) else "" end;
def a($n): if . == null then "" else " \($n)=\"\(t)\"" end;
"#;

/// The program for the result of a query. `nested` are the results of its nested queries in order. If there are any, each input object
/// has the member `row` with the row, and the members `0`, `1` and so on with the rows of the nested queries.
pub(super) fn program(
    namespace: &str,
    result: &Element<'_>,
    nested: &[Element<'_>],
) -> Result<String, String> {
    let by_number = result.is("useColumnNumbers", "true");
    let mut writer = Writer { namespace, nested, by_number, calls: 0 };
    let body = writer.result(result, !nested.is_empty())?;
    Ok(format!("{FUNCTIONS}{body}"))
}

struct Writer<'w, 'a> {
    namespace: &'w str,
    nested: &'w [Element<'a>],
    /// Columns are numbers from 1, and not names.
    by_number: bool,
    /// The number of calls that were written.
    calls: usize,
}

impl Writer<'_, '_> {
    /// The expression of a whole result over its rows.
    fn result(&mut self, result: &Element<'_>, has_calls: bool) -> Result<String, String> {
        let element = named(
            result.attribute("element").ok_or("its `result` lacks the attribute `element`")?,
        )?;
        let namespace = result.attribute("defaultNamespace").unwrap_or(self.namespace);
        let start = quoted(&format!("<{element} xmlns=\"{}\">", escaped(namespace)));
        let end = quoted(&format!("</{element}>"));
        let row = self.row(result, has_calls)?;
        let lower = "with_entries(.key |= ascii_downcase)";
        // If there are calls, an earlier step has put the names of columns in lower case.
        let each = if has_calls { row } else { format!("{lower} | {row}") };
        Ok(format!("{start} + (map({each}) | join(\"\")) + {end}"))
    }

    fn row(&mut self, result: &Element<'_>, has_calls: bool) -> Result<String, String> {
        let (attributes, content) = self.content(result, has_calls)?;
        match result.attribute("rowName") {
            Some(name) => Ok(element(named(name)?, &attributes, &content)),
            None if attributes.is_empty() => Ok(content),
            None => {
                Err("attributes in a `result` without `rowName` have no counterpart".to_owned())
            }
        }
    }

    /// The expressions of the attributes and of the elements in a row or a group.
    fn content(&mut self, of: &Element<'_>, has_calls: bool) -> Result<(String, String), String> {
        let row = if has_calls { ".row | " } else { "" };
        let (mut attributes, mut parts) = (String::new(), Vec::new());
        for part in of.children() {
            understood(&part)?;
            match part.name() {
                "attribute" => {
                    let name = quoted(named(part.attribute("name").unwrap_or(""))?);
                    let column = self.column(&part)?;
                    attributes.push_str(&format!(" + ({row}{column} | a({name}))"));
                }
                "element" if is_group(&part) => {
                    let name = named(part.attribute("name").unwrap_or(""))?;
                    let (attributes, content) = self.content(&part, has_calls)?;
                    parts.push(element(name, &attributes, &content));
                }
                "element" => parts.push(self.value(&part, row)?),
                "call-query" => {
                    let number = self.calls;
                    self.calls += 1;
                    let inner = *self.nested.get(number).ok_or("a nested query is not known")?;
                    let rows = self.result(&inner, false)?;
                    parts.push(format!("(.\"{number}\" | {rows})"));
                }
                other => return Err(format!("`{other}` in a result has no counterpart")),
            }
        }
        let content = if parts.is_empty() { "\"\"".to_owned() } else { parts.join(" + ") };
        Ok((attributes, format!("({content})")))
    }

    /// The expression of an element with a value.
    fn value(&self, part: &Element<'_>, row: &str) -> Result<String, String> {
        let name = quoted(named(part.attribute("name").unwrap_or(""))?);
        if let Some(constant) = part.attribute("value") {
            return Ok(format!("({} | e({name}))", quoted(constant)));
        }
        let is_boolean = part.attribute("xsdType").is_some_and(|kind| kind.ends_with("boolean"));
        let change = if is_boolean { "b" } else { "." };
        if part.is("optional", "true") && !self.by_number {
            let column =
                part.attribute("column").ok_or("an element lacks the attribute `column`")?;
            return Ok(format!(
                "({row}o({}; {name}; {change}))",
                quoted(&column.to_ascii_lowercase())
            ));
        }
        Ok(format!("({row}{} | {change} | e({name}))", self.column(part)?))
    }

    /// The expression of a column's value.
    fn column(&self, part: &Element<'_>) -> Result<String, String> {
        let column = part
            .attribute("column")
            .ok_or("an element or attribute lacks the attribute `column`")?;
        if self.by_number {
            // Harmless: what is not a number is refused in the next line.
            let number = column.parse::<usize>().ok().filter(|number| *number > 0);
            let number = number.ok_or_else(|| format!("the column `{column}` is not a number"))?;
            return Ok(format!("n({number})"));
        }
        if column.contains(['[', ']']) {
            return Err(format!(
                "the column `{column}` is part of a user-defined type (UDT), which is not supported"
            ));
        }
        Ok(format!("c({})", quoted(&column.to_ascii_lowercase())))
    }
}

/// Refuses additional requirements of an element or attribute, such as roles.
fn understood(part: &Element<'_>) -> Result<(), String> {
    let known = ["name", "column", "value", "xsdType", "optional", "href", "includeRowId"];
    let attributes = part.attributes();
    let other = attributes.iter().find(|(name, _)| !known.contains(&&**name));
    match other {
        Some((name, _)) if part.name() != "call-query" => {
            Err(format!("`@{name}` of an element or attribute has no counterpart"))
        }
        Some(_) | None => Ok(()),
    }
}

/// True for an element that only holds others.
fn is_group(element: &Element<'_>) -> bool {
    ["column", "query-param", "value", "rdf-ref-uri"]
        .iter()
        .all(|name| element.attribute(name).is_none())
}

fn element(name: &str, attributes: &str, content: &str) -> String {
    let (start, end) = (quoted(&format!("<{name}")), quoted(&format!("</{name}>")));
    format!("({start}{attributes} + \">\" + {content} + {end})")
}

/// Returns a name if it is an XML name without a colon and with ASCII characters only.
fn named(name: &str) -> Result<&str, String> {
    if is_name(name) {
        Ok(name)
    } else {
        Err(format!("`{name}` is not an XML name of ASCII characters without a colon"))
    }
}

pub(super) fn is_name(name: &str) -> bool {
    let is_start = |c: char| c.is_ascii_alphabetic() || c == '_';
    let is_more = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    name.starts_with(is_start) && name.chars().all(is_more)
}

/// Returns a text as a jq string literal.
fn quoted(text: &str) -> String {
    Json::String(text.to_owned()).to_string()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
}
