//! The message that goes from step to step.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use mediation::charset;
use message::{Body, Headers, Names, Reply};

use crate::content::Content;
use crate::sender::Sender;

/// A message: the request as received, a reply, or the product of steps.
#[derive(Debug)]
pub(crate) struct Message {
    /// The status of a reply. `None` for a request.
    pub(crate) status: Option<u16>,
    /// All lines of a reply. For a request, only the lines about its body and those that the flow has set: the client's other lines are in
    /// [`State::request_lines`](crate::state::State) and are never sent back to the client.
    pub(crate) lines: Headers,
    pub(crate) payload: Payload,
}

pub(crate) enum Payload {
    /// The body has not been read into memory.
    Stream {
        body: Body,
        maker: Sender,
        /// The remaining time of its call, if the call has a timeout.
        time: Option<Duration>,
    },
    Held(Rc<Content>),
}

impl Payload {
    /// Returns the payload of a message whose body a step has removed.
    pub(crate) fn empty() -> Payload {
        Payload::Stream { body: Body::Empty, maker: Sender::Flow, time: None }
    }
}

/// Lines that describe a body and are sent with it.
const OF_BODY: Names<10> = Names::new(
    [
        "content-type",
        "content-encoding",
        "content-language",
        "content-location",
        "content-disposition",
        "content-range",
        "content-digest",
        "repr-digest",
        "digest",
        "content-md5",
    ],
    "content-type\ncontent-encoding\ncontent-language\ncontent-location\ncontent-disposition\ncontent-range\ncontent-digest\nrepr-digest\ndigest\ncontent-md5",
);

/// Lines with which a client asks for ranges, conditions and codings (RFC 9110, 12.5.3, 13 and 14). They apply only to the reply to the
/// client.
const ABOUT_REPLY: Names<7> = Names::new(
    [
        ACCEPT_ENCODING,
        "range",
        "if-range",
        "if-match",
        "if-none-match",
        "if-modified-since",
        "if-unmodified-since",
    ],
    "accept-encoding\nrange\nif-range\nif-match\nif-none-match\nif-modified-since\nif-unmodified-since",
);

pub(crate) const ACCEPT_ENCODING: &str = "accept-encoding";

/// Removes the lines about the reply to the client from a request's lines, and returns them.
pub(crate) fn take_lines_about_reply(lines: &mut Headers) -> Option<Rc<Headers>> {
    let mut taken = lines.has_any(&ABOUT_REPLY).then(Headers::new);
    if let Some(taken) = &mut taken {
        for name in ABOUT_REPLY.each() {
            lines.get_all(name).for_each(|value| taken.add_known(name, value));
        }
    }
    // Also removes lines whose names have other spellings.
    lines.remove_all(&ABOUT_REPLY);
    taken.filter(|taken| !taken.is_empty()).map(Rc::new)
}

/// Returns true for a line that describes the body. It belongs to one message, so that later calls do not send it.
pub(crate) fn is_of_body(name: &str) -> bool {
    of_body(name.as_bytes()).is_some()
}

/// Returns the name in `OF_BODY` that equals a name, ignoring case.
fn of_body(name: &[u8]) -> Option<&'static str> {
    let each = OF_BODY.each();
    each.into_iter().find(|known| known.as_bytes().eq_ignore_ascii_case(name))
}

/// Lines that describe the received bytes. They are removed when a step changes the bytes (RFC 9530, RFC 3230, RFC 1864, RFC 9110).
pub(crate) const OF_BYTES: Names<8> = Names::new(
    [
        "content-encoding",
        "content-length",
        "content-digest",
        "repr-digest",
        "digest",
        "content-md5",
        "accept-ranges",
        "etag",
    ],
    "content-encoding\ncontent-length\ncontent-digest\nrepr-digest\ndigest\ncontent-md5\naccept-ranges\netag",
);

impl Message {
    /// Creates the message of the request. Lines about its body are moved out of `lines`.
    pub(crate) fn request(lines: &mut Headers, body: Body) -> Message {
        let mut own = Headers::new();
        add_of_body(&mut own, lines);
        lines.remove_all(&OF_BODY);
        lines.remove("content-length");
        Message {
            status: None,
            lines: own,
            payload: Payload::Stream { body, maker: Sender::Client, time: None },
        }
    }

    /// Creates the message of an upstream's reply, with the time in which a step may read its body.
    pub(crate) fn reply(reply: Reply, time: Option<Duration>) -> Message {
        Message {
            status: Some(reply.head.status),
            lines: reply.head.headers,
            payload: Payload::Stream { body: reply.body, maker: Sender::Upstream, time },
        }
    }

    pub(crate) fn content_type(&self) -> Option<&[u8]> {
        self.lines.get("content-type")
    }

    /// Returns true if its body is still being received.
    pub(crate) fn arrives(&self) -> bool {
        matches!(self.payload, Payload::Stream { body: Body::Stream(_), .. })
    }

    /// Returns the content of the body, or `None` while the body is a stream.
    pub(crate) fn content(&self) -> Option<&Rc<Content>> {
        match &self.payload {
            Payload::Held(content) => Some(content),
            Payload::Stream { .. } => None,
        }
    }

    /// Replaces the body and its content type.
    pub(crate) fn replace(&mut self, bytes: Bytes, content_type: &[u8]) {
        self.lines.remove_all(&OF_BYTES);
        self.lines.remove("content-type");
        self.lines.add_known("Content-Type", content_type);
        let content = Content::new(bytes, Some(content_type), Sender::Flow);
        self.payload = Payload::Held(Rc::new(content));
    }

    /// Replaces the body by a text of the same content type. Attachments are kept.
    pub(crate) fn rewrite(&mut self, text: String) -> Result<(), Fault> {
        if self.exchange_root(text.as_bytes(), None)? {
            return Ok(());
        }
        self.lines.remove_all(&OF_BYTES);
        let recoded = self.content_type().and_then(|own| charset::recoded(own, "utf-8"));
        if let Some(content_type) = recoded {
            self.lines.remove("content-type");
            self.lines.add_known("Content-Type", content_type.as_bytes());
        }
        let content = Content::new(text.into(), self.content_type(), Sender::Flow);
        self.payload = Payload::Held(Rc::new(content));
        Ok(())
    }

    /// Replaces the root part of a message with attachments. Returns false if the message has no attachments.
    pub(crate) fn exchange_root(
        &mut self,
        root: &[u8],
        content_type: Option<&str>,
    ) -> Result<bool, Fault> {
        let Some(content) = self.content().cloned() else { return Ok(false) };
        let Some(known) = content.root() else { return Ok(false) };
        let whole = known.exchanged(&content.bytes, root, content_type).ok_or_else(|| {
            let cause = "the new text of the root part contains the boundary of the message";
            Fault::new(Kind::Template, cause)
        })?;
        self.lines.remove_all(&OF_BYTES);
        self.payload =
            Payload::Held(Rc::new(Content::new(whole, self.content_type(), Sender::Flow)));
        Ok(true)
    }

    /// A second message with the same content. A body that is not in memory is not copied.
    pub(crate) fn copy(&self) -> Message {
        let payload = match &self.payload {
            Payload::Held(content) => Payload::Held(content.clone()),
            Payload::Stream { maker, .. } => {
                Payload::Stream { body: Body::Empty, maker: *maker, time: None }
            }
        };
        Message { status: self.status, lines: self.lines.clone(), payload }
    }

    /// The body to send. A body in memory is kept.
    pub(crate) fn body(&mut self) -> Body {
        match &mut self.payload {
            Payload::Stream { body, .. } => std::mem::take(body),
            Payload::Held(content) => Body::whole(content.bytes.clone()),
        }
    }

    /// Drops the parsed form of a large body. If later steps read `levels` levels of the message, it is parsed again.
    pub(crate) fn forget_view(&mut self, levels: Option<usize>) {
        match &mut self.payload {
            Payload::Stream { body, .. } => body.forget_view(),
            Payload::Held(content) => {
                if let Some(unread) = content.unread(levels) {
                    *content = Rc::new(unread);
                }
            }
        }
    }

    /// Adds its own lines about the body to those of a request.
    pub(crate) fn add_lines_of_body(&self, to: &mut Headers) {
        add_of_body(to, &self.lines);
    }

    /// Returns the message as the reply to a HEAD. The length of a body in memory is left out: the reply to a GET may have another one.
    pub(crate) fn into_reply_to_head(mut self) -> Reply {
        if matches!(self.payload, Payload::Held(_)) {
            self.lines.remove("content-length");
            self.payload = Payload::Stream { body: Body::Empty, maker: Sender::Flow, time: None };
        }
        self.into_reply()
    }

    /// The message as the reply of the route.
    pub(crate) fn into_reply(self) -> Reply {
        let body = match self.payload {
            Payload::Stream { body, .. } => body,
            Payload::Held(content) => Body::whole(content.bytes.clone()),
        };
        let mut reply = Reply::new(self.status.unwrap_or(200), body);
        reply.head.headers = self.lines;
        reply
    }
}

fn add_of_body(to: &mut Headers, from: &Headers) {
    for (name, value) in from.iter() {
        if let Some(name) = of_body(name) {
            to.add_known(name, value);
        }
    }
}

impl std::fmt::Debug for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Payload::Stream { body, .. } => write!(f, "a stream of {:?} bytes", body.remaining()),
            Payload::Held(content) => write!(f, "{:?}", content.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_each_list_of_names_agree() {
        assert_eq!(OF_BODY.each().join("\n"), OF_BODY.all());
        assert_eq!(OF_BYTES.each().join("\n"), OF_BYTES.all());
        assert_eq!(ABOUT_REPLY.each().join("\n"), ABOUT_REPLY.all());
    }
}
