//! A common interface to the interpreters: compiles texts to programs, and runs programs on messages.

use std::fmt;
use std::thread;

use kit::TextPosition;

use crate::TEXT_BYTES_MAX;
use crate::javascript::{self, JavaScriptProgram};
use crate::jq::{self, JqProgram};

/// The language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// The input is the message. An empty message is `null`.
    Jq,
    /// The program is the body of a function. The input is an object with the function's arguments, `message` and `values`.
    JavaScript,
}

/// A compiled program. It can run only on the thread that compiled it.
pub(crate) enum CompiledProgram {
    Jq(JqProgram),
    JavaScript(JavaScriptProgram),
}

/// The result of running a program: a value, no value, or the text of a failure.
pub(crate) type Outcome = Result<Option<Vec<u8>>, String>;

/// An error in the text of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramError {
    pub at: TextPosition,
    pub what: String,
}

impl fmt::Display for ProgramError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TextPosition { line, column, .. } = self.at;
        write!(f, "line {line}, column {column}: {}", self.what)
    }
}

impl ProgramError {
    /// Returns an error without a position.
    pub(crate) fn whole(what: String) -> ProgramError {
        ProgramError { at: TextPosition::of("", 0), what }
    }
}

impl Language {
    /// Returns the byte that identifies the language before a program's text.
    pub(crate) fn letter(self) -> u8 {
        match self {
            Language::Jq => b'q',
            Language::JavaScript => b'j',
        }
    }

    pub(crate) fn of_letter(letter: u8) -> Option<Language> {
        [Language::Jq, Language::JavaScript].into_iter().find(|known| known.letter() == letter)
    }
}

/// Checks a text for errors, without running any of it.
pub(crate) fn check(language: Language, text: &str) -> Result<(), ProgramError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ProgramError::whole(format!(
            "a program can have at most {TEXT_BYTES_MAX} bytes"
        )));
    }
    match language {
        Language::Jq => jq::check(text),
        Language::JavaScript => javascript::check(text),
    }
}

/// Compiles a text.
pub(crate) fn compile(language: Language, text: &str) -> Result<CompiledProgram, ProgramError> {
    Ok(match language {
        Language::Jq => CompiledProgram::Jq(jq::compile(text)?),
        Language::JavaScript => CompiledProgram::JavaScript(JavaScriptProgram::new(text)?),
    })
}

impl CompiledProgram {
    /// Runs the program on one message. The error text is for the log.
    pub(crate) fn run(&self, message: &[u8]) -> Outcome {
        match self {
            CompiledProgram::Jq(program) => program.run(message),
            CompiledProgram::JavaScript(program) => program.run(message),
        }
    }
}

/// Runs work on a thread with a stack of this size. The error means that the work panicked.
pub(crate) fn on_stack<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ProgramError> + Send + 'static,
) -> thread::Result<Result<T, ProgramError>> {
    match thread::Builder::new().stack_size(bytes).spawn(work) {
        Ok(thread) => thread.join(),
        Err(error) => Ok(Err(ProgramError::whole(format!("no thread to read it: {error}")))),
    }
}
