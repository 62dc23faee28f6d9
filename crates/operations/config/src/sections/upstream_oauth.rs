//! `upstreams.NAME.oauth`: how the gateway gets an access token for a service.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::sections::UpstreamTls;
use crate::values::{Map, Secret, Spanned, Timeout, WebUrl};

keys! {
    /// An access token for the service, by OAuth 2.0 client credentials. Each request gets it as `Authorization: Bearer`.
    pub struct UpstreamOauth {
        /// The token endpoint, such as `https://idp.example/oauth2/token`.
        token_url: Spanned<WebUrl>,
        /// The client id of the gateway at the token endpoint.
        client_id: Spanned<String>,
        /// The secret of that client id.
        client_secret: Spanned<Secret>,
        /// The scopes to request.
        scopes: Vec<Spanned<String>> = Vec::new(),
        /// Other parameters of the token request by name, such as `audience` or `resource`.
        parameters: Map<String> = Map::default(),
        /// Where the client id and its secret are sent: `basic` is the header `Authorization`, `body` the body of the token request.
        // RFC 6749, 2.3.1: every server must support it.
        authentication: TokenAuthentication = TokenAuthentication::Basic,
        /// How long before its expiry a token is replaced, but not before half of its lifetime is over. A request that uses it triggers the
        /// fetch, and does not wait for it.
        // Longer than a request is in transit, and short compared with the hour for which most tokens are valid.
        refresh_before: Duration = Duration::from_secs(30),
        /// How long a token is used if the token endpoint does not state its lifetime (`expires_in`).
        // Shorter than the usual lifetime, so that a wrong guess only costs a fetch.
        lifetime: Timeout = Timeout(Duration::from_secs(300)),
        /// How long a token request may take.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// How to verify an `https` token endpoint, and the certificate to present to it.
        tls: UpstreamTls,
    }
}

words! {
    /// Where the client credentials are sent.
    pub enum TokenAuthentication {
        /// In `Authorization`.
        Basic = "basic",
        /// In the body of the request.
        Body = "body",
    }
}
