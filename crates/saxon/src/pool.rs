//! The threads that speak Java, the queue before them, and what watches that none of them runs for ever.
//!
//! A worker puts a job into the queue and waits for its answer without holding its thread. A job has a deadline: in the queue it
//! is dropped after it, and a thread that is still at it is stopped by the keeper, ends, and is replaced.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use kit::clock::{self, Instant};
use tokio::sync::oneshot;

use crate::feed::Feed;
use crate::vm::{Attached, Kept, Slot, Vm};

/// How often the keeper looks: a run is stopped at most so much after its deadline.
const TICK: Duration = Duration::from_millis(100);

/// The heap is read once in so many ticks: it changes faster than anybody reads it, and each look costs a call.
const HEAP_TICKS: u32 = 10;

/// A thread that was told to stop and has not is told again after so long.
const STOP_AGAIN: Duration = Duration::from_secs(1);

/// Java's own threads have 1 MiB; stylesheets recurse by the depth of a message, and nothing but what is touched is memory.
const STACK_BYTES: usize = 4 << 20;

/// What is transformed.
#[derive(Debug)]
pub enum Message {
    /// A document that was parsed.
    Xml(Feed),
    /// A JSON text, which the stylesheet finds as the text of one element.
    Json(Bytes),
}

/// Why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    /// The stylesheet says so, or does what it may not.
    Refused(String),
    /// The message is not what the stylesheet reads: no JSON.
    BadInput(String),
    /// The result is over its bound.
    TooLarge,
    /// It needs more memory than the machine has.
    Memory,
    /// It calls itself without an end.
    Stack,
    /// It took longer than it may, in the queue or at work.
    Late,
    /// Too many messages wait already.
    Busy,
    /// The machine failed at it.
    Broken(String),
}

/// What the machine has done and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    pub threads: u64,
    pub pending: u64,
    pub heap_used_bytes: u64,
    pub heap_max_bytes: u64,
    pub done: u64,
    pub failed: u64,
    /// Turned away, since too many waited.
    pub refused: u64,
    /// Stopped after their deadline.
    pub stopped: u64,
    /// At work, in microseconds.
    pub busy_micros: u64,
}

/// A sheet of the other side, given back to the keeper after its last use.
pub(crate) struct Sheet {
    kept: Option<Kept>,
    shared: Arc<Shared>,
}

/// What a thread does.
pub(crate) enum Work {
    Transform(Job),
    Compile(Vec<u8>, SyncSender<Result<Sheet, String>>),
}

pub(crate) struct Job {
    pub(crate) sheet: Arc<Sheet>,
    pub(crate) message: Message,
    pub(crate) output_bytes_max: usize,
    pub(crate) deadline: Instant,
    pub(crate) done: oneshot::Sender<Result<Vec<u8>, Failed>>,
}

/// What workers, threads and keeper share.
pub(crate) struct Shared {
    /// Held for the push or pop of one pointer, some 30 ns: beside a transformation of 10 µs and the two wake-ups of a job,
    /// which cost the same with any queue.
    queue: Mutex<Queue>,
    filled: Condvar,
    pending_max: usize,
    compile_max: Duration,
    garbage: Mutex<Vec<Kept>>,
    counts: Counts,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// Threads that wait for some. Where none does, nobody need be woken, which is a call of the system's.
    idle: usize,
}

#[derive(Default)]
struct Counts {
    heap_used: AtomicU64,
    heap_max: AtomicU64,
    threads: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    refused: AtomicU64,
    stopped: AtomicU64,
    busy_micros: AtomicU64,
}

/// Where one thread sits, as the keeper sees it.
#[derive(Default)]
struct Seat {
    /// Held by the keeper while it stops the thread, so that no later job is hit.
    running: Mutex<Running>,
}

#[derive(Default)]
struct Running {
    thread: Option<Kept>,
    until: Option<Instant>,
    stopped: bool,
}

impl Shared {
    pub(crate) fn new(pending_max: usize, compile_max: Duration) -> Shared {
        Shared {
            queue: Mutex::default(),
            filled: Condvar::new(),
            pending_max,
            compile_max,
            garbage: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Puts work into the queue; false: there is no room.
    pub(crate) fn push(&self, work: Work) -> bool {
        let mut queue = locked(&self.queue);
        let (fits, idle) = (queue.work.len() < self.pending_max, queue.idle > 0);
        if fits {
            queue.work.push_back(work);
        }
        drop(queue);
        match fits {
            true if idle => self.filled.notify_one(),
            true => {}
            false => add(&self.counts.refused, 1),
        }
        fits
    }

    fn next(&self) -> Work {
        let mut queue = locked(&self.queue);
        loop {
            if let Some(work) = queue.work.pop_front() {
                return work;
            }
            queue.idle += 1;
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
            queue.idle -= 1;
        }
    }

    pub(crate) fn reading(&self) -> Reading {
        let counts = &self.counts;
        Reading {
            threads: counts.threads.load(Relaxed),
            pending: u64::try_from(locked(&self.queue).work.len()).unwrap_or_default(),
            heap_used_bytes: counts.heap_used.load(Relaxed),
            heap_max_bytes: counts.heap_max.load(Relaxed),
            done: counts.done.load(Relaxed),
            failed: counts.failed.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            stopped: counts.stopped.load(Relaxed),
            busy_micros: counts.busy_micros.load(Relaxed),
        }
    }
}

impl Drop for Sheet {
    fn drop(&mut self) {
        locked(&self.shared.garbage).extend(self.kept.take());
    }
}

/// Keeps the threads: starts as many as there shall be, stops what is late, and starts others in their place. Never returns.
pub(crate) fn keep(attached: &Attached, shared: &Arc<Shared>, threads: usize) {
    let mut seats: Vec<Option<(Arc<Seat>, thread::JoinHandle<()>)>> = Vec::new();
    seats.resize_with(threads, || None);
    for tick in 0_u32.. {
        for (index, seat) in seats.iter_mut().enumerate() {
            if seat.as_ref().is_none_or(|(_, thread)| thread.is_finished()) {
                *seat = started(attached.vm(), shared, index);
            }
            if let Some((seat, _)) = seat {
                seat.watch(attached, shared);
            }
        }
        for kept in std::mem::take(&mut *locked(&shared.garbage)) {
            attached.forget(kept);
        }
        if tick % HEAP_TICKS == 0
            && let Ok((used, max)) = attached.heap()
        {
            shared.counts.heap_used.store(used, Relaxed);
            shared.counts.heap_max.store(max, Relaxed);
        }
        thread::park_timeout(TICK);
    }
}

fn started(
    vm: Vm,
    shared: &Arc<Shared>,
    index: usize,
) -> Option<(Arc<Seat>, thread::JoinHandle<()>)> {
    let seat = Arc::<Seat>::default();
    let name = format!("saxon-{index}");
    let thread = {
        let (seat, shared, title) = (seat.clone(), shared.clone(), name.clone());
        let serve = move || {
            add(&shared.counts.threads, 1);
            // Without memory for a thread there is none until the next tick.
            if let Ok(attached) = vm.attach(&title) {
                let _ended: Result<(), String> = serve(&attached, &shared, &seat);
            }
            shared.counts.threads.fetch_sub(1, Relaxed);
        };
        thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(serve)
    };
    Some((seat, thread.ok()?))
}

/// Works until it is stopped.
fn serve(attached: &Attached, shared: &Arc<Shared>, seat: &Seat) -> Result<(), String> {
    let mut slot = attached.slot()?;
    locked(&seat.running).thread = Some(attached.this_thread()?);
    let mut stopped = false;
    while !stopped {
        stopped = match shared.next() {
            Work::Transform(job) => transform(attached, shared, seat, &mut slot, job),
            Work::Compile(request, done) => {
                let (sheet, stopped) = compile(attached, shared, seat, &mut slot, &request);
                // Whoever asked may have gone.
                let _told = done.send(sheet);
                stopped
            }
        };
    }
    // What was thrown at the last moment is met by this call, and not by the machine's own end of a thread.
    let _thrown = attached.heap();
    let thread = locked(&seat.running).thread.take();
    slot.into_kept().into_iter().chain(thread).for_each(|kept| attached.forget(kept));
    Ok(())
}

/// Runs one job; true: it was stopped in the middle.
fn transform(attached: &Attached, shared: &Shared, seat: &Seat, slot: &mut Slot, job: Job) -> bool {
    let Job { sheet, message, output_bytes_max, deadline, done } = job;
    if done.is_closed() {
        return false;
    }
    let began = clock::now();
    if began >= deadline {
        add(&shared.counts.failed, 1);
        let _told = done.send(Err(Failed::Late));
        return false;
    }
    let Some(kept) = &sheet.kept else { return false };
    seat.begin(deadline);
    let run = match &message {
        Message::Xml(feed) => attached.run(slot, kept, feed.bytes(), false, output_bytes_max),
        Message::Json(text) => attached.run(slot, kept, text, true, output_bytes_max),
    };
    let stopped = seat.end();
    let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    add(&shared.counts.busy_micros, micros);
    let result = match stopped {
        true => Err(Failed::Late),
        false => run.map_err(Failed::Broken).and_then(|(code, bytes)| outcome(code, bytes)),
    };
    add(if result.is_ok() { &shared.counts.done } else { &shared.counts.failed }, 1);
    // Whoever asked may have gone.
    let _told = done.send(result);
    stopped
}

/// How a run ended, as `Slot.java` numbers it.
fn outcome(code: u32, bytes: Vec<u8>) -> Result<Vec<u8>, Failed> {
    let said = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match code {
        0 => Ok(bytes),
        1 => Err(Failed::Refused(said(bytes))),
        2 => Err(Failed::BadInput(said(bytes))),
        3 => Err(Failed::TooLarge),
        4 => Err(Failed::Memory),
        5 => Err(Failed::Stack),
        6 => Err(Failed::Late),
        other => Err(Failed::Broken(format!("a run ended with code {other}"))),
    }
}

fn compile(
    attached: &Attached,
    shared: &Arc<Shared>,
    seat: &Seat,
    slot: &mut Slot,
    request: &[u8],
) -> (Result<Sheet, String>, bool) {
    let mut said = Vec::new();
    seat.begin(clock::now() + shared.compile_max);
    let made = attached.compile(slot, request, &mut said);
    let stopped = seat.end();
    let sheet = match made {
        Ok(Some(kept)) => Ok(Sheet { kept: Some(kept), shared: shared.clone() }),
        Ok(None) => Err(String::from_utf8_lossy(&said).into_owned()),
        Err(error) => Err(format!("\t-1\t-1\t{error}\n")),
    };
    (sheet, stopped)
}

impl Seat {
    fn begin(&self, until: Instant) {
        locked(&self.running).until = Some(until);
    }

    /// True: it was stopped meanwhile.
    fn end(&self) -> bool {
        let mut running = locked(&self.running);
        running.until = None;
        running.stopped
    }

    /// Stops the thread if it is late.
    fn watch(&self, attached: &Attached, shared: &Shared) {
        let mut running = locked(&self.running);
        let now = clock::now();
        let late = running.until.is_some_and(|until| now >= until);
        let Some(thread) = running.thread.as_ref().filter(|_| late) else { return };
        // Where it cannot be stopped now, it can be at another time.
        let told = attached.stop(thread).is_ok();
        running.until = Some(now + STOP_AGAIN);
        if told && !running.stopped {
            running.stopped = true;
            add(&shared.counts.stopped, 1);
        }
    }
}

fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Relaxed);
}

/// A thread that panicked while it held one of these left nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
