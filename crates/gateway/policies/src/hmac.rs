//! `hmac`: authenticates clients by a signature over parts of the request, made with a shared secret.
//!
//! Owns the form that Kong and "Signing HTTP Messages" (draft-cavage-http-signatures-00) have in common: `Authorization: hmac
//! username="..", algorithm="..", headers="..", signature=".."`. The date of a request must be recent, so that an intercepted signature
//! cannot be used later.

mod digest;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::{Fault, Kind};
use kit::clock;
use message::{Protocol, RequestHead};
use policy::{Decision, Exchange, Flow, Identity, IdentityScheme, OnHead, Onward, Policy, Step};

use crate::credential_check::CredentialCheck;
use crate::credentials::Holder;
use crate::identity::holder;
use digest::WithDigest;

/// Settings of the policy.
pub struct HmacSettings {
    /// The holders with their secrets.
    pub users: Vec<(Holder, Vec<u8>)>,
    pub algorithms: Vec<HmacAlgorithm>,
    /// The maximum difference between the date of a request and the gateway's clock.
    pub clock_skew: Duration,
    /// The headers that must be signed, in lower case.
    pub signed: Vec<String>,
    pub realm: String,
    /// Whether the signature is forwarded to the upstream.
    pub forward: bool,
}

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HmacAlgorithm {
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha512,
}

/// Checks signatures.
pub struct Signatures {
    users: HashMap<String, (Vec<u8>, Arc<Identity>)>,
    algorithms: Vec<HmacAlgorithm>,
    clock_skew: Duration,
    signed: Vec<String>,
    realm: String,
    forward: bool,
}

/// The maximum length of a credential, in bytes.
const CREDENTIAL_BYTES_MAX: usize = 4096;

/// The maximum number of signed headers.
const SIGNED_MAX: usize = 64;

/// The headers that may contain a signature. The first one that has a signature counts.
const LINES: [&str; 2] = ["proxy-authorization", "authorization"];

/// The headers that may contain the date.
const DATES: [&str; 2] = ["x-date", "date"];

impl HmacAlgorithm {
    fn of(name: &str) -> Option<HmacAlgorithm> {
        let all = [Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];
        all.into_iter().find(|algorithm| algorithm.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            HmacAlgorithm::Sha1 => "hmac-sha1",
            HmacAlgorithm::Sha224 => "hmac-sha224",
            HmacAlgorithm::Sha256 => "hmac-sha256",
            HmacAlgorithm::Sha384 => "hmac-sha384",
            HmacAlgorithm::Sha512 => "hmac-sha512",
        }
    }

    fn hmac(self) -> hmac::Algorithm {
        match self {
            HmacAlgorithm::Sha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
            HmacAlgorithm::Sha224 => hmac::HMAC_SHA224,
            HmacAlgorithm::Sha256 => hmac::HMAC_SHA256,
            HmacAlgorithm::Sha384 => hmac::HMAC_SHA384,
            HmacAlgorithm::Sha512 => hmac::HMAC_SHA512,
        }
    }
}

/// Returns the policy. With `body_bytes_max`, the body of each request must match its `Digest` and must not exceed this size.
pub fn policy(signatures: Signatures, body_bytes_max: Option<usize>) -> Policy {
    let request = match body_bytes_max {
        Some(bytes_max) => Step::Buffered(Box::new(WithDigest { signatures, bytes_max })),
        None => Step::Head(Box::new(signatures)),
    };
    Policy { name: "hmac", request: Some(request), response: None }
}

/// The parameters of a signature, as sent by the client.
struct Claim<'h> {
    user: &'h str,
    algorithm: &'h str,
    signed: Vec<&'h str>,
    signature: &'h str,
}

impl Signatures {
    pub fn new(settings: HmacSettings) -> Signatures {
        let user = |(owner, secret): (Holder, Vec<u8>)| {
            let name = owner.name.clone();
            (name, (secret, Arc::new(holder(owner, IdentityScheme::Hmac))))
        };
        Signatures {
            users: settings.users.into_iter().map(user).collect(),
            algorithms: settings.algorithms,
            clock_skew: settings.clock_skew,
            signed: settings.signed,
            realm: settings.realm,
            forward: settings.forward,
        }
    }

    /// Returns the value of the header line with the signature.
    fn line<'h>(&self, head: &'h RequestHead) -> Result<Option<&'h str>, Fault> {
        for name in LINES {
            let mut lines = head.headers.get_all(name).filter(|line| is_hmac(line));
            let Some(line) = lines.next() else { continue };
            if lines.next().is_some() {
                return Err(self.refused("the request has more than one signature"));
            }
            // Harmless: an unreadable line is refused below.
            let text = std::str::from_utf8(line).ok().filter(|l| l.len() <= CREDENTIAL_BYTES_MAX);
            return text.map(Some).ok_or_else(|| self.refused("the credential is not valid"));
        }
        Ok(None)
    }

    fn challenge_text(&self) -> String {
        format!("hmac realm=\"{}\"", self.realm)
    }

    fn fault(&self, kind: Kind, code: u32, why: &str) -> Fault {
        let cause = format!("hmac: {why}");
        Fault::new(kind, cause)
            .with_code(code)
            .with_header("WWW-Authenticate", self.challenge_text())
    }

    fn refused(&self, why: &str) -> Fault {
        self.fault(Kind::Unauthenticated, 900_901, why)
    }

    /// Verifies the signature in the head, and returns the identity of the signer.
    fn signer(&self, head: &RequestHead) -> Result<Arc<Identity>, Fault> {
        let missing = || self.fault(Kind::CredentialMissing, 900_902, "no signature");
        let line = self.line(head)?.ok_or_else(missing)?;
        let claim = Claim::read(line).ok_or_else(|| self.refused("the credential is not valid"))?;
        if !self.is_recent(&claim, head) {
            return Err(self.refused(
                "neither `X-Date` nor `Date` is within the allowed clock skew; if the signature covers one of them, only that one counts",
            ));
        }
        if let Some(absent) = self.signed.iter().find(|name| !claim.covers(name)) {
            return Err(self.refused(&format!("`{absent}` is not signed")));
        }
        let algorithm = HmacAlgorithm::of(claim.algorithm);
        let algorithm = algorithm.filter(|algorithm| self.algorithms.contains(algorithm));
        let algorithm = algorithm.ok_or_else(|| self.refused("the algorithm is not allowed"))?;
        let wrong = || self.refused("the name or the signature is wrong");
        let tag = STANDARD.decode(claim.signature).map_err(|_| wrong())?;
        // The signature of an unknown user is verified, too, so that timing does not reveal which users exist.
        let user = self.users.get(claim.user);
        let secret = user.map_or(&b"nobody"[..], |(secret, _)| secret);
        let key = hmac::Key::new(algorithm.hmac(), secret);
        let verified = hmac::verify(&key, &signed_text(&claim, head), &tag).is_ok();
        let user = user.filter(|_| verified).ok_or_else(wrong)?;
        Ok(user.1.clone())
    }

    /// Returns true if the date of the request is recent. If the signature covers a date, others do not count: anybody could add one to a
    /// captured request.
    fn is_recent(&self, claim: &Claim<'_>, head: &RequestHead) -> bool {
        let now = UNIX_EPOCH + clock::wall();
        let near = |name: &&str| {
            let line = head.headers.get_joined(name);
            // Harmless: a date that is not text is refused as not recent.
            let text = line.as_deref().and_then(|line| std::str::from_utf8(line).ok());
            // Harmless: an invalid date is refused as not recent.
            let date = text.and_then(|text| httpdate::parse_http_date(text).ok());
            let apart = date.map(|date| date.duration_since(now).unwrap_or_else(|e| e.duration()));
            apart.is_some_and(|apart| apart <= self.clock_skew)
        };
        let is_signed = DATES.iter().any(|name| claim.covers(name));
        DATES.iter().filter(|name| claim.covers(name) == is_signed).any(near)
    }
}

/// Returns the signed text: a line for each signed header, or for the pseudo-headers `request-line` and `@request-target`.
fn signed_text(claim: &Claim<'_>, head: &RequestHead) -> Vec<u8> {
    let mut text = Vec::new();
    for (at, name) in claim.signed.iter().enumerate() {
        if at > 0 {
            text.push(b'\n');
        }
        let host = || name.eq_ignore_ascii_case("host").then(|| head.host().into());
        // The draft joins the values of several lines, so that the signature covers all that the upstream gets.
        match (head.headers.get_joined(name).or_else(host), *name) {
            (Some(value), name) => text.extend([name.as_bytes(), b": ", &value].concat()),
            (None, "request-line") => {
                let version = version(head.protocol);
                text.extend(
                    [head.method(), b" ", head.target(), b" ", version.as_bytes()].concat(),
                );
            }
            (None, "@request-target") => {
                let method = head.method().to_ascii_lowercase();
                text.extend([b"@request-target: ", &*method, b" ", head.target()].concat());
            }
            (None, name) => text.extend([name.as_bytes(), b":"].concat()),
        }
    }
    text
}

/// Returns the protocol version as Kong writes it.
fn version(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Http2 => "HTTP/2.0",
        Protocol::Http10 | Protocol::Http11 => protocol.name(),
    }
}

fn is_hmac(line: &[u8]) -> bool {
    let Some((scheme, rest)) = line.split_at_checked(4) else { return false };
    scheme.eq_ignore_ascii_case(b"hmac") && rest.first().is_some_and(u8::is_ascii_whitespace)
}

impl<'h> Claim<'h> {
    /// Returns true if the signature covers this part of the request.
    fn covers(&self, name: &str) -> bool {
        self.signed.iter().any(|signed| signed.eq_ignore_ascii_case(name))
    }

    /// Parses `hmac NAME="VALUE", ...`, in which each of the four names must occur once.
    fn read(line: &'h str) -> Option<Claim<'h>> {
        let mut values: [Option<&str>; 4] = [None; 4];
        let mut rest = line.get(4..)?.trim();
        while !rest.is_empty() {
            let (name, after) = rest.split_once("=\"")?;
            let (value, after) = after.split_once('"')?;
            let names = ["username", "algorithm", "headers", "signature"];
            let at = names.iter().position(|known| name.trim().eq_ignore_ascii_case(known))?;
            if values.get_mut(at)?.replace(value).is_some() {
                return None;
            }
            let after = after.trim_start();
            rest = if after.is_empty() { after } else { after.strip_prefix(',')?.trim_start() };
        }
        let [user, algorithm, signed, signature] = values;
        let signed: Vec<&str> = signed?.split_ascii_whitespace().collect();
        let fits = !signed.is_empty() && signed.len() <= SIGNED_MAX;
        let (user, algorithm, signature) = (user?, algorithm?, signature?);
        fits.then_some(Claim { user, algorithm, signed, signature })
    }
}

impl CredentialCheck for Signatures {
    fn is_present(&self, _ex: &Exchange, head: &RequestHead) -> bool {
        !matches!(self.line(head), Ok(None))
    }

    fn strip(&self, head: &mut RequestHead) {
        let named = LINES.into_iter().filter(|name| head.headers.get_all(name).any(is_hmac));
        let named: Vec<&str> = named.filter(|_| !self.forward).collect();
        named.into_iter().for_each(|name| head.headers.remove(name));
    }

    fn challenge(&self) -> Option<String> {
        Some(self.challenge_text())
    }

    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        Decision::Ready(self.on_head(ex, head))
    }
}

impl OnHead<RequestHead> for Signatures {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        ex.identity = Some(self.signer(head)?);
        self.strip(head);
        Ok(Onward::Next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "Sun, 06 Nov 1994 08:49:37 GMT";

    fn signatures(signed: &[&str]) -> Signatures {
        Signatures::new(HmacSettings {
            users: vec![(Holder::alice("secret"), b"secret".to_vec())],
            algorithms: vec![HmacAlgorithm::Sha256],
            clock_skew: Duration::from_secs(300),
            signed: signed.iter().map(ToString::to_string).collect(),
            realm: "r".to_owned(),
            forward: false,
        })
    }

    /// Returns a request with these lines, and with a signature that covers the parts in `signed`; the signed text is `text`.
    fn request(lines: &[(&str, &str)], signed: &str, text: &str) -> RequestHead {
        let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
        for (name, value) in lines {
            head.headers.add(name, value.as_bytes()).unwrap();
        }
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"secret");
        let tag = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
        let line = format!(
            "hmac username=\"alice\", algorithm=\"hmac-sha256\", headers=\"{signed}\", signature=\"{tag}\""
        );
        head.headers.add("Authorization", line.as_bytes()).unwrap();
        head
    }

    #[test]
    fn a_captured_request_is_not_renewed_by_a_date_that_is_not_signed() {
        let now = &*httpdate::fmt_http_date(UNIX_EPOCH + clock::wall());
        let old_text = &*format!("date: {OLD}\nGET / HTTP/1.1");
        let new_text = &*format!("date: {now}\nGET / HTTP/1.1");
        let x_text = &*format!("x-date: {now}");
        for (signed, lines, covered, text, accepted) in [
            (
                &["date", "request-line"][..],
                &[("Date", now)][..],
                "date request-line",
                new_text,
                true,
            ),
            (&["date"], &[("Date", now), ("X-Date", OLD)], "date request-line", new_text, true),
            (&["date"], &[("Date", OLD), ("X-Date", now)], "date request-line", old_text, false),
            (&["date"], &[("Date", OLD), ("Date", now)], "date request-line", old_text, false),
            (&["date"], &[("Date", now), ("Date", OLD)], "date request-line", old_text, false),
            (&["x-date"], &[("Date", OLD), ("X-Date", now)], "x-date", x_text, true),
            (&["x-date"], &[("Date", now)], "x-date", "x-date:", false),
            (&[], &[("Date", OLD), ("X-Date", now)], "date request-line", old_text, false),
            // The operator requires no signed date, and the client signs none.
            (&[], &[("Date", now)], "request-line", "GET / HTTP/1.1", true),
            (&[], &[("Date", OLD)], "request-line", "GET / HTTP/1.1", false),
        ] {
            let signer = signatures(signed).signer(&request(lines, covered, text));
            assert_eq!(signer.is_ok(), accepted, "{signed:?} {lines:?} {covered}");
        }
    }

    #[test]
    fn a_signature_covers_all_lines_of_a_header() {
        let now = &*httpdate::fmt_http_date(UNIX_EPOCH + clock::wall());
        let one = &*format!("date: {now}\nx-amount: 1");
        let two = &*format!("date: {now}\nx-amount: 1, 9999");
        for (amounts, text, accepted) in [
            (&["1"][..], one, true),
            (&["1", "9999"], one, false),
            (&["9999", "1"], one, false),
            (&["1", "9999"], two, true),
        ] {
            let mut lines = vec![("Date", now)];
            lines.extend(amounts.iter().map(|amount| ("X-Amount", *amount)));
            let signer = signatures(&["date"]).signer(&request(&lines, "date x-amount", text));
            assert_eq!(signer.is_ok(), accepted, "{amounts:?} {text}");
        }
    }
}
