//! Load tests of the gateway and of what it is compared with: the program `tidegate-bench`.
//!
//! Owns the load tests of the reference documents, and those that show what a request costs: [`scenarios`], their [`run`], the
//! [`generator`] that sends them, the [`folder`] of results and its [`report`]. What it starts is a [`process`]; the gateways that are
//! compared are in [`peers`], and the endurance run is judged by its [`slope`]. It is never on the path of a real request. What answers
//! behind the gateways is in `backends`, except for the backend of calls over HTTP/2, which is [`call_backend`].

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
