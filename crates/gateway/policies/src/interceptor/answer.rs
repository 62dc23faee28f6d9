//! Parses and checks the answer of an interceptor.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;

use base64::Engine as _;
use bytes::Bytes;
use fault::{Fault, Kind};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};

use super::call;

/// A parsed answer. Texts without escapes are borrowed from the answer's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Answer<'a> {
    pub(super) direct: bool,
    pub(super) status: Option<u16>,
    pub(super) endpoint: Option<Cow<'a, str>>,
    pub(super) headers: Edits<'a>,
    pub(super) trailers: Edits<'a>,
    pub(super) path: Option<Cow<'a, str>>,
    pub(super) body: Option<Bytes>,
    pub(super) context: Vec<(Box<str>, Box<str>)>,
}

/// Changes to header lines, in the order in which they are applied.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Edits<'a> {
    pub(super) remove: Vec<Cow<'a, str>>,
    pub(super) replace: Pairs<'a>,
    pub(super) add: Pairs<'a>,
}

/// An object whose values are texts.
pub(super) type Pairs<'a> = Vec<(Cow<'a, str>, Cow<'a, str>)>;

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawAnswer<'a> {
    direct_respond: Option<bool>,
    response_code: Option<u16>,
    #[serde(borrow)]
    dynamic_endpoint: Option<Object<'a>>,
    headers_to_add: Option<Object<'a>>,
    headers_to_replace: Option<Object<'a>>,
    headers_to_remove: Option<Vec<Text<'a>>>,
    trailers_to_add: Option<Object<'a>>,
    trailers_to_replace: Option<Object<'a>>,
    trailers_to_remove: Option<Vec<Text<'a>>>,
    path_to_rewrite: Option<Text<'a>>,
    body: Option<Text<'a>>,
    interceptor_context: Option<Object<'a>>,
}

/// The maximum number of names in all objects and lists of an answer, far more than a message has lines. Each name causes a scan of the
/// message's lines.
const NAMES_MAX: usize = 1000;

/// A text that is borrowed if it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Parses an answer with status 200. Its body may have at most `body_bytes_max` bytes.
pub(super) fn read(bytes: &[u8], body_bytes_max: usize) -> Result<Answer<'_>, Fault> {
    // serde would also accept a list, and take its items as the members of the object in order.
    if bytes.trim_ascii_start().first() != Some(&b'{') {
        return Err(invalid("the answer is not a JSON object"));
    }
    // UTF-8 is checked once for the whole answer. Otherwise, serde would check each text separately.
    let text = std::str::from_utf8(bytes).map_err(|_| invalid("the answer is not UTF-8"))?;
    let said: RawAnswer<'_> = serde_json::from_str(text).map_err(|e| invalid(&e.to_string()))?;
    if names(&said) > NAMES_MAX {
        return Err(invalid(&format!("it has more than {NAMES_MAX} names")));
    }
    let endpoint = said.dynamic_endpoint.map(endpoint).transpose()?;
    let status = said.response_code;
    if status.is_some_and(|status| !(200..600).contains(&status)) {
        return Err(invalid("`responseCode` is not a final status"));
    }
    let body = said.body.map(|body| super::base64().decode(&*body.0)).transpose();
    let body = body.map_err(|_| invalid("`body` is not base64"))?;
    if body.as_ref().is_some_and(|body| body.len() > body_bytes_max) {
        let why = format!("`body` has more than {body_bytes_max} bytes");
        return Err(call::failed(Fault::new(Kind::ReplyTooLarge, why)));
    }
    let context = pairs(said.interceptor_context).into_iter();
    Ok(Answer {
        direct: said.direct_respond.unwrap_or(false),
        status,
        endpoint,
        headers: Edits {
            remove: texts(said.headers_to_remove),
            replace: pairs(said.headers_to_replace),
            add: pairs(said.headers_to_add),
        },
        trailers: Edits {
            remove: texts(said.trailers_to_remove),
            replace: pairs(said.trailers_to_replace),
            add: pairs(said.trailers_to_add),
        },
        path: said.path_to_rewrite.map(|path| path.0),
        body: body.map(Bytes::from),
        context: context.map(|(name, value)| (name.into(), value.into())).collect(),
    })
}

/// Returns the number of names in an answer.
fn names(said: &RawAnswer<'_>) -> usize {
    let objects = [
        &said.headers_to_add,
        &said.headers_to_replace,
        &said.trailers_to_add,
        &said.trailers_to_replace,
        &said.interceptor_context,
    ];
    let lists = [&said.headers_to_remove, &said.trailers_to_remove];
    let in_objects = objects.map(|object| object.as_ref().map_or(0, |object| object.0.len()));
    let in_lists = lists.map(|list| list.as_ref().map_or(0, Vec::len));
    in_objects.iter().chain(&in_lists).sum()
}

fn pairs(object: Option<Object<'_>>) -> Pairs<'_> {
    object.map_or_else(Pairs::new, |object| object.0)
}

fn texts(list: Option<Vec<Text<'_>>>) -> Vec<Cow<'_, str>> {
    list.map_or_else(Vec::new, |list| list.into_iter().map(|text| text.0).collect())
}

fn endpoint(object: Object<'_>) -> Result<Cow<'_, str>, Fault> {
    let name = object.0.into_iter().find(|(name, _)| name == "endpointName");
    name.map(|(_, name)| name).ok_or_else(|| invalid("`dynamicEndpoint` has no `endpointName`"))
}

/// Returns the fault for an invalid answer. The cause is only logged, and is not sent to the client.
pub(super) fn invalid(why: &str) -> Fault {
    Fault::with_detail(
        Kind::InterceptorInvalid,
        format!("the interceptor's answer cannot be used: {why}"),
        "The interceptor service gave an invalid answer",
    )
}

/// An object with text values and unique names. A list is not accepted.
struct Object<'a>(Pairs<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Object<'a>, D::Error> {
        deserializer.deserialize_map(Members)
    }
}

struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = Object<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object whose values are texts")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object<'de>, A::Error> {
        let (mut pairs, mut known) = (Pairs::new(), HashSet::new());
        while let Some((name, value)) = map.next_entry::<Text<'de>, Text<'de>>()? {
            if !known.insert(name.0.clone()) {
                return Err(A::Error::custom(format!("`{}` occurs twice", name.0)));
            }
            pairs.push((name.0, value.0));
        }
        Ok(Object(pairs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_cannot_be_used_are_refused() {
        let cases = [
            "",
            "null",
            "[]",
            "[true, 200]",
            "{",
            "{} x",
            r#"{"directRespond": "yes"}"#,
            r#"{"responseCode": "200"}"#,
            r#"{"responseCode": 99}"#,
            r#"{"responseCode": 101}"#,
            r#"{"responseCode": 70000}"#,
            r#"{"headersToAdd": []}"#,
            r#"{"headersToAdd": {"a": 1}}"#,
            r#"{"headersToRemove": {"a": "b"}}"#,
            r#"{"dynamicEndpoint": {}}"#,
            r#"{"dynamicEndpoint": "a"}"#,
            r#"{"dynamicEndpoint": {"endpointName": "a", "endpointName": "b"}}"#,
            r#"{"headersToReplace": {"a": "1", "\u0061": "2"}}"#,
            r#"{"interceptorContext": {"a": "1", "a": "2"}}"#,
            r#"{"directRespond": false, "directRespond": true}"#,
            r#"{"body": "a*b="}"#,
            r#"{"body": "A"}"#,
            r#"{"body": 1}"#,
            r#"{"interceptorContext": {"a": true}}"#,
            r#"{"pathToRewrite": 1}"#,
            r#"{"responseCode": 200, "responseCode": 403}"#,
            r#"{"headersToAdd": {"a": "1", "\u0061": "2"}}"#,
            r#"{"headersToReplace": {"a": "1", "b": "2", "a": "1"}}"#,
            r#"{"trailersToAdd": {"a": "1", "a": "2"}}"#,
            r#"{"trailersToReplace": {"a": "1", "a": "2"}}"#,
            r#"{"interceptorContext": {"a": "1", "a": "2"}}"#,
            r#"{"dynamicEndpoint": {"endpointName": "a", "endpointName": "b"}}"#,
        ];
        let broken = br#"{"more": "\xff"}"#;
        for text in cases.map(str::as_bytes).into_iter().chain([&broken[..]]) {
            let read = read(text, 9);
            let text = String::from_utf8_lossy(text);
            assert_eq!(read.unwrap_err().kind, Kind::InterceptorInvalid, "{text}");
        }
    }

    #[test]
    fn what_is_absent_or_null_changes_nothing() {
        for text in ["{}", " \n{ \"body\": null, \"headersToAdd\": null, \"more\": [1] }"] {
            assert_eq!(read(text.as_bytes(), 9).unwrap(), Answer::default(), "{text}");
        }
        for (text, body) in [(r#"{"body":""}"#, &b""[..]), (r#"{"body":"YQ"}"#, b"a")] {
            assert_eq!(read(text.as_bytes(), 9).unwrap().body.unwrap(), body);
        }
    }
}
