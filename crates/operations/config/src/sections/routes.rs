//! `routes.NAME`: which requests match, and how they are handled.

use std::time::Duration;

use serde_json::{Value as Json, json};

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::{Node, Value};
use crate::policies::Policy;
use crate::schema::SchemaBuilder;
use crate::values::{
    Between, FilePath, Map, Network, OneOrMore, Percent, Priority, Size, Spanned, Timeout,
    ValueMatch,
};

keys! {
    /// A route: how the requests that it matches are handled. It needs exactly one of `upstream`, `flow`, `hub` and `respond`; a
    /// `respond` with `trigger` does not count. A route with the policy `redirect`, `mock` or `jwks` needs none of them.
    pub struct Route {
        /// The requests that it matches, such as `{ path: "/orders/**", methods: [GET] }`.
        matches as "match": Spanned<Match>,
        /// A prefix to remove from the path before the request is sent to the upstream.
        strip_prefix: Option<Spanned<String>>,
        /// The path to send to the upstream instead: a text with `{NAME}` for parameters of the match, `{**}` for its rest and `{path}` for
        /// the whole path.
        rewrite: Option<Spanned<String>>,
        /// The Host to send to the upstream: `preserve` for the client's, `target` for the target's own, or a name.
        // Services that build links from it need the client's view.
        host: Spanned<RouteHost> = Spanned::unwritten(RouteHost::Preserve),
        /// How much a client may send.
        limits: RouteLimits,
        /// How long its open event streams, gRPC calls and tunnels, including WebSockets, may last, and what happens to them when the route
        /// changes.
        streams: RouteStreams,
        /// The policies, in order: top to bottom on the request, bottom to top on the reply.
        policies: Vec<Spanned<Policy>> = Vec::new(),
        /// Whether the policies of `defaults` run above these.
        // A default that must be requested would not be one.
        defaults: bool = true,
        /// How errors are written to the client: `problem` (RFC 9457; SOAP faults on routes with `soap`), `wso2` (the bodies and codes of
        /// Choreo Connect), `wso2_apim` (those of WSO2's API Manager) or `kong` (the faults of its SOAP/XML plugins).
        errors: Errors = Errors::Problem,
        /// Sends the requests to one of the `upstreams`, by its name, or to several by their shares of requests, such as
        /// `{ a: 90, b: 10 }`.
        upstream: Option<Spanned<RouteUpstream>>,
        /// Runs one of the `flows`.
        flow: Option<Spanned<String>>,
        /// Forwards the requests to one of the `hubs`, which serves everything below the path of `match`.
        hub: Option<Spanned<String>>,
        /// Descriptions of the service, which the route publishes.
        services: RouteServices,
        /// Sends copies of its requests to another upstream, whose replies are discarded.
        mirror: Option<Spanned<RouteMirror>>,
        /// Answers with a fixed reply.
        respond: Option<Spanned<Respond>>,
    }
}

keys! {
    /// The requests that a route matches. All conditions must hold.
    pub struct Match {
        /// `/a` alone, `/a/**` with everything below, `/a/{id}/b` with any one segment at `{id}`, `{ regex: "/a/[0-9]+" }` for the whole
        /// path, `{ prefix: /a }` for all paths that begin with this text, including `/ab`, or a list of such conditions with the same
        /// parameters.
        path: OneOrMore<Spanned<RoutePath>> = OneOrMore(vec![Spanned::unwritten(RoutePath::all())]),
        /// Routes of a higher priority are tried first, even if others are more specific: a number from -1000000 to 1000000.
        // Routes without a priority are ordered by how specific they are.
        priority: Spanned<Priority> = Spanned::unwritten(Priority(0)),
        /// The listeners that serve the route, a name or a list; any if absent.
        listener: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// A host, `*.example.com` for its subdomains, or a list of such; any host if absent.
        host: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// The server name that the client sends in its TLS handshake (SNI), `*.example.com` for subdomains, or a list of such. A request
        /// without TLS has none. If absent, any or no name matches.
        sni: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Networks of the client such as `10.0.0.0/8`, one address, or a list of such; any if absent. Behind a trusted proxy, the client's
        /// address is the one that the proxy names.
        source: OneOrMore<Spanned<Network>> = OneOrMore(Vec::new()),
        /// The methods; any if absent.
        methods: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Whether `GET` among the methods takes `HEAD`, too, unless another route of the same path names `HEAD`.
        // Servers have to support both (RFC 9110, 9.1), and lists of methods rarely name HEAD.
        head: bool = true,
        /// Headers by name: the exact value, `{ any: [a, b] }` for one of several, `{ regex: "a.*" }` for the whole value, or
        /// `{ present: true }`.
        headers: Map<Spanned<ValueMatch>> = Map::default(),
        /// Query parameters by name, with the same conditions.
        query: Map<Spanned<ValueMatch>> = Map::default(),
    }
}

keys! {
    /// An upstream that gets copies of requests. Clients never wait for it, and are not affected by its faults.
    pub struct RouteMirror {
        /// The destination of the copies: the name of one of the `upstreams`.
        upstream: Spanned<String>,
        /// How many of the requests are copied, in percent; fractions are allowed.
        percent: Percent = Percent::ALL,
        /// Requests with a larger body are not copied.
        // The same as for retries: enough for a form or a document, but not for an upload. 256 copies per worker take 16 MiB.
        body_bytes_max: Spanned<Size> = Spanned::unwritten(Size(64 * 1024)),
    }
}

words! {
    /// The form in which errors are written to the client.
    pub enum Errors {
        /// RFC 9457 problem details.
        Problem = "problem",
        /// The JSON bodies and codes of WSO2 Choreo Connect.
        Wso2 = "wso2",
        /// The JSON bodies and codes of WSO2's API Manager: `code`, `message` and `description`.
        Apim = "wso2_apim",
        /// The SOAP faults and JSON bodies of Kong's SOAP/XML plugins.
        Kong = "kong",
    }
}

/// A condition on the path.
#[derive(Clone, Debug, PartialEq)]
pub enum RoutePath {
    /// A path, with parameters and `**`.
    Pattern(String),
    /// A regular expression for the whole path, with its place.
    Regex(Spanned<String>),
    /// A regular expression for the beginning of the path.
    RegexPrefix(Spanned<String>),
    /// A textual prefix of the path.
    Prefix(Spanned<String>),
}

keys! {
    /// The map form of a path: one of these keys.
    pub(crate) struct PathForm {
        /// The pattern of the whole path; named groups, `(?<name>...)`, are parameters.
        regex: Option<Spanned<String>>,
        /// The pattern of the path's beginning. `{**}` in `rewrite` is the rest of the path.
        regex_prefix: Option<Spanned<String>>,
        /// The beginning of the path as a text: `/a` also matches `/ab`, as in Kong, nginx and Envoy. The longest prefix wins, and `/a/**`
        /// takes precedence over `{ prefix: /a }`.
        prefix: Option<Spanned<String>>,
    }
}

/// The destination of a route.
#[derive(Clone, Debug, PartialEq)]
pub enum RouteUpstream {
    /// One upstream.
    One(String),
    /// One of several upstreams for each request, by their weights.
    Split(Map<RouteShare>),
}

/// A weight, bounded so that the sum of all weights cannot overflow. With 0, an upstream gets no requests.
pub type RouteShare = Between<0, 65_535>;

/// The Host sent to the upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouteHost {
    /// The Host that the client has sent.
    Preserve,
    /// The target's own host and port.
    Target,
    /// A configured name.
    Name(String),
}

keys! {
    /// How much a client may send.
    pub struct RouteLimits {
        /// The largest request body; 413 above, before any of it is read if its length is announced. If absent, bodies of any length are
        /// streamed through.
        // Bodies are buffered only if a policy requires it, so an upload of any length does no harm.
        body_bytes_max: Option<Size>,
        /// Whether a request body must announce its length; 411 if it does not.
        // Most servers accept a body of unknown length.
        length_required: bool = false,
    }
}

keys! {
    /// Rules for open event streams, gRPC calls and tunnels.
    pub struct RouteStreams {
        /// What happens when a reload changes or removes the route: `keep` continues them with the policies they began with, `close` ends
        /// them.
        // Most reloads change nothing that affects streams, and each stream that ends causes a reconnect.
        reload: StreamsOnReload = StreamsOnReload::Keep,
        /// How long a stream may take to end when it must: an event stream ends after the current event, a WebSocket after the answer to
        /// its Close frame. gRPC calls and other tunnels continue until then. The rest is cut. If it is set and shorter than
        /// `upgrade.drain`, streams stay with the old process for that time after an upgrade.
        // As long as `shutdown.drain`, which also bounds it.
        drain: Spanned<Duration> = Spanned::unwritten(Duration::from_secs(30)),
        /// The maximum age of a stream; no limit if absent.
        max_age: Option<Timeout>,
        /// The longest time without data in either direction. Then a gRPC call ends with `UNAVAILABLE`, an event stream ends cleanly, and a
        /// WebSocket is closed with 1001. If absent, one hour, or for tunnels the `timeout.tunnel` of the listener.
        idle: Option<Timeout>,
    }
}

words! {
    /// The effect of a reload on the open streams of a route that it changes or removes.
    pub enum StreamsOnReload {
        /// They continue with the policies they began with.
        Keep = "keep",
        /// They end.
        Close = "close",
    }
}

keys! {
    /// Descriptions of a service.
    pub struct RouteServices {
        /// A file with a WSDL document. A `GET` with the query `wsdl` is answered with it, after the policies of the route that refuse
        /// requests. A route with `soap_rest` then also takes SOAP messages.
        wsdl: Option<Spanned<FilePath>>,
        /// Files for documents that it refers to, by location, as written or as the URL that it resolves to.
        imports: Map<Spanned<FilePath>> = Map::default(),
    }
}

keys! {
    /// A fixed reply.
    pub struct Respond {
        /// Its status.
        status: Between<200, 599> = const { Between::new(200) },
        /// Its body. `{NAME}` stands for a path parameter, `{subject}`, `{tier}`, `{claims.NAME}`, `{request_id}`, `{client}`,
        /// `{port}`, `{method}`, `{host}`, `{hostname}`, `{path}`, `{prefix}` or `{query}`, and `{{NAME}}` for `{NAME}` itself; other braces
        /// are text.
        body: Spanned<String> = Spanned::unwritten(String::new()),
        /// Its headers, with the same placeholders; the length is added. With `status: 426`, `upgrade` names the protocols to change to.
        headers: Map<Spanned<String>> = Map::default(),
        /// The name of a header or query parameter: only requests that have it get the reply, and all others are forwarded to the route's
        /// `upstream`, `flow` or `hub`. The policies run first.
        trigger: Option<Spanned<String>>,
    }
}

impl RoutePath {
    fn all() -> Self {
        Self::Pattern("/**".to_owned())
    }

    fn of_map(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let (before, form) = (decoder.mistakes(), PathForm::decode(node, decoder)?);
        match (form.regex, form.regex_prefix, form.prefix) {
            (Some(text), None, None) => Some(Self::Regex(text)),
            (None, Some(text), None) => Some(Self::RegexPrefix(text)),
            (None, None, Some(text)) => Some(Self::Prefix(text)),
            _ => {
                if decoder.mistakes() == before {
                    let help = "write `{ regex: \"/a/[0-9]+\" }`, `{ regex_prefix: \"/a/[0-9]+\" }` or `{ prefix: /a }`";
                    decoder.error(
                        node.at,
                        "a path needs exactly one of `regex`, `regex_prefix` and `prefix`",
                        help,
                    );
                }
                None
            }
        }
    }

    /// Returns the text as written.
    pub fn text(&self) -> &str {
        match self {
            Self::Pattern(text) => text,
            Self::Regex(text) | Self::RegexPrefix(text) | Self::Prefix(text) => &text.value,
        }
    }
}

impl Decode for RoutePath {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => Self::of_map(node, decoder),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                String::decode(node, decoder).map(Self::Pattern)
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Pattern(text) => text.as_str().into(),
            Self::Regex(text) => json!({ "regex": text.value }),
            Self::RegexPrefix(text) => json!({ "regex_prefix": text.value }),
            Self::Prefix(text) => json!({ "prefix": text.value }),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [String::schema(schema), PathForm::schema(schema)] })
    }
}

impl RouteUpstream {
    /// Returns the names of all upstreams.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let (one, several) = match self {
            Self::One(name) => (Some(name.as_str()), None),
            Self::Split(shares) => (None, Some(shares)),
        };
        let several = several.into_iter().flat_map(Map::iter);
        one.into_iter().chain(several.map(|(name, _)| name.value.as_str()))
    }
}

impl Decode for RouteUpstream {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => Map::decode(node, decoder).map(Self::Split),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                String::decode(node, decoder).map(Self::One)
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::One(name) => name.as_str().into(),
            Self::Split(shares) => shares.encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [String::schema(schema), Map::<RouteShare>::schema(schema)] })
    }
}

impl Decode for RouteHost {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match String::decode(node, decoder)?.as_str() {
            "preserve" => Some(Self::Preserve),
            "target" => Some(Self::Target),
            name => Some(Self::Name(name.to_owned())),
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Preserve => "preserve".into(),
            Self::Target => "target".into(),
            Self::Name(name) => name.as_str().into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "string" })
    }
}
