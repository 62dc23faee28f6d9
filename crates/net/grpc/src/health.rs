//! The health checking protocol, `grpc.health.v1.Health/Check`: the request contains the name of a service, and the reply its status.

/// The path of the call.
pub const PATH: &str = "/grpc.health.v1.Health/Check";

/// The length of a message's prefix: a byte for compression, and four for the message's length.
const PREFIX_BYTES: usize = 5;

/// The maximum size of a reply. The known field of the message has two bytes; the rest is room for unknown fields.
pub const REPLY_BYTES_MAX: usize = 4096;

/// The state that a service reports about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServingStatus {
    Unknown,
    Serving,
    NotServing,
    ServiceUnknown,
}

/// Returns the body of a request about a service. An empty name means the whole server.
pub fn request(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        // Field 1, length-delimited.
        message.push(0x0a);
        varint(service.len(), &mut message);
        message.extend_from_slice(service.as_bytes());
    }
    let len = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut body = vec![0];
    body.extend_from_slice(&len.to_be_bytes());
    body.append(&mut message);
    body
}

/// Parses the body of a reply.
pub fn reply(body: &[u8]) -> Result<ServingStatus, &'static str> {
    let (prefix, mut message) =
        body.split_at_checked(PREFIX_BYTES).ok_or("a reply without a message")?;
    let len = prefix.iter().skip(1).fold(0, |len: usize, byte| (len << 8) | usize::from(*byte));
    match prefix.first() {
        Some(0) if len == message.len() => {}
        Some(0) => return Err("a reply that is not one message"),
        Some(_) | None => return Err("a compressed reply, which was not requested"),
    }
    let mut serving = ServingStatus::Unknown;
    while !message.is_empty() {
        let cut = "a field without an end";
        let tag = read_varint(&mut message).ok_or(cut)?;
        match (tag >> 3, tag & 7) {
            (1, 0) => serving = ServingStatus::of(read_varint(&mut message).ok_or(cut)?),
            (_, 0) => drop(read_varint(&mut message).ok_or(cut)?),
            (_, 1) => skip(&mut message, 8).ok_or(cut)?,
            (_, 2) => {
                let len = usize::try_from(read_varint(&mut message).ok_or(cut)?);
                skip(&mut message, len.map_err(|_| cut)?).ok_or(cut)?;
            }
            (_, 5) => skip(&mut message, 4).ok_or(cut)?,
            _ => return Err("not a message of the health protocol"),
        }
    }
    Ok(serving)
}

impl ServingStatus {
    fn of(number: u64) -> ServingStatus {
        match number {
            1 => ServingStatus::Serving,
            2 => ServingStatus::NotServing,
            3 => ServingStatus::ServiceUnknown,
            _ => ServingStatus::Unknown,
        }
    }

    /// Returns the name in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            ServingStatus::Unknown => "UNKNOWN",
            ServingStatus::Serving => "SERVING",
            ServingStatus::NotServing => "NOT_SERVING",
            ServingStatus::ServiceUnknown => "SERVICE_UNKNOWN",
        }
    }
}

fn varint(mut number: usize, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(u8::try_from(number & 0x7f).unwrap_or_default() | 0x80);
        number >>= 7;
    }
    out.push(u8::try_from(number).unwrap_or(0));
}

/// Reads a varint from the front. Returns `None` if it is incomplete or has more than ten bytes.
fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).wrapping_shl(shift);
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn skip(bytes: &mut &[u8], len: usize) -> Option<()> {
    *bytes = bytes.get(len..)?;
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_name_the_service() {
        assert_eq!(request(""), [0, 0, 0, 0, 0]);
        assert_eq!(request("a.B"), [0, 0, 0, 0, 5, 0x0a, 3, b'a', b'.', b'B']);
        let long = "x".repeat(300);
        let body = request(&long);
        assert_eq!(body.get(..8).unwrap(), [0, 0, 0, 1, 0x2f, 0x0a, 0xac, 2]);
    }

    #[test]
    fn replies_are_parsed_and_unknown_fields_are_skipped() {
        let of = |message: &[u8]| {
            let len = u8::try_from(message.len()).unwrap();
            reply(&[&[0, 0, 0, 0, len], message].concat())
        };
        for (message, serving) in [
            (&[8, 1][..], ServingStatus::Serving),
            (&[8, 2], ServingStatus::NotServing),
            (&[8, 3], ServingStatus::ServiceUnknown),
            (&[], ServingStatus::Unknown),
            (&[8, 9], ServingStatus::Unknown),
            (&[0x12, 2, 8, 2, 8, 1], ServingStatus::Serving),
            (
                &[8, 1, 0x15, 1, 2, 3, 4, 0x19, 1, 2, 3, 4, 5, 6, 7, 8, 0x20, 0xff, 1],
                ServingStatus::Serving,
            ),
        ] {
            assert_eq!(of(message), Ok(serving), "{message:?}");
        }
        for wrong in [&[8][..], &[8, 0x80], &[0x0a, 5, 1], &[0x15, 1], &[0x0b], &[0xff; 11]] {
            assert!(of(wrong).is_err(), "{wrong:?}");
        }
        for wrong in [&b""[..], &[0; 4], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 1], &[0, 0, 0, 0, 0, 8]] {
            assert!(reply(wrong).is_err(), "{wrong:?}");
        }
    }
}
