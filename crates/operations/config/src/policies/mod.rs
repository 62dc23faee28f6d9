//! The kinds of policy, one file each. To add one, write its file and one line in the list below.

mod api_key;
mod authenticate;
mod authorize;
mod basic;
mod cache;
mod canary;
mod compress;
mod concurrency;
mod correlation;
mod cors;
mod for_clients;
mod forward_auth;
mod grpc_json;
mod grpc_web;
mod headers;
mod hmac;
mod interceptor;
mod ip_filter;
mod json_schema;
mod jwt;
mod key_type;
mod mock;
mod mutual_tls;
mod named_set;
mod openapi;
mod rate_limit;
mod redirect;
mod soap;
mod soap_rest;
mod sse;
mod subscription;
mod transform;
mod user_agent;
mod websocket;
mod ws_security;
mod xpath_route;
mod xslt;

use serde_json::{Value as Json, json};

pub use api_key::ApiKey;
pub use authenticate::{Authenticate, CredentialKind, WithoutCredential};
pub use authorize::{Authorize, GroupRules};
pub use basic::Basic;
pub use cache::{Cache, CacheControl, CacheCookies, CacheHeaders};
pub use canary::{Canary, Ramp};
pub use compress::{Compress, Encoding};
pub use concurrency::Concurrency;
pub use correlation::{Correlation, CorrelationGenerator};
pub use cors::{Cors, CorsPreflights, OriginMatch};
pub use for_clients::{ClientList, ForClients, InnerPolicy};
pub use forward_auth::{ForwardAuth, ForwardAuthHeaders, OnAuthFailure};
pub use grpc_json::{FieldNames, GrpcJson, GrpcStream};
pub use grpc_web::GrpcWeb;
pub use headers::{Headers, HeadersEdit};
pub use hmac::{Hmac, HmacAlgorithm};
pub use interceptor::{Endpoint, Include, Interception, Interceptor, InvokedApi, ServiceUrl};
pub use ip_filter::IpRules;
pub use json_schema::{JsonSchema, SchemaParameter, SchemaPlace};
pub use jwt::{BackendJwt, ClaimWanted, Jwks, Jwt, Scopes, Subscription};
pub use key_type::KeyType;
pub use mock::{Mock, MockChoice};
pub use mutual_tls::MutualTls;
pub use named_set::NamedSet;
pub use openapi::OpenApi;
pub use rate_limit::{
    CostRefusal, LimitAlgorithm, LimitBy, LimitHeaders, LimitStatus, LimitWindow, RateLimit,
    ReplyCost, Requests,
};
pub use redirect::Redirect;
pub use soap::{
    ActionCheck, BadDefinitions, DefinitionFetch, EmptyAction, Envelope, MessageSide, Soap,
    SoapAction, SoapVersion, UpstreamErrors,
};
pub use soap_rest::{FaultStatus, RestMethod, RestOperation, SoapRest};
pub use sse::{EventWindow, ShareBy, SlowClient, Sse, SseShare};
pub use subscription::SubscriptionCheck;
pub use transform::{JsonEdit, QueryEdit, RequestEdit, ResponseEdit, Transform};
pub use user_agent::UserAgent;
pub use websocket::{MessageWindow, OnLimit, TopicUse, WebSocket, WebSocketTopic};
pub use ws_security::{PasswordForm, TimestampCheck, WsSecurity};
pub use xpath_route::{XpathCase, XpathRoute};
pub use xslt::{Xslt, XsltEngine, XsltOutput};

use crate::decode::{Decode, Decoder, list};
use crate::node::{MapEntry, Node, Value};
use crate::report::did_you_mean;
use crate::schema::{SchemaBuilder, one_key_of};
use crate::sources::quote;

/// Generates the enum of all kinds, with parsing, writing and schema by name.
macro_rules! policies {
    ($( $(#[doc = $doc:literal])* $kind:ident = $name:literal, )*) => {
        /// One item of a route's `policies`: a map with one key, the policy's name.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a configuration has few policies, and keeps them in separate lists")]
        pub enum Policy {
            $( $(#[doc = $doc])* $kind($kind), )*
        }

        impl Policy {
            /// The names of all kinds in the configuration.
            pub const NAMES: &[&str] = &[$($name),*];

            /// Returns the name of the kind in the configuration.
            pub fn name(&self) -> &'static str {
                match self {
                    $( Self::$kind(_) => $name, )*
                }
            }

            fn decode_named(entry: &MapEntry, decoder: &mut Decoder<'_>) -> Option<Self> {
                match entry.key.as_str() {
                    $( $name => $kind::decode(&entry.node, decoder).map(Self::$kind), )*
                    _ => unknown(entry, decoder),
                }
            }

            fn encode_keys(&self) -> Json {
                match self {
                    $( Self::$kind(policy) => policy.encode(), )*
                }
            }

            fn schemas(schema: &mut SchemaBuilder) -> Vec<(&'static str, Json)> {
                vec![$( ($name, $kind::schema(schema)) ),*]
            }
        }
    };
}

policies! {
    /// Authenticates clients by a key.
    ApiKey = "api_key",
    /// Authenticates clients by one of several kinds of credential.
    Authenticate = "authenticate",
    /// Allows or refuses requests by a rule or the client's groups.
    Authorize = "authorize",
    /// Passes the client identity to the upstream in a signed token.
    BackendJwt = "backend_jwt",
    /// Authenticates clients by name and password.
    Basic = "basic",
    /// Authenticates clients by a signature made with a shared secret.
    Hmac = "hmac",
    /// Publishes the keys of `backend_jwt`.
    Jwks = "jwks",
    /// Authenticates clients by a signed token.
    Jwt = "jwt",
    /// Sends requests with sandbox tokens to the sandbox.
    KeyType = "key_type",
    /// Authenticates clients by a certificate.
    MutualTls = "mutual_tls",
    /// Changes headers of requests and replies.
    Headers = "headers",
    /// Changes queries, forms and JSON of requests and replies.
    Transform = "transform",
    /// Answers with a redirect.
    Redirect = "redirect",
    /// Limits the number of requests per time.
    RateLimit = "rate_limit",
    /// Applies a policy to some clients only.
    ForClients = "for",
    /// Requires a subscription, and enforces its plans.
    SubscriptionCheck = "subscription",
    /// Limits the number of concurrent requests.
    Concurrency = "concurrency",
    /// Limits event streams and their events.
    Sse = "sse",
    /// Limits WebSockets and their messages.
    WebSocket = "websocket",
    /// Gives requests an id in a header.
    Correlation = "correlation",
    /// Sends some of the requests to another upstream.
    Canary = "canary",
    /// Allows calls by pages of other origins.
    Cors = "cors",
    /// Caches replies.
    Cache = "cache",
    /// Compresses replies.
    Compress = "compress",
    /// Presents a gRPC service as a JSON API.
    GrpcJson = "grpc_json",
    /// Translates gRPC-Web calls of browsers to gRPC.
    GrpcWeb = "grpc_web",
    /// Asks a service whether a request may pass.
    ForwardAuth = "forward_auth",
    /// Allows or refuses client addresses.
    IpRules = "ip_filter",
    /// Calls a service that may change the request and the reply.
    Interceptor = "interceptor",
    /// Validates requests and replies against an OpenAPI document.
    OpenApi = "openapi",
    /// Refuses what a JSON Schema does not allow.
    JsonSchema = "json_schema",
    /// Answers with examples of an OpenAPI document.
    Mock = "mock",
    /// Validates SOAP messages.
    Soap = "soap",
    /// Presents a SOAP service as a JSON API.
    SoapRest = "soap_rest",
    /// Refuses programs by their `User-Agent`.
    UserAgent = "user_agent",
    /// Inserts the policies of a set.
    NamedSet = "use",
    /// Checks the WS-Security header of SOAP messages: the client, and the age of the message.
    WsSecurity = "ws_security",
    /// Chooses the upstream by the content of the message.
    XpathRoute = "xpath_route",
    /// Transforms messages by a stylesheet.
    Xslt = "xslt",
}

impl Policy {
    /// Returns the policy that is applied: the one inside a `for`, or else this one.
    pub fn applied(&self) -> &Policy {
        if let Policy::ForClients(keys) = self { &keys.policy.0.value } else { self }
    }
}

impl Decode for Policy {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help =
            "write `- NAME: { ... }`, one item for each policy, keys indented below its name";
        let Value::Map(entries) = &node.value else {
            decoder.expected(node, "a policy", help);
            return None;
        };
        match entries.as_slice() {
            [entry] => Self::decode_named(entry, decoder),
            [] => {
                decoder.error(node.at, "a policy needs a name", help);
                None
            }
            [_, _, ..] if node.get("name").is_some() && node.get("config").is_some() => {
                let name = node.get("name").and_then(Node::text).unwrap_or("");
                let what = "policies are not written as `{ name, config }` here";
                let help = kong_plugin(name);
                decoder.error(node.at, what, help);
                None
            }
            [first, second, ..] => {
                let what = format!(
                    "one item of the list has two policies, {} and {}",
                    quote(&first.key),
                    quote(&second.key)
                );
                decoder.error(second.key_at, what, help);
                None
            }
        }
    }

    fn encode(&self) -> Json {
        json!({ self.name(): self.encode_keys() })
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        one_key_of(Self::schemas(schema))
    }
}

/// Returns a hint about what to write in place of one of Kong's plugins.
fn kong_plugin(name: &str) -> String {
    const PLUGINS: [(&str, &str); 14] = [
        ("key-auth", "api_key"),
        ("basic-auth", "basic"),
        ("jwt", "jwt"),
        ("mtls-auth", "mutual_tls"),
        ("acl", "authorize"),
        ("rate-limiting", "rate_limit"),
        ("ip-restriction", "ip_filter"),
        ("bot-detection", "user_agent"),
        ("cors", "cors"),
        ("proxy-cache", "cache"),
        ("request-transformer", "headers"),
        ("response-transformer", "headers"),
        ("grpc-web", "grpc_web"),
        ("grpc-gateway", "grpc_json"),
    ];
    let ours = PLUGINS.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours);
    let ours = ours.or_else(|| Policy::NAMES.iter().copied().find(|ours| *ours == name));
    format!("write `- {}: {{ .. }}` with this gateway's keys", ours.unwrap_or("NAME"))
}

fn unknown(entry: &MapEntry, decoder: &mut Decoder<'_>) -> Option<Policy> {
    let meant = decoder.suggest(&entry.key, Policy::NAMES.iter().copied());
    decoder.error(
        entry.key_at,
        format!("unknown policy {}{}", quote(&entry.key), did_you_mean(meant)),
        format!("the policies are {}", list(Policy::NAMES, "and")),
    );
    None
}
