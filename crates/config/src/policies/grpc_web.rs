//! `grpc_web`: calls of browsers to gRPC services.

use crate::decode::keys;

keys! {
    /// Translates calls of gRPC-Web, as browsers make them, to gRPC and their replies back. Other requests pass untouched.
    pub struct GrpcWeb {}
}
