//! Handles messages with attachments for policies over XML: a step sees the root part as if it were the whole message.
//!
//! Owns the rest of the message: attachments are forwarded unchanged, byte for byte.

use bytes::Bytes;
use fault::{Fault, Kind};
use mediation::attachments::{IncludeError, Root};
use mediation::{Rejection, charset};
use message::{GatheredBody, Headers, ReplyHead, RequestHead, Trailers};
use policy::{BodyTransform, Decision, Exchange, Flow, OnBuffered, OnPieces, Onward, Step};

use crate::reply_coding::Codings;
use crate::xml_fault;

/// How a step uses the root part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootUse {
    /// It only reads the part, together with the attachments that the part includes.
    Validates,
    /// It reads the part without attachments, and may replace it.
    Edits,
}

/// How a step treats messages with attachments.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RootedStep {
    pub(crate) root: RootUse,
    /// The name of the step in faults.
    pub(crate) step: &'static str,
    pub(crate) verbose: bool,
    pub(crate) codings: Codings,
}

/// Returns the step of a policy. With `of`, it sees only the root part of a message with attachments; otherwise, it sees the whole message.
pub(crate) fn rooted<H: Head + 'static>(
    inner: impl OnBuffered<H> + 'static,
    of: Option<RootedStep>,
) -> Step<H> {
    let inner: Box<dyn OnBuffered<H>> = Box::new(inner);
    Step::Buffered(match of {
        Some(of) => Box::new(Rooted { inner, of }),
        None => inner,
    })
}

/// Returns the root part with the attachments that it includes, and whether every attachment is included. The fault has the kind
/// `too_large` if the result exceeds `bytes_max`. `malformed` makes the fault for an invalid message.
pub(crate) fn with_included(
    root: &Root,
    whole: &[u8],
    bytes_max: usize,
    too_large: Kind,
    malformed: impl FnOnce(&str) -> Fault,
) -> Result<(Bytes, bool), Fault> {
    root.with_included(whole, bytes_max).map_err(|why| match why {
        IncludeError::Malformed(why) => malformed(&why),
        IncludeError::TooLarge => {
            let cause = format!("the root part with its attachments exceeds {bytes_max} bytes");
            Fault::new(too_large, cause)
        }
    })
}

/// The head of a message, a request or a reply.
pub(crate) trait Head {
    /// The kind of the fault for a message that is too large.
    const TOO_LARGE: Kind;

    fn headers(&mut self) -> &mut Headers;
    /// Returns the value of a header.
    fn header(&self, name: &str) -> Option<&[u8]>;

    /// Removes the content coding.
    fn decode(
        &mut self,
        of: RootedStep,
        ex: &mut Exchange,
        body: &mut GatheredBody,
    ) -> Result<(), Fault>;

    /// Applies the content coding again.
    fn encode(
        &mut self,
        of: RootedStep,
        ex: &mut Exchange,
        body: &mut GatheredBody,
    ) -> Result<(), Fault>;

    fn refused(&self, of: RootedStep, why: &str) -> Fault;
}

impl Head for RequestHead {
    const TOO_LARGE: Kind = Kind::BodyTooLarge;

    fn headers(&mut self) -> &mut Headers {
        &mut self.headers
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name)
    }

    fn decode(
        &mut self,
        _: RootedStep,
        _: &mut Exchange,
        _: &mut GatheredBody,
    ) -> Result<(), Fault> {
        Ok(())
    }

    fn encode(
        &mut self,
        _: RootedStep,
        _: &mut Exchange,
        _: &mut GatheredBody,
    ) -> Result<(), Fault> {
        Ok(())
    }

    fn refused(&self, of: RootedStep, why: &str) -> Fault {
        xml_fault::refused_request(of.step, Rejection::client(why), of.verbose)
    }
}

impl Head for ReplyHead {
    const TOO_LARGE: Kind = Kind::ReplyTooLarge;

    fn headers(&mut self) -> &mut Headers {
        &mut self.headers
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.headers.get(name)
    }

    fn decode(
        &mut self,
        of: RootedStep,
        ex: &mut Exchange,
        body: &mut GatheredBody,
    ) -> Result<(), Fault> {
        let status = self.status;
        let taken = of.codings.decode(ex, self, body);
        taken.map_err(|refused| refused.fault(of.verbose, status))
    }

    fn encode(
        &mut self,
        of: RootedStep,
        ex: &mut Exchange,
        body: &mut GatheredBody,
    ) -> Result<(), Fault> {
        of.codings.encode(ex, self, body)
    }

    fn refused(&self, of: RootedStep, why: &str) -> Fault {
        xml_fault::refused_reply(of.step, Rejection::server(why), of.verbose, self.status)
    }
}

/// A step that sees the root part of a message with attachments.
struct Rooted<H> {
    inner: Box<dyn OnBuffered<H>>,
    of: RootedStep,
}

/// A message while the step processes its root part.
struct MultipartMessage {
    content_type: Vec<u8>,
    /// The content type that the step sees.
    described: Vec<u8>,
    whole: Bytes,
    root: Root,
    /// The bytes that the step gets.
    shown: Bytes,
    trailers: Trailers,
    coding: Option<&'static str>,
}

impl<H: Head> Rooted<H> {
    /// Removes the content coding of a message, and splits it. Returns `None` for a message that the step gets unsplit: a message
    /// without attachments, an empty message, or the reply for a fault.
    fn opened(
        &self,
        ex: &mut Exchange,
        head: &mut H,
        body: &mut GatheredBody,
    ) -> Result<Option<(MultipartMessage, GatheredBody)>, Fault> {
        let content_type = head.header("content-type").filter(|written| Root::is_in(written));
        let Some(content_type) = content_type.map(<[u8]>::to_vec) else { return Ok(None) };
        if body.bytes.is_empty() || ex.fault.is_some() {
            return Ok(None);
        }
        head.decode(self.of, ex, body)?;
        let coding = ex.notes.as_mut().and_then(|notes| notes.coding.take());
        let wrong = |why: &str| head.refused(self.of, &format!("The message: {why}"));
        let Some(root) = Root::of(&content_type, &body.bytes).map_err(wrong)? else {
            return Ok(None);
        };
        let shown = match self.of.root {
            RootUse::Edits => root.bytes.clone(),
            RootUse::Validates => {
                let bytes_max = self.of.codings.bytes_max;
                with_included(&root, &body.bytes, bytes_max, H::TOO_LARGE, wrong)?.0
            }
        };
        let described = root.described(&content_type);
        let headers = head.headers();
        headers.remove("content-type");
        headers.add_known("Content-Type", &described);
        let gathered = GatheredBody::new(shown.clone(), Trailers::new());
        let trailers = std::mem::take(&mut body.trailers);
        let whole = body.bytes.clone();
        let around =
            MultipartMessage { content_type, described, whole, root, shown, trailers, coding };
        Ok(Some((around, gathered)))
    }

    /// Reassembles the message, and applies its content coding again.
    fn closed(
        &self,
        ex: &mut Exchange,
        head: &mut H,
        body: &mut GatheredBody,
        around: MultipartMessage,
        made: GatheredBody,
    ) -> Result<(), Fault> {
        // Harmless: a message may have no content type.
        let now = head.header("content-type").unwrap_or_default().to_vec();
        let headers = head.headers();
        headers.remove("content-type");
        headers.add_known("Content-Type", &around.content_type);
        let is_same =
            made.bytes.as_ptr() == around.shown.as_ptr() && made.bytes.len() == around.shown.len();
        let whole = match self.of.root {
            RootUse::Validates => around.whole,
            RootUse::Edits if is_same => around.whole,
            RootUse::Edits => {
                let of_kind = |written: &[u8]| message::media_type(written).to_ascii_lowercase();
                let content_type = if of_kind(&now) == of_kind(&around.described) {
                    // The media type is unchanged, but the charset may have changed.
                    charset::recoded(
                        &around.root.content_type,
                        // Harmless: a charset that the step sets is valid UTF-8.
                        charset::charset(&now)
                            .and_then(|name| std::str::from_utf8(name).ok())
                            .unwrap_or("utf-8"),
                    )
                } else {
                    // Harmless: a content type that the step sets is valid UTF-8.
                    Some(String::from_utf8_lossy(&now).into_owned())
                };
                let root = &around.root;
                let whole = root.exchanged(&around.whole, &made.bytes, content_type.as_deref());
                whole.ok_or_else(|| {
                    head.refused(self.of, "the new root part contains the boundary of the message")
                })?
            }
        };
        *body = GatheredBody::new(whole, around.trailers);
        if let Some(coding) = around.coding {
            ex.notes().coding = Some(coding);
        }
        head.encode(self.of, ex, body)
    }
}

impl<H: Head> OnBuffered<H> for Rooted<H> {
    fn wants(&self, ex: &mut Exchange, head: &mut H) -> Result<bool, Fault> {
        self.inner.wants(ex, head)
    }

    fn on_passing(
        &self,
        ex: &mut Exchange,
        head: &mut H,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        self.inner.on_passing(ex, head)
    }

    fn bytes_max(&self) -> usize {
        self.inner.bytes_max()
    }

    fn on_pieces(&self, ex: &mut Exchange, head: &H) -> Option<Box<dyn OnPieces<H>>> {
        // The root part is known only once the whole message has arrived.
        if head.header("content-type").is_some_and(Root::is_in) {
            None
        } else {
            self.inner.on_pieces(ex, head)
        }
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut H,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let (around, mut shown) = match self.opened(ex, head, body) {
            Ok(Some(opened)) => opened,
            Ok(None) => return self.inner.on_buffered(ex, head, body),
            Err(fault) => return Decision::Ready(Err(fault)),
        };
        let flow = match self.inner.on_buffered(&mut *ex, &mut *head, &mut shown) {
            Decision::Ready(flow) => Some(flow),
            // The future was never polled, so dropping it has no effect. The step is called again below.
            Decision::Waits(_) => None,
        };
        if let Some(flow) = flow {
            return Decision::Ready(self.ended(ex, head, body, around, shown, flow));
        }
        Decision::Waits(Box::pin(async move {
            let flow = match self.inner.on_buffered(&mut *ex, &mut *head, &mut shown) {
                Decision::Ready(flow) => flow,
                Decision::Waits(waits) => waits.await,
            };
            self.ended(ex, head, body, around, shown, flow)
        }))
    }
}

impl<H: Head> Rooted<H> {
    fn ended(
        &self,
        ex: &mut Exchange,
        head: &mut H,
        body: &mut GatheredBody,
        around: MultipartMessage,
        shown: GatheredBody,
        flow: Flow,
    ) -> Flow {
        match flow? {
            Onward::Next => self.closed(ex, head, body, around, shown).map(|()| Onward::Next),
            turned @ Onward::Turn(_) => Ok(turned),
        }
    }
}
