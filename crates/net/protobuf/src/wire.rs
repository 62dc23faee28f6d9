//! The wire format: tags, varints, and fields that are delimited by their length or by their group.

/// The maximum nesting of messages, as in other implementations.
pub(crate) const DEPTH_MAX: usize = 100;

/// The bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WireError;

/// The value of a field as it was sent, without its type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Raw<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
    /// The fields of a group, without its tags.
    Group(&'a [u8]),
}

/// The three low bits of a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireType {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    GroupBegin = 3,
    GroupEnd = 4,
    Fixed32 = 5,
}

/// Reads the fields of a message in their order.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(crate) fn of(message: &'a [u8]) -> Fields<'a> {
        Fields { rest: message }
    }

    /// Returns the next field with its number, or `None` at the end.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Raw<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let (number, wire_type) = self.tag()?;
        let raw = match wire_type {
            WireType::GroupBegin => Raw::Group(self.group(number)?),
            WireType::GroupEnd => return Err(WireError),
            other => self.plain(other)?,
        };
        Ok(Some((number, raw)))
    }

    fn tag(&mut self) -> Result<(u32, WireType), WireError> {
        let tag = u32::try_from(read_varint(&mut self.rest)?).map_err(|_| WireError)?;
        let wire_type = match tag & 7 {
            0 => WireType::Varint,
            1 => WireType::Fixed64,
            2 => WireType::Bytes,
            3 => WireType::GroupBegin,
            4 => WireType::GroupEnd,
            5 => WireType::Fixed32,
            _ => return Err(WireError),
        };
        if tag >> 3 == 0 { Err(WireError) } else { Ok((tag >> 3, wire_type)) }
    }

    /// Reads a value that is not a group.
    fn plain(&mut self, wire_type: WireType) -> Result<Raw<'a>, WireError> {
        Ok(match wire_type {
            WireType::Varint => Raw::Varint(read_varint(&mut self.rest)?),
            WireType::Fixed64 => Raw::Fixed64(read_fixed64(&mut self.rest)?),
            WireType::Fixed32 => Raw::Fixed32(read_fixed32(&mut self.rest)?),
            WireType::Bytes => {
                let len = usize::try_from(read_varint(&mut self.rest)?).map_err(|_| WireError)?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or(WireError)?;
                self.rest = rest;
                Raw::Bytes(bytes)
            }
            WireType::GroupBegin | WireType::GroupEnd => return Err(WireError),
        })
    }

    /// Reads to the end of a group whose first tag was read, without recursion. Returns its fields.
    fn group(&mut self, number: u32) -> Result<&'a [u8], WireError> {
        let whole = self.rest;
        let mut open = vec![number];
        loop {
            kit::turns::count_part();
            let before = whole.len() - self.rest.len();
            let (number, wire_type) = self.tag()?;
            match wire_type {
                WireType::GroupBegin if open.len() < DEPTH_MAX => open.push(number),
                WireType::GroupBegin => return Err(WireError),
                WireType::GroupEnd => {
                    if open.pop() != Some(number) {
                        return Err(WireError);
                    }
                    if open.is_empty() {
                        return whole.get(..before).ok_or(WireError);
                    }
                }
                other => drop(self.plain(other)?),
            }
        }
    }
}

/// Reads a varint from the front. Fails if it is incomplete or has more than ten bytes.
pub(crate) fn read_varint(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let mut number = 0u64;
    for shift in (0..70).step_by(7) {
        let (byte, rest) = bytes.split_first().ok_or(WireError)?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(WireError)
}

pub(crate) fn read_fixed64(bytes: &mut &[u8]) -> Result<u64, WireError> {
    let (number, rest) = bytes.split_first_chunk().ok_or(WireError)?;
    *bytes = rest;
    Ok(u64::from_le_bytes(*number))
}

pub(crate) fn read_fixed32(bytes: &mut &[u8]) -> Result<u32, WireError> {
    let (number, rest) = bytes.split_first_chunk().ok_or(WireError)?;
    *bytes = rest;
    Ok(u32::from_le_bytes(*number))
}

pub(crate) fn push_varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

pub(crate) fn push_tag(number: u32, wire_type: WireType, out: &mut Vec<u8>) {
    push_varint(u64::from(number) << 3 | wire_type as u64, out);
}

/// Appends a field of a string, bytes, or a message.
pub(crate) fn push_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    push_tag(number, WireType::Bytes, out);
    push_varint(u64::try_from(bytes.len()).unwrap_or(u64::MAX), out);
    out.extend_from_slice(bytes);
}

/// The place of a length that is known once the bytes after it are written.
#[derive(Debug, Clone, Copy)]
#[must_use]
pub(crate) struct OpenLength {
    /// The offset of the bytes reserved for the length.
    at: usize,
    /// Their number.
    reserved: usize,
}

/// Reserves room for a length. If `guess`, the expected length, is about right, closing moves no bytes, so that deep nesting does not copy
/// its innermost bytes once for each level.
pub(crate) fn open_length(guess: usize, out: &mut Vec<u8>) -> OpenLength {
    let at = out.len();
    let reserved = varint_len(guess);
    out.resize(at + reserved, 0);
    OpenLength { at, reserved }
}

/// Writes the length of all bytes since [`open_length`].
pub(crate) fn close_length(open: OpenLength, out: &mut Vec<u8>) {
    let begin = open.at + open.reserved;
    let len = out.len().saturating_sub(begin);
    let wanted = varint_len(len);
    if wanted != open.reserved {
        kit::turns::pause_if_due();
        if wanted > open.reserved {
            out.resize(out.len() + wanted - open.reserved, 0);
        }
        out.copy_within(begin..begin + len, open.at + wanted);
        // Harmless: the bytes after the end were moved.
        out.truncate(open.at + wanted + len);
    }
    let mut number = len;
    // Harmless: the room for the length has as many bytes.
    for (index, place) in out.iter_mut().skip(open.at).take(wanted).enumerate() {
        let more = if index + 1 < wanted { 0x80 } else { 0 };
        *place = u8::try_from(number & 0x7f).unwrap_or(0) | more;
        number >>= 7;
    }
}

fn varint_len(number: usize) -> usize {
    let bits = usize::try_from(usize::BITS - number.leading_zeros()).unwrap_or(0);
    bits.div_ceil(7).max(1)
}

/// Calls `each` for every field of a message.
pub(crate) fn each<'a>(
    message: &'a [u8],
    mut each: impl FnMut(u32, Raw<'a>) -> Result<(), WireError>,
) -> Result<(), WireError> {
    let mut fields = Fields::of(message);
    while let Some((number, raw)) = fields.next()? {
        each(number, raw)?;
    }
    Ok(())
}

/// Reads a field that is a text.
pub(crate) fn text(bytes: &[u8]) -> Result<String, WireError> {
    std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| WireError)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Result<Vec<(u32, Raw<'_>)>, WireError> {
        let mut fields = Fields::of(bytes);
        let mut all = Vec::new();
        while let Some(field) = fields.next()? {
            all.push(field);
        }
        Ok(all)
    }

    #[test]
    fn varints_are_read_as_written() {
        for number in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut out = Vec::new();
            push_varint(number, &mut out);
            assert_eq!(read_varint(&mut &out[..]), Ok(number));
            for len in 0..out.len() {
                assert_eq!(read_varint(&mut &out[..len]), Err(WireError), "{number} {len}");
            }
        }
        assert_eq!(read_varint(&mut &[0x80; 11][..]), Err(WireError));
        assert_eq!(read_varint(&mut &[0xff; 10][..]), Err(WireError));
    }

    #[test]
    fn lengths_are_closed_whatever_was_guessed() {
        for len in [0, 1, 127, 128, 16_383, 16_384, 70_000] {
            for guess in [0, 127, 128, 20_000, 3_000_000] {
                let mut out = vec![9];
                let open = open_length(guess, &mut out);
                out.extend((0..len).map(|n| u8::try_from(n % 251).unwrap()));
                close_length(open, &mut out);
                let mut rest = &out[1..];
                assert_eq!(read_varint(&mut rest), Ok(u64::try_from(len).unwrap()));
                assert_eq!(rest.len(), len, "{len} {guess}");
                assert!(rest.iter().enumerate().all(|(n, byte)| usize::from(*byte) == n % 251));
            }
        }
    }

    #[test]
    fn fields_are_read_and_groups_are_skipped() {
        assert_eq!(
            all(&[8, 1, 0x12, 1, b'a', 0x1d, 1, 0, 0, 0, 0x21, 1, 0, 0, 0, 0, 0, 0, 0]),
            Ok(vec![
                (1, Raw::Varint(1)),
                (2, Raw::Bytes(b"a")),
                (3, Raw::Fixed32(1)),
                (4, Raw::Fixed64(1))
            ])
        );
        // Group 1 with a field 2 and a group 3.
        assert_eq!(
            all(&[0x0b, 0x10, 5, 0x1b, 0x1c, 0x0c, 8, 1]),
            Ok(vec![(1, Raw::Group(&[0x10, 5, 0x1b, 0x1c])), (1, Raw::Varint(1))])
        );
    }

    #[test]
    fn bytes_that_are_no_message_are_refused() {
        let deep = [0x0b].repeat(DEPTH_MAX + 1);
        for wrong in [
            &[0][..],
            &[8],
            &[7],
            &[0x0a, 2, 1],
            &[0x0c],
            &[0x0b],
            &[0x0b, 0x14],
            &[0x0d, 1],
            &[0x09, 1],
            &[0xff; 5],
            &deep,
        ] {
            assert_eq!(all(wrong), Err(WireError), "{wrong:?}");
        }
    }
}
