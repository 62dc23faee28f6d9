//! The pool of Java threads, its job queue, and the keeper that stops runs that take too long.
//!
//! A worker puts a job into the queue and waits for the result without blocking its thread. A job has a deadline. If it has passed when a
//! thread takes the job, the job is not run. If it passes during the run, the keeper stops the thread, which ends and is replaced. Short
//! jobs are run by the worker itself (`on_worker`), on a thread that the keeper watches as well.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use kit::clock::{self, Instant};
use tokio::sync::oneshot;

use crate::engine_thread::{EngineThread, RunOutcome, ThreadState, TimeLimit};
use crate::lock::locked;
use crate::transformation::{Message, RunError};
use crate::trust::Trust;
use crate::vm::{self, AttachedThread, CpuClock, GlobalRef, Vm};

/// Interval of the keeper. A run is stopped at most this long after its deadline.
const TICK: Duration = Duration::from_millis(20);

/// Number of ticks between two readings of the heap. Each reading is a call into Java.
const HEAP_TICKS: u32 = 50;

/// Stack size of the threads. Java's default is 1 MiB, but stylesheets recurse with the depth of a message. Only used pages take memory.
const STACK_BYTES: usize = 4 << 20;

/// Metrics of the JVM and of the runs in it, on threads of the pool and on workers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EngineStats {
    pub threads: u64,
    pub pending: u64,
    pub heap_used_bytes: u64,
    pub heap_max_bytes: u64,
    pub done: u64,
    pub failed: u64,
    /// Number of successful and failed runs on workers.
    pub on_workers: u64,
    /// Number of jobs refused because too many were waiting.
    pub refused: u64,
    /// Number of runs stopped after their deadline.
    pub stopped: u64,
    /// Total time of runs, in microseconds.
    pub busy_micros: u64,
}

/// A compiled stylesheet on the Java side. After its last use, the keeper releases it.
pub(crate) struct JavaStylesheet {
    kept: Option<GlobalRef>,
    shared: Arc<PoolState>,
    pub(crate) trust: Trust,
}

/// A job for a thread.
pub(crate) enum Work {
    Transform(Job),
    Compile(Vec<u8>, SyncSender<Result<JavaStylesheet, String>>),
}

pub(crate) struct Job {
    pub(crate) sheet: Arc<JavaStylesheet>,
    pub(crate) message: Message,
    pub(crate) output_bytes_max: usize,
    pub(crate) deadline: Instant,
    pub(crate) done: oneshot::Sender<Result<Vec<u8>, RunError>>,
}

/// State shared by workers, threads and keeper.
pub(crate) struct PoolState {
    /// Held while one pointer is pushed or popped, some 30 ns. That is little compared with a transformation of 10 µs and the two wake-ups
    /// of a job, which cost the same with any queue.
    queue: Mutex<Queue>,
    filled: Condvar,
    pending_max: usize,
    compile_max: Duration,
    garbage: Mutex<Vec<GlobalRef>>,
    /// The JVM, once started.
    vm: OnceLock<Vm>,
    /// States of the workers' threads.
    workers: Mutex<Vec<Weak<ThreadState>>>,
    counts: Counts,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    /// Number of threads waiting for work. If there is none, no wake-up is needed, which saves a system call.
    idle: usize,
}

#[derive(Default)]
struct Counts {
    heap_used: AtomicU64,
    heap_max: AtomicU64,
    threads: AtomicU64,
    done: AtomicU64,
    failed: AtomicU64,
    on_workers: AtomicU64,
    refused: AtomicU64,
    stopped: AtomicU64,
    busy_micros: AtomicU64,
}

impl PoolState {
    pub(crate) fn new(pending_max: usize, compile_max: Duration) -> PoolState {
        PoolState {
            queue: Mutex::default(),
            filled: Condvar::new(),
            pending_max,
            compile_max,
            garbage: Mutex::default(),
            vm: OnceLock::new(),
            workers: Mutex::default(),
            counts: Counts::default(),
        }
    }

    /// Puts work into the queue. Returns false if the queue is full.
    pub(crate) fn push(&self, work: Work) -> bool {
        let mut queue = locked(&self.queue);
        let (fits, idle) = (queue.work.len() < self.pending_max, queue.idle > 0);
        if fits {
            queue.work.push_back(work);
        }
        drop(queue);
        if !fits {
            add(&self.counts.refused, 1);
        } else if idle {
            self.filled.notify_one();
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

    pub(crate) fn stats(&self) -> EngineStats {
        let counts = &self.counts;
        EngineStats {
            threads: counts.threads.load(Relaxed),
            pending: u64::try_from(locked(&self.queue).work.len()).unwrap_or_default(),
            heap_used_bytes: counts.heap_used.load(Relaxed),
            heap_max_bytes: counts.heap_max.load(Relaxed),
            done: counts.done.load(Relaxed),
            failed: counts.failed.load(Relaxed),
            on_workers: counts.on_workers.load(Relaxed),
            refused: counts.refused.load(Relaxed),
            stopped: counts.stopped.load(Relaxed),
            busy_micros: counts.busy_micros.load(Relaxed),
        }
    }

    /// Attaches the calling worker thread.
    pub(crate) fn attach_worker(&self) -> Result<EngineThread, String> {
        let vm = self.vm.get().ok_or("the JVM has not started")?;
        let state = Arc::<ThreadState>::default();
        let engine =
            EngineThread::take(*vm, thread::current().name().unwrap_or("worker"), state.clone())?;
        locked(&self.workers).push(Arc::downgrade(&state));
        Ok(engine)
    }

    /// Counts a run on a worker.
    pub(crate) fn ran_on_worker(&self, done: bool) {
        self.counts.ended(done);
        add(&self.counts.on_workers, 1);
    }

    /// Stops runs of workers that take too long, and removes workers that have ended.
    fn watch_workers(&self, attached: &AttachedThread) {
        locked(&self.workers).retain(|state| match state.upgrade() {
            Some(state) => {
                self.watch(&state, attached);
                true
            }
            None => false,
        });
    }

    fn watch(&self, state: &ThreadState, attached: &AttachedThread) {
        if state.watch(attached) {
            add(&self.counts.stopped, 1);
        }
    }
}

impl Counts {
    fn ended(&self, done: bool) {
        add(if done { &self.done } else { &self.failed }, 1);
    }
}

impl JavaStylesheet {
    fn new(kept: GlobalRef, shared: Arc<PoolState>) -> JavaStylesheet {
        JavaStylesheet { kept: Some(kept), shared, trust: Trust::new() }
    }

    /// Returns the handle, which exists until the stylesheet is dropped.
    pub(crate) fn kept(&self) -> Option<&GlobalRef> {
        self.kept.as_ref()
    }

    /// Records a run: its elapsed time, and its CPU time, so that the stylesheet is not blamed when other threads use the core. A worker
    /// does not measure CPU time and passes the elapsed time twice.
    pub(crate) fn ran(&self, time: Duration, busy: Duration) {
        self.trust.record_time(busy);
        add(&self.shared.counts.busy_micros, clock::micros(time));
    }
}

impl Drop for JavaStylesheet {
    fn drop(&mut self) {
        locked(&self.shared.garbage).extend(self.kept.take());
    }
}

/// The main loop of the keeper: starts the threads, stops runs that take too long, and replaces threads that ended. Never returns.
pub(crate) fn keep(attached: &AttachedThread, shared: &Arc<PoolState>, threads: usize) {
    let mut threads_running: Vec<Option<(Arc<ThreadState>, thread::JoinHandle<()>)>> = Vec::new();
    threads_running.resize_with(threads, || None);
    // Harmless: the value is set only here, once.
    let _ = shared.vm.set(attached.vm());
    for tick in 0_u32.. {
        for (index, state) in threads_running.iter_mut().enumerate() {
            if state.as_ref().is_none_or(|(_, thread)| thread.is_finished()) {
                *state = started(attached.vm(), shared, index);
            }
            if let Some((state, _)) = state {
                shared.watch(state, attached);
            }
        }
        shared.watch_workers(attached);
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
    shared: &Arc<PoolState>,
    index: usize,
) -> Option<(Arc<ThreadState>, thread::JoinHandle<()>)> {
    let state = Arc::<ThreadState>::default();
    let name = format!("saxon-{index}");
    let thread = {
        let (state, shared, title) = (state.clone(), shared.clone(), name.clone());
        let serve = move || {
            add(&shared.counts.threads, 1);
            vm::use_batch_scheduling();
            // Harmless: if there is not enough memory for a thread, the next tick tries again.
            if let Ok(engine) = EngineThread::take(vm, &title, state) {
                serve(engine, &shared);
            }
            shared.counts.threads.fetch_sub(1, Relaxed);
        };
        thread::Builder::new().name(name).stack_size(STACK_BYTES).spawn(serve)
    };
    Some((state, thread.ok()?))
}

/// Processes work until a run is stopped.
fn serve(mut engine: EngineThread, shared: &Arc<PoolState>) {
    let mut stopped = false;
    while !stopped {
        stopped = match shared.next() {
            Work::Transform(job) => transform(&mut engine, shared, job),
            Work::Compile(request, done) => {
                let until = TimeLimit::Deadline(clock::now() + shared.compile_max);
                let made = engine.compile(&request, until);
                // The caller may have stopped waiting.
                let _ =
                    done.send(made.result.map(|kept| JavaStylesheet::new(kept, shared.clone())));
                made.stopped
            }
        };
    }
}

/// Runs one job. Returns true if it was stopped.
fn transform(engine: &mut EngineThread, shared: &PoolState, job: Job) -> bool {
    let Job { sheet, message, output_bytes_max, deadline, done } = job;
    if done.is_closed() {
        return false;
    }
    let core = CpuClock::of_this_thread();
    let (began, had) = (clock::now(), core.used());
    if began >= deadline {
        add(&shared.counts.failed, 1);
        // Harmless: the caller may have stopped waiting.
        drop(done.send(Err(RunError::Late)));
        return false;
    }
    let Some(kept) = &sheet.kept else { return false };
    let until = TimeLimit::Deadline(deadline);
    let RunOutcome { result, stopped } = engine.run(kept, &message, output_bytes_max, until);
    let time = began.elapsed();
    let busy = core.used().and_then(|now| Some(now.saturating_sub(had?)));
    sheet.ran(time, busy.unwrap_or(time));
    shared.counts.ended(result.is_ok());
    // Harmless: the caller may have stopped waiting.
    drop(done.send(result));
    stopped
}

fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Relaxed);
}
