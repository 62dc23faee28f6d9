//! Programs in jq and JavaScript over messages of JSON, each message within bounds of time, memory and stack.
//!
//! The interpreter of jq (`jaq`) cannot be interrupted, and that of JavaScript (QuickJS, by `rquickjs`) is written in C. So they run in
//! processes of their own, which are this program once more: one that takes too long is killed, and one that runs out of memory or stack
//! ends alone. An [`engine::Engine`] is such a process, [`Program`]
//! keeps a few of them for one program text, and [`serve`] is what they run. They have an empty environment, `/` as their folder,
//! and a socket to their parent as the only file.
//!
//! Owns the limits but the times: how long a run may take, and how long the caller waits, who drops the future of [`Program::run`].

#![forbid(unsafe_code)]

mod engine;
mod interpreter;
mod javascript;
mod jq;
mod program;

pub use engine::{ARGUMENT, serve};
pub use interpreter::{Language, ProgramError};
pub use program::{Program, ProgramFailure};

/// Bytes of a program's text.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Bytes of memory of one engine beside its stack.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// Bytes of stack of one engine. A function that calls itself takes some hundred bytes each time.
const STACK_BYTES: usize = 32 << 20;

/// Bytes of address space for the stack on which a text is checked, in this process: its parser calls itself for nearly each byte
/// of a text like `----`, with up to 8 KiB a call. Only what is used is memory.
const CHECK_STACK_BYTES: usize = TEXT_BYTES_MAX * (16 << 10);

/// Bytes of a message, and of a result.
const MESSAGE_BYTES_MAX: usize = 64 << 20;
