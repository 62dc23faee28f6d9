//! `cache`: a message that steps made is given again.
//!
//! Owns the messages that are kept. They never wait for one another: several that miss at once each run the steps.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ::message::Headers;
use bytes::Bytes;
use expression::Template;
use fault::Fault;
use kit::clock::{self, Instant};

use crate::content::{Content, Maker};
use crate::message::Payload;
use crate::state::{Run, State};
use crate::step::{self, Steps, StepsEnd};

/// Messages of one step. As many as clients of one gateway are likely to ask for within a time to live.
const ENTRIES_MAX: usize = 10_000;

/// The most bytes of all messages of one step, keys included: four bodies of the largest size that flows hold by default.
const BYTES_MAX: usize = 64 << 20;

/// The size of an entry without its texts, about.
const ENTRY_BYTES: usize = 256;

/// Steps, and the messages that they made.
pub struct Cache {
    pub key: Template,
    pub ttl: Duration,
    pub steps: Steps,
    pub kept: Arc<MessageCache>,
}

/// Messages by their keys, for all workers. Locked for a look-up alone, never while steps run.
#[derive(Default)]
pub struct MessageCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    by_key: HashMap<Arc<str>, CacheEntry>,
    /// Keys in the order in which they were put in, with the numbers of their entries. All live equally long, so the first is also the first to end.
    order: VecDeque<(Arc<str>, u64)>,
    bytes: usize,
    serial: u64,
}

struct CacheEntry {
    made: Arc<CachedOutcome>,
    until: Instant,
    number: u64,
}

/// A message, and how the steps ended that made it.
struct CachedOutcome {
    status: Option<u16>,
    lines: Headers,
    bytes: Bytes,
    /// The status of the last call.
    last: Option<u16>,
    ended: StepsEnd,
}

/// Gives the cached message, or runs the steps and caches the message that they make.
pub(crate) async fn cached(
    cache: &Cache,
    run: &Run<'_>,
    state: &mut State,
) -> Result<StepsEnd, Fault> {
    let key = run.fill(state, &cache.key)?;
    if let Some(made) = cache.kept.get(&key, clock::now()) {
        made.give(state);
        return Ok(made.ended);
    }
    let ended = step::run(&cache.steps, run, state).await?;
    state.hold(run).await?;
    if let Some(made) = CachedOutcome::of(state, ended) {
        let until = clock::now().checked_add(cache.ttl).unwrap_or_else(clock::now);
        cache.kept.put(&key, made, until);
    }
    Ok(ended)
}

impl CachedOutcome {
    /// None for a message that is not cached: after the failure of a service, or meant for one client.
    fn of(state: &State, ended: StepsEnd) -> Option<CachedOutcome> {
        let message = &state.message;
        let bytes = message.content()?.bytes.clone();
        let is_failure = message.status.is_some_and(|status| status >= 500);
        match is_failure || message.lines.contains("set-cookie") {
            true => None,
            false => Some(CachedOutcome {
                status: message.status,
                lines: message.lines.clone(),
                bytes,
                last: state.status,
                ended,
            }),
        }
    }

    fn give(&self, state: &mut State) {
        state.status = self.last;
        state.message.status = self.status;
        state.message.lines = self.lines.clone();
        let content_type = state.message.content_type();
        let content = Content::new(self.bytes.clone(), content_type, Maker::Flow);
        state.message.payload = Payload::Held(Rc::new(content));
    }

    fn bytes(&self, key: &str) -> usize {
        let lines = self.lines.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
        ENTRY_BYTES + key.len() + lines + self.bytes.len()
    }
}

impl MessageCache {
    fn get(&self, key: &str, now: Instant) -> Option<Arc<CachedOutcome>> {
        let entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = entries.by_key.get(key).filter(|entry| now < entry.until)?;
        Some(entry.made.clone())
    }

    fn put(&self, key: &str, made: CachedOutcome, until: Instant) {
        let bytes = made.bytes(key);
        if bytes > BYTES_MAX {
            return;
        }
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key: Arc<str> = key.into();
        let number = entries.serial;
        entries.serial += 1;
        let entry = CacheEntry { made: Arc::new(made), until, number };
        if let Some(before) = entries.by_key.insert(key.clone(), entry) {
            entries.bytes -= before.made.bytes(&key);
        }
        entries.bytes += bytes;
        entries.order.push_back((key, number));
        entries.shrink();
    }
}

impl Entries {
    /// Drops the oldest until all is within the bounds.
    fn shrink(&mut self) {
        while self.bytes > BYTES_MAX || self.order.len() > ENTRIES_MAX {
            let Some((key, number)) = self.order.pop_front() else { return };
            // One that was replaced is behind itself in the order.
            if self.by_key.get(&key).is_some_and(|entry| entry.number == number)
                && let Some(entry) = self.by_key.remove(&key)
            {
                self.bytes -= entry.made.bytes(&key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(bytes: usize) -> CachedOutcome {
        let bytes = vec![0; bytes].into();
        CachedOutcome {
            status: None,
            lines: Headers::new(),
            bytes,
            last: None,
            ended: StepsEnd::Through,
        }
    }

    #[test]
    fn what_is_kept_is_bounded_in_entries_and_in_bytes() {
        let (kept, now) = (MessageCache::default(), clock::now());
        let until = now + Duration::from_secs(1);
        for number in 0..ENTRIES_MAX + 5 {
            kept.put(&number.to_string(), made(1), until);
            kept.put(&number.to_string(), made(2), until);
        }
        let held = |key: usize| kept.get(&key.to_string(), now).map(|made| made.bytes.len());
        assert_eq!((held(4), held(ENTRIES_MAX + 4)), (None, Some(2)));
        assert!(kept.0.lock().unwrap().by_key.len() <= ENTRIES_MAX);
        for number in 0..10 {
            kept.put(&format!("large {number}"), made(BYTES_MAX / 3), until);
        }
        kept.put("larger", made(BYTES_MAX), until);
        let entries = kept.0.lock().unwrap();
        assert_eq!(entries.by_key.len(), 2);
        let sum: usize = entries.by_key.iter().map(|(key, entry)| entry.made.bytes(key)).sum();
        assert_eq!(entries.bytes, sum);
    }

    #[test]
    fn what_is_kept_ends_with_its_time() {
        let (kept, now) = (MessageCache::default(), clock::now());
        kept.put("a", made(1), now + Duration::from_secs(2));
        let after = |seconds| kept.get("a", now + Duration::from_secs(seconds)).is_some();
        assert_eq!([after(0), after(1), after(2), after(3)], [true, true, false, false]);
    }
}
