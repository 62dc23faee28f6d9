//! The subscriptions of a worker: how they are added, changed and removed.

use delivery::Cursor;

use crate::agenda::Entry;
use crate::deliver::{Deliveries, REMOVED};
use crate::hub_state::SubscriptionUpdate;
use crate::member::Member;
use crate::positions::{Group, StoredPosition};
use crate::subscription::{Id, Subscription};

/// The number of removed subscriptions that are remembered, so that a late update does not add them again.
const GONE_MAX: usize = 4096;

impl Deliveries {
    /// Adds a subscription, or replaces it and keeps its position. `position` is the stored position of a subscription that was read from
    /// the store.
    pub(crate) fn insert(
        &mut self,
        id: Id,
        version: u64,
        subscription: Subscription,
        position: Option<StoredPosition>,
    ) {
        let topic = self.hub.place_of(subscription.topic.as_bytes());
        let Some(topic) = topic else { return self.leave_out(id, version, &subscription) };
        let before = self.members.remove(&id);
        let unread = self.unread.remove(&id).map(|(_, place)| place);
        let position = position.or(unread.filter(|place| place.from == subscription.from));
        let is_held = before.as_ref().is_some_and(|before| before.subscription.until.is_some());
        if subscription.until.is_some() && !is_held {
            self.hub.state.hold(self.worker(), &subscription.subject);
        }
        let (unwritten_ends, is_asking) =
            before.as_ref().map_or((0, false), |before| (before.unwritten_ends, before.is_asking));
        let (cursor, is_failing) = match (before, position) {
            (Some(before), _) => (before.cursor, before.is_failing),
            (None, Some(position)) => (position.cursor, position.is_failing),
            (None, None) => (Cursor::after(subscription.from), false),
        };
        let member = Member {
            subscription: self.common_parts.known(subscription, &self.hub.state.lease_clock),
            version,
            topic: u32::try_from(topic).unwrap_or(u32::MAX),
            unwritten_ends,
            cursor,
            is_failing,
            is_fetching: false,
            is_asking,
            is_removing: false,
            entry: Entry::default(),
        };
        self.members.insert(id, member);
        if let Some(members) = self.topics.get_mut(topic) {
            members.ids.insert(id);
        }
        self.follow(topic);
        self.queue(id);
    }

    /// Forgets a subscription whose row was removed, and no longer counts it as pending.
    pub(crate) fn removed(&mut self, id: Id, version: u64) {
        self.hub.state.answered(id);
        self.forget(id, version);
    }

    /// Forgets a subscription with its position, and remembers the version of its removal.
    pub(crate) fn forget(&mut self, id: Id, version: u64) {
        if let Some(group) = self.drop_member(id) {
            // The next write of the group's row deletes the position.
            self.unwritten.note(group);
        }
        if self.removals.len() >= GONE_MAX {
            self.removals.clear();
        }
        self.removals.insert(id, version);
    }

    /// Drops a subscription without changing its row. Returns its group.
    pub(crate) fn drop_member(&mut self, id: Id) -> Option<Group> {
        let member = self.members.remove(&id)?;
        self.failures.forget(id, member.cursor.open.iter().map(|open| open.position));
        if member.subscription.until.is_some() {
            self.hub.state.let_go(self.worker(), &member.subscription.common.subject);
        }
        if let Some(members) = self.topics.get_mut(member.topic as usize) {
            members.ids.remove(&id);
        }
        Some(member.group(id))
    }

    /// Applies an update of a subscription that this worker owns.
    pub(crate) fn apply_update(&mut self, update: SubscriptionUpdate) {
        match update {
            // Its reservation ends once the subscription itself is counted.
            SubscriptionUpdate::Written {
                id,
                version,
                subscription,
                is_new,
                reservation: _reserved,
            } => {
                let known = self.members.get(&id).map(|member| member.version);
                let latest = known.max(self.removals.get(&id).copied());
                if latest.is_none_or(|latest| version > latest) {
                    if is_new {
                        // An earlier subscription with the same id may still be known, with its position.
                        self.forget(id, 0);
                    }
                    self.replace(id, version, *subscription);
                }
            }
            SubscriptionUpdate::Removed(id, version) => self.removed(id, version),
            SubscriptionUpdate::Denied(id, subscription) => self.deny(id, *subscription, REMOVED),
        }
    }

    /// Adopts a stored subscription. Requests in progress continue.
    pub(crate) fn replace(&mut self, id: Id, version: u64, subscription: Subscription) {
        let worker = self.worker();
        match self.members.get_mut(&id) {
            Some(member) => {
                if subscription.until.is_some() && member.subscription.until.is_none() {
                    self.hub.state.hold(worker, &subscription.subject);
                }
                member.subscription =
                    self.common_parts.known(subscription, &self.hub.state.lease_clock);
                member.version = version;
                member.is_asking = false;
                self.queue(id);
            }
            None => self.insert(id, version, subscription, None),
        }
    }
}
