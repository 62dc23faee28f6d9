//! Measurements of the gateway and of what it is compared with.
//!
//! Owns the load tests of the reference documents, which are the program `tidegate-bench`: [`scenarios`], their [`run`], the
//! [`generator`] that sends them, the [`folder`] of results and its [`report`]. The comparison by requests is the binary `bench-peers`,
//! that of live streams `bench-streams`, the memory of silent connections `bench-memory`, and what a hub costs `bench-hub`; what they
//! start is a [`process`]. The gateways that are compared are in [`peers`]. It is never on the path of a real request. What answers
//! behind the gateways is in `backends`.

pub mod folder;
pub mod generator;
pub mod peers;
pub mod process;
pub mod progress;
pub mod report;
pub mod run;
pub mod scenarios;
pub mod slope;
