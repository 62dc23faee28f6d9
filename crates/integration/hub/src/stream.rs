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

/// The body of an event stream. It ends when the client leaves, when the next event was removed before it was read, or when the events
/// cannot be read.
pub(crate) struct EventStream {
    /// The reader, or its wait for the next events.
    reading: ReadState,
    /// The gap that the client must be informed of first.
    gap: Option<Gap>,
    /// Events that were read and not written yet.
    ahead: VecDeque<Rc<Event>>,
    heartbeat: Alarm,
}

enum ReadState {
    Rests(Option<Reader>),
    Waits(PendingRead),
}

/// The interval of comments in a silent stream. They keep intermediaries from closing it.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The type of the event that reports a gap.
const GAP: &str = "gap";

/// The size after which a piece of the body ends.
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

    /// Ready once `ahead` has events, or the stream has ended.
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
                            // Events are removed before the client has read them. It learns of the gap when it reconnects.
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
            // The id is that of the last missing event, so that a client that reconnects is not informed twice.
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
