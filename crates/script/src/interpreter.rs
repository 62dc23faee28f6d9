//! The interpreters behind one face: texts to programs, messages to results.

use std::fmt;
use std::thread;

use kit::TextPosition;

use crate::TEXT_BYTES_MAX;
use crate::javascript::{self, JavaScriptProgram};
use crate::jq::{self, JqProgram};

/// The language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Its input is the message, which an empty one makes `null`.
    Jq,
    /// Its input is an object: `message` and `values` are the arguments of the function whose body the program is.
    JavaScript,
}

/// A program that can run on the thread that compiled it.
pub(crate) enum CompiledProgram {
    Jq(JqProgram),
    JavaScript(JavaScriptProgram),
}

/// The result of a program for a message: a value, none, or the text of a failure.
pub(crate) type Outcome = Result<Option<Vec<u8>>, String>;

/// A defect of a program's text.
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
    /// A defect of no place.
    pub(crate) fn whole(what: String) -> ProgramError {
        ProgramError { at: TextPosition::of("", 0), what }
    }
}

impl Language {
    /// The byte that stands for it in front of a program's text.
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

/// Looks for defects of a text, and runs nothing of it.
pub(crate) fn check(language: Language, text: &str) -> Result<(), ProgramError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ProgramError::whole(format!("a program has {TEXT_BYTES_MAX} bytes at most")));
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
    /// Runs it over one message. The error is for the log.
    pub(crate) fn run(&self, message: &[u8]) -> Outcome {
        match self {
            CompiledProgram::Jq(program) => program.run(message),
            CompiledProgram::JavaScript(program) => program.run(message),
        }
    }
}

/// The result of work that needs a stack of its own. The error means that it panicked.
pub(crate) fn on_stack<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ProgramError> + Send + 'static,
) -> thread::Result<Result<T, ProgramError>> {
    match thread::Builder::new().stack_size(bytes).spawn(work) {
        Ok(thread) => thread.join(),
        Err(error) => Ok(Err(ProgramError::whole(format!("no thread to read it: {error}")))),
    }
}
