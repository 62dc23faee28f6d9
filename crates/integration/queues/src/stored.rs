//! The storage format of a message: method, target, headers and body.

use bytes::Bytes;
use message::{Body, Protocol, Request, RequestHead};

/// The first byte of a record: the version of the format.
const VERSION: u8 = 1;

/// Returns the record of a message: the version, the length of the head in four bytes, the head, and the body. The head consists of lines:
/// the method, the target, and the header lines as in HTTP/1. Returns `None` if the head is too long for its length field.
pub(crate) fn record(head: &RequestHead, body: &[u8]) -> Option<Bytes> {
    let mut lines = Vec::new();
    for part in [head.method(), head.target()] {
        lines.extend_from_slice(part);
        lines.push(b'\n');
    }
    for (name, value) in head.headers.iter() {
        for part in [name, b":", value, b"\n"] {
            lines.extend_from_slice(part);
        }
    }
    let len = u32::try_from(lines.len()).ok()?;
    let mut record = Vec::with_capacity(lines.len() + body.len() + 5);
    record.push(VERSION);
    record.extend_from_slice(&len.to_be_bytes());
    record.extend_from_slice(&lines);
    record.extend_from_slice(body);
    Some(record.into())
}

/// Returns the message of a record, or `None` if the record has another format.
pub(crate) fn request(record: &Bytes) -> Option<Request> {
    let ([version, len @ ..], rest) = record.split_first_chunk::<5>()?;
    let len = usize::try_from(u32::from_be_bytes(*len)).ok()?;
    if *version != VERSION {
        return None;
    }
    let (lines, body) = rest.split_at_checked(len)?;
    let mut lines = lines.split(|byte| *byte == b'\n');
    let mut head = RequestHead::new(Protocol::Http11, lines.next()?, lines.next()?);
    for line in lines.filter(|line| !line.is_empty()) {
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        let name = std::str::from_utf8(name).ok()?;
        head.headers.add(name, value.get(1..)?).ok()?;
    }
    Some(Request { head, body: Body::whole(record.slice(record.len() - body.len()..)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_stored() {
        let mut head = RequestHead::new(Protocol::Http11, b"PUT", b"/a?b=c");
        head.headers.add("X-One", b"1: 2").unwrap();
        head.headers.add("X-One", b"").unwrap();
        let record = record(&head, b"\0body\n").unwrap();
        let read = request(&record).unwrap();
        assert_eq!((read.head.method(), read.head.target()), (&b"PUT"[..], &b"/a?b=c"[..]));
        let ones: Vec<&[u8]> = read.head.headers.get_all("x-one").collect();
        assert_eq!(ones, [&b"1: 2"[..], b""]);
        let Body::Whole(body, _) = read.body else { panic!("it has a body") };
        assert_eq!(&*body, b"\0body\n");
        for bytes in
            [&b""[..], b"\x01", b"\x02\0\0\0\0", b"\x01\0\0\0\x09GET\n", b"\x01\0\0\0\x03GET"]
        {
            assert!(request(&Bytes::copy_from_slice(bytes)).is_none(), "{bytes:?}");
        }
    }
}
