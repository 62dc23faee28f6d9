//! What hubs and queues share: the mechanisms of delivering each record of a log at least once.
//!
//! Owns the position of a worker in a log with the records that have not ended ([`Cursor`]), the pauses between attempts ([`Retries`]), the
//! reading of tables of dead records ([`rows`]), the switch by which operators pause deliveries ([`Switch`]), and the handover between
//! the residents of two plans ([`handover`]). It never decides what a delivery is, and never knows topics, subscriptions or flows.
//! A resident of `hub` or `queues` calls these functions, and control returns to it.
//!
//! Some parts of hubs and queues look alike but differ, so they are not shared:
//! - The rows of positions. A queue writes one row with each outcome. A hub writes one row for many subscriptions, in batches.
//! - The rows of dead records and their failures. After each failed attempt, a queue stores the first and the most recent failures. A hub
//!   keeps the most recent ones in memory only, because a write for each failed attempt would cost more than the attempt.
//! - Putting a dead record back. A queue appends the message again, so a mark in the row has to keep a second request from doing the same.
//!   A hub makes one conditional change, which the store accepts from only one of two requests.
//! - The limits on dead records: a queue's are configured by number, size and age, and a hub's is a fixed number.
//! - The adoption of the node's lease. A queue is one partition and waits for it. A hub has subscriptions in all partitions.
#![forbid(unsafe_code)]

mod cursor;
pub mod handover;
mod retries;
pub mod rows;
mod switch;

pub use cursor::{Cursor, OpenRecord};
pub use retries::Retries;
pub use switch::Switch;
