//! The sockets for operators and probes, and the users who may operate the gateway.
//!
//! Owns the comparison of credentials. `admin` reads them from requests.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use export::LineReceiver;
use telemetry::access::LineQueue;
use telemetry::count::SharedCounter;
use tls::Subject;

/// The admin API.
#[derive(Debug, Clone, PartialEq)]
pub struct Admin {
    pub address: SocketAddr,
    pub tls: Option<AdminTls>,
    /// The users. If empty, everyone who can connect may do everything.
    pub users: Vec<AdminUser>,
    /// Origins of web pages that may call the API.
    pub origins: Vec<String>,
    /// Host names under which the API may be called, in addition to addresses and `localhost`, in lower case.
    pub hosts: Vec<String>,
    /// The number of configurations that the history keeps.
    pub history_max: usize,
}

/// The socket for health probes and metrics scrapers.
#[derive(Debug, Clone, PartialEq)]
pub struct StatusListener {
    pub address: SocketAddr,
    pub tls: Option<tls::Server>,
}

/// How gateways share one configuration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Follow {
    /// The number of gateways that try a change before the others adopt it.
    pub canary: usize,
    /// How long these gateways try it.
    pub hold: Duration,
    /// The increase of the share of server errors that ends a trial.
    pub error_rate: f64,
}

/// TLS of the admin API, and the files that it was made from.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminTls {
    pub server: tls::Server,
    pub files: Vec<PathBuf>,
    /// Whether every client needs a certificate.
    pub requires_certificates: bool,
}

/// One operator.
#[derive(Debug, Clone, PartialEq)]
pub struct AdminUser {
    pub name: String,
    pub proof: AdminProof,
    pub role: Role,
}

/// The credential of an operator.
#[derive(Clone, PartialEq)]
pub enum AdminProof {
    /// The SHA-256 of a bearer token.
    Token([u8; 32]),
    /// The subject of a client certificate.
    Subject(Subject),
}

/// The rights of an operator, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    Read,
    Write,
}

/// The destination of the audit log.
#[derive(Debug, Clone)]
pub enum AuditSink {
    /// The program's own log.
    Own,
    Stdout,
    Stderr,
    File(PathBuf),
    Receiver(Arc<AuditReceiver>),
}

/// A receiver of the audit log on the network. Its thread starts with the first line.
#[derive(Debug)]
pub struct AuditReceiver {
    receiver: LineReceiver,
    dropped: Arc<SharedCounter>,
    queue: Mutex<Option<LineQueue>>,
}

impl AuditReceiver {
    /// Creates a receiver. Lines that it loses are counted in `dropped`.
    pub fn new(receiver: LineReceiver, dropped: Arc<SharedCounter>) -> AuditReceiver {
        AuditReceiver { receiver, dropped, queue: Mutex::default() }
    }

    pub fn receiver(&self) -> &LineReceiver {
        &self.receiver
    }

    /// Queues a line for the receiver. The queue holds at most [`RING_BYTES`](telemetry::access::RING_BYTES) bytes.
    pub fn send(&self, line: &str) -> io::Result<()> {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = match &mut *queue {
            Some(queue) => queue,
            none => {
                let (name, open) = (self.receiver.name(), self.receiver.opening("audit"));
                none.insert(LineQueue::start(&name, open, self.dropped.clone())?)
            }
        };
        if queue.push(line) { Ok(()) } else { Err(io::Error::other("too many lines wait for it")) }
    }

    /// Sends the queued lines. Returns false if that took too long.
    pub fn close(&self) -> bool {
        let queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner).take();
        queue.is_none_or(LineQueue::close)
    }
}

impl Admin {
    /// Returns the user with this token. All users are compared, so that the time does not depend on the position of the match.
    pub fn user_of_token(&self, token: &str) -> Option<&AdminUser> {
        let AdminProof::Token(shown) = AdminProof::of_token(token) else { return None };
        let mut found = None;
        for user in &self.users {
            if let AdminProof::Token(known) = &user.proof
                && verify_slices_are_equal(known, &shown).is_ok()
            {
                found = Some(user);
            }
        }
        found
    }

    /// Returns the user with this certificate (DER). The TLS handshake has verified its chain.
    pub fn user_of_certificate(&self, der: &[u8]) -> Option<&AdminUser> {
        let shown = Subject::of_certificate(der)?;
        self.users.iter().find(|user| match &user.proof {
            AdminProof::Subject(known) => known.is_same(&shown),
            AdminProof::Token(_) => false,
        })
    }
}

impl AdminProof {
    /// Returns the proof for a bearer token as sent by a client.
    pub fn of_token(token: &str) -> AdminProof {
        // Harmless: a SHA-256 has 32 bytes.
        AdminProof::Token(digest(&SHA256, token.as_bytes()).as_ref().try_into().unwrap_or_default())
    }
}

impl std::fmt::Debug for AdminProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("AdminProof")
    }
}

impl Role {
    /// Returns the name of the role in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Write => "write",
        }
    }
}
