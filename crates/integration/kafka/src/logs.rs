//! The handle for the workers, and the thread that executes their calls.

use std::fmt;
use std::ops::RangeInclusive;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use store::{
    Answer, Error, Guard, Keep, Logs, ReadQuery, Records, Span, Subject, Watch, Watches, limits,
};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{mpsc, oneshot};

use crate::batch::AROUND_BYTES;
use crate::cluster::{CALL_MAX, Cluster};
use crate::waiting_appends::{Append, ByteReservation};
use crate::{KafkaSettings, append, follow};

/// Logs in Kafka. No connection is opened before the first call.
pub struct Kafka {
    settings: KafkaSettings,
    watches: Arc<Watches>,
    commands: OnceLock<Option<mpsc::Sender<Command>>>,
    /// The number of bytes of waiting and in-flight appends.
    bytes: Arc<AtomicUsize>,
}

/// Commands for the thread.
enum Command {
    Append(String, Append),
    Read(String, ReadQuery, oneshot::Sender<Result<Records, Error>>),
    Span(String, oneshot::Sender<Result<Span, Error>>),
    Follow(String),
}

/// The maximum number of commands that wait for the thread, which only dispatches them.
const COMMANDS_MAX: usize = 4096;

/// The maximum number of bytes of waiting and in-flight appends: several batches for several topics, or a few of the largest appends.
const BYTES_MAX: usize = 64 << 20;

impl Kafka {
    pub fn new(settings: KafkaSettings) -> Kafka {
        Kafka {
            settings,
            watches: Arc::default(),
            commands: OnceLock::new(),
            bytes: Arc::default(),
        }
    }

    /// Sends a command to the thread, which is started by the first one.
    fn send(&self, command: Command) -> Result<(), Error> {
        let commands = self.commands.get_or_init(|| {
            let (sender, receiver) = mpsc::channel(COMMANDS_MAX);
            let (settings, watches) = (self.settings.clone(), self.watches.clone());
            let thread = std::thread::Builder::new().name("kafka".to_owned());
            let started = thread.spawn(move || run(settings, watches, receiver));
            match started {
                Ok(_) => Some(sender),
                Err(error) => {
                    tracing::error!("the thread that speaks to Kafka cannot be started: {error}");
                    None
                }
            }
        });
        let commands = commands.as_ref().ok_or_else(ended)?;
        commands.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => Error::Busy,
            mpsc::error::TrySendError::Closed(_) => ended(),
        })
    }

    fn ask<T: Send + 'static>(
        &self,
        log: &str,
        command: impl FnOnce(String, oneshot::Sender<Result<T, Error>>) -> Command,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let sent = limits::name(log).and_then(|()| self.send(command(log.to_owned(), done)));
        Box::pin(async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        })
    }

    /// Prepares an append for the thread, with a reservation of its bytes.
    fn begin(
        &self,
        log: &str,
        records: &[Bytes],
        done: oneshot::Sender<Result<RangeInclusive<u64>, Error>>,
    ) -> Result<(), Error> {
        limits::append(log, records)?;
        let messages: Option<Vec<_>> = records.iter().map(self.settings.form.message).collect();
        let messages = messages.ok_or_else(|| {
            Error::Unavailable("a record cannot be converted to a message for Kafka".to_owned())
        })?;
        let bytes = records.iter().map(|record| record.len() + AROUND_BYTES).sum();
        let before = self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let place = ByteReservation { bytes, of: self.bytes.clone() };
        if before > 0 && before.saturating_add(bytes) > BYTES_MAX {
            return Err(Error::Busy);
        }
        self.send(Command::Append(log.to_owned(), Append { messages, bytes, done, _place: place }))
    }
}

impl fmt::Debug for Kafka {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kafka").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Logs for Kafka {
    /// Appends records. Kafka has no leases, so an append with a guard is refused.
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        let (done, answer) = oneshot::channel();
        let begun = match guard {
            None => self.begin(log, &records, done),
            Some(_) => Err(Error::Unavailable(format!("the log {log} does not support leases"))),
        };
        Box::pin(async move {
            begun?;
            answer.await.unwrap_or_else(|_| Err(ended()))
        })
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        let records_max = read.records_max.min(limits::READ_RECORDS_MAX);
        let bytes_max = read.bytes_max.min(limits::READ_BYTES_MAX);
        let read = ReadQuery { records_max, bytes_max, ..read };
        self.ask(log, |log, done| Command::Read(log, read, done))
    }

    /// Returns the extent of a topic. Kafka does not report its size in bytes.
    fn span(&self, log: &str) -> Answer<Span> {
        self.ask(log, Command::Span)
    }

    /// Removes nothing: Kafka's own settings determine what a topic keeps, and others may read it as well.
    fn trim(&self, log: &str, _keep: Keep) -> Answer<Span> {
        self.span(log)
    }

    fn follow(&self, log: &str) -> Watch {
        let watch = self.watches.watch(Subject::Log(log.to_owned()));
        // Harmless: a watcher also reads the log. The read makes the thread follow it, or reports the failure.
        let _ = self.send(Command::Follow(log.to_owned()));
        watch
    }
}

/// Runs the thread: passes each command to a task, until the last handle is dropped.
fn run(settings: KafkaSettings, watches: Arc<Watches>, mut commands: mpsc::Receiver<Command>) {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!("the runtime of the thread for Kafka cannot be built: {error}");
            return;
        }
    };
    runtime.block_on(async move {
        let cluster = Rc::new(Cluster::new(settings, watches));
        let following = kit::spawn(follow::follow(cluster.clone()));
        while let Some(command) = commands.recv().await {
            dispatch(&cluster, command);
        }
        following.abort();
    });
}

fn dispatch(cluster: &Rc<Cluster>, command: Command) {
    match command {
        Command::Append(log, append) => append::append(cluster, cluster.topic(&log), append),
        Command::Read(log, read, done) => {
            let cluster = cluster.clone();
            kit::spawn(async move {
                let topic = cluster.topic(&log);
                // Harmless: a caller that has stopped waiting needs no answer.
                let _ = done.send(in_time(cluster.read(&topic, read)).await);
            });
        }
        Command::Span(log, done) => {
            let cluster = cluster.clone();
            kit::spawn(async move {
                let topic = cluster.topic(&log);
                // Harmless: a caller that has stopped waiting needs no answer.
                let _ = done.send(in_time(cluster.span(&topic)).await);
            });
        }
        Command::Follow(log) => {
            cluster.topic(&log);
            cluster.followed.notify_one();
        }
    }
}

/// Returns the result of a call, or [`Error::Unavailable`] after the timeout. A call may wait in turn for a leader, for a connection and
/// for other callers.
async fn in_time<T>(call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let late = || Error::Unavailable("Kafka does not answer in time".to_owned());
    tokio::time::timeout(CALL_MAX, call).await.unwrap_or_else(|_| Err(late()))
}

fn ended() -> Error {
    Error::Unavailable("the thread for Kafka has ended".to_owned())
}
