//! Hubs: topics with publishers, subscribers by WebSub and readers, as the destination of a route.
//!
//! Owns the protocol of publishers, subscribers and readers, the format of events in the log, the positions of readers, and the
//! deliveries to callbacks. Events are in a [`store::Store`], which decides when they are durable. A request enters by [`HubEnd`], an
//! [`Answerer`](policy::Answerer), and leaves as a reply, which for a reader may be an endless stream. Deliveries live on the
//! workers: a hub is a [`Resident`](policy::Resident).
//!
//! ```text
//! HubEnd::answer -> Hub::publish -> log ── wakes ──> Feed, one for each topic and worker
//!                -> Reader, over the feed and the log -> long poll, EventStream, EventSocket
//!                -> Hub::serve_subscriber -> table, and an update to the worker
//! Hub::live -> Deliveries: Ownership, Agenda -> Member by Member -> jobs, in Sending -> Callbacks
//!                   ▲                                                      │ outcomes
//!                   └───────────── write_batch -> positions  ◄─────────────┘
//! ```
#![forbid(unsafe_code)]

mod admin;
mod agenda;
mod callback;
mod callbacks;
mod compact;
mod dead;
mod deliver;
mod delivery_job;
mod end;
mod event;
mod failures;
mod feed;
mod hub;
mod hub_state;
mod intent_job;
mod jobs;
mod lease_clock;
mod link_header;
mod member;
mod members;
mod outcomes;
mod own_url;
mod ownership;
mod partitions;
mod places;
mod positions;
mod reader;
mod remote_updates;
mod representation;
mod send;
mod sending;
mod settings;
mod signature;
mod socket;
mod starting;
mod stream;
mod subscribe;
mod subscribing;
mod subscription;
mod usage;
mod write_batch;

pub use admin::{ActionError, Page};
pub use delivery::Retries;
pub use end::HubEnd;
pub use event::{parts as event_of, record as record_of, rfc3339};
pub use hub::{Hub, Parts};
pub use hub_state::HubState;
pub use representation::Representation;
pub use settings::{
    Delivery, HubSettings, LimitedBy, Limits, Retention, Tier, TopicScopes, Window,
};
pub use signature::{Algorithm, SigningKey};
pub use upstream::AddressRule;

#[cfg(test)]
mod tests;
