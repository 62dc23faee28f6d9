//! The reply side: translates an envelope to JSON, and a fault to a problem.

use std::sync::Arc;

use fault::{Fault, Kind};
use mediation::attachments::Root;
use message::{GatheredBody, ReplyHead};
use policy::{Decision, Exchange, OnBuffered, Onward, Slot};

use super::Service;
use crate::attachments;
use crate::body_lines;
use crate::reply_coding::CodingRefusal;
use crate::xml_fault::has_no_body;

/// The response step.
pub(super) struct Translate {
    pub(super) service: Arc<Service>,
    pub(super) called: Slot<usize>,
}

impl OnBuffered<ReplyHead> for Translate {
    fn bytes_max(&self) -> usize {
        self.service.codings.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let flow = self.reply(ex, head, body).map(|()| Onward::Next);
        Decision::Ready(flow)
    }
}

impl Translate {
    fn reply(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut GatheredBody,
    ) -> Result<(), Fault> {
        let Some(operation) = self.called.get(ex).and_then(|at| self.service.operation(*at)) else {
            return Ok(());
        };
        // A fault of the gateway is already a problem document, unless a policy below produces SOAP faults.
        if ex.fault.is_some() && !is_xml(head) || has_no_body(ex, head, body) {
            return Ok(());
        }
        let codings = self.service.codings;
        codings.decode(ex, head, body).map_err(|refused| match refused {
            CodingRefusal::Fault(fault) => fault,
            CodingRefusal::Failed(failed) => Fault::new(Kind::ReplyInvalid, failed.text),
        })?;
        if body.bytes.trim_ascii().is_empty() && operation.is_one_way() && head.status < 300 {
            return Ok(());
        }
        self.take_apart(head, body)?;
        // Harmless: a reply may have no content type.
        let content_type = head.headers.get("content-type");
        let (status, id) = (head.status, ex.id.as_str());
        let made =
            self.service.translation.to_json(operation, content_type, &body.bytes, status, id);
        body_lines::replaced(&mut head.headers);
        let made = made.map_err(|why| Fault::new(Kind::ReplyInvalid, why))?;
        if let Some((code, status)) = made.fault {
            ex.notes().soap_fault.get_or_insert_default().set(Some(code));
            head.status = status;
        }
        body.bytes = made.bytes;
        head.headers.remove("content-type");
        if let Some(content_type) = made.content_type {
            head.headers.add_known("Content-Type", content_type.as_bytes());
        }
        codings.encode(ex, head, body)
    }

    /// Replaces a message with attachments by its root part, which then contains the attachments that it includes.
    fn take_apart(&self, head: &mut ReplyHead, body: &mut GatheredBody) -> Result<(), Fault> {
        // Harmless: a reply may have no content type.
        let content_type = head.headers.get("content-type").unwrap_or_default().to_vec();
        let wrong = |why: &str| Fault::new(Kind::ReplyInvalid, format!("the reply: {why}"));
        let Some(root) = Root::of(&content_type, &body.bytes).map_err(wrong)? else {
            return Ok(());
        };
        let bytes_max = self.service.codings.bytes_max;
        let too_large = Kind::ReplyTooLarge;
        let (whole, all) =
            attachments::with_included(&root, &body.bytes, bytes_max, too_large, wrong)?;
        if !all {
            return Err(wrong(
                "it has attachments that no element includes, which JSON cannot hold",
            ));
        }
        head.headers.remove("content-type");
        head.headers.add_known("Content-Type", &root.described(&content_type));
        body.bytes = whole;
        Ok(())
    }
}

fn is_xml(head: &ReplyHead) -> bool {
    let value = head.headers.get("content-type").unwrap_or(b"");
    let media = message::media_type(value);
    media.eq_ignore_ascii_case(b"text/xml") || media.eq_ignore_ascii_case(b"application/soap+xml")
}
