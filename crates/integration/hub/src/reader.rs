//! The position of a reader in a topic, for all ways of reading.

use std::rc::Rc;

use fault::{Fault, Kind};
use kit::LocalBoxFuture;
use store::Error;

use crate::event::Event;
use crate::feed::{Feed, ReadBounds};

/// One reader of a topic. Long polls, event streams and WebSockets have one each.
pub(crate) struct Reader {
    feed: Rc<Feed>,
    /// The id of the last event that it has read.
    after: u64,
    /// The id of the newest event when it began. Events up to it are read from the log, even if the worker does not know them yet.
    newest: u64,
}

/// The position at which a reader asks to begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartFrom {
    /// Only new events.
    Now,
    /// Events after this id. 0 means all events that are kept.
    After(u64),
}

/// The reason why nothing was read.
#[derive(Debug)]
pub(crate) enum NotRead {
    /// The event after the reader's position is no longer kept; `oldest` is the first event that is.
    Gone {
        oldest: u64,
    },
    Store(Error),
}

/// A gap in the events of a reader: the events after `after` are gone, and `oldest` is the first that is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gap {
    pub(crate) after: u64,
    pub(crate) oldest: u64,
}

/// A wait for events, with the reader that waits.
pub(crate) type PendingRead = LocalBoxFuture<'static, (Reader, Result<Vec<Rc<Event>>, NotRead>)>;

/// The limits of one read of a stream or a WebSocket. Thousands of clients may stop reading, so the memory for each must be small:
/// these events with their encoding usually stay below 64 KiB. A larger event is read alone.
const AT_ONCE: ReadBounds = ReadBounds { events: 128, bytes: 24 * 1024 };

impl NotRead {
    fn of(error: Error) -> NotRead {
        if let Error::Trimmed { oldest } = error {
            return NotRead::Gone { oldest };
        }
        NotRead::Store(error)
    }
}

impl StartFrom {
    /// Parses an event id of a request.
    pub(crate) fn of(text: Option<&[u8]>) -> Result<StartFrom, Fault> {
        let Some(text) = text else { return Ok(StartFrom::Now) };
        // Harmless: an invalid number is refused.
        let id = std::str::from_utf8(text).ok().and_then(kit::digits::whole);
        id.map(StartFrom::After).ok_or_else(|| {
            let what = "The id must be the id of an event.";
            Fault::with_detail(Kind::HubRequestInvalid, what, what)
        })
    }
}

impl Reader {
    /// Makes a reader at its starting position. If the next event there is gone, the reader starts before the oldest event that is kept,
    /// and the gap is returned.
    pub(crate) fn new(feed: Rc<Feed>, span: store::Span, from: StartFrom) -> (Reader, Option<Gap>) {
        let (after, gap) = match from {
            StartFrom::Now => (span.newest, None),
            // An id above the newest means the end.
            StartFrom::After(id) if id > span.newest => (span.newest, None),
            StartFrom::After(id) if id > 0 && id.saturating_add(1) < span.oldest => {
                (span.oldest.saturating_sub(1), Some(Gap { after: id, oldest: span.oldest }))
            }
            StartFrom::After(id) => (id, None),
        };
        (Reader { feed, after, newest: span.newest }, gap)
    }

    /// The id of the last event that was read.
    pub(crate) fn after(&self) -> u64 {
        self.after
    }

    /// Returns the available events, up to a limit, or an empty list if all were read.
    pub(crate) async fn read(&mut self, most: ReadBounds) -> Result<Vec<Rc<Event>>, NotRead> {
        let events = if self.feed.newest() < self.newest {
            self.feed.read_log(self.after, most).await
        } else {
            self.feed.read(self.after, most).await
        };
        let events = events.map_err(NotRead::of)?;
        if let Some(last) = events.last() {
            self.after = last.id;
        }
        Ok(events)
    }

    /// Waits for events.
    pub(crate) async fn next(&mut self, most: ReadBounds) -> Result<Vec<Rc<Event>>, NotRead> {
        let news = self.feed.news();
        loop {
            // Registered before the read, so that no wake-up is missed after it.
            let notified = news.clone().notified_owned();
            let events = self.read(most).await?;
            if !events.is_empty() {
                return Ok(events);
            }
            notified.await;
        }
    }

    /// Waits for events, up to the limits of one read of a stream or a WebSocket.
    pub(crate) fn wait(mut self) -> PendingRead {
        Box::pin(async move {
            let read = self.next(AT_ONCE).await;
            (self, read)
        })
    }
}

/// The text for a client whose request has an unknown outcome, since the store did not acknowledge the write.
const UNKNOWN_OUTCOME: &str =
    "The store did not answer in time. It is not known whether this was stored.";

/// The fault for an error of the store.
pub(crate) fn store_fault(error: &Error) -> Fault {
    match error {
        Error::Full(_) => Fault::new(Kind::StoreFull, error.to_string()),
        Error::Size { .. } => Fault::new(Kind::BodyTooLarge, error.to_string()),
        Error::OutcomeUnknown(_) => {
            Fault::with_detail(Kind::StoreAway, error.to_string(), UNKNOWN_OUTCOME)
        }
        Error::Unavailable(_)
        | Error::Busy
        | Error::Corrupt(_)
        | Error::Fenced
        | Error::Conflict { .. }
        | Error::Trimmed { .. } => Fault::new(Kind::StoreAway, error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_numbers() {
        assert_eq!(StartFrom::of(None).unwrap(), StartFrom::Now);
        for (text, id) in [("0", 0), ("007", 7), ("18446744073709551615", u64::MAX)] {
            assert_eq!(StartFrom::of(Some(text.as_bytes())).unwrap(), StartFrom::After(id));
        }
        for text in ["", "-1", "+1", "1.0", "a", " 1", "18446744073709551616", "1%20", "\u{0661}"] {
            assert!(StartFrom::of(Some(text.as_bytes())).is_err(), "{text}");
        }
    }
}
