//! Parameters of queries: how their texts are checked and become arguments.

use serde_json::{Value as Json, json};

use super::insert;
use crate::synapse::converter::Converter;
use crate::synapse::element::Element;

/// How a parameter's text is converted to an argument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterType {
    Text,
    Number,
}

/// An argument of a statement.
pub(super) struct Argument<'a> {
    pub(super) name: &'a str,
    /// Its expression.
    pub(super) value: Json,
    pub(super) is_array: bool,
}

impl<'a> Converter<'a> {
    /// The steps that read and check a parameter, and the expression of its argument.
    pub(super) fn parameter(
        &mut self,
        parameter: &Element<'a>,
        expression: &str,
        steps: &mut Vec<Json>,
    ) -> Result<Json, String> {
        let name = parameter.attribute("name").unwrap_or("");
        let default = parameter.attribute("defaultValue");
        let is_optional = parameter.is("optional", "true");
        let kind = kind(parameter, name)?;
        let variable = self.out.variable(&format!("dbs.{name}"));
        let mut read = json!({ "value": expression });
        if default.is_none() && !is_optional {
            insert(&mut read, "required", json!(true));
        }
        steps.push(json!({ "set": { variable.clone(): read } }));
        let text = format!("vars.{variable}");
        if let Some(default) = default {
            steps.push(json!({ "filter": {
                "when": { "cel": format!("{text} == \"\"") },
                "then": [{ "set": { variable.clone(): { "value": { "text": default } } } }],
            } }));
        }
        for check in checks(parameter, name, &text)? {
            let check = if is_optional { format!("{text} == \"\" || ({check})") } else { check };
            steps.push(refused_unless(&check, name));
        }
        if is_optional {
            // An absent value is null, which a variable cannot have.
            return Ok(json!(expression));
        }
        if kind == ParameterType::Number {
            let value = json!({ "value": format!("${variable}"), "type": "number" });
            steps.push(json!({ "set": { variable.clone(): value } }));
        }
        Ok(json!(format!("${variable}")))
    }
}

/// The conditions in CEL under which a text is a value of a parameter.
pub(super) fn checks(
    parameter: &Element<'_>,
    name: &str,
    text: &str,
) -> Result<Vec<String>, String> {
    let mut checks = Vec::new();
    if kind(parameter, name)? == ParameterType::Number {
        checks.push(format!("{text}.matches(\"^[+-]?[0-9]+([.][0-9]+)?([eE][+-]?[0-9]+)?$\")"));
    }
    for validator in parameter.children() {
        checks.extend(check(&validator, text)?);
    }
    Ok(checks)
}

/// The step that refuses a request whose parameter is not valid.
pub(super) fn refused_unless(check: &str, name: &str) -> Json {
    let reason = format!("The parameter {name} is not valid");
    json!({ "filter": {
        "when": { "cel": check },
        "else": [{ "fault": { "code": "client", "reason": reason, "status": 400 } }],
    } })
}

/// The argument of a parameter that a call does not give.
pub(super) fn fallback(parameter: &Element<'_>, name: &str) -> Result<Json, String> {
    match parameter.attribute("defaultValue") {
        Some(default) => Ok(json!({ "text": default })),
        None if parameter.is("optional", "true") => Ok(json!({ "cel": "null" })),
        None => Err(format!("the call gives the parameter `{name}` no value")),
    }
}

/// The type of a parameter, if it has a counterpart.
pub(super) fn kind(parameter: &Element<'_>, name: &str) -> Result<ParameterType, String> {
    let form = parameter.attribute("paramType").unwrap_or("SCALAR").to_ascii_uppercase();
    if !matches!(&*form, "SCALAR" | "ARRAY") {
        return Err(format!("the parameter `{name}` is a {form}"));
    }
    if !parameter.attribute("type").unwrap_or("IN").eq_ignore_ascii_case("IN") {
        return Err(format!("the parameter `{name}` is a result of a procedure"));
    }
    let kind = parameter.attribute("sqlType").unwrap_or("STRING").to_ascii_uppercase();
    match &*kind {
        "STRING" | "CLOB" | "UUID" | "DATE" | "TIME" => Ok(ParameterType::Text),
        "INTEGER" | "TINYINT" | "SMALLINT" | "BIGINT" | "NUMERIC" | "DOUBLE" | "REAL" => {
            Ok(ParameterType::Number)
        }
        "QUERY_STRING" => Err(format!("the parameter `{name}` is a part of the statement")),
        _ => Err(format!("the parameter `{name}` is of the type {kind}")),
    }
}

/// The condition of a validator.
fn check(validator: &Element<'_>, text: &str) -> Result<Option<String>, String> {
    let number = |name: &str| -> Result<Option<f64>, String> {
        let Some(bound) = validator.attribute(name) else { return Ok(None) };
        let read = bound.parse::<f64>().map_err(|_| format!("`{bound}` is not a number"))?;
        Ok(Some(read))
    };
    let between = |of: &str, is_whole: bool| -> Result<Option<String>, String> {
        let bound =
            |number: f64| if is_whole { format!("{number:.0}") } else { format!("{number:?}") };
        let low = number("minimum")?.map(|low| format!("{of} >= {}", bound(low)));
        let high = number("maximum")?.map(|high| format!("{of} <= {}", bound(high)));
        let parts: Vec<String> = low.into_iter().chain(high).collect();
        Ok(Some(parts.join(" && ")).filter(|parts| !parts.is_empty()))
    };
    match validator.name() {
        "validateLongRange" => {
            let is_whole = format!("{text}.matches(\"^[+-]?[0-9]{{1,18}}$\")");
            let range = between(&format!("int({text})"), true)?;
            Ok(Some(range.map_or(is_whole.clone(), |range| format!("{is_whole} && {range}"))))
        }
        "validateDoubleRange" => between(&format!("double({text})"), false),
        "validateLength" => between(&format!("size({text})"), true),
        "validatePattern" => {
            let pattern = validator.attribute("pattern").ok_or("a pattern is missing")?;
            let whole = Json::String(format!("^(?:{pattern})$")).to_string();
            Ok(Some(format!("{text}.matches({whole})")))
        }
        other => Err(format!("the validator `{other}` has no counterpart")),
    }
}
