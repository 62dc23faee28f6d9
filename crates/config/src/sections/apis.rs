//! `apis.NAME`: routes made from an OpenAPI document.

use crate::decode::keys;
use crate::policies::Policy;
use crate::sections::Errors;
use crate::values::{FilePath, OneOrMore, Size, Spanned};

keys! {
    /// An API made from a document: a route for each operation, an upstream for each endpoint.
    pub struct Api {
        /// The document: OpenAPI 3.0 or 3.1, or Swagger 2, as YAML or JSON.
        openapi: Spanned<FilePath>,
        /// What stands in front of the document's paths, and is cut before the upstream sees the path; the document's
        /// `x-wso2-basePath` if absent, else nothing.
        base_path: Option<Spanned<String>>,
        /// One of the `upstreams`; the document's endpoints or `servers` if absent.
        upstream: Option<Spanned<String>>,
        /// The hosts it is reached by; any if absent.
        host: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// What is held to the document.
        validate: Validate,
        /// How errors are written to the client: `problem` (RFC 9457) or `wso2` (the bodies and codes of Choreo Connect).
        errors: Errors = Errors::Problem,
        /// Whether the policies of `defaults` stand above these.
        defaults: bool = true,
        /// Policies of every operation, beside those the document asks for.
        policies: Vec<Spanned<Policy>> = Vec::new(),
    }
}

keys! {
    /// What is held to an API's document.
    pub struct Validate {
        /// Requests: 400 for one that breaks it.
        // Paths and methods are the document's all the same.
        request: bool = false,
        /// Replies: 502 for one that breaks it.
        response: bool = false,
        /// Whether the client is told what is wrong and where.
        verbose: bool = false,
        /// The largest body that is read.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}
