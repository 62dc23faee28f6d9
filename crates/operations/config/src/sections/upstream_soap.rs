//! `upstreams.NAME.ws_security` and `ws_addressing`: header blocks of SOAP messages to a service.

use crate::decode::{keys, words};
use crate::policies::PasswordForm;
use crate::values::{Secret, Size, Spanned, Timeout};

keys! {
    /// The WS-Security header that SOAP messages to the service get, in place of an existing one.
    pub struct UpstreamWsSecurity {
        /// The name in a UsernameToken; no UsernameToken if absent.
        username: Option<Spanned<String>>,
        /// The password of that name.
        password: Option<Spanned<Secret>>,
        /// How the password is sent: `digest`, with a nonce and the time, or `text`.
        // A digest does not reveal the password to anyone who sees the message.
        password_type: PasswordForm = PasswordForm::Digest,
        /// How long a message is valid, such as `5m`, written as a Timestamp; no Timestamp if absent.
        timestamp: Option<Spanned<Timeout>>,
        /// Whether the service must refuse a message if it does not understand the header.
        // The default of Apache WSS4J.
        must_understand: bool = true,
        /// The largest message; 413 above.
        // As for the policies over XML.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

keys! {
    /// The WS-Addressing header that SOAP messages to the service get, in place of an existing one: `To`, `Action`, `MessageID` and an
    /// anonymous `ReplyTo`.
    pub struct UpstreamWsAddressing {
        /// The version: `final` (1.0 of August 2005) or `submission` (August 2004).
        version: WsAddressingVersion = WsAddressingVersion::Final,
        /// The address of the service; that of the first target with the path of the request if absent.
        to: Option<Spanned<String>>,
        /// The action of messages without one.
        action: Option<Spanned<String>>,
    }
}

words! {
    /// A version of WS-Addressing.
    pub enum WsAddressingVersion {
        /// 1.0, of August 2005.
        Final = "final",
        /// The submission of August 2004.
        Submission = "submission",
    }
}
