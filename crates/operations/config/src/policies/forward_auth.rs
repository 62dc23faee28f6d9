//! `forward_auth`: asks a service of the operator whether a request may pass.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::sections::UpstreamTls;
use crate::values::{OneOrMore, Size, Spanned, Timeout, WebUrl};

keys! {
    /// Asks a service of yours whether a request may pass, as `forwardAuth` of Traefik, `auth_request` of nginx and `forward_auth`
    /// of Caddy do. The service gets a GET with the headers of the request and no body. If its status is 2xx, the request
    /// continues; any other reply goes to the client as it is.
    pub struct ForwardAuth {
        /// The URL of the service, such as `http://auth:9000/verify`.
        url: Option<Spanned<WebUrl>>,
        /// One of the `upstreams` as the service, which allows replicas, health checks and its TLS settings.
        upstream: Option<Spanned<String>>,
        /// The path to request from the `upstream`. With `url`, it is part of the URL.
        path: Option<Spanned<String>>,
        /// The headers that are sent to the service, and those that it may set.
        headers: ForwardAuthHeaders,
        /// How long the whole call may take.
        // Each request of a client waits for it.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// What happens to a request if the service cannot be reached, takes too long, or its reply cannot be used: `refuse` is 503,
        /// `pass` lets it continue without the headers of `take`.
        // Otherwise, an outage of the service would disable the check.
        on_failure: OnAuthFailure = OnAuthFailure::Refuse,
        /// How to verify an `https` service, and the certificate to present to it; only with `url`.
        tls: Option<Spanned<UpstreamTls>>,
        /// The largest reply of the service that is passed to the client. A larger one is a failure.
        // A sign-in page is far smaller.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}

keys! {
    /// The headers that are sent to the service, and those taken from its reply.
    pub struct ForwardAuthHeaders {
        /// The request headers that are sent to the service; all if absent. It always gets `X-Forwarded-Method`, `-Proto`, `-Host`, `-Uri`
        /// and `-For`.
        send: Option<OneOrMore<Spanned<String>>>,
        /// The headers of a 2xx reply that are copied to the request. Those that the client sent under these names are removed.
        take: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
    }
}

words! {
    /// What happens to a request that the service has not decided about.
    pub enum OnAuthFailure {
        /// 503.
        Refuse = "refuse",
        /// It continues.
        Pass = "pass",
    }
}
