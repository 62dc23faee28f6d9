//! `grpc_json`: presents a gRPC service as a JSON API.

use crate::decode::{keys, words};
use crate::values::{FilePath, Size, Spanned};

keys! {
    /// Turns a gRPC service into a JSON API, by its descriptors and their `google.api.http` rules. A method without a rule is at
    /// `POST /package.Service/Method`. Calls of gRPC pass unchanged.
    pub struct GrpcJson {
        /// The descriptors, as `protoc --include_imports --descriptor_set_out=FILE` writes them.
        descriptors: Spanned<FilePath>,
        /// The services that are offered, with their packages; all of the descriptors if absent.
        services: Vec<Spanned<String>> = Vec::new(),
        /// A path in front of those of the rules; none if absent.
        prefix: Option<Spanned<String>>,
        /// How the messages of a method that streams are written.
        // As Envoy does; a client of the whole array needs no other parser.
        stream: GrpcStream = GrpcStream::Array,
        /// The names of fields in replies: as JSON has them, such as `orderId`, or as the definition. Requests may use both.
        field_names: FieldNames = FieldNames::Json,
        /// Whether replies have fields with their default values, if these cannot be told from absent ones.
        defaults: bool = false,
        /// Query parameters that set no field of the message. Others that do not are refused.
        ignore_query: Vec<Spanned<String>> = Vec::new(),
        /// The largest body of a request or a reply, and the largest message of a stream; 413 above for a request, 502 for a reply.
        // The largest message that most gRPC servers and clients accept by default.
        body_bytes_max: Size = Size(4 * 1024 * 1024),
    }
}

words! {
    /// The form of a stream of messages.
    pub enum GrpcStream {
        /// The items of one JSON array.
        Array = "array",
        /// A line of JSON each (`application/x-ndjson`).
        Ndjson = "ndjson",
        /// An event each (`text/event-stream`).
        Events = "events",
    }
}

words! {
    /// The names of fields in JSON.
    pub enum FieldNames {
        /// In lower camel case, or as `json_name` says.
        Json = "json",
        /// As in the definition.
        Proto = "proto",
    }
}
