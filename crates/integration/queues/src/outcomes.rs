//! The outcomes of a queue's runs: another attempt, a dead message, or the end of a message; and what is stored of them.

use std::time::Duration;

use bytes::Bytes;
use delivery::handover;
use kit::clock::millis;
use store::{Change, Error, Expect, Record};
use telemetry::QueueRun;

use crate::dead::now;
use crate::process::{Process, STORE_RETRY_PAUSE};
use crate::queue::{CURSOR, Dead, Exhausted, note_failure};
use crate::run::RunFailure;
use crate::runs::RunOutcome;

impl Process {
    /// Records the outcome of a run.
    pub(crate) async fn ran(&mut self, ran: RunOutcome) {
        let RunOutcome { message, record, failed } = ran;
        let mut changes = Vec::new();
        let outcome = match (failed, self.cursor.get(message)) {
            (None, _) | (_, None) => QueueRun::Success,
            (Some(failure), Some(open)) => {
                open.is_running = false;
                let pause = open.fail(&self.queue.settings.retries, Duration::ZERO);
                let attempts = open.attempts;
                let pause = pause.filter(|_| failure.is_retryable);
                match (pause, self.queue.settings.exhausted) {
                    (Some(pause), _) => {
                        self.tried(message, &failure.why, pause, &mut changes);
                        QueueRun::Failure
                    }
                    (None, Exhausted::Pause) => {
                        self.stop(message, &failure.why, &mut changes);
                        QueueRun::Failure
                    }
                    (None, Exhausted::Dead) => {
                        if !self.move_dead(&record.bytes).await {
                            // Another worker or node processes the message again. This one must not begin it while it ends.
                            if let Some(open) = self.cursor.get(message) {
                                open.is_running = true;
                            }
                            return;
                        }
                        self.died(attempts, record, failure, &mut changes);
                        QueueRun::Dead
                    }
                }
            }
        };
        self.queue.entrance.metrics.ran(outcome);
        if outcome != QueueRun::Failure {
            self.cursor.end(message);
            if self.failures.remove(&message).is_some() {
                changes.push(self.queue.failures_change(message, None));
            }
        }
        self.write(changes).await;
        if outcome == QueueRun::Dead {
            self.keep_dead().await;
        }
    }

    /// Handles a failed message that will be retried.
    fn tried(&mut self, message: u64, why: &str, pause: Duration, changes: &mut Vec<Change>) {
        let queue = self.queue.name();
        tracing::debug!(queue, id = message, "tried again in {pause:?}: {why}");
        self.note_failure(message, why, changes);
    }

    /// Pauses the queue after the last attempt at a message, which keeps its place and gets all its attempts again.
    fn stop(&mut self, message: u64, why: &str, changes: &mut Vec<Change>) {
        tracing::warn!(
            queue = self.queue.name(),
            id = message,
            "paused after the last attempt at a message; resume the queue to try it again: {why}"
        );
        if let Some(open) = self.cursor.get(message) {
            (open.attempts, open.due) = (0, 0);
        }
        self.is_paused = true;
        self.note_failure(message, why, changes);
        changes.extend(self.queue.switch().decide(Some(true)));
    }

    /// Records the failure of a message that keeps its place.
    fn note_failure(&mut self, message: u64, why: &str, changes: &mut Vec<Change>) {
        let failures = self.failures.entry(message).or_default();
        note_failure(failures, now(), why);
        changes.push(self.queue.failures_change(message, Some(failures)));
    }

    /// Puts a dead message into the queue for dead messages, if there is one. Retries until that succeeds, the worker ends or the queue is
    /// lost; in the latter cases returns false. If the process dies right afterwards, the message is put there once more.
    async fn move_dead(&self, record: &Bytes) -> bool {
        let Some(entrance) = &self.queue.dead_entrance else { return true };
        loop {
            match entrance.put_record(record.clone(), self.guard.as_ref()).await {
                Ok(_) => return true,
                Err(Error::Fenced) => self.queue.nodes.tell_fenced(self.term),
                Err(error) => {
                    let (queue, to) = (self.queue.name(), &*entrance.name);
                    tracing::warn!(queue, to, "a dead message waits for the store: {error}");
                }
            }
            if handover::pause(&self.place.ending, STORE_RETRY_PAUSE).await || self.is_lost() {
                return false;
            }
        }
    }

    /// Handles a message that has failed for the last time.
    fn died(
        &mut self,
        attempts: u32,
        record: Record,
        RunFailure { why, is_retryable }: RunFailure,
        changes: &mut Vec<Change>,
    ) {
        let (queue, message) = (self.queue.name(), record.position);
        // The field is called `id`, because `message` is reserved for the text of a log line.
        if is_retryable {
            tracing::warn!(queue, id = message, "dead after its last attempt: {why}")
        } else {
            tracing::warn!(
                queue,
                id = message,
                "dead at once, because a retry cannot succeed: {why}"
            );
        }
        if !self.queue.settings.dead_letter || self.queue.dead_entrance.is_some() {
            return;
        }
        // Harmless: a message that has not failed before has no earlier failures.
        let mut failures = self.failures.get(&message).cloned().unwrap_or_default();
        let died = now();
        note_failure(&mut failures, died, &why);
        let bytes = u64::try_from(record.bytes.len()).unwrap_or(u64::MAX);
        let stored = millis(record.time);
        let dead =
            Dead { message, attempts, last: why, failures, stored, died, bytes, returning: 0 };
        changes.extend(self.queue.dead_changes(&dead, record.bytes));
        self.dead.add(bytes, died);
    }

    /// Removes dead messages beyond the limits.
    pub(crate) async fn keep_dead(&mut self) {
        if let Err(error) = self.dead.keep(&self.queue, self.guard.as_ref()).await {
            // The next tick tries again.
            tracing::debug!(
                queue = self.queue.name(),
                "cannot clean up the dead messages: {error}"
            );
        }
    }

    /// Writes the position of the processing together with other changes. Retries until the write succeeds, the worker ends or the queue is
    /// lost, because no other message may start before.
    async fn write(&mut self, changes: Vec<Change>) {
        loop {
            let mut changes = changes.clone();
            // Harmless: numbers can always be serialised.
            let value = serde_json::to_vec(&self.cursor).ok().map(Bytes::from);
            let table = self.queue.tables.cursor.clone();
            changes.push(Change { table, key: CURSOR.to_vec(), value, expect: Expect::Anything });
            match self.queue.entrance.store.change(changes, self.guard.as_ref()).await {
                Ok(_) => return,
                Err(Error::Fenced) => self.queue.nodes.tell_fenced(self.term),
                Err(error) => {
                    let queue = self.queue.name();
                    tracing::warn!(queue, "the queue is waiting for the store: {error}");
                }
            }
            if handover::pause(&self.place.ending, STORE_RETRY_PAUSE).await || self.is_lost() {
                // Whatever is not written is processed again.
                return;
            }
        }
    }
}
