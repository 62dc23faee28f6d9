//! `openapi`: validates requests and replies against an OpenAPI document.

use crate::decode::keys;
use crate::values::{FilePath, Size, Spanned};

keys! {
    /// Refuses requests and replies that an OpenAPI document does not allow: 400 for a request, 415 for its content type, 405 for its
    /// method, 404 for its path, 502 for a reply.
    pub struct OpenApi {
        /// The document: OpenAPI 3.0 or 3.1, or Swagger 2, as YAML or JSON. References to files beside it are followed.
        document: Spanned<FilePath>,
        /// Whether requests are validated.
        request: bool = true,
        /// Whether replies are validated.
        // It buffers every reply, so it is for tests and for untrusted upstreams.
        response: bool = false,
        /// Whether paths and methods that are not in the document are refused. `OPTIONS` is then answered by the gateway.
        paths: bool = true,
        /// Whether errors are reported to the client with their places, instead of only a general error.
        verbose: bool = false,
        /// The prefix of the document's paths. If absent, they are matched without a prefix.
        base_path: Option<Spanned<String>>,
        /// The only path of the document that this route serves, written as in the document; all paths if absent.
        path: Option<Spanned<String>>,
        /// The largest body that is read; 413 above for a request, 502 for a reply.
        // A body is held in memory twice, as bytes and as a tree.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}
