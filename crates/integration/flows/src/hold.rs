//! Reads bodies of messages into memory.

use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use fault::{Fault, Kind};
use mediation::content_coding::{self, Coding, DecodeError};
use message::{Body, GatheredBody};
use policy::OpenWait;

use crate::content::Content;
use crate::message::{Message, OF_BYTES, Payload};
use crate::sender::Sender;
use crate::state::{Run, State};
use crate::timeout::{call_timeout, flow_timeout, within_from};

impl State {
    /// Reads the message's body into memory.
    pub(crate) async fn hold(&mut self, run: &Run<'_>) -> Result<(), Fault> {
        // Reading a body that is already in memory does not wait.
        let left = if self.message.arrives() { self.left() } else { Duration::MAX };
        self.message.hold(run, left).await
    }
}

impl Run<'_> {
    /// Keeps the request's original body, before the first step, if an expression needs it.
    pub(crate) async fn keep_request(&self, state: &mut State) -> Result<(), Fault> {
        if self.asks_request.take() {
            state.hold(self).await?;
            *self.request.borrow_mut() = state.message.content().cloned();
        }
        Ok(())
    }
}

impl Message {
    /// Reads its body into memory, within the remaining time.
    pub(crate) async fn hold(&mut self, run: &Run<'_>, left: Duration) -> Result<(), Fault> {
        let Payload::Stream { body, maker, time } = &mut self.payload else { return Ok(()) };
        let (body, maker, time) = (std::mem::take(body), *maker, *time);
        let bytes_max = run.body_bytes_max;
        let limit = time.map_or(left, |time| time.min(left));
        let too_large = match maker {
            Sender::Client => Kind::BodyTooLarge,
            Sender::Upstream | Sender::Flow => Kind::ReplyTooLarge,
        };
        let arrives = matches!(body, Body::Stream(_));
        let mut gathering = pin!(body.gather_all(bytes_max, too_large));
        let gathered = if arrives {
            let waiting = maker.waits(&run.ex.totals).begin();
            let gathered = within_from(waiting.began, limit, gathering.as_mut()).await;
            let late = || if limit < left { call_timeout() } else { flow_timeout() };
            gathered.unwrap_or_else(|| Err(late()))
        } else {
            // It is in memory, so this does not wait.
            gathering.await
        };
        let mut body = gathered?;
        if let Some(name) = content_coding::named(&self.lines) {
            body = GatheredBody::new(
                decoded(&name, &body.bytes, bytes_max, maker)?.into(),
                body.trailers,
            );
            self.lines.remove_all(&OF_BYTES);
        }
        let refuses = run.refuses_duplicate_members && maker != Sender::Flow;
        let content = Content::of(body, self.content_type(), maker, run.levels, refuses);
        self.payload = Payload::Held(Rc::new(content));
        Ok(())
    }

    /// Starts to measure a wait for the rest of its body. Returns `None` if the body is in memory.
    pub(crate) fn waiting<'r>(&self, run: &'r Run<'_>) -> Option<OpenWait<'r>> {
        let Payload::Stream { body: Body::Stream(_), maker, .. } = &self.payload else {
            return None;
        };
        Some(maker.waits(&run.ex.totals).begin())
    }
}

/// Decodes a body with a content coding.
fn decoded(name: &str, bytes: &[u8], bytes_max: usize, maker: Sender) -> Result<Vec<u8>, Fault> {
    let (unsupported, malformed, too_large) = match maker {
        Sender::Client => (Kind::MediaTypeUnsupported, Kind::RequestInvalid, Kind::BodyTooLarge),
        Sender::Upstream | Sender::Flow => {
            (Kind::ReplyInvalid, Kind::ReplyInvalid, Kind::ReplyTooLarge)
        }
    };
    let Some(coding) = Coding::of(name) else {
        return Err(Fault::new(
            unsupported,
            format!("a flow cannot decode a body coded as {name}"),
        ));
    };
    coding.decode(bytes, bytes_max).map_err(|why| match why {
        DecodeError::Malformed => Fault::new(malformed, format!("the body is not coded as {name}")),
        DecodeError::TooLarge => {
            Fault::new(too_large, format!("the decoded body is over {bytes_max} bytes"))
        }
        DecodeError::NoRoom => message::no_room(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `hello` with zlib, which has a checksum.
    const DEFLATED: &[u8] = b"\x78\x9c\xcb\x48\xcd\xc9\xc9\x07\x00\x06\x2c\x02\x15";

    #[test]
    fn a_body_that_cannot_be_decoded_blames_its_sender() {
        let client = |kind| (Sender::Client, Err(kind));
        let upstream = |kind| (Sender::Upstream, Err(kind));
        for (name, bytes, bytes_max, (sender, expected)) in [
            ("deflate", DEFLATED, 5, (Sender::Client, Ok("hello"))),
            ("deflate", DEFLATED, 4, client(Kind::BodyTooLarge)),
            ("deflate", DEFLATED, 4, upstream(Kind::ReplyTooLarge)),
            ("deflate", &DEFLATED[..8], 5, client(Kind::RequestInvalid)),
            ("deflate", b"hello", 5, upstream(Kind::ReplyInvalid)),
            ("gzip", DEFLATED, 5, client(Kind::RequestInvalid)),
            ("zstd", b"", 5, client(Kind::MediaTypeUnsupported)),
            ("gzip, br", b"", 5, upstream(Kind::ReplyInvalid)),
        ] {
            let made = decoded(name, bytes, bytes_max, sender);
            let made = made.map(|bytes| String::from_utf8(bytes).unwrap());
            let made = made.map_err(|fault| fault.kind);
            assert_eq!(made, expected.map(str::to_owned), "{name} of {sender:?}");
        }
    }
}
