//! Parameters of data services that are arrays: all elements of one name, as one argument of `= any(...)` in PostgreSQL.

use serde_json::{Value as Json, json};

use super::Source;
use super::parameters;
use crate::synapse::converter::Converter;
use crate::synapse::element::Element;

impl<'a> Converter<'a> {
    /// The steps that collect and check the values of an array, and the expression of its argument.
    pub(super) fn array(
        &mut self,
        parameter: &Element<'a>,
        source: &Source<'a>,
        from: &str,
        steps: &mut Vec<Json>,
    ) -> Result<Json, String> {
        let name = parameter.attribute("name").unwrap_or("");
        if source.in_address(from) {
            return Err(format!(
                "the parameter `{name}` is an array, and those of an address are one text"
            ));
        }
        if parameter.attribute("defaultValue").is_some() || parameter.is("optional", "true") {
            return Err(format!("the parameter `{name}` is an array that may be missing"));
        }
        let variable = self.out.variable(&format!("dbs.{name}"));
        let all = format!("vars.{variable}");
        steps.push(json!({ "set": { variable.clone(): { "cel": "[]" } } }));
        let added = json!({ variable.clone(): { "cel": format!("{all} + [string(body)]") } });
        let over = source.expression(from)?;
        steps.push(json!({ "foreach": { "over": over, "steps": [{ "set": added }] } }));
        let mut check = format!("size({all}) > 0");
        let checks = parameters::checks(parameter, name, "item")?;
        if !checks.is_empty() {
            let checks = checks.iter().map(|check| format!("({check})")).collect::<Vec<_>>();
            check.push_str(&format!(" && {all}.all(item, {})", checks.join(" && ")));
        }
        steps.push(parameters::refused_unless(&check, name));
        Ok(json!(format!("${variable}")))
    }
}

/// Writes the placeholder of the array `name`: `in (?)` becomes `= any($1)`, and `not in (?)` becomes `<> all($1)`. `out` is the statement
/// before the placeholder, `rest` the part after it. Returns what remains of `rest`.
pub(super) fn write<'r>(
    name: &str,
    number: usize,
    out: &mut String,
    rest: &'r str,
) -> Result<&'r str, String> {
    let elsewhere =
        || format!("the parameter `{name}` is an array that is not alone in `in (...)`");
    let opened = out.trim_end().strip_suffix('(').and_then(|front| without_word(front, "in"));
    let after = rest.trim_start().strip_prefix(')');
    let (Some(front), Some(after)) = (opened, after) else { return Err(elsewhere()) };
    let (front, operator) = match without_word(front, "not") {
        Some(front) => (front, "<> all"),
        None => (front, "= any"),
    };
    *out = format!("{} {operator}(${number})", front.trim_end());
    Ok(after)
}

/// The text before a word at its end.
fn without_word<'t>(text: &'t str, word: &str) -> Option<&'t str> {
    let text = text.trim_end();
    let at = text.len().checked_sub(word.len())?;
    let (front, tail) = text.split_at_checked(at)?;
    let is_whole = !front.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'));
    (is_whole && tail.eq_ignore_ascii_case(word)).then_some(front)
}
