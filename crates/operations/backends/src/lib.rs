//! Small origin servers to which a gateway can forward requests. `tidegate backend`, the demo, tests and benches use them.
//!
//! Owns listening, TLS, HTTP/1 and HTTP/2 framing, and the choice of the answer. A request enters in [`serve()`] and is answered by the
//! module named after its [`Kind`]. It is never a proxy, has no configuration file, and keeps no state between requests, except for the
//! counts of a webhook. Test tokens are made in [`token`], which serves nothing.

#![forbid(unsafe_code)]

pub mod amount;
mod body;
mod calculator;
mod echo;
pub mod fast;
mod httpbin;
mod interceptor;
mod reverse;
mod serve;
mod sse;
mod thread;
mod tls;
pub mod token;
mod webhook;

pub use interceptor::Answers;
pub use serve::serve;
pub use thread::{Backend, spawn_thread};
pub use tls::{Certificate, Tls};
pub use webhook::Webhook;

use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// The kind of a backend's answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends back the request's body, or a text that describes a request without one.
    Echo,
    /// The paths of httpbin.org that tests of gateways use, and `/size/350B`.
    Httpbin,
    /// Sends a stream of server-sent events.
    Sse,
    /// A WebSocket that sends each message back reversed.
    Reverse,
    /// A SOAP service with arithmetic operations.
    Calculator,
    /// An interceptor service for Choreo Connect's contract.
    Interceptor,
    /// A subscriber of a hub.
    Webhook,
}

/// The settings of a backend.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on. With port 0, a free port is chosen, and `serve` reports it.
    pub address: SocketAddr,
    /// The value of `x-backend` in every answer, so that balancing is visible.
    pub name: Option<String>,
    /// The delay of every answer. It does not delay other requests.
    pub delay: Duration,
    /// The TLS settings, or `None` for plain TCP.
    pub tls: Option<Tls>,
    /// Whether HTTP/2 is served in addition to HTTP/1: by ALPN on TLS, and by prior knowledge on plain TCP.
    pub http2: bool,
    /// The answers of an interceptor. Other kinds ignore them.
    pub answers: Answers,
    /// The state of a webhook. Other kinds ignore it.
    pub webhook: Webhook,
}

impl Kind {
    /// All kinds, in the order of `--help`.
    pub const ALL: [Self; 7] = [
        Self::Echo,
        Self::Httpbin,
        Self::Sse,
        Self::Reverse,
        Self::Calculator,
        Self::Interceptor,
        Self::Webhook,
    ];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Httpbin => "httpbin",
            Self::Sse => "sse",
            Self::Reverse => "reverse",
            Self::Calculator => "calculator",
            Self::Interceptor => "interceptor",
            Self::Webhook => "webhook",
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|kind| kind.name() == word).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("no backend is called `{word}`; there are {names}")
        })
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: SocketAddr::from(([127, 0, 0, 1], 0)),
            name: None,
            delay: Duration::ZERO,
            tls: None,
            http2: true,
            answers: Answers::default(),
            webhook: Webhook::default(),
        }
    }
}

#[cfg(test)]
mod tests;
