//! Direct writing for streams that many clients share: bytes are framed once, and the source writes them while the clients' tasks sleep.

use crate::outgoing::frame;

/// Body bytes with their chunk framing, made once for all clients.
#[derive(Debug)]
pub struct Chunk {
    framed: Vec<u8>,
    payload_len: usize,
    header_len: usize,
}

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

impl Chunk {
    /// Makes a chunk of these pieces, concatenated.
    pub fn of<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Chunk {
        let mut framed = Vec::new();
        pieces.for_each(|piece| framed.extend_from_slice(piece));
        let payload_len = framed.len();
        let header_len = match payload_len {
            // An empty chunk would end the body.
            0 => 0,
            _ => frame(&mut framed, 0, payload_len),
        };
        Chunk { framed, payload_len, header_len }
    }

    /// Returns the bytes for a body that is sent in chunks.
    pub fn framed(&self) -> &[u8] {
        &self.framed
    }

    /// Returns the bytes for a body that ends with its connection.
    pub fn payload(&self) -> &[u8] {
        self.framed.get(self.header_len..self.header_len + self.payload_len).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_framed_and_has_its_payload() {
        for (pieces, framed, payload) in [
            (&[][..], "", ""),
            (&["data: x\n\n"][..], "9\r\ndata: x\n\n\r\n", "data: x\n\n"),
            (
                &["data: x\n\n", ": ten more\n\n"],
                "15\r\ndata: x\n\n: ten more\n\n\r\n",
                "data: x\n\n: ten more\n\n",
            ),
        ] {
            let chunk = Chunk::of(pieces.iter().map(|piece| piece.as_bytes()));
            assert_eq!(str::from_utf8(chunk.framed()), Ok(framed));
            assert_eq!(str::from_utf8(chunk.payload()), Ok(payload));
        }
    }
}
