//! Fields of the access log beside the usual ones.

use config::{AccessLog, LogFormat, Report, Spanned};
use plan::telemetry::access::Field;
use plan::{AccessField, AccessSource};

const HELP: &str =
    "write `$headers.NAME`, `$reply.headers.NAME`, `$status`, `$subject` or `$claims.NAME`";

/// The fields in the order written, with a complaint about each that cannot be one.
pub(crate) fn compile(log: &AccessLog, report: &mut Report) -> Vec<AccessField> {
    let mut fields = Vec::new();
    for (name, written) in log.fields.iter() {
        if matches!(log.format.value, LogFormat::Template(_)) {
            let what = "a line of your own has no more fields than it names";
            report.error(name.at, what, "write `format: json`, or remove `fields`");
        }
        if Field::ALL.iter().any(|field| field.name() == name.value) {
            let what = format!("every line has a field `{}` already", name.value);
            report.error(name.at, what, "give it another name");
        }
        match source(&written.value) {
            Some(source) => fields.push(AccessField { name: name.value.as_str().into(), source }),
            None => complain(written, report),
        }
    }
    fields
}

fn complain(written: &Spanned<String>, report: &mut Report) {
    report.error(written.at, "no field of the access log can be this expression", HELP);
}

fn source(text: &str) -> Option<AccessSource> {
    let header = |name: &str| {
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        let is_good = !name.is_empty() && name.chars().all(is_token);
        is_good.then(|| name.to_ascii_lowercase().into_boxed_str())
    };
    match text {
        "$status" | "$reply.status" => Some(AccessSource::Status),
        "$subject" => Some(AccessSource::Subject),
        _ => None,
    }
    .or_else(|| header(text.strip_prefix("$headers.")?).map(AccessSource::Header))
    .or_else(|| header(text.strip_prefix("$reply.headers.")?).map(AccessSource::ReplyHeader))
    .or_else(|| {
        let names: Vec<String> =
            text.strip_prefix("$claims.")?.split('.').map(str::to_owned).collect();
        let is_name = |name: &String| {
            !name.is_empty()
                && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-:/".contains(c))
        };
        names.iter().all(is_name).then(|| AccessSource::Claim(names.into()))
    })
}
