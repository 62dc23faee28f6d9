//! `issuers.NAME`: issuers of tokens, and the sources of their keys.

use std::time::Duration;

use crate::decode::{keys, words};
use crate::sections::UpstreamTls;
use crate::values::{FilePath, Map, OneOrMore, Secret, Spanned, Timeout, WebUrl};

keys! {
    /// An issuer of tokens, and the source of its keys.
    pub struct Issuer {
        /// The exact value of `iss`, such as `https://idp.example`.
        issuer: Option<Spanned<String>>,
        /// The claim, or else the member of the token's header, that has the value of `issuer` in place of `iss`, such as `kid`, as Kong's
        /// `key_claim_name`.
        issuer_claim: Option<Spanned<String>>,
        /// The URL of the key set (JWKS), such as `https://idp.example/jwks.json`.
        jwks: Option<Spanned<WebUrl>>,
        /// Files with the keys, instead of a URL: PEM with public keys or certificates, or JSON with a JWK or a JWK set.
        keys: OneOrMore<Spanned<FilePath>> = OneOrMore(Vec::new()),
        /// A secret shared with the issuer (HS256, HS384, HS512), instead of keys; `base64:TEXT` for bytes.
        secret: Option<Spanned<Secret>>,
        /// Whether `secret` may be shorter than its algorithm requires: 32, 48 or 64 bytes. Anybody who has one token can guess a short
        /// secret.
        // Anyone who guesses the secret can sign tokens for any subject.
        secret_short: Spanned<bool> = Spanned::unwritten(false),
        /// The algorithms that its tokens may use, such as `[RS256]`; all algorithms of its keys if absent.
        algorithms: OneOrMore<Spanned<String>> = OneOrMore(Vec::new()),
        /// Whether to find the key set by OpenID Connect discovery (`/.well-known/openid-configuration` below `issuer`).
        // It sends requests to the URL in `issuer`, which is only a name for plain JWTs.
        discovery: Spanned<bool> = Spanned::unwritten(false),
        /// Introspection (RFC 7662) of each token that is not a JWT, or of every token if there are no keys.
        introspection: Option<Spanned<Introspection>>,
        /// Audiences: `aud` must contain one of them. If absent, any audience is accepted.
        audiences: OneOrMore<String> = OneOrMore(Vec::new()),
        /// The accepted values of `typ` in a token's header, without `application/`. A token without `typ` counts as `JWT`, `id_token`
        /// stands for ID tokens, and `[]` accepts any type.
        // RFC 8725, 3.11: a logout token, a proof or a security event of the same issuer does not authenticate a client.
        types: OneOrMore<String> = OneOrMore(vec!["JWT".to_owned(), "at+jwt".to_owned()]),
        /// The maximum difference between the issuer's and the gateway's clock.
        // The default of Choreo Connect.
        leeway: Duration = Duration::from_secs(5),
        /// Whether a token needs an expiry (`exp`).
        // A token without an expiry would be valid for as long as its key.
        expiry_required: bool = true,
        /// Whether a token needs a start (`nbf`).
        // Most issuers write none.
        beginning_required: bool = false,
        /// Time claims that are not checked, as in Kong without `claims_to_verify`: `exp`, `nbf`. A token is then valid for as long as its
        /// key.
        // A stolen token would work forever.
        times_ignored: Vec<Spanned<TimeClaim>> = Vec::new(),
        /// How often published keys are fetched again. For an unknown key, they are fetched at once, at most about once per second.
        refresh: Timeout = Timeout(Duration::from_secs(300)),
        /// How long fetching the keys, or an introspection, may take.
        timeout: Timeout = Timeout(Duration::from_secs(5)),
        /// How to verify `https` URLs of the issuer, and the certificate to present to them.
        tls: UpstreamTls,
        /// The subject of all its tokens, if the issuer is a single client. Then the subject claim is not used.
        subject: Option<String>,
        /// The groups of that client, for `authorize` and rules in CEL.
        groups: Vec<String> = Vec::new(),
        /// Other attributes of that client, by name, for rules in CEL and templates.
        attributes: Map<String> = Map::default(),
        /// The claim with the subject.
        subject_claim: String = "sub".to_owned(),
        /// The claims with the scopes, as a list or a text separated by spaces; the first one present counts.
        // RFC 8693, and the claim of Azure AD.
        scope_claims: Vec<String> = vec!["scope".to_owned(), "scp".to_owned()],
        /// The claim that names the application.
        consumer_claim: String = "azp".to_owned(),
        /// The claim with the consumer key of the application that a token was issued to, such as `azp` or `client_id`. If absent, the
        /// issuer's tokens belong to no application of `applications`.
        // An issuer could name the key of any application, so this must be enabled explicitly.
        application: Option<Spanned<String>>,
        /// The claim with the subject's plan.
        tier_claim: Option<String>,
    }
}

words! {
    /// A claim of a token about time.
    pub enum TimeClaim {
        /// The end.
        Exp = "exp",
        /// The beginning.
        Nbf = "nbf",
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
        // A revoked token remains accepted for this long.
        cache: Duration = Duration::from_secs(30),
    }
}
