//! `grpc_web`: translates calls of browsers to gRPC services.

use crate::decode::keys;

keys! {
    /// Translates gRPC-Web calls of browsers to gRPC, and the replies back. Other requests pass unchanged.
    pub struct GrpcWeb {}
}
