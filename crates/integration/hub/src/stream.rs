//! A topic as an event stream.

use std::collections::VecDeque;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::Fault;
use kit::{Alarm, clock};
use message::{Fill, Source};
use serde_json::json;

use crate::event::Event;
use crate::reader::{Gap, NotRead, PendingRead, Reader, store_fault};

/// The body of an event stream. It goes on until the client leaves, or falls behind what is kept.
pub(crate) struct EventStream {
    /// The reader, or its wait for what is next.
    reading: ReadState,
    /// What it has to be told of first.
    gap: Option<Gap>,
    /// Read and not yet written.
    ahead: VecDeque<Rc<Event>>,
    heartbeat: Alarm,
}

enum ReadState {
    Rests(Option<Reader>),
    Waits(PendingRead),
}

/// A comment goes out after so long a silence, so that whoever stands between does not take the stream for dead.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The type of the event that tells of a gap.
const GAP: &str = "gap";

/// Bytes after which a piece of the body ends.
const PIECE_BYTES: usize = 16 * 1024;

impl EventStream {
    pub(crate) fn new(reader: Reader, gap: Option<Gap>) -> EventStream {
        EventStream {
            gap,
            reading: ReadState::Rests(Some(reader)),
            ahead: VecDeque::new(),
            heartbeat: Alarm::default(),
        }
    }

    /// Ready once `ahead` has something, or there is nothing more to come.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<Result<Fill, Fault>> {
        loop {
            match &mut self.reading {
                ReadState::Rests(reader) => {
                    let Some(reader) = reader.take() else { return Poll::Ready(Ok(Fill::End)) };
                    self.reading = ReadState::Waits(reader.wait());
                }
                ReadState::Waits(waiting) => {
                    let Poll::Ready((reader, read)) = Pin::new(waiting).poll(cx) else {
                        return Poll::Pending;
                    };
                    match read {
                        Ok(events) => {
                            self.reading = ReadState::Rests(Some(reader));
                            self.ahead.extend(events);
                            return Poll::Ready(Ok(Fill::More));
                        }
                        Err(NotRead::Gone { .. }) => {
                            // It reads slower than events are dropped. It has to hear of that when it comes again.
                            self.reading = ReadState::Rests(None);
                            return Poll::Ready(Ok(Fill::End));
                        }
                        Err(NotRead::Store(error)) => {
                            self.reading = ReadState::Rests(None);
                            return Poll::Ready(Err(store_fault(&error)));
                        }
                    }
                }
            }
        }
    }
}

impl Source for EventStream {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        if let Some(Gap { after, oldest }) = self.gap.take() {
            // Its id is that of the last one that is gone, so that a client which comes again does not hear of it twice.
            let (id, data) = (
                oldest.saturating_sub(1),
                json!({ "after": after.to_string(), "oldest": oldest.to_string() }),
            );
            out.extend_from_slice(format!("id: {id}\nevent: {GAP}\ndata: {data}\n\n").as_bytes());
            return Poll::Ready(Ok(Fill::More));
        }
        if self.ahead.is_empty() {
            match self.poll_ahead(cx) {
                Poll::Ready(Ok(Fill::More)) => {}
                Poll::Ready(ended) => return Poll::Ready(ended),
                Poll::Pending => {
                    if !self.heartbeat.is_set() {
                        self.heartbeat.set(clock::now(), HEARTBEAT);
                    }
                    if self.heartbeat.poll(cx).is_pending() {
                        return Poll::Pending;
                    }
                    out.extend_from_slice(b":\n\n");
                }
            }
        }
        let begun = out.len();
        while out.len() - begun < PIECE_BYTES
            && let Some(event) = self.ahead.pop_front()
        {
            event.add_sse(out);
        }
        self.heartbeat.clear();
        Poll::Ready(Ok(Fill::More))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn may_trail(&self) -> bool {
        false
    }
}
