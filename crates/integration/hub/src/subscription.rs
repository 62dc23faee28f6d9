//! Stored subscriptions: one row each, with an id derived from its identity.

use std::fmt;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::time::Duration;

use aws_lc_rs::digest;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use store::nodes::PARTITIONS;

use crate::callback::Callback;

/// The id of a subscription: a digest of its subject, topic and callback. The first byte depends on the callback alone, so that all
/// subscriptions of a callback have the same worker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id([u8; 16]);

/// A subscription.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Subscription {
    pub(crate) subject: String,
    /// The plan that the subject had when it subscribed last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<String>,
    /// The topic's name.
    pub(crate) topic: String,
    pub(crate) callback: String,
    /// The end of its lease, in seconds since the Unix epoch, or `None` if it was never confirmed.
    pub(crate) until: Option<u64>,
    /// The terms that were confirmed last.
    pub(crate) terms: Terms,
    /// The id of the newest event at the time of the request. The subscription gets the events after it.
    pub(crate) from: u64,
    /// A request that is not confirmed yet.
    pub(crate) intent: Option<Box<Intent>>,
}

/// The terms of a subscription, apart from its topic and callback.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Terms {
    /// The topic as the subscriber wrote it.
    pub(crate) asked: String,
    pub(crate) secret: Option<String>,
    pub(crate) lease_seconds: u64,
    /// The URL of the hub, as the subscriber saw it.
    pub(crate) base: String,
}

/// A request that waits for the callback's confirmation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Intent {
    Subscribe(Terms),
    /// Contains the topic as it was written.
    Unsubscribe(String),
}

/// A dead event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Dead {
    pub(crate) event: u64,
    pub(crate) subscription: String,
    pub(crate) callback: String,
    pub(crate) attempts: u32,
    /// The cause of the last failed attempt.
    pub(crate) last: String,
    /// The topic. Empty if an older version wrote this.
    #[serde(default)]
    pub(crate) topic: String,
    /// When it became dead, in milliseconds since the Unix epoch. 0 if an older version wrote this.
    #[serde(default)]
    pub(crate) died: u64,
    /// The last failed attempts since the gateway started.
    #[serde(default)]
    pub(crate) failures: Vec<Failure>,
}

/// A failed attempt to deliver an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// The time in milliseconds since the Unix epoch.
    pub(crate) at: u64,
    /// The kind of fault, or `status` if the callback answered.
    pub(crate) fault: String,
    pub(crate) cause: String,
}

/// The partition of all ids with this first byte.
pub(crate) fn partition_of(first: u8) -> usize {
    usize::from(first >> 4) % PARTITIONS
}

impl Id {
    pub(crate) fn of(subject: &str, topic: &str, callback: &Callback) -> Id {
        let callback = callback.to_string();
        let mut hash = digest::Context::new(&digest::SHA256);
        for part in [subject, topic, &callback] {
            // Each part is preceded by its length, so that the bytes of different subscriptions differ.
            hash.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part.as_bytes());
        }
        let mut id = [0; 16];
        let hash = hash.finish();
        // Harmless: the first half of the hash tells subscriptions apart.
        id.iter_mut().zip(hash.as_ref()).for_each(|(to, from)| *to = *from);
        let of_callback = digest::digest(&digest::SHA256, callback.as_bytes());
        if let (Some(first), Some(byte)) = (id.first_mut(), of_callback.as_ref().first()) {
            *first = *byte;
        }
        Id(id)
    }

    /// Parses an id in its stored form.
    pub(crate) fn parse(text: &[u8]) -> Option<Id> {
        let mut id = [0; 16];
        let mut rest = text;
        for byte in &mut id {
            (*byte, rest) = kit::percent::byte(rest)?;
        }
        (rest.is_empty() && !text.iter().any(u8::is_ascii_uppercase)).then_some(Id(id))
    }

    pub(crate) fn of_bytes(bytes: [u8; 16]) -> Id {
        Id(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) fn first(self) -> u8 {
        let [first, ..] = self.0;
        first
    }

    /// All ids with this first byte.
    pub(crate) fn beginning_with(first: u8) -> RangeInclusive<Id> {
        let [least, most] = [0, u8::MAX].map(|rest| {
            let mut id = [rest; 16];
            id[0] = first;
            Id(id)
        });
        least..=most
    }

    /// The worker that delivers to it, given the number of workers.
    pub(crate) fn worker(self, workers: usize) -> usize {
        usize::from(self.first()) % workers.max(1)
    }

    /// The partition: the first hexadecimal digit. The choice of a worker uses all of the first byte.
    pub(crate) fn partition(self) -> usize {
        partition_of(self.first())
    }

    /// The first bytes, as stored, of the ids that a worker has in a partition.
    pub(crate) fn prefixes(
        partition: usize,
        worker: usize,
        workers: usize,
    ) -> impl Iterator<Item = String> {
        let of_worker = move |first: &u8| usize::from(*first) % workers.max(1) == worker;
        let all = (0..=u8::MAX).filter(of_worker);
        let of_partition = all.filter(move |first| partition_of(*first) == partition);
        of_partition.map(|first| format!("{first:02x}"))
    }

    pub(crate) fn key(self) -> Vec<u8> {
        self.to_string().into_bytes()
    }
}

impl Hash for Id {
    /// A part of the digest is enough to tell ids apart, and is faster to hash: each delivery looks its subscription
    /// up a dozen times.
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [.., a, b, c, d, e, f, g, h] = self.0;
        state.write_u64(u64::from_ne_bytes([a, b, c, d, e, f, g, h]));
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Subscription {
    /// True if its lease has ended.
    pub(crate) fn is_over(&self, now: Duration) -> bool {
        self.until.is_some_and(|until| until <= now.as_secs())
    }
}

/// The key of a dead event: the subscription's id and the event's id.
pub(crate) fn dead_key(subscription: Id, event: u64) -> String {
    let mut key = subscription.to_string();
    let _ = write!(key, "-{event}");
    key
}

/// Encodes a value for the store.
pub(crate) fn stored(value: &impl Serialize) -> Option<Bytes> {
    // Harmless: stored values consist of texts, numbers and lists, which can always be serialised.
    serde_json::to_vec(value).ok().map(Bytes::from)
}

/// Decodes a stored value. Returns `None` if another version wrote it in another form.
pub(crate) fn read<'v, T: Deserialize<'v>>(value: &'v [u8]) -> Option<T> {
    // Harmless: the caller reports that it cannot be read.
    serde_json::from_slice(value).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_tell_subscriptions_apart_and_keep_a_callback_together() {
        let callback = |url: &str| Callback::parse(url).unwrap();
        let one = Id::of("ann", "sports", &callback("http://a.example/x"));
        for (subject, topic, url) in [
            ("bob", "sports", "http://a.example/x"),
            ("ann", "weather", "http://a.example/x"),
            ("annsports", "", "http://a.example/x"),
        ] {
            let other = Id::of(subject, topic, &callback(url));
            assert_ne!(other, one);
            assert_eq!(other.worker(7), one.worker(7));
        }
        assert_ne!(Id::of("ann", "sports", &callback("http://a.example/y")), one);
        assert_eq!(Id::of("ann", "sports", &callback("HTTP://A.example:80/x")), one);
        assert_eq!(Id::parse(one.to_string().as_bytes()), Some(one));
        for text in ["", "00", &"0".repeat(33), &"g".repeat(32), &"A".repeat(32)] {
            assert_eq!(Id::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn the_workers_share_all_ids() {
        for workers in [1, 2, 3, 200] {
            let prefixes = (0..workers).flat_map(|worker| {
                (0..PARTITIONS).flat_map(move |partition| Id::prefixes(partition, worker, workers))
            });
            let mut prefixes: Vec<String> = prefixes.collect();
            prefixes.sort_unstable();
            prefixes.dedup();
            assert_eq!(prefixes.len(), 256, "{workers}");
        }
        let id = Id::of("", "t", &Callback::parse("http://a/").unwrap());
        let first = id.to_string().get(..2).unwrap().to_owned();
        assert!(Id::prefixes(id.partition(), id.worker(3), 3).any(|prefix| prefix == first));
    }

    #[test]
    fn what_is_stored_is_read_again() {
        let subscription = Subscription {
            subject: "ann".to_owned(),
            plan: Some("Gold".to_owned()),
            topic: "sports".to_owned(),
            callback: "http://a/".to_owned(),
            until: Some(10),
            terms: Terms { secret: Some("s".to_owned()), ..Terms::default() },
            from: 3,
            intent: Some(Intent::Unsubscribe("sports".to_owned()).into()),
        };
        assert_eq!(read(&stored(&subscription).unwrap()), Some(subscription.clone()));
        assert_eq!(read::<Subscription>(b"{}"), None);
        for (now, is_over) in [(9, false), (10, true), (11, true)] {
            assert_eq!(subscription.is_over(Duration::from_secs(now)), is_over);
        }
    }
}
