//! `admin` and `status`: the sockets of operators and probes.

use crate::decode::{keys, words};
use crate::values::{Address, Between, FilePath, Map, Secret, Spanned};

keys! {
    /// The admin API's socket, for operators.
    pub struct Admin {
        /// An address and a port, such as `127.0.0.1:9901`. An address other than loopback needs `users`, `tls: { client_ca }` or `open:
        /// true`.
        address: Spanned<Address>,
        /// TLS for the socket; plain HTTP if absent.
        tls: Option<Spanned<AdminTls>>,
        /// The users of the API, by name. If absent, everyone who can connect may change everything.
        users: Map<Spanned<AdminUser>> = Map::default(),
        /// Origins of web pages that may call the API from a browser, such as `https://ops.example.com`; by default only that of the API
        /// itself.
        // Otherwise, any page could use its reader's network access to the API.
        origins: Vec<Spanned<String>> = Vec::new(),
        /// Host names under which the API may be called, such as `gateway.example.com`; by default only addresses and `localhost`.
        // Any other name could be one that a web page points to this machine (DNS rebinding).
        hosts: Vec<Spanned<String>> = Vec::new(),
        /// Whether everyone who can connect to an address other than loopback may operate the gateway. This logs a warning at each start.
        open: bool = false,
        /// How many previous configurations are kept in `history/` next to the configuration; 0 keeps none.
        // A few megabytes at most, which is weeks of changes for most gateways.
        history: Between<0, 10_000> = const { Between::new(50) },
    }
}

keys! {
    /// TLS of the admin API.
    pub struct AdminTls {
        /// The PEM file with the certificate and its chain.
        certificate: Spanned<FilePath>,
        /// The PEM file with the certificate's private key.
        key: Spanned<FilePath>,
        /// A PEM file with the authorities of client certificates. A client must present a certificate from one of them. If users have
        /// tokens, certificates are optional.
        client_ca: Option<Spanned<FilePath>>,
    }
}

keys! {
    /// One operator: exactly one of `token`, `token_sha256` and `subject`.
    pub struct AdminUser {
        /// The bearer token, preferably as `${file:PATH}`.
        token: Option<Spanned<Secret>>,
        /// The SHA-256 of the bearer token, as 64 hexadecimal digits.
        token_sha256: Option<Spanned<Secret>>,
        /// The subject of the client certificate, such as `CN=ops,O=Tide` (RFC 4514), in either order.
        subject: Option<Spanned<String>>,
        /// `read` can see everything except secrets and the bodies of messages, `write` can also make changes.
        // The fewest rights by default.
        role: AdminRole = AdminRole::Read,
    }
}

words! {
    /// The rights of an operator.
    pub enum AdminRole {
        /// Can see everything except secrets and the bodies of messages.
        Read = "read",
        /// Can also make changes.
        Write = "write",
    }
}

keys! {
    /// A socket for probes and metrics scrapers: only `/healthz`, `/readyz` and `/metrics`, without authentication.
    pub struct Status {
        /// An address and a port, such as `0.0.0.0:9902`.
        address: Spanned<Address>,
        /// TLS for the socket; plain HTTP if absent.
        tls: Option<Spanned<StatusTls>>,
    }
}

keys! {
    /// TLS of `status` or of the catalog.
    pub struct StatusTls {
        /// The PEM file with the certificate and its chain.
        certificate: Spanned<FilePath>,
        /// The PEM file with the certificate's private key.
        key: Spanned<FilePath>,
    }
}
