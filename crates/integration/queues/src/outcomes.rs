//! The outcomes of a queue's runs: another attempt, a dead message, or the end of a message; and what is stored of them.

use std::time::Duration;

use bytes::Bytes;
use delivery::handover;
use kit::clock::millis;
use store::{Change, Error, Expect, Record};
use telemetry::QueueRun;

use crate::dead::now;
use crate::process::{Process, STORE_RETRY_PAUSE};
use crate::queue::{CURSOR, Dead, note_failure};
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
                match pause.filter(|_| failure.is_retryable) {
                    Some(pause) => {
                        self.tried(message, &failure.why, pause, &mut changes);
                        QueueRun::Failure
                    }
                    None => {
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
        let failures = self.failures.entry(message).or_default();
        note_failure(failures, now(), why);
        changes.push(self.queue.failures_change(message, Some(failures)));
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
        if !self.queue.settings.dead_letter {
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
