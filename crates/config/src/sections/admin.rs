//! `admin` and `status`: the sockets of operators and probes.

use crate::decode::{keys, words};
use crate::values::{Address, Between, FilePath, Map, Secret, Spanned};

keys! {
    /// The admin API's socket, for operators.
    pub struct Admin {
        /// An address and a port, such as `127.0.0.1:9901`. One that is not loopback needs `users`, `tls: { client_ca }` or `open: true`.
        address: Spanned<Address>,
        /// Makes the socket speak TLS; plain without it.
        tls: Option<Spanned<AdminTls>>,
        /// Who may use the API, by name. Without it whoever can connect is an operator who may change everything.
        users: Map<Spanned<AdminUser>> = Map::default(),
        /// Web pages that may call the API from a browser, such as `https://ops.example.com`; by default those of the API itself alone.
        // A page that is not listed could use the network of its reader.
        origins: Vec<Spanned<String>> = Vec::new(),
        /// Names by which the API is called, such as `gateway.example.com`; by default addresses and `localhost` alone.
        // Any other name could be one that a web page points at this machine.
        hosts: Vec<Spanned<String>> = Vec::new(),
        /// Lets everybody who can connect to an address that is not loopback operate the gateway. There is a warning at each start.
        open: bool = false,
        /// How many configurations that served are kept in `history/` beside the configuration; 0 keeps none.
        // A few megabytes at most, and weeks of changes of most gateways.
        history: Between<0, 10_000> = const { Between::new(50) },
    }
}

keys! {
    /// TLS of the admin API or of `status`.
    pub struct AdminTls {
        /// The PEM file with the certificate and its chain.
        certificate: Spanned<FilePath>,
        /// The PEM file with the certificate's private key.
        key: Spanned<FilePath>,
        /// A PEM file with the authorities of client certificates. A client has to show a certificate from one of them; where users have
        /// tokens it may show one.
        client_ca: Option<Spanned<FilePath>>,
    }
}

keys! {
    /// One operator: exactly one of `token`, `token_sha256` and `subject`.
    pub struct AdminUser {
        /// The bearer token, best `${file:PATH}`.
        token: Option<Spanned<Secret>>,
        /// The SHA-256 of the bearer token, as 64 hexadecimal digits.
        token_sha256: Option<Spanned<Secret>>,
        /// The subject of the client certificate, such as `CN=ops,O=Tide` (RFC 4514), in either order.
        subject: Option<Spanned<String>>,
        /// `read` sees everything but secrets and the bodies of messages, `write` also changes.
        // The lesser one unasked.
        role: AdminRole = AdminRole::Read,
    }
}

words! {
    /// The rights of an operator.
    pub enum AdminRole {
        /// Sees everything but secrets and the bodies of messages.
        Read = "read",
        /// Also changes.
        Write = "write",
    }
}

keys! {
    /// A socket for probes and scrapers: `/healthz`, `/readyz` and `/metrics` alone, without a credential.
    pub struct Status {
        /// An address and a port, such as `0.0.0.0:9902`.
        address: Spanned<Address>,
        /// Makes the socket speak TLS; plain without it.
        tls: Option<Spanned<StatusTls>>,
    }
}

keys! {
    /// TLS of `status`.
    pub struct StatusTls {
        /// The PEM file with the certificate and its chain.
        certificate: Spanned<FilePath>,
        /// The PEM file with the certificate's private key.
        key: Spanned<FilePath>,
    }
}
