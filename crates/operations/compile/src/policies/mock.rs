//! Compiles `mock`: the examples of an OpenAPI document become replies.

use ::policies::mock::{self, MockReply, MockSettings};
use bytes::Bytes;
use config::{Mock, MockChoice, Report};
use import::ExampleReply;
use serde_json::Value as Json;

use super::{Facts, PolicyKind, PolicyPlace, openapi, or_nothing};
use crate::policy::RouteScope;

/// The status of a reply that the document lists as `default`.
const STATUS_OF_DEFAULT: u16 = 200;

impl PolicyKind for Mock {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        or_nothing(build(self, place, report))
    }

    fn facts(&self, _parameters: &[String]) -> Facts<'_> {
        Facts { answers: true, ..Facts::NONE }
    }
}

fn build(keys: &Mock, place: &mut RouteScope<'_, '_>, report: &mut Report) -> Option<plan::Policy> {
    let document = &keys.document;
    let base = keys.base_path.as_ref().map(|base| base.value.as_str());
    let (operations, order) = openapi::searched(document, base, place, report)?;
    let read =
        import::examples(document.value.as_path(), |path| report.depends_on(path.to_owned()));
    let examples = match read {
        Ok(examples) => examples,
        Err(fault) => {
            report.error(document.at, fault, openapi::UNREADABLE_HELP);
            return None;
        }
    };
    if examples.iter().all(|one| one.examples.is_empty() && one.media_type.is_some()) {
        let what = "the document has no example";
        report.error(document.at, what, "add `example` or `examples` to its responses or schemas");
        return None;
    }
    let statuses: Vec<u16> =
        // Harmless: the configuration accepts only statuses below 600.
        keys.statuses.iter().filter_map(|status| u16::try_from(status.get()).ok()).collect();
    let of_operation = |(path, method): &(String, String)| {
        let is_it = |one: &&ExampleReply| one.path == *path && one.method == *method;
        replies(&examples.iter().filter(is_it).collect::<Vec<_>>(), &statuses)
    };
    let replies = order.iter().map(|path| path.iter().map(of_operation).collect()).collect();
    let random = keys.examples == MockChoice::Random;
    Some(mock::policy(MockSettings { operations, replies, random }))
}

/// Returns the replies that the policy gives for one operation: those of the preferred status that have an example or no content.
fn replies(all: &[&ExampleReply], statuses: &[u16]) -> Vec<MockReply> {
    let shown = all.iter().filter(|one| one.media_type.is_none() || !one.examples.is_empty());
    let mut shown: Vec<(u16, &ExampleReply)> =
        // Harmless: a key that is not a status cannot be the status of a reply.
        shown.filter_map(|one| Some((number(&one.status)?, *one))).collect();
    let rank = |status: u16| match statuses.iter().position(|wanted| *wanted == status) {
        Some(at) => (0, at, status),
        None => (1, usize::from(!(200..300).contains(&status)), status),
    };
    shown.retain(|(status, _)| statuses.is_empty() || statuses.contains(status));
    shown.sort_by_key(|(status, _)| rank(*status));
    let Some(first) = shown.first().map(|(status, _)| *status) else { return Vec::new() };
    let of_first = shown.into_iter().filter(|(status, _)| *status == first);
    let made = |(status, one): (u16, &ExampleReply)| MockReply {
        status,
        media_type: one.media_type.as_deref().map(Into::into),
        examples: one.examples.iter().map(|value| body(one.media_type.as_deref(), value)).collect(),
    };
    of_first.map(made).collect()
}

/// Returns the status for a key of the document: `2XX` means the first of its class, and `default` means 200.
fn number(status: &str) -> Option<u16> {
    match status {
        "default" => Some(STATUS_OF_DEFAULT),
        // Harmless: a key that is not a status cannot be the status of a reply.
        _ => kit::digits::whole(&status.to_ascii_uppercase().replace("XX", "00")),
    }
    .filter(|status| (200..600).contains(status))
}

/// Returns the body of an example. If the media type is not JSON, a text is written without quotes.
fn body(media_type: Option<&str>, value: &Json) -> Bytes {
    let is_json =
        media_type.is_some_and(|kind| message::is_json(message::media_type(kind.as_bytes())));
    match value.as_str().filter(|_| !is_json) {
        Some(text) => text.to_owned().into(),
        None => value.to_string().into(),
    }
}
