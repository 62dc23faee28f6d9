//! `openapi`: holds requests and replies to what an OpenAPI document says.

use crate::decode::keys;
use crate::values::{FilePath, Size, Spanned};

keys! {
    /// Refuses what an OpenAPI document does not allow: 400 for a request, 415 for its content type, 405 for its method,
    /// 404 for its path, 502 for a reply.
    pub struct OpenApi {
        /// The document: OpenAPI 3.0 or 3.1, or Swagger 2, as YAML or JSON. References to files beside it are followed.
        document: Spanned<FilePath>,
        /// Whether requests are validated.
        request: bool = true,
        /// Whether replies are validated.
        // It gathers every reply, so it is for tests and for upstreams one does not trust.
        response: bool = false,
        /// Whether paths and methods that the document does not have are refused. `OPTIONS` is then answered by the gateway.
        paths: bool = true,
        /// Whether the client is told what is wrong and where, instead of only that something is.
        verbose: bool = false,
        /// The prefix of the document's paths; without it they are matched as they stand.
        base_path: Option<Spanned<String>>,
        /// The only path of the document that this route serves, as the document writes it; all of them if absent.
        path: Option<Spanned<String>>,
        /// The largest body that is read; 413 above for a request, 502 for a reply.
        // A body is held in memory twice, as bytes and as a tree.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}
