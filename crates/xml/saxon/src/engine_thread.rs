//! Threads attached to the JVM with their memory on the Java side, and the check that stops a run that takes too long. Used by the threads
//! of the pool and by workers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use kit::clock::{self, Instant};

use crate::lock::locked;
use crate::transformation::{Message, RunError};
use crate::vm::{AttachedThread, CpuClock, GlobalRef, Slot, Vm};

/// Interval at which a thread that was told to stop but still runs is told again.
const STOP_AGAIN: Duration = Duration::from_secs(1);

/// State of one attached thread, shared with the keeper.
#[derive(Default)]
pub(crate) struct ThreadState {
    /// Locked by the keeper while it stops the thread, so that it cannot stop a later run by mistake.
    running: Mutex<RunningJob>,
}

#[derive(Default)]
struct RunningJob {
    thread: Option<(GlobalRef, CpuClock)>,
    until: Option<TimeLimit>,
    stopped: bool,
}

/// The condition under which a run has exceeded its time.
#[derive(Clone, Copy)]
pub(crate) enum TimeLimit {
    Deadline(Instant),
    /// The thread has used this much CPU time since the keeper first saw the run, or [`IDLE_MAX`] has passed. Waiting for a core or for
    /// garbage collection takes no CPU time.
    Busy {
        max: Duration,
        met: Option<FirstSeen>,
    },
}

/// A run as the keeper first saw it.
#[derive(Clone, Copy)]
pub(crate) struct FirstSeen {
    at: Instant,
    used: Option<Duration>,
}

/// Time after which a run is stopped even if it has used little CPU time, counted from when the keeper first saw it.
const IDLE_MAX: Duration = Duration::from_secs(1);

/// A thread attached to the JVM. An error thrown into the thread takes effect during a run, or when this is dropped.
pub(crate) struct EngineThread {
    attached: AttachedThread,
    slot: Slot,
    state: Arc<ThreadState>,
}

/// The result of a run.
pub(crate) struct RunOutcome<T> {
    pub(crate) result: T,
    /// Whether the run was told to stop, so that the thread has to be detached.
    pub(crate) stopped: bool,
}

impl ThreadState {
    fn begin(&self, until: TimeLimit) {
        locked(&self.running).until = Some(until);
    }

    /// Ends the run. Returns true if it was stopped.
    fn end(&self) -> bool {
        let mut running = locked(&self.running);
        running.until = None;
        running.stopped
    }

    /// Stops the thread if its run has exceeded its time. Returns true the first time.
    pub(crate) fn watch(&self, attached: &AttachedThread) -> bool {
        let mut running = locked(&self.running);
        let now = clock::now();
        let RunningJob { thread: Some((thread, clock)), until: Some(until), .. } = &mut *running
        else {
            return false;
        };
        if !until.is_over(now, clock) {
            return false;
        }
        // If the thread cannot be stopped now, a later tick tries again.
        let told = attached.stop(thread).is_ok();
        running.until = Some(TimeLimit::Deadline(now + STOP_AGAIN));
        let first = told && !running.stopped;
        running.stopped |= told;
        first
    }
}

impl TimeLimit {
    /// Checks the condition at a tick of the keeper.
    fn is_over(&mut self, now: Instant, clock: &CpuClock) -> bool {
        match self {
            TimeLimit::Deadline(deadline) => now >= *deadline,
            TimeLimit::Busy { met: met @ None, .. } => {
                *met = Some(FirstSeen { at: now, used: clock.used() });
                false
            }
            TimeLimit::Busy { max, met: Some(met) } => {
                let busy = clock.used().and_then(|now| Some(now.saturating_sub(met.used?)));
                busy.is_some_and(|busy| busy >= *max) || now >= met.at + IDLE_MAX
            }
        }
    }
}

impl EngineThread {
    /// Attaches this thread, whose state is `state`.
    pub(crate) fn take(
        vm: Vm,
        name: &str,
        state: Arc<ThreadState>,
    ) -> Result<EngineThread, String> {
        let attached = vm.attach(name)?;
        let slot = attached.slot()?;
        locked(&state.running).thread = Some((attached.this_thread()?, CpuClock::of_this_thread()));
        Ok(EngineThread { attached, slot, state })
    }

    /// Runs a transformation, which is stopped if it takes too long.
    pub(crate) fn run(
        &mut self,
        sheet: &GlobalRef,
        message: &Message,
        output_bytes_max: usize,
        until: TimeLimit,
    ) -> RunOutcome<Result<Vec<u8>, RunError>> {
        let (bytes, json) = match message {
            Message::Xml(feed) => (feed.bytes(), false),
            Message::Json(text) => (&**text, true),
        };
        self.state.begin(until);
        let run = self.attached.run(&mut self.slot, sheet, bytes, json, output_bytes_max);
        let stopped = self.state.end();
        let result = if stopped {
            Err(RunError::Late)
        } else {
            run.map_err(RunError::Broken).and_then(|(code, bytes)| outcome(code, bytes))
        };
        RunOutcome { result, stopped }
    }

    /// Compiles a stylesheet, which is stopped if it takes too long. Errors are returned as lines of text.
    pub(crate) fn compile(
        &mut self,
        request: &[u8],
        until: TimeLimit,
    ) -> RunOutcome<Result<GlobalRef, String>> {
        let mut said = Vec::new();
        self.state.begin(until);
        let made = self.attached.compile(&mut self.slot, request, &mut said);
        let stopped = self.state.end();
        let result = match made {
            Ok(Some(kept)) => Ok(kept),
            // Harmless: Java writes UTF-8.
            Ok(None) => Err(String::from_utf8_lossy(&said).into_owned()),
            Err(error) => Err(format!("\t-1\t-1\t{error}\n")),
        };
        RunOutcome { result, stopped }
    }
}

impl Drop for EngineThread {
    fn drop(&mut self) {
        // Harmless: this call catches an error that the keeper threw at the last moment, which would otherwise interrupt the detaching.
        drop(self.attached.heap());
        let thread = locked(&self.state.running).thread.take().map(|(thread, _)| thread);
        let kept = self.slot.take_kept().into_iter().chain(thread);
        kept.for_each(|kept| self.attached.forget(kept));
    }
}

/// Converts the result code of `Slot.java`.
fn outcome(code: u32, bytes: Vec<u8>) -> Result<Vec<u8>, RunError> {
    // Harmless: Java writes UTF-8.
    let said = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    match code {
        0 => Ok(bytes),
        1 => Err(RunError::Refused(said(bytes))),
        2 => Err(RunError::BadInput(said(bytes))),
        3 => Err(RunError::TooLarge),
        4 => Err(RunError::Memory),
        5 => Err(RunError::Stack),
        6 => Err(RunError::Late),
        other => Err(RunError::Broken(format!("a run ended with code {other}"))),
    }
}
