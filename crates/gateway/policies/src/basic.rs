//! `basic`: authenticates clients by name and password (RFC 7617).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Decision, Exchange, Flow, IdentityScheme, OnCall, Onward, Policy, Step};

use crate::credential_check::CredentialCheck;
use crate::credentials::Holder;
use crate::users::{self, digest};

/// The maximum length of name and password together in Base64, in bytes.
const CREDENTIALS_BYTES_MAX: usize = 1024;

/// The known users, and the challenge.
pub struct Users {
    users: users::Users,
    realm: String,
    forward: bool,
    /// The headers that may have the credentials.
    lines: &'static [&'static str],
}

/// What `Users` has beside the users themselves.
#[derive(Debug)]
pub struct BasicSettings {
    pub realm: String,
    pub forward: bool,
    pub proxy_authorization: bool,
}

impl Users {
    pub fn new(users: Vec<Holder>, settings: BasicSettings) -> Users {
        let BasicSettings { realm, forward, proxy_authorization } = settings;
        let users = users::Users::new(users, IdentityScheme::Basic);
        let lines: &[&str] = if proxy_authorization { &[PROXY_LINE, LINE] } else { &[LINE] };
        Users { users, realm, forward, lines }
    }

    /// Returns the value of `WWW-Authenticate`.
    fn challenge_text(&self) -> String {
        format!("Basic realm=\"{}\", charset=\"UTF-8\"", self.realm)
    }

    fn refused(&self, kind: Kind, code: u32, why: &str) -> Fault {
        let challenge = self.challenge_text();
        Fault::new(kind, why).with_code(code).with_header("WWW-Authenticate", challenge)
    }

    fn wrong(&self) -> Fault {
        self.refused(Kind::Unauthenticated, 900_901, "basic: the name or the password is wrong")
    }

    fn missing(&self) -> Fault {
        self.refused(Kind::CredentialMissing, 900_902, "basic: no name and password")
    }

    /// Returns the name and the password of a request.
    fn read(&self, head: &RequestHead) -> Result<(String, Vec<u8>), Fault> {
        if self.lines.contains(&PROXY_LINE) && has_basic(head, PROXY_LINE) {
            let read = self.read_line(head, PROXY_LINE);
            let is_known = |name: &str| self.users.identity(name).is_some();
            if !has_basic(head, LINE) || read.as_ref().is_ok_and(|(name, _)| is_known(name)) {
                return read;
            }
        }
        self.read_line(head, LINE)
    }

    /// Returns the name and the password in the header of this name.
    fn read_line(&self, head: &RequestHead, name: &str) -> Result<(String, Vec<u8>), Fault> {
        let mut lines = head.headers.get_all(name);
        let line = lines.next().ok_or_else(|| self.missing())?;
        let malformed =
            |why: &str| self.refused(Kind::Unauthenticated, 900_901, &format!("basic: {why}"));
        if lines.next().is_some() {
            return Err(malformed("the header occurs more than once"));
        }
        if !is_basic(line) {
            return Err(self.missing());
        }
        let encoded = line.get(SCHEME.len()..).unwrap_or_default();
        if encoded.len() > CREDENTIALS_BYTES_MAX {
            return Err(malformed("too long"));
        }
        let decoded = STANDARD.decode(encoded.trim_ascii()).map_err(|_| malformed("not base64"))?;
        let colon = decoded.iter().position(|byte| *byte == b':');
        let (name, password) = colon
            .and_then(|at| decoded.split_at_checked(at))
            .ok_or_else(|| malformed("no colon"))?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| malformed("not UTF-8"))?;
        Ok((name, password.get(1..).unwrap_or_default().to_vec()))
    }

    fn pass(&self, name: &str, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        ex.identity = Some(self.users.identity(name).ok_or_else(|| self.wrong())?);
        if !self.forward {
            self.lines.iter().for_each(|line| head.headers.remove(line));
        }
        Ok(Onward::Next)
    }

    fn decide(&self, right: bool, name: &str, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        if right { self.pass(name, ex, head) } else { Err(self.wrong()) }
    }
}

impl CredentialCheck for Users {
    fn is_present(&self, _ex: &Exchange, head: &RequestHead) -> bool {
        self.lines.iter().any(|line| has_basic(head, line))
    }

    fn strip(&self, head: &mut RequestHead) {
        if !self.forward {
            for line in self.lines {
                if has_basic(head, line) {
                    head.headers.remove(line);
                }
            }
        }
    }

    fn challenge(&self) -> Option<String> {
        Some(self.challenge_text())
    }

    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        self.on_call(ex, head)
    }
}

/// Returns the policy for these users.
pub fn policy(users: Users) -> Policy {
    Policy { name: "basic", request: Some(Step::Call(Box::new(users))), response: None }
}

impl OnCall<RequestHead> for Users {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let (name, password) = match self.read(head) {
            Ok(read) => read,
            Err(fault) => return Decision::Ready(Err(fault)),
        };
        let digest = digest(&name, &password);
        if let Some(right) = self.users.known(&name, &password, &digest) {
            return Decision::Ready(self.decide(right, &name, ex, head));
        }
        Decision::Waits(Box::pin(async move {
            let right = self.users.verify_and_remember(&name, password, &digest, ex, head).await?;
            self.decide(right, &name, ex, head)
        }))
    }
}

/// The header with the credentials.
const LINE: &str = "authorization";
/// A second header for them, if the operator allows it.
const PROXY_LINE: &str = "proxy-authorization";

fn has_basic(head: &RequestHead, line: &str) -> bool {
    head.headers.get_all(line).any(is_basic)
}

/// The scheme in `Authorization`, which is compared case-insensitively.
const SCHEME: &[u8] = b"basic ";

fn is_basic(line: &[u8]) -> bool {
    line.split_at_checked(SCHEME.len()).is_some_and(|(start, _)| start.eq_ignore_ascii_case(SCHEME))
}
