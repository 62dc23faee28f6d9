//! Bytes of a stream that many clients share: framed once, and written by their source while the tasks of the clients wait.

use crate::outgoing::frame;

/// Bytes of a body with their frame, made once for all clients that get them.
#[derive(Debug)]
pub struct Chunk {
    framed: Vec<u8>,
    payload_len: usize,
    header_len: usize,
}

/// The way to a client whose task waits for nothing but the next bytes of its body.
pub trait DirectWriter {
    /// Writes as much as the client takes now, and keeps the rest for its task; false if there is a rest. Then the task has to be woken,
    /// and nothing may be written here until it has waited again.
    fn write(&self, chunk: &Chunk) -> bool;
}

/// The bytes that a direct writer has taken since the task of the client ran last.
#[derive(Debug, Default)]
pub struct DirectBytes {
    /// Bytes of the body, written or not.
    pub made_bytes: u64,
    /// Bytes that the client has taken, framing included.
    pub sent_bytes: u64,
    /// The part that it has not taken.
    pub rest: Vec<u8>,
}

impl Chunk {
    /// A chunk of these bytes, one after the other.
    pub fn of<'b>(pieces: impl Iterator<Item = &'b [u8]>) -> Chunk {
        let mut framed = Vec::new();
        pieces.for_each(|piece| framed.extend_from_slice(piece));
        let payload_len = framed.len();
        let header_len = match payload_len {
            // An empty chunk would be the last.
            0 => 0,
            _ => frame(&mut framed, 0, payload_len),
        };
        Chunk { framed, payload_len, header_len }
    }

    /// For a body that is sent in chunks.
    pub fn framed(&self) -> &[u8] {
        &self.framed
    }

    /// For one that ends with its connection.
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
