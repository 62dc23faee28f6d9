//! `basic`: who asks is shown by a name and a password (RFC 7617).

use crate::decode::keys;
use crate::values::{Credentials, Spanned};

keys! {
    /// Takes only requests with a name and its password.
    pub struct Basic {
        /// Who has which password: `{ file: users.yaml }`, or `{ NAME: PASSWORD }`. Better than a password is its hash: bcrypt
        /// (`$2y$..`), Argon2 (`$argon2id$..`), `{SHA}..` or `sha256:HEX`.
        users: Spanned<Credentials>,
        /// The realm in `WWW-Authenticate`, which browsers show.
        realm: Spanned<String> = Spanned::unwritten("tidegate".to_owned()),
        /// Whether the upstream sees the password.
        // A service that needs no password could only lose it.
        forward: bool = false,
    }
}
