//! XSLT 2.0 and 3.0: Saxon-HE on a Java machine inside this process, started when a stylesheet first needs it.
//!
//! Owns the machine: where it is found, what it may cost, its threads, and the queue before them. It never parses a message
//! (that was done before, see [`Feed`]), never reads a file for a stylesheet, and knows nothing of gateways. A message
//! enters in [`Stylesheet::transform`], which runs what is known to be short and else waits without holding its thread, and
//! leaves as bytes or a [`Failed`].
//!
//! There is one machine for the life of the process, since Java can be started only once. Its half of the work is in
//! `java/`, compiled by `scripts/saxon.sh`; the binary needs none of it to build, nor to run without such stylesheets.

mod engine;
mod feed;
mod find;
mod on_worker;
mod pool;
mod seat;
mod trust;
mod vm;

pub use engine::{Complaint, Engine, Settings, Stylesheet, Unavailable};
pub use feed::{Feed, Name, Place};
pub use pool::{Failed, Message, Reading};
