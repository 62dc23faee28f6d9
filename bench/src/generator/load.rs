//! A load as a value: its target, its work, each request, and the right reply.
//!
//! It is plain data that can be sent to another machine. It opens no socket and reads no clock.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text::Text;

/// What one generator sends, or its share if several send together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// The address to connect to, and how.
    pub target: Target,
    /// The work.
    pub work: Work,
    /// Time from the start. What begins within it belongs to the warm-up.
    pub warm_up: Duration,
    /// Time from the start, including the warm-up. No request begins after it, but those in progress may still be answered.
    pub duration: Duration,
    /// The longest time for a connection, with its TLS handshake.
    pub connect_max: Duration,
    /// The longest time from the first byte of a request to the last byte of its reply.
    pub response_max: Duration,
    /// Two loads with the same seed send the same bytes.
    #[serde(default)]
    pub seed: u64,
    /// Threads that send; the default is one.
    #[serde(default = "one")]
    pub threads: u32,
    /// Which share of a load this is.
    #[serde(default)]
    pub share: Share,
}

/// The address to connect to, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The gateway's listener.
    pub address: SocketAddr,
    /// The value of `Host`.
    pub host: String,
    /// TLS, or `None` for plain text.
    #[serde(default)]
    pub tls: Option<TlsTarget>,
}

/// TLS to the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsTarget {
    /// The server name for which a certificate is requested.
    pub name: String,
    /// The only trusted certificate authorities, as PEM text. Without them every certificate is accepted, as the documents' load tools do.
    #[serde(default)]
    pub authorities: Option<String>,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// HTTP/1.1 requests of users who each wait for the reply.
    Requests(Requests),
    /// Event streams that are read.
    Sse(Sse),
    /// WebSockets whose messages come back reversed.
    Websocket(WebSocket),
    /// Subscribers of a hub, and a publisher.
    Websub(WebSub),
    /// Calls over HTTP/2 whose messages come back.
    Calls(Calls),
}

/// HTTP/1.1 requests of users who each wait for the reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Groups that run at the same time, each with its own users.
    pub groups: Vec<Group>,
    /// Values that [`Text`] refers to, by name.
    #[serde(default)]
    pub tables: BTreeMap<String, Table>,
}

/// Users who all do the same work.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// The ramps, one after another. The first begins with no users. After the last one, its users remain.
    pub stages: Vec<Stage>,
    /// The pause of a user between a reply and the next request.
    #[serde(default)]
    pub think: Duration,
    /// The requests that the users send in turn, each as often as its weight says.
    pub requests: Vec<Template>,
}

/// A change of the number of users, linearly, to `users` in this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stage {
    /// The number of users at the end of the stage.
    pub users: u32,
    /// The length of the stage. If it is zero, all users begin at once.
    pub over: Duration,
}

/// Requests that differ only in the placeholders of their [`Text`]s.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The name under which its samples are counted. Several templates may share it.
    pub label: String,
    /// How often it is sent, relative to the other templates of the group.
    #[serde(default = "one")]
    pub weight: u32,
    /// Any method.
    pub method: String,
    /// The path with the query.
    pub path: Text,
    /// Names and values. `Host` and `Content-Length` are written by the generator.
    #[serde(default)]
    pub headers: Vec<(String, Text)>,
    /// The body; empty if there is none.
    #[serde(default)]
    pub body: Text,
    /// The right reply. Any other is an error.
    #[serde(default)]
    pub expected: Expected,
}

/// The conditions for a right reply; all must hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Expected {
    /// The status code.
    pub status: u16,
    /// Header fields with exactly this value.
    pub headers: Vec<(String, String)>,
    /// The body after decompression.
    pub body: ExpectedBody,
}

/// The condition for the body of a reply, after decompression of gzip.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpectedBody {
    /// Anything.
    #[default]
    Any,
    /// The body has this length, before decompression.
    Bytes(u64),
    /// The body contains this text.
    Contains(Text),
    /// The body is this text.
    Equals(Text),
    /// The body is the request's.
    Echo,
    /// The body contains the request's.
    ContainsRequest,
}

/// Rows of values. All values in one request come from the same row, and so do those in its expected reply.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// Each row has a value for each column.
    pub rows: Vec<Vec<String>>,
    /// What determines the row.
    #[serde(default)]
    pub by: RowBy,
}

/// What determines the row of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RowBy {
    /// Requests take the rows in turn.
    #[default]
    Request,
    /// Each user always has the same row.
    User,
}

/// Event streams that are read, each on its own connection. The event source sends `id: 1`, `id: 2` and so on, and ends the stream after
/// the last event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sse {
    /// Number of streams that are open at the same time.
    pub connections: u32,
    /// The time over which they are opened.
    pub ramp: Duration,
    /// The path, with a query that requests the rate and the size of events.
    pub path: Text,
    /// Names and values.
    #[serde(default)]
    pub headers: Vec<(String, Text)>,
    /// How many events each stream has, beginning with the id 1.
    pub events: u64,
    /// Whether a stream may begin with any id, and ends with the load. Events before its first one do not count as lost.
    #[serde(default)]
    pub is_shared: bool,
}

/// Calls over HTTP/2 by prior knowledge. Each sends a unique message, which must be sent back. Then the next one begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    /// Number of calls in progress.
    pub calls: u32,
    /// Number of calls in progress on each connection.
    pub streams: u32,
    /// The path with the query.
    pub path: String,
    /// The size of a message.
    pub message_bytes: u32,
    /// Whether they are unary calls of gRPC, which end with `grpc-status: 0`.
    pub is_grpc: bool,
}

/// WebSockets whose messages come back reversed, character by character.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSocket {
    /// Number of connections that are attempted.
    pub connections: u32,
    /// The time over which they are opened. Messages are sent after it, even within the warm-up.
    pub ramp: Duration,
    /// Names and values of the handshake.
    #[serde(default)]
    pub headers: Vec<(String, Text)>,
    /// The path with the query.
    pub path: Text,
    /// Messages on each connection in each second.
    pub events_per_second: u32,
    /// The size of a message, at least 16.
    pub message_bytes: u32,
}

/// Subscribers of a hub, and a publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WebSub {
    /// Number of subscribers. Each has its own callback and its own secret.
    pub subscribers: u32,
    /// The address at which callbacks listen, without the port. The hub must reach it.
    pub callback: std::net::IpAddr,
    /// The hub's path; `POST` subscribes.
    pub path: String,
    /// The path, with the query, to which events are published.
    pub publish: String,
    /// The topic.
    pub topic: String,
    /// Names and values of the headers of subscriptions and of published events.
    #[serde(default)]
    pub headers: Vec<(String, Text)>,
    /// The size of an event.
    pub message_bytes: u32,
    /// Number of events, one after another. The next one is published when the previous one has been delivered to all, or is late.
    pub events: u32,
}

/// The share of a load that one of several generators has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    /// The number of this generator, from 0.
    pub part: u32,
    /// The number of generators.
    pub of: u32,
}

impl Default for Share {
    fn default() -> Share {
        Share { part: 0, of: 1 }
    }
}

impl Default for Expected {
    fn default() -> Expected {
        Expected { status: 200, headers: Vec::new(), body: ExpectedBody::Any }
    }
}

fn one() -> u32 {
    1
}

/// Maximum number of connections. With more, one machine reaches the limits of ports and descriptors.
const CONNECTIONS_MAX: u64 = 60_000;
const THREADS_MAX: u32 = 256;
/// Maximum duration, far above that of the longest document (24 hours).
const DURATION_MAX: Duration = Duration::from_secs(31 * 24 * 3600);
const TIMEOUT_MAX: Duration = Duration::from_secs(3600);
/// Maximum size of a message. RFC 6455 has no limit, and the reference's messages have at most 500 bytes.
const MESSAGE_BYTES_MAX: u32 = 1 << 20;
/// Maximum number of streams on a connection, which is also the most that HTTP/2 servers usually permit.
const STREAMS_MAX: u32 = 1000;

impl Load {
    /// Returns the mistakes in the load, or an empty list if it can run.
    #[must_use]
    pub fn complaints(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut must = |holds: bool, what: String| {
            if !holds {
                wrong.push(what);
            }
        };
        must(self.warm_up < self.duration, "`warm_up` must be shorter than `duration`".to_owned());
        must(self.duration <= DURATION_MAX, "`duration` must be at most 31 days".to_owned());
        for (name, time) in [("connect_max", self.connect_max), ("response_max", self.response_max)]
        {
            let good = time > Duration::ZERO && time <= TIMEOUT_MAX;
            must(good, format!("`{name}` must be above zero and at most an hour"));
        }
        let threads = (1..=THREADS_MAX).contains(&self.threads);
        must(threads, format!("`threads` must be from 1 to {THREADS_MAX}"));
        must(self.share.part < self.share.of, "`share.part` must be below `share.of`".to_owned());
        let connections = self.connections();
        let some = (1..=CONNECTIONS_MAX).contains(&connections);
        must(some, format!("{connections} connections: they must be from 1 to {CONNECTIONS_MAX}"));
        must(is_field_value(&self.target.host), "`target.host` must be a host".to_owned());
        match &self.work {
            Work::Requests(requests) => requests.check(&mut must),
            Work::Sse(sse) => {
                must(sse.events > 0, "`events` must be above 0".to_owned());
                check_texts(&sse.path, &sse.headers, &BTreeMap::new(), &mut must);
            }
            Work::Websocket(socket) => {
                let sizes = 16..=MESSAGE_BYTES_MAX;
                let size = sizes.contains(&socket.message_bytes);
                must(size, format!("`message_bytes` must be from 16 to {MESSAGE_BYTES_MAX}"));
                let rate = (1..=10_000).contains(&socket.events_per_second);
                must(rate, "`events_per_second` must be from 1 to 10000".to_owned());
                must(socket.ramp < self.duration, "`ramp` must end before the load".to_owned());
                check_texts(&socket.path, &socket.headers, &BTreeMap::new(), &mut must);
            }
            Work::Websub(hub) => {
                must(hub.events > 0, "`events` must be above 0".to_owned());
                let size = (1..=MESSAGE_BYTES_MAX).contains(&hub.message_bytes);
                must(size, format!("`message_bytes` must be from 1 to {MESSAGE_BYTES_MAX}"));
                for path in [&hub.path, &hub.publish] {
                    must(is_target(path), format!("`{path}` must begin with / and have no space"));
                }
                check_texts(&Text::default(), &hub.headers, &BTreeMap::new(), &mut must);
            }
            Work::Calls(calls) => {
                let size = (1..=MESSAGE_BYTES_MAX).contains(&calls.message_bytes);
                must(size, format!("`message_bytes` must be from 1 to {MESSAGE_BYTES_MAX}"));
                let streams = (1..=STREAMS_MAX).contains(&calls.streams);
                must(streams, format!("`streams` must be from 1 to {STREAMS_MAX}"));
                let path = &calls.path;
                must(is_target(path), format!("`{path}` must begin with / and have no space"));
                let clear = self.target.tls.is_none();
                must(clear, "calls go to a listener without TLS".to_owned());
            }
        }
        wrong
    }

    /// Returns the number of connections when all groups have the most users.
    #[must_use]
    pub fn connections(&self) -> u64 {
        match &self.work {
            Work::Requests(requests) => {
                requests.groups.iter().map(|group| u64::from(group.users_max())).sum()
            }
            Work::Sse(sse) => sse.connections.into(),
            Work::Websocket(socket) => socket.connections.into(),
            Work::Websub(hub) => hub.subscribers.into(),
            Work::Calls(calls) => calls.calls.into(),
        }
    }

    /// Returns the share of one of `of` generators that run together. `part` counts from 0.
    ///
    /// # Errors
    ///
    /// If users or connections do not divide evenly, or if the load is already a share.
    pub fn part(&self, part: u32, of: u32) -> Result<Load, String> {
        if part >= of || self.share != Share::default() {
            return Err(format!("part {part} of {of} does not exist"));
        }
        let divide = |count: &mut u32, what: &str| match *count % of {
            0 => {
                *count /= of;
                Ok(())
            }
            _ => Err(format!("{count} {what} do not divide evenly by {of} load servers")),
        };
        let mut load = self.clone();
        load.share = Share { part, of };
        match &mut load.work {
            Work::Requests(requests) => {
                for group in &mut requests.groups {
                    divide(&mut group.users_max(), "users")?;
                    // During a ramp, the shares may differ by one user.
                    let until =
                        |part: u32, users: u32| u64::from(users) * u64::from(part) / u64::from(of);
                    for stage in &mut group.stages {
                        let users = until(part + 1, stage.users) - until(part, stage.users);
                        stage.users = u32::try_from(users).unwrap_or(stage.users);
                    }
                }
            }
            Work::Sse(sse) => divide(&mut sse.connections, "connections")?,
            Work::Websocket(socket) => divide(&mut socket.connections, "connections")?,
            Work::Calls(calls) => divide(&mut calls.calls, "calls")?,
            Work::Websub(_) if of > 1 => {
                return Err("a hub's load runs from one load server: each event is published once"
                    .to_owned());
            }
            Work::Websub(_) => {}
        }
        Ok(load)
    }
}

impl Requests {
    fn check(&self, must: &mut impl FnMut(bool, String)) {
        must(!self.groups.is_empty(), "`groups` must have a group".to_owned());
        for (name, table) in &self.tables {
            let even = table.rows.iter().all(|row| row.len() == table.columns.len());
            let some = !table.rows.is_empty() && !table.columns.is_empty();
            must(
                even && some,
                format!("table `{name}`: each row must have a value for each column"),
            );
        }
        for group in &self.groups {
            must(!group.stages.is_empty(), "`stages` must have a stage".to_owned());
            must(!group.requests.is_empty(), "`requests` must have a request".to_owned());
            for request in &group.requests {
                request.check(&self.tables, must);
            }
        }
    }
}

impl Group {
    /// Returns the largest number of users at any time.
    #[must_use]
    pub fn users_max(&self) -> u32 {
        self.stages.iter().map(|stage| stage.users).max().unwrap_or_default()
    }

    /// Returns the number of users at this time from the start.
    #[must_use]
    pub fn users_at(&self, at: Duration) -> f64 {
        let (mut begin, mut users) = (Duration::ZERO, 0.0);
        for stage in &self.stages {
            let (end, target) = (begin + stage.over, f64::from(stage.users));
            if at < end {
                let part = (at - begin).as_secs_f64() / stage.over.as_secs_f64();
                return users + (target - users) * part;
            }
            (begin, users) = (end, target);
        }
        users
    }

    /// Returns the time of the last change in the number of users.
    #[must_use]
    pub fn ramp_end(&self) -> Duration {
        let (mut at, mut end, mut users) = (Duration::ZERO, Duration::ZERO, 0);
        for stage in &self.stages {
            at += stage.over;
            if stage.users != users {
                (end, users) = (at, stage.users);
            }
        }
        end
    }
}

impl Template {
    fn check(&self, tables: &BTreeMap<String, Table>, must: &mut impl FnMut(bool, String)) {
        let label = &self.label;
        must(self.weight > 0, format!("`{label}`: `weight` must be above 0"));
        let token = |text: &str| !text.is_empty() && text.bytes().all(is_token);
        must(token(&self.method), format!("`{label}`: `{}` is not a method", self.method));
        check_texts(&self.path, &self.headers, tables, must);
        let mut refers = |text: &Text| {
            for wrong in text.complaints(tables) {
                must(false, format!("`{label}`: {wrong}"));
            }
        };
        refers(&self.body);
        if let ExpectedBody::Contains(text) | ExpectedBody::Equals(text) = &self.expected.body {
            refers(text);
        }
        let status = (100..=599).contains(&self.expected.status);
        must(status, format!("`{label}`: the expected status must be from 100 to 599"));
    }
}

fn check_texts(
    path: &Text,
    headers: &[(String, Text)],
    tables: &BTreeMap<String, Table>,
    must: &mut impl FnMut(bool, String),
) {
    for text in headers.iter().map(|(_, value)| value).chain([path]) {
        for wrong in text.complaints(tables) {
            must(false, wrong);
        }
        let values = text.values(tables);
        must(
            values.iter().all(|value| is_field_value(value)),
            format!("`{text}` has control characters"),
        );
    }
    let target = path.values(tables).iter().all(|value| !value.contains(' '));
    must(target, format!("`{path}` must have no space"));
    for (name, _) in headers {
        must(!name.is_empty() && name.bytes().all(is_token), format!("`{name}` is not a header"));
        let ours = ["host", "content-length", "transfer-encoding", "connection"];
        let ours = ours.contains(&name.to_ascii_lowercase().as_str());
        must(!ours, format!("`{name}` is written by the generator"));
    }
}

fn is_target(text: &str) -> bool {
    text.starts_with('/') && is_field_value(text) && !text.contains(' ')
}

fn is_field_value(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_control())
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests;
