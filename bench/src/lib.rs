//! Load tests of the gateway and of other gateways for comparison: the program `tidegate-bench`.
//!
//! Owns the load tests of the reference documents, and those that show what a request costs: [`scenarios`], their [`run`], the
//! [`generator`] that sends them, the [`folder`] of results and its [`report`]. Child processes are in [`process`], the other gateways in
//! [`peers`], and [`slope`] judges the endurance run. It is never on the path of a real request. The servers behind the gateways are in
//! `backends`, except for the backend of calls over HTTP/2, which is [`call_backend`].

pub mod call_backend;
pub mod folder;
pub mod generator;
pub mod growth;
pub mod load_file;
pub mod peers;
pub mod process;
pub mod progress;
mod ready;
pub mod report;
pub mod run;
pub mod scenarios;
pub mod slope;
