//! `compress`: replies in fewer bytes, for clients that say they can read them.
//!
//! A reply is compressed as it streams, and every piece that came from the upstream goes out at once, so that a slow reply
//! is not held back. Event streams, ranges, what is compressed already and what forbids it pass untouched.

mod accept;
mod coder;

use fault::Fault;
use message::{Fill, Headers, ReplyHead, RequestHead};
use policy::{
    BodyTransform, Exchange, Flow, OnHead, OnStreamed, Onward, Policy, Slot, Slots, Step,
};

pub use coder::Encoding;

use crate::body_lines;
use coder::Coder;

/// Settings of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompressSettings {
    /// Those that may be used, the preferred one first.
    pub encodings: Vec<Encoding>,
    pub types: Vec<MediaType>,
    /// Replies announced smaller than this pass untouched.
    pub bytes_min: u64,
}

/// Content types, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaType {
    Exact(String),
    /// Begins like this: `text/`.
    Below(String),
    /// Ends like this: `+json`.
    Suffixed(String),
}

/// The policy.
pub fn policy(settings: CompressSettings, slots: &mut Slots) -> Policy {
    let chosen = slots.assign();
    let choose = Choose { encodings: settings.encodings.clone(), chosen };
    Policy {
        name: "compress",
        request: Some(Step::Head(Box::new(choose))),
        response: Some(Step::Streamed(Box::new(Compress { settings, chosen }))),
    }
}

/// Keeps what the client wants, which no later step may see: another policy could have changed it.
struct Choose {
    encodings: Vec<Encoding>,
    chosen: Slot<Encoding>,
}

struct Compress {
    settings: CompressSettings,
    chosen: Slot<Encoding>,
}

impl OnHead<RequestHead> for Choose {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        if let Some(encoding) = accept::choose(&head.headers, &self.encodings) {
            self.chosen.put(ex, encoding);
        }
        Ok(Onward::Next)
    }
}

impl OnStreamed<ReplyHead> for Compress {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        let is_held = head.status == 304 && self.settings.may_have_compressed(&head.headers);
        if !is_held && !self.settings.may_compress(head) {
            return Ok(None);
        }
        if !head.headers.get_all("vary").any(|v| http1::list_has(v, "accept-encoding")) {
            head.headers.add_known("Vary", b"Accept-Encoding");
        }
        let Some(encoding) = self.chosen.remove(ex) else { return Ok(None) };
        if is_held {
            body_lines::weaken(&mut head.headers);
            return Ok(None);
        }
        if announced(&head.headers).is_some_and(|bytes| bytes < self.settings.bytes_min.max(1)) {
            return Ok(None);
        }
        mark(encoding, &mut head.headers);
        if ex.notes.as_ref().is_some_and(|notes| notes.asked_head) {
            // As a GET would have been answered, but for the length that nobody knows.
            Ok(Some(Box::new(Unsent)))
        } else {
            Ok(Some(Box::new(Coder::new(encoding)?)))
        }
    }
}

/// The body of a reply to a HEAD: nobody sends it, and how long it would be is not known.
struct Unsent;

impl BodyTransform for Unsent {
    fn on_bytes(&mut self, _bytes: &[u8], _out: &mut Vec<u8>) -> Result<Fill, Fault> {
        Ok(Fill::More)
    }

    fn on_end(&mut self, _out: &mut Vec<u8>) -> Result<(), Fault> {
        Ok(())
    }
}

impl CompressSettings {
    fn may_compress(&self, head: &ReplyHead) -> bool {
        let lines = &head.headers;
        let has_body = head.status >= 200 && !matches!(head.status, 204 | 205 | 206 | 304);
        has_body
            && is_plain(lines)
            && !head.is_event_stream()
            && !lines.contains("content-range")
            && self.is_wanted(lines.get("content-type").unwrap_or(b""))
            && !is_forbidden(lines)
    }

    /// A 304 is about a reply that went through here, and seldom says of which type that was.
    fn may_have_compressed(&self, lines: &Headers) -> bool {
        let wanted = lines.get("content-type").is_none_or(|kind| self.is_wanted(kind));
        wanted && is_plain(lines) && !is_forbidden(lines)
    }

    fn is_wanted(&self, content_type: &[u8]) -> bool {
        let kind = message::media_type(content_type).to_ascii_lowercase();
        !kind.is_empty()
            && self.types.iter().any(|wanted| match wanted {
                MediaType::Exact(name) => name.as_bytes() == kind,
                MediaType::Below(front) => kind.starts_with(front.as_bytes()),
                MediaType::Suffixed(end) => kind.ends_with(end.as_bytes()),
            })
    }
}

fn is_plain(lines: &Headers) -> bool {
    lines.get_all("content-encoding").all(|v| v.eq_ignore_ascii_case(b"identity"))
}

fn is_forbidden(lines: &Headers) -> bool {
    lines.get_all("cache-control").any(|value| http1::list_has(value, "no-transform"))
}

/// As many bytes as the reply says it has.
fn announced(headers: &Headers) -> Option<u64> {
    // Harmless: the length was read when the reply came; without one the body is gathered until it is long enough.
    std::str::from_utf8(headers.get("content-length")?).ok()?.parse().ok()
}

/// The compressed reply is another representation: what was said of the bytes is not true of it.
fn mark(encoding: Encoding, headers: &mut Headers) {
    ["content-encoding", "content-length"].iter().for_each(|name| headers.remove(name));
    headers.add_known("Content-Encoding", encoding.name().as_bytes());
    body_lines::recoded(headers);
}
