//! XSLT 2.0 and 3.0: Saxon-HE on a JVM inside this process, started when a stylesheet first needs it.
//!
//! Owns the JVM: finding it, its resource limits, its threads, and their queue. It never parses a message (the caller has done that, see
//! [`Feed`]), never reads a file for a stylesheet, and knows nothing of gateways. A message enters through [`Stylesheet::transform`], which
//! runs short ones at once and otherwise waits without blocking its thread. It leaves as bytes or a [`RunError`].
//!
//! There is one JVM for the life of the process, because Java can be started only once. The Java side is in `java/` and is compiled by
//! `scripts/saxon.sh`. The program needs it neither to build nor to run without such stylesheets.

mod engine;
mod engine_thread;
mod feed;
mod find;
mod lock;
mod on_worker;
mod pool;
mod transformation;
mod trust;
mod vm;

pub use engine::{Complaint, Engine, EngineSettings, Stylesheet, Unavailable};
pub use feed::{Feed, Name, TextRange};
pub use pool::EngineStats;
pub use transformation::{Message, RunError};
