//! gRPC: faults as statuses, deadlines, gRPC-Web, and peers that people use.

mod faults;
mod peers;
mod web;
