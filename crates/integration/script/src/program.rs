//! A program together with the engines that run it.

use std::fmt;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

use kit::clock;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::MESSAGE_BYTES_MAX;
use crate::engine::Engine;
use crate::interpreter::{self, Language};
use crate::outcome::{Outcome, ProgramError};

/// A program, shared by all workers. Its engines are started when messages need them, and end with it.
///
/// A message starts in the first lane, which it must leave soon, so that other messages do not wait for slow ones. A message that takes
/// long moves to the second lane, or is stopped if the second lane is full.
pub struct Program {
    language: Language,
    text: Box<str>,
    /// Permits for the engines that may run at the same time, in each lane.
    first_lane: Semaphore,
    second_lane: Semaphore,
    idle: Mutex<Vec<Engine>>,
}

/// Number of engines in the first lane for each core. The kernel shares the cores among them, so that a short message is finished soon even
/// while long ones run.
const FIRST_LANE_EACH: usize = 4;

/// The time in which most messages are finished. CPU time is first checked after this time, and then repeatedly at this interval.
const LOOK_AFTER: Duration = Duration::from_millis(50);

/// The CPU time, in ticks of 10 ms after the first check, from which a run counts as long. Elapsed time says little on a busy machine.
const LONG_TICKS: u64 = 2;

/// The reason why there is no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramFailure {
    /// The program failed with this text.
    Refused(String),
    /// The engine ended, because it used too much memory or stack.
    Ended,
    /// The run exceeded its time limit.
    Late,
    /// The run took long, and the second lane was full.
    Crowded,
    /// No engine could be started, or it ended before it was ready for a message.
    NotStarted(String),
    /// The message is too large for an engine.
    TooLarge,
}

impl fmt::Display for ProgramFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProgramFailure::Refused(what) => f.write_str(what),
            ProgramFailure::Ended => {
                f.write_str("it was stopped: it used too much memory or stack")
            }
            ProgramFailure::Late => f.write_str("it was stopped: it took too long"),
            ProgramFailure::Crowded => {
                f.write_str("it was stopped: too many other messages also take long")
            }
            ProgramFailure::NotStarted(what) => {
                write!(f, "no process for it could be started: {what}")
            }
            ProgramFailure::TooLarge => write!(f, "the message is over {MESSAGE_BYTES_MAX} bytes"),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("text", &self.text).finish_non_exhaustive()
    }
}

impl Program {
    pub fn language(&self) -> Language {
        self.language
    }

    /// Creates a program from a text.
    ///
    /// # Errors
    /// Returns the first error in the text, with its position.
    pub fn new(language: Language, text: &str) -> Result<Program, ProgramError> {
        interpreter::check(language, text)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Program {
            language,
            text: text.into(),
            first_lane: Semaphore::new(cores * FIRST_LANE_EACH),
            second_lane: Semaphore::new(cores),
            idle: Mutex::default(),
        })
    }

    /// Runs the program on an input, which is JSON; see [`Language`]. Returns `None` if it yields no value. Dropping the future stops the
    /// program. The program is also stopped after `longest`, which starts when an engine receives the message, so that waiting for an
    /// engine does not count.
    ///
    /// # Errors
    /// See [`ProgramFailure`].
    pub async fn run(
        &self,
        message: &[u8],
        longest: Duration,
    ) -> Result<Option<Vec<u8>>, ProgramFailure> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(ProgramFailure::TooLarge);
        }
        let not_started = |error: &dyn fmt::Display| ProgramFailure::NotStarted(error.to_string());
        let first = self.first_lane.acquire().await.map_err(|error| not_started(&error))?;
        let kept = self.idle().pop();
        let engine = match kept {
            Some(engine) => engine,
            None => {
                let started = Engine::start(self.language, &self.text)
                    .map_err(|error| not_started(&error))?;
                let ended = |error| not_started(&format_args!("it has ended at once: {error}"));
                started.ready().await.map_err(ended)?;
                started
            }
        };
        let outcome = within(longest, pin!(self.in_lanes(&engine, message, first))).await;
        let outcome = outcome.ok_or(ProgramFailure::Late)??;
        self.idle().push(engine);
        outcome.map_err(ProgramFailure::Refused)
    }

    /// Runs the program in the first lane, and in the second one if it takes long.
    async fn in_lanes(
        &self,
        engine: &Engine,
        message: &[u8],
        first: SemaphorePermit<'_>,
    ) -> Result<Outcome, ProgramFailure> {
        let mut running = pin!(engine.run(message));
        let ran = match unless_long(engine, running.as_mut()).await {
            Some(ran) => ran,
            None => {
                let second = self.second_lane.try_acquire();
                let _second = second.map_err(|_| ProgramFailure::Crowded)?;
                drop(first);
                running.await
            }
        };
        ran.map_err(|_| ProgramFailure::Ended)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Engine>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the result of an engine's work, or `None` if the work takes long.
async fn unless_long<T>(engine: &Engine, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut before = None;
    loop {
        let done = within(LOOK_AFTER, work.as_mut()).await;
        if done.is_some() {
            return done;
        }
        // If the system does not report CPU time, the run counts as long.
        let ticks = engine.ticks()?;
        if ticks.saturating_sub(*before.get_or_insert(ticks)) >= LONG_TICKS {
            return None;
        }
    }
}

/// Returns the result of work that finishes within the limit, or `None`.
async fn within<T>(limit: Duration, mut work: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let alarm = kit::alarm::take();
    alarm.borrow_mut().set(clock::now(), limit);
    let done = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => alarm.borrow_mut().poll(cx).map(|()| None),
    });
    let done = done.await;
    kit::alarm::give(alarm);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine is this test's own executable, which is none and ends at once.
    #[tokio::test]
    async fn an_engine_that_ends_before_it_is_ready_was_not_started() {
        let program = Program::new(Language::Jq, ".").unwrap();
        let ran = program.run(b"1", Duration::from_secs(60)).await;
        assert!(matches!(ran, Err(ProgramFailure::NotStarted(_))), "{ran:?}");
    }
}
