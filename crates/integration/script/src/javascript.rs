//! JavaScript: compiles texts to programs, and runs programs on messages.
//!
//! A program is the body of a function. It gets a new global object for each message, with only the language itself: no files, no network,
//! no timers, no modules.

use kit::TextPosition;
use rquickjs::context::EvalOptions;
use rquickjs::{CatchResultExt as _, CaughtError, Context, Ctx, Function, Module, Runtime, Value};

use crate::outcome::{Outcome, ProgramError};
use crate::stack::on_stack;
use crate::{MEMORY_BYTES_MAX, MESSAGE_BYTES_MAX, STACK_BYTES};

/// A program together with its interpreter.
pub(crate) struct JavaScriptProgram {
    runtime: Runtime,
    /// The program as a function expression.
    function: String,
}

/// Maximum memory for checking a text in this process. None of the text is run.
const CHECK_MEMORY_BYTES: usize = 64 << 20;

/// Stack size for checking a text in this process.
const CHECK_STACK_BYTES: usize = 8 << 20;

/// The interpreter uses one half of the stack. The rest is for the functions that it calls.
const STACK_PART: usize = 2;

/// The name of the text in stack traces.
const NAME: &str = "script";

/// Calls a program and serialises its value.
const CALL: &str = "(function(program, input) {
    const { message, values } = JSON.parse(input);
    const write = JSON.stringify, fail = TypeError;
    const made = program(message, values);
    if (made === undefined) throw new fail('the program returns no value; end it with `return message;`');
    if (typeof made?.then === 'function') throw new fail('the program returns a promise, which is not awaited');
    const text = write(made);
    if (text === undefined) throw new fail('the program returns a function or a symbol, which is not JSON');
    return text;
})";

/// Returns the program as a function, preceded by `before`. The text starts on a separate line.
fn function(before: &str, text: &str) -> String {
    format!("{before}function(message, values) {{\n{text}\n}}")
}

/// Checks a text for errors. It is parsed as part of a module, because a module can be compiled without being run.
pub(crate) fn check(text: &str) -> Result<(), ProgramError> {
    let text = text.to_owned();
    let failed = |error: rquickjs::Error| ProgramError::whole(error.to_string());
    let checked = on_stack(CHECK_STACK_BYTES, move || {
        let runtime = Runtime::new().map_err(failed)?;
        runtime.set_memory_limit(CHECK_MEMORY_BYTES);
        runtime.set_max_stack_size(CHECK_STACK_BYTES / STACK_PART);
        let context = Context::full(&runtime).map_err(failed)?;
        context.with(|ctx| {
            let module = Module::declare(ctx.clone(), NAME, function("export default ", &text));
            module.catch(&ctx).map(drop).map_err(|error| {
                let at = match place(&error) {
                    Some((line, column)) => position(&text, line, column),
                    None => TextPosition::of("", 0),
                };
                ProgramError { at, what: words(&error) }
            })
        })
    });
    checked.unwrap_or_else(|_| Err(ProgramError::whole("the program cannot be read".to_owned())))
}

impl JavaScriptProgram {
    /// Creates a program from a text that has been checked.
    pub(crate) fn new(text: &str) -> Result<JavaScriptProgram, ProgramError> {
        let runtime = Runtime::new().map_err(|error| ProgramError::whole(error.to_string()))?;
        runtime.set_memory_limit(usize::try_from(MEMORY_BYTES_MAX).unwrap_or(usize::MAX));
        runtime.set_max_stack_size(STACK_BYTES / STACK_PART);
        Ok(JavaScriptProgram { runtime, function: format!("({})", function("", text)) })
    }

    /// Runs the program on one input. The error text is for the log.
    pub(crate) fn run(&self, input: &[u8]) -> Outcome {
        let input = std::str::from_utf8(input).map_err(|_| "the message is not UTF-8")?;
        let context = Context::full(&self.runtime).map_err(|error| error.to_string())?;
        let made = context.with(|ctx| {
            let made = self.call(&ctx, input);
            made.catch(&ctx).map_err(|error| match place(&error) {
                Some((line, _)) => format!("{}, in line {line}", words(&error)),
                None => words(&error),
            })
        })?;
        if made.len() > MESSAGE_BYTES_MAX {
            return Err("its value is too large".to_owned());
        }
        Ok(Some(made.into_bytes()))
    }

    fn call<'js>(&self, ctx: &Ctx<'js>, input: &str) -> rquickjs::Result<String> {
        let mut options = EvalOptions::default();
        // Scripts written for other products assign to undeclared names.
        options.strict = false;
        options.filename = Some(NAME.to_owned());
        let call: Function<'js> = ctx.eval(CALL)?;
        let program: Value<'js> = ctx.eval_with_options(self.function.as_str(), options)?;
        call.call((program, input))
    }
}

/// Returns the message of an error in one line.
fn words(error: &CaughtError<'_>) -> String {
    let text = match error {
        // Harmless: an error without a message is shown without one.
        CaughtError::Exception(exception) => exception.message().unwrap_or_default(),
        CaughtError::Value(value) => match value.as_string().map(rquickjs::String::to_string) {
            Some(Ok(text)) => text,
            Some(Err(error)) => error.to_string(),
            None if value.is_null() => "it ran out of memory".to_owned(),
            None => "it threw a value that is neither an error nor a text".to_owned(),
        },
        CaughtError::Error(error) => error.to_string(),
    };
    text.replace(['\r', '\n'], " ")
}

/// Returns line and column of the first position within the text in an error's stack trace.
fn place(error: &CaughtError<'_>) -> Option<(usize, usize)> {
    let CaughtError::Exception(exception) = error else { return None };
    let trace = exception.stack()?;
    let (_, rest) = trace.split_once(&format!("{NAME}:"))?;
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(rest.len());
    let (line, column) = rest.get(..end)?.split_once(':')?;
    // The first line is the head of the function, so it is not counted.
    // Harmless: an error without a position is shown without one.
    Some((line.parse::<usize>().ok()?.saturating_sub(1).max(1), column.parse().ok()?))
}

/// Returns the position of a line and a column. A position after the end of the text becomes its end.
fn position(text: &str, line: usize, column: usize) -> TextPosition {
    // Harmless: this counts the lines before the position.
    let before: usize = text.split_inclusive('\n').take(line - 1).map(str::len).sum();
    let own = text.get(before..).unwrap_or_default();
    let within = own.char_indices().nth(column.saturating_sub(1)).map_or(own.len(), |(at, _)| at);
    TextPosition::of(text, before + within)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, message: &str) -> Result<String, String> {
        check(text).map_err(|error| error.to_string())?;
        let input = format!("{{\"message\":{message},\"values\":{{\"rate\":\"1.5\"}}}}");
        let text = text.to_owned();
        let ran = on_stack(STACK_BYTES, move || {
            let program = JavaScriptProgram::new(&text)?;
            Ok(program.run(input.as_bytes()))
        });
        let made = ran.unwrap().unwrap()?;
        Ok(String::from_utf8(made.unwrap()).unwrap())
    }

    #[test]
    fn a_message_becomes_what_the_program_returns() {
        for (text, message, value) in [
            ("return message;", r#"{"a":1}"#, r#"{"a":1}"#),
            ("return message.a.map(x => x * 2)", r#"{"a":[1,2]}"#, "[2,4]"),
            ("return { total: message.price * values.rate }", r#"{"price":2}"#, r#"{"total":3}"#),
            ("x = 5; return x + 1 // sloppy, with a comment", "null", "6"),
            (
                "var a = [];\nfor (var k in message) a.push(k);\nreturn a;",
                r#"{"b":1,"a":2}"#,
                r#"["b","a"]"#,
            ),
            ("return message.toUpperCase()", r#""<a>x</a>""#, r#""<A>X</A>""#),
            ("return null", "1", "null"),
            ("return new Date(0)", "1", r#""1970-01-01T00:00:00.000Z""#),
            ("return /^a+$/.test(message)", r#""aa""#, "true"),
            (
                "return [typeof std, typeof os, typeof require, typeof fetch, typeof setTimeout].join()",
                "1",
                r#""undefined,undefined,undefined,undefined,undefined""#,
            ),
            ("JSON.stringify = () => 'x'; return 1", "1", "1"),
        ] {
            assert_eq!(run(text, message).as_deref(), Ok(value), "{text}");
        }
    }

    #[test]
    fn a_program_that_fails_says_why_and_where() {
        for (text, what) in [
            ("\nreturn message.a.b", "cannot read property 'b' of undefined, in line 2"),
            ("throw new Error('no\\nstock')", "no stock, in line 1"),
            ("throw 'text'", "text"),
            ("throw 5", "neither an error nor a text"),
            ("message.a = 1", "returns no value"),
            ("return () => 1", "not JSON"),
            ("return (async () => 1)()", "promise"),
            ("return 10n", "BigInt"),
            ("let o = {}; o.o = o; return o", "circular"),
            ("function f() { return f() + 1 } return f()", "stack"),
            ("let a = []; while (true) a.push('x'.repeat(1e6) + a.length)", "memory"),
        ] {
            let error = run(text, "{}").unwrap_err();
            assert!(error.contains(what), "{text}: {error}");
        }
    }

    #[test]
    fn messages_leave_nothing_behind() {
        let program = JavaScriptProgram::new(
            "if (typeof seen !== 'undefined') return 'kept'; seen = 1; Object.prototype.a = 1; return 'new'",
        );
        let program = program.unwrap();
        for _ in 0..3 {
            let made = program.run(br#"{"message":1,"values":{}}"#).unwrap().unwrap();
            assert_eq!(made, b"\"new\"");
        }
    }

    #[test]
    fn a_malformed_program_says_where_and_is_not_run() {
        for (text, place) in [
            ("return 1 +", "line 1, column "),
            ("let a = 1;\nlet a = 2", "line 2, column "),
            ("with (message) { return a }", "line 1, column 1: "),
            ("}); throw 1; (function(){", "line 1, column 2: "),
            ("return 'a", "line 1, column "),
            ("import 'fs'", "line 1, column "),
        ] {
            let malformed = check(text).unwrap_err().to_string();
            assert!(malformed.starts_with(place), "{text}: {malformed}");
        }
        for piece in ["(", "[", "!", "a=", "-", "{", "`${"] {
            assert!(check(&piece.repeat(60_000 / piece.len())).is_err(), "{piece}");
        }
    }
}
