//! Message flows: a list of steps between a client and services, as the destination of a route.
//!
//! Owns the effect of steps on a message, the message itself, and the faults of steps. Flows arrive compiled: texts have become
//! expressions, names have become numbers, and upstreams are handles that send requests. A request enters through [`FlowEnd`], an
//! [`Answerer`](policy::Answerer), and leaves as a reply. A message is bytes until a step looks inside; bytes that several steps read are
//! parsed once.
//!
//! ```text
//! FlowEnd::answer -> Block::run -> run_steps -> Action::run of steps::{call, payload, gather, ...}
//!                        │ fault -> catch
//! ```
#![forbid(unsafe_code)]

mod block;
mod content;
mod edit;
mod element_names;
mod end;
mod error_parts;
mod evaluate;
mod hold;
mod infoset;
mod json_xml;
mod levels;
mod message;
mod names;
mod noted_replies;
mod open_transaction;
mod recording;
mod run_steps;
mod sender;
mod soap;
mod spans;
mod state;
mod step;
mod steps;
mod timeout;
mod trace;
mod values;
mod view;

pub use end::{Flow, FlowEnd};
pub use mediation::soap::Version as SoapVersion;
pub use tracing::Level;

pub use block::Block;
pub use levels::{ActionNeeds, Levels};
pub use names::{FlowNames, NameTable, Slots, Variables};
pub use state::{Run, State};
pub use step::{Action, Shape, Step, StepRun, Steps, StepsEnd};
pub use steps::*;
