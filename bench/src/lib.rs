//! The tools beside the gateway for demonstrations, tests and measurements.
//!
//! Owns the demo backends ([`backend`]), the minting of test tokens ([`token`]) and load tests as values ([`scenario`]), which
//! the feature `load` runs, with their measurements ([`results`]) and tables. The comparison with other gateways is the binary
//! `bench-peers`, that of live streams `bench-streams`, the memory of silent connections `bench-memory`; what they start is a [`process`], and the gateways that both compare are in
//! [`peers`].
//! What a hub costs is `bench-hub`. It is never on the path of a real request, so nothing here is tuned except
//! [`backend::fast_echo`], which must be cheaper than any gateway measured in front of it.

pub mod backend;
pub mod generator;
#[cfg(feature = "load")]
pub mod load;
pub mod peers;
pub mod process;
pub mod report;
pub mod results;
pub mod samples;
pub mod scenario;
mod soap;
pub mod table;
pub mod token;
