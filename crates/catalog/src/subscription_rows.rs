//! Subscriptions in memory. There may be millions of them, so each takes some hundred bytes and not a kilobyte.
//!
//! Owns their compact form, and the list of those that an application has.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::objects::{Subscription, SubscriptionState};

/// An identifier in the form of a UUID, as a number.
type Id = [u8; 16];

/// The end of a list.
const NONE: u32 = u32::MAX;

/// All subscriptions.
#[derive(Default)]
pub(crate) struct SubscriptionRows {
    rows: Vec<CompactRow>,
    /// Places of `rows` that are free.
    free: Vec<u32>,
    places: HashMap<Id, u32>,
    /// The place of the newest subscription of each application.
    newest: HashMap<Id, u32>,
    /// APIs and plans, of which there are few. One that is gone leaves its word until the next start.
    words: Words,
}

struct CompactRow {
    id: Id,
    application: Id,
    version: u64,
    created: u64,
    api: u32,
    plan: u32,
    /// The next older one of the same application.
    older: u32,
    state: SubscriptionState,
}

/// Texts by their numbers, and numbers by their texts.
#[derive(Default)]
struct Words {
    all: Vec<Box<str>>,
    numbers: HashMap<Box<str>, u32>,
}

impl SubscriptionRows {
    pub(crate) fn get(&self, id: &str) -> Option<(Subscription, u64)> {
        self.row(id).map(|row| (self.whole(row), row.version))
    }

    pub(crate) fn version(&self, id: &str) -> Option<u64> {
        self.row(id).map(|row| row.version)
    }

    /// False for one that cannot be kept: its ids are none of the catalog's.
    pub(crate) fn insert(&mut self, subscription: &Subscription, version: u64) -> bool {
        let Subscription { id, api, application, plan, state, created } = subscription;
        let (Some(number), Some(application)) = (number(id), number(application)) else {
            return false;
        };
        self.remove(id);
        let (Some(api), Some(plan)) = (self.words.number(api), self.words.number(plan)) else {
            return false;
        };
        // Harmless: the caller reports what cannot be kept.
        let Some(place) = self.free.pop().or_else(|| u32::try_from(self.rows.len()).ok()) else {
            return false;
        };
        let older = self.newest.insert(application, place).unwrap_or(NONE);
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
        self.places.insert(number, place);
        true
    }

    pub(crate) fn remove(&mut self, id: &str) {
        let Some(place) = number(id).and_then(|id| self.places.remove(&id)) else { return };
        let Some(row) = self.rows.get(place as usize) else { return };
        let (application, older) = (row.application, row.older);
        self.unlink(application, place, older);
        self.free.push(place);
    }

    /// Takes a place out of the list of its application.
    fn unlink(&mut self, application: Id, place: u32, older: u32) {
        let Entry::Occupied(mut newest) = self.newest.entry(application) else { return };
        if *newest.get() == place {
            if older == NONE {
                newest.remove();
            } else {
                newest.insert(older);
            }
            return;
        }
        let mut at = *newest.get();
        while let Some(row) = self.rows.get_mut(at as usize) {
            if row.older == place {
                row.older = older;
                return;
            }
            at = row.older;
        }
    }

    /// The subscriptions of an application, the newest first.
    pub(crate) fn of_application(&self, application: &str) -> impl Iterator<Item = Subscription> {
        self.rows_of(application).map(|row| self.whole(row))
    }

    pub(crate) fn count_of(&self, application: &str) -> usize {
        self.rows_of(application).count()
    }

    /// The applications that have subscribed to an API. Compares numbers, since all subscriptions are examined.
    pub(crate) fn subscribers_of(&self, api: &str) -> impl Iterator<Item = String> {
        let number = self.words.numbers.get(api).copied();
        let rows = self.all().filter(move |row| Some(row.api) == number);
        rows.map(|row| text(row.application))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Subscription, u64)> {
        self.all().map(|row| (self.whole(row), row.version))
    }

    fn all(&self) -> impl Iterator<Item = &CompactRow> {
        // Harmless: each place has a row.
        self.places.values().filter_map(|place| self.rows.get(*place as usize))
    }

    fn rows_of(&self, application: &str) -> impl Iterator<Item = &CompactRow> {
        // Harmless: an application that is not there has none.
        let newest = number(application).and_then(|id| self.newest.get(&id));
        let first = newest.and_then(|place| self.rows.get(*place as usize));
        std::iter::successors(first, |row| self.rows.get(row.older as usize))
    }

    fn row(&self, id: &str) -> Option<&CompactRow> {
        let place = self.places.get(&number(id)?)?;
        self.rows.get(*place as usize)
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

impl Words {
    fn number(&mut self, text: &str) -> Option<u32> {
        if let Some(known) = self.numbers.get(text) {
            return Some(*known);
        }
        let number = u32::try_from(self.all.len()).ok()?;
        self.all.push(text.into());
        self.numbers.insert(text.into(), number);
        Some(number)
    }

    fn text(&self, number: u32) -> String {
        // Harmless: each number has a text.
        self.all.get(number as usize).map(|text| text.to_string()).unwrap_or_default()
    }
}

/// The number of a UUID as the catalog writes them: in lower case, with dashes at their places.
fn number(id: &str) -> Option<Id> {
    let digits: String = id.split('-').collect();
    // Harmless: what does not have such digits is not an id.
    let number = u128::from_str_radix(&digits, 16).ok()?.to_be_bytes();
    (text(number) == id).then_some(number)
}

fn text(id: Id) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(id));
    let ends = [8, 12, 16, 20, 32];
    let begins = [0, 8, 12, 16, 20];
    // Harmless: the text has 32 digits.
    let parts = begins.iter().zip(ends).map(|(from, to)| hex.get(*from..to).unwrap_or_default());
    parts.collect::<Vec<_>>().join("-")
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
    fn ids_are_what_the_catalog_makes() {
        for _ in 0..100 {
            let made = crate::secrets::uuid();
            assert_eq!(number(&made).map(text), Some(made));
        }
        for bad in [
            "",
            "a",
            "01234567-89AB-4cde-af01-23456789abcd",
            "0123456789ab4cdeaf0123456789abcd",
            "+1234567-89ab-4cde-af01-23456789abcd",
        ] {
            assert_eq!(number(bad), None, "{bad}");
        }
    }

    #[test]
    fn rows_come_change_and_go_and_each_application_has_its_own() {
        let mut rows = SubscriptionRows::default();
        for number in 1..=9 {
            assert!(rows.insert(&subscription(number, 100 + number % 2), 1));
        }
        assert_eq!(ids(&rows, 100), [8, 6, 4, 2].map(id));
        assert_eq!(rows.count_of(&id(101)), 5);
        // The first, the last and one between leave the list.
        for gone in [8, 4, 2] {
            rows.remove(&id(gone));
            rows.remove(&id(gone));
        }
        assert_eq!(ids(&rows, 100), [id(6)]);
        rows.remove(&id(6));
        assert_eq!((ids(&rows, 100).len(), rows.newest.len()), (0, 1));
        // A change keeps the place, and a free one is used again.
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
        // Removed rows keep their places until these are used again, and count for no API.
        let mut subscribers: Vec<String> = rows.subscribers_of("api 0").collect();
        subscribers.sort();
        assert_eq!(subscribers, [101, 101].map(id));
        assert_eq!(rows.subscribers_of("api 7").count(), 0);
        assert!(!rows.insert(&Subscription { id: "x".to_owned(), ..subscription(1, 1) }, 1));
    }

    #[test]
    fn a_row_is_small() {
        assert!(size_of::<CompactRow>() <= 64, "{}", size_of::<CompactRow>());
    }
}
