//! Direct writing for streams that many clients share: bytes are framed once, and the source writes them while the clients' tasks sleep.

use crate::Chunk;

/// Writes to a client whose task waits only for the next bytes of its body.
pub trait DirectWriter {
    /// Writes as much as the client accepts now, and keeps the rest for the client's task. Returns false if there is a rest. The caller
    /// must then wake the task, and must not write again until the task waits again.
    fn write(&self, chunk: &Chunk) -> bool;
}

/// What a direct writer has accepted since the client's task last ran.
#[derive(Debug, Default)]
pub struct DirectBytes {
    /// Number of body bytes accepted, whether sent or not.
    pub made_bytes: u64,
    /// Number of bytes sent to the client, including framing.
    pub sent_bytes: u64,
    /// The bytes that could not be sent.
    pub rest: Vec<u8>,
}
