//! jq: compiles texts to programs, and runs programs on messages.

use jaq_core::compile::Undefined;
use jaq_core::load::{self, Arena, File, Loader};
use jaq_core::{Compiler, Ctx, Vars, data, unwrap_valr};
use jaq_json::{Val, read, write};
use kit::TextPosition;

use crate::outcome::{Outcome, ProgramError};
use crate::stack::on_stack;
use crate::{CHECK_STACK_BYTES, MESSAGE_BYTES_MAX};

type Data = data::JustLut<Val>;

/// A compiled program. It can run only on the thread that compiled it.
pub(crate) struct JqProgram(jaq_core::compile::Filter<jaq_core::Native<Data>>);

/// Maximum nesting of brackets.
const BRACKETS_MAX: i32 = 500;

/// Checks a text for errors. Runs on a separate stack, because the parser recurses for nearly each byte of a text like `----`.
pub(crate) fn check(text: &str) -> Result<(), ProgramError> {
    let (_, deepest) = text.bytes().fold((0, 0), |(depth, deepest), byte| {
        let depth = depth + i32::from(b"([{".contains(&byte)) - i32::from(b")]}".contains(&byte));
        (depth, deepest.max(depth))
    });
    if deepest > BRACKETS_MAX {
        let what = format!("brackets are nested deeper than {BRACKETS_MAX}");
        return Err(ProgramError::whole(what));
    }
    let text = text.to_owned();
    on_stack(CHECK_STACK_BYTES, move || compile(&text).map(drop)).unwrap_or_else(|_| Err(unread()))
}

/// Returns the error for a text for which the library reports no position.
fn unread() -> ProgramError {
    ProgramError::whole("the program cannot be read".to_owned())
}

/// Compiles a text.
pub(crate) fn compile(text: &str) -> Result<JqProgram, ProgramError> {
    let definitions = jaq_core::defs().chain(jaq_std::defs()).chain(jaq_json::defs());
    let natives = jaq_core::funs().chain(jaq_std::funs()).chain(jaq_json::funs());
    // Programs must not be able to read the environment.
    let natives = natives.filter(|(name, ..)| *name != "env");
    let arena = Arena::default();
    let file = File { code: text, path: () };
    let modules = Loader::new(definitions)
        .load(&arena, file)
        .map_err(|errors| first(errors, |file, error| unreadable(text, file, error)))?;
    let compiled = Compiler::default().with_funs(natives).compile(modules);
    let filter = compiled.map_err(|errors| {
        first(errors, |_, undefined: Vec<_>| {
            let (name, kind) = undefined.into_iter().next()?;
            let arity = if let Undefined::Filter(arity) = kind {
                format!("/{arity}")
            } else {
                String::new()
            };
            let what = format!("there is no {} `{name}{arity}`", kind.as_str());
            Some(defect(text, name, what))
        })
    })?;
    Ok(JqProgram(filter))
}

/// Returns an error at a part of the text.
fn defect(text: &str, part: &str, what: String) -> ProgramError {
    ProgramError { at: TextPosition::of(text, load::span(text, part).start), what }
}

fn first<F, E>(errors: Vec<(F, E)>, told: impl Fn(F, E) -> Option<ProgramError>) -> ProgramError {
    let told = errors.into_iter().next().and_then(|(file, error)| told(file, error));
    told.unwrap_or_else(unread)
}

fn unreadable(text: &str, _: File<&str, ()>, error: load::Error<&str>) -> Option<ProgramError> {
    Some(match error {
        load::Error::Io(errors) => {
            let (part, _) = errors.into_iter().next()?;
            defect(text, part, "a program of a flow cannot read other files".to_owned())
        }
        load::Error::Lex(errors) => {
            let (expected, rest) = errors.into_iter().next()?;
            defect(text, rest, format!("expected {}", expected.as_str()))
        }
        load::Error::Parse(errors) => {
            let (expected, found) = errors.into_iter().next()?;
            let at = if found.is_empty() { text.get(text.len()..)? } else { found };
            let found = if found.is_empty() { "the end" } else { found };
            // Harmless: the text is only quoted in an error.
            let found: String = found.chars().take(20).collect();
            defect(text, at, format!("expected {}, found `{found}`", expected.as_str()))
        }
    })
}

impl JqProgram {
    /// Runs the program on one message. Returns `None` if it yields no value. The error text is for the log.
    pub(crate) fn run(&self, message: &[u8]) -> Outcome {
        let input = if message.is_empty() {
            Val::default()
        } else {
            read::parse_single(message).map_err(|error| error.to_string())?
        };
        let context = Ctx::<Data>::new(&self.0.lut, Vars::new([]));
        let mut values = self.0.id.run((context, input)).map(unwrap_valr);
        let Some(value) = values.next() else { return Ok(None) };
        let value = value.map_err(|error| error.to_string())?;
        if values.next().is_some() {
            return Err("it yields several values; put brackets around them".to_owned());
        }
        let mut text = Vec::new();
        write::write(&mut text, &write::Pp::default(), 0, &value)
            .map_err(|error| error.to_string())?;
        if text.len() > MESSAGE_BYTES_MAX || std::str::from_utf8(&text).is_err() {
            Err("its value is too large, or is not UTF-8 text".to_owned())
        } else {
            Ok(Some(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TEXT_BYTES_MAX;

    fn run(text: &str, message: &str) -> Result<String, String> {
        let made = compile(text).map_err(|malformed| malformed.to_string())?;
        let value = made.run(message.as_bytes())?;
        Ok(value.map_or_else(|| "nothing".to_owned(), |value| String::from_utf8(value).unwrap()))
    }

    #[test]
    fn a_message_becomes_the_programs_value() {
        for (text, message, value) in [
            (".", r#"{"a":1}"#, r#"{"a":1}"#),
            (
                "{ sum: ([.items[].price] | add) }",
                r#"{"items":[{"price":2},{"price":3}]}"#,
                r#"{"sum":5}"#,
            ),
            (
                ".a",
                r#"{"a":123456789012345678901234567890.10}"#,
                "123456789012345678901234567890.10",
            ),
            ("map(select(. > 1))", "[1,2,3]", "[2,3]"),
            ("empty", "1", "nothing"),
            (".", "", "null"),
            ("def f(x): x * 2; f(.)", "4", "8"),
            (r#"test("^a+$")"#, r#""aa""#, "true"),
            ("@base64", r#""a""#, r#""YQ==""#),
        ] {
            assert_eq!(run(text, message).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_program_that_fails_says_why() {
        for (text, message, what) in [
            (".a", "[1]", "cannot index"),
            (".[]", "[1,2]", "several values"),
            ("error(\"no stock\")", "1", "no stock"),
            (".", "{", ""),
            (".", "1 2", ""),
        ] {
            let error = run(text, message).unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn a_malformed_program_says_where() {
        for (text, place) in [
            (".a |", "line 1, column 5: "),
            ("{ a: 1,\n  b: nix }", "line 2, column 6: there is no filter `nix/0`"),
            ("$ENV", "line 1, column 1: there is no variable `$ENV`"),
            ("env", "line 1, column 1: there is no filter `env/0`"),
            ("input", "line 1, column 1: there is no filter `input/0`"),
            ("(.a", "line 1, column 4: expected closing parenthesis"),
            ("\"\\q\"", "line 1, column 3: "),
            ("include \"a\"; .", "line 1, column 10: "),
        ] {
            let malformed = check(text).unwrap_err().to_string();
            assert!(malformed.starts_with(place), "{text}: {malformed}");
        }
        let deep = "[".repeat(30_000);
        assert!(check(&deep).unwrap_err().what.contains("500"));
    }

    /// The parser recurses for each of these pieces, whether or not the text is complete.
    #[test]
    fn a_text_of_any_nesting_is_read_on_its_own_stack() {
        for piece in ["-", "try ", "if ", "1+", ".a|", "1,", ". as $a|", "label $a|", "def f:1;"] {
            let text = piece.repeat((TEXT_BYTES_MAX - 1) / piece.len());
            assert!(check(&text).is_err(), "{piece}");
            assert_eq!(check(&format!("{text}1")).is_ok(), piece != "if ", "{piece}");
        }
    }
}
