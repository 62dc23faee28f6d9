//! Runs long computations in turns: they pause in the middle, so that the other tasks of the thread can run.
//!
//! The engines that process messages (parsers, expressions, stylesheets, schemas) are plain functions and cannot await. Therefore a future
//! in [`in_turns`] is polled on a separate stack, and the code that runs there calls [`pause_if_due`] every few microseconds. Once the long
//! work of this thread has used its share, that call suspends the stack and returns to the runtime. The computation continues after all
//! other tasks and new events were handled. Shorter work never pauses; it costs one stack switch per poll.
//!
//! All paused computations of a thread take turns: between two polls of the runtime for new events, they have one share together. Therefore
//! the delay of other tasks does not depend on the number of computations.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use tokio::time::Instant;

use crate::{clock, memory};

/// The time share of long work between two polls for new events. A request is delayed by two or three shares from its arrival to its reply.
/// A switch costs a few microseconds including the poll, so a longer share would gain nothing.
pub const SHARE: Duration = Duration::from_millis(2);

/// The size of a separate stack, which is that of a thread's stack, so that recursion may be as deep. Untouched pages take no memory.
const STACK_BYTES: usize = 2 << 20;

/// The maximum number of spare stacks of a thread: one runs at a time, and a few more are returned by computations that had paused.
const SPARE_MAX: usize = 4;

/// The number of parts of work between two reads of the clock. A read takes as long as one or two parts.
pub const PARTS: u32 = 512;

/// The number of steps between two reads of the clock.
const STEPS: u64 = 10_000;

/// The number of steps that an engine may still take. A step takes some nanoseconds.
#[derive(Debug, Clone)]
pub struct Steps {
    /// The steps until the next read of the clock. `later` are the steps after it.
    next: u64,
    later: u64,
}

impl Steps {
    /// Creates a budget of `max` steps.
    pub fn new(max: u64) -> Steps {
        let next = max.min(STEPS);
        Steps { next, later: max - next }
    }

    /// Returns the number of steps left.
    pub fn left(&self) -> u64 {
        self.next + self.later
    }

    /// Spends steps. If there are too few, returns false, and none are left. Every ten thousand steps, the computation pauses if it has
    /// used its share.
    #[inline]
    pub fn spend(&mut self, steps: u64) -> bool {
        match self.next.checked_sub(steps) {
            Some(left) => {
                self.next = left;
                true
            }
            None => self.spend_later(steps),
        }
    }

    #[cold]
    fn spend_later(&mut self, steps: u64) -> bool {
        pause_if_due();
        let left = self.left().checked_sub(steps);
        *self = Steps::new(left.unwrap_or(0));
        left.is_some()
    }
}

/// One poll: the function and its argument.
#[derive(Clone, Copy)]
struct Job {
    run: unsafe fn(*mut ()),
    argument: *mut (),
}

/// The reason why a stack was suspended.
enum Left {
    Paused,
    /// The job is done, and the stack can take another one.
    Done,
}

/// A stack that runs one job after the other. Creating one for each poll would cost more than the switch.
type Stack = Coroutine<Job, Left, Infallible, DefaultStack>;
type Pauses = Yielder<Job, Left>;

thread_local! {
    /// The computation that is being polled on a separate stack, or null outside of one.
    static RUNNING: Cell<*const Pauses> = const { Cell::new(ptr::null()) };
    /// The first read of the clock since the running computation continued.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    static SPARE: RefCell<Vec<Stack>> = const { RefCell::new(Vec::new()) };
    /// The number of parts until the next read of the clock.
    static LEFT: Cell<u32> = const { Cell::new(PARTS) };
    /// Whether a computation waits, or a part of the share is used up. Usually this is false, and polls need not check the queue.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    static QUEUE: RefCell<Queue> = const { RefCell::new(Queue::new()) };
}

/// The computations of a thread that wait for their turns.
struct Queue {
    waiting: VecDeque<(u64, Waker)>,
    /// The computation whose turn it is.
    granted: Option<u64>,
    /// The used part of the share.
    spent: Duration,
    /// Whether the runtime will call [`NextRound`] after its next poll for events.
    is_round_noted: bool,
    last_id: u64,
}

/// Ends a round, once the runtime has polled for new events.
struct NextRound;

/// A future that runs in turns, see [`in_turns`].
pub struct InTurns<F: Future> {
    /// This is the first field, so that it is dropped first: it borrows `poll`.
    paused: Option<Paused>,
    /// The number of the computation while it waits.
    id: Option<u64>,
    poll: OnePoll<F>,
}

/// The future, and the data that its poll needs until it returns.
struct OnePoll<F: Future> {
    future: F,
    /// The waker of the task in which the poll began.
    waker: Waker,
    outcome: Option<Poll<F::Output>>,
}

/// A poll that has not returned yet.
struct Paused {
    stack: Stack,
    /// The number of times that it was refused memory, see [`memory::watch`].
    refused: u64,
}

/// Wraps a future so that its computations can pause. A nested wrapped future pauses together with the outer one.
pub fn in_turns<F: Future>(future: F) -> InTurns<F> {
    let poll = OnePoll { future, waker: Waker::noop().clone(), outcome: None };
    InTurns { paused: None, id: None, poll }
}

/// Pauses the running computation if it has used its share. Long computations call this every few microseconds. They must not hold a borrow
/// of a cell that other tasks borrow.
#[inline]
pub fn pause_if_due() {
    if !RUNNING.get().is_null() {
        look_at_clock();
    }
}

/// Counts a small part of work, such as one of many values. A few parts take about a microsecond. Every [`PARTS`] parts of a thread call
/// [`pause_if_due`].
#[inline]
pub fn part() {
    let left = LEFT.get().wrapping_sub(1);
    LEFT.set(left);
    if left == 0 {
        LEFT.set(PARTS);
        pause_if_due();
    }
}

/// Runs work that needs the thread's own stack. It cannot pause.
pub fn on_thread_stack<T>(work: impl FnOnce() -> T) -> T {
    let running = RUNNING.replace(ptr::null());
    if running.is_null() {
        return work();
    }
    let _again = Restore(running);
    let work = SameThread(work);
    // SAFETY: it was set by the poll that runs now, whose yielder lives until that poll returns.
    #[allow(unsafe_code, reason = "see above")]
    let pauses = unsafe { &*running };
    pauses.on_parent_stack(move || SameThread(work.take()())).take()
}

impl<F: Future> InTurns<F> {
    /// Returns true if the poll may run now. If not, it is added to the queue.
    fn has_turn(&mut self, waker: &Waker) -> bool {
        if !IS_BUSY.get() {
            return true;
        }
        let has_turn = QUEUE.with_borrow_mut(|queue| match self.id {
            Some(id) if queue.granted == Some(id) => {
                queue.granted = None;
                self.id = None;
                true
            }
            Some(id) => {
                queue.keep_waker(id, waker);
                false
            }
            None if queue.spent < SHARE => true,
            None => {
                self.id = Some(queue.push(waker));
                false
            }
        });
        if !has_turn {
            note_round();
        }
        has_turn
    }

    /// Returns the poll to run: the paused one, or a new one. Returns `None` if there is no memory for a stack.
    fn next_poll(&mut self, waker: &Waker) -> Option<Paused> {
        if let Some(paused) = self.paused.take() {
            return Some(paused);
        }
        let stack = SPARE.with_borrow_mut(Vec::pop).or_else(new_stack)?;
        self.poll.waker.clone_from(waker);
        Some(Paused { stack, refused: 0 })
    }
}

impl<F: Future> InTurns<F> {
    /// Polls on the stack of the caller.
    fn poll_here(&mut self, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: this is called by `poll` alone, which has `self` pinned.
        #[allow(unsafe_code, reason = "see above")]
        unsafe { Pin::new_unchecked(&mut self.poll.future) }.poll(cx)
    }
}

impl<F: Future> OnePoll<F> {
    /// Polls the future. The argument is a `OnePoll<F>` that nothing else uses until this returns or is unwound.
    #[allow(unsafe_code, reason = "see above")]
    unsafe fn run(argument: *mut ()) {
        // SAFETY: see above.
        let this = unsafe { &mut *argument.cast::<Self>() };
        // SAFETY: `InTurns` is pinned since its first poll, and nothing is moved out of it.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        this.outcome = Some(future.poll(&mut Context::from_waker(&this.waker)));
    }
}

fn new_stack() -> Option<Stack> {
    // Harmless: without memory for a stack, the poll runs on the thread's own stack.
    let stack = DefaultStack::new(STACK_BYTES).ok()?;
    Some(Coroutine::with_stack(stack, |pauses: &Pauses, mut job: Job| {
        loop {
            RUNNING.set(pauses);
            // SAFETY: `InTurns::poll` keeps the argument for as long as this stack has the job.
            #[allow(unsafe_code, reason = "see above")]
            unsafe {
                (job.run)(job.argument);
            }
            job = pauses.suspend(Left::Done);
        }
    }))
}

impl<F: Future> Future for InTurns<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        // SAFETY: nothing is moved out of `poll`, and the other fields may move.
        #[allow(unsafe_code, reason = "see above")]
        let this = unsafe { self.get_unchecked_mut() };
        let is_nested = !RUNNING.get().is_null() && this.paused.is_none();
        if is_nested {
            return this.poll_here(cx);
        }
        if !this.has_turn(cx.waker()) {
            return Poll::Pending;
        }
        let Some(mut paused) = this.next_poll(cx.waker()) else { return this.poll_here(cx) };
        BEGAN.set(None);
        let around = Restore(RUNNING.get());
        let refused = memory::exchange_refused(paused.refused);
        let job = Job { run: OnePoll::<F>::run, argument: (&raw mut this.poll).cast() };
        let CoroutineResult::Yield(left) = paused.stack.resume(job);
        paused.refused = memory::exchange_refused(refused);
        drop(around);
        if let Some(began) = BEGAN.take() {
            let spent = clock::now() - began;
            IS_BUSY.set(true);
            QUEUE.with_borrow_mut(|queue| {
                queue.spent += spent;
                if matches!(left, Left::Paused) {
                    this.id = Some(queue.push(cx.waker()));
                }
            });
        }
        if IS_BUSY.get() {
            note_round();
        }
        let polled = match left {
            Left::Paused => None,
            Left::Done => this.poll.outcome.take(),
        };
        let Some(polled) = polled else {
            this.paused = Some(paused);
            return Poll::Pending;
        };
        // Events wake the task in which the poll began, which may be another one.
        if polled.is_pending() && !this.poll.waker.will_wake(cx.waker()) {
            cx.waker().wake_by_ref();
        }
        // Adds the refusals that no nested `watch` has reported.
        memory::exchange_refused(refused.wrapping_add(paused.refused));
        keep(paused.stack);
        polled
    }
}

impl<F: Future> Drop for InTurns<F> {
    fn drop(&mut self) {
        if let Some(paused) = self.paused.take() {
            // The values on its stack are dropped, and their destructors must not pause.
            let _around = Restore(RUNNING.replace(ptr::null()));
            drop(paused);
        }
        let Some(id) = self.id else { return };
        let left = QUEUE.try_with(|queue| queue.borrow_mut().leave(id));
        if left == Ok(true) {
            note_round();
        }
    }
}

impl Queue {
    const fn new() -> Queue {
        Queue {
            waiting: VecDeque::new(),
            granted: None,
            spent: Duration::ZERO,
            is_round_noted: false,
            last_id: 0,
        }
    }

    fn push(&mut self, waker: &Waker) -> u64 {
        self.last_id += 1;
        self.waiting.push_back((self.last_id, waker.clone()));
        self.last_id
    }

    fn keep_waker(&mut self, id: u64, waker: &Waker) {
        let known = self.waiting.iter_mut().find(|(known, _)| *known == id);
        if let Some((_, known)) = known.filter(|(_, known)| !known.will_wake(waker)) {
            known.clone_from(waker);
        }
    }

    /// Removes a dropped computation. Returns true if it was its turn, which then passes to the next one.
    fn leave(&mut self, id: u64) -> bool {
        let is_granted = self.granted == Some(id);
        if is_granted {
            self.granted = None;
        }
        self.waiting.retain(|(waiting, _)| *waiting != id);
        is_granted
    }

    /// The computation whose turn it is.
    fn next(&mut self) -> Option<Waker> {
        self.is_round_noted = false;
        self.spent = Duration::ZERO;
        if self.granted.is_some() {
            return None;
        }
        let Some((id, waker)) = self.waiting.pop_front() else {
            IS_BUSY.set(false);
            return None;
        };
        self.granted = Some(id);
        Some(waker)
    }
}

impl Wake for NextRound {
    fn wake(self: Arc<Self>) {
        let next = QUEUE.try_with(|queue| queue.borrow_mut().next());
        // Harmless: a thread that is ending has nothing to wake.
        next.ok().flatten().inspect(Waker::wake_by_ref);
    }
}

/// Makes the runtime end the round after its next poll for events.
fn note_round() {
    if !QUEUE.with_borrow_mut(|queue| std::mem::replace(&mut queue.is_round_noted, true)) {
        let round = Waker::from(Arc::new(NextRound));
        let mut yielding = pin!(tokio::task::yield_now());
        // Harmless: it is polled only to register the waker.
        let _pending = yielding.as_mut().poll(&mut Context::from_waker(&round));
    }
}

#[cold]
fn look_at_clock() {
    let now = clock::now();
    let Some(began) = BEGAN.get() else { return BEGAN.set(Some(now)) };
    if now - began + QUEUE.with_borrow(|queue| queue.spent) < SHARE {
        return;
    }
    let running = RUNNING.get();
    // SAFETY: it was set by the stack that runs now, which this is.
    #[allow(unsafe_code, reason = "see above")]
    unsafe { &*running }.suspend(Left::Paused);
    RUNNING.set(running);
}

fn keep(stack: Stack) {
    SPARE.with_borrow_mut(|spare| {
        if spare.len() < SPARE_MAX {
            spare.push(stack);
        }
    });
}

/// Restores [`RUNNING`], even after a panic.
struct Restore(*const Pauses);

impl Drop for Restore {
    fn drop(&mut self) {
        RUNNING.set(self.0);
    }
}

/// A value that is passed from one stack of a thread to another.
struct SameThread<T>(T);

impl<T> SameThread<T> {
    fn take(self) -> T {
        self.0
    }
}

// SAFETY: both stacks are the same thread's.
#[allow(unsafe_code, reason = "see above")]
unsafe impl<T> Send for SameThread<T> {}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::task::LocalSet;

    use super::*;
    use crate::task;

    /// The number of rounds of the runtime that a test waits for. Work that never pauses would not see any.
    const ROUNDS: u32 = 5;

    /// Computes until the other task has run `ROUNDS` times.
    fn compute_until(rounds: &Cell<u32>) -> u64 {
        let mut steps = 0;
        while rounds.get() < ROUNDS && steps < 2_000_000_000 {
            steps += 1;
            pause_if_due();
        }
        steps
    }

    async fn count(rounds: Rc<Cell<u32>>) {
        while rounds.get() < ROUNDS {
            task::yield_to_events().await;
            rounds.set(rounds.get() + 1);
        }
    }

    fn run<T>(scene: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        LocalSet::new().block_on(&runtime, scene)
    }

    #[test]
    fn other_tasks_run_while_one_computes() {
        run(async {
            let rounds = Rc::new(Cell::new(0));
            let counting = crate::spawn(count(rounds.clone()));
            // Borrows, and values on the stack, outlive the pauses.
            let text = String::from("kept");
            let steps = in_turns(async { (compute_until(&rounds), text.len()) }).await;
            assert_eq!((rounds.get(), steps.1), (ROUNDS, 4));
            counting.await.unwrap();
        });
    }

    #[test]
    fn computations_take_turns() {
        run(async {
            let log = Rc::new(RefCell::new(Vec::new()));
            let computing = |name: char| {
                let log = log.clone();
                crate::spawn(in_turns(async move {
                    for _ in 0..3 {
                        let began = log.borrow().len();
                        log.borrow_mut().push(name);
                        while log.borrow().len() == began + 1 && log.borrow().len() < 6 {
                            pause_if_due();
                        }
                    }
                }))
            };
            let (a, b) = (computing('a'), computing('b'));
            a.await.unwrap();
            b.await.unwrap();
            assert_eq!(log.borrow().iter().collect::<String>(), "ababab");
        });
    }

    #[test]
    fn what_is_dropped_in_a_pause_is_unwound() {
        struct DropNote(Rc<Cell<bool>>);
        impl Drop for DropNote {
            fn drop(&mut self) {
                pause_if_due();
                self.0.set(true);
            }
        }
        run(async {
            let (told, never) = (Rc::new(Cell::new(false)), Cell::new(0));
            let mut computing = Box::pin(in_turns(async {
                let _told = DropNote(told.clone());
                compute_until(&never)
            }));
            let polled = std::future::poll_fn(|cx| Poll::Ready(computing.as_mut().poll(cx))).await;
            assert!(polled.is_pending() && computing.paused.is_some() && !told.get());
            drop(computing);
            assert!(told.get());
            // Its turn has passed to the next one.
            let rounds = Rc::new(Cell::new(0));
            let counting = crate::spawn(count(rounds.clone()));
            in_turns(async { compute_until(&rounds) }).await;
            counting.await.unwrap();
        });
    }

    #[test]
    fn a_panic_passes_and_what_it_holds_is_dropped() {
        run(async {
            let rounds = Rc::new(Cell::new(0));
            let counting = crate::spawn(count(rounds.clone()));
            let computing = pin!(in_turns(async {
                compute_until(&rounds);
                panic!("on its own stack");
            }));
            let said: Result<(), String> = task::contain(computing).await;
            assert_eq!(said, Err("on its own stack".to_owned()));
            counting.await.unwrap();
        });
    }

    #[test]
    fn waits_and_nested_futures_go_on_as_elsewhere() {
        run(async {
            let nested = in_turns(async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                let rounds = Rc::new(Cell::new(0));
                let counting = crate::spawn(count(rounds.clone()));
                let inner = in_turns(async { compute_until(&rounds) }).await;
                counting.await.unwrap();
                on_thread_stack(|| {
                    pause_if_due();
                    inner > 0
                })
            });
            assert!(nested.await);
            assert!(on_thread_stack(|| true));
        });
    }
}
