//! `basic`: authenticates clients by name and password (RFC 7617).

use crate::decode::keys;
use crate::values::{Credentials, Spanned};

keys! {
    /// Requires a name and its password (HTTP Basic).
    pub struct Basic {
        /// The passwords by name: `{ file: users.yaml }`, or `{ NAME: PASSWORD }`. A hash is better than a password: bcrypt (`$2y$..`),
        /// Argon2 (`$argon2id$..`), `{SHA}..` or `sha256:HEX`.
        users: Spanned<Credentials>,
        /// The realm in `WWW-Authenticate`, which browsers show.
        realm: Spanned<String> = Spanned::unwritten("tidegate".to_owned()),
        /// Whether the upstream sees the password.
        // A service that does not need the password could only leak it.
        forward: bool = false,
        /// Whether the name and the password may also be in `Proxy-Authorization`. It counts before `Authorization` if it names a known
        /// user.
        // Clients send it to proxies, and few take a gateway for one.
        proxy_authorization: bool = false,
    }
}
