//! Compiles the additional fields of the access log.

use config::{AccessLog, ExpressionLanguage, ExpressionText, LogFormat, Report, Spanned};
use expression::{Expression, Language};
use plan::telemetry::access::Field;
use plan::{AccessField, AccessFields, AccessSource, AccessValue, LineNames};

const HELP: &str = "write `$headers.NAME`, `$reply.headers.NAME`, `$status`, `$subject`, `$claims.NAME`, `$method`, `$host`, `$path`, `$route`, `$request_id` or `$client`, or an expression over these in CEL or XPath";

/// Returns the fields in the order written. Reports a complaint for each invalid field.
pub(crate) fn compile(log: &AccessLog, report: &mut Report) -> AccessFields {
    let (names, mut fields) = (LineNames::default(), Vec::new());
    for (name, written) in log.fields.iter() {
        if matches!(log.format.value, LogFormat::Template(_)) {
            let what = "`fields` cannot be combined with a `format` template";
            report.error(name.at, what, "write `format: json`, or remove `fields`");
        }
        if Field::ALL.iter().any(|field| field.name() == name.value) {
            let what = format!("every line already has the field `{}`", name.value);
            report.error(name.at, what, "give it another name");
        }
        let Some(value) = value(written, &names, report) else { continue };
        let text = format!("{:?} {}", written.language, written.text.value).into();
        fields.push(AccessField { name: name.value.as_str().into(), text, value });
    }
    AccessFields { headers: names.headers(), fields: fields.into() }
}

fn value(written: &ExpressionText, names: &LineNames, report: &mut Report) -> Option<AccessValue> {
    let text = &written.text;
    if written.required {
        let help = "remove `required`: a field without a value is omitted";
        report.error(text.at, "`required` has no effect here, because every line is logged", help);
    }
    if written.language == ExpressionLanguage::Marked
        && let Some(source) = source(&text.value, names)
    {
        return Some(AccessValue::Source(source));
    }
    let language = match written.language {
        ExpressionLanguage::Marked => Language::Marked,
        ExpressionLanguage::XPath => Language::XPath,
        ExpressionLanguage::Cel => Language::Cel,
        ExpressionLanguage::Text => Language::Text,
        ExpressionLanguage::Json => {
            return refuse("the access log has no body to query", text, report);
        }
    };
    let compiled = Expression::compile(&text.value, language, names);
    let sources = names.take_slots();
    let expression = match compiled {
        Ok(expression) => expression,
        Err(error) => return refuse(&error.kind.to_string(), text, report),
    };
    let is_literal = expression.literal().is_some();
    if is_literal && language == Language::Marked {
        return refuse("it is plain text", text, report);
    }
    let reads_message =
        |slot: &expression::Slot| usize::try_from(slot.0).is_ok_and(|at| at >= sources.len());
    if expression.slots().iter().any(reads_message) {
        let what = "it reads a body or all headers, which are no longer available when the line is written";
        return refuse(what, text, report);
    }
    Some(AccessValue::Computed(expression, sources))
}

fn refuse(why: &str, text: &Spanned<String>, report: &mut Report) -> Option<AccessValue> {
    let what = format!("this expression cannot be a field of the access log: {why}");
    report.error(text.at, what, HELP);
    None
}

/// Returns the source of a field that is a single `$name`, which needs no expression.
fn source(text: &str, names: &LineNames) -> Option<AccessSource> {
    let text = text.strip_prefix('$')?;
    let is_token = |name: &str| {
        let is_good = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        !name.is_empty() && name.chars().all(is_good)
    };
    if let Some(name) = text.strip_prefix("headers.").filter(|name| is_token(name)) {
        return names.source(&["headers", name]);
    }
    if let Some(name) = text.strip_prefix("reply.headers.").filter(|name| is_token(name)) {
        return names.source(&["reply", "headers", name]);
    }
    if let Some(claims) = text.strip_prefix("claims.") {
        let claims: Vec<String> = claims.split('.').map(str::to_owned).collect();
        let is_name = |name: &String| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-:/".contains(c))
        };
        return claims.iter().all(is_name).then(|| AccessSource::Claim(claims.into()));
    }
    names.source(&text.split('.').collect::<Vec<_>>())
}
