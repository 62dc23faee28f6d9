//! Form fields converted to JSON: `application/x-www-form-urlencoded` (WHATWG URL, 5.1) and `multipart/form-data` (RFC 7578).
//!
//! Each field becomes a member whose value is its text. A field that occurs several times becomes an array. A file, or a field that is not
//! text, becomes an object with its file name and its content type, if it has them, and its content as `text` or `base64`.

use std::borrow::Cow;
use std::collections::HashMap;

use json::push_string;
use kit::percent;

use crate::charset;
use crate::multipart::{Multipart, MultipartError, Part, parameter, single_parameter};

/// Maximum number of fields, far above that of real forms.
const FIELDS_MAX: usize = 10_000;

/// A kind of form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormKind {
    UrlEncoded,
    Multipart,
}

/// The fields in the order in which their names first occur. Each value is JSON text.
#[derive(Default)]
struct Fields {
    all: Vec<(String, Vec<String>)>,
    at: HashMap<String, usize>,
    count: usize,
}

impl FormKind {
    /// Returns the kind of form that a content type names, or `None` if it is not a form.
    pub fn of(content_type: &[u8]) -> Option<FormKind> {
        let media_type = message::media_type(content_type);
        let is = |name: &str| media_type.eq_ignore_ascii_case(name.as_bytes());
        match (is("application/x-www-form-urlencoded"), is("multipart/form-data")) {
            (true, _) => Some(FormKind::UrlEncoded),
            (false, true) => Some(FormKind::Multipart),
            (false, false) => None,
        }
    }

    /// Returns the fields as a JSON object.
    pub fn fields(self, content_type: &[u8], body: &[u8]) -> Result<String, MultipartError> {
        let mut fields = Fields::default();
        match self {
            FormKind::UrlEncoded => {
                for (name, value) in percent::pairs(body) {
                    let value = in_utf8(&percent::decoded(value, true))?;
                    fields.push(in_utf8(&name)?, string(&value))?;
                }
            }
            FormKind::Multipart => {
                let message = Multipart::read(content_type, body)?;
                for part in message.parts() {
                    let (name, value) = field(part, body)?;
                    fields.push(name, value)?;
                }
            }
        }
        Ok(fields.written())
    }
}

impl Fields {
    fn push(&mut self, name: String, value: String) -> Result<(), MultipartError> {
        self.count += 1;
        if self.count > FIELDS_MAX {
            return Err("there are over 10,000 fields");
        }
        match self.at.get(&name).and_then(|at| self.all.get_mut(*at)) {
            Some((_, values)) => values.push(value),
            None => {
                self.at.insert(name.clone(), self.all.len());
                self.all.push((name, vec![value]));
            }
        }
        Ok(())
    }

    fn written(&self) -> String {
        let mut out = "{".to_owned();
        for (place, (name, values)) in self.all.iter().enumerate() {
            out.push_str(if place == 0 { "" } else { "," });
            push_string(&mut out, name);
            out.push(':');
            match values.as_slice() {
                [one] => out.push_str(one),
                several => out.push_str(&format!("[{}]", several.join(","))),
            }
        }
        out.push('}');
        out
    }
}

fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_string(&mut out, text);
    out
}

/// Returns the name of a part and its `Content-Disposition`.
pub fn name_of<'m>(
    part: &Part,
    message: &'m [u8],
) -> Result<(String, Cow<'m, [u8]>), MultipartError> {
    let disposition = part.line(message, "content-disposition");
    let disposition = disposition.ok_or("a part of the form has no Content-Disposition")?;
    let name = single_parameter(&disposition, "name")?.ok_or("a part of the form has no name")?;
    if parameter(&disposition, "name*").is_some() || parameter(&disposition, "filename*").is_some()
    {
        // RFC 7578, 4.2 forbids `filename*`. Readers that support such parameters would use another name than those that do not.
        return Err("a part of the form has an extended name");
    }
    Ok((in_utf8(&name)?, disposition))
}

/// Returns the `Content-Disposition` of a field with this name and the other parameters of `from`.
pub fn disposition(name: &str, from: &[u8]) -> Vec<u8> {
    let mut out = b"form-data; name=\"".to_vec();
    // The escapes of the WHATWG's standard (HTML, 4.10.21.8).
    for byte in name.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"%22"),
            b'\r' => out.extend_from_slice(b"%0D"),
            b'\n' => out.extend_from_slice(b"%0A"),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
    // Harmless: only the old name is left out.
    for other in charset::parameters(from).filter(|one| charset::value_of(one, "name").is_none()) {
        out.extend_from_slice(b"; ");
        out.extend_from_slice(other);
    }
    out
}

/// Returns the name and the value of a part.
fn field(part: &Part, message: &[u8]) -> Result<(String, String), MultipartError> {
    let (name, disposition) = name_of(part, message)?;
    let content = part.content(message)?;
    let content_type = part.line(message, "content-type");
    let text = text_of(content_type.as_deref(), &content);
    let file = single_parameter(&disposition, "filename")?;
    let value = match (file, text) {
        (None, Some(text)) => string(&text),
        (file, text) => as_object(file.as_deref(), content_type.as_deref(), text, &content)?,
    };
    Ok((name, value))
}

fn as_object(
    file: Option<&[u8]>,
    content_type: Option<&[u8]>,
    text: Option<Cow<'_, str>>,
    content: &[u8],
) -> Result<String, MultipartError> {
    use base64::Engine as _;
    let coded = || base64::engine::general_purpose::STANDARD.encode(content);
    let (key, value) = match text {
        Some(text) => ("text", text.into_owned()),
        None => ("base64", coded()),
    };
    let known = |value: Option<&[u8]>| value.map(in_utf8).transpose();
    let members =
        [("filename", known(file)?), ("content_type", known(content_type)?), (key, Some(value))];
    let written = |(name, value): (&str, Option<String>)| {
        value.map(|value| format!("{}:{}", string(name), string(&value)))
    };
    // Harmless: a member that the part does not have is left out.
    let members: Vec<String> = members.into_iter().filter_map(written).collect();
    Ok(format!("{{{}}}", members.join(",")))
}

/// Returns the bytes as text. JSON can only hold UTF-8.
fn in_utf8(bytes: &[u8]) -> Result<String, MultipartError> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| "a name or a value of the form is not UTF-8")
}

/// Decodes bytes to text by their content type, or returns `None` if they are not text.
pub fn text_of<'m>(content_type: Option<&[u8]>, bytes: &'m [u8]) -> Option<Cow<'m, str>> {
    charset::text(content_type.and_then(charset::charset), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_members() {
        const TYPE: &str = "application/x-www-form-urlencoded";
        const PARTS: &str = "multipart/form-data; boundary=b";
        for (content_type, body, expected) in [
            (TYPE, &b""[..], Ok("{}")),
            (TYPE, b"a=1&b=%22x+y%22&&c&a=2&=d", Ok(r#"{"a":["1","2"],"b":"\"x y\"","c":"","":"d"}"#)),
            (TYPE, b"a=%c3%a9%00", Ok("{\"a\":\"\u{e9}\\u0000\"}")),
            (TYPE, b"a=%ff", Err("a name or a value of the form is not UTF-8")),
            (TYPE, b"%ff=a", Err("a name or a value of the form is not UTF-8")),
            (
                PARTS,
                b"--b\r\nContent-Disposition: form-data; name=\"\xff\"\r\n\r\nx\r\n--b--",
                Err("a name or a value of the form is not UTF-8"),
            ),
            (
                PARTS,
                b"--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"\xff\"\r\n\r\nx\r\n--b--",
                Err("a name or a value of the form is not UTF-8"),
            ),
            (
                PARTS,
                b"--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n--b\r\ncontent-disposition: form-data; name=f; filename=\"x;\\\".bin\"\r\nContent-Type: a/b\r\n\r\n\xff\r\n--b\r\nContent-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain; charset=iso-8859-1\r\n\r\n\xe9\r\n--b--",
                Ok(r#"{"a":["","é"],"f":{"filename":"x;\".bin","content_type":"a/b","base64":"/w=="}}"#),
            ),
            (
                PARTS,
                b"--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"\"\r\n\r\nx\r\n--b--",
                Ok(r#"{"a":{"filename":"","text":"x"}}"#),
            ),
            (PARTS, b"--b\r\n\r\nx\r\n--b--", Err("a part of the form has no Content-Disposition")),
            (
                PARTS,
                b"--b\r\nContent-Disposition: form-data\r\n\r\nx\r\n--b--",
                Err("a part of the form has no name"),
            ),
            (PARTS, b"--b", Err("no part begins with the boundary")),
        ] {
            let form = FormKind::of(content_type.as_bytes()).unwrap();
            let fields = form.fields(content_type.as_bytes(), body);
            assert_eq!(fields.as_deref(), expected.as_ref().map(|text| &**text), "{body:?}");
        }
        let many = "a&".repeat(10_001);
        assert!(FormKind::UrlEncoded.fields(TYPE.as_bytes(), many.as_bytes()).is_err());
        assert_eq!(FormKind::of(b"text/plain"), None);
    }
}
