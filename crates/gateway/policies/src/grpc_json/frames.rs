//! The frames of a reply: each is a message with a prefix of five bytes.

use fault::{Fault, Kind};
use protobuf::PREFIX_BYTES;

/// The front of a body.
pub(super) enum Frame<'b> {
    /// A message, and the bytes after it.
    Whole(&'b [u8], &'b [u8]),
    /// More bytes are needed.
    Partial,
}

/// Reads the frame at the front. A message longer than `bytes_max`, and one that is compressed, is a fault: the gateway offers no
/// compression to the service.
pub(super) fn first(bytes: &[u8], bytes_max: usize) -> Result<Frame<'_>, Fault> {
    let Some((prefix, rest)) = bytes.split_at_checked(PREFIX_BYTES) else {
        return Ok(Frame::Partial);
    };
    let (flags, length) = prefix.split_at(1);
    if flags != [0] {
        return Err(Fault::new(Kind::ReplyInvalid, "a message of the reply is compressed"));
    }
    let length = length.iter().fold(0usize, |length, byte| (length << 8) | usize::from(*byte));
    if length > bytes_max {
        let cause = format!("a message of the reply has {length} bytes, over {bytes_max}");
        return Err(Fault::new(Kind::ReplyTooLarge, cause));
    }
    Ok(match rest.split_at_checked(length) {
        Some((message, rest)) => Frame::Whole(message, rest),
        None => Frame::Partial,
    })
}

/// Returns the message of a reply that has exactly one.
pub(super) fn only(bytes: &[u8], bytes_max: usize) -> Result<&[u8], Fault> {
    match first(bytes, bytes_max)? {
        Frame::Whole(message, []) => Ok(message),
        Frame::Whole(..) => {
            Err(Fault::new(Kind::ReplyInvalid, "the reply has more than one message"))
        }
        Frame::Partial => Err(Fault::new(Kind::ReplyInvalid, "the reply has no whole message")),
    }
}
