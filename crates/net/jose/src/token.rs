//! A token in compact form: exactly three parts separated by dots.

use std::cell::RefCell;
use std::fmt;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::Simd;
use base64::engine::general_purpose::NO_PAD;
use serde_json::Value;

use crate::algorithm::Algorithm;
use crate::json::Members;

/// Maximum size of a token. It has to fit into a head of the default size together with all other headers.
pub const TOKEN_BYTES_MAX: usize = 32 * 1024;

/// A token whose signature has not been verified.
#[derive(Debug)]
pub struct Token<'t> {
    pub algorithm: Algorithm,
    /// The name of the key (`kid`).
    pub key_id: Option<Box<str>>,
    /// The type (`typ`), in lower case and without `application/`; `None` if it is missing or is `JWT`.
    pub kind: Option<Box<str>>,
    /// The decoded payload.
    pub payload: Vec<u8>,
    /// The signed text: the first two parts as received.
    pub(crate) signed: &'t [u8],
    pub(crate) signature: Vec<u8>,
}

/// The reason why a token is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The token is larger than [`TOKEN_BYTES_MAX`].
    TooLarge,
    /// The token does not consist of three parts in base64url with a JSON header.
    Malformed,
    /// The token is encrypted (JWE).
    Encrypted,
    /// The algorithm is `none` or not supported.
    Algorithm,
    /// The token requires an extension (`crit`, `b64`).
    Critical,
    /// There is no key with this name for this algorithm.
    KeyUnknown,
    /// The signature is wrong.
    Signature,
    /// More keys could have signed the token than are tried.
    Ambiguous,
}

impl<'t> Token<'t> {
    /// Parses a token.
    pub fn parse(text: &'t [u8]) -> Result<Token<'t>, Error> {
        if text.len() > TOKEN_BYTES_MAX {
            return Err(Error::TooLarge);
        }
        let mut dots = memchr::memchr_iter(b'.', text);
        let (first, second) = (dots.next().ok_or(Error::Malformed)?, dots.next());
        let further = dots.count();
        if further == 2 {
            // Five parts mean that the token is encrypted (RFC 7516, 9).
            return Err(Error::Encrypted);
        }
        let second = second.filter(|_| further == 0).ok_or(Error::Malformed)?;
        let part = |from: usize, to: usize| text.get(from..to).ok_or(Error::Malformed);
        let Header { algorithm, key_id, kind } = Header::of(part(0, first)?)?;
        Ok(Token {
            algorithm,
            key_id,
            kind,
            payload: decode(part(first + 1, second)?)?,
            signed: part(0, second)?,
            signature: decode(part(second + 1, text.len())?)?,
        })
    }

    /// Returns the text of a member of the token's header, or `None` if it is missing or not a text. The header is parsed again.
    pub fn header_text(&self, name: &str) -> Option<String> {
        let end = memchr::memchr(b'.', self.signed)?;
        // Harmless: `parse` has decoded and parsed this header, so it is valid.
        let header = decode(self.signed.get(..end)?).ok()?;
        Some(Members::read(&header)?.get(name)?.as_str()?.to_owned())
    }

    /// Returns the payload as claims, or `None` if it is not a JSON object or has duplicate names.
    pub fn claims(&self) -> Option<Members<'_>> {
        Members::read(&self.payload)
    }
}

/// The relevant part of a token's header.
#[derive(Clone)]
struct Header {
    algorithm: Algorithm,
    key_id: Option<Box<str>>,
    kind: Option<Box<str>>,
}

/// Maximum size of a header that is cached. Common ones have a hundred bytes.
const REMEMBERED_BYTES_MAX: usize = 1024;

thread_local! {
    /// The last header and its text. All tokens of an issuer have the same header until its key changes, and parsing a header takes as long
    /// as parsing the claims.
    static LAST: RefCell<Option<(Box<[u8]>, Header)>> = const { RefCell::new(None) };
}

impl Header {
    fn of(part: &[u8]) -> Result<Header, Error> {
        LAST.with_borrow_mut(|last| {
            if let Some((text, header)) = last
                && **text == *part
            {
                return Ok(header.clone());
            }
            let header = Header::read(part)?;
            if part.len() <= REMEMBERED_BYTES_MAX {
                *last = Some((part.into(), header.clone()));
            }
            Ok(header)
        })
    }

    fn read(part: &[u8]) -> Result<Header, Error> {
        let header = decode(part)?;
        let header = Members::read(&header).ok_or(Error::Malformed)?;
        let algorithm = algorithm(&header)?;
        let text = |name: &str| match header.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => Err(Error::Malformed),
        };
        let kind = text("typ")?.map(kind).filter(|kind| kind != "jwt");
        Ok(Header { algorithm, key_id: text("kid")?.map(Box::from), kind: kind.map(Box::from) })
    }
}

/// Returns a media type as in `typ`: in lower case, without `application/` (RFC 7515, 4.1.9).
pub fn kind(media_type: &str) -> String {
    let mut kind = media_type.to_ascii_lowercase();
    if let Some(rest) = kind.strip_prefix("application/").filter(|rest| !rest.contains('/')) {
        kind = rest.to_owned();
    }
    kind
}

/// Decodes strictly: no padding, no line ends, no leftover bits. Uses vector instructions if available.
fn decode(part: &[u8]) -> Result<Vec<u8>, Error> {
    static ENGINE: LazyLock<Simd> = LazyLock::new(|| Simd::url_safe(NO_PAD));
    ENGINE.decode(part).map_err(|_| Error::Malformed)
}

fn algorithm(header: &Members<'_>) -> Result<Algorithm, Error> {
    if header.get("enc").is_some() {
        return Err(Error::Encrypted);
    }
    // No extension is supported here. `b64` would change the signed text (RFC 7797).
    if header.get("crit").is_some() || header.get("b64").is_some() {
        return Err(Error::Critical);
    }
    let name = header.get("alg").and_then(Value::as_str).ok_or(Error::Malformed)?;
    // The misspelling is accepted in keys, but not in tokens.
    let algorithm = Algorithm::named(name).filter(|_| name != "ES521");
    algorithm.ok_or(Error::Algorithm)
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::TooLarge => write!(f, "the token is over {TOKEN_BYTES_MAX} bytes"),
            Error::Malformed => write!(f, "the token is not a JWS in compact form"),
            Error::Encrypted => write!(f, "the token is encrypted (JWE), which is not supported"),
            Error::Algorithm => write!(f, "the token's `alg` is not accepted"),
            Error::Critical => write!(f, "the token requires an extension (`crit`, `b64`)"),
            Error::KeyUnknown => write!(f, "no key with this name fits the token's algorithm"),
            Error::Signature => write!(f, "the signature is wrong"),
            Error::Ambiguous => write!(f, "too many keys could have signed the token"),
        }
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    fn with_header(header: &str) -> Result<(), Error> {
        let token = format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(header));
        Token::parse(token.as_bytes()).map(|_| ())
    }

    #[test]
    fn headers_are_parsed_strictly() {
        for (header, said) in [
            (r#"{"alg":"RS256"}"#, Ok(())),
            (r#"{"alg":"EdDSA","typ":"JWT","kid":"a"}"#, Ok(())),
            (r#"{"alg":"none"}"#, Err(Error::Algorithm)),
            (r#"{"alg":"NonE"}"#, Err(Error::Algorithm)),
            (r#"{"alg":"rs256"}"#, Err(Error::Algorithm)),
            (r#"{"alg":"ES521"}"#, Err(Error::Algorithm)),
            (r#"{"alg":["RS256"]}"#, Err(Error::Malformed)),
            (r#"{}"#, Err(Error::Malformed)),
            (r#"{"alg":"RS256","alg":"none"}"#, Err(Error::Malformed)),
            (r#"{"alg":"RS256","kid":1}"#, Err(Error::Malformed)),
            (r#"{"alg":"RS256","typ":["JWT"]}"#, Err(Error::Malformed)),
            (r#"{"alg":"RS256","crit":["exp"]}"#, Err(Error::Critical)),
            (r#"{"alg":"RS256","b64":false}"#, Err(Error::Critical)),
            (r#"{"alg":"dir","enc":"A128GCM"}"#, Err(Error::Encrypted)),
        ] {
            assert_eq!(with_header(header), said, "{header}");
        }
    }

    #[test]
    fn the_kind_is_a_media_type_without_application() {
        for (typ, kind) in [
            ("JWT", None),
            ("application/jwt", None),
            ("at+JWT", Some("at+jwt")),
            ("Application/AT+jwt", Some("at+jwt")),
            ("application/a/b", Some("application/a/b")),
            ("text/jwt", Some("text/jwt")),
            ("", Some("")),
        ] {
            let header = format!(r#"{{"alg":"RS256","typ":"{typ}"}}"#);
            let token = format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(header));
            assert_eq!(Token::parse(token.as_bytes()).unwrap().kind.as_deref(), kind, "{typ}");
        }
    }

    #[test]
    fn the_cached_header_is_used_only_for_the_same_text() {
        let token = |header: &str| format!("{}.e30.AA", URL_SAFE_NO_PAD.encode(header));
        let long = format!(r#"{{"alg":"RS256","kid":"{}"}}"#, "l".repeat(REMEMBERED_BYTES_MAX));
        let said = |header: &str| {
            let text = token(header);
            let read = Token::parse(text.as_bytes());
            read.map(|token| (token.algorithm, token.key_id.map(String::from)))
        };
        let (a, b) = (r#"{"alg":"RS256","kid":"a"}"#, r#"{"alg":"ES256"}"#);
        for _ in 0..2 {
            for _ in 0..2 {
                assert_eq!(said(a), Ok((Algorithm::Rs256, Some("a".to_owned()))));
            }
            assert_eq!(said(r#"{"alg":"none","kid":"a"}"#), Err(Error::Algorithm));
            assert_eq!(said(b), Ok((Algorithm::Es256, None)));
            assert_eq!(said(&long).map(|(algorithm, _)| algorithm), Ok(Algorithm::Rs256));
            assert_eq!(said(r#"{"alg":"RS256","kid":"b"}"#).unwrap().1.as_deref(), Some("b"));
        }
    }

    #[test]
    fn a_token_has_three_parts() {
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256"}"#);
        let large = format!("{header}.{}.AA", "A".repeat(TOKEN_BYTES_MAX));
        for (token, said) in [
            (String::new(), Error::Malformed),
            (header.clone(), Error::Malformed),
            (format!("{header}.e30"), Error::Malformed),
            (format!("{header}.e30.AA.AA"), Error::Malformed),
            (format!("{header}.e30.AA.AA.AA"), Error::Encrypted),
            (format!("{header}.e30.AA.AA.AA.AA"), Error::Malformed),
            (format!("{header}.e30.AA="), Error::Malformed),
            (format!("{header}.e30.AB"), Error::Malformed),
            (format!(" {header}.e30.AA"), Error::Malformed),
            (format!("{header}.e3\n0.AA"), Error::Malformed),
            (large, Error::TooLarge),
        ] {
            assert_eq!(Token::parse(token.as_bytes()).unwrap_err(), said, "{token:.60}");
        }
    }
}
