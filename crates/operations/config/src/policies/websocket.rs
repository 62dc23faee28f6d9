//! `websocket`: quotas, bounds and permissions for the messages of WebSockets.

use super::rate_limit::{LimitBy, Requests};
use crate::decode::{keys, words};
use crate::values::{FilePath, Map, OneOrMore, Size, Spanned, Timeout};

keys! {
    /// Inspects WebSockets (RFC 6455): counts and limits messages in both directions. Extensions are not negotiated. Other requests pass
    /// unchanged.
    pub struct WebSocket {
        /// How many messages pass in the time of `per`, in both directions together. Control frames are not counted.
        messages: Option<Spanned<Requests>>,
        /// How many bytes of messages pass in the time of `per`, in both directions together.
        bytes: Option<Spanned<Size>>,
        /// The window, such as `1s` or `1m`. It begins with its first message.
        per: Option<Spanned<Timeout>>,
        /// More windows, all of which apply, such as `[{ messages: 10, per: 1s }, { bytes: 1GiB, per: 1d }]`.
        windows: Vec<Spanned<MessageWindow>> = Vec::new(),
        /// Whether the limits of the client's plan apply, as in the section `plans`, whose events are messages here; those written here are
        /// for clients without one.
        plans: bool = false,
        /// The plan of clients without one, such as `AsyncBronze`, instead of limits written here.
        default: Option<Spanned<String>>,
        /// Shares quotas with other gateways, through one of the `stores`.
        shared: Option<Spanned<String>>,
        /// What happens to messages over the quota: `refuse` drops them until the next window, and notifies the client once per window;
        /// `close` closes the connection.
        // A client that occasionally sends too much should keep its connection.
        on_limit: OnLimit = OnLimit::Refuse,
        /// The key that shares the quota and the number of connections: `subject`, `client`, `header:NAME`, `route`, `operation` or
        /// `cel:EXPRESSION`, as for `rate_limit`. If absent, the subject, and the client of a request without one; with `plans`, the
        /// subscription, if there is one.
        by: Option<Spanned<LimitBy>>,
        /// The largest message in either direction. A larger one closes the connection with 1009. No limit if absent, but 1 MiB for
        /// messages of clients if there is a `schema`.
        message_bytes_max: Option<Size>,
        /// The longest time without a message in either direction. Then the connection is closed with 1001. No limit if absent.
        idle: Option<Timeout>,
        /// The interval of pings to each side. If a side is silent for two intervals, the connection is closed. No pings if absent.
        ping: Option<Timeout>,
        /// How many connections may be open at once; 429 above. No limit if absent.
        connections: Option<Requests>,
        /// A file with the JSON Schema of the client's messages. A text that does not match closes the connection with 1007, a binary
        /// message with 1003.
        schema: Option<Spanned<FilePath>>,
        /// The paths below the route's prefix at which WebSockets are opened, such as `"/room/{id}": { path: "/r/{id}" }` or `"/logs/**"`;
        /// any path if absent.
        topics: Option<Spanned<Map<WebSocketTopic>>>,
    }
}

keys! {
    /// A maximum number of messages, and bytes of messages, per time.
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
        /// The path that is sent to the upstream, with `{NAME}` for parameters of the topic. If absent, it is as the route forwards it.
        path: Option<Spanned<String>>,
        /// Scopes of which the client needs one to send messages; none needed if empty.
        publish: OneOrMore<String> = OneOrMore(Vec::new()),
        /// Scopes of which the client needs one to receive messages; none needed if empty.
        subscribe: OneOrMore<String> = OneOrMore(Vec::new()),
        /// What clients may do here: `publish` (send messages), `subscribe` (receive messages), or both.
        allow: OneOrMore<TopicUse> = OneOrMore(vec![TopicUse::Publish, TopicUse::Subscribe]),
    }
}

words! {
    /// What clients do at a topic.
    pub enum TopicUse {
        /// They send messages.
        Publish = "publish",
        /// They receive messages.
        Subscribe = "subscribe",
    }
}

words! {
    /// What happens to messages over a quota.
    pub enum OnLimit {
        /// They are dropped until the next window.
        Refuse = "refuse",
        /// The connection is closed.
        Close = "close",
    }
}
