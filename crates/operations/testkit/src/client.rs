//! The client of an exchange, and the outcome of the exchange.

use crate::message::{Message, MessageKind, read_messages};
use crate::wire::Act;

/// What a client sends: the bytes on the wire, and the size of the pieces.
#[derive(Debug, Clone, Default)]
pub struct Client {
    /// The bytes of each read, in order.
    pub sends: Vec<Vec<u8>>,
    /// The number of bytes per read and write, see [`crate::Wire::new`].
    pub piece: Option<usize>,
    pub then: AfterSending,
    /// The number of polls after which the exchange is dropped.
    pub polls_max: Option<usize>,
}

/// What a client does after it has sent everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AfterSending {
    /// Waits until the gateway closes the idle connection.
    #[default]
    Waits,
    /// Closes its sending side.
    Ends,
    /// Resets the connection.
    Resets,
}

/// The result of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The bytes that were written to the client.
    pub written: Vec<u8>,
    /// True if the connection ended by itself, false if it was dropped.
    pub ended: bool,
    /// The number of polls.
    pub polls: usize,
}

impl Client {
    /// Creates a client that sends these bytes at once and waits.
    pub fn sending(bytes: impl Into<Vec<u8>>) -> Client {
        Client { sends: vec![bytes.into()], ..Client::default() }
    }

    pub(crate) fn acts(&self) -> Vec<Act> {
        // An empty read would mean the end.
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
    /// Parses the replies that were written. `heads` is true for each reply to HEAD. Bytes that are not a reply, or part of one, are an
    /// error.
    pub fn replies(&self, heads: &[bool]) -> Result<Vec<Message>, String> {
        let (replies, rest) =
            read_messages(&self.written, MessageKind::Replies(heads), self.ended)?;
        match rest {
            [] => Ok(replies),
            rest => Err(format!("left over: {}", rest.escape_ascii())),
        }
    }
}
