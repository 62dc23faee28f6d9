//! `apis.NAME`: routes generated from an OpenAPI document.

use crate::decode::{keys, words};
use crate::policies::Policy;
use crate::sections::Errors;
use crate::values::{FilePath, OneOrMore, Size, Spanned};

keys! {
    /// An API generated from a document: a route for each operation, and an upstream for each endpoint.
    pub struct Api {
        /// The document: OpenAPI 3.0 or 3.1, or Swagger 2, as YAML or JSON.
        openapi: Spanned<FilePath>,
        /// The prefix of the document's paths, which is removed before the request is sent to the upstream. If absent, the document's
        /// `x-wso2-basePath`, or else none.
        base_path: Option<Spanned<String>>,
        /// One of the `upstreams`; the document's endpoints or `servers` if absent.
        upstream: Option<Spanned<String>>,
        /// The hosts that serve the API; any if absent.
        host: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// The listeners that serve the API, a name or a list; any if absent.
        listener: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// What is validated against the document.
        validate: Validate,
        /// Whether a client needs a subscription: `required` refuses others, `optional` enforces the plans of subscriptions and accepts
        /// others. If absent, no subscription is needed.
        subscription: Option<Spanned<ApiSubscription>>,
        /// The plans that subscriptions may have, such as `[Gold, Silver]`; any if absent.
        plans: Vec<Spanned<String>> = Vec::new(),
        /// How errors are written to the client: `problem` (RFC 9457), `wso2` (the bodies and codes of Choreo Connect), `wso2_apim` (those
        /// of WSO2's API Manager) or `kong` (the faults of its SOAP/XML plugins).
        errors: Errors = Errors::Problem,
        /// Whether the policies of `defaults` run above these.
        defaults: bool = true,
        /// Policies of every operation, in addition to those of the document.
        policies: Vec<Spanned<Policy>> = Vec::new(),
    }
}

keys! {
    /// What is validated against an API's document.
    pub struct Validate {
        /// Whether requests are validated; 400 for an invalid one.
        // Only paths and methods of the document are accepted in any case.
        request: bool = false,
        /// Whether replies are validated; 502 for an invalid one.
        response: bool = false,
        /// Whether errors are reported to the client with their places.
        verbose: bool = false,
        /// The largest body that is read.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}

words! {
    /// Whether a client needs a subscription to an API.
    pub enum ApiSubscription {
        /// Requests without one are refused.
        Required = "required",
        /// Requests without one pass.
        Optional = "optional",
    }
}
