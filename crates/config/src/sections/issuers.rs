//! `issuers.NAME`: who signs tokens, and where their keys are.

use std::time::Duration;

use crate::decode::keys;
use crate::sections::UpstreamTls;
use crate::values::{FilePath, Map, OneOrMore, Secret, Spanned, Timeout, WebUrl};

keys! {
    /// An issuer of tokens, and where its keys are.
    pub struct Issuer {
        /// The exact value of `iss`, such as `https://idp.example`.
        issuer: Option<Spanned<String>>,
        /// The URL of the key set (JWKS), such as `https://idp.example/jwks.json`.
        jwks: Option<Spanned<WebUrl>>,
        /// Files with the keys, instead of a URL: PEM with public keys or certificates, or JSON with a JWK or a JWK set.
        keys: OneOrMore<Spanned<FilePath>> = OneOrMore(Vec::new()),
        /// A secret that the issuer and the gateway share (HS256, HS384, HS512), instead of keys; `base64:TEXT` for bytes.
        secret: Option<Spanned<Secret>>,
        /// The algorithms that its tokens may have, such as `[RS256]`; all that its keys are for if absent.
        algorithms: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Whether to find the key set by OpenID Connect discovery (`/.well-known/openid-configuration` below `issuer`).
        // It would send requests to wherever `issuer` points, which for plain JWT is only a name.
        discovery: Spanned<bool> = Spanned::unwritten(false),
        /// Introspection (RFC 7662) of each token that is not a JWT, or of every token if there are no keys.
        introspection: Option<Spanned<Introspection>>,
        /// Audiences: `aud` has to name one of them. Without it any audience is accepted.
        audiences: OneOrMore<String> = OneOrMore(Vec::new()),
        /// What `typ` of a token's header may say, without `application/`; a token without it is a `JWT`, `id_token` stands for ID tokens, and `[]` takes any.
        // RFC 8725, 3.11: an order to log out, a proof or a security event of the same issuer says nothing of who asks.
        types: OneOrMore<String> = OneOrMore(vec!["JWT".to_owned(), "at+jwt".to_owned()]),
        /// How far the issuer's clock may differ.
        // What Choreo Connect allows.
        leeway: Duration = Duration::from_secs(5),
        /// Whether a token needs an expiry (`exp`).
        // One that does not is good for as long as its key.
        expiry_required: bool = true,
        /// How often published keys are read again. For an unknown key they are read at once, about once a second at most.
        refresh: Timeout = Timeout(Duration::from_secs(300)),
        /// How long reading the keys, or an introspection, may take.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// How to verify `https` URLs of the issuer, and the certificate to show to them.
        tls: UpstreamTls,
        /// The subject of all its tokens, where an issuer is one client; then no claim says it.
        subject: Option<String>,
        /// The groups of that client, for `authorize` and rules in CEL.
        groups: Vec<String> = Vec::new(),
        /// What else is known of that client, by name, for rules in CEL and templates.
        attributes: Map<String> = Map::default(),
        /// The claim with the subject.
        subject_claim: String = "sub".to_owned(),
        /// The claims with the scopes, as a list or a text separated by spaces; the first one present counts.
        // RFC 8693 and what Azure AD does.
        scope_claims: Vec<String> = vec!["scope".to_owned(), "scp".to_owned()],
        /// The claim that names the application.
        consumer_claim: String = "azp".to_owned(),
        /// The claim with the consumer key of the application that a token was given to, such as `azp` or `client_id`. Without it the issuer's tokens
        /// lead to no application of `applications`.
        // Whoever signs tokens could name anybody's key.
        application: Option<Spanned<String>>,
        /// The claim that names the plan the subject is on.
        tier_claim: Option<String>,
    }
}

keys! {
    /// Introspection of tokens by the issuer (RFC 7662).
    pub struct Introspection {
        /// The introspection endpoint, such as `https://idp.example/introspect`.
        url: Spanned<WebUrl>,
        /// The gateway's client id at the issuer.
        client_id: String = String::new(),
        /// The secret of that client id.
        client_secret: Option<Secret>,
        /// How long an answer is cached, at most until the token expires.
        // A token that was withdrawn is good for this long.
        cache: Duration = Duration::from_secs(30),
    }
}
