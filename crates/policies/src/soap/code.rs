//! The code of a SOAP fault, read as the message passes.
//!
//! Owns where it stands in both versions. A message that is no fault, or whose code is not among its first bytes, has none.

use std::cell::Cell;
use std::io::Write as _;
use std::rc::Rc;

use fault::Fault;
use flate2::write::MultiGzDecoder;
use policy::BodyTransform;
use telemetry::SoapFault;
use xml::{Here, QName, Sink, Start};

use super::check::is_soap;

/// A code is a short name with a prefix.
const TEXT_BYTES_MAX: usize = 256;

/// What stands before the code is an envelope's start, and headers perhaps.
const LOOKED_BYTES_MAX: usize = 64 << 10;

/// So many bytes of a coding at a time, which can be a thousand times as many without it.
const CODED_BYTES_MAX: usize = 256;

/// Looks for the code.
#[derive(Default, Clone)]
pub(super) struct Code {
    depth: usize,
    /// Within the body, its fault, and what has the code.
    body: bool,
    fault: bool,
    outer: bool,
    value: bool,
    text: String,
    found: Option<SoapFault>,
}

impl Code {
    pub(super) fn start(&mut self, name: QName<'_>) {
        let soap = is_soap(name.namespace.uri);
        match self.depth {
            1 => self.body = soap && name.local == "Body",
            2 => self.fault = self.body && soap && name.local == "Fault",
            3 if self.fault => {
                self.value = name.local == "faultcode";
                self.outer = soap && name.local == "Code";
            }
            4 if self.fault && self.outer => self.value = soap && name.local == "Value",
            _ => {}
        }
        self.depth += 1;
    }

    pub(super) fn text(&mut self, text: &str) {
        if self.value && self.text.len() + text.len() <= TEXT_BYTES_MAX {
            self.text.push_str(text);
        }
    }

    pub(super) fn end(&mut self) {
        self.depth = self.depth.saturating_sub(1);
        if self.value && matches!(self.depth, 3 | 4) {
            self.value = false;
            let local = self.text.trim().rsplit(':').next().unwrap_or_default();
            self.found = Some(SoapFault::of_code(local));
        }
        if self.depth == 2 && self.fault {
            self.fault = false;
            self.found = self.found.or(Some(SoapFault::Other));
        }
    }

    /// The code, if the message is a fault.
    pub(super) fn fault(&self) -> Option<SoapFault> {
        self.found
    }
}

impl Sink for Code {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        self.start(start.name);
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        self.text(text);
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        self.end();
        Ok(())
    }
}

/// Reads the code of a reply that goes on as it came.
pub(super) struct Watched {
    parser: Box<xml::Parser>,
    code: Code,
    left: usize,
    /// Takes off the coding it comes in.
    gzip: Option<Box<MultiGzDecoder<Vec<u8>>>>,
    /// Where the exchange's notes find it.
    told: Rc<Cell<Option<SoapFault>>>,
}

impl Watched {
    pub(super) fn new(told: Rc<Cell<Option<SoapFault>>>, gzip: bool) -> Watched {
        let parser = Box::new(xml::Parser::new(xml::Options::default()));
        let gzip = gzip.then(|| Box::new(MultiGzDecoder::new(Vec::new())));
        Watched { parser, code: Code::default(), left: LOOKED_BYTES_MAX, gzip, told }
    }

    /// Looks at the next bytes of the message.
    fn look(&mut self, bytes: &[u8]) {
        let looked = bytes.get(..self.left).unwrap_or(bytes);
        if self.told.get().is_none() && !looked.is_empty() {
            self.left -= looked.len();
            // What is no XML has no code.
            if self.parser.feed(looked, &mut self.code).is_err() {
                self.left = 0;
            }
            self.told.set(self.code.fault());
        }
    }

    /// Looks at what the next bytes are without their coding.
    fn look_into(&mut self, mut gzip: Box<MultiGzDecoder<Vec<u8>>>, bytes: &[u8]) {
        for few in bytes.chunks(CODED_BYTES_MAX) {
            if self.left == 0 || self.told.get().is_some() {
                break;
            }
            if gzip.write_all(few).is_err() {
                self.left = 0;
            }
            self.look(&std::mem::take(gzip.get_mut()));
        }
        self.gzip = Some(gzip);
    }
}

impl BodyTransform for Watched {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        out.extend_from_slice(bytes);
        match self.gzip.take() {
            Some(gzip) => self.look_into(gzip, bytes),
            None => self.look(bytes),
        }
        Ok(())
    }

    fn on_end(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        // It keeps back what the last bytes came to. What is wrong with them is the client's to find.
        if let Some(mut gzip) = self.gzip.take() {
            let _whole = gzip.try_finish();
            self.look(&std::mem::take(gzip.get_mut()));
        }
        Ok(())
    }

    fn remaining(&self, inner: Option<u64>) -> Option<u64> {
        inner
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(message: &str) -> Option<SoapFault> {
        let mut code = Code::default();
        xml::parse(message.as_bytes(), &xml::Options::default(), &mut code).unwrap();
        code.fault()
    }

    #[test]
    fn the_code_stands_where_each_version_has_it() {
        const V11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
        const V12: &str = "http://www.w3.org/2003/05/soap-envelope";
        let message = |namespace: &str, inner: &str| {
            format!(
                "<s:Envelope xmlns:s='{namespace}'><s:Header><a>1</a></s:Header><s:Body>{inner}</s:Body></s:Envelope>"
            )
        };
        for (namespace, inner, found) in [
            (
                V11,
                "<s:Fault><faultcode>s:Client</faultcode><detail><faultcode>x</faultcode></detail></s:Fault>",
                Some(SoapFault::Client),
            ),
            (V11, "<s:Fault><faultstring>s:Client</faultstring></s:Fault>", Some(SoapFault::Other)),
            (
                V12,
                "<s:Fault><s:Code><s:Value>s:Receiver</s:Value><s:Subcode><s:Value>m:No</s:Value></s:Subcode></s:Code></s:Fault>",
                Some(SoapFault::Server),
            ),
            (
                V12,
                "<s:Fault><s:Code><s:Value>s:MustUnderstand</s:Value></s:Code></s:Fault>",
                Some(SoapFault::MustUnderstand),
            ),
            (V11, "<s:Ok><faultcode>s:Client</faultcode></s:Ok>", None),
            ("urn:x", "<s:Fault><faultcode>s:Client</faultcode></s:Fault>", None),
        ] {
            assert_eq!(code(&message(namespace, inner)), found, "{inner}");
        }
    }
}
