//! The root part of a message with attachments (RFC 2387; SOAP with Attachments, MTOM): the part that policies and flows read and change.
//! All other parts stay as they came.

mod xop;

use bytes::Bytes;

use crate::charset;
use crate::multipart::{self, Multipart, MultipartError, Part};

/// The media type of a root part whose binary contents are attachments (XOP 1.0, 5).
const XOP: &[u8] = b"application/xop+xml";

/// A root part.
#[derive(Debug)]
pub struct Root {
    pub content_type: Box<[u8]>,
    /// The content, with the transfer encoding removed.
    pub bytes: Bytes,
    part: Part,
    message: Multipart,
}

impl Root {
    /// Returns true if messages of this content type have a root part.
    pub fn is_in(content_type: &[u8]) -> bool {
        message::media_type(content_type).eq_ignore_ascii_case(b"multipart/related")
    }

    /// Returns the root part, or `None` if messages of this content type have none.
    pub fn of(content_type: &[u8], bytes: &Bytes) -> Result<Option<Root>, MultipartError> {
        if !Root::is_in(content_type) {
            return Ok(None);
        }
        let message = Multipart::read(content_type, bytes)?;
        let part = message.root(content_type, bytes)?.clone();
        let own = part.line(bytes, "content-type");
        let own = own.map_or_else(|| b"text/plain".as_slice().into(), |own| (&*own).into());
        let content = match part.content(bytes)? {
            std::borrow::Cow::Borrowed(_) => bytes.slice(part.body.clone()),
            std::borrow::Cow::Owned(decoded) => decoded.into(),
        };
        Ok(Some(Root { content_type: own, bytes: content, part, message }))
    }

    /// Returns the whole message with `root` in place of the old root part. The new root is text in UTF-8 unless `content_type` says
    /// otherwise. Returns `None` if the new root contains the boundary of the message.
    pub fn exchanged(
        &self,
        whole: &[u8],
        root: &[u8],
        content_type: Option<&str>,
    ) -> Option<Bytes> {
        if self.message.is_cut_by(root) {
            return None;
        }
        let recoded = || charset::recoded(&self.content_type, "utf-8");
        let content_type = content_type.map(str::to_owned).or_else(recoded);
        let content_type = content_type.as_ref().map_or(&*self.content_type, |own| own.as_bytes());
        let before = whole.get(..self.part.head.start).unwrap_or_default();
        let after = whole.get(self.part.body.end..).unwrap_or_default();
        let head = self.part.head_for(whole, content_type);
        Some([before, &head, b"\r\n", root, after].concat().into())
    }

    /// Returns the content type that the root part would have as a separate message: for XOP, the type of the envelope inside. SOAP 1.2
    /// gets the parameter `action`. `whole` is the content type of the whole message.
    pub fn described(&self, whole: &[u8]) -> Vec<u8> {
        let own = &self.content_type;
        let mut described = if self.is_xop() {
            let told = multipart::parameter(own, "type")
                .or_else(|| multipart::parameter(whole, "start-info"));
            let mut described = told.unwrap_or_else(|| b"text/xml".to_vec());
            if let (Some(charset), None) = (charset::charset(own), charset::charset(&described)) {
                described.extend_from_slice(b"; charset=");
                described.extend_from_slice(charset);
            }
            described
        } else {
            own.to_vec()
        };
        let is_soap12 =
            message::media_type(&described).eq_ignore_ascii_case(b"application/soap+xml");
        if is_soap12 && multipart::parameter(&described, "action").is_none() {
            let action = multipart::parameter(own, "action")
                .or_else(|| multipart::parameter(whole, "action"))
                .filter(|action| action.iter().all(|byte| !matches!(byte, b'"' | b'\\')));
            if let Some(action) = action {
                described.extend_from_slice(b"; action=\"");
                described.extend_from_slice(&action);
                described.push(b'"');
            }
        }
        described
    }

    /// Returns true if binary contents of the root may be stored as attachments (XOP).
    pub fn is_xop(&self) -> bool {
        message::media_type(&self.content_type).eq_ignore_ascii_case(XOP)
    }

    /// Returns the root with the attachments that it includes inlined as base64 (XOP 1.0, 3.2), and whether every attachment is included.
    /// `whole` is the message; `bytes_max` bounds the size of the result.
    pub fn with_included(
        &self,
        whole: &[u8],
        bytes_max: usize,
    ) -> Result<(Bytes, bool), IncludeError> {
        let others = self.message.parts().iter().filter(|part| **part != self.part);
        let others: Vec<&Part> = others.collect();
        if !self.is_xop() {
            return Ok((self.bytes.clone(), others.is_empty()));
        }
        xop::included(&self.bytes, whole, &others, bytes_max)
    }
}

/// Why attachments cannot be put where the root includes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IncludeError {
    Malformed(String),
    TooLarge,
}
