//! Programs in jq and JavaScript that transform JSON messages, with limits on time, memory and stack for each message.
//!
//! The jq interpreter (`jaq`) cannot be interrupted, and the JavaScript interpreter (QuickJS, through `rquickjs`) is written in C. Both
//! therefore run in separate processes, which execute this same program: one that takes too long is killed, and one that runs out of memory
//! or stack ends alone. An [`engine::Engine`] is such a process, [`Program`] keeps a few of them for one program text, and [`serve`] is
//! their main function. They do not get the environment of their parent, `/` is their working directory, and apart from `/dev/null` their
//! only open file is a socket to their parent.
//!
//! Owns all limits except times. The caller decides how long a run may take, and stops waiting by dropping the future of [`Program::run`].

#![forbid(unsafe_code)]

mod engine;
mod interpreter;
mod javascript;
mod jq;
mod outcome;
mod program;
mod stack;

pub use engine::{ARGUMENT, serve};
pub use interpreter::Language;
pub use outcome::ProgramError;
pub use program::{Program, ProgramFailure};

/// Maximum size of a program's text.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Maximum memory of one engine, in addition to its stack.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Stack size of one engine. Each recursive call takes some hundred bytes.
const STACK_BYTES: usize = 32 << 20;

/// Stack for checking a text in this process. The parser recurses for nearly each byte of a text like `----`, with up to 8 KiB per call.
/// Only the used part takes memory; the rest is address space.
const CHECK_STACK_BYTES: usize = TEXT_BYTES_MAX * (16 << 10);

/// Maximum size of a message and of a result.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
