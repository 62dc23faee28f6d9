//! Measurements of the gateway and of what it is compared with.
//!
//! Owns load tests as values ([`scenario`]), which the feature `load` runs, with their measurements ([`results`]) and tables. The
//! comparison with other gateways is the binary `bench-peers`, that of live streams `bench-streams`, the memory of silent
//! connections `bench-memory`; what they start is a [`process`], and the gateways that both compare are in [`peers`].
//! What a hub costs is `bench-hub`. It is never on the path of a real request. What answers behind the gateways is in `backends`.

pub mod folder;
pub mod generator;
#[cfg(feature = "load")]
pub mod load;
pub mod peers;
pub mod process;
pub mod progress;
pub mod report;
pub mod results;
pub mod run;
pub mod samples;
pub mod scenario;
pub mod scenarios;
pub mod slope;
mod soap;
pub mod table;
