//! WS-Security 1.0 and 1.1 without signatures: UsernameToken and Timestamp in the header of a SOAP message.
//!
//! Owns the format of both, and makes no decision about access. Other tokens are recognised and reported by name. Password digests are
//! those of the UsernameToken profile.

use std::time::Duration;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::calendar::rfc3339;
use xml::{Document, Kind, NodeId, escape_text};

use crate::soap::nodes::Envelope;
use crate::xml_edit::Edits;
use crate::{charset, date_time};

const WSSE: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
const WSU: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
/// Prefix of the URIs of password types.
const PASSWORDS: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#";
const BASE64: &str = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-soap-message-security-1.0#Base64Binary";

/// Levels of the tree that are parsed: Envelope, Header, Security, a token, its parts, and their texts.
const LEVELS: usize = 6;

/// Maximum number of namespace declarations in that tree.
const DECLARATIONS_MAX: usize = 1_000;

/// Maximum length of a name or a password.
const TEXT_BYTES_MAX: usize = 1024;

/// Maximum length of a nonce that is accepted.
const NONCE_BYTES_MAX: usize = 256;

/// Length of the nonces that the gateway makes, as in most other software.
const NONCE_BYTES: usize = 16;

/// A SOAP message whose header can be read and changed.
#[derive(Debug)]
pub struct SoapMessage {
    document: Document,
    pub(crate) envelope: Envelope,
}

/// The security header addressed to the receiver of the message.
#[derive(Debug, Default)]
pub struct SecurityHeader {
    pub username_token: Option<UsernameToken>,
    pub timestamp: Option<Timestamp>,
    /// The name of any other element in it, such as a signature.
    pub other: Option<String>,
}

/// A name with a password.
#[derive(Debug, PartialEq, Eq)]
pub struct UsernameToken {
    pub username: String,
    pub password: Password,
    pub nonce: Option<Vec<u8>>,
    /// The creation time: the text, which is part of the digest, and the time that it denotes.
    pub created: Option<(String, Duration)>,
}

/// The password of a token.
#[derive(PartialEq, Eq)]
pub enum Password {
    Absent,
    Text(String),
    Digest(Vec<u8>),
}

/// When a message was created and when it expires.
#[derive(Debug, PartialEq, Eq)]
pub struct Timestamp {
    pub created: Option<Duration>,
    pub expires: Option<Duration>,
}

/// The security header that the gateway adds to a message.
#[derive(Clone, PartialEq, Eq)]
pub struct OutboundSecurity {
    pub username: Option<OwnUsername>,
    /// How long the message is valid.
    pub timestamp: Option<Duration>,
    pub must_understand: bool,
}

/// The name and the password that the gateway sends.
#[derive(Clone, PartialEq, Eq)]
pub struct OwnUsername {
    pub name: String,
    pub password: String,
    pub is_digest: bool,
}

impl SoapMessage {
    /// Parses a message. Returns `None` if it is not a SOAP message.
    ///
    /// # Errors
    /// Returns an error if the message is not XML, or if it cannot be decoded.
    pub fn read(content_type: Option<&[u8]>, bytes: &[u8]) -> Result<Option<SoapMessage>, String> {
        let settled = charset::to_utf8(content_type, bytes)?;
        let text = settled.as_deref().unwrap_or(bytes);
        let options = xml::Options::default();
        let document = Document::parse_levels(text, &options, LEVELS, DECLARATIONS_MAX)
            .map_err(|error| error.to_string())?;
        let envelope = Envelope::of(&document);
        Ok(envelope.map(|envelope| SoapMessage { document, envelope }))
    }

    /// Returns the security header addressed to this receiver, or `None` if there is none.
    ///
    /// # Errors
    /// Returns an error that describes the defect of the header.
    pub fn security(&self) -> Result<Option<SecurityHeader>, String> {
        let mut blocks = self.blocks(WSSE, "Security");
        match (blocks.next(), blocks.next()) {
            (Some(block), None) => self.header_of(block).map(Some),
            (Some(_), Some(_)) => Err("there are two Security headers for one receiver".to_owned()),
            (None, _) => Ok(None),
        }
    }

    /// Returns the message without the security header that [`SoapMessage::security`] returns.
    pub fn without_security(&self) -> String {
        self.with_blocks("", &[(WSSE, "Security")])
    }

    /// Returns the message with this security header, in place of its own if it has one.
    pub fn with_security(&self, own: &OutboundSecurity, now: Duration) -> String {
        self.with_blocks(&own.markup(self.envelope.version.namespace(), now), &[(WSSE, "Security")])
    }

    /// Returns the message with `markup` as the first content of its header. Removes the blocks addressed to this receiver whose names
    /// are in `gone`.
    pub(crate) fn with_blocks(&self, markup: &str, gone: &[(&str, &str)]) -> String {
        let (document, envelope) = (&self.document, &self.envelope);
        let mut edits = Edits::default();
        for block in gone.iter().flat_map(|(uri, local)| self.blocks(uri, local)) {
            edits.at(block).instead = Some(String::new());
        }
        match envelope.header {
            Some(header) => edits.at(header).first.push_str(markup),
            None if markup.is_empty() => {}
            None => {
                let prefix = document.name(envelope.root).prefix;
                let colon = if prefix.is_empty() { "" } else { ":" };
                let header = format!("<{prefix}{colon}Header>{markup}</{prefix}{colon}Header>");
                edits.at(envelope.root).first.push_str(&header);
            }
        }
        edits.write(document)
    }

    /// Returns the header blocks with this name that are addressed to this receiver.
    pub(crate) fn blocks<'s>(
        &'s self,
        uri: &'s str,
        local: &'s str,
    ) -> impl Iterator<Item = NodeId> + 's {
        let header = self.envelope.header.into_iter();
        let blocks = header.flat_map(|header| self.document.children(header));
        blocks.filter(move |block| self.is(*block, uri, local) && self.is_ours(*block))
    }

    /// Returns the text of the first header block with this name.
    pub(crate) fn block_text(&self, uri: &str, local: &str) -> Option<String> {
        self.blocks(uri, local).next().map(|block| self.text(block))
    }

    /// Returns true if a block has no role, or the role of the next or the ultimate receiver.
    fn is_ours(&self, block: NodeId) -> bool {
        let namespace = self.envelope.version.namespace();
        let told = ["actor", "role"].map(|name| self.document.attribute(block, namespace, name));
        let ours = [
            "",
            "http://schemas.xmlsoap.org/soap/actor/next",
            "http://www.w3.org/2003/05/soap-envelope/role/next",
            "http://www.w3.org/2003/05/soap-envelope/role/ultimateReceiver",
        ];
        // Harmless: a missing attribute names no role.
        told.into_iter().flatten().all(|role| ours.contains(&role.trim()))
    }

    fn is(&self, node: NodeId, uri: &str, local: &str) -> bool {
        let name = self.document.name(node);
        self.document.kind(node) == Kind::Element
            && name.local == local
            && name.namespace.uri == uri
    }

    /// Returns the text of an element, without surrounding blanks.
    fn text(&self, node: NodeId) -> String {
        self.document.string_value(node).trim().to_owned()
    }

    fn header_of(&self, block: NodeId) -> Result<SecurityHeader, String> {
        let mut header = SecurityHeader::default();
        let is_element = |child: &NodeId| self.document.kind(*child) == Kind::Element;
        for child in self.document.children(block).filter(is_element) {
            let twice = if self.is(child, WSSE, "UsernameToken") {
                header.username_token.replace(self.username_token(child)?).is_some()
            } else if self.is(child, WSU, "Timestamp") {
                header.timestamp.replace(self.timestamp(child)?).is_some()
            } else {
                let name = self.document.name(child);
                header.other = Some(name.local.to_owned());
                false
            };
            if twice {
                return Err(format!(
                    "two {} in one Security header",
                    self.document.name(child).local
                ));
            }
        }
        Ok(header)
    }

    fn username_token(&self, token: NodeId) -> Result<UsernameToken, String> {
        let username = self.only(token, WSSE, "Username")?.map(|node| self.text(node));
        let username = username.filter(|name| !name.is_empty() && name.len() <= TEXT_BYTES_MAX);
        let nonce = match self.only(token, WSSE, "Nonce")? {
            Some(nonce) => Some(self.nonce(nonce)?),
            None => None,
        };
        let created = match self.only(token, WSU, "Created")? {
            Some(node) => Some((self.text(node), self.time(node)?)),
            None => None,
        };
        Ok(UsernameToken {
            username: username.ok_or("a UsernameToken without a name that can be used")?,
            password: match self.only(token, WSSE, "Password")? {
                Some(password) => self.password(password)?,
                None => Password::Absent,
            },
            nonce,
            created,
        })
    }

    fn password(&self, node: NodeId) -> Result<Password, String> {
        // Blanks at the ends belong to the password.
        let text = self.document.string_value(node).into_owned();
        if text.len() > TEXT_BYTES_MAX {
            return Err("a password that is too long".to_owned());
        }
        let kind = self.document.attribute(node, "", "Type").unwrap_or("PasswordText");
        match kind.strip_prefix(PASSWORDS).unwrap_or(kind) {
            "PasswordText" => Ok(Password::Text(text)),
            "PasswordDigest" => {
                let decoded = STANDARD.decode(text.trim());
                decoded.map(Password::Digest).map_err(|_| "a digest that is not base64".to_owned())
            }
            _ => Err("a password of an unknown type".to_owned()),
        }
    }

    fn nonce(&self, node: NodeId) -> Result<Vec<u8>, String> {
        let coding = self.document.attribute(node, "", "EncodingType").unwrap_or(BASE64);
        if coding != BASE64 {
            return Err("a nonce in an unknown encoding".to_owned());
        }
        let decoded = STANDARD.decode(self.text(node));
        // Harmless: an invalid nonce is refused in the next line.
        let decoded = decoded.ok().filter(|nonce| (1..=NONCE_BYTES_MAX).contains(&nonce.len()));
        decoded.ok_or_else(|| "an invalid nonce".to_owned())
    }

    fn timestamp(&self, node: NodeId) -> Result<Timestamp, String> {
        let time = |local| match self.only(node, WSU, local)? {
            Some(node) => self.time(node).map(Some),
            None => Ok(None),
        };
        Ok(Timestamp { created: time("Created")?, expires: time("Expires")? })
    }

    fn time(&self, node: NodeId) -> Result<Duration, String> {
        let time = date_time::read(&self.text(node));
        time.ok_or_else(|| {
            format!("{} is not a time with its zone", self.document.name(node).local)
        })
    }

    /// Returns the child with this name, and fails if there are two.
    fn only(&self, of: NodeId, uri: &str, local: &str) -> Result<Option<NodeId>, String> {
        let mut found = self.document.children(of).filter(|child| self.is(*child, uri, local));
        match (found.next(), found.next()) {
            (found, None) => Ok(found),
            (_, Some(_)) => Err(format!("two {local} in one token")),
        }
    }
}

/// Returns the digest of a password (UsernameToken profile 1.1, 3.1).
pub fn password_digest(nonce: &[u8], created: &str, password: &str) -> Vec<u8> {
    let text = [nonce, created.as_bytes(), password.as_bytes()].concat();
    digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref().to_vec()
}

impl OutboundSecurity {
    fn markup(&self, soap: &str, now: Duration) -> String {
        let must = if self.must_understand {
            format!(" xmlns:se=\"{soap}\" se:mustUnderstand=\"1\"")
        } else {
            String::new()
        };
        let mut out = format!("<wsse:Security xmlns:wsse=\"{WSSE}\" xmlns:wsu=\"{WSU}\"{must}>");
        let created = rfc3339(now);
        if let Some(life) = self.timestamp {
            let expires = rfc3339(now.saturating_add(life));
            out.push_str(&format!(
                "<wsu:Timestamp wsu:Id=\"TS-1\"><wsu:Created>{created}</wsu:Created><wsu:Expires>{expires}</wsu:Expires></wsu:Timestamp>"
            ));
        }
        if let Some(OwnUsername { name, password, is_digest }) = &self.username {
            let nonce: [u8; NONCE_BYTES] = std::array::from_fn(|_| fastrand::u8(..));
            out.push_str("<wsse:UsernameToken wsu:Id=\"UsernameToken-1\"><wsse:Username>");
            escape_text(name, &mut out);
            let kind = if *is_digest { "PasswordDigest" } else { "PasswordText" };
            out.push_str(&format!("</wsse:Username><wsse:Password Type=\"{PASSWORDS}{kind}\">"));
            if *is_digest {
                out.push_str(&STANDARD.encode(password_digest(&nonce, &created, password)))
            } else {
                escape_text(password, &mut out)
            }
            let nonce = STANDARD.encode(nonce);
            out.push_str(&format!(
                "</wsse:Password><wsse:Nonce EncodingType=\"{BASE64}\">{nonce}</wsse:Nonce><wsu:Created>{created}</wsu:Created></wsse:UsernameToken>"
            ));
        }
        out.push_str("</wsse:Security>");
        out
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

impl std::fmt::Debug for OutboundSecurity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("(not shown)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(header: &str) -> SoapMessage {
        let text = format!(
            "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\" xmlns:w=\"{WSSE}\" xmlns:u=\"{WSU}\">{header}<s:Body><a>x</a></s:Body></s:Envelope>"
        );
        SoapMessage::read(None, text.as_bytes()).unwrap().unwrap()
    }

    /// The nonce and the creation time are those of the profile's example (3.1), whose password is not published. The expected digest was
    /// computed with Python's `hashlib`.
    #[test]
    fn a_digest_covers_nonce_time_and_password() {
        let nonce = STANDARD.decode("WScqanjCEAC4mQoBE07sAQ==").unwrap();
        let made = password_digest(&nonce, "2003-07-16T01:24:32Z", "IloveDogs");
        assert_eq!(STANDARD.encode(made), "cywFYG+KaPMK3PCWR+m+DWtqzac=");
    }

    #[test]
    fn the_header_that_is_added_can_be_read() {
        let own = OutboundSecurity {
            username: Some(OwnUsername {
                name: "a<b".to_owned(),
                password: "p&q".to_owned(),
                is_digest: true,
            }),
            timestamp: Some(Duration::from_secs(300)),
            must_understand: true,
        };
        let now = Duration::from_millis(1_700_000_000_123);
        for header in ["", "<s:Header/>", "<s:Header><w:Security/><x/></s:Header>"] {
            let made = message(header).with_security(&own, now);
            let read = SoapMessage::read(None, made.as_bytes()).unwrap().unwrap();
            let security = read.security().unwrap().unwrap();
            let token = security.username_token.unwrap();
            let (created, time) = token.created.unwrap();
            assert_eq!((token.username.as_str(), time), ("a<b", now));
            let digest = password_digest(&token.nonce.unwrap(), &created, "p&q");
            assert_eq!(token.password, Password::Digest(digest));
            let timestamp = security.timestamp.unwrap();
            assert_eq!(timestamp.created, Some(now));
            assert_eq!(timestamp.expires, Some(now + Duration::from_secs(300)));
            let without = read.without_security();
            assert!(!without.contains("Security") && without.contains("<s:Body><a>x</a></s:Body>"));
            assert_eq!(without.contains("<x/>"), header.contains("<x/>"));
        }
    }

    #[test]
    fn a_malformed_header_is_refused_with_its_defect() {
        for (security, why) in [
            ("<w:UsernameToken/>", "without a name"),
            ("<w:UsernameToken><w:Username> </w:Username></w:UsernameToken>", "without a name"),
            (
                "<w:UsernameToken><w:Username>a</w:Username><w:Username>b</w:Username></w:UsernameToken>",
                "two Username",
            ),
            (
                "<w:UsernameToken><w:Username>a</w:Username></w:UsernameToken><w:UsernameToken><w:Username>a</w:Username></w:UsernameToken>",
                "two UsernameToken",
            ),
            (
                "<w:UsernameToken><w:Username>a</w:Username><w:Password Type=\"x\"/></w:UsernameToken>",
                "unknown type",
            ),
            (
                "<w:UsernameToken><w:Username>a</w:Username><w:Nonce>%</w:Nonce></w:UsernameToken>",
                "nonce",
            ),
            ("<w:UsernameToken><w:Username>a</w:Username><w:Nonce/></w:UsernameToken>", "nonce"),
            (
                "<w:UsernameToken><w:Username>a</w:Username><u:Created>now</u:Created></w:UsernameToken>",
                "Created is not a time",
            ),
            (
                "<u:Timestamp><u:Created>2001-01-01T00:00:00</u:Created></u:Timestamp>",
                "Created is not a time",
            ),
            ("<u:Timestamp/><u:Timestamp/>", "two Timestamp"),
        ] {
            let header = format!("<s:Header><w:Security>{security}</w:Security></s:Header>");
            let refused = message(&header).security().unwrap_err();
            assert!(refused.contains(why), "{security}: {refused}");
        }
        let two =
            message("<s:Header><w:Security/><w:Security s:actor=\"\"/></s:Header>").security();
        assert!(two.unwrap_err().contains("two Security"));
        let others = message("<s:Header><w:Security s:actor=\"urn:other\"/></s:Header>");
        assert!(others.security().unwrap().is_none());
        let signed = message("<s:Header><w:Security><Signature/></w:Security></s:Header>");
        assert_eq!(signed.security().unwrap().unwrap().other.as_deref(), Some("Signature"));
        assert!(SoapMessage::read(None, b"<a/>").unwrap().is_none());
        assert!(SoapMessage::read(None, b"{}").is_err());
    }
}
