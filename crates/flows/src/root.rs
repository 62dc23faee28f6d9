//! The root part of a message with attachments (RFC 2387; SOAP with Attachments, MTOM): the part that steps look into and change.
//! All other parts go on as they came.

use bytes::Bytes;
use fault::{Fault, Kind};
use mediation::charset;
use mediation::multipart::{Multipart, MultipartError, Part};

/// A root part.
#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) content_type: Box<[u8]>,
    /// Its content without a transfer encoding.
    pub(crate) bytes: Bytes,
    part: Part,
    message: Multipart,
}

impl Root {
    /// True if messages of that type have one.
    pub(crate) fn is_in(content_type: &[u8]) -> bool {
        message::media_type(content_type).eq_ignore_ascii_case(b"multipart/related")
    }

    /// None: a message of that type has no root part.
    pub(crate) fn of(content_type: &[u8], bytes: &Bytes) -> Result<Option<Root>, MultipartError> {
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

    /// The whole message with another root: a text in UTF-8, unless a content type says more of it.
    pub(crate) fn exchanged(
        &self,
        whole: &[u8],
        root: &[u8],
        content_type: Option<&str>,
    ) -> Result<Bytes, Fault> {
        if self.message.is_cut_by(root) {
            let cause = "the boundary of the message stands in the new text of its root part";
            return Err(Fault::new(Kind::Template, cause));
        }
        let recoded = || charset::recoded(&self.content_type, "utf-8");
        let content_type = content_type.map(str::to_owned).or_else(recoded);
        let content_type = content_type.as_ref().map_or(&*self.content_type, |own| own.as_bytes());
        let before = whole.get(..self.part.head.start).unwrap_or_default();
        let behind = whole.get(self.part.body.end..).unwrap_or_default();
        let head = self.part.head_for(whole, content_type);
        Ok([before, &head, b"\r\n", root, behind].concat().into())
    }
}
