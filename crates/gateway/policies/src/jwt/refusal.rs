//! The reasons why a token is refused: the text for the log, and the shorter text for the client.

use fault::{Fault, Kind};

use super::JwtSettings;

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is no token.
    Missing,
    /// There are two tokens, or two lines that could contain one.
    Several,
    Token(jose::Error),
    /// `iss` is missing or unknown.
    IssuerUnknown,
    /// The token is of a kind that does not authenticate a client.
    Kind,
    /// The issuer's tokens may not use this algorithm.
    Algorithm,
    /// The issuer has no key with this id.
    KeyUnknown,
    /// No known key has this id, and newer keys did not arrive, for this reason.
    KeysOverdue(&'static str),
    /// No keys of the issuer are known.
    NoKeys,
    Expired,
    NotYet,
    /// The actual and the required value.
    Audience(Box<str>),
    Revoked,
    /// The issuer reports that the token is not active.
    Inactive,
    /// A claim is malformed.
    Claims(&'static str),
    /// A claim does not meet the requirement of the route.
    Wanted(Box<str>),
    /// The actual and the required value.
    Scope(Box<str>),
    Subscription,
    /// The issuer could not be asked.
    Unavailable(Box<str>),
}

impl From<jose::Error> for Refusal {
    fn from(error: jose::Error) -> Refusal {
        if error == jose::Error::KeyUnknown { Refusal::KeyUnknown } else { Refusal::Token(error) }
    }
}

impl Refusal {
    /// Returns true if the refusal may be cached. Refusals that depend on the issuer's availability or on unknown keys are not cached.
    pub(crate) fn lasts(&self) -> bool {
        !matches!(
            self,
            Refusal::Unavailable(_)
                | Refusal::NoKeys
                | Refusal::KeyUnknown
                | Refusal::KeysOverdue(_)
        )
    }

    /// Returns the fault, with the text for the client (RFC 6750, 3).
    pub(crate) fn fault(&self, settings: &JwtSettings) -> Fault {
        let realm = &settings.realm;
        let invalid = format!("Bearer realm=\"{realm}\", error=\"invalid_token\"");
        let refused = |kind, code, challenge: String| {
            let fault = Fault::new(kind, self.cause());
            fault.with_code(code).with_header("WWW-Authenticate", challenge)
        };
        match self {
            Refusal::Missing => {
                refused(Kind::CredentialMissing, 900_902, format!("Bearer realm=\"{realm}\""))
            }
            Refusal::Expired => refused(Kind::CredentialExpired, 900_903, invalid),
            Refusal::Scope(_) => {
                let all = settings.scopes_all.iter().chain(&settings.scopes_any);
                let scope = all.map(String::as_str).collect::<Vec<_>>().join(" ");
                let error = "error=\"insufficient_scope\"";
                let challenge = format!("Bearer realm=\"{realm}\", {error}, scope=\"{scope}\"");
                refused(Kind::ScopeMissing, 900_910, challenge)
            }
            Refusal::Wanted(_) => Fault::new(Kind::Forbidden, self.cause()).with_code(900_910),
            Refusal::Subscription => {
                Fault::new(Kind::SubscriptionMissing, self.cause()).with_code(900_908)
            }
            Refusal::Unavailable(_) | Refusal::NoKeys => {
                Fault::new(Kind::PolicyUnavailable, self.cause())
            }
            Refusal::Several
            | Refusal::Token(_)
            | Refusal::IssuerUnknown
            | Refusal::Kind
            | Refusal::Algorithm
            | Refusal::KeyUnknown
            | Refusal::KeysOverdue(_)
            | Refusal::NotYet
            | Refusal::Audience(_)
            | Refusal::Revoked
            | Refusal::Inactive
            | Refusal::Claims(_) => refused(Kind::Unauthenticated, 900_901, invalid),
        }
    }

    /// Returns the text for the log.
    fn cause(&self) -> String {
        let text = match self {
            Refusal::Missing => "no token",
            Refusal::Several => "more than one token",
            Refusal::Token(error) => return format!("jwt: {error}"),
            Refusal::IssuerUnknown => "`iss` names no issuer of this route",
            Refusal::Kind => "the token has a type (`typ`) that the issuer's `types` do not list",
            Refusal::KeyUnknown => "the issuer has no key with the token's `kid` for its algorithm",
            Refusal::Algorithm => "the issuer's `algorithms` do not list the token's algorithm",
            Refusal::KeysOverdue(why) => {
                return format!("jwt: no known key of the issuer has the token's `kid`, and {why}");
            }
            Refusal::NoKeys => "the issuer's keys could not be read yet",
            Refusal::Expired => "the token has expired",
            Refusal::NotYet => "the token is not valid yet",
            Refusal::Audience(values) => {
                return format!("jwt: `aud` names none of the audiences; {values}");
            }
            Refusal::Revoked => "the token was revoked",
            Refusal::Inactive => "the issuer says that the token is not active",
            Refusal::Claims(what) => what,
            Refusal::Wanted(name) => {
                return format!("jwt: the claim `{name}` does not meet the requirement");
            }
            Refusal::Scope(values) => {
                return format!("jwt: the token lacks a scope that the route requires; {values}");
            }
            Refusal::Subscription => "the token has no subscription to this API",
            Refusal::Unavailable(why) => {
                return format!("jwt: the issuer cannot be reached: {why}");
            }
        };
        format!("jwt: {text}")
    }
}
