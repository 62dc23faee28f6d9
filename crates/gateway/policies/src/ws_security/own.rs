//! Adds the gateway's own header blocks to messages to an upstream: WS-Security and WS-Addressing.

use fault::{Fault, Kind};
use kit::clock::{self, Instant};
use mediation::attachments::Root;
use mediation::charset;
use mediation::ws_addressing::{Addressing, AddressingVersion};
use mediation::ws_security::{OutboundSecurity, SoapMessage};
use message::{Body, GatheredBody, Request, RequestHead, Trailers};
use policy::{Decision, UpstreamAddition};

use crate::body_lines;

/// The blocks that are added to messages to an upstream.
#[derive(Debug)]
pub struct OutboundHeaders {
    pub security: Option<OutboundSecurity>,
    pub addressing: Option<OwnAddressing>,
    pub bytes_max: usize,
}

/// The settings of the WS-Addressing blocks.
#[derive(Debug)]
pub struct OwnAddressing {
    pub version: AddressingVersion,
    /// The address of the service.
    pub to: ToAddress,
    /// The action of messages without one.
    pub action: Option<String>,
}

/// The address of the service.
#[derive(Debug)]
pub enum ToAddress {
    Fixed(String),
    /// An origin, to which the path of the request is appended.
    Origin(String),
}

/// Replaces the message: the body, and the header lines that describe it.
pub(super) fn replace(head: &mut RequestHead, body: &mut GatheredBody, text: String) {
    let headers = &mut head.headers;
    body_lines::replaced(headers);
    let recoded = headers.get("content-type").and_then(|of| charset::recoded(of, "utf-8"));
    if let Some(recoded) = recoded {
        headers.remove("content-type");
        headers.add_known("Content-Type", recoded.as_bytes());
    }
    body.bytes = text.into();
}

#[cold]
fn refused(why: &str) -> Fault {
    let cause = format!("the upstream accepts only SOAP messages: {why}");
    Fault::with_detail(Kind::RequestInvalid, cause, "The request is not a SOAP message.")
}

/// A SOAP message that cannot get the blocks.
#[cold]
fn unfit(cause: &str, detail: &str) -> Fault {
    Fault::with_detail(Kind::RequestInvalid, cause, detail)
}

impl OutboundHeaders {
    /// Returns the message with the blocks added.
    fn made(
        &self,
        head: &RequestHead,
        content_type: Option<&[u8]>,
        bytes: &[u8],
    ) -> Result<String, Fault> {
        let read = |content_type, bytes: &[u8]| {
            let message = SoapMessage::read(content_type, bytes).map_err(|why| refused(&why))?;
            message.ok_or_else(|| refused("it is XML, but not SOAP"))
        };
        let message = read(content_type, bytes)?;
        let addressed = match &self.addressing {
            Some(addressing) => Some(addressing.made(head, &message)?),
            None => None,
        };
        match (&self.security, addressed) {
            // Harmless: at least one of the two exists.
            (None, addressed) => Ok(addressed.unwrap_or_default()),
            (Some(security), None) => Ok(message.with_security(security, clock::wall())),
            (Some(security), Some(addressed)) => {
                Ok(read(None, addressed.as_bytes())?.with_security(security, clock::wall()))
            }
        }
    }

    async fn change(&self, request: &mut Request) -> Result<(), Fault> {
        let body = std::mem::take(&mut request.body);
        let mut gathered = body.gather_all(self.bytes_max, Kind::BodyTooLarge).await?;
        if gathered.bytes.is_empty() {
            request.body = Body::gathered(gathered);
            return Ok(());
        }
        let head = &mut request.head;
        let content_type = head.headers.get("content-type").map(<[u8]>::to_vec);
        // Harmless: a message without a content type has no attachments.
        let told = content_type.as_deref().unwrap_or_default();
        let root = Root::of(told, &gathered.bytes).map_err(refused)?;
        match root {
            None => {
                let text = self.made(head, content_type.as_deref(), &gathered.bytes)?;
                replace(head, &mut gathered, text);
            }
            Some(root) => {
                let described = root.described(told);
                let text = self.made(head, Some(&described), &root.bytes)?;
                let whole = root.exchanged(&gathered.bytes, text.as_bytes(), None);
                let cut = || {
                    let cause = "the message contains the boundary between its parts";
                    unfit(cause, "The request contains the boundary between its parts.")
                };
                body_lines::replaced(&mut head.headers);
                gathered = GatheredBody::new(whole.ok_or_else(cut)?, Trailers::new());
            }
        }
        request.body = Body::whole(gathered.bytes);
        Ok(())
    }
}

impl OwnAddressing {
    fn made(&self, head: &RequestHead, message: &SoapMessage) -> Result<String, Fault> {
        let told = action(head).or_else(|| message.addressed_action());
        let action = told.as_deref().or(self.action.as_deref());
        let action = action.ok_or_else(|| {
            let cause = "the message names no action, which the upstream's WS-Addressing needs";
            unfit(cause, "The request names no action (SOAPAction).")
        })?;
        let to = match &self.to {
            ToAddress::Fixed(to) => to.clone(),
            ToAddress::Origin(origin) => {
                // Harmless: a target is ASCII.
                format!("{origin}{}", String::from_utf8_lossy(head.target()))
            }
        };
        let message_id = message_id();
        let with = Addressing { version: self.version, to: &to, action, message_id: &message_id };
        Ok(message.addressed(with))
    }
}

/// Returns the action of a message: `SOAPAction` in SOAP 1.1, or the parameter of the content type in SOAP 1.2.
fn action(head: &RequestHead) -> Option<String> {
    let parameter = || {
        let content_type = head.headers.get("content-type")?;
        mediation::multipart::parameter(content_type, "action")
    };
    let line = head.headers.get("soapaction").map(<[u8]>::to_vec);
    // Harmless: a value that is not text is not an action.
    let text = String::from_utf8(line.or_else(parameter)?).ok()?;
    let text = text.trim().trim_matches('"');
    (!text.is_empty()).then(|| text.to_owned())
}

/// Returns a random UUID as a URI (RFC 9562, 5.4).
fn message_id() -> String {
    let random = fastrand::u128(..);
    let version = random & !(0xf << 76) | 0x4 << 76;
    let made = version & !(0x3 << 62) | 0x2 << 62;
    let hex = format!("{made:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
    format!("urn:uuid:{}", parts.join("-"))
}

impl UpstreamAddition for OutboundHeaders {
    fn make<'a>(
        &'a self,
        request: &'a mut Request,
        _deadline: Option<Instant>,
    ) -> Decision<'a, Result<(), Fault>> {
        if request.body.is_empty() {
            return Decision::Ready(Ok(()));
        }
        Decision::Waits(Box::pin(self.change(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Protocol;

    #[test]
    fn message_ids_are_random_uuids() {
        let (one, two) = (message_id(), message_id());
        assert_ne!(one, two);
        for id in [one, two] {
            let text = id.strip_prefix("urn:uuid:").unwrap();
            let lengths: Vec<usize> = text.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert!(text.split('-').nth(2).unwrap().starts_with('4'), "{id}");
            assert!(text.split('-').nth(3).unwrap().starts_with(['8', '9', 'a', 'b']), "{id}");
        }
    }

    #[test]
    fn the_client_learns_what_its_message_lacks() {
        let addressing = |action: Option<&str>| OutboundHeaders {
            security: None,
            addressing: Some(OwnAddressing {
                version: AddressingVersion::Final,
                to: ToAddress::Fixed("http://a/".to_owned()),
                action: action.map(str::to_owned),
            }),
            bytes_max: 1000,
        };
        let soap = r#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body/></s:Envelope>"#;
        for (action, body, detail) in [
            (Some("urn:a"), soap, None),
            (None, soap, Some("The request names no action (SOAPAction).")),
            (Some("urn:a"), "<a/>", Some("The request is not a SOAP message.")),
        ] {
            let head = RequestHead::new(Protocol::Http11, b"POST", b"/");
            let made = addressing(action).made(&head, Some(b"text/xml"), body.as_bytes());
            let told = made.err().and_then(|fault| fault.detail);
            assert_eq!(told.as_deref(), detail, "{body}");
        }
    }
}
