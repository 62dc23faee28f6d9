//! `websocket`: quotas, bounds and rights for the messages of WebSockets.

use super::rate_limit::{LimitBy, Requests};
use crate::decode::{keys, words};
use crate::values::{FilePath, Map, OneOrMore, Size, Spanned, Timeout};

keys! {
    /// Looks into WebSockets (RFC 6455): counts and bounds messages, both ways. No extension is agreed on. Other requests pass untouched.
    pub struct WebSocket {
        /// How many messages pass in the time of `per`, both ways together. Control frames are not counted.
        messages: Option<Spanned<Requests>>,
        /// How many bytes of messages pass in the time of `per`, both ways together.
        bytes: Option<Spanned<Size>>,
        /// The window, such as `1s` or `1m`. It begins with its first message.
        per: Option<Spanned<Timeout>>,
        /// More windows, all of which have to hold, such as `[{ messages: 10, per: 1s }, { bytes: 1GiB, per: 1d }]`.
        windows: Vec<Spanned<MessageWindow>> = Vec::new(),
        /// Whether the limits of the client's plan apply, as in the section `plans`, whose events are messages here; those written here are
        /// for clients without one.
        plans: bool = false,
        /// The plan of clients without one, such as `AsyncBronze`, instead of limits written here.
        default: Option<Spanned<String>>,
        /// Shares quotas with other gateways, through one of the `stores`.
        shared: Option<Spanned<String>>,
        /// What happens to messages over the quota: `refuse` drops them until the next window, and tells the client once a window;
        /// `close` closes the connection.
        // A client that sends too much at times is better off with its connection.
        on_limit: OnLimit = OnLimit::Refuse,
        /// The key that shares the quota and the number of connections: `subject`, `client`, `header:NAME`, `route`, `operation` or
        /// `cel:EXPRESSION`, as for `rate_limit`. If absent, the subject, and the client of a request without one.
        by: Option<Spanned<LimitBy>>,
        /// The largest message, either way; a larger one closes the connection with 1009. No limit if absent, 1 MiB for clients where there
        /// is a `schema`.
        message_bytes_max: Option<Size>,
        /// The longest time without a message, either way; closed with 1001 after. No limit if absent.
        idle: Option<Timeout>,
        /// The time between two pings to each side. A side that is silent for two of them is closed. No pings if absent.
        ping: Option<Timeout>,
        /// How many connections may be open at once; 429 above. No limit if absent.
        connections: Option<Requests>,
        /// A file with the JSON Schema of the client's messages. A text that does not match closes with 1007, binary with 1003.
        schema: Option<Spanned<FilePath>>,
        /// The paths below the route's prefix at which WebSockets are opened, such as `"/room/{id}": { path: "/r/{id}" }` or `"/logs/**"`; any path if absent.
        topics: Option<Spanned<Map<WebSocketTopic>>>,
    }
}

keys! {
    /// At most this many messages, and bytes of messages, in this time.
    pub struct MessageWindow {
        /// How many messages pass in the time of `per`.
        messages: Option<Requests>,
        /// How many bytes of messages pass in the time of `per`.
        bytes: Option<Size>,
        /// The time, such as `1s` or `1m`.
        per: Timeout,
    }
}

keys! {
    /// A path at which WebSockets are opened.
    pub struct WebSocketTopic {
        /// The path that the upstream sees, with `{NAME}` for parameters of the topic; as the route forwards it if absent.
        path: Option<Spanned<String>>,
        /// Scopes, one of which allows the client to send messages; anybody may if there are none.
        publish: OneOrMore<String> = OneOrMore(Vec::new()),
        /// Scopes, one of which allows the client to get messages; anybody may if there are none.
        subscribe: OneOrMore<String> = OneOrMore(Vec::new()),
        /// What clients may do here at all: `publish`, which is to send messages, `subscribe`, which is to get them, or both.
        allow: OneOrMore<TopicUse> = OneOrMore(vec![TopicUse::Publish, TopicUse::Subscribe]),
    }
}

words! {
    /// What clients do at a topic.
    pub enum TopicUse {
        /// They send messages.
        Publish = "publish",
        /// They get messages.
        Subscribe = "subscribe",
    }
}

words! {
    /// The fate of messages over a quota.
    pub enum OnLimit {
        /// They are dropped until the next window.
        Refuse = "refuse",
        /// The connection is closed.
        Close = "close",
    }
}
