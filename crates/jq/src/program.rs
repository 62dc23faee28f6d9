//! A program with the engines that run it.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::MESSAGE_BYTES_MAX;
use crate::engine::Engine;
use crate::interpreter::{self, ProgramError};

/// A program, for all workers. Its engines start when messages need them, and end with it.
pub struct Program {
    text: Box<str>,
    /// One for each engine that may run at once: as many as there are cores.
    places: Semaphore,
    idle: Mutex<Vec<Engine>>,
}

/// The reason why a message has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramFailure {
    /// The program's own words about the message.
    Refused(String),
    /// The engine ended: it used too much memory or stack.
    Ended,
    /// No engine could be started.
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
    /// A program of a text that has no defects.
    ///
    /// # Errors
    /// The first defect, with its place.
    pub fn new(text: &str) -> Result<Program, ProgramError> {
        interpreter::check(text)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Program { text: text.into(), places: Semaphore::new(cores), idle: Mutex::default() })
    }

    /// Runs it over a message of JSON; an empty one is `null`. None: it gave no value. Dropping the future stops the program.
    ///
    /// # Errors
    /// See [`ProgramFailure`].
    pub async fn run(&self, message: &[u8]) -> Result<Option<Vec<u8>>, ProgramFailure> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(ProgramFailure::TooLarge);
        }
        let not_started = |error: &dyn fmt::Display| ProgramFailure::NotStarted(error.to_string());
        let _place = self.places.acquire().await.map_err(|error| not_started(&error))?;
        let kept = self.idle().pop();
        let engine = match kept {
            Some(engine) => engine,
            None => Engine::start(&self.text).map_err(|error| not_started(&error))?,
        };
        let outcome = engine.run(message).await.map_err(|_| ProgramFailure::Ended)?;
        self.idle().push(engine);
        outcome.map_err(ProgramFailure::Refused)
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Engine>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
