//! Reads the code of a SOAP fault while the reply is streamed.
//!
//! Owns the bound on what is read of a reply, and the decoding of that part. The reply itself passes unchanged. [`mediation::soap::Code`]
//! finds the code in the XML.

use std::cell::Cell;
use std::io::Write as _;
use std::rc::Rc;

use fault::Fault;
use flate2::write::MultiGzDecoder;
use mediation::soap::Code;
use message::Fill;
use policy::BodyTransform;
use telemetry::SoapFault;

/// The maximum number of bytes that are read: the start of the envelope and its headers precede the code.
const LOOKED_BYTES_MAX: usize = 64 << 10;

/// The number of encoded bytes that are decoded at a time, since they can expand a thousandfold.
const CODED_BYTES_MAX: usize = 256;

/// Reads the fault code of a reply, which passes unchanged.
pub(super) struct FaultCodeReader {
    parser: Box<xml::Parser>,
    code: Code,
    left: usize,
    /// The decoder, if the reply is compressed.
    gzip: Option<Box<MultiGzDecoder<Vec<u8>>>>,
    /// The cell in the exchange's notes that receives the code.
    told: Rc<Cell<Option<SoapFault>>>,
}

impl FaultCodeReader {
    pub(super) fn new(told: Rc<Cell<Option<SoapFault>>>, gzip: bool) -> FaultCodeReader {
        let parser = Box::new(xml::Parser::new(xml::Options::default()));
        let gzip = gzip.then(|| Box::new(MultiGzDecoder::new(Vec::new())));
        FaultCodeReader { parser, code: Code::default(), left: LOOKED_BYTES_MAX, gzip, told }
    }

    /// Parses the next bytes of the message.
    fn look(&mut self, bytes: &[u8]) {
        let looked = bytes.get(..self.left).unwrap_or(bytes);
        if self.told.get().is_none() && !looked.is_empty() {
            self.left -= looked.len();
            // A body that is not XML has no code.
            if self.parser.feed(looked, &mut self.code).is_err() {
                self.left = 0;
            }
            self.told.set(self.code.fault());
        }
    }

    /// Decodes and parses the next bytes.
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

impl BodyTransform for FaultCodeReader {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        out.extend_from_slice(bytes);
        match self.gzip.take() {
            Some(gzip) => self.look_into(gzip, bytes),
            None => self.look(bytes),
        }
        Ok(Fill::More)
    }

    fn on_end(&mut self, _: &mut Vec<u8>) -> Result<(), Fault> {
        // The decoder may still hold decoded bytes.
        if let Some(mut gzip) = self.gzip.take() {
            // Harmless: the bytes pass unchanged, so the client detects a broken coding.
            let _ = gzip.try_finish();
            self.look(&std::mem::take(gzip.get_mut()));
        }
        Ok(())
    }

    fn remaining(&self, inner: Option<u64>) -> Option<u64> {
        inner
    }
}
