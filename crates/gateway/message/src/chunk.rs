//! Chunks: the framing of a body whose length is unknown until it ends (RFC 9112, 7.1).

/// Body bytes with their chunk framing, made once for all clients.
#[derive(Debug)]
pub struct Chunk {
    framed: Vec<u8>,
    payload_len: usize,
    header_len: usize,
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

/// Makes a chunk of the last `len` bytes, which begin at `start`: adds a size line before and a line end after them. Returns the length of
/// the size line.
pub(crate) fn frame(out: &mut Vec<u8>, start: usize, len: usize) -> usize {
    let end = out.len();
    http1::chunk_header(len, out);
    let header_len = out.len() - end;
    if let Some(tail) = out.get_mut(start..) {
        tail.rotate_right(header_len);
    }
    out.extend_from_slice(b"\r\n");
    header_len
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
