//! The state of a subscription on its worker: its position, and what it waits for.

use std::rc::Rc;
use std::time::Duration;

use delivery::Cursor;
use kit::clock::Instant;

use crate::agenda::Entry;
use crate::compact::CompactSubscription;
use crate::positions::{Group, StoredPosition};
use crate::settings::HubSettings;
use crate::subscription::{Id, Subscription};
use crate::write_batch::End;

pub(crate) struct Member {
    pub(crate) subscription: Rc<CompactSubscription>,
    /// The version of its row.
    pub(crate) version: u64,
    /// The index of its topic.
    pub(crate) topic: u32,
    /// The number of events that have ended since its position was stored.
    pub(crate) unwritten_ends: u32,
    /// Its position in the topic.
    pub(crate) cursor: Cursor,
    /// The last attempt failed.
    pub(crate) is_failing: bool,
    /// The next event is being read.
    pub(crate) is_fetching: bool,
    /// Its callback is being asked, or the answer is being written.
    pub(crate) is_asking: bool,
    /// Its row is being removed.
    pub(crate) is_removing: bool,
    pub(crate) entry: Entry,
}

/// The next job of a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Remove it: its lease has ended.
    Removal,
    /// Verify the intent with its callback.
    Confirmation,
    /// Send this open event, for the first time or again.
    Attempt(u64),
    /// Find the event that follows this one.
    Next(u64),
    /// Nothing at present.
    Nothing,
}

impl Need {
    /// The event that has to be sent.
    pub(crate) fn event(self) -> Option<u64> {
        match self {
            Need::Attempt(event) => Some(event),
            Need::Removal | Need::Confirmation | Need::Next(_) | Need::Nothing => None,
        }
    }
}

impl Member {
    /// The group of the subscription, given its id.
    pub(crate) fn group(&self, id: Id) -> Group {
        Group { topic: self.topic, first: id.first() }
    }

    /// The job that is due, given the times of the monotonic clock and of the wall clock.
    pub(crate) fn need(&self, settings: &HubSettings, now: Instant, wall: Duration) -> Need {
        if self.is_removing {
            return Need::Nothing;
        }
        if self.subscription.is_over(now) {
            return Need::Removal;
        }
        if self.subscription.intent.is_some() && !self.is_asking {
            return Need::Confirmation;
        }
        if self.subscription.until.is_none() {
            return Need::Nothing;
        }
        if let Some(event) = self.cursor.due(&settings.delivery.retries, wall) {
            return Need::Attempt(event);
        }
        let unwritten_ends = usize::try_from(self.unwritten_ends).unwrap_or(usize::MAX);
        let under_way = self.cursor.open.len().saturating_add(unwritten_ends);
        if under_way < settings.delivery.concurrency && !self.is_fetching {
            Need::Next(self.cursor.head)
        } else {
            Need::Nothing
        }
    }

    /// True while one of its jobs is in progress.
    pub(crate) fn is_busy(&self) -> bool {
        self.cursor.running() > 0 || self.is_fetching || self.is_asking || self.is_removing
    }

    /// Counts an ended event, which has to be stored.
    pub(crate) fn ended(&mut self, id: Id) -> End {
        self.unwritten_ends = self.unwritten_ends.saturating_add(1);
        End { id, from: self.subscription.from }
    }

    /// Its state as one word, for operators.
    pub(crate) fn status(
        subscription: &Subscription,
        position: Option<&StoredPosition>,
    ) -> &'static str {
        match (subscription.until, position) {
            (None, _) => "pending",
            (Some(_), Some(position)) if position.is_failing => "failing",
            (Some(_), _) => "active",
        }
    }
}
