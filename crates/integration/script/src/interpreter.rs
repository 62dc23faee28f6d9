//! A common interface to the interpreters: compiles texts to programs, and runs programs on messages.

use crate::TEXT_BYTES_MAX;
use crate::javascript::{self, JavaScriptProgram};
use crate::jq::{self, JqProgram};
use crate::outcome::{Outcome, ProgramError};

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
