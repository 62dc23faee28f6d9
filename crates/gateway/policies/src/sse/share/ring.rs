//! The newest events of one shared stream, for all workers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use fault::{Fault, Kind};
use message::{Chunk, Headers, ReplyHead};
use tokio::sync::{Notify, watch};

/// A stream that is being opened, is open, or has ended. After the end, it keeps its events for reconnecting clients.
pub(super) struct Ring {
    events: Mutex<Events>,
    opened: watch::Sender<Option<Outcome>>,
    clients: AtomicUsize,
    /// The key of the client that opened the stream. The stream is counted for this client while it lingers.
    pub(super) opener: u64,
    /// The event id after which the upstream was asked to begin.
    pub(super) from: Option<Box<[u8]>>,
    /// Notifies the pump that the last client has disconnected, or that the stream has ended.
    pub(super) left: Notify,
    /// The wake-ups of the workers that have clients.
    workers: Mutex<Vec<Weak<Notify>>>,
    /// The number of bytes kept by all rings of the policy.
    bytes_of_all: Arc<AtomicUsize>,
}

/// The result of opening the stream.
type Outcome = Result<SharedAnswer, (Kind, Box<str>)>;

/// The upstream's answer, in parts that can be shared between threads.
#[derive(Clone)]
pub(super) struct SharedAnswer {
    pub(super) status: u16,
    pub(super) lines: Lines,
    /// The body, if it is not an event stream.
    pub(super) body: Option<Bytes>,
}

/// Names and values of header lines.
pub(super) type Lines = Arc<[(Box<str>, Box<[u8]>)]>;

/// The upstream's answer for one client.
pub(super) enum ClientAnswer {
    Stream(ReplyHead),
    Other(ReplyHead, Bytes),
}

/// The kept blocks, numbered consecutively.
#[derive(Default)]
struct Events {
    kept: VecDeque<RingBlock>,
    /// The number of the first block.
    first: u64,
    /// The number of events among them. Other blocks are comments, for example.
    events: usize,
    bytes: usize,
    replay: usize,
    /// The last event id received. A client that has read everything has this id, and a stream that continues this one begins after it.
    last_id: Option<Box<[u8]>>,
    end: Option<RingEnd>,
}

/// One block.
#[derive(Clone)]
pub(super) struct RingBlock {
    pub(super) bytes: Bytes,
    /// The event id in the block. A client also has this id after later blocks without an id. If it reconnects, it gets those blocks again,
    /// which is better than missing them.
    pub(super) id: Option<Box<[u8]>>,
    pub(super) is_event: bool,
    /// False for the part of a block that had arrived when the upstream ended.
    pub(super) is_whole: bool,
}

/// Everything that is new for a client that was up to date. A worker takes it from the ring once for all such clients.
pub(super) struct NewBlocks {
    /// The number of the first block.
    first: u64,
    blocks: Vec<RingBlock>,
    /// The bytes of all blocks.
    chunk: Chunk,
}

/// The end of a stream.
#[derive(Clone)]
pub(super) enum RingEnd {
    Complete,
    /// The next event is larger than allowed.
    TooLarge,
    Failed(Kind, Box<str>),
}

/// The maximum number of bytes kept by one ring, whatever the number of events.
const BYTES_MAX: usize = 16 << 20;

/// The maximum number of bytes kept by all rings of a policy, so that a client that opens many streams cannot fill the memory.
const BYTES_OF_ALL_MAX: usize = 256 << 20;

/// The maximum number of bytes that a client gets at a time, unless one event is larger. A client that stops reading holds this much memory
/// in addition to the ring.
const TAKEN_BYTES: usize = 16 << 10;

/// The result of reading the next blocks.
pub(super) enum RingRead {
    Some,
    /// Blocks were read, and the client is now up to date.
    Last,
    /// The client is up to date.
    None,
    /// The client's quota is used up.
    Spent,
    /// The next block is no longer kept.
    TooSlow,
    Ended(RingEnd),
}

impl Ring {
    /// Creates a ring with its first client. It begins with the events of `before`, which has ended. The upstream is asked for the events
    /// after those, or after `from` if none of them has an id.
    pub(super) fn new(
        opener: u64,
        from: Option<&[u8]>,
        before: Option<&Ring>,
        replay: usize,
        bytes_of_all: Arc<AtomicUsize>,
    ) -> Ring {
        let events = before.map_or_else(Events::default, |before| before.lock().continued());
        let events = Events { replay: replay.max(1), ..events };
        bytes_of_all.fetch_add(events.bytes, Ordering::Relaxed);
        Ring {
            from: events.last_id.clone().or_else(|| from.map(Into::into)),
            events: Mutex::new(events),
            opened: watch::Sender::new(None),
            clients: AtomicUsize::new(1),
            opener,
            left: Notify::new(),
            workers: Mutex::default(),
            bytes_of_all,
        }
    }

    /// Adds a client, unless the stream has ended. The caller must hold the lock of all shared streams, under which streams without clients
    /// are ended.
    pub(super) fn join(&self) -> bool {
        let is_open = self.lock().end.is_none();
        if is_open {
            self.clients.fetch_add(1, Ordering::Relaxed);
        }
        is_open
    }

    /// Removes a client.
    pub(super) fn leave(&self) {
        if self.clients.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.left.notify_one();
        }
    }

    pub(super) fn has_clients(&self) -> bool {
        self.clients.load(Ordering::Relaxed) > 0
    }

    pub(super) fn has_ended(&self) -> bool {
        self.lock().end.is_some()
    }

    /// Returns true if the stream is open but has no clients.
    pub(super) fn lingers(&self) -> bool {
        !self.has_clients() && !self.has_ended()
    }

    /// Returns true if a reconnecting client may find missed events here.
    pub(super) fn has_events(&self) -> bool {
        !self.lock().kept.is_empty()
    }

    /// Returns true if the events after this id are kept or will follow.
    pub(super) fn holds(&self, id: &[u8]) -> bool {
        let events = self.lock();
        let has_begun_there = events.first == 0 && self.from.as_deref() == Some(id);
        has_begun_there || events.kept.iter().any(|kept| kept.id.as_deref() == Some(id))
    }

    /// Returns true if the upstream was asked to begin after another id, so that it may still have the events after this id that the ring
    /// lacks. Returns false once the ring has dropped events: a client that missed those has lost them.
    pub(super) fn may_lack_events_after(&self, id: &[u8]) -> bool {
        self.from.is_some() && self.lock().first == 0 && !self.holds(id)
    }

    /// Passes the upstream's answer to all waiting clients.
    pub(super) fn open(&self, answered: SharedAnswer) {
        self.opened.send_replace(Some(Ok(answered)));
    }

    /// Returns true if the upstream has answered.
    pub(super) fn is_open(&self) -> bool {
        self.opened.borrow().is_some()
    }

    /// Waits for the upstream's answer.
    pub(super) async fn opened(&self) -> Result<ClientAnswer, Fault> {
        let mut opened = self.opened.subscribe();
        // Harmless: the ring owns the sender. If it were missing, the client would get a fault.
        let known = opened.wait_for(Option::is_some).await.ok().and_then(|known| known.clone());
        let outcome =
            known.unwrap_or_else(|| Err((Kind::Internal, "sse: the shared stream is gone".into())));
        let answered = outcome.map_err(|(kind, cause)| Fault::new(kind, cause))?;
        Ok(match &answered.body {
            None => ClientAnswer::Stream(answered.head()),
            Some(body) => ClientAnswer::Other(answered.head(), body.clone()),
        })
    }

    /// Adds blocks, and wakes every worker once. Returns the number of blocks.
    pub(super) fn push(&self, blocks: impl Iterator<Item = RingBlock>) -> usize {
        let pushed = {
            let mut events = self.lock();
            let before = events.bytes;
            let end = events.end();
            for kept in blocks {
                if let Some(id) = &kept.id {
                    // An empty id resets the last event id (WHATWG HTML, 9.2.6).
                    events.last_id = Some(id.clone()).filter(|id| !id.is_empty());
                }
                events.bytes += kept.bytes.len();
                events.events += usize::from(kept.is_event);
                events.kept.push_back(kept);
            }
            let of_others = self.bytes_of_all.load(Ordering::Relaxed).saturating_sub(before);
            let pushed = usize::try_from(events.end() - end).unwrap_or(usize::MAX);
            events.trim(BYTES_OF_ALL_MAX.saturating_sub(of_others).min(BYTES_MAX));
            self.bytes_of_all.fetch_add(events.bytes, Ordering::Relaxed);
            self.bytes_of_all.fetch_sub(before, Ordering::Relaxed);
            pushed
        };
        self.wake();
        pushed
    }

    /// Ends the stream. Only the first end counts.
    pub(super) fn end(&self, end: RingEnd) {
        let fault = match &end {
            RingEnd::Failed(kind, cause) => (*kind, cause.clone()),
            RingEnd::Complete | RingEnd::TooLarge => {
                (Kind::Internal, "sse: the shared stream ended before it began".into())
            }
        };
        self.lock().end.get_or_insert(end);
        self.left.notify_one();
        // Clients that still wait for the upstream's answer get a fault.
        self.opened.send_if_modified(|opened| match opened {
            Some(_) => false,
            None => {
                *opened = Some(Err(fault));
                true
            }
        });
        self.wake();
    }

    /// Returns a wake-up for all clients of a worker.
    pub(super) fn wake_up(&self) -> Arc<Notify> {
        let wake = Arc::<Notify>::default();
        let mut workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        workers.retain(|known| known.strong_count() > 0);
        workers.push(Arc::downgrade(&wake));
        wake
    }

    fn wake(&self) {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        // Harmless: a worker whose wake-up is dropped has no clients.
        workers.iter().filter_map(Weak::upgrade).for_each(|wake| wake.notify_one());
    }

    /// Returns the number of the next block.
    pub(super) fn next(&self) -> u64 {
        self.lock().end()
    }

    /// Returns the number of the first block for a new client. With a last event id, this is the block after that id, or the oldest kept
    /// block if no kept block has the id. Without one, it is the first block since the client arrived.
    pub(super) fn begin(&self, last_id: Option<&[u8]>, came: u64) -> u64 {
        let events = self.lock();
        let Some(last_id) = last_id else { return came.max(events.first) };
        // Harmless: the numbers are unbounded.
        let after = (events.first..)
            .zip(&events.kept)
            .filter(|(_, kept)| kept.id.as_deref() == Some(last_id));
        after.last().map_or(events.first, |(at, _)| at + 1)
    }

    /// Appends the next blocks for a client, and advances its position. `charge` returns how many events are left after a block, or `None`
    /// if the block must not pass.
    pub(super) fn take(
        &self,
        next: &mut u64,
        skip_missed: bool,
        out: &mut Vec<u8>,
        charge: impl Fn(&RingBlock) -> Option<u64>,
    ) -> RingRead {
        let events = self.lock();
        if *next < events.first {
            if !skip_missed {
                return RingRead::TooSlow;
            }
            *next = events.first;
        }
        let at = usize::try_from(*next - events.first).unwrap_or(usize::MAX);
        let (begin, end) = (out.len(), events.end());
        if append(events.kept.iter().skip(at), next, out, charge).is_none() {
            return RingRead::Spent;
        }
        match (out.len() > begin, &events.end) {
            (true, None) if *next == end => RingRead::Last,
            (true, _) => RingRead::Some,
            (false, Some(end)) => RingRead::Ended(end.clone()),
            (false, None) => RingRead::None,
        }
    }

    /// Returns the blocks since the worker's last call, and advances `seen`. Returns `None` if clients must read the ring themselves: there
    /// is nothing new, there is more than a client gets at a time, or the stream has ended.
    pub(super) fn new_blocks(&self, seen: &mut u64) -> Option<NewBlocks> {
        let events = self.lock();
        let first = std::mem::replace(seen, events.end());
        let at = usize::try_from(first.checked_sub(events.first)?).ok()?;
        let new = || events.kept.iter().skip(at);
        let len: usize = new().map(|kept| kept.bytes.len()).sum();
        let fits = len > 0 && len <= TAKEN_BYTES && events.end.is_none();
        fits.then(|| {
            let chunk = Chunk::of(new().map(|kept| &*kept.bytes));
            NewBlocks { first, blocks: new().cloned().collect(), chunk }
        })
    }

    fn lock(&self) -> MutexGuard<'_, Events> {
        self.events.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl NewBlocks {
    /// Like [`Ring::take`]. Returns `None` for a client whose position differs.
    pub(super) fn take(
        &self,
        next: &mut u64,
        out: &mut Vec<u8>,
        charge: impl Fn(&RingBlock) -> Option<u64>,
    ) -> Option<RingRead> {
        if !self.begin_at(*next) {
            return None;
        }
        Some(match append(self.blocks.iter(), next, out, charge) {
            Some(()) => RingRead::Last,
            None => RingRead::Spent,
        })
    }

    /// Returns true if these blocks are the next ones for a client.
    pub(super) fn begin_at(&self, next: u64) -> bool {
        next == self.first
    }

    /// Passes the blocks to `write`, or as many as the client's quota allows. Returns `None` if the quota is used up.
    pub(super) fn pass(
        &self,
        next: &mut u64,
        charge: impl Fn(&RingBlock) -> Option<u64>,
        mut write: impl FnMut(&Chunk),
    ) -> Option<()> {
        let mut passed = 0;
        let spent = self.blocks.iter().any(|kept| {
            let left = charge(kept);
            passed += usize::from(left.is_some());
            left.is_none_or(|left| left == 0)
        });
        *next += passed as u64;
        let all = passed == self.blocks.len();
        match (all, passed) {
            (true, _) => write(&self.chunk),
            (false, 0) => {}
            (false, _) => {
                // Harmless: the client gets the rest as soon as its quota allows.
                write(&Chunk::of(self.blocks.iter().take(passed).map(|kept| &*kept.bytes)))
            }
        }
        (!spent).then_some(())
    }
}

/// Appends blocks for a client, as many as it gets at a time, and advances its position. Returns `None` if its quota is used up.
fn append<'b>(
    blocks: impl Iterator<Item = &'b RingBlock>,
    next: &mut u64,
    out: &mut Vec<u8>,
    charge: impl Fn(&RingBlock) -> Option<u64>,
) -> Option<()> {
    let begin = out.len();
    for kept in blocks {
        let taken = out.len() - begin;
        if taken > 0 && taken + kept.bytes.len() > TAKEN_BYTES {
            break;
        }
        let left = charge(kept)?;
        out.extend_from_slice(&kept.bytes);
        *next += 1;
        if left == 0 {
            return None;
        }
    }
    Some(())
}

impl Drop for Ring {
    fn drop(&mut self) {
        let bytes = self.lock().bytes;
        self.bytes_of_all.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Events {
    /// Returns the number of the next block.
    fn end(&self) -> u64 {
        self.first + u64::try_from(self.kept.len()).unwrap_or_default()
    }

    /// Returns the complete blocks, for a stream that continues this one.
    fn continued(&self) -> Events {
        let whole = self.kept.iter().filter(|kept| kept.is_whole);
        let kept: VecDeque<RingBlock> = whole.cloned().collect();
        Events {
            first: self.first,
            events: self.events,
            bytes: kept.iter().map(|kept| kept.bytes.len()).sum(),
            kept,
            last_id: self.last_id.clone(),
            ..Events::default()
        }
    }

    /// Drops the oldest blocks beyond the bounds. The newest block is always kept.
    fn trim(&mut self, bytes_max: usize) {
        let is_over = |events: &Events| {
            let blocks_max = events.replay.saturating_mul(2);
            events.events > events.replay
                || events.kept.len() > blocks_max
                || events.bytes > bytes_max
        };
        while self.kept.len() > 1 && is_over(self) {
            let Some(gone) = self.kept.pop_front() else { return };
            self.first += 1;
            self.bytes -= gone.bytes.len();
            self.events -= usize::from(gone.is_event);
        }
    }
}

impl SharedAnswer {
    /// Creates the answer for a stream with this head. Header lines meant for one client are removed.
    pub(super) fn of(head: &ReplyHead) -> SharedAnswer {
        let lines = head.headers.iter().filter(|(name, _)| {
            let is = |own: &str| name.eq_ignore_ascii_case(own.as_bytes());
            !is("content-length") && !is("set-cookie")
        });
        // Harmless: a name is a token.
        let lines = lines.map(|(name, value)| (String::from_utf8_lossy(name).into(), value.into()));
        SharedAnswer { status: head.status, lines: lines.collect(), body: None }
    }

    fn head(&self) -> ReplyHead {
        let mut head = ReplyHead::new(self.status);
        head.headers = Headers::new();
        for (name, value) in &*self.lines {
            // The lines were parsed from a head, so they are valid.
            head.headers.add_known(name, value);
        }
        head
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn ring(replay: usize, ids: &[&str]) -> Ring {
        let ring = Ring::new(0, None, None, replay, Arc::default());
        ring.push(
            ids.iter()
                .map(|id| RingBlock { id: Some(id.as_bytes().into()), ..event(b"data: x\n\n") }),
        );
        ring
    }

    fn event(bytes: &'static [u8]) -> RingBlock {
        RingBlock { bytes: Bytes::from_static(bytes), id: None, is_event: true, is_whole: true }
    }

    fn free(_: &RingBlock) -> Option<u64> {
        Some(u64::MAX)
    }

    fn taken(ring: &Ring, next: &mut u64, skip_missed: bool) -> Option<usize> {
        let mut out = Vec::new();
        match ring.take(next, skip_missed, &mut out, free) {
            RingRead::Some | RingRead::Last => Some(out.len() / 9),
            RingRead::None => Some(0),
            RingRead::Spent | RingRead::TooSlow | RingRead::Ended(_) => None,
        }
    }

    #[test]
    fn a_client_begins_with_what_is_new_or_follows_its_last_id() {
        let ring = ring(3, &["1", "2", "3", "4"]);
        for (last_id, expected) in
            [(None, 0), (Some("4"), 0), (Some("2"), 2), (Some("1"), 3), (Some("?"), 3)]
        {
            let mut next = ring.begin(last_id.map(str::as_bytes), ring.next());
            assert_eq!(taken(&ring, &mut next, false), Some(expected), "{last_id:?}");
            assert_eq!(taken(&ring, &mut next, false), Some(0));
        }
    }

    #[test]
    fn events_that_arrive_while_a_client_waits_for_the_answer_are_new_to_it() {
        let ring = ring(3, &["1"]);
        let came = ring.next();
        for (pushed, expected) in [(2, 2), (3, 3)] {
            (0..pushed).for_each(|_| {
                ring.push([event(b"data: x\n\n")].into_iter());
            });
            let mut next = ring.begin(None, came);
            assert_eq!(taken(&ring, &mut next, false), Some(expected), "as many as are kept");
        }
    }

    #[test]
    fn a_client_that_falls_behind_ends_or_skips() {
        let ring = ring(2, &["1"]);
        let (mut ends, mut skip_missed) = (ring.next(), ring.next());
        for _ in 0..3 {
            ring.push([event(b"data: x\n\n")].into_iter());
        }
        assert_eq!(taken(&ring, &mut ends, false), None);
        assert_eq!(taken(&ring, &mut skip_missed, true), Some(2));
        ring.end(RingEnd::Complete);
        assert_eq!(taken(&ring, &mut skip_missed, true), None);
    }

    #[test]
    fn comments_and_large_events_are_bounded_too() {
        let all = Arc::<AtomicUsize>::default();
        let ring = Ring::new(0, None, None, 4, all.clone());
        for _ in 0..100 {
            ring.push([RingBlock { is_event: false, ..event(b":\n\n") }].into_iter());
        }
        assert_eq!(ring.lock().kept.len(), 8);
        let large = |ring: &Ring| {
            let bytes = vec![b'x'; BYTES_MAX / 2].into();
            ring.push([RingBlock { bytes, ..event(b"") }].into_iter());
        };
        (0..5).for_each(|_| large(&ring));
        assert!(ring.lock().bytes <= BYTES_MAX && ring.lock().kept.len() == 2);
        assert_eq!(all.load(Ordering::Relaxed), ring.lock().bytes);

        // The bytes of all streams together are bounded, too.
        all.fetch_add(BYTES_OF_ALL_MAX, Ordering::Relaxed);
        large(&ring);
        assert_eq!(ring.lock().kept.len(), 1, "the newest stays");
        drop(ring);
        assert_eq!(all.load(Ordering::Relaxed), BYTES_OF_ALL_MAX);
    }

    #[test]
    fn a_client_gets_no_more_than_a_bound_at_a_time() {
        let ring = Ring::new(0, None, None, 100, Arc::default());
        let (mut next, mut out) = (ring.next(), Vec::new());
        for bytes in [TAKEN_BYTES * 3, TAKEN_BYTES / 2 + 1, TAKEN_BYTES / 2 + 1, 1] {
            ring.push([RingBlock { bytes: vec![b'x'; bytes].into(), ..event(b"") }].into_iter());
        }
        let mut taken = Vec::new();
        let mut take = || {
            let read = ring.take(&mut next, false, &mut out, free);
            taken.push(std::mem::take(&mut out).len());
            read
        };
        while let RingRead::Some = take() {}
        assert!(matches!(take(), RingRead::None));
        assert_eq!(taken, [TAKEN_BYTES * 3, TAKEN_BYTES / 2 + 1, TAKEN_BYTES / 2 + 2, 0]);
    }

    #[test]
    fn new_blocks_are_those_since_the_previous_call() {
        let ring = ring(3, &["1"]);
        let mut seen = ring.next();
        let push = |bytes| ring.push([event(bytes)].into_iter());
        assert!(ring.new_blocks(&mut seen).is_none());
        push(b"data: x\n\n");
        push(b"data: y\n\n");
        let news = ring.new_blocks(&mut seen).unwrap();
        for (next, charged, expected, now_next) in [
            (1, u64::MAX, Some("data: x\n\ndata: y\n\n"), 3),
            (1, 0, Some("data: x\n\n"), 2),
            (0, u64::MAX, None, 0),
            (2, u64::MAX, None, 2),
            (3, u64::MAX, None, 3),
        ] {
            let (mut at, mut out) = (next, Vec::new());
            let read = news.take(&mut at, &mut out, |_| Some(charged));
            let is_last = matches!(read, Some(RingRead::Last));
            assert_eq!((is_last, at), (expected.is_some() && charged > 0, now_next), "{next}");
            assert_eq!(read.map(|_| String::from_utf8(out).unwrap()).as_deref(), expected);
        }
        assert!(ring.new_blocks(&mut seen).is_none());
        // A block larger than a client gets at a time, more blocks than are kept, and the end.
        push(Vec::leak(vec![b'a'; TAKEN_BYTES + 1]));
        assert!(ring.new_blocks(&mut seen).is_none());
        (0..7).for_each(|_| {
            push(b"data: x\n\n");
        });
        assert!(ring.new_blocks(&mut seen).is_none());
        push(b"data: x\n\n");
        ring.end(RingEnd::Complete);
        assert!(ring.new_blocks(&mut seen).is_none());
    }

    #[test]
    fn a_client_gets_no_more_than_its_quota() {
        let ring = Ring::new(0, None, None, 9, Arc::default());
        let mut next = ring.next();
        ring.push((0..4).map(|at| RingBlock { is_event: at != 1, ..event(b"data: x\n\n") }));
        for (may, expected) in [(3, 4), (2, 3), (1, 1), (0, 0)] {
            let (mut out, left) = (Vec::new(), Cell::new(may));
            let charge = |block: &RingBlock| {
                if !block.is_event {
                    return Some(u64::MAX);
                }
                left.set(u64::checked_sub(left.get(), 1)?);
                Some(left.get())
            };
            next -= next;
            let read = ring.take(&mut next, false, &mut out, charge);
            assert!(matches!(read, RingRead::Spent), "{may}");
            assert_eq!((out.len() / 9, next), (expected, expected as u64), "{may}");
        }
    }

    #[test]
    fn a_ring_that_continues_another_begins_with_the_complete_blocks_of_that_ring() {
        let before = ring(3, &["1", "2", "3", "4"]);
        let part = RingBlock { is_event: false, is_whole: false, ..event(b"data: ha") };
        before.push([part].into_iter());
        before.end(RingEnd::Complete);
        let all = Arc::<AtomicUsize>::default();
        let ring = Ring::new(0, Some(b"x"), Some(&before), 3, all.clone());
        assert_eq!((ring.from.as_deref(), ring.next()), (Some(&b"4"[..]), 4));
        assert_eq!(all.load(Ordering::Relaxed), ring.lock().bytes);
        assert!(
            ring.holds(b"3") && !ring.holds(b"1") && !ring.may_lack_events_after(b"1"),
            "it is gone"
        );
        let mut next = ring.begin(Some(b"3"), ring.next());
        assert_eq!(taken(&ring, &mut next, false), Some(1));

        // A ring without ids begins where its first client wants.
        let ring = Ring::new(0, Some(b"x"), None, 3, Arc::default());
        assert!(ring.holds(b"x") && ring.may_lack_events_after(b"y"));
        assert!(!Ring::new(0, None, None, 3, Arc::default()).may_lack_events_after(b"y"));
    }

    #[test]
    fn clients_that_wait_for_the_answer_get_the_fault_of_the_end() {
        let ring = ring(1, &[]);
        ring.end(RingEnd::Failed(Kind::Busy, "no".into()));
        ring.end(RingEnd::Complete);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let opened = runtime.block_on(ring.opened());
        assert_eq!(opened.err().map(|fault| fault.kind), Some(Kind::Busy));
        assert!(!ring.join());
    }
}
