//! `compress`: compresses replies for clients that accept it.
//!
//! A reply is compressed while it is streamed, and every piece from the upstream is sent at once, so that a slow reply is not held back.
//! Event streams, partial replies, already compressed replies and replies with `no-transform` pass unchanged.

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
    /// The encodings that may be used, the preferred one first.
    pub encodings: Vec<Encoding>,
    pub types: Vec<MediaType>,
    /// Replies whose announced length is smaller pass unchanged.
    pub bytes_min: u64,
}

/// A pattern for content types, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MediaType {
    Exact(String),
    /// A prefix, such as `text/`.
    Prefix(String),
    /// A suffix, such as `+json`.
    Suffix(String),
}

/// Returns the policy.
pub fn policy(settings: CompressSettings, slots: &mut Slots) -> Policy {
    let chosen = slots.assign();
    let choose = Choose { encodings: settings.encodings.clone(), chosen };
    Policy {
        name: "compress",
        request: Some(Step::Head(Box::new(choose))),
        response: Some(Step::Streamed(Box::new(Compress { settings, chosen }))),
    }
}

/// The request step. It records the encoding that the client accepts before other policies can change the header.
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
        let is_cached = head.status == 304 && self.settings.may_have_compressed(&head.headers);
        if !is_cached && !self.settings.may_compress(head) {
            return Ok(None);
        }
        if !head.headers.get_all("vary").any(|v| http1::list_has(v, "accept-encoding")) {
            head.headers.add_known("Vary", b"Accept-Encoding");
        }
        let Some(encoding) = self.chosen.remove(ex) else { return Ok(None) };
        if is_cached {
            body_lines::weaken(&mut head.headers);
            return Ok(None);
        }
        if announced(&head.headers).is_some_and(|bytes| bytes < self.settings.bytes_min.max(1)) {
            return Ok(None);
        }
        mark(encoding, &mut head.headers);
        if ex.notes.as_ref().is_some_and(|notes| notes.asked_head) {
            // The head is the same as for a GET, except for the length, which is unknown.
            Ok(Some(Box::new(Unsent)))
        } else {
            Ok(Some(Box::new(Coder::new(encoding)?)))
        }
    }
}

/// The body of a reply to a HEAD, which is not sent and whose length is unknown.
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

    /// Returns true if the reply that a 304 refers to may have been compressed here. A 304 usually has no content type.
    fn may_have_compressed(&self, lines: &Headers) -> bool {
        let wanted = lines.get("content-type").is_none_or(|kind| self.is_wanted(kind));
        wanted && is_plain(lines) && !is_forbidden(lines)
    }

    fn is_wanted(&self, content_type: &[u8]) -> bool {
        let kind = message::media_type(content_type).to_ascii_lowercase();
        !kind.is_empty()
            && self.types.iter().any(|wanted| match wanted {
                MediaType::Exact(name) => name.as_bytes() == kind,
                MediaType::Prefix(front) => kind.starts_with(front.as_bytes()),
                MediaType::Suffix(end) => kind.ends_with(end.as_bytes()),
            })
    }
}

fn is_plain(lines: &Headers) -> bool {
    lines.get_all("content-encoding").all(|v| v.eq_ignore_ascii_case(b"identity"))
}

fn is_forbidden(lines: &Headers) -> bool {
    lines.get_all("cache-control").any(|value| http1::list_has(value, "no-transform"))
}

/// Returns the announced length of the reply.
fn announced(headers: &Headers) -> Option<u64> {
    // Harmless: the length was validated when the reply was received. A reply without an announced length is compressed.
    std::str::from_utf8(headers.get("content-length")?).ok()?.parse().ok()
}

/// Sets the content encoding of a compressed reply, and removes the lines that describe the original bytes.
fn mark(encoding: Encoding, headers: &mut Headers) {
    ["content-encoding", "content-length"].iter().for_each(|name| headers.remove(name));
    headers.add_known("Content-Encoding", encoding.name().as_bytes());
    body_lines::recoded(headers);
}
