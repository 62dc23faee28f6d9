//! Runs long computations in turns: they pause in the middle, so that the other tasks of the thread can run.
//!
//! The engines that process messages (parsers, expressions, stylesheets, schemas) are plain functions and cannot await. Therefore a future
//! in [`in_turns`] is polled on a separate stack, and the code that runs there calls [`pause_if_due`] every few microseconds. Once the long
//! work of this thread has used its share, that call suspends the stack and returns to the runtime. The computation continues after all
//! other tasks and new events were handled. Shorter work never pauses; it costs one stack switch per poll.
//!
//! The time between two polls of the runtime for events is a round. In each round the computations of a thread have two shares: one for new
//! computations, in the order of their arrival, and one for paused computations, in turns. Therefore the delay of other tasks does not
//! depend on the number of computations, short work does not wait for long work, and a stream of short work does not starve long work.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::Future;
use std::mem;
use std::pin::{Pin, pin};
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use tokio::time::Instant;

use crate::{clock, memory};

/// The share of time of new computations in a round, and also that of paused ones. From its arrival to its reply, a request is delayed by
/// two or three rounds, so a longer share would delay it more. A longer share would also save little, since the overhead of a round is a few
/// microseconds.
pub const SHARE: Duration = Duration::from_millis(1);

/// The size of a separate stack. It equals that of a thread's stack, so that recursion may be as deep. Untouched pages take no memory.
const STACK_BYTES: usize = 2 << 20;

/// The maximum number of spare stacks of a thread: one runs at a time, and a few more are returned by computations that had paused.
const SPARE_MAX: usize = 4;

/// The number of parts of work between two reads of the clock, see [`count_part`]. A read takes as long as one or two parts.
pub const PARTS: u32 = 512;

/// The number of steps between two reads of the clock, see [`Steps`].
const STEPS: u64 = 10_000;

/// The number of steps that an engine may still take. A step takes some nanoseconds.
#[derive(Debug, Clone)]
pub struct Steps {
    /// The number of steps until the next read of the clock.
    next: u64,
    /// The number of steps after that read.
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

    /// Spends steps and returns true. If too few steps are left, spends all of them and returns false. Every ten thousand steps, the
    /// computation pauses if it has used its share.
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
enum Suspension {
    /// The job will continue when the stack is resumed.
    Paused,
    /// The job is done, and the stack can run another one.
    Done,
}

/// A stack that runs one job after the other. Creating one for each poll would cost more than the switch.
type Stack = Coroutine<Job, Suspension, Infallible, DefaultStack>;
type Pauses = Yielder<Job, Suspension>;

thread_local! {
    /// The yielder of the separate stack that runs now, or null on the thread's own stack.
    static RUNNING: Cell<*const Pauses> = const { Cell::new(ptr::null()) };
    /// The first read of the clock since the running computation continued.
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// The used part of the share when the running computation continued.
    static SPENT: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    static SPARE: RefCell<Vec<Stack>> = const { RefCell::new(Vec::new()) };
    /// The number of parts until the next read of the clock.
    static LEFT: Cell<u32> = const { Cell::new(PARTS) };
    /// Whether a computation waits, or a part of the share is used up. Usually this is false, and polls need not check the queue.
    static IS_BUSY: Cell<bool> = const { Cell::new(false) };
    static SCHEDULER: RefCell<Scheduler> = const { RefCell::new(Scheduler::new()) };
}

/// The computations of a thread that wait for their turn.
struct Scheduler {
    /// Computations that have not begun.
    new: RunQueue,
    /// Computations that paused.
    paused: RunQueue,
    /// Whether the runtime will call [`NextRound`] after its next poll for events.
    is_round_noted: bool,
    last_id: u64,
}

/// A first-in, first-out queue of computations with its own share.
struct RunQueue {
    waiting: VecDeque<(u64, Waker)>,
    /// The computation whose turn it is.
    granted: Option<u64>,
    /// The used part of the share in this round.
    spent: Duration,
}

/// A waker that ends the round. The runtime wakes it once it has polled for new events.
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
pub fn count_part() {
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
    // SAFETY: `running` was set by the poll that is running now, and its yielder lives until that poll returns.
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
        let is_paused = self.paused.is_some();
        let has_turn = SCHEDULER.with_borrow_mut(|scheduler| match self.id {
            Some(id) => scheduler.queue(is_paused).takes_turn(id, waker),
            None if scheduler.queue(is_paused).is_free() => true,
            None => {
                self.id = Some(scheduler.push(is_paused, waker));
                false
            }
        });
        if has_turn {
            self.id = None;
        } else {
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
            job = pauses.suspend(Suspension::Done);
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
        let was_paused = this.paused.is_some();
        let Some(mut paused) = this.next_poll(cx.waker()) else { return this.poll_here(cx) };
        BEGAN.set(None);
        SPENT.set(Duration::ZERO);
        if IS_BUSY.get() {
            SPENT.set(spent_by(was_paused));
            // This must precede the poll: if the poll panics, nothing after it runs, and the waiting computations need the next round.
            note_round();
        }
        let around = Restore(RUNNING.get());
        let refused = memory::exchange_refused(paused.refused);
        let job = Job { run: OnePoll::<F>::run, argument: (&raw mut this.poll).cast() };
        let CoroutineResult::Yield(left) = paused.stack.resume(job);
        paused.refused = memory::exchange_refused(refused);
        drop(around);
        let spent = BEGAN.take().map(|began| clock::now() - began);
        if spent.is_some() {
            IS_BUSY.set(true);
        }
        if IS_BUSY.get() {
            let pauses = matches!(left, Suspension::Paused).then_some(cx.waker());
            // Harmless: a computation that never read the clock took only a few microseconds, which do not matter.
            this.id = account(was_paused, spent.unwrap_or_default(), pauses);
            note_round();
        }
        let polled = match left {
            Suspension::Paused => None,
            Suspension::Done => this.poll.outcome.take(),
        };
        let Some(polled) = polled else {
            this.paused = Some(paused);
            return Poll::Pending;
        };
        // The future registered the waker of the task in which the poll began. If another task polls it now, that task must poll again, to
        // register its waker.
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
        // Harmless: if the thread is ending, its queues are gone.
        let left = SCHEDULER.try_with(|scheduler| scheduler.borrow_mut().leave(id));
        if left == Ok(true) {
            note_round();
        }
    }
}

impl Scheduler {
    const fn new() -> Scheduler {
        Scheduler {
            new: RunQueue::new(),
            paused: RunQueue::new(),
            is_round_noted: false,
            last_id: 0,
        }
    }

    fn queue(&mut self, is_paused: bool) -> &mut RunQueue {
        if is_paused { &mut self.paused } else { &mut self.new }
    }

    /// Adds a computation at the end of its queue, and returns its number.
    fn push(&mut self, is_paused: bool, waker: &Waker) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.queue(is_paused).waiting.push_back((id, waker.clone()));
        id
    }

    /// Removes a dropped computation. Returns true if it was its turn.
    fn leave(&mut self, id: u64) -> bool {
        let was_granted = [self.new.leave(id), self.paused.leave(id)];
        was_granted.contains(&true)
    }

    /// Begins a round. Returns the wakers of the computations whose turn it is.
    fn next_round(&mut self) -> [Option<Waker>; 2] {
        self.is_round_noted = false;
        let granted = [&mut self.new, &mut self.paused].map(|queue| {
            queue.spent = Duration::ZERO;
            queue.grant()
        });
        if self.new.is_idle() && self.paused.is_idle() {
            IS_BUSY.set(false);
        }
        granted
    }
}

impl RunQueue {
    const fn new() -> RunQueue {
        RunQueue { waiting: VecDeque::new(), granted: None, spent: Duration::ZERO }
    }

    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.granted.is_none()
    }

    /// Returns true if a computation that arrives now can run at once.
    fn is_free(&self) -> bool {
        self.is_idle() && self.spent < SHARE
    }

    /// If it is the computation's turn, consumes the turn and returns true. Otherwise, stores `waker`, which is woken when the turn comes,
    /// and returns false.
    fn takes_turn(&mut self, id: u64, waker: &Waker) -> bool {
        if self.granted == Some(id) {
            self.granted = None;
            return true;
        }
        let known = self.waiting.iter_mut().find(|(known, _)| *known == id);
        if let Some((_, known)) = known.filter(|(_, known)| !known.will_wake(waker)) {
            known.clone_from(waker);
        }
        false
    }

    /// Gives the turn to the first waiting computation, and returns the waker of its task. Returns `None` if none waits, if another one has
    /// the turn, or if the share is used up.
    fn grant(&mut self) -> Option<Waker> {
        if self.granted.is_some() || self.spent >= SHARE {
            return None;
        }
        let (id, waker) = self.waiting.pop_front()?;
        self.granted = Some(id);
        Some(waker)
    }

    /// Removes a dropped computation. Returns true if it was its turn.
    fn leave(&mut self, id: u64) -> bool {
        let was_granted = self.granted == Some(id);
        if was_granted {
            self.granted = None;
        }
        self.waiting.retain(|(waiting, _)| *waiting != id);
        was_granted
    }
}

/// Returns the used part of the share of a queue.
fn spent_by(paused: bool) -> Duration {
    SCHEDULER.with_borrow_mut(|scheduler| scheduler.queue(paused).spent)
}

/// Adds the time that a computation took to the used part of its queue's share, and gives the turn to the next computation of the queue. If
/// `pauses` is given, the computation has paused: it is added to the queue of paused ones, and its number is returned.
fn account(was_paused: bool, spent: Duration, pauses: Option<&Waker>) -> Option<u64> {
    let (id, next) = SCHEDULER.with_borrow_mut(|scheduler| {
        scheduler.queue(was_paused).spent += spent;
        let id = pauses.map(|waker| scheduler.push(true, waker));
        (id, scheduler.queue(was_paused).grant())
    });
    next.inspect(Waker::wake_by_ref);
    id
}

impl Wake for NextRound {
    fn wake(self: Arc<Self>) {
        let granted = SCHEDULER.try_with(|scheduler| scheduler.borrow_mut().next_round());
        // Harmless: if the thread is ending, there is nothing to wake, and a queue may have no waiting computation.
        granted.into_iter().flatten().flatten().for_each(Waker::wake);
    }
}

/// Makes the runtime end the round after its next poll for events.
fn note_round() {
    if !SCHEDULER.with_borrow_mut(|scheduler| mem::replace(&mut scheduler.is_round_noted, true)) {
        let round = Waker::from(Arc::new(NextRound));
        let mut yielding = pin!(tokio::task::yield_now());
        // Harmless: it is polled only to register the waker.
        let _ = yielding.as_mut().poll(&mut Context::from_waker(&round));
    }
}

#[cold]
fn look_at_clock() {
    let now = clock::now();
    let Some(began) = BEGAN.get() else { return BEGAN.set(Some(now)) };
    if now - began + SPENT.get() < SHARE {
        return;
    }
    let running = RUNNING.get();
    // SAFETY: `RUNNING` points to the yielder of the stack that runs this function, which is alive.
    #[allow(unsafe_code, reason = "see above")]
    unsafe { &*running }.suspend(Suspension::Paused);
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

// SAFETY: both stacks belong to the same thread.
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
            // Borrows and values on the stack must survive the pauses.
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
    fn both_queues_have_a_share_and_keep_their_order() {
        let waker = Waker::noop();
        let mut scheduler = Scheduler::new();
        let new = [(); 3].map(|()| scheduler.push(false, waker));
        let paused = [(); 2].map(|()| scheduler.push(true, waker));
        let granted = |scheduler: &Scheduler| (scheduler.new.granted, scheduler.paused.granted);

        assert!(scheduler.next_round().iter().all(Option::is_some));
        assert_eq!(granted(&scheduler), (Some(new[0]), Some(paused[0])));
        assert!(!scheduler.new.is_free(), "one that comes now does not overtake those that wait");
        assert!(!scheduler.new.takes_turn(new[1], waker));
        assert!(scheduler.new.takes_turn(new[0], waker));

        scheduler.new.spent = SHARE / 2;
        assert!(scheduler.new.grant().is_some(), "half of the share is left");
        assert!(scheduler.new.takes_turn(new[1], waker));
        scheduler.new.spent = SHARE;
        assert!(scheduler.new.grant().is_none(), "the rest waits for the next round");
        assert_eq!(granted(&scheduler), (None, Some(paused[0])), "which leaves the other share");

        assert!(scheduler.paused.takes_turn(paused[0], waker));
        assert!(scheduler.leave(new[2]) || scheduler.next_round()[1].is_some());
        assert_eq!(granted(&scheduler), (None, Some(paused[1])));
        assert!(scheduler.new.is_free());
        assert!(scheduler.leave(paused[1]) && scheduler.paused.is_idle());
    }

    #[test]
    fn a_computation_dropped_in_a_pause_is_unwound() {
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
            // The turn has passed to the next computation.
            let rounds = Rc::new(Cell::new(0));
            let counting = crate::spawn(count(rounds.clone()));
            in_turns(async { compute_until(&rounds) }).await;
            counting.await.unwrap();
        });
    }

    #[test]
    fn a_panic_propagates_out_of_a_separate_stack() {
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
    fn a_panic_does_not_stop_waiting_computations() {
        run(async {
            // Each has three turns, and panics or ends in the third one. The first to get there is alone in its round: the other one has
            // paused in an earlier round, and only the panicking one can have noted the next.
            let log = Rc::new(RefCell::new(Vec::new()));
            let computing = |name: char, panics: bool| {
                let log = log.clone();
                in_turns(async move {
                    for turn in 1..=3 {
                        log.borrow_mut().push(name);
                        assert!(!panics || turn < 3, "in its turn");
                        while log.borrow().last() == Some(&name) && log.borrow().len() < 5 {
                            pause_if_due();
                        }
                    }
                })
            };
            let panicking = computing('a', true);
            let panics = crate::spawn(async { task::contain(pin!(panicking)).await });
            let waits = crate::spawn(computing('b', false));
            let both = async { (panics.await.unwrap(), waits.await.unwrap()) };
            let ended = tokio::time::timeout(Duration::from_secs(20), both).await;
            assert_eq!(ended, Ok((Err("in its turn".to_owned()), ())));
            assert_eq!(log.borrow().iter().collect::<String>(), "ababab");
        });
    }

    #[test]
    fn waits_and_nested_computations_complete() {
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
