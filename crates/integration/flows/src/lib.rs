//! Message flows: a list of steps between a client and services, as the destination of a route.
//!
//! Owns the effect of steps on a message, the message itself, and the faults of steps. Flows arrive compiled: texts have become
//! expressions, names have become numbers, and upstreams are handles that send requests. A request enters through [`FlowEnd`], an
//! [`Answerer`](policy::Answerer), and leaves as a reply. A message is bytes until a step looks inside; bytes that several steps read are
//! parsed once.
//!
//! ```text
//! FlowEnd::answer -> Block::run -> step::run -> Action::run of steps::{call, payload, gather, ...}
//!                        │ fault -> catch
//! ```
#![forbid(unsafe_code)]

mod block;
mod content;
mod edit;
mod end;
mod infoset;
mod levels;
mod message;
mod names;
mod soap;
mod spans;
mod state;
mod step;
mod steps;
mod trace;
mod values;

pub use end::{Flow, FlowEnd};
pub use mediation::soap::Version as SoapVersion;
pub use tracing::Level;

pub use block::Block;
pub use levels::{ActionNeeds, Levels};
pub use names::{FlowNames, NameTable, Slots, Variables};
pub use state::{Run, State};
pub use step::{Action, Shape, Step, StepRun, Steps, StepsEnd};
pub use steps::*;
