//! gRPC: faults as statuses, deadlines, gRPC-Web, JSON for services, and peers that people use.

mod faults;
mod json;
mod peers;
pub(crate) mod shop;
mod web;
