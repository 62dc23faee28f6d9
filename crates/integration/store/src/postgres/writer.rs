//! The writer: commits waiting writes in batches, reconnects when necessary, and reports when the database is not available.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use kit::clock::{self, Instant};
use sql::postgres::Server;

use super::call::{BatchNames, Outcome, Write};
use super::connection::{ANSWER_MAX, Link, column};
use super::statement_failure::{StatementFailure, unanswered};
use super::statements::{self, BatchOutcome};
use super::{SharedState, Start};
use crate::Error;

/// The maximum number of writes in a batch. The callers of one batch are answered before the next batch starts.
const BATCH_MAX: usize = 4096;
/// The size from which a batch takes no further write.
const BATCH_BYTES: usize = 8 << 20;
/// The first pause between attempts to connect. It doubles with each attempt.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// The longest pause between attempts to connect.
const PAUSE_MAX: Duration = Duration::from_secs(3);
/// The interval at which a connection without work is checked.
const LOOK: Duration = Duration::from_secs(1);
/// The maximum time for a batch, from its beginning to the answer to its commit. Publishers wait for it.
const WRITE_MAX: Duration = Duration::from_secs(8);
/// The size for which a batch gets one second in addition to [`WRITE_MAX`]. A batch of several times this size gets as many seconds.
const BYTES_A_SECOND: usize = 1 << 20;
/// The minimum time for the answer to a commit.
const COMMIT_MIN: Duration = Duration::from_secs(2);
/// If the answer to a commit was lost, the maximum time to find out whether the commit happened. After that, its outcome is unknown. The
/// server ends an idle transaction sooner (`idle_in_transaction_session_timeout`).
const ASK_MAX: Duration = Duration::from_secs(7);
/// The maximum number of attempts to commit a batch.
const ATTEMPTS: usize = 3;
/// The interval at which ended counters are removed.
const TIDY: Duration = Duration::from_secs(60);
const ENDED: &str = "delete from tidegate.counters where name in \
     (select name from tidegate.counters where until < (extract(epoch from clock_timestamp()) * 1000000)::bigint limit 10000)";
/// A node that has not written for this long no longer needs the outcome of a commit.
const GONE: &str =
    "delete from tidegate.nodes where seen < now() - interval '1 day' and node <> $1";
const LEAVES: &str = "delete from tidegate.nodes where node = $1";
const WHO: &str = "select gen_random_uuid()::text, pg_backend_pid()";

pub(super) struct Writer {
    shared: Arc<SharedState>,
    server: Arc<Server>,
    link: Option<Link>,
    /// The name under which the database keeps the last batch of this writer. It stays the same when the writer reconnects.
    node: Option<String>,
    /// The number of the last batch.
    batch: i64,
    start: Option<SyncSender<Start>>,
}

impl Writer {
    pub(super) fn new(
        shared: Arc<SharedState>,
        server: Arc<Server>,
        start: SyncSender<Start>,
    ) -> Writer {
        Writer { shared, server, link: None, node: None, batch: 0, start: Some(start) }
    }

    /// Runs until the queue is closed and empty.
    pub(super) async fn run(mut self) {
        let mut tidied = clock::now();
        let mut pause = PAUSE_MIN;
        loop {
            if !self.is_linked().await {
                if self.shared.writes.is_closed() {
                    return self.refuse_waiting();
                }
                // Harmless: after the pause it tries again, and once the queue is closed it ends.
                let _ = tokio::time::timeout(pause, self.shared.writes.closed()).await;
                self.refuse_waiting();
                pause = (pause * 2).min(PAUSE_MAX);
                continue;
            }
            pause = PAUSE_MIN;
            let taken = self.shared.writes.take(BATCH_MAX, BATCH_BYTES);
            let Ok(batch) = tokio::time::timeout(LOOK, taken).await else {
                if tidied.elapsed() > TIDY {
                    self.tidy().await;
                    tidied = clock::now();
                }
                continue;
            };
            if batch.is_empty() {
                return self.leave().await;
            }
            self.write(batch).await;
        }
    }

    /// Connects if necessary. Returns true if there is a connection.
    async fn is_linked(&mut self) -> bool {
        if self.link.as_ref().is_some_and(|link| !link.is_closed()) {
            return true;
        }
        self.link = None;
        let connected = self.connect().await;
        let start = match &connected {
            Ok(()) => Start::Ready,
            Err(StatementFailure::Newer(why)) => Start::Refused(why.clone()),
            Err(_) => Start::Away,
        };
        if let Some(told) = self.start.take() {
            // Harmless: the receiver may be gone.
            let _ = told.try_send(start);
        }
        match connected {
            Ok(()) => self.shared.set_away(None),
            Err(why) => {
                let Error::Unavailable(why) = why.error() else { return false };
                self.shared.set_away(Some(why));
            }
        }
        self.link.is_some()
    }

    async fn connect(&mut self) -> Result<(), StatementFailure> {
        let opened = async {
            let mut link = Link::open(&self.server, Box::new(|_, _| {})).await?;
            statements::prepare(&mut link).await?;
            let rows = link.rows(WHO, &[]).await?;
            let who = rows.first().ok_or_else(unanswered)?;
            Ok((column::<String>(who, 0)?, column::<i32>(who, 1)?, link))
        };
        let opened = tokio::time::timeout(ANSWER_MAX, opened).await;
        let (node, process, link) = opened.unwrap_or_else(|_| Err(unanswered()))?;
        self.node.get_or_insert(node);
        self.shared.set_process(process);
        self.link = Some(link);
        Ok(())
    }

    /// Refuses all waiting writes, since the database is not available or the store is closed.
    fn refuse_waiting(&self) {
        let error = self.shared.away().unwrap_or_else(crate::queue::closed);
        loop {
            let waiting = self.shared.writes.take_now(BATCH_MAX, usize::MAX);
            if waiting.is_empty() {
                return;
            }
            waiting.into_iter().for_each(|write| write.answer(Err(error.clone())));
        }
    }

    /// Commits a batch and answers its callers.
    async fn write(&mut self, batch: Vec<Write>) {
        let begun = clock::now();
        match self.committed(&batch).await {
            Ok(outcomes) => {
                self.shared.measure(&batch, begun.elapsed());
                // Harmless: there is an outcome for each write.
                for (write, outcome) in batch.into_iter().zip(outcomes) {
                    write.answer(outcome);
                }
            }
            Err(error) => batch.into_iter().for_each(|write| write.answer(Err(error.clone()))),
        }
    }

    /// Commits a batch. Retries if the batch certainly was not committed.
    async fn committed(&mut self, batch: &[Write]) -> Result<Vec<Result<Outcome, Error>>, Error> {
        let mut why = String::new();
        let bytes: usize = batch.iter().map(Write::bytes).sum();
        let more = Duration::from_secs((bytes / BYTES_A_SECOND) as u64);
        let deadline = clock::now() + WRITE_MAX + more;
        for _ in 0..ATTEMPTS {
            match tokio::time::timeout(left(deadline), self.is_linked()).await {
                Ok(true) => {}
                Ok(false) => return Err(self.shared.away().unwrap_or(Error::Unavailable(why))),
                Err(_) => {
                    return Err(self.give_up(Error::Unavailable, "the server does not answer"));
                }
            }
            match self.attempt(batch, deadline).await {
                Attempt::Done(outcomes) => return Ok(outcomes),
                Attempt::Refused(failed) => {
                    self.link = None;
                    return Err(failed.error());
                }
                Attempt::Nothing(said) => {
                    self.link = None;
                    why = said;
                }
                Attempt::Open(outcomes, said) => {
                    self.link = None;
                    tracing::debug!(why = said, "store: the answer to a commit was lost");
                    match self.find_outcome().await {
                        Some(true) => return Ok(outcomes),
                        Some(false) => why = said,
                        None => return Err(self.give_up(Error::OutcomeUnknown, &said)),
                    }
                }
            }
        }
        Err(Error::Unavailable(why))
    }

    /// Marks the database as not available, and refuses waiting writes, none of which was sent. Returns the error for the current batch.
    fn give_up(&mut self, error: fn(String) -> Error, why: &str) -> Error {
        self.link = None;
        self.shared.set_away(Some(why.to_owned()));
        self.refuse_waiting();
        error(why.to_owned())
    }

    async fn attempt(&mut self, batch: &[Write], deadline: Instant) -> Attempt {
        let (Some(link), Some(node)) = (&mut self.link, &self.node) else {
            return Attempt::Nothing("there is no connection".to_owned());
        };
        let wanted = BatchNames::of(batch);
        let fetched = tokio::time::timeout(left(deadline), statements::fetch(link, &wanted)).await;
        let mut state = match fetched.unwrap_or_else(|_| Err(unanswered())) {
            Ok(state) => state,
            Err(StatementFailure::Lost(why)) => return Attempt::Nothing(why),
            Err(failed) => return Attempt::Refused(failed),
        };
        let outcomes: Vec<_> = batch.iter().map(|write| state.run(write)).collect();
        if !state.changed {
            let ended = tokio::time::timeout(left(deadline), statements::leave(link)).await;
            return match ended {
                Ok(Ok(())) => Attempt::Done(outcomes),
                Ok(Err(_)) | Err(_) => Attempt::Nothing("the connection was lost".to_owned()),
            };
        }
        self.batch += 1;
        let news = std::mem::take(&mut state.changed_subjects);
        state.changed_subjects.clone_from(&news);
        let ended = statements::commit(link, state, node, self.batch);
        let unknown = || BatchOutcome::Unknown("the server does not answer".to_owned());
        let most = left(deadline).max(COMMIT_MIN);
        match tokio::time::timeout(most, ended).await.unwrap_or_else(|_| unknown()) {
            BatchOutcome::Committed => {
                news.iter().for_each(|subject| self.shared.watches.wake(subject));
                Attempt::Done(outcomes)
            }
            BatchOutcome::Refused(failed) => Attempt::Refused(failed),
            BatchOutcome::Unknown(why) => Attempt::Open(outcomes, why),
        }
    }

    /// Finds out whether the last batch was committed. Returns `None` if there was no answer in time.
    async fn find_outcome(&mut self) -> Option<bool> {
        let deadline = clock::now() + ASK_MAX;
        let node = self.node.clone()?;
        let mut pause = PAUSE_MIN;
        while clock::now() < deadline {
            let asked = async {
                if !self.is_linked().await {
                    return None;
                }
                let link = self.link.as_mut()?;
                // Harmless: the query is repeated until the deadline.
                statements::is_committed(link, &node, self.batch).await.ok()
            };
            // Harmless: the query is repeated until the deadline.
            if let Ok(Some(committed)) = tokio::time::timeout(left(deadline), asked).await {
                // The writer did not wake the watchers of this process, and the listener may have ignored the notification as its own.
                self.shared.watches.wake_all();
                return Some(committed);
            }
            self.link = None;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        None
    }

    /// Removes outdated rows. A failure is retried later.
    async fn tidy(&mut self) {
        let (Some(link), Some(node)) = (&mut self.link, &self.node) else { return };
        let tidied = async {
            link.execute(ENDED, &[]).await?;
            link.execute(GONE, &[node]).await
        };
        if !matches!(tokio::time::timeout(ANSWER_MAX, tidied).await, Ok(Ok(_))) {
            self.link = None;
        }
    }

    async fn leave(mut self) {
        if let (Some(link), Some(node)) = (&mut self.link, &self.node) {
            // Harmless: if this fails, other nodes remove the row later.
            let _ = tokio::time::timeout(LOOK, link.execute(LEAVES, &[node])).await;
        }
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(clock::now())
}

/// The outcome of one attempt to commit a batch.
enum Attempt {
    Done(Vec<Result<Outcome, Error>>),
    /// The batch was not committed, and a retry would have the same result.
    Refused(StatementFailure),
    /// The batch was not committed, since the connection was lost before.
    Nothing(String),
    /// The connection was lost, and it is unknown whether the batch was committed. If it was, these are the outcomes.
    Open(Vec<Result<Outcome, Error>>, String),
}
