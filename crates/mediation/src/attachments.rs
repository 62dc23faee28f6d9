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
    /// Its content without a transfer encoding.
    pub bytes: Bytes,
    part: Part,
    message: Multipart,
}

impl Root {
    /// True if messages of that type have one.
    pub fn is_in(content_type: &[u8]) -> bool {
        message::media_type(content_type).eq_ignore_ascii_case(b"multipart/related")
    }

    /// None: a message of that type has no root part.
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

    /// The whole message with another root, which is a text in UTF-8 unless `content_type` says otherwise. None if the new root contains
    /// the message's boundary.
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

    /// The content type that the root would have as a message by itself: that of the envelope inside XOP, with the action of the whole
    /// message.
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

    /// True if binary contents of the root may be attachments.
    pub fn is_xop(&self) -> bool {
        message::media_type(&self.content_type).eq_ignore_ascii_case(XOP)
    }

    /// The root with the attachments that it includes, as texts in base64 (XOP 1.0, 3.2), and whether all attachments are in it.
    /// `whole` is the message, and `bytes_max` bounds the result.
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
