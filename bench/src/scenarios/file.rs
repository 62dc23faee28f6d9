//! The keys of a scenario file. `config` reads it, with the place of each mistake.

use std::time::Duration;

use config::node::Value;
use config::{
    Between, Decode, Decoder, Map, Node, OneOrMore, SchemaBuilder, Size, Spanned, Timeout, keys,
    words,
};
use serde_json::Value as Json;

keys! {
    /// A file of scenarios that share backends and a configuration.
    pub struct File {
        /// The document whose rows these are: `000` to `004`; or `costs`.
        document: Document,
        /// Tidegate's configuration, as a path from this file. The run defines `${LISTEN}`, `${ADMIN}`, `${WORKERS}`, `${CERTIFICATE}`,
        /// `${KEY}`, `${JWKS}`, `${STORE}` (an empty folder), `${TTL}` (an hour in the document), `${CALLBACKS}` (the network of a hub's
        /// subscribers), `${KEYS}` (100,000 keys of users) and, for each backend, its address under its name in capitals.
        gateway: Spanned<String>,
        /// What answers behind the gateway, by name.
        backends: Map<Backend>,
        /// True if clients connect by TLS.
        tls: bool = false,
        /// Workers of the gateway, as in the document.
        workers: Between<1, 256> = const { Between::new(1) },
        /// The time of a row with its warm-up.
        duration: Timeout,
        /// The part of it that is not counted.
        warm_up: Timeout,
        /// Values that texts refer to as `${TABLE.COLUMN}`, by name.
        tables: Map<Table> = Map::default(),
        /// The scenarios by name, in the order of the document.
        scenarios: Map<Scenario>,
        /// Scenarios of the document that cannot be expressed, each with the reason.
        missing: Map<String> = Map::default(),
    }
}

words! {
    /// A reference document, or none.
    pub enum Document {
        /// Interceptors of Choreo Connect.
        D000 = "000",
        /// SOAP and XML policies of Kong.
        D001 = "001",
        /// A matrix of users and sizes behind JWT.
        D002 = "002",
        /// Streaming APIs.
        D003 = "003",
        /// Flows of Micro Integrator.
        D004 = "004",
        /// Of no document: what a request costs, beside other gateways and another build.
        Costs = "costs",
    }
}

keys! {
    /// A service behind the gateway.
    pub struct Backend {
        /// What it answers.
        kind: BackendKind,
        /// The value of `X-SOAP-Region`, for a calculator.
        region: String = String::new(),
        /// True if it is an interceptor or another helper, which a delay does not slow down.
        helper: bool = false,
    }
}

words! {
    /// What a backend answers.
    pub enum BackendKind {
        /// The request's body, as cheaply as possible.
        Echo = "echo",
        /// SOAP sums.
        Calculator = "calculator",
        /// The paths of httpbin.org.
        Httpbin = "httpbin",
        /// Event streams.
        Sse = "sse",
        /// WebSockets that send each message back reversed.
        Reverse = "reverse",
        /// An interceptor service.
        Interceptor = "interceptor",
        /// The same SOAP sum, whatever is asked, as cheaply as possible.
        Sum = "sum",
        /// Calls over HTTP/2, of gRPC too, whose messages come back.
        Calls = "calls",
    }
}

keys! {
    /// Rows of values.
    pub struct Table {
        /// The names of the columns.
        columns: Vec<String> = Vec::new(),
        /// Each row has a value for each column.
        rows: Vec<Vec<String>> = Vec::new(),
        /// Instead of `columns` and `rows`: a column `token` with this number of tokens of the test issuer, each with another subject.
        tokens: Option<Between<1, 100_000>>,
    }
}

keys! {
    /// One scenario: its rows, and what is sent.
    pub struct Scenario {
        /// The name in the document's table.
        title: String,
        /// A sentence for `list`.
        description: String,
        /// Numbers of users or connections.
        users: Spanned<OneOrMore<Between<1, 60_000>>>,
        /// Sizes of a message.
        sizes: OneOrMore<Size> = OneOrMore(Vec::new()),
        /// Delays of the backend.
        delays: OneOrMore<Duration> = OneOrMore(vec![Duration::ZERO]),
        /// Pairs of users and size, where not all combinations are rows.
        rows: Vec<UsersAndSize> = Vec::new(),
        /// The time of a row, instead of the file's.
        duration: Option<Timeout>,
        /// The warm-up, instead of the file's.
        warm_up: Option<Timeout>,
        /// The time from the first user to all of them. It must end within the warm-up.
        ramp: Spanned<Duration> = Spanned::unwritten(Duration::ZERO),
        /// Several rows that differ in this time; the scenario's name gets `-SECONDSs` behind it.
        ramps: Vec<Duration> = Vec::new(),
        /// Ramps one after the other, instead of `ramp`.
        stages: Spanned<Vec<Stage>> = Spanned::unwritten(Vec::new()),
        /// The gateway's configuration, instead of the file's.
        gateway: Option<Spanned<String>>,
        /// Requests of users who each wait for the reply. Groups run at the same time.
        requests: Vec<Group> = Vec::new(),
        /// Event streams that are read.
        sse: Option<Sse>,
        /// WebSockets.
        websocket: Option<WebSocket>,
        /// Subscribers of a hub.
        websub: Option<WebSub>,
        /// Calls over HTTP/2.
        calls: Option<Calls>,
        /// What operators do meanwhile.
        watch: Vec<Watch> = Vec::new(),
        /// What is asked of the row, for `run --strict`.
        targets: Vec<CostTarget> = Vec::new(),
        /// The same work for other gateways; without it they have `-`.
        peers: Vec<PeerRoute> = Vec::new(),
        /// Whether clients connect by TLS, instead of the file's.
        tls: Option<bool>,
        /// True if it needs Saxon, and so a Java machine.
        java: bool = false,
    }
}

keys! {
    /// A request of the admin API that is sent while the row runs, as a dashboard or a scraper does. The gateway has no users then.
    pub struct Watch {
        /// The path, such as `/metrics`.
        path: String,
        /// The time from one request to the next.
        every: Timeout,
    }
}

keys! {
    /// What is asked of a row: one of the keys that end in `_max` or `_min`.
    pub struct CostTarget {
        /// The scenario of this file that it is compared with, by the same users and size where it has them.
        of: Option<Spanned<String>>,
        /// What the difference to `of` is divided by; `of` itself if absent.
        over: Option<Spanned<String>>,
        /// The gateway that it is compared with.
        peer: Option<Spanned<String>>,
        /// The only size that it is asked of.
        size: Option<Size>,
        /// CPU of the gateway for a request, relative to `of` or `peer`.
        cpu_max: Option<Ratio>,
        /// Microseconds of CPU of the gateway for a request, above `of` if there is one.
        cpu_us_max: Option<Ratio>,
        /// Throughput relative to `of`.
        rate_min: Option<Ratio>,
        /// Resident memory of the gateway while it is loaded.
        memory_max: Option<Size>,
        /// What its resident memory grows by for each user.
        memory_each_max: Option<Size>,
    }
}

/// A number above zero, such as 0.85.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio(pub f64);

impl Decode for Ratio {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Ratio> {
        let text = if let Value::Scalar(scalar) = &node.value
            && !scalar.quoted
        {
            scalar.text.as_str()
        } else {
            ""
        };
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
        if number.is_none() {
            decoder.expected(node, "a number above 0", "write a number such as `0.85`");
        }
        number.map(Ratio)
    }

    fn encode(&self) -> Json {
        self.0.into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        serde_json::json!({ "type": "number", "exclusiveMinimum": 0 })
    }
}

keys! {
    /// A row's users and size.
    pub struct UsersAndSize {
        /// Users or connections.
        users: Between<1, 60_000>,
        /// The size of a message.
        size: Size,
    }
}

keys! {
    /// The number of users changes linearly to `users` in this time.
    pub struct Stage {
        /// At the end of the stage.
        users: Between<0, 60_000>,
        /// The length of the stage.
        over: Duration,
    }
}

keys! {
    /// Users who all do the same.
    pub struct Group {
        /// The name of its samples, if there are several groups that are reported apart.
        label: Option<String>,
        /// Its part of the row's users, in percent.
        users_percent: Between<1, 100> = const { Between::new(100) },
        /// The number of routes over which its users are spread: `${route.number}` is the user's.
        routes: Between<1, 10_000> = const { Between::new(1) },
        /// The pause of a user between a reply and the next request.
        think: Duration = Duration::ZERO,
        /// Any method.
        method: String = "POST".to_owned(),
        /// The path with the query.
        path: Spanned<String>,
        /// Headers by name. `${TOKEN}` is a token of the test issuer.
        headers: Map<Spanned<String>> = Map::default(),
        /// The body; places that vary are written `${number:8}`, `${random:16}` or `${TABLE.COLUMN}`.
        body: Option<Spanned<String>>,
        /// A body of the row's size, instead of `body`.
        payload: Option<Payload>,
        /// The right reply.
        expect: Expect = Expect::default(),
    }
}

words! {
    /// A body of the row's size. No two are the same.
    pub enum Payload {
        /// `{"size": "1024B", "payload": [..]}`, exactly of the size.
        Json = "json",
        /// The SOAP message of document 004, of the size of the reference's file.
        Soap = "soap",
        /// JSON with the fields of one order, of the size of the reference's file.
        JsonOrder = "json_order",
        /// JSON exactly of the size, of which only a number differs, so that making it costs next to nothing.
        Filled = "filled",
        /// Orders in SOAP of about the size: prefixes, white space and the places of the orders differ from message to message.
        SoapVaried = "soap_varied",
    }
}

keys! {
    /// The conditions for a right reply.
    pub struct Expect {
        /// The status.
        status: Between<100, 599> = const { Between::new(200) },
        /// Headers with exactly this value.
        headers: Map<String> = Map::default(),
        /// The length of the body.
        bytes: Option<Size>,
        /// A text in the body.
        contains: Option<Spanned<String>>,
        /// The whole body.
        equals: Option<Spanned<String>>,
        /// True if the body is the request's.
        echo: bool = false,
        /// True if the body contains the request's.
        contains_request: bool = false,
    }
}

impl Default for Expect {
    fn default() -> Self {
        Self {
            status: const { Between::new(200) },
            headers: Map::default(),
            bytes: None,
            contains: None,
            equals: None,
            echo: false,
            contains_request: false,
        }
    }
}

keys! {
    /// Event streams that are read; the row's users are the streams, its size is that of an event.
    pub struct Sse {
        /// The path.
        path: Spanned<String>,
        /// Headers by name.
        headers: Map<Spanned<String>> = Map::default(),
        /// Events of each stream in a second.
        events_per_second: Between<1, 1_000>,
        /// True if all clients share a stream of the backend: those that come later get its later events.
        shared: bool = false,
    }
}

keys! {
    /// Calls over HTTP/2 by prior knowledge, whose messages come back; the row's users are the calls at once, its size is that of a
    /// message.
    pub struct Calls {
        /// The path.
        path: String,
        /// Calls at once on each connection.
        streams: Between<1, 1_000> = const { Between::new(1) },
        /// True for unary calls of gRPC.
        grpc: bool = false,
    }
}

keys! {
    /// WebSockets whose messages come back reversed.
    pub struct WebSocket {
        /// The path.
        path: Spanned<String>,
        /// Headers of the handshake by name.
        headers: Map<Spanned<String>> = Map::default(),
        /// Messages on each connection in a second.
        events_per_second: Between<1, 1_000>,
        /// Sizes to try one after the other if messages were lost though no connection failed.
        reduce: Vec<Size> = Vec::new(),
    }
}

keys! {
    /// Subscribers of a hub; the row's users are the subscribers, its size is that of an event.
    pub struct WebSub {
        /// The hub's path.
        path: String,
        /// The path to which events are published.
        publish: String,
        /// The topic.
        topic: String,
        /// Headers by name.
        headers: Map<Spanned<String>> = Map::default(),
        /// Events, one after the other.
        events: Between<1, 1_000>,
    }
}

keys! {
    /// A route for another gateway.
    pub struct PeerRoute {
        /// Without a slash at its end.
        prefix: String,
        /// The path that the backend sees: `same`, `stripped`, or a path.
        forwarded: String = "same".to_owned(),
        /// The backend's name.
        backend: Spanned<String>,
        /// True if requests need a token.
        jwt: bool = false,
        /// What is done to a message.
        task: PeerTask = PeerTask::Forward,
        /// The flow's name in the reference, or the service's backend for `intercept`.
        name: String = String::new(),
        /// Steps on requests, for `soap`.
        request: Vec<SoapStep> = Vec::new(),
        /// Steps on replies, for `soap`.
        response: Vec<SoapStep> = Vec::new(),
    }
}

words! {
    /// What is done to a message between client and backend.
    pub enum PeerTask {
        /// Nothing.
        Forward = "forward",
        /// Nothing, and each piece goes on as it comes.
        Stream = "stream",
        /// Nothing, and the backend speaks HTTP/2.
        Calls = "calls",
        /// An interceptor is asked.
        Intercept = "intercept",
        /// Schemas and stylesheets.
        Soap = "soap",
        /// A flow of document 004.
        Flow = "flow",
        /// Something that no peer does.
        Ours = "ours",
    }
}

keys! {
    /// One step on a SOAP message: exactly one of these.
    pub struct SoapStep {
        /// The envelope, and the body by this WSDL or schema; empty for the envelope alone.
        validate: Option<String>,
        /// The `SOAPAction` has to be the operation's in this WSDL.
        action: Option<String>,
        /// A stylesheet of XSLT 1.0.
        transform: Option<String>,
        /// A stylesheet of XSLT 2.0 or 3.0.
        transform_later: Option<String>,
        /// Another backend where the text at a path is this one.
        route: Option<SoapRoute>,
    }
}

keys! {
    /// Routing by XPath.
    pub struct SoapRoute {
        /// Prefixes.
        namespaces: Map<String> = Map::default(),
        /// The path.
        xpath: String,
        /// The text.
        equals: String,
        /// The backend's name.
        backend: Spanned<String>,
    }
}
