//! `interceptor`: calls a service of the operator that reads and changes requests and replies, by the interceptor contract of Choreo
//! Connect.

use std::time::Duration;

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::sections::UpstreamTls;
use crate::values::{Map, Size, Spanned, TargetUrl, Timeout};

keys! {
    /// Calls a service of yours that may change the request, the reply, or both.
    pub struct Interceptor {
        /// The call before the upstream gets the request: `POST /api/v1/handle-request`.
        request: Option<Spanned<Interception>>,
        /// The call before the client gets the reply: `POST /api/v1/handle-response`.
        response: Option<Spanned<Interception>>,
        /// The endpoints that `dynamicEndpoint` may name. If absent, the names of the `upstreams`.
        endpoints: Map<Endpoint> = Map::default(),
        /// Whether `authenticationContext` contains the client's token even if `jwt` does not forward it to the upstream. With `errors:
        /// wso2` or `wso2_apim`, it always does.
        // A service that does not need the token could only leak it.
        token: bool = false,
        /// The facts about the API in `invocationContext`. Absent keys are taken from the route.
        api: InvokedApi,
    }
}

keys! {
    /// One side's service.
    pub struct Interception {
        /// The URL of the service, such as `https://interceptor:8081`. A path after the port is ignored.
        url: Option<Spanned<ServiceUrl>>,
        /// One of the `upstreams` as the service, which allows replicas, health checks and its TLS settings.
        upstream: Option<Spanned<String>>,
        /// The parts that are sent to the service: `request_headers`, `request_body`, `request_trailers`, `response_headers`,
        /// `response_body`, `response_trailers`, `invocation_context`.
        includes: Vec<Spanned<Include>> = Vec::new(),
        /// How long the whole call may take; 500 after.
        // The default of Choreo Connect.
        timeout: Timeout = Timeout(Duration::from_secs(20)),
        /// How long connecting may take, TLS included; only with `url`.
        // As for upstreams: a reachable service answers in milliseconds.
        connect_timeout: Timeout = Timeout(Duration::from_secs(1)),
        /// How to verify an `https` service, and the certificate to present to it; only with `url`.
        tls: Option<Spanned<UpstreamTls>>,
        /// The largest body that is sent to the service or taken from it; 413 above for a request, 502 for a reply.
        // The whole body is held in memory, and written once more in base64.
        body_bytes_max: Size = Size(1024 * 1024),
    }
}

keys! {
    /// A destination that `dynamicEndpoint` may select.
    pub struct Endpoint {
        /// One of the `upstreams`.
        upstream: Spanned<String>,
        /// The base path of its resources.
        base_path: String = String::new(),
    }
}

keys! {
    /// The facts about the API that are sent to the service.
    pub struct InvokedApi {
        /// The API's name; the route's if absent.
        name: Option<String>,
        /// The API's version.
        version: String = String::new(),
        /// The API's host; the one that the client requested if absent.
        vhost: Option<String>,
        /// The path in front of the API's resources; it is not sent to endpoints.
        base_path: String = String::new(),
        /// The path of the resource with its parameters; the route's if absent.
        path_template: Option<String>,
        /// The methods of the resource; the route's if absent.
        methods: Vec<String> = Vec::new(),
        /// The upstream for production; the route's if absent.
        production: Option<String>,
        /// The upstream for sandboxes.
        sandbox: String = String::new(),
    }
}

words! {
    /// A part of an exchange that is sent to an interceptor.
    pub enum Include {
        /// The request's header lines.
        RequestHeaders = "request_headers",
        /// The request's body.
        RequestBody = "request_body",
        /// The request's trailers.
        RequestTrailers = "request_trailers",
        /// The reply's header lines.
        ResponseHeaders = "response_headers",
        /// The reply's body.
        ResponseBody = "response_body",
        /// The reply's trailers.
        ResponseTrailers = "response_trailers",
        /// The API and the resource, the client identity, and how the client authenticated.
        InvocationContext = "invocation_context",
    }
}

/// The address of an interceptor. A path is dropped, since the contract defines it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ServiceUrl(pub TargetUrl);

impl Decode for ServiceUrl {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `http://HOST:PORT` or `https://HOST:PORT`";
        decoder.parse(node, "an interceptor's URL", help, |text| {
            let authority = text.find("://").map_or(0, |at| at + 3);
            let (scheme, rest) = text.split_at(authority);
            let authority = rest.split('/').next().unwrap_or_default();
            TargetUrl::parse(&format!("{scheme}{authority}")).map(Self)
        })
    }

    fn encode(&self) -> Json {
        self.0.encode()
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        String::schema(schema)
    }
}
