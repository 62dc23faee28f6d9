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
mod grpc_web;
mod headers;
mod hmac;
mod interceptor;
mod ip_filter;
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
pub use canary::Canary;
pub use compress::{Compress, Encoding};
pub use concurrency::Concurrency;
pub use correlation::{Correlation, CorrelationGenerator};
pub use cors::Cors;
pub use for_clients::{ClientList, ForClients, InnerPolicy};
pub use forward_auth::{ForwardAuth, ForwardAuthHeaders, OnAuthFailure};
pub use grpc_web::GrpcWeb;
pub use headers::{Headers, HeadersEdit};
pub use hmac::{Hmac, HmacAlgorithm};
pub use interceptor::{Endpoint, Include, Interception, Interceptor, InvokedApi, ServiceUrl};
pub use ip_filter::IpRules;
pub use jwt::{BackendJwt, ClaimWanted, Jwks, Jwt, Scopes, Subscription};
pub use key_type::KeyType;
pub use mock::{Mock, MockChoice};
pub use mutual_tls::MutualTls;
pub use named_set::NamedSet;
pub use openapi::OpenApi;
pub use rate_limit::{
    LimitAlgorithm, LimitBy, LimitHeaders, LimitStatus, LimitWindow, RateLimit, Requests,
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
pub use websocket::{MessageWindow, OnLimit, TopicUse, WebSocket, WebSocketTopic};
pub use ws_security::{PasswordForm, TimestampCheck, WsSecurity};
pub use xpath_route::{XpathCase, XpathRoute};
pub use xslt::{Xslt, XsltEngine, XsltOutput};

use crate::decode::{Decode, Decoder, did_you_mean, list};
use crate::node::{MapEntry, Node, Value};
use crate::report::quote;
use crate::schema::{SchemaBuilder, one_key_of};

/// Makes the list of kinds: the enum, and reading, writing and schema by name.
macro_rules! policies {
    ($( $(#[doc = $doc:literal])* $kind:ident = $name:literal, )*) => {
        /// One item of a route's `policies`: a map with one key, the policy's name.
        #[derive(Clone, Debug, PartialEq)]
        #[allow(clippy::large_enum_variant, reason = "a configuration has few, and keeps them in lists of their own")]
        pub enum Policy {
            $( $(#[doc = $doc])* $kind($kind), )*
        }

        impl Policy {
            /// The names, as they are written.
            pub const NAMES: &[&str] = &[$($name),*];

            /// The name it is written under.
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
    /// A key shows who asks.
    ApiKey = "api_key",
    /// One of several kinds of credential shows who asks.
    Authenticate = "authenticate",
    /// A rule or the client's groups say who may do what.
    Authorize = "authorize",
    /// Tells the upstream who asks.
    BackendJwt = "backend_jwt",
    /// A name and a password show who asks.
    Basic = "basic",
    /// A signature by a shared secret shows who asks.
    Hmac = "hmac",
    /// Publishes the keys of `backend_jwt`.
    Jwks = "jwks",
    /// A signed token shows who asks.
    Jwt = "jwt",
    /// Tokens for a sandbox go to the sandbox.
    KeyType = "key_type",
    /// A client certificate shows who asks.
    MutualTls = "mutual_tls",
    /// Changes headers on the way in and out.
    Headers = "headers",
    /// Changes queries and JSON on the way in and out.
    Transform = "transform",
    /// Answers with where to go instead.
    Redirect = "redirect",
    /// Allows so many requests in so long.
    RateLimit = "rate_limit",
    /// A policy for some clients only.
    ForClients = "for",
    /// Requires a subscription, and holds it to its plans.
    SubscriptionCheck = "subscription",
    /// Limits the number of concurrent requests.
    Concurrency = "concurrency",
    /// Counts the events of event streams and bounds them.
    Sse = "sse",
    /// Counts the messages of WebSockets and bounds them.
    WebSocket = "websocket",
    /// Gives requests an id in a header.
    Correlation = "correlation",
    /// Sends a part of the requests to another upstream.
    Canary = "canary",
    /// Lets pages of other origins call.
    Cors = "cors",
    /// Gives replies again without asking.
    Cache = "cache",
    /// Compresses replies.
    Compress = "compress",
    /// Translates calls of browsers to those of gRPC.
    GrpcWeb = "grpc_web",
    /// A service of the operator's says whether a request may pass.
    ForwardAuth = "forward_auth",
    /// Lets only some addresses ask.
    IpRules = "ip_filter",
    /// Asks a service what to do with the request and the reply.
    Interceptor = "interceptor",
    /// Refuses what an OpenAPI document does not allow.
    OpenApi = "openapi",
    /// Answers with examples of an OpenAPI document.
    Mock = "mock",
    /// Refuses what is not a proper SOAP message.
    Soap = "soap",
    /// Offers a SOAP service as an API of JSON.
    SoapRest = "soap_rest",
    /// The policies of a set.
    NamedSet = "use",
    /// A header of the SOAP message shows who asks, and how old it is.
    WsSecurity = "ws_security",
    /// Sends a message elsewhere by what stands in it.
    XpathRoute = "xpath_route",
    /// Transforms messages.
    Xslt = "xslt",
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
                decoder.error(node.at, "a policy without a name", help);
                None
            }
            [_, _, ..] if node.get("name").is_some() && node.get("config").is_some() => {
                let name = node.get("name").and_then(Node::text).unwrap_or("");
                let what = "a policy is not written as `{ name, config }` here";
                let help = kong_plugin(name);
                decoder.error(node.at, what, help);
                None
            }
            [first, second, ..] => {
                let what = format!(
                    "one item of the list names two policies, {} and {}",
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

/// What to write in the place of one of Kong's plugins.
fn kong_plugin(name: &str) -> String {
    const PLUGINS: [(&str, &str); 12] = [
        ("key-auth", "api_key"),
        ("basic-auth", "basic"),
        ("jwt", "jwt"),
        ("mtls-auth", "mutual_tls"),
        ("acl", "authorize"),
        ("rate-limiting", "rate_limit"),
        ("ip-restriction", "ip_filter"),
        ("cors", "cors"),
        ("proxy-cache", "cache"),
        ("request-transformer", "headers"),
        ("response-transformer", "headers"),
        ("grpc-web", "grpc_web"),
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
