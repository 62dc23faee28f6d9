//! Stored positions of subscriptions: one row for each group.
//!
//! All subscriptions of a topic get each event, in the order of their ids, so the positions of a group advance together. Writing one row
//! for each subscription would cost more than the delivery.

use std::ops::RangeInclusive;

use bytes::Bytes;
use delivery::{Cursor, OpenRecord};

use crate::subscription::{Id, partition_of};

/// The subscriptions to a topic whose ids have the same first byte. They have the same worker and partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Group {
    /// The index of the topic.
    pub(crate) topic: u32,
    pub(crate) first: u8,
}

/// The stored position of a subscription. `from` is where the subscription began, so that the position does not apply to an earlier
/// or later one with the same id.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StoredPosition {
    pub(crate) from: u64,
    pub(crate) cursor: Cursor,
    /// The last attempt failed.
    pub(crate) is_failing: bool,
}

/// The first byte of a value: its version.
const FORM: u8 = 1;

impl Group {
    pub(crate) fn partition(self) -> usize {
        partition_of(self.first)
    }

    pub(crate) fn ids(self) -> RangeInclusive<Id> {
        Id::beginning_with(self.first)
    }

    /// The key of its row, given the name of its topic.
    pub(crate) fn key(self, topic: &str) -> Vec<u8> {
        format!("{:02x}/{topic}", self.first).into_bytes()
    }

    /// The name of the topic in the key of a row.
    pub(crate) fn topic_of(key: &[u8]) -> &[u8] {
        key.get(3..).unwrap_or_default()
    }
}

/// Encodes the value of a row. Returns `None` if all subscriptions of the group are still where they began.
pub(crate) fn written<'c>(
    places: impl Iterator<Item = (Id, u64, (&'c Cursor, bool))>,
) -> Option<Bytes> {
    let mut value = vec![FORM];
    for (id, from, (Cursor { head, open }, is_failing)) in places {
        if *head == from && open.is_empty() && !is_failing {
            continue;
        }
        value.extend_from_slice(id.as_bytes());
        value.extend_from_slice(&from.to_be_bytes());
        value.extend_from_slice(&head.to_be_bytes());
        value.push(u8::from(is_failing));
        value.extend_from_slice(&u32::try_from(open.len()).unwrap_or(u32::MAX).to_be_bytes());
        for OpenRecord { position, attempts, due, is_running: _ } in open {
            value.extend_from_slice(&position.to_be_bytes());
            value.extend_from_slice(&attempts.to_be_bytes());
            value.extend_from_slice(&due.to_be_bytes());
        }
    }
    (value.len() > 1).then(|| value.into())
}

/// False if another version wrote the value.
pub(crate) fn is_known_form(value: &[u8]) -> bool {
    value.first() == Some(&FORM)
}

/// Decodes the value of a row. Returns no entries for a value of another version, and stops at a truncated entry.
pub(crate) fn read(value: &[u8]) -> impl Iterator<Item = (Id, StoredPosition)> {
    let mut rest = value.strip_prefix(&[FORM]).unwrap_or(&[]);
    std::iter::from_fn(move || read_one(&mut rest))
}

fn read_one(rest: &mut &[u8]) -> Option<(Id, StoredPosition)> {
    let id = Id::of_bytes(*take(rest)?);
    let from = u64::from_be_bytes(*take(rest)?);
    let head = u64::from_be_bytes(*take(rest)?);
    let [failing] = *take(rest)?;
    let count = u32::from_be_bytes(*take(rest)?);
    let mut open = Vec::new();
    for _ in 0..count {
        let event = u64::from_be_bytes(*take(rest)?);
        let attempts = u32::from_be_bytes(*take(rest)?);
        let due = u64::from_be_bytes(*take(rest)?);
        open.push(OpenRecord { attempts, due, ..OpenRecord::new(event) });
    }
    let is_failing = failing != 0;
    Some((id, StoredPosition { from, cursor: Cursor { head, open }, is_failing }))
}

fn take<'v, const N: usize>(rest: &mut &'v [u8]) -> Option<&'v [u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::callback::Callback;

    fn id(number: u32) -> Id {
        let callback = Callback::parse(&format!("http://a/{number}")).unwrap();
        Id::of("ann", "sports", &callback)
    }

    #[test]
    fn positions_are_read_as_written_and_truncated_rows_up_to_the_last_whole_entry() {
        let open = |event| OpenRecord { attempts: 2, due: u64::MAX, ..OpenRecord::new(event) };
        let cursors = [
            (Cursor::after(9), false),
            (Cursor::after(7), true),
            (Cursor { head: u64::MAX, open: vec![open(8), open(1)] }, false),
            // A subscription that is still where it began.
            (Cursor::after(7), false),
        ];
        let places = || {
            let numbered = (0..).zip(&cursors);
            numbered.map(|(number, (cursor, failing))| (id(number), 7, (cursor, *failing)))
        };
        let value = written(places()).unwrap();
        let expected: Vec<(Id, StoredPosition)> = places()
            .take(3)
            .map(|(id, from, (cursor, is_failing))| {
                (id, StoredPosition { from, cursor: cursor.clone(), is_failing })
            })
            .collect();
        assert_eq!(read(&value).collect::<Vec<_>>(), expected);
        for len in 0..value.len() {
            let cut: Vec<(Id, StoredPosition)> = read(&value[..len]).collect();
            assert!(cut.len() < 3 && expected.starts_with(&cut), "{len}");
        }
        assert_eq!(written(places().skip(3)), None);
        for other in [&b""[..], b"{\"head\":1}", b"\x02", &[FORM; 36]] {
            assert!(read(other).all(|(_, place)| place.cursor.open.is_empty()), "{other:?}");
        }
    }

    #[test]
    fn a_group_has_the_ids_of_its_byte_and_their_partition() {
        for number in 0..300 {
            let id = id(number);
            let group = Group { topic: 0, first: id.first() };
            assert!(group.ids().contains(&id));
            assert_eq!(group.partition(), id.partition());
            assert!(!Group { first: id.first() ^ 1, ..group }.ids().contains(&id));
            assert_eq!(group.key("a/b").get(..2), Some(&id.key()[..2]));
            assert_eq!(Group::topic_of(&group.key("a/b")), b"a/b");
        }
    }
}
