//! `ws_security`: who asks is shown by a header of the SOAP message.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::values::{Credentials, Size, Spanned, Timeout};

keys! {
    /// Requires a WS-Security header in SOAP messages: a UsernameToken, a Timestamp, or both.
    pub struct WsSecurity {
        /// The passwords by name: `{ file: users.yaml }`, or `{ NAME: PASSWORD }`. Digests need the passwords themselves, not hashes of
        /// them. Without it no UsernameToken is required.
        users: Option<Spanned<Credentials>>,
        /// The forms in which a password is accepted: `digest`, or `text`.
        // A digest works once. A text shows the password to anyone who sees the message.
        passwords: Spanned<Vec<PasswordForm>> = Spanned::unwritten(vec![PasswordForm::Digest]),
        /// Whether a password as `text` needs `Nonce` and `Created`, by which a copy of the message is refused. A digest always does.
        nonce_required: Spanned<bool> = Spanned::unwritten(false),
        /// Whether messages need a Timestamp: `required`, `optional` (one that is there is verified), or `off`.
        timestamp: Spanned<TimestampCheck> = Spanned::unwritten(TimestampCheck::Optional),
        /// The longest age of a message by its Timestamp, and of a UsernameToken.
        // What Apache WSS4J has.
        max_age: Timeout = Timeout(Duration::from_secs(300)),
        /// How far the clock of a sender may differ.
        // The same.
        clock_skew: Duration = Duration::from_secs(60),
        /// Whether the upstream gets the header.
        // A service that needs no password could only lose it.
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
        /// One that is there is verified.
        Optional = "optional",
        /// It is not looked at.
        Off = "off",
    }
}
