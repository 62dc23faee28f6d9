//! Why a token is refused: what the log reads, and the little that the client does.

use fault::{Fault, Kind};

use super::JwtSettings;

/// Why a token is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// There is none.
    Missing,
    /// Two of them, or two lines that could hold one.
    Several,
    Token(jose::Error),
    /// `iss` is missing or nobody's that is known here.
    IssuerUnknown,
    /// It is made for something else than to show who asks.
    Kind,
    /// The issuer has no such key.
    KeyUnknown,
    /// No key of the issuer was ever seen.
    NoKeys,
    Expired,
    NotYet,
    /// What is there and what is needed.
    Audience(Box<str>),
    Revoked,
    /// The issuer says that it is not good.
    Inactive,
    /// A claim is not what it should be.
    Claims(&'static str),
    /// A claim the route asks for.
    Wanted(Box<str>),
    /// What is there and what is needed.
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
    /// Asking again in a moment gives the same. What somebody else could not say is asked anew.
    pub(crate) fn lasts(&self) -> bool {
        !matches!(self, Refusal::Unavailable(_) | Refusal::NoKeys | Refusal::KeyUnknown)
    }

    /// The fault, with what the client is told (RFC 6750, 3).
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
            | Refusal::KeyUnknown
            | Refusal::NotYet
            | Refusal::Audience(_)
            | Refusal::Revoked
            | Refusal::Inactive
            | Refusal::Claims(_) => refused(Kind::Unauthenticated, 900_901, invalid),
        }
    }

    /// For the log.
    fn cause(&self) -> String {
        let text = match self {
            Refusal::Missing => "no token",
            Refusal::Several => "more than one token",
            Refusal::Token(error) => return format!("jwt: {error}"),
            Refusal::IssuerUnknown => "`iss` names no issuer of this route",
            Refusal::Kind => "the token has a type (`typ`) that the issuer's `types` do not list",
            Refusal::KeyUnknown => "the issuer has no key with the token's `kid` for its algorithm",
            Refusal::NoKeys => "the issuer's keys could not be read yet",
            Refusal::Expired => "the token has expired",
            Refusal::NotYet => "the token is not valid yet",
            Refusal::Audience(values) => {
                return format!("jwt: `aud` names none of the audiences; {values}");
            }
            Refusal::Revoked => "the token was revoked",
            Refusal::Inactive => "the issuer says that the token is not active",
            Refusal::Claims(what) => what,
            Refusal::Wanted(name) => return format!("jwt: the claim `{name}` is not as required"),
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
