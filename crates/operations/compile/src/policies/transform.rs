//! Compiles `transform`: locations and names are parsed, and values become templates.

use ::policies::statuses::Statuses;
use ::policies::transform::{
    self as transforms, JsonEdits, Overlap, Pointer, QueryEdits, TransformSettings,
};
use config::{At, JsonEdit, JsonText, Map, QueryEdit, Report, Spanned, Transform};
use plan::Template;

use super::{Facts, PolicyKind, PolicyPlace};
use crate::policy::RouteScope;
use crate::upstream_settings::ranges;
use crate::{names, templates};

impl PolicyKind for Transform {
    fn build(
        &self,
        _written: PolicyPlace,
        place: &mut RouteScope<'_, '_>,
        report: &mut Report,
    ) -> plan::Policy {
        let parameters = templates::parameters(&place.of.matches.value);
        let (query, request) = request_edits(self, report);
        let query = query.map(|keys| self::query(&keys.value, &parameters, report));
        let request = request.map(|keys| json(&keys.value, &parameters, report));
        let response = self.response.json.as_ref().map(|keys| {
            let values: Vec<Spanned<String>> =
                keys.value.set.iter().map(|(_, v)| text(v)).collect();
            templates::refuse_head(values.iter(), &parameters, report);
            json(&keys.value, &parameters, report)
        });
        let form = self.request.form.as_ref();
        let form = form.map(|keys| self::query(&keys.value, &parameters, report));
        let method = self.request.method.as_ref();
        transforms::policy(TransformSettings {
            method: method.and_then(|method| sent_method(method, report)).map(Into::into),
            // Harmless: a form without edits does not change.
            form: form.unwrap_or_default(),
            statuses: Statuses(ranges(&self.response.if_status)),
            // Harmless: a side without edits changes nothing.
            query: query.unwrap_or_default(),
            // Harmless: a side without edits changes nothing.
            request: request.unwrap_or_default(),
            // Harmless: a side without edits changes nothing.
            response: response.unwrap_or_default(),
            bytes_max: usize::try_from(self.body_bytes_max.0).unwrap_or(usize::MAX),
        })
    }

    fn facts(&self, parameters: &[String]) -> Facts<'_> {
        Facts {
            asks_identity: texts(self).any(|text| templates::asks_identity(text, parameters)),
            replies_differ: texts(self).any(|text| templates::depends_on_client(text, parameters)),
            ..Facts::NONE
        }
    }
}

/// Returns a method that may be sent to an upstream.
fn sent_method(method: &Spanned<String>, report: &mut Report) -> Option<String> {
    let name = names::method(method, report)?;
    if http1::is_refused_method(name.as_bytes()) {
        let what = format!("`{name}` is a method that the gateway does not forward");
        report.error(method.at, what, "write a method such as `POST`");
        return None;
    }
    Some(name)
}

type RequestEdits<'k> = (Option<&'k Spanned<QueryEdit>>, Option<&'k Spanned<JsonEdit>>);

/// Returns the edits of requests, written in the short or the long form.
fn request_edits<'k>(keys: &'k Transform, report: &mut Report) -> RequestEdits<'k> {
    let (query, json) = (&keys.request.query, &keys.request.json);
    let places = [
        ("query", query.as_ref().map(|_| ()), keys.query.as_ref().map(|keys| keys.at)),
        ("json", json.as_ref().map(|_| ()), keys.json.as_ref().map(|keys| keys.at)),
    ];
    for (key, long, short) in places {
        if let (Some(()), Some(at)) = (long, short) {
            let what = format!("`{key}` is set both here and in `request`");
            report.error(at, what, format!("move it all below `request: {{ {key} }}`"));
        }
    }
    (query.as_ref().or(keys.query.as_ref()), json.as_ref().or(keys.json.as_ref()))
}

/// Returns the texts that are written into requests and replies, so that their placeholders can be checked.
pub(crate) fn texts(keys: &Transform) -> impl Iterator<Item = &str> {
    let query = keys.query.iter().chain(&keys.request.query).chain(&keys.request.form);
    let lines = query.flat_map(|keys| {
        let QueryEdit { replace, set, default, add, .. } = &keys.value;
        [replace, set, default, add].into_iter().flat_map(Map::iter)
    });
    let json = keys.json.iter().chain(&keys.request.json).chain(&keys.response.json);
    let values = json.flat_map(|keys| keys.value.set.iter()).map(|(_, value)| &*value.value.0);
    lines.map(|(_, value)| &*value.value).chain(values)
}

fn query(keys: &QueryEdit, parameters: &[String], report: &mut Report) -> QueryEdits {
    let mut lines = |map: &Map<Spanned<String>>| {
        map.iter()
            .filter_map(|(name, value)| {
                Some((name.value.clone(), templates::read(value, parameters, report)?))
            })
            .collect()
    };
    let (replace, set) = (lines(&keys.replace), lines(&keys.set));
    let (default, add) = (lines(&keys.default), lines(&keys.add));
    let remove = keys.remove.iter();
    let remove = remove.filter_map(|name| parameter(&name.value, name.at, report)).collect();
    let rename = names::renames(&keys.rename, report, parameter);
    QueryEdits { rename, remove, replace, set, default, add }
}

fn parameter(name: &str, at: At, report: &mut Report) -> Option<String> {
    if name.is_empty() {
        report.error(at, "a parameter needs a name", "write its name, such as `page`");
        return None;
    }
    Some(name.to_owned())
}

fn json(keys: &JsonEdit, parameters: &[String], report: &mut Report) -> JsonEdits {
    let mut edits = JsonEdits::default();
    for (old, new) in keys.rename.iter() {
        let places = pointer(&old.value, old.at, report).zip(pointer(&new.value, new.at, report));
        if let Some((from, to)) = places {
            complain_of_overlap(edits.rename(from, &to), old.at, report);
        }
    }
    for place in &keys.remove {
        if let Some(pointer) = pointer(&place.value, place.at, report) {
            complain_of_overlap(edits.remove(&pointer), place.at, report);
        }
    }
    for (place, value) in keys.set.iter() {
        let pointer = pointer(&place.value, place.at, report);
        let value: Option<Template> = templates::read(&text(value), parameters, report);
        if let (Some(pointer), Some(value)) = (pointer, value) {
            complain_of_overlap(edits.set(&pointer, value), place.at, report);
        }
    }
    edits
}

/// Returns the text of a whole JSON value, to be read as one template. The braces of JSON objects are not read as placeholders.
fn text(value: &Spanned<JsonText>) -> Spanned<String> {
    Spanned { value: value.value.0.clone(), at: value.at, intact: value.intact }
}

fn pointer(text: &str, at: At, report: &mut Report) -> Option<Pointer> {
    let read = Pointer::parse(text);
    read.map_err(|why| {
        let what = format!("`{}` is not a place in a document: {why}", text.escape_debug());
        report.error(
            at,
            what,
            "write `/user/name`, or `user.name`; an item of a list by its index",
        );
    })
    .ok()
}

fn complain_of_overlap(edited: Result<(), Overlap>, at: At, report: &mut Report) {
    if let Err(Overlap) = edited {
        let what = "this place overlaps the place of another edit";
        let help =
            "edit each place once; to apply edits one after the other, write two `transform`";
        report.error(at, what, help);
    }
}
