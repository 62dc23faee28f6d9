//! The reply of a method that streams: each message is translated and sent on as it arrives.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::{Fill, Trailers};
use policy::BodyTransform;
use protobuf::{Match, Transcoder};

use super::frames::{self, Frame};
use super::status::{self, CallStatus};
use super::{GrpcJsonSettings, message_json};

/// How the messages of a stream are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamForm {
    /// The items of an array.
    Array,
    /// A line each.
    Lines,
    /// An event each.
    Events,
}

impl StreamForm {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            StreamForm::Array => "application/json",
            StreamForm::Lines => "application/x-ndjson",
            StreamForm::Events => "text/event-stream",
        }
    }

    /// Returns the body of a stream without messages.
    pub(super) fn empty(self) -> &'static str {
        match self {
            StreamForm::Array => "[]",
            StreamForm::Lines | StreamForm::Events => "",
        }
    }

    /// Appends one message. JSON has no line ends outside of strings, and escapes those in them.
    fn push(self, json: &str, is_first: bool, out: &mut Vec<u8>) {
        let (before, after) = match self {
            StreamForm::Array if is_first => ("[", ""),
            StreamForm::Array => (",", ""),
            StreamForm::Lines => ("", "\n"),
            StreamForm::Events => ("data: ", "\n\n"),
        };
        for part in [before, json, after] {
            out.extend_from_slice(part.as_bytes());
        }
    }

    /// Appends the status of a call that failed after its reply began.
    fn push_status(self, json: &str, is_first: bool, out: &mut Vec<u8>) {
        if self == StreamForm::Events {
            out.extend_from_slice(b"event: error\n");
        }
        self.push(json, is_first, out);
    }
}

/// Translates the messages of one reply.
pub(super) struct Messages {
    service: Arc<GrpcJsonSettings>,
    called: Match,
    /// The beginning of a message whose end has not arrived.
    partial: Vec<u8>,
    is_first: bool,
    status: Option<CallStatus>,
}

impl Messages {
    pub(super) fn new(service: Arc<GrpcJsonSettings>, binding: usize) -> Messages {
        let called = Match { binding, values: Vec::new() };
        Messages { service, called, partial: Vec::new(), is_first: true, status: None }
    }

    /// Translates all whole messages at the front, and returns the rest.
    fn translate<'b>(&mut self, mut bytes: &'b [u8], out: &mut Vec<u8>) -> Result<&'b [u8], Fault> {
        let service = self.service.clone();
        let transcoder: &Transcoder = &service.transcoder;
        let Some(binding) = transcoder.binding(&self.called) else {
            return Err(Fault::new(Kind::Internal, "no such method"));
        };
        while let Frame::Whole(message, rest) = frames::first(bytes, service.body_bytes_max)? {
            let json = message_json::translated(transcoder, binding, message)?;
            message::room(json.len())?;
            service.stream.push(&json, self.is_first, out);
            self.is_first = false;
            bytes = rest;
        }
        Ok(bytes)
    }
}

impl BodyTransform for Messages {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        if self.partial.is_empty() {
            let rest = self.translate(bytes, out)?;
            self.partial.extend_from_slice(rest);
            return Ok(Fill::More);
        }
        if self.partial.capacity() < self.partial.len() + bytes.len() {
            // Growing doubles the capacity and copies the data.
            message::room(2 * self.partial.len() + bytes.len())?;
        }
        self.partial.extend_from_slice(bytes);
        let partial = std::mem::take(&mut self.partial);
        let left = self.translate(&partial, out)?.len();
        self.partial = partial;
        let done = self.partial.len() - left;
        if left == 0 {
            // A long message does not keep its memory until the next one.
            self.partial = Vec::new();
        } else if done > 0 {
            self.partial.drain(..done);
        }
        Ok(Fill::More)
    }

    fn on_trailers(&mut self, trailers: &mut Trailers) {
        self.status = CallStatus::take(trailers);
    }

    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        let status = self.status.take().ok_or_else(status::missing)?;
        let form = self.service.stream;
        if !status.is_ok() {
            let json = status.json(&self.service.transcoder);
            form.push_status(&json, self.is_first, out);
        } else if !self.partial.is_empty() {
            return Err(Fault::new(Kind::ReplyInvalid, "the reply ends within a message"));
        } else if self.is_first {
            out.extend_from_slice(form.empty().as_bytes());
            return Ok(());
        }
        if form == StreamForm::Array {
            out.push(b']');
        }
        Ok(())
    }
}
