//! One connection to a broker: requests are pipelined, and responses arrive in the same order.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable as _, Encodable as _, HeaderVersion as _, StrBytes};
use kit::dial::Stream;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::sync::{Mutex, oneshot};
use tokio::task::JoinHandle;

use crate::Broker;
use crate::protocol::{Failure, ProtocolRequest, invalid_answer};

/// An open connection.
pub(crate) struct Connection {
    writer: Mutex<WriteHalf<Box<dyn Stream>>>,
    waiting: Rc<RefCell<PendingRequests>>,
    next: Cell<i32>,
    /// For each request that the broker supports: its API key, and the oldest and newest version.
    versions: RefCell<Vec<(i16, i16, i16)>>,
    reader: JoinHandle<()>,
    broker: Broker,
}

/// The callers that wait for responses, in the order of their requests.
#[derive(Default)]
struct PendingRequests {
    queue: VecDeque<(i32, oneshot::Sender<Bytes>)>,
    is_over: bool,
}

/// The maximum size of a response, well above that of a batch with the largest event. It also detects a peer that speaks another protocol.
const ANSWER_BYTES_MAX: u32 = 64 << 20;

/// The client id, which brokers write in their logs.
const CLIENT: &str = "tidegate";

impl Connection {
    /// A connection over a stream, with no known versions yet.
    pub(crate) fn over(stream: Box<dyn Stream>, broker: &Broker) -> Connection {
        let (reading, writing) = tokio::io::split(stream);
        let waiting = Rc::<RefCell<PendingRequests>>::default();
        Connection {
            writer: Mutex::new(writing),
            waiting: waiting.clone(),
            next: Cell::new(0),
            versions: RefCell::default(),
            reader: kit::spawn(read(reading, waiting)),
            broker: broker.clone(),
        }
    }

    /// Sets the versions that the broker supports: for each request its API key, and the oldest and newest version.
    pub(crate) fn use_versions(&self, versions: Vec<(i16, i16, i16)>) {
        self.versions.replace(versions);
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.waiting.borrow().is_over
    }

    /// Sends a request and waits for its response, at most `wait`. Without a response, the connection is closed.
    pub(crate) async fn ask<A: ProtocolRequest>(
        &self,
        request: &A,
        wait: Duration,
    ) -> Result<A::Answer, Failure> {
        let version = self.version::<A>()?;
        self.ask_in(request, version, wait).await
    }

    /// Like [`Connection::ask`], with a given version. Does not check that the broker supports it.
    pub(crate) async fn ask_in<A: ProtocolRequest>(
        &self,
        request: &A,
        version: i16,
        wait: Duration,
    ) -> Result<A::Answer, Failure> {
        let id = self.next.get();
        self.next.set(id.wrapping_add(1));
        let frame = framed(request, version, id)
            .ok_or_else(|| Failure::Refused("a request cannot be encoded".to_owned()))?;
        let answered = tokio::time::timeout(wait, self.exchange(id, &frame)).await;
        let mut answer = answered.unwrap_or_else(|_| {
            self.waiting.borrow_mut().end();
            Err(Failure::Lost(format!("{} does not answer", self.broker)))
        })?;
        let header = A::Answer::header_version(version);
        ResponseHeader::decode(&mut answer, header).map_err(|_| invalid_answer())?;
        if answer.len() > A::ANSWER_BYTES_MAX || !A::SHAPE.fits(&answer, version) {
            return Err(invalid_answer());
        }
        A::Answer::decode(&mut answer, version).map_err(|_| invalid_answer())
    }

    /// Returns the newest version of a request that both sides support.
    fn version<A: ProtocolRequest>(&self) -> Result<i16, Failure> {
        let versions = self.versions.borrow();
        let known = versions.iter().find(|(key, ..)| *key == A::KEY as i16);
        let version = known.map(|(_, min, max)| (*min, A::NEWEST.min(*max)));
        match version {
            Some((min, version)) if min <= version => Ok(version),
            _ => {
                let what = format!(
                    "{} supports no version of {:?} that the gateway supports",
                    self.broker,
                    A::KEY
                );
                Err(Failure::Refused(what))
            }
        }
    }

    async fn exchange(&self, id: i32, frame: &[u8]) -> Result<Bytes, Failure> {
        let mut writer = self.writer.lock().await;
        let (sender, answer) = oneshot::channel();
        {
            let mut waiting = self.waiting.borrow_mut();
            if waiting.is_over {
                let what = format!("the connection to {} has ended", self.broker);
                return Err(Failure::Unreached(what));
            }
            waiting.queue.push_back((id, sender));
        }
        let mut written = Written { waiting: &self.waiting, is_whole: false };
        let sent = async {
            writer.write_all(frame).await?;
            writer.flush().await
        };
        written.is_whole = sent.await.is_ok();
        drop(written);
        drop(writer);
        let lost = |_| Failure::Lost(format!("the connection to {} has ended", self.broker));
        answer.await.map_err(lost)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A request that is being written. If it remains incomplete, because of an error or a dropped caller, the connection is closed: the broker
/// would treat the next request as the rest of this one.
struct Written<'c> {
    waiting: &'c RefCell<PendingRequests>,
    is_whole: bool,
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        if !self.is_whole {
            self.waiting.borrow_mut().end();
        }
    }
}

impl PendingRequests {
    /// Ends the connection for all waiting callers.
    fn end(&mut self) {
        self.is_over = true;
        self.queue.clear();
    }
}

/// Encodes a request with its length and its header.
fn framed<A: ProtocolRequest>(request: &A, version: i16, id: i32) -> Option<BytesMut> {
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    let header = RequestHeader::default()
        .with_request_api_key(A::KEY as i16)
        .with_request_api_version(version)
        .with_correlation_id(id)
        .with_client_id(Some(StrBytes::from_static_str(CLIENT)));
    header.encode(&mut frame, A::header_version(version)).ok()?;
    request.encode(&mut frame, version).ok()?;
    let len = i32::try_from(frame.len().checked_sub(4)?).ok()?;
    frame.first_chunk_mut::<4>()?.copy_from_slice(&len.to_be_bytes());
    Some(frame)
}

/// Passes responses to the waiting callers, until the connection ends.
async fn read(mut stream: ReadHalf<Box<dyn Stream>>, waiting: Rc<RefCell<PendingRequests>>) {
    while let Ok(answer) = frame(&mut stream).await {
        let id = answer.first_chunk::<4>().map(|id| i32::from_be_bytes(*id));
        let next = waiting.borrow_mut().queue.pop_front();
        match next {
            // A caller that has stopped waiting does not need the response.
            Some((expected, sender)) if Some(expected) == id => drop(sender.send(answer)),
            _ => break,
        }
    }
    waiting.borrow_mut().end();
}

/// Reads the next response. Memory grows with the received bytes, not with the announced length.
async fn frame(stream: &mut ReadHalf<Box<dyn Stream>>) -> io::Result<Bytes> {
    let len = stream.read_u32().await?;
    if len > ANSWER_BYTES_MAX {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    // Harmless: the rest belongs to the next frame.
    stream.take(len.into()).read_to_end(&mut bytes).await?;
    if u32::try_from(bytes.len()) == Ok(len) {
        Ok(bytes.into())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}
