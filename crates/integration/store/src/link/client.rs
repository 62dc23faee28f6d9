//! The side of a process that gave its store away: sends its calls to the process that has the store.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use kit::clock::{self, Instant, millis};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, oneshot};

use super::frame::{FrameReader, put};
use super::wire::{
    AcquireCall, AddCall, AnswerBody, AnswerFrame, AppendCall, Call, CallFrame, ChangeCall,
    GetCall, LeaseMessage, ReadCall, ScanCall, TrimCall,
};
use super::{StoreOwner, connect, run};
use crate::call_queue::Queue;
use crate::handover::{HANDOVER_MAX, moving};
use crate::watch::{Subject, Watches};
use crate::{
    Answer, Change, CounterValue, Counters, Error, Guard, Keep, Lease, LeaseAnswer, Leases, Logs,
    ReadQuery, Records, Row, Rows, Scan, Span, Tables, Watch, limits,
};

/// The maximum number of sent calls that have no answer yet.
const UNANSWERED_MAX: usize = 1024;
/// The maximum number of calls in one write.
const BATCH_MAX: usize = 64;
/// The size of calls from which one write takes no further call.
const BATCH_BYTES: usize = 1 << 20;
/// The time limit for an answer, in addition to [`HANDOVER_MAX`], for which a call may wait until a process serves the store.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(10);

/// A store that another process has opened. Clones share one connection.
#[derive(Debug, Clone)]
pub(crate) struct LinkedStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    queue: Arc<Queue<Waiting>>,
    watches: Arc<Watches>,
}

/// A call on its way.
#[derive(Debug)]
struct Waiting {
    call: Call,
    made: Instant,
    done: oneshot::Sender<Result<AnswerBody, Error>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
    }
}

impl LinkedStore {
    /// Connects to the store in a folder. `watches` are woken by its changes. If this process takes the store back, waiting calls are made
    /// on `store`.
    pub(crate) fn start(
        folder: &Path,
        watches: Arc<Watches>,
        store: Arc<dyn StoreOwner>,
    ) -> Result<LinkedStore, Error> {
        let queue = Arc::new(Queue::new());
        let link = Link {
            folder: folder.to_owned(),
            queue: queue.clone(),
            watches: watches.clone(),
            again: RefCell::default(),
        };
        let thread = std::thread::Builder::new().name("store-link".to_owned());
        let thread = thread.spawn(move || {
            let mut runtime = Builder::new_current_thread();
            match runtime.enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => runtime.block_on(work(Rc::new(link), store)),
                Err(error) => tracing::error!("store: its thread cannot start: {error}"),
            }
        });
        let thread = thread.map_err(|error| Error::Unavailable(error.to_string()))?;
        // It ends by itself once the queue is closed.
        drop(thread);
        let inner = Inner { queue, watches };
        Ok(LinkedStore { inner: Arc::new(inner) })
    }

    /// Sends no more calls to the other process. Waiting calls are made here, once the store is open here.
    pub(crate) fn close(&self) {
        self.inner.queue.close();
    }

    /// Passes a call to the thread, unless the check of its arguments has failed.
    fn call<T: Send + 'static>(
        &self,
        checked: Result<(), Error>,
        call: impl FnOnce() -> Call,
        read: impl FnOnce(AnswerBody) -> Option<T> + Send + 'static,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let begun = checked.and_then(|()| {
            let call = call();
            let (bytes, is_write) = (bytes_of(&call), is_write(&call));
            self.inner.queue.push(Waiting { call, made: clock::now(), done }, bytes)?;
            Ok(is_write)
        });
        Box::pin(async move {
            let is_write = begun?;
            let answered = tokio::time::timeout(HANDOVER_MAX + ANSWER_MAX, answer).await;
            let body = match answered {
                Ok(Ok(result)) => result?,
                Ok(Err(_)) | Err(_) => return Err(lost(is_write)),
            };
            read(body).ok_or_else(|| unreadable(is_write))
        })
    }
}

/// The error for a call whose answer was lost.
fn lost(is_write: bool) -> Error {
    unanswered(is_write, "the process that has the store has ended, or does not answer")
}

/// The error for a call whose answer is in a form that only another version of the program knows.
fn unreadable(is_write: bool) -> Error {
    unanswered(is_write, "the answer of the process that has the store cannot be read")
}

/// The error for a call without an answer. A write may have been made.
fn unanswered(is_write: bool, why: &str) -> Error {
    let why = why.to_owned();
    if is_write { Error::OutcomeUnknown(why) } else { Error::Unavailable(why) }
}

/// Returns the error that another process sent for a call. An unknown kind is read as `OutcomeUnknown`. A call that writes nothing then
/// gets `Unavailable`.
fn of_call(error: Error, is_write: bool) -> Error {
    let Error::OutcomeUnknown(why) = error else { return error };
    unanswered(is_write, &why)
}

fn is_write(call: &Call) -> bool {
    match call {
        Call::Read(_) | Call::Span(_) | Call::Get(_) | Call::Scan(_) => false,
        Call::Append(_)
        | Call::Trim(_)
        | Call::Change(_)
        | Call::Acquire(_)
        | Call::Renew(_)
        | Call::Release(_)
        | Call::Add(_) => true,
    }
}

/// The number of bytes of records and rows that a waiting call holds.
fn bytes_of(call: &Call) -> usize {
    match call {
        Call::Append(call) => call.records.iter().map(Bytes::len).sum(),
        Call::Change(call) => {
            let len = |value: &Option<Bytes>| value.as_ref().map_or(0, Bytes::len);
            call.changes.iter().map(|change| change.key.len() + len(&change.value)).sum()
        }
        Call::Read(_)
        | Call::Span(_)
        | Call::Trim(_)
        | Call::Get(_)
        | Call::Scan(_)
        | Call::Acquire(_)
        | Call::Renew(_)
        | Call::Release(_)
        | Call::Add(_) => 0,
    }
}

/// The thread's state.
struct Link {
    folder: PathBuf,
    queue: Arc<Queue<Waiting>>,
    watches: Arc<Watches>,
    /// Reads whose answers were lost. They are sent again.
    again: RefCell<Vec<Waiting>>,
}

/// The calls of one connection that have no answer yet.
#[derive(Default)]
struct Unanswered {
    calls: RefCell<HashMap<u64, Waiting>>,
    /// Notified when a call was answered.
    room: Notify,
    /// Notified when another process has the store.
    moved: Notify,
}

impl Link {
    /// Refuses calls that have waited too long.
    fn refuse_late(&self) {
        let late = self.queue.take_while(is_late);
        let again =
            self.again.borrow_mut().extract_if(.., |waiting| is_late(waiting)).collect::<Vec<_>>();
        late.into_iter().chain(again).for_each(refuse);
    }
}

/// The work of the thread: connects, exchanges calls and answers, and connects again, until the queue is closed. Then waiting calls are
/// made here.
async fn work(link: Rc<Link>, store: Arc<dyn StoreOwner>) {
    while !link.queue.is_closed() {
        link.refuse_late();
        // Harmless: if no process listens yet, the next attempt follows after a pause.
        if let Ok(stream) = connect(&link.folder).and_then(UnixStream::from_std) {
            link.watches.wake_all();
            converse(&link, stream).await;
            link.watches.wake_all();
        }
        // Harmless: the loop tries again after the pause, and ends once the queue is closed.
        let _ = tokio::time::timeout(PAUSE, link.queue.closed()).await;
    }
    let mut rest = std::mem::take(&mut *link.again.borrow_mut());
    loop {
        let more = link.queue.take_now(BATCH_MAX, BATCH_BYTES);
        if more.is_empty() {
            break;
        }
        rest.extend(more);
    }
    let here: FuturesUnordered<_> =
        rest.into_iter().map(|waiting| make(&*store, waiting)).collect();
    here.collect::<Vec<()>>().await;
}

/// Makes a call on the store of this process.
async fn make(store: &dyn StoreOwner, waiting: Waiting) {
    let answer = match store.store() {
        Some(store) => run(&*store, waiting.call).await,
        None => Err(moving()),
    };
    // Harmless: the caller may have given up.
    let _ = waiting.done.send(answer);
}

fn is_late(waiting: &Waiting) -> bool {
    waiting.made.elapsed() >= HANDOVER_MAX
}

fn refuse(waiting: Waiting) {
    // Harmless: the caller may have given up.
    let _ = waiting.done.send(Err(moving()));
}

/// The reason why no more calls are sent on a connection.
enum SendEnd {
    Closed,
    Moved,
}

/// Sends calls and receives answers until the connection ends or the store moves to another process.
async fn converse(link: &Rc<Link>, stream: UnixStream) {
    let (reading, writing) = stream.into_split();
    let unanswered = Rc::<Unanswered>::default();
    let mut reader = Reader {
        link: link.clone(),
        reading: FrameReader::new(reading),
        unanswered: unanswered.clone(),
    };
    let ended = tokio::select! {
        ended = reader.run() => ended.map(|()| SendEnd::Closed),
        sent = write(link, writing, &unanswered) => sent,
    };
    match ended {
        // Calls that were sent are still answered on this connection, while new calls go to the process that has the store now.
        Ok(SendEnd::Moved) => {
            kit::spawn(async move {
                // Harmless: however the stream ends, calls without an answer then get an error.
                let _ = reader.run().await;
                reader.lose().into_iter().for_each(refuse);
            });
            return;
        }
        Ok(SendEnd::Closed) => {}
        Err(error) => {
            tracing::warn!("store: the connection to the process that has it has ended: {error}");
        }
    }
    link.again.borrow_mut().extend(reader.lose());
}

struct Reader {
    link: Rc<Link>,
    reading: FrameReader<OwnedReadHalf>,
    unanswered: Rc<Unanswered>,
}

impl Reader {
    /// Passes answers and notifications on, until the end of the stream.
    async fn run(&mut self) -> std::io::Result<()> {
        while let Some(AnswerFrame { id, body }) = self.reading.next().await? {
            match body {
                Some(AnswerBody::Moved(_)) => self.unanswered.moved.notify_one(),
                Some(AnswerBody::Changed(news)) => match news.subject() {
                    Some(subject) => self.link.watches.wake(&subject),
                    None => self.link.watches.wake_all(),
                },
                body => self.answer(id, body),
            }
        }
        Ok(())
    }

    fn answer(&self, id: u64, body: Option<AnswerBody>) {
        let waiting = self.unanswered.calls.borrow_mut().remove(&id);
        self.unanswered.room.notify_one();
        let Some(waiting) = waiting else { return };
        let result = match body {
            Some(AnswerBody::Error(error)) => Err(of_call(error.into(), is_write(&waiting.call))),
            Some(body) => Ok(body),
            None => Err(unreadable(is_write(&waiting.call))),
        };
        // Harmless: the caller may have given up.
        let _ = waiting.done.send(result);
    }

    /// Handles the calls without an answer after the connection has ended: writes get an error, and reads, which may be sent again, are
    /// returned.
    fn lose(&self) -> Vec<Waiting> {
        let calls = std::mem::take(&mut *self.unanswered.calls.borrow_mut());
        let (writes, reads): (Vec<Waiting>, Vec<Waiting>) =
            calls.into_values().partition(|waiting| is_write(&waiting.call));
        for waiting in writes {
            // Harmless: the caller may have given up.
            let _ = waiting.done.send(Err(lost(true)));
        }
        reads
    }
}

/// Sends waiting calls, until the queue is closed or the store moves to another process. A batch that is being sent then is sent whole.
async fn write(
    link: &Link,
    mut writing: OwnedWriteHalf,
    unanswered: &Unanswered,
) -> std::io::Result<SendEnd> {
    let mut last = 0_u64;
    loop {
        while unanswered.calls.borrow().len() >= UNANSWERED_MAX {
            unanswered.room.notified().await;
        }
        let again = std::mem::take(&mut *link.again.borrow_mut());
        let batch = if again.is_empty() {
            tokio::select! {
                batch = link.queue.take(BATCH_MAX, BATCH_BYTES) => batch,
                () = unanswered.moved.notified() => return Ok(SendEnd::Moved),
            }
        } else {
            again
        };
        if batch.is_empty() {
            return Ok(SendEnd::Closed);
        }
        let mut bytes = BytesMut::new();
        for waiting in batch {
            last += 1;
            let call = Some(waiting.call.clone());
            put(&CallFrame { id: last, call }, &mut bytes)?;
            unanswered.calls.borrow_mut().insert(last, waiting);
        }
        writing.write_all(&bytes).await?;
    }
}

impl Logs for LinkedStore {
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        let checked = limits::append(log, &records);
        let (log, guard) = (log.to_owned(), guard.map(Into::into));
        let call = || Call::Append(AppendCall { log, records, guard });
        self.call(checked, call, |body| {
            let AnswerBody::Positions(positions) = body else { return None };
            Some(positions.first..=positions.last)
        })
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        let call = || {
            Call::Read(ReadCall {
                log: log.to_owned(),
                after: read.after,
                records_max: read.records_max as u64,
                bytes_max: read.bytes_max as u64,
            })
        };
        self.call(limits::name(log), call, |body| {
            let AnswerBody::Records(records) = body else { return None };
            Some(records.into())
        })
    }

    fn span(&self, log: &str) -> Answer<Span> {
        self.call(limits::name(log), || Call::Span(log.to_owned()), span)
    }

    fn trim(&self, log: &str, keep: Keep) -> Answer<Span> {
        let Keep { after, age, bytes } = keep;
        let log_name = log.to_owned();
        let call =
            || Call::Trim(TrimCall { log: log_name, age_millis: age.map(millis), bytes, after });
        self.call(limits::name(log), call, span)
    }

    fn follow(&self, log: &str) -> Watch {
        self.inner.watches.watch(Subject::Log(log.to_owned()))
    }
}

fn span(body: AnswerBody) -> Option<Span> {
    let AnswerBody::Span(span) = body else { return None };
    Some(span.into())
}

impl Tables for LinkedStore {
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>> {
        let (name, key) = (table.to_owned(), Bytes::copy_from_slice(key));
        let call = || Call::Get(GetCall { table: name, key });
        self.call(limits::name(table), call, |body| {
            let AnswerBody::Row(found) = body else { return None };
            Some(found.row.map(Into::into))
        })
    }

    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows> {
        let name = table.to_owned();
        let call = || {
            Call::Scan(ScanCall {
                table: name,
                prefix: scan.prefix.into(),
                after: scan.after.map(Into::into),
                rows_max: scan.rows_max as u64,
            })
        };
        self.call(limits::name(table), call, |body| {
            let AnswerBody::Rows(rows) = body else { return None };
            Some(rows.into())
        })
    }

    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>> {
        let checked = limits::changes(&changes);
        let guard = guard.map(Into::into);
        let call = || {
            let changes = changes.into_iter().map(Into::into).collect();
            Call::Change(ChangeCall { changes, guard })
        };
        self.call(checked, call, |body| {
            let AnswerBody::Versions(versions) = body else { return None };
            Some(versions.versions)
        })
    }

    fn watch(&self, table: &str) -> Watch {
        self.inner.watches.watch(Subject::Table(table.to_owned()))
    }
}

impl Leases for LinkedStore {
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer> {
        // The time is read before the call, so that the lease never lasts longer here than in the store.
        let until = clock::now() + ttl;
        let checked = limits::name(lease).and_then(|()| limits::name(owner));
        let call = || {
            let (lease, owner) = (lease.to_owned(), owner.to_owned());
            Call::Acquire(AcquireCall { lease, owner, ttl_millis: millis(ttl) })
        };
        self.call(checked, call, move |body| {
            if let AnswerBody::Yours(lease) = body {
                return Some(LeaseAnswer::Acquired(Lease { until, ..lease.lease() }));
            }
            let AnswerBody::Held(held) = body else { return None };
            let left = Duration::from_millis(held.ttl_millis);
            Some(LeaseAnswer::HeldByOther { owner: held.owner.into(), left })
        })
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease> {
        let until = clock::now() + ttl;
        let call = || Call::Renew(LeaseMessage::of(lease, ttl));
        self.call(Ok(()), call, move |body| {
            let AnswerBody::Yours(lease) = body else { return None };
            Some(Lease { until, ..lease.lease() })
        })
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        let call = || Call::Release(LeaseMessage::of(lease, Duration::ZERO));
        self.call(Ok(()), call, |body| matches!(body, AnswerBody::Done(_)).then_some(()))
    }
}

impl Counters for LinkedStore {
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue> {
        let name = counter.to_owned();
        let call =
            || Call::Add(AddCall { counter: name, by, limit, window_millis: millis(window) });
        self.call(limits::name(counter), call, |body| {
            let AnswerBody::Counter(counter) = body else { return None };
            Some(counter.into())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_outcome_of_a_write_is_unknown_without_an_answer() {
        for error in [lost, unreadable] {
            assert!(matches!(error(true), Error::OutcomeUnknown(_)));
            assert!(matches!(error(false), Error::Unavailable(_)));
        }
        let newer = || Error::OutcomeUnknown("of a newer kind".to_owned());
        assert_eq!(of_call(newer(), true), newer());
        assert!(matches!(of_call(newer(), false), Error::Unavailable(_)));
        assert_eq!(of_call(Error::Busy, true), Error::Busy);
    }
}
