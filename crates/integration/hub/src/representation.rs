//! The header lines of a publisher that describe its event, such as `Content-Encoding`. Without them a recipient cannot decode the body.

use bytes::Bytes;
use fault::{Fault, Kind};
use message::Headers;
use telemetry::span::{ParentSpan, SpanIds};

/// The publisher's description of an event's body.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Representation {
    /// Empty if there was none.
    pub content_type: Bytes,
    /// The other lines, as `name: value` with a line end after each. Names are in lower case.
    pub lines: Bytes,
}

/// Lines that belong to a representation (RFC 9110, 8; RFC 9530; RFC 6266).
const NAMES: [&str; 7] = [
    "content-encoding",
    "content-language",
    "content-location",
    "content-disposition",
    "content-digest",
    "repr-digest",
    "content-md5",
];

/// The attributes of a CloudEvent (HTTP protocol binding, 3.1.3).
const ATTRIBUTES: &[u8] = b"ce-";

/// The line with the span that published an event.
const SPAN: &[u8] = b"traceparent";

/// The maximum size of the content type and the lines. They are stored, and sent with each delivery.
const BYTES_MAX: usize = 16 * 1024;

impl Representation {
    /// Takes the representation from the head of a publisher's request.
    pub(crate) fn of(headers: &Headers) -> Result<Representation, Fault> {
        let content_type = headers.get("content-type").unwrap_or(b"");
        let mut lines = Vec::new();
        for (name, value) in headers.iter().filter(|(name, _)| belongs(name)) {
            add(name, value, &mut lines);
        }
        if content_type.len() + lines.len() > BYTES_MAX {
            let what = "The header fields of an event are larger than 16 KiB together.";
            return Err(Fault::with_detail(Kind::HeadTooLarge, what, what));
        }
        let content_type = Bytes::copy_from_slice(content_type);
        Ok(Representation { content_type, lines: lines.into() })
    }

    /// Makes a representation with the given lines. Lines that do not belong to a representation are left out. Lines that are not valid in
    /// HTTP or are too large are left out with a warning: the values do not come from a request head and may contain line breaks.
    pub fn with_lines<'l>(
        content_type: Bytes,
        lines: impl Iterator<Item = (&'l [u8], &'l [u8])>,
    ) -> Representation {
        let is_line = http1::is_header_value(&content_type) && content_type.len() <= BYTES_MAX;
        if !is_line {
            left_out(b"content-type");
        }
        let content_type = if is_line { content_type } else { Bytes::new() };
        let mut kept = Vec::new();
        for (name, value) in lines {
            let is_line = http1::is_token(name) && http1::is_header_value(value);
            let bytes = content_type.len() + kept.len() + name.len() + value.len();
            if !belongs(name) {
                continue;
            }
            if is_line && bytes < BYTES_MAX {
                add(name, value, &mut kept);
            } else {
                left_out(name);
            }
        }
        Representation { content_type, lines: kept.into() }
    }

    /// Adds the span that publishes the event, if the request is traced. The span is stored as a line that readers do not see.
    pub(crate) fn published_by(mut self, span: Option<SpanIds>) -> Representation {
        if let Some(span) = span {
            let mut lines = self.lines.to_vec();
            add(SPAN, &span.traceparent(), &mut lines);
            self.lines = lines.into();
        }
        self
    }

    /// The span that published the event, if it is known.
    pub(crate) fn span(&self) -> Option<SpanIds> {
        let (_, value) = self.all_lines().find(|(name, _)| *name == SPAN)?;
        let parent = ParentSpan::of_traceparent(value)?;
        let (trace_id, span_id) = parent.ids?;
        Some(SpanIds { trace_id, span_id, sampled: parent.sampled? })
    }

    /// The names and values of the lines other than the content type.
    pub fn lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.all_lines().filter(|(name, _)| *name != SPAN)
    }

    fn all_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        // Harmless: each line has a colon, and nothing follows the last line end.
        self.lines.split(|byte| *byte == b'\n').filter_map(|line| {
            let at = line.iter().position(|byte| *byte == b':')?;
            let (name, value) = line.split_at_checked(at)?;
            Some((name, value.get(1..)?.trim_ascii()))
        })
    }
}

fn left_out(name: &[u8]) {
    // Harmless: the text is only logged.
    let header = String::from_utf8_lossy(name);
    tracing::warn!(
        header = &*header,
        "a header of an event is not a valid header line, or is too large; it is left out"
    );
}

/// True if a line belongs to the representation.
fn belongs(name: &[u8]) -> bool {
    let begins = name.get(..ATTRIBUTES.len());
    let is_attribute = begins.is_some_and(|begins| begins.eq_ignore_ascii_case(ATTRIBUTES));
    is_attribute || NAMES.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

fn add(name: &[u8], value: &[u8], lines: &mut Vec<u8>) {
    lines.extend(name.iter().map(u8::to_ascii_lowercase));
    lines.extend_from_slice(b": ");
    lines.extend_from_slice(value);
    lines.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_belong_to_the_event_are_kept_and_no_others() {
        let mut headers = Headers::default();
        for (name, value) in [
            ("Content-Type", "text/plain"),
            ("Content-Encoding", "gzip"),
            ("Content-Length", "7"),
            ("CE-Id", "a: b"),
            ("ce-time", ""),
            ("Accept", "x"),
            ("Cookie", "secret"),
            ("Ce", "x"),
        ] {
            headers.add(name, value.as_bytes()).unwrap();
        }
        let read = Representation::of(&headers).unwrap();
        assert_eq!(&*read.content_type, b"text/plain");
        let lines: Vec<(&[u8], &[u8])> = read.lines().collect();
        let expected: [(&[u8], &[u8]); 3] =
            [(b"content-encoding", b"gzip"), (b"ce-id", b"a: b"), (b"ce-time", b"")];
        assert_eq!(lines, expected);
        assert_eq!(Representation::with_lines(read.content_type.clone(), read.lines()), read);
        headers.add("ce-large", &[b'x'; BYTES_MAX]).unwrap();
        assert_eq!(Representation::of(&headers).unwrap_err().kind, Kind::HeadTooLarge);
        let lines: [(&[u8], &[u8]); 5] = [
            (b"ce-a", b"x\r\ny: z"),
            (b"host", b"a"),
            (b"ce-a\r\nhost", b"a"),
            (b"ce-a: b", b"c"),
            (b"ce-\xff", b"a"),
        ];
        for content_type in ["text/plain\r\nHost: a", "\0", &"x".repeat(BYTES_MAX + 1)] {
            let content_type = Bytes::copy_from_slice(content_type.as_bytes());
            let read = Representation::with_lines(content_type, lines.into_iter());
            assert_eq!(read, Representation::default());
        }
    }
}
