//! Sockets, TLS, HTTP/1 and HTTP/2: converts bytes to requests, and replies to bytes.
//!
//! Owns the workers (one per core, each with its own runtime and listening sockets), connections with their limits and deadlines, and the
//! switch from one plan to the next. It does not use policies. Of a route it uses only the lifetime of streams: a request goes to
//! `pipeline::serve` and returns as a reply.
#![forbid(unsafe_code)]

mod accept;
mod calls;
mod client;
mod clients;
mod connection;
mod connections;
mod date;
mod descriptors;
mod events;
mod exchange_pool;
mod frames;
mod gateway;
mod h1;
mod h2;
pub mod handover;
mod head;
mod lingering_close;
mod pace;
mod proxy_protocol;
mod relay;
mod reply;
mod residents;
mod schedules;
mod sockets;
mod stream_lifetime;
mod stream_reply;
mod task_pool;
mod tunnel;
mod tunnel_parts;
mod unbound;
mod worker;
mod worker_state;
mod write_progress;

pub use descriptors::set_descriptors;
pub use gateway::{Gateway, Upkeep};
pub use sockets::not_bound;
pub use unbound::UnboundListener;
#[cfg(feature = "fake")]
pub use unbound::proxy_header;
