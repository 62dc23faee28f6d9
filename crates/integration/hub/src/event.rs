//! Events: their encoding in the log and for readers.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use kit::calendar;
use store::Record;

use crate::representation::Representation;

/// One event of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    /// The position in the topic's log.
    pub(crate) id: u64,
    /// When it was published, since the Unix epoch.
    pub(crate) time: Duration,
    /// The publisher's description of the body.
    pub(crate) representation: Representation,
    pub(crate) body: Bytes,
    forms: Forms,
}

/// The encodings of an event that has several readers. Each is written once and shared.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Forms {
    sse: OnceCell<Bytes>,
    json: OnceCell<Bytes>,
}

/// The first byte of a record is its version. Version 1 has only the content type and the body.
const VERSION: u8 = 1;
/// Version 2 has more header lines between the content type and the body.
const VERSION_WITH_LINES: u8 = 2;

/// The content type of an event that was published without one (RFC 9110, 8.3).
const UNKNOWN_TYPE: &str = "application/octet-stream";

/// Encodes an event as a record: the version, the content type, in version 2 the other lines, and the body. The content type and the lines
/// are each preceded by their length in two bytes. Returns `None` if one of them is too long.
pub fn record(representation: &Representation, body: &[u8]) -> Option<Bytes> {
    let Representation { content_type, lines } = representation;
    let lens = content_type.len() + lines.len() + 5;
    let mut record = Vec::with_capacity(body.len() + lens);
    let add = |part: &[u8], record: &mut Vec<u8>| {
        record.extend_from_slice(&u16::try_from(part.len()).ok()?.to_be_bytes());
        record.extend_from_slice(part);
        Some(())
    };
    record.push(if lines.is_empty() { VERSION } else { VERSION_WITH_LINES });
    add(content_type, &mut record)?;
    if !lines.is_empty() {
        add(lines, &mut record)?;
    }
    record.extend_from_slice(body);
    Some(record.into())
}

/// Splits a record into the representation and the body. Returns `None` if the record is truncated or has an unknown version.
pub fn parts(record: &Bytes) -> Option<(Representation, Bytes)> {
    let (version, _) = record.split_first()?;
    let mut rest = record.slice(1..);
    let content_type = part(&mut rest)?;
    let lines = match *version {
        VERSION => Bytes::new(),
        VERSION_WITH_LINES => part(&mut rest)?,
        _ => return None,
    };
    Some((Representation { content_type, lines }, rest))
}

fn part(rest: &mut Bytes) -> Option<Bytes> {
    let (len, after) = rest.split_first_chunk::<2>()?;
    let len = usize::from(u16::from_be_bytes(*len));
    if after.len() < len {
        return None;
    }
    let mut after = rest.slice(2..);
    let part = after.split_to(len);
    *rest = after;
    Some(part)
}

impl Event {
    /// Decodes a record. Returns `None` if the record is truncated or has an unknown version.
    pub(crate) fn of(record: &Record) -> Option<Event> {
        let (representation, body) = parts(&record.bytes)?;
        let forms = Forms::default();
        Some(Event { id: record.position, time: record.time, representation, body, forms })
    }

    /// Appends the event in the format of long polls and WebSockets.
    pub(crate) fn add_json(self: &Rc<Event>, out: &mut Vec<u8>) {
        self.add(&self.forms.json, Event::write_json, out);
    }

    /// Appends the event in the format of event streams.
    pub(crate) fn add_sse(self: &Rc<Event>, out: &mut Vec<u8>) {
        self.add(&self.forms.sse, Event::write_sse, out);
    }

    /// Appends an encoding. If others also hold the event, the encoding is written once and shared.
    fn add(
        self: &Rc<Event>,
        form: &OnceCell<Bytes>,
        write: fn(&Event, &mut Vec<u8>),
        out: &mut Vec<u8>,
    ) {
        match Rc::strong_count(self) {
            1 => write(self, out),
            _ => out.extend_from_slice(form.get_or_init(|| {
                let mut written = Vec::with_capacity(self.body.len());
                write(self, &mut written);
                written.into()
            })),
        }
    }

    /// The body, if it is text.
    fn text(&self) -> Option<&str> {
        // Harmless: bodies that are not text are encoded as base64.
        std::str::from_utf8(&self.body).ok()
    }

    /// Writes the event as a JSON object.
    fn write_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"id\":\"");
        number(self.id, 1, out);
        out.extend_from_slice(b"\",\"type\":");
        if self.representation.content_type.is_empty() {
            string(UNKNOWN_TYPE, out)
        } else {
            string(&text_of_line(&self.representation.content_type), out)
        }
        self.write_lines(out);
        out.extend_from_slice(b",\"time\":\"");
        write_rfc3339(self.time, out);
        match self.text() {
            Some(text) => {
                out.extend_from_slice(b"\",\"body\":");
                string(text, out);
            }
            None => {
                out.extend_from_slice(b"\",\"base64\":\"");
                out.extend_from_slice(STANDARD.encode(&self.body).as_bytes());
                out.push(b'"');
            }
        }
        out.push(b'}');
    }

    /// Writes the lines other than the content type, if any, as an object. The values of a repeated name are joined, as in HTTP.
    fn write_lines(&self, out: &mut Vec<u8>) {
        if self.representation.lines().next().is_none() {
            return;
        }
        let mut lines = serde_json::Map::new();
        for (name, value) in self.representation.lines() {
            let (name, value) = (text_of_line(name), text_of_line(value));
            let known = lines.get(&*name).and_then(serde_json::Value::as_str);
            let value = known.map_or(value.to_string(), |known| format!("{known}, {value}"));
            lines.insert(name.into_owned(), value.into());
        }
        out.extend_from_slice(b",\"headers\":");
        // Harmless: writing to a vector never fails.
        let _ = serde_json::to_writer(out, &lines);
    }

    /// Writes the event in the format of event streams (WHATWG HTML, 9.2.5).
    fn write_sse(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"id: ");
        number(self.id, 1, out);
        out.push(b'\n');
        match self.text() {
            Some(text) => lines(text).for_each(|line| data(line, out)),
            None => {
                out.extend_from_slice(b"event: base64\n");
                data(&STANDARD.encode(&self.body), out);
            }
        }
        out.push(b'\n');
    }

    /// True if the body is UTF-8. A WebSocket then sends it as a text message.
    pub(crate) fn is_text(&self) -> bool {
        self.text().is_some()
    }
}

fn data(line: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(line.as_bytes());
    out.push(b'\n');
}

/// The lines of a text. CR LF, LF and CR end a line.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let text = rest?;
        let Some(at) = memchr::memchr2(b'\r', b'\n', text.as_bytes()) else {
            rest = None;
            return Some(text);
        };
        let (line, after) = text.split_at_checked(at)?;
        rest = after.strip_prefix("\r\n").or_else(|| after.get(1..));
        Some(line)
    })
}

/// Formats a time as in RFC 3339, with milliseconds, in UTC.
pub fn rfc3339(time: Duration) -> String {
    let mut text = Vec::new();
    write_rfc3339(time, &mut text);
    // Harmless: only ASCII was written.
    String::from_utf8(text).unwrap_or_default()
}

fn write_rfc3339(time: Duration, out: &mut Vec<u8>) {
    let days = i64::try_from(time.as_secs() / 86_400).unwrap_or(i64::MAX);
    let (year, month, day) = calendar::date_of(days);
    let second = time.as_secs() % 86_400;
    let date = [(year, 4, b'-'), (month, 2, b'-'), (day, 2, b'T')];
    for (part, width, separator) in date {
        // The times of events are never before the epoch.
        number(u64::try_from(part).unwrap_or(0), width, out);
        out.push(separator);
    }
    for (part, separator) in [(second / 3600, b':'), (second / 60 % 60, b':'), (second % 60, b'.')]
    {
        number(part, 2, out);
        out.push(separator);
    }
    number(time.subsec_millis().into(), 3, out);
    out.push(b'Z');
}

/// Appends a number, padded with zeros to `width` digits.
fn number(mut value: u64, width: usize, out: &mut Vec<u8>) {
    let mut digits = [b'0'; 20];
    let mut count = 0;
    for digit in digits.iter_mut().rev() {
        if value == 0 && count >= width {
            break;
        }
        *digit = b'0' + u8::try_from(value % 10).unwrap_or_default();
        value /= 10;
        count += 1;
    }
    out.extend_from_slice(digits.get(digits.len() - count..).unwrap_or_default());
}

/// Decodes a part of a header line. Bytes that are not UTF-8 are read as ISO-8859-1 (RFC 9110, 5.5), so that none is lost.
pub(crate) fn text_of_line(part: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(part) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => Cow::Owned(part.iter().map(|byte| char::from(*byte)).collect()),
    }
}

/// Appends a text as a JSON string.
fn string(text: &str, out: &mut Vec<u8>) {
    // Harmless: writing to a vector never fails.
    let _ = serde_json::to_writer(out, text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn representation(content_type: &str, lines: &str) -> Representation {
        let (content_type, lines) = (content_type.to_owned().into(), lines.to_owned().into());
        Representation { content_type, lines }
    }

    fn event(content_type: &str, body: &[u8]) -> Event {
        let bytes = record(&representation(content_type, ""), body).unwrap();
        Event::of(&Record { position: 7, time: Duration::from_millis(1_764_039_600_042), bytes })
            .unwrap()
    }

    #[test]
    fn a_record_is_decoded_and_an_invalid_one_is_refused() {
        let read = event("text/plain", b"a\0b");
        assert_eq!(
            (&*read.representation.content_type, &*read.body),
            (&b"text/plain"[..], &b"a\0b"[..])
        );
        let others: [&[u8]; 7] = [
            b"",
            b"\x01",
            b"\x01\0\x01",
            b"\x02\0\0",
            b"\x02\0\0\0\x02a",
            b"\x03\0\0",
            b"\x01\xff\xffabc",
        ];
        for bytes in others {
            let record =
                Record { position: 1, time: Duration::ZERO, bytes: Bytes::copy_from_slice(bytes) };
            assert_eq!(Event::of(&record), None, "{bytes:?}");
        }
        assert!(record(&representation(&"x".repeat(65_536), ""), b"").is_none());
    }

    #[test]
    fn lines_of_an_event_are_read_again_and_shown() {
        let lines = "content-encoding: gzip\r\nce-id: 1\r\nce-id: 2\r\n";
        let bytes = record(&representation("text/plain", lines), b"x").unwrap();
        let read = Event::of(&Record { position: 7, time: Duration::ZERO, bytes }).unwrap();
        assert_eq!(
            (&read.representation, &*read.body),
            (&representation("text/plain", lines), &b"x"[..])
        );
        let mut json = Vec::new();
        read.write_json(&mut json);
        let expected = r#"{"id":"7","type":"text/plain","headers":{"content-encoding":"gzip","ce-id":"1, 2"},"time":"1970-01-01T00:00:00.000Z","body":"x"}"#;
        assert_eq!(String::from_utf8(json).unwrap(), expected);
    }

    #[test]
    fn a_line_that_is_not_utf_8_keeps_each_byte() {
        for (part, text) in [(&b"caf\xc3\xa9"[..], "caf\u{e9}"), (b"caf\xe9", "caf\u{e9}")] {
            assert_eq!(text_of_line(part), text);
        }
        let all: Vec<u8> = (0x80..=0xff).collect();
        let shown = text_of_line(&all);
        assert!(shown.chars().map(u32::from).eq(0x80..=0xff), "{shown}");
    }

    #[test]
    fn json_holds_text_as_text_and_other_bytes_as_base64() {
        for (event, expected) in [
            (
                event("application/json", b"{\"a\":1}"),
                r#"{"id":"7","type":"application/json","time":"2025-11-25T03:00:00.042Z","body":"{\"a\":1}"}"#,
            ),
            (
                event("", b"\xff\xfe"),
                r#"{"id":"7","type":"application/octet-stream","time":"2025-11-25T03:00:00.042Z","base64":"//4="}"#,
            ),
            (
                event("a\"\u{ff}", "\0\n\"\\\u{e9}\u{2028}".as_bytes()),
                "{\"id\":\"7\",\"type\":\"a\\\"\u{ff}\",\"time\":\"2025-11-25T03:00:00.042Z\",\"body\":\"\\u0000\\n\\\"\\\\\u{e9}\u{2028}\"}",
            ),
        ] {
            let mut json = Vec::new();
            event.write_json(&mut json);
            assert_eq!(String::from_utf8(json).unwrap(), expected);
        }
    }

    #[test]
    fn a_stream_has_a_data_field_for_each_line() {
        for (body, expected) in [
            (&b"a"[..], "id: 7\ndata: a\n\n"),
            (b"", "id: 7\ndata: \n\n"),
            (b"a\nb\r\nc\rd", "id: 7\ndata: a\ndata: b\ndata: c\ndata: d\n\n"),
            (b"a\n", "id: 7\ndata: a\ndata: \n\n"),
            (b"\n\nid: 9\n\n", "id: 7\ndata: \ndata: \ndata: id: 9\ndata: \ndata: \n\n"),
            (b"\xff\xfe", "id: 7\nevent: base64\ndata: //4=\n\n"),
        ] {
            let mut out = Vec::new();
            event("text/plain", body).write_sse(&mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{body:?}");
        }
    }

    #[test]
    fn a_form_that_several_readers_get_is_written_once() {
        let alone = Rc::new(event("text/plain", b"a\nb"));
        let (mut sse, mut json) = (Vec::new(), Vec::new());
        alone.add_sse(&mut sse);
        alone.add_json(&mut json);
        assert_eq!(alone.forms, Forms::default(), "an event with one reader keeps no encoding");
        let (one, other) = (alone.clone(), alone);
        for (number, event) in [one, other].iter().enumerate() {
            let (mut second_sse, mut second_json) = (Vec::new(), Vec::new());
            let kept = event.forms.sse.get().map(|form| form.as_ptr());
            assert_eq!(kept.is_some(), number > 0);
            event.add_sse(&mut second_sse);
            event.add_json(&mut second_json);
            assert_eq!((&second_sse, &second_json), (&sse, &json));
            let now = event.forms.sse.get().map(|form| form.as_ptr());
            assert!(kept.is_none_or(|_| kept == now));
        }
    }

    #[test]
    fn times_are_formatted_as_in_rfc_3339() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_827_696_789, "2000-02-29T12:34:56.789Z"),
            (4_102_444_799_999, "2099-12-31T23:59:59.999Z"),
        ] {
            assert_eq!(rfc3339(Duration::from_millis(millis)), expected);
        }
    }
}
