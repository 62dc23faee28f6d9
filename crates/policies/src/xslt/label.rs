//! The content type of what a stylesheet made.

use fault::Fault;
use message::Headers;
use policy::Speech;

use crate::charset;

/// Whether a message is JSON: by its first character, and where that says nothing by its label.
pub(super) fn is_json(headers: &Headers, message: &[u8]) -> bool {
    match message.trim_ascii_start().first() {
        Some(b'{' | b'[') => true,
        Some(b'<') => false,
        Some(_) | None => says_json(headers.get("content-type")),
    }
}

fn says_json(content_type: Option<&[u8]>) -> bool {
    matches!(Speech::of(content_type), Speech::Json)
}

/// A result of another kind than the message was has another content type, and one in another encoding another charset.
pub(super) fn label(headers: &mut Headers, result: &[u8], charset: &str) -> Result<(), Fault> {
    let first = result.trim_ascii_start().first().copied();
    let written = headers.get("content-type");
    let label = match (first, says_json(written)) {
        (Some(b'<'), true) => format!("text/xml; charset={charset}"),
        (Some(b'{' | b'['), false) => "application/json".to_owned(),
        _ => match recoded(written.unwrap_or_default(), charset) {
            Some(label) => label,
            None => return Ok(()),
        },
    };
    headers.remove("content-type");
    headers.add_known("Content-Type", label.as_bytes());
    Ok(())
}

/// The content type with another charset, where it says one and that is no longer true.
fn recoded(written: &[u8], name: &str) -> Option<String> {
    // What nearly all say, and rightly.
    let end = written.len().saturating_sub(name.len());
    let (front, value) = written.split_at_checked(end)?;
    if value.eq_ignore_ascii_case(name.as_bytes())
        && matches!(front, b"text/xml;charset=" | b"text/xml; charset=")
    {
        return None;
    }
    let media = message::media_type(written);
    let is_charset = |parameter: &&[u8]| charset::value_of(parameter, "charset").is_some();
    let told = charset::charset(written)?;
    if told.eq_ignore_ascii_case(name.as_bytes()) {
        return None;
    }
    let mut label = [media, b"; charset=", name.as_bytes()].concat();
    for other in charset::parameters(written).filter(|parameter| !is_charset(parameter)) {
        label.extend_from_slice(b"; ");
        label.extend_from_slice(other);
    }
    String::from_utf8(label).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(content_type: &str) -> Headers {
        let mut headers = Headers::new();
        headers.add("Content-Type", content_type.as_bytes()).unwrap();
        headers
    }

    #[test]
    fn what_became_something_else_is_labelled() {
        for (was, result, is) in [
            ("text/xml", "{}", "application/json"),
            ("application/json", " <a/>", "text/xml; charset=utf-8"),
            ("text/xml;charset=utf-8", "<a/>", "text/xml;charset=utf-8"),
            ("text/xml;charset=\"UTF-8\"", "<a/>", "text/xml;charset=\"UTF-8\""),
            ("application/json", "[1]", "application/json"),
            ("text/xml", "plain", "text/xml"),
            ("text/xml; charset=iso-8859-1", "<a/>", "text/xml; charset=utf-8"),
            (
                "application/soap+xml; action=\"u\"; charset=ascii",
                "<a/>",
                "application/soap+xml; charset=utf-8; action=\"u\"",
            ),
            (
                "application/soap+xml; charset=utf-16;action=\"urn:x;y\\\";z\"; a=b",
                "<a/>",
                "application/soap+xml; charset=utf-8; action=\"urn:x;y\\\";z\"; a=b",
            ),
        ] {
            let mut headers = of(was);
            label(&mut headers, result.as_bytes(), "utf-8").unwrap();
            assert_eq!(headers.get("content-type"), Some(is.as_bytes()), "{was} {result}");
        }
    }

    #[test]
    fn json_is_known_by_its_first_character_or_its_label() {
        for (label, message, json) in [
            ("text/xml", " {}", true),
            ("text/xml", "[]", true),
            ("application/json", "<a/>", false),
            ("application/json", "1", true),
            ("application/json", "", true),
            ("text/xml", "1", false),
        ] {
            assert_eq!(is_json(&of(label), message.as_bytes()), json, "{label} {message}");
        }
    }
}
