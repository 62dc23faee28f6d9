//! Small origin servers to put behind a gateway: for `tidegate backend`, the demo, tests and benches.
//!
//! Owns listening, TLS, HTTP/1 and HTTP/2 framing and the choice of the answer. A request enters in [`serve()`] and is answered
//! by the module named after its [`Kind`]. It is never a proxy and has no configuration file, and keeps nothing from one
//! request to the next, except for the counts of a webhook. Test tokens are minted in [`token`], which serves nothing.

#![forbid(unsafe_code)]

pub mod amount;
mod body;
mod calculator;
mod echo;
pub mod fast_echo;
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
    /// The request's body, or a text that describes the request when it has none.
    Echo,
    /// The paths of httpbin.org that tests of gateways use, and `/size/350B`.
    Httpbin,
    /// A stream of server-sent events.
    Sse,
    /// A WebSocket that sends each message back reversed.
    Reverse,
    /// A SOAP service that computes.
    Calculator,
    /// An interceptor service, as Choreo Connect calls it.
    Interceptor,
    /// A subscriber of a hub.
    Webhook,
}

/// The settings of a backend.
#[derive(Clone, Debug)]
pub struct Options {
    /// The address to listen on. Port 0 takes a free one, and `serve` reports it.
    pub address: SocketAddr,
    /// Sent as `x-backend` with every answer, so that balancing can be seen.
    pub name: Option<String>,
    /// The delay of every answer. It does not delay other requests.
    pub delay: Duration,
    /// Plain TCP if absent.
    pub tls: Option<Tls>,
    /// HTTP/2 by ALPN on TLS and by prior knowledge on plain TCP, beside HTTP/1.
    pub http2: bool,
    /// The answers of an interceptor; other kinds ignore them.
    pub answers: Answers,
    /// What a webhook knows and counts; other kinds ignore it.
    pub webhook: Webhook,
}

impl Kind {
    /// Every kind, in the order `--help` lists them.
    pub const ALL: [Self; 7] = [
        Self::Echo,
        Self::Httpbin,
        Self::Sse,
        Self::Reverse,
        Self::Calculator,
        Self::Interceptor,
        Self::Webhook,
    ];

    /// The name on the command line.
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
