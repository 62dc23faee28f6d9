//! The client of an exchange, and its outcome.

use crate::message::{Message, MessageKind, read_messages};
use crate::wire::Act;

/// The bytes that a client sends, as they go over the wire, and in which pieces.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// The bytes of each read, one after the other.
    pub sends: Vec<Vec<u8>>,
    /// The number of bytes that go at a time, see [`crate::Wire::new`].
    pub piece: Option<usize>,
    pub then: AfterSending,
    /// The exchange is dropped once it was polled so often.
    pub polls_max: Option<usize>,
}

/// The act of a client once it has sent everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AfterSending {
    /// Waits, until the gateway closes the connection for its silence.
    #[default]
    Waits,
    /// Closes its side.
    Ends,
    /// Breaks the connection.
    Resets,
}

/// The outcome of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The bytes that were written to the client.
    pub written: Vec<u8>,
    /// The connection ended by itself. Otherwise it was dropped.
    pub ended: bool,
    /// The number of polls.
    pub polls: usize,
}

impl Client {
    /// Sends this at once and waits.
    pub fn sending(bytes: impl Into<Vec<u8>>) -> Client {
        Client { sends: vec![bytes.into()], ..Client::default() }
    }

    pub(crate) fn acts(&self) -> Vec<Act> {
        // A read of nothing would be the end.
        let sends = self.sends.iter().filter(|bytes| !bytes.is_empty());
        let mut acts: Vec<Act> = sends.cloned().map(Act::Send).collect();
        acts.extend(match self.then {
            AfterSending::Waits => None,
            AfterSending::Ends => Some(Act::End),
            AfterSending::Resets => Some(Act::Reset),
        });
        acts
    }
}

impl Outcome {
    /// The replies that were written; `heads`: true for each to HEAD. Bytes that are not a reply, or a part of one, are an error.
    pub fn replies(&self, heads: &[bool]) -> Result<Vec<Message>, String> {
        let (replies, rest) =
            read_messages(&self.written, MessageKind::Replies(heads), self.ended)?;
        match rest {
            [] => Ok(replies),
            rest => Err(format!("left over: {}", rest.escape_ascii())),
        }
    }
}
