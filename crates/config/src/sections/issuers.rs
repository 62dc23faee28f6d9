//! `issuers.NAME`: who signs tokens, and where their keys are.

use std::time::Duration;

use crate::decode::keys;
use crate::sections::UpstreamTls;
use crate::values::{FilePath, OneOrMore, Secret, Spanned, Timeout, WebUrl};

keys! {
    /// Who signs tokens, and where their keys are.
    pub struct Issuer {
        /// What `iss` has to say, letter for letter, such as `https://idp.example`.
        issuer: Option<Spanned<String>>,
        /// Where the keys are published, such as `https://idp.example/jwks.json`.
        jwks: Option<Spanned<WebUrl>>,
        /// Files with the keys instead: PEM with public keys or certificates, or JSON with a JWK or a JWK set.
        keys: OneOrMore<Spanned<FilePath>> = OneOrMore(Vec::new()),
        /// Whether to ask the issuer where its keys are (`/.well-known/openid-configuration` below `issuer`).
        // It would send requests to wherever `issuer` points, which for plain JWT is only a name.
        discovery: Spanned<bool> = Spanned::unwritten(false),
        /// Asks the issuer about each token that is no JWT, or about every one where there are no keys (RFC 7662).
        introspection: Option<Spanned<Introspection>>,
        /// What `aud` has to name, one of them; without it any token of the issuer is taken.
        audiences: OneOrMore<String> = OneOrMore(Vec::new()),
        /// By how much clocks may differ.
        // What Choreo Connect allows.
        leeway: Duration = Duration::from_secs(5),
        /// Whether a token has to say when it ends (`exp`).
        // One that does not is good for as long as its key.
        expiry_required: bool = true,
        /// How often published keys are read again. An unknown key is asked for at once, about once a second at most.
        refresh: Timeout = Timeout(Duration::from_secs(300)),
        /// How long reading the keys, or an answer about a token, may take.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// How `https` URLs of the issuer are checked and shown who we are.
        tls: UpstreamTls,
        /// The claim that names who asks.
        subject_claim: String = "sub".to_owned(),
        /// The claims that list what is allowed, as a list or a text with blanks; the first that is there counts.
        // RFC 8693 and what Azure AD does.
        scope_claims: Vec<String> = vec!["scope".to_owned(), "scp".to_owned()],
        /// The claim that names the application.
        consumer_claim: String = "azp".to_owned(),
        /// The claim that names the plan the subject is on.
        tier_claim: Option<String>,
    }
}

keys! {
    /// Asks the issuer about tokens (RFC 7662).
    pub struct Introspection {
        /// Where to ask, such as `https://idp.example/introspect`.
        url: Spanned<WebUrl>,
        /// Who we are to the issuer.
        client_id: String = String::new(),
        /// The secret that shows it.
        client_secret: Option<Secret>,
        /// How long an answer is believed; a token that ends sooner is not believed longer.
        // A token that was withdrawn is good for this long.
        cache: Duration = Duration::from_secs(30),
    }
}
