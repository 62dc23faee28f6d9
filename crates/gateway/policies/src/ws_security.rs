//! `ws_security`: authenticates clients by a UsernameToken in the message, and checks the age of the message by its Timestamp.
//!
//! Owns the requirements on the security header, and the memory of used tokens. The header is parsed by [`mediation::ws_security`].

mod nonces;
mod own;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock;
use mediation::Rejection;
use mediation::ws_security::{
    Password, SecurityHeader, SoapMessage, Timestamp, UsernameToken, password_digest,
};
use message::{GatheredBody, RequestHead};
use policy::{Decision, Exchange, Flow, OnBuffered, Onward, Policy};

use crate::attachments::{RootUse, RootedStep, rooted};
use crate::credentials::sha256;
use crate::reply_coding::Codings;
use crate::users::Users;
use crate::xml_fault;

pub use nonces::Nonces;
pub use own::{OutboundHeaders, OwnAddressing, ToAddress};

/// The name of the step in faults.
const STEP: &str = "Request - WS-Security failed";

/// The requirements on a security header.
pub struct WsSecuritySettings {
    /// The users, one of whom a message must name, or `None` if it need not name a user.
    pub users: Option<TokenUsers>,
    pub timestamp: TimestampUse,
    /// The maximum age of a message, a digest and a nonce.
    pub age_max: Duration,
    /// The maximum difference between the sender's and the gateway's clock.
    pub clock_skew: Duration,
    /// Whether the header is forwarded to the upstream.
    pub forward: bool,
    pub bytes_max: usize,
    pub nonces: Arc<Nonces>,
}

/// Users of tokens.
pub struct TokenUsers {
    pub users: Users,
    /// Plain passwords by name, from which digests are computed. Empty if digests are not accepted.
    pub passwords: HashMap<String, String>,
    /// Whether plain-text passwords are accepted.
    pub takes_texts: bool,
    /// Whether a plain-text password also needs a nonce and a creation time.
    pub nonce_required: bool,
}

/// Whether messages need a Timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampUse {
    /// It is not checked.
    Off,
    Optional,
    Required,
}

/// Returns the policy.
pub fn policy(settings: WsSecuritySettings) -> Policy {
    let codings = Codings { gzip_only: false, topmost: false, bytes_max: settings.bytes_max };
    let of = RootedStep { root: RootUse::Edits, step: STEP, verbose: false, codings };
    Policy { name: "ws_security", request: Some(rooted(settings, Some(of))), response: None }
}

/// A defect of a security header: its code (WS-Security 1.1, 12), and the reason for the log.
struct Defect(&'static str, String);

impl Defect {
    fn failed(why: &str) -> Defect {
        Defect("FailedAuthentication", why.to_owned())
    }

    fn invalid(why: impl Into<String>) -> Defect {
        Defect("InvalidSecurity", why.into())
    }

    #[cold]
    fn fault(self) -> Fault {
        let Defect(code, why) = self;
        let kind = match code {
            "MessageExpired" => Kind::CredentialExpired,
            _ => Kind::Unauthenticated,
        };
        Fault::new(kind, format!("ws_security: {why}")).with_soap_code(code)
    }
}

fn missing(why: &str) -> Fault {
    let cause = format!("ws_security: {why}");
    Fault::new(Kind::CredentialMissing, cause).with_soap_code("InvalidSecurity")
}

impl WsSecuritySettings {
    /// Parses the message and its header, and checks the requirements.
    fn read(
        &self,
        head: &RequestHead,
        body: &GatheredBody,
    ) -> Result<(SoapMessage, SecurityHeader), Fault> {
        let refused = |why: &str| xml_fault::refused_request(STEP, Rejection::client(why), false);
        let message = SoapMessage::read(head.headers.get("content-type"), &body.bytes);
        let message = message.map_err(|why| refused(&format!("Invalid XML input. {why}")))?;
        let message = message.ok_or_else(|| refused("The message is not a SOAP message"))?;
        let header = message.security().map_err(|why| Defect::invalid(why).fault())?;
        let header = header.ok_or_else(|| missing("no Security header"))?;
        // If the header is removed, the upstream cannot verify the other parts of it.
        if let (false, Some(other)) = (self.forward, &header.other) {
            let why =
                format!("the header has {other}, which would not be verified (`forward: false`)");
            return Err(Defect("UnsupportedSecurityToken", why).fault());
        }
        self.check_timestamp(header.timestamp.as_ref())?;
        Ok((message, header))
    }

    fn check_timestamp(&self, timestamp: Option<&Timestamp>) -> Result<(), Fault> {
        let now = clock::wall();
        let of = match (self.timestamp, timestamp) {
            (TimestampUse::Off, _) | (TimestampUse::Optional, None) => return Ok(()),
            (TimestampUse::Required, None) => return Err(missing("no Timestamp")),
            (TimestampUse::Optional | TimestampUse::Required, Some(of)) => of,
        };
        let created =
            of.created.ok_or_else(|| Defect::invalid("a Timestamp without Created").fault())?;
        self.check_age(created, now)?;
        if of.expires.is_some_and(|expires| expires.saturating_add(self.clock_skew) <= now) {
            return Err(Defect("MessageExpired", "the message has expired".to_owned()).fault());
        }
        if of.expires.is_some_and(|expires| expires < created) {
            return Err(Defect::invalid("a message that expires before it was created").fault());
        }
        Ok(())
    }

    fn check_age(&self, created: Duration, now: Duration) -> Result<(), Fault> {
        if created > now.saturating_add(self.clock_skew) {
            return Err(
                Defect::invalid("the message or its token was created in the future").fault()
            );
        }
        let oldest = self.age_max.saturating_add(self.clock_skew);
        if now.saturating_sub(created) > oldest {
            return Err(
                Defect("MessageExpired", "the message or its token is too old".to_owned()).fault()
            );
        }
        Ok(())
    }

    /// Records a nonce. If it was used before with the same creation time, the message is a replay.
    fn check_replay(&self, token: &UsernameToken) -> Result<(), Fault> {
        let (Some(nonce), Some((_, created))) = (&token.nonce, &token.created) else {
            return Ok(());
        };
        let created = created.as_nanos().to_be_bytes();
        let seen = sha256(&[token.username.as_bytes(), &[0], &created, nonce].concat());
        let life = self.age_max.saturating_add(self.clock_skew.saturating_mul(2));
        match self.nonces.note(seen, clock::wall().as_secs(), life.as_secs() + 1) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Defect::failed("its nonce was used before").fault()),
            Err(nonces::Full) => {
                let cause = "ws_security: too many nonces are remembered";
                Err(Fault::new(Kind::Busy, cause).with_header("Retry-After", "1"))
            }
        }
    }

    /// Checks the password of a token as far as possible without waiting. Returns true for a valid digest, and false for a plain text that
    /// must still be checked.
    fn check_password_now(&self, users: &TokenUsers, token: &UsernameToken) -> Result<bool, Fault> {
        if let Some((_, created)) = &token.created {
            self.check_age(*created, clock::wall())?;
        }
        // Harmless: without a nonce or a creation time, there is no pair to check.
        let fresh = token.nonce.as_deref().zip(token.created.as_ref());
        match &token.password {
            Password::Absent => Err(Defect::failed("no password").fault()),
            Password::Text(_) if !users.takes_texts => {
                Err(Defect::failed("a plain-text password, which is not accepted").fault())
            }
            Password::Text(_) if users.nonce_required && fresh.is_none() => {
                Err(Defect::failed("a password without Nonce and Created").fault())
            }
            Password::Text(_) => Ok(false),
            Password::Digest(_) if users.passwords.is_empty() => {
                Err(Defect::failed("a digest, which is not accepted").fault())
            }
            Password::Digest(shown) => {
                let (nonce, (created, _)) = fresh
                    .ok_or_else(|| Defect::failed("a digest without Nonce and Created").fault())?;
                let password = users.passwords.get(&token.username);
                // An unknown name takes as much time as a known one.
                let digest = password_digest(nonce, created, password.map_or("", |text| text));
                let is_right = aws_lc_rs::constant_time::verify_slices_are_equal(&digest, shown);
                if is_right.is_err() || password.is_none() {
                    return Err(Defect::failed("the name or the password is wrong").fault());
                }
                Ok(true)
            }
        }
    }

    fn pass(&self, message: &SoapMessage, head: &mut RequestHead, body: &mut GatheredBody) -> Flow {
        if self.forward {
            return Ok(Onward::Next);
        }
        own::replace(head, body, message.without_security());
        Ok(Onward::Next)
    }
}

impl OnBuffered<RequestHead> for WsSecuritySettings {
    fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let (message, header) = match self.read(head, body) {
            Ok(read) => read,
            Err(fault) => return Decision::Ready(Err(fault)),
        };
        let Some(users) = &self.users else {
            return Decision::Ready(self.pass(&message, head, body));
        };
        let Some(token) = header.username_token else {
            return Decision::Ready(Err(missing("no UsernameToken")));
        };
        let has_digest = match self.check_password_now(users, &token) {
            Ok(has_digest) => has_digest,
            Err(fault) => return Decision::Ready(Err(fault)),
        };
        Decision::Waits(Box::pin(async move {
            if !has_digest {
                let Password::Text(password) = &token.password else {
                    return Err(Defect::failed("no password").fault());
                };
                let password = password.as_bytes().to_vec();
                if !users.users.has(&token.username, password, ex, head).await? {
                    return Err(Defect::failed("the name or the password is wrong").fault());
                }
            }
            self.check_replay(&token)?;
            ex.identity = users.users.identity(&token.username);
            self.pass(&message, head, body)
        }))
    }
}
