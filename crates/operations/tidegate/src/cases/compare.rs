//! The comparison of a message with the one that a case expects.

use config::{CaseExpect, CaseReply, Map, Spanned};

use super::difference::{Difference, shown};
use super::message::Message;
use super::{json, xml};

/// What a case expects of a body.
struct Body<'a> {
    bytes: Option<&'a str>,
    xml: Option<&'a str>,
    json: Option<&'a str>,
    contains: &'a [Spanned<String>],
}

/// The differences between a request and the expected one.
pub(super) fn of_request(expect: &CaseExpect, request: &Message) -> Vec<Difference> {
    let mut found = Vec::new();
    if let Some(method) = &expect.method {
        found.extend(texts("method", &method.value, &request.method));
    }
    if let Some(path) = &expect.path {
        let came = if path.value.contains('?') { request.target.as_str() } else { request.path() };
        found.extend(texts("path", &path.value, came));
    }
    headers(&expect.headers, request, &mut found);
    let body = Body {
        bytes: expect.body.as_ref().map(|body| body.value.as_str()),
        xml: expect.xml.as_ref().map(|xml| xml.value.as_str()),
        json: expect.json.as_ref().map(|json| json.value.0.as_str()),
        contains: &[],
    };
    body.compare(request, &mut found);
    found
}

/// The differences between a reply and the expected one.
pub(super) fn of_reply(expect: &CaseReply, reply: &Message) -> Vec<Difference> {
    let mut found = Vec::new();
    if let Some(status) = expect.status {
        found.extend(texts("status", &status.get().to_string(), &reply.status.to_string()));
    }
    headers(&expect.headers, reply, &mut found);
    let body = Body {
        bytes: expect.body.as_ref().map(|body| body.value.as_str()),
        xml: expect.xml.as_ref().map(|xml| xml.value.as_str()),
        json: expect.json.as_ref().map(|json| json.value.0.as_str()),
        contains: &expect.contains.0,
    };
    body.compare(reply, &mut found);
    found
}

fn headers(expected: &Map<Spanned<String>>, message: &Message, found: &mut Vec<Difference>) {
    for (name, value) in expected.iter() {
        let at = format!("header {}", name.value);
        found.extend(match message.get(&name.value) {
            Some(came) => texts(&at, &value.value, &came),
            None => Some(Difference::new(&at, &value.value, "(no such header)")),
        });
    }
}

impl Body<'_> {
    fn compare(&self, message: &Message, found: &mut Vec<Difference>) {
        // Harmless: the text is only shown.
        let came = String::from_utf8_lossy(&message.body);
        if let Some(expected) = self.bytes
            && expected.as_bytes() != message.body
        {
            found.extend(bytes(expected, &came));
        }
        if let Some(expected) = self.xml {
            found.extend(xml::difference(expected, &message.body));
        }
        if let Some(expected) = self.json {
            found.extend(json::difference(expected, &came));
        }
        for part in self.contains.iter().filter(|part| !came.contains(&part.value)) {
            let expected = format!("text that contains {:?}", part.value);
            let came = if came.is_empty() { "(nothing)" } else { &came };
            found.push(Difference::new("body", &expected, came));
        }
    }
}

fn texts(at: &str, expected: &str, came: &str) -> Option<Difference> {
    (expected != came).then(|| Difference::new(at, expected, came))
}

/// The first difference of two bodies, with the text of each from there on.
fn bytes(expected: &str, came: &str) -> Option<Difference> {
    // Harmless: the rest of the longer one is the difference.
    let pairs = expected.chars().zip(came.chars());
    let same: usize =
        pairs.take_while(|(one, other)| one == other).map(|(one, _)| one.len_utf8()).sum();
    let line = expected.get(..same).unwrap_or_default().matches('\n').count() + 1;
    let rest = |text: &str| match text.get(same..) {
        Some("") | None => "(nothing more)".to_owned(),
        Some(rest) => format!("{:?}", shown(rest)),
    };
    let at = format!("body at byte {same}, line {line},");
    Some(Difference { at, expected: rest(expected), actual: rest(came) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_of_bytes_is_shown_from_where_it_begins() {
        let difference = bytes("a\nbcd", "a\nbxd").unwrap();
        assert_eq!(difference.at, "body at byte 3, line 2,");
        assert_eq!((&*difference.expected, &*difference.actual), ("\"cd\"", "\"xd\""));
        assert_eq!(bytes("ab", "a").unwrap().actual, "(nothing more)");
        assert_eq!(shown(&"ä".repeat(500)), format!("{} (200 more bytes)", "ä".repeat(400)));
    }
}
