//! `rate_limit`: limits the number of requests per time. Also the keys that limits count by, which `concurrency` shares.

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder, keys, words};
use crate::node::Node;
use crate::schema::SchemaBuilder;
use crate::sources::quote;
use crate::values::{Between, Spanned, Timeout};

/// The number of requests that a limit may allow.
pub type Requests = Between<1, 1_000_000_000>;

keys! {
    /// Limits how many requests a client may send per time; 429 above. The count is exact over all workers.
    pub struct RateLimit {
        /// How many requests pass in the time of `per`.
        requests: Option<Spanned<Requests>>,
        /// The time, such as `1s` or `1m`.
        per: Option<Spanned<Timeout>>,
        /// How many requests may arrive at once; `requests` if absent. The limit refills evenly over `per`.
        burst: Option<Spanned<Requests>>,
        /// More windows, all of which apply, such as `[{ requests: 10, per: 1s }, { requests: 1000, per: 1h }]`.
        windows: Vec<Spanned<LimitWindow>> = Vec::new(),
        /// The key that shares a count: `client`, `subject`, `header:NAME`, `route`, `operation` below a `soap` that validates requests, or
        /// `cel:EXPRESSION` such as `cel:claims.org`. If absent, `client`, or `subject` with `plans`; in the step `throttle` of a flow, all
        /// messages together. A request without a subject, without the header, or for which the expression yields no text, is counted by
        /// client.
        by: Option<Spanned<LimitBy>>,
        /// Whether the limits of the client's plan apply, as in the section `plans`; those written here are for clients without one.
        // Plans apply only where they are enabled explicitly.
        plans: bool = false,
        /// The plan of clients without one, instead of limits written here.
        default: Option<Spanned<String>>,
        /// Limits with the same name and the same keys share their counts, across routes. The name is also in the `RateLimit` headers.
        name: Option<Spanned<String>>,
        /// Shares counts with other gateways, through one of the `stores`.
        shared: Option<Spanned<String>>,
        /// How requests are counted. `gcra`: the limit refills evenly over `per`. `fixed`: the limit is reset when the next window begins;
        /// windows are aligned to the clock (UTC), such as at each full minute. `sliding`: like `fixed`, but a weighted part of the
        /// previous window also counts. Windows of `fixed` and `sliding` are whole seconds and have no `burst`.
        algorithm: Spanned<LimitAlgorithm> = Spanned::unwritten(LimitAlgorithm::Gcra),
        /// The headers in which replies report the remaining requests. `draft`: `RateLimit` and `RateLimit-Policy`. `kong`:
        /// `X-RateLimit-Limit-Minute`, `X-RateLimit-Remaining-Minute` (or `Second`, `Hour`, `Day`, `Month`, `Year`), `RateLimit-Limit`,
        /// `RateLimit-Remaining` and `RateLimit-Reset`. `none`: no headers. `true` is `draft`, `false` is `none`.
        // Clients that know the limit can respect it.
        headers: Spanned<LimitHeaders> = Spanned::unwritten(LimitHeaders::Draft),
        /// What a request costs, if the service says so in its reply. A request costs 1 if absent.
        cost: Option<Spanned<ReplyCost>>,
        /// The status of a refused request.
        status: LimitStatus = const { Between::new(429) },
        /// The text for refused clients, instead of a general one.
        message: Option<String>,
        /// How many keys are counted separately. Beyond that, the keys that have used least are dropped first.
        // At most 6 MB, or twice that with four windows, for as many clients as one gateway is likely to see in a window.
        keys_max: Between<1_000, 10_000_000> = const { Between::new(100_000) },
    }
}

keys! {
    /// A maximum number of requests per time.
    pub struct LimitWindow {
        /// How many requests pass in the time of `per`.
        requests: Requests,
        /// The time, such as `1s` or `1m`.
        per: Spanned<Timeout>,
        /// How many requests may arrive at once; `requests` if absent.
        burst: Option<Requests>,
    }
}

keys! {
    /// The cost of a request that its reply tells. The limit counts costs instead of requests; the request itself costs nothing.
    pub struct ReplyCost {
        /// The header of the reply with the cost, such as `X-Cost: 3`. A reply without it, and one from a cache (with `Age`), costs nothing.
        header: Spanned<String>,
        /// The name of the limit in a header that has the costs of several limits, such as `X-Cost: video=2, image=1`. With
        /// `headers: kong`, the name is also in the names of the headers, such as `X-RateLimit-Limit-video-Minute`.
        name: Option<Spanned<String>>,
        /// What is refused once the limit is used up: `requests`, before the upstream sees them; `replies` that cost something, in the
        /// place of the upstream's reply; or `both`.
        // The upstream then does no work whose result would be refused.
        refuse: CostRefusal = CostRefusal::Requests,
        /// Whether clients do not get the header. Of several limits that read the same header, only the first may remove it.
        // The service sends the header to the gateway, not to clients.
        remove: bool = true,
        /// A header of the request in which the upstream gets what is left of the limit.
        upstream_header: Option<Spanned<String>>,
    }
}

words! {
    /// What is refused once a limit with `cost` is used up.
    pub enum CostRefusal {
        /// Requests, before the upstream sees them.
        Requests = "requests",
        /// Replies that cost something.
        Replies = "replies",
        /// Requests, and replies of requests that passed before.
        Both = "both",
    }
}

/// The status of a refused request.
pub type LimitStatus = Between<400, 599>;

words! {
    /// How requests are counted.
    pub enum LimitAlgorithm {
        /// The limit refills evenly (generic cell rate algorithm).
        Gcra = "gcra",
        /// Windows aligned to the clock.
        Fixed = "fixed",
        /// Windows aligned to the clock, with a weighted part of the previous one.
        Sliding = "sliding",
    }
}

/// The headers that report the remaining requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitHeaders {
    /// `RateLimit` and `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers).
    Draft,
    /// The headers of Kong's `rate-limiting`.
    Kong,
    /// No headers.
    None,
}

impl LimitHeaders {
    const WORDS: &[&str] = &["draft", "kong", "none"];
}

impl Decode for LimitHeaders {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match node.bare_text() {
            Some("true") => return Some(Self::Draft),
            Some("false") => return Some(Self::None),
            Some(_) | None => {}
        }
        match decoder.word(node, Self::WORDS)? {
            "draft" => Some(Self::Draft),
            "kong" => Some(Self::Kong),
            _ => Some(Self::None),
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Draft => "draft".into(),
            Self::Kong => "kong".into(),
            Self::None => "none".into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        serde_json::json!({ "enum": ["draft", "kong", "none", true, false] })
    }
}

/// What a limit counts by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LimitBy {
    /// The client's address.
    Client,
    /// The subject of the client identity.
    Subject,
    /// All requests of the route together.
    Route,
    /// The value of a header.
    Header(String),
    /// The value of an expression in CEL.
    Expression(String),
    /// The operation of the service's description that is called.
    Operation,
}

impl Decode for LimitBy {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help =
            "write `client`, `subject`, `route`, `operation`, `header:NAME` or `cel:EXPRESSION`";
        decoder.parse(node, "a key to count by", help, |text| match text {
            "client" => Ok(Self::Client),
            "subject" => Ok(Self::Subject),
            "route" => Ok(Self::Route),
            "operation" => Ok(Self::Operation),
            _ => match text.split_once(':') {
                Some(("header", name)) if is_token(name) => {
                    Ok(Self::Header(name.to_ascii_lowercase()))
                }
                Some(("cel", expression)) => Ok(Self::Expression(expression.trim().to_owned())),
                Some(_) | None => Err(format!("{} is not a key to count by", quote(text))),
            },
        })
    }

    fn encode(&self) -> Json {
        match self {
            Self::Client => "client".into(),
            Self::Subject => "subject".into(),
            Self::Route => "route".into(),
            Self::Operation => "operation".into(),
            Self::Header(name) => format!("header:{name}").into(),
            Self::Expression(expression) => format!("cel:{expression}").into(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        crate::schema::text_like("^(client|subject|route|operation|header:.+|cel:.+)$")
    }
}

/// Returns true for a valid name of a header.
fn is_token(name: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(token)
}
