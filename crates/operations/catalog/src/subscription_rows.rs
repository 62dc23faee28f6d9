//! Subscriptions in memory, in a compact form. There may be millions, so each takes some hundred bytes instead of a
//! kilobyte.
//!
//! Owns the compact form, and the list of each application's subscriptions.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use crate::ids::{Id, Words, number, text};
use crate::objects::{Subscription, SubscriptionState};

/// The end of a list.
const NONE: u32 = u32::MAX;

/// All subscriptions.
#[derive(Default)]
pub(crate) struct SubscriptionRows {
    rows: Vec<CompactRow>,
    /// Free places in `rows`.
    free: Vec<u32>,
    /// Places by id. The ids are in the rows.
    places: HashTable<u32>,
    /// The place of the newest subscription of each application.
    newest: HashTable<u32>,
    hash: RandomState,
    /// While all rows are being read: whether the row at each place was read or written since. Empty at other times.
    is_read: Vec<bool>,
    /// APIs and plans.
    words: Words,
}

struct CompactRow {
    id: Id,
    application: Id,
    version: u64,
    created: u64,
    api: u32,
    plan: u32,
    /// The next older subscription of the same application.
    older: u32,
    state: SubscriptionState,
}

impl SubscriptionRows {
    pub(crate) fn get(&self, id: &str) -> Option<(Subscription, u64)> {
        self.row(id).map(|row| (self.whole(row), row.version))
    }

    pub(crate) fn version(&self, id: &str) -> Option<u64> {
        self.row(id).map(|row| row.version)
    }

    /// Adds or replaces a subscription. Returns false, without keeping it, if one of its ids is invalid.
    pub(crate) fn insert(&mut self, subscription: &Subscription, version: u64) -> bool {
        let Subscription { id, api, application, plan, state, created } = subscription;
        let (Some(number), Some(application)) = (number(id), number(application)) else {
            return false;
        };
        self.remove(id);
        let (Some(api), Some(plan)) = (self.words.number(api), self.words.number(plan)) else {
            return false;
        };
        // Harmless: the caller reports a subscription that cannot be stored.
        let Some(place) = self.free.pop().or_else(|| u32::try_from(self.rows.len()).ok()) else {
            return false;
        };
        let older = self.newest_of(application).unwrap_or(NONE);
        let row = CompactRow {
            id: number,
            application,
            version,
            created: *created,
            api,
            plan,
            older,
            state: *state,
        };
        match self.rows.get_mut(place as usize) {
            Some(free) => *free = row,
            None => self.rows.push(row),
        }
        let SubscriptionRows { rows, places, hash, .. } = self;
        let hash_at =
            |place: &u32| rows.get(*place as usize).map_or(0, |row| hash.hash_one(row.id));
        places.insert_unique(hash.hash_one(number), place, hash_at);
        self.set_newest(application, place);
        self.note_place(place);
        true
    }

    pub(crate) fn remove(&mut self, id: &str) {
        if let Some(place) = number(id).and_then(|id| self.place(id)) {
            self.remove_at(place);
        }
    }

    fn remove_at(&mut self, place: u32) {
        let Some(row) = self.rows.get(place as usize) else { return };
        let (id, application, older) = (row.id, row.application, row.older);
        let hash = self.hash.hash_one(id);
        let Ok(entry) = self.places.find_entry(hash, |known| *known == place) else { return };
        entry.remove();
        self.unlink(application, place, older);
        self.free.push(place);
    }

    /// Removes a place from the list of its application.
    fn unlink(&mut self, application: Id, place: u32, older: u32) {
        let Some(newest) = self.newest_of(application) else { return };
        if newest == place {
            self.set_newest(application, older);
            return;
        }
        let mut at = newest;
        while let Some(row) = self.rows.get_mut(at as usize) {
            if row.older == place {
                row.older = older;
                return;
            }
            at = row.older;
        }
    }

    fn place(&self, id: Id) -> Option<u32> {
        let is_it = |place: &u32| self.rows.get(*place as usize).is_some_and(|row| row.id == id);
        self.places.find(self.hash.hash_one(id), is_it).copied()
    }

    fn newest_of(&self, application: Id) -> Option<u32> {
        let is_it = |place: &u32| {
            self.rows.get(*place as usize).is_some_and(|row| row.application == application)
        };
        self.newest.find(self.hash.hash_one(application), is_it).copied()
    }

    /// Sets the start of an application's list, or removes the list.
    fn set_newest(&mut self, application: Id, place: u32) {
        let SubscriptionRows { rows, newest, hash, .. } = self;
        let of = |place: &u32| rows.get(*place as usize).map(|row| row.application);
        let is_it = |place: &u32| of(place) == Some(application);
        let own = hash.hash_one(application);
        match newest.find_entry(own, is_it) {
            Ok(entry) if place == NONE => drop(entry.remove()),
            Ok(mut entry) => *entry.get_mut() = place,
            Err(_) if place == NONE => {}
            Err(_) => {
                let hash_at = |place: &u32| of(place).map_or(0, |id| hash.hash_one(id));
                newest.insert_unique(own, place, hash_at);
            }
        }
    }

    /// Begins a reading of all rows.
    pub(crate) fn begin_reading(&mut self) {
        self.is_read = vec![false; self.rows.len()];
    }

    /// Notes that the store has this row.
    pub(crate) fn note(&mut self, id: &str) {
        if let Some(place) = number(id).and_then(|id| self.place(id)) {
            self.note_place(place);
        }
    }

    fn note_place(&mut self, place: u32) {
        // Harmless: a place added after the start of the reading is not checked at its end.
        if let Some(is_read) = self.is_read.get_mut(place as usize) {
            *is_read = true;
        }
    }

    /// Ends a reading of all rows. Subscriptions without a row are removed.
    pub(crate) fn end_reading(&mut self) {
        for (place, is_read) in (0..).zip(std::mem::take(&mut self.is_read)) {
            if !is_read {
                // A free place has nothing to remove.
                self.remove_at(place);
            }
        }
    }

    /// The subscriptions of an application, the newest first.
    pub(crate) fn of_application(&self, application: &str) -> impl Iterator<Item = Subscription> {
        self.rows_of(application).map(|row| self.whole(row))
    }

    pub(crate) fn count_of(&self, application: &str) -> usize {
        self.rows_of(application).count()
    }

    /// The applications that have subscribed to an API. Examines all subscriptions, and so compares numbers instead of texts.
    pub(crate) fn subscribers_of(&self, api: &str) -> impl Iterator<Item = String> {
        let number = self.words.known(api);
        let rows = self.all().filter(move |row| Some(row.api) == number);
        rows.map(|row| text(row.application))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Subscription, u64)> {
        self.all().map(|row| (self.whole(row), row.version))
    }

    fn all(&self) -> impl Iterator<Item = &CompactRow> {
        // Harmless: each place has a row.
        self.places.iter().filter_map(|place| self.rows.get(*place as usize))
    }

    fn rows_of(&self, application: &str) -> impl Iterator<Item = &CompactRow> {
        // Harmless: an unknown application has none.
        let newest = number(application).and_then(|id| self.newest_of(id));
        let first = newest.and_then(|place| self.rows.get(place as usize));
        std::iter::successors(first, |row| self.rows.get(row.older as usize))
    }

    fn row(&self, id: &str) -> Option<&CompactRow> {
        let place = self.place(number(id)?)?;
        self.rows.get(place as usize)
    }

    fn whole(&self, row: &CompactRow) -> Subscription {
        Subscription {
            id: text(row.id),
            api: self.words.text(row.api),
            application: text(row.application),
            plan: self.words.text(row.plan),
            state: row.state,
            created: row.created,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> String {
        text((number * 0x0123_4567_89ab_cdef).to_be_bytes())
    }

    fn subscription(number: u128, application: u128) -> Subscription {
        Subscription {
            id: id(number),
            api: format!("api {}", number % 3),
            application: id(application),
            plan: "Gold".to_owned(),
            state: SubscriptionState::Unblocked,
            created: 7,
        }
    }

    fn ids(rows: &SubscriptionRows, application: u128) -> Vec<String> {
        rows.of_application(&id(application)).map(|one| one.id).collect()
    }

    #[test]
    fn rows_are_added_changed_and_removed_and_listed_by_application() {
        let mut rows = SubscriptionRows::default();
        for number in 1..=9 {
            assert!(rows.insert(&subscription(number, 100 + number % 2), 1));
        }
        assert_eq!(ids(&rows, 100), [8, 6, 4, 2].map(id));
        assert_eq!(rows.count_of(&id(101)), 5);
        // The first, the last and a middle one are removed from the list.
        for gone in [8, 4, 2] {
            rows.remove(&id(gone));
            rows.remove(&id(gone));
        }
        assert_eq!(ids(&rows, 100), [id(6)]);
        rows.remove(&id(6));
        assert_eq!((ids(&rows, 100).len(), rows.newest.len()), (0, 1));
        // A change keeps the place, and a free place is reused.
        let changed = Subscription { state: SubscriptionState::Blocked, ..subscription(3, 101) };
        assert!(rows.insert(&changed, 2) && rows.insert(&subscription(20, 102), 1));
        assert_eq!(rows.rows.len(), 9);
        let (read, version) = rows.get(&id(3)).unwrap();
        assert_eq!(
            (read.state, read.api.as_str(), version),
            (SubscriptionState::Blocked, "api 0", 2)
        );
        assert_eq!((rows.version(&id(20)), rows.version(&id(8))), (Some(1), None));
        assert_eq!(rows.iter().count(), 6);
        // Removed rows keep their places until these are reused, and are not counted.
        let mut subscribers: Vec<String> = rows.subscribers_of("api 0").collect();
        subscribers.sort();
        assert_eq!(subscribers, [101, 101].map(id));
        assert_eq!(rows.subscribers_of("api 7").count(), 0);
        assert!(!rows.insert(&Subscription { id: "x".to_owned(), ..subscription(1, 1) }, 1));
    }

    #[test]
    fn rows_missing_in_the_store_are_removed_unless_written_meanwhile() {
        let mut rows = SubscriptionRows::default();
        (1..=6).for_each(|number| assert!(rows.insert(&subscription(number, 100), 1)));
        rows.remove(&id(6));
        rows.begin_reading();
        rows.note(&id(2));
        assert!(rows.insert(&subscription(3, 100), 2));
        rows.remove(&id(4));
        // The first of these reuses the place of a removed row.
        assert!(rows.insert(&subscription(8, 100), 2) && rows.insert(&subscription(9, 101), 2));
        rows.end_reading();
        assert_eq!(ids(&rows, 100), [8, 3, 2].map(id));
        assert_eq!(ids(&rows, 101), [9].map(id));
        rows.end_reading();
        assert_eq!(rows.iter().count(), 4, "no reading is in progress");
    }

    #[test]
    fn many_rows_are_found() {
        let mut rows = SubscriptionRows::default();
        for number in 1..=5000 {
            assert!(rows.insert(&subscription(number, number % 700), 1));
        }
        (1..=5000).filter(|number| number % 2 == 0).for_each(|number| rows.remove(&id(number)));
        for number in 1..=5000_u128 {
            assert_eq!(rows.version(&id(number)).is_some(), number % 2 == 1, "{number}");
        }
        let of_all: usize = (0..700).map(|application| rows.count_of(&id(application))).sum();
        assert_eq!(of_all, 2500);
        assert_eq!(rows.newest.len(), 350);
    }

    #[test]
    fn a_row_is_small() {
        assert!(size_of::<CompactRow>() <= 64, "{}", size_of::<CompactRow>());
    }
}
