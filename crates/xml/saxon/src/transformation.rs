//! What goes into a transformation, and why it may have no result.

use bytes::Bytes;

use crate::feed::Feed;

/// The input of a transformation.
#[derive(Debug)]
pub enum Message {
    /// A parsed document.
    Xml(Feed),
    /// A JSON text, which the stylesheet receives as the text of one element.
    Json(Bytes),
}

/// The reason why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunError {
    /// The stylesheet terminated itself, or tried something forbidden.
    Refused(String),
    /// The message is not valid input for the stylesheet, because it is not JSON.
    BadInput(String),
    /// The result is larger than allowed.
    TooLarge,
    /// The transformation needs more memory than the JVM has.
    Memory,
    /// The stylesheet recurses too deeply.
    Stack,
    /// The deadline passed, either in the queue or during the run.
    Late,
    /// Too many messages are waiting.
    Busy,
    /// The JVM failed.
    Broken(String),
}

impl Message {
    pub(crate) fn len(&self) -> usize {
        match self {
            Message::Xml(feed) => feed.bytes().len(),
            Message::Json(text) => text.len(),
        }
    }
}
