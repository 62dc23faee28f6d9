//! What is kept of earlier replies, so that equal markup does not have to be read again.

use xml::TemplateCache;

use super::model::Scalar;
use crate::SoapVersion;

/// The replies that one thread has cached.
pub(super) type ReplyCache = TemplateCache<Prefix, KnownReply, Value>;

/// The state of the reader before the first header or before the element of the body.
#[derive(Debug)]
pub(super) struct Prefix {
    pub(super) part: Part,
    pub(super) version: SoapVersion,
}

/// Current part of the envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Outside,
    Envelope,
    Header,
    /// In a header element that is ignored, at this depth.
    SkippedHeader(usize),
    /// In a body element that is ignored, at this depth.
    SkippedBody(usize),
    Body,
    /// In the element of a header or of the body.
    Value,
    Fault,
}

/// A reply that was read earlier.
#[derive(Debug)]
pub(super) struct KnownReply {
    /// The address of the tables for the message, which never move.
    pub(super) tables: usize,
    pub(super) json: Box<str>,
}

/// A value within the JSON of a reply.
#[derive(Debug)]
pub(super) struct Value {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) scalar: Scalar,
}
