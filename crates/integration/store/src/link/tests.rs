//! Invalid bytes from another process, and round trips of messages.

use std::io::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::frame::{FrameReader, put};
use super::wire::{AnswerBody, AnswerFrame, Call, CallFrame, ErrorMessage, GetCall};
use super::{connect, listen, run};
use crate::lazy::LazyStore;
use crate::{Error, Memory};

#[test]
fn errors_survive_a_round_trip() {
    for error in [
        Error::Unavailable("a".into()),
        Error::OutcomeUnknown("b".into()),
        Error::Full("c".into()),
        Error::Busy,
        Error::Corrupt("d".into()),
        Error::Fenced,
        Error::Conflict { index: 3, version: None },
        Error::Conflict { index: 0, version: Some(7) },
        Error::Trimmed { oldest: 9 },
    ] {
        assert_eq!(Error::from(ErrorMessage::from(error.clone())), error);
    }
    let size = Error::Size { what: "key", size: 2, max: Some(1) };
    assert!(matches!(Error::from(ErrorMessage::from(size)), Error::Corrupt(_)));
    let newer = ErrorMessage { kind: 99, why: "new".into(), ..ErrorMessage::default() };
    assert_eq!(Error::from(newer), Error::OutcomeUnknown("new".into()));
}

#[tokio::test]
async fn frames_are_read_from_pieces_of_any_size() {
    let call = Call::Get(GetCall { table: "t".into(), key: Bytes::from_static(b"k") });
    let frame = CallFrame { id: 7, call: Some(call) };
    let mut bytes = BytesMut::new();
    put(&frame, &mut bytes).unwrap();
    put(&CallFrame::default(), &mut bytes).unwrap();
    for size in 1..=bytes.len() {
        let pieces = bytes.chunks(size).fold(tokio_pieces(), |built, piece| built.then(piece));
        let mut reader = FrameReader::new(pieces.finish());
        assert_eq!(reader.next::<CallFrame>().await.unwrap(), Some(frame.clone()), "{size}");
        assert_eq!(reader.next::<CallFrame>().await.unwrap(), Some(CallFrame::default()));
        assert_eq!(reader.next::<CallFrame>().await.unwrap(), None);
    }
    for cut in 1..bytes.len() - 4 {
        let mut reader = FrameReader::new(&bytes[..cut]);
        assert!(reader.next::<CallFrame>().await.is_err(), "cut at {cut}");
    }
    let mut reader = FrameReader::new(&b"\xff\xff\xff\xff"[..]);
    assert!(reader.next::<CallFrame>().await.is_err(), "too long");
    let mut reader = FrameReader::new(&b"\0\0\0\x02\xff\xff"[..]);
    assert!(reader.next::<CallFrame>().await.is_err(), "no message");
}

/// A reader that returns one piece at a time.
struct Pieces(Vec<Vec<u8>>);

fn tokio_pieces() -> Pieces {
    Pieces(Vec::new())
}

impl Pieces {
    fn then(mut self, piece: &[u8]) -> Pieces {
        self.0.push(piece.to_vec());
        self
    }

    fn finish(mut self) -> Pieces {
        self.0.reverse();
        self
    }
}

impl tokio::io::AsyncRead for Pieces {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        into: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        if let Some(mut piece) = self.0.pop() {
            let rest = piece.split_off(piece.len().min(into.remaining()));
            into.put_slice(&piece);
            if !rest.is_empty() {
                self.0.push(rest);
            }
        }
        std::task::Poll::Ready(Ok(()))
    }
}

#[tokio::test]
async fn a_call_that_is_not_known_is_refused_and_garbage_ends_the_connection() {
    let folder = tempfile::tempdir().unwrap();
    let store = LazyStore::new(folder.path());
    store.open().unwrap();
    store.serve().unwrap();
    let mut stream = connect(folder.path()).unwrap();
    let mut bytes = BytesMut::new();
    put(&CallFrame { id: 5, call: None }, &mut bytes).unwrap();
    stream.write_all(&bytes).unwrap();
    let stream = tokio::net::UnixStream::from_std(stream).unwrap();
    let mut reader = FrameReader::new(stream);
    let AnswerFrame { id, body } = reader.next().await.unwrap().unwrap();
    assert!(matches!((id, body), (5, Some(AnswerBody::Error(_)))));
    let mut stream = connect(folder.path()).unwrap();
    stream.write_all(b"\xff\xff\xff\xffgarbage").unwrap();
    let mut reader = FrameReader::new(tokio::net::UnixStream::from_std(stream).unwrap());
    let ended = tokio::time::timeout(Duration::from_secs(10), reader.next::<AnswerFrame>()).await;
    assert!(!matches!(ended.unwrap(), Ok(Some(_))));
}

#[tokio::test]
async fn a_socket_takes_the_place_of_an_older_one_in_a_long_path() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("a".repeat(100)).join("b".repeat(100));
    std::fs::create_dir_all(&folder).unwrap();
    assert!(connect(&folder).is_err());
    let first = listen(&folder).unwrap();
    let second = listen(&folder).unwrap();
    drop(first);
    connect(&folder).unwrap();
    assert!(second.accept().is_ok());
}

#[tokio::test]
async fn calls_are_made_on_the_store() {
    let memory = Memory::new();
    let call = Call::Span("l".into());
    assert!(matches!(run(&memory, call).await, Ok(AnswerBody::Span(_))));
}
