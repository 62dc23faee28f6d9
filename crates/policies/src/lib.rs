//! The policies, one file each. A policy knows the contract in `policy` and nothing of the others, of upstreams or of
//! the pipeline that runs it.
#![forbid(unsafe_code)]

pub mod headers;
