//! The position of deliveries in a log: the last record whose delivery was started, and the started records that have not ended.

use std::time::Duration;

use kit::clock::{self, millis};
use serde::{Deserialize, Serialize};

use crate::retries::Retries;

/// The position of deliveries in a log. Its form in JSON is that of the stored position of a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Cursor {
    /// The last record that was started. No record before it remains to be started.
    pub head: u64,
    /// The started records that have not ended.
    pub open: Vec<OpenRecord>,
}

/// A record that was started and has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OpenRecord {
    /// Its position in the log. Stored positions of queues have it under the name `message`.
    #[serde(rename = "message")]
    pub position: u64,
    /// The number of failed attempts.
    pub attempts: u32,
    /// When the next attempt is due, in milliseconds since the Unix epoch.
    pub due: u64,
    /// Whether an attempt is in progress.
    #[serde(skip)]
    pub is_running: bool,
}

impl Cursor {
    /// Returns the position after a record, with nothing open.
    pub fn after(head: u64) -> Cursor {
        Cursor { head, open: Vec::new() }
    }

    /// Starts the next record. Its first attempt is due at once.
    pub fn begin(&mut self, position: u64) {
        self.head = position;
        self.reopen(position);
    }

    /// Opens a record that has ended, or was never open, with a new series of attempts. Does nothing if it is open.
    pub fn reopen(&mut self, position: u64) {
        if self.get(position).is_none() {
            // There may be a million cursors. Most have one open record at a time, so no spare memory is kept.
            self.open.reserve_exact(1);
            self.open.push(OpenRecord::new(position));
        }
    }

    /// Ends a record.
    pub fn end(&mut self, position: u64) {
        self.open.retain(|open| open.position != position);
        if self.open.is_empty() {
            self.open = Vec::new();
        }
    }

    pub fn get(&mut self, position: u64) -> Option<&mut OpenRecord> {
        self.open.iter_mut().find(|open| open.position == position)
    }

    /// Returns the number of attempts in progress.
    pub fn running(&self) -> usize {
        self.open.iter().filter(|open| open.is_running).count()
    }

    /// Returns the first record whose next attempt is due and not in progress.
    pub fn due(&self, retries: &Retries, now: Duration) -> Option<u64> {
        let is_due = |open: &&OpenRecord| retries.is_due(open.due, now) && !open.is_running;
        Some(self.open.iter().find(is_due)?.position)
    }

    /// Returns when the next attempt is due, as time since the Unix epoch, or `None` if no record waits for an attempt.
    pub fn next_due(&self) -> Option<Duration> {
        let waiting = self.open.iter().filter(|open| !open.is_running);
        waiting.map(|open| Duration::from_millis(open.due)).min()
    }

    /// Returns the last record that is no longer needed: it and all before it have ended.
    pub fn done(&self) -> u64 {
        let oldest = self.open.iter().map(|open| open.position.saturating_sub(1));
        oldest.chain([self.head]).min().unwrap_or(self.head)
    }
}

impl OpenRecord {
    pub fn new(position: u64) -> OpenRecord {
        OpenRecord { position, attempts: 0, due: 0, is_running: false }
    }

    /// Counts a failed attempt and sets when the next one is due. Returns the pause until then, or `None` if no attempt is left. The
    /// receiver may ask for a longer pause than usual, up to `retries.max`.
    pub fn fail(&mut self, retries: &Retries, asked: Duration) -> Option<Duration> {
        self.attempts = self.attempts.saturating_add(1);
        let pause = retries.pause(self.attempts, fastrand::u64(..1000))?;
        let pause = pause.max(asked.min(retries.max));
        self.put_off(pause);
        Some(pause)
    }

    /// Postpones the next attempt without counting a failed one.
    pub fn put_off(&mut self, pause: Duration) {
        self.due = millis(clock::wall().saturating_add(pause));
    }
}

#[cfg(test)]
mod tests {
    use kit::fake;

    use super::*;

    const RETRIES: Retries = Retries {
        attempts: 3,
        initial: Duration::from_secs(10),
        factor_permille: 2000,
        max: Duration::from_secs(60),
    };

    /// Sets the wall clock to a number of seconds after a fixed time, and returns its time.
    fn at(seconds: u64) -> Duration {
        let time = Duration::from_secs(1_000_000 + seconds);
        fake::wall(time);
        time
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_is_tried_when_it_is_due_and_never_twice_at_once() {
        let now = at(0);
        let mut cursor = Cursor::after(6);
        assert_eq!((cursor.due(&RETRIES, now), cursor.next_due(), cursor.done()), (None, None, 6));
        cursor.begin(7);
        cursor.begin(9);
        assert_eq!((cursor.head, cursor.due(&RETRIES, now)), (9, Some(7)));
        cursor.get(7).unwrap().is_running = true;
        assert_eq!((cursor.running(), cursor.due(&RETRIES, now)), (1, Some(9)));
        cursor.get(9).unwrap().is_running = true;
        assert_eq!((cursor.due(&RETRIES, now), cursor.next_due()), (None, None));
        let failed = cursor.get(7).unwrap();
        failed.is_running = false;
        let pause = failed.fail(&RETRIES, Duration::ZERO).unwrap();
        assert!((10..=12).contains(&pause.as_secs()), "with its jitter: {pause:?}");
        assert_eq!(cursor.next_due(), Some(Duration::from_millis(millis(now + pause))));
        assert_eq!(cursor.due(&RETRIES, at(9)), None);
        assert_eq!(cursor.due(&RETRIES, at(12)), Some(7));
        cursor.end(7);
        assert_eq!((cursor.due(&RETRIES, at(12)), cursor.done()), (None, 8));
        cursor.end(9);
        assert_eq!((cursor.done(), cursor), (9, Cursor::after(9)));
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end_and_a_receiver_may_ask_for_a_longer_pause() {
        let now = at(0);
        let mut open = OpenRecord::new(1);
        open.put_off(Duration::from_secs(1));
        assert_eq!((open.attempts, open.due), (0, millis(now) + 1000));
        for (asked, expected) in [(30, 30), (3600, 60)] {
            let pause = open.fail(&RETRIES, Duration::from_secs(asked));
            assert_eq!(pause, Some(Duration::from_secs(expected)), "at most the longest");
            assert_eq!(open.due, millis(now) + 1000 * expected);
        }
        assert_eq!((open.fail(&RETRIES, Duration::ZERO), open.attempts), (None, 3));
    }

    #[test]
    fn a_record_that_is_open_is_not_opened_a_second_time() {
        let mut cursor = Cursor::after(9);
        cursor.reopen(3);
        cursor.get(3).unwrap().attempts = 1;
        cursor.reopen(3);
        assert_eq!(cursor.open, [OpenRecord { attempts: 1, ..OpenRecord::new(3) }]);
        assert_eq!((cursor.head, cursor.done()), (9, 2));
    }

    /// Attempts in progress are not stored: after a crash they are repeated.
    #[test]
    fn a_position_is_read_as_it_was_stored() {
        let text = r#"{"head":9,"open":[{"message":7,"attempts":2,"due":1000}]}"#;
        let mut cursor: Cursor = serde_json::from_str(text).unwrap();
        assert_eq!(cursor.open, [OpenRecord { attempts: 2, due: 1000, ..OpenRecord::new(7) }]);
        cursor.get(7).unwrap().is_running = true;
        assert_eq!(serde_json::to_string(&cursor).unwrap(), text);
    }
}
