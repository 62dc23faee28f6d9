//! `ws_security`: authenticates clients by a header of the SOAP message.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Credentials, Size, Spanned, Timeout};

keys! {
    /// Requires a WS-Security header in SOAP messages: a UsernameToken, a Timestamp, or both.
    pub struct WsSecurity {
        /// The passwords by name: `{ file: users.yaml }`, or `{ NAME: PASSWORD }`. Digests need plain passwords, not hashes. If absent, no
        /// UsernameToken is required.
        users: Option<Spanned<Credentials>>,
        /// The forms in which a password is accepted: `digest`, or `text`.
        // A digest can be used only once. A text reveals the password to anyone who sees the message.
        passwords: Spanned<Vec<PasswordForm>> = Spanned::unwritten(vec![PasswordForm::Digest]),
        /// Whether a `text` password needs `Nonce` and `Created`, by which replays of a message are refused. A digest always needs them.
        nonce_required: Spanned<bool> = Spanned::unwritten(false),
        /// Whether messages need a Timestamp: `required`, `optional` (verified if present), or `off`.
        timestamp: Spanned<TimestampCheck> = Spanned::unwritten(TimestampCheck::Optional),
        /// The longest age of a message by its Timestamp, and of a UsernameToken.
        // The default of Apache WSS4J.
        max_age: Timeout = Timeout(Duration::from_secs(300)),
        /// The maximum difference between the sender's and the gateway's clock.
        // The default of Apache WSS4J.
        clock_skew: Duration = Duration::from_secs(60),
        /// Whether the header is forwarded to the upstream.
        // A service that does not need the password could only leak it.
        forward: bool = false,
        /// The largest message; 413 above.
        // As for `soap`.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

words! {
    /// A form of the password in a UsernameToken.
    pub enum PasswordForm {
        /// A digest of nonce, time and password.
        Digest = "digest",
        /// The password itself.
        Text = "text",
    }
}

words! {
    /// Whether a Timestamp is verified.
    pub enum TimestampCheck {
        /// Every message needs one.
        Required = "required",
        /// A Timestamp is verified if present.
        Optional = "optional",
        /// It is ignored.
        Off = "off",
    }
}
