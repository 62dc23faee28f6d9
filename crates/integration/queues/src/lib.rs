//! Queues: messages that one flow stores and another processes later, with as many attempts as necessary.
//!
//! Owns the format of stored messages, the order of processing, retries, and dead messages. It does not know what a flow does: the flow of
//! a queue is an [`Answerer`](policy::Answerer). A message enters through [`Entrance::put`], called by the step `store` of a flow, which
//! continues once the message is durable. It leaves when its flow has succeeded. One worker of the process processes a queue.
#![forbid(unsafe_code)]

mod admin;
mod dead;
mod entrance;
mod outcomes;
mod process;
mod queue;
mod run;
mod runs;
mod stored;
mod views;

pub use admin::ActionError;
pub use delivery::Retries;
pub use entrance::Entrance;
pub use queue::{DeadBounds, Exhausted, Order, Queue, QueueSettings};

#[cfg(test)]
mod tests;
