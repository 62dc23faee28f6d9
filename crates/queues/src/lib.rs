//! Queues: messages that flows leave behind, and that other flows process later, however often it takes.
//!
//! Owns the form of a stored message, the order in which messages are processed, their retries and what is dead. It never knows what a
//! flow does: a queue's is an [`Answerer`](policy::Answerer). A message enters by [`Entrance::put`], in the step `store` of a flow, which
//! goes on once it is durable; it leaves when its flow has ended well. The processing of a queue lives on one worker of the process.
#![forbid(unsafe_code)]

mod admin;
mod dead;
mod entrance;
mod look;
mod process;
mod queue;
mod stored;

pub use admin::ActionError;
pub use entrance::Entrance;
pub use hub::Retries;
pub use queue::{DeadBounds, Order, Queue, QueueSettings};

#[cfg(test)]
mod tests;
