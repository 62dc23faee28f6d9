//! The project's own tasks: `cargo xtask TASK`.
//!
//! Owns the tasks that a developer runs besides `cargo build` and `cargo test`. They are not part of the gateway. It prints to
//! standard output, and progress to standard error if that is a terminal.

#![forbid(unsafe_code)]
// A command line program prints its results.
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod conformance;
mod differential;
mod extensions;
mod tidy;

use std::process::ExitCode;

const HELP: &str = "\
The project's tasks.

usage: cargo xtask TASK [ARGUMENTS]

tasks:
  conformance SUITE PACK   run a pack of third-party tests; `cargo xtask conformance --help`
  differential             compare the XML engine with others, on random documents; see `make differential`
  extensions               add a policy, a step and a metric from templates, count the files and compile
  tidy                     check the rules of ARCHITECTURE.md and STYLE.md that a program can check
";

/// The reason why a task could not do its work. Finding violations is not such a reason.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The command line is invalid: exit code 2.
    Usage(String),
    /// Something failed that should work: exit code 1.
    Broken(String),
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["conformance", rest @ ..] => conformance::run(rest),
        ["differential", rest @ ..] => differential::run(rest),
        ["extensions", rest @ ..] => extensions::run(rest),
        ["tidy", rest @ ..] => tidy::run(rest),
        ["--help" | "-h" | "help"] => {
            print!("{HELP}");
            Ok(true)
        }
        [] => Err(Failure::Usage(HELP.to_owned())),
        [other, ..] => Err(Failure::Usage(format!("no task `{other}`\n\n{HELP}"))),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(Failure::Broken(text)) => {
            eprintln!("error: {text}");
            ExitCode::from(1)
        }
        Err(Failure::Usage(text)) => {
            eprintln!("{text}");
            ExitCode::from(2)
        }
    }
}
