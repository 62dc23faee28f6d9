//! The code of a SOAP fault, read as the reply passes.
//!
//! Owns how much of a reply is looked at, and its coding; a reply goes on as it came. Where the code stands is
//! [`mediation::soap::Code`]'s.

use std::cell::Cell;
use std::io::Write as _;
use std::rc::Rc;

use fault::Fault;
use flate2::write::MultiGzDecoder;
use mediation::soap::Code;
use message::Fill;
use policy::BodyTransform;
use telemetry::SoapFault;

/// Bytes that may stand before the code: an envelope's start, and headers perhaps.
const LOOKED_BYTES_MAX: usize = 64 << 10;

/// So many bytes of a coding at a time, which can be a thousand times as many without it.
const CODED_BYTES_MAX: usize = 256;

/// Reads the code of a reply that goes on as it came.
pub(super) struct FaultCodeReader {
    parser: Box<xml::Parser>,
    code: Code,
    left: usize,
    /// Takes off the coding it comes in.
    gzip: Option<Box<MultiGzDecoder<Vec<u8>>>>,
    /// The cell in which the exchange's notes find it.
    told: Rc<Cell<Option<SoapFault>>>,
}

impl FaultCodeReader {
    pub(super) fn new(told: Rc<Cell<Option<SoapFault>>>, gzip: bool) -> FaultCodeReader {
        let parser = Box::new(xml::Parser::new(xml::Options::default()));
        let gzip = gzip.then(|| Box::new(MultiGzDecoder::new(Vec::new())));
        FaultCodeReader { parser, code: Code::default(), left: LOOKED_BYTES_MAX, gzip, told }
    }

    /// Looks at the next bytes of the message.
    fn look(&mut self, bytes: &[u8]) {
        let looked = bytes.get(..self.left).unwrap_or(bytes);
        if self.told.get().is_none() && !looked.is_empty() {
            self.left -= looked.len();
            // What is not XML has no code.
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
        // It keeps back what the last bytes came to.
        if let Some(mut gzip) = self.gzip.take() {
            // Harmless: the bytes pass as they are, and what is wrong with them is the client's to find.
            let _whole = gzip.try_finish();
            self.look(&std::mem::take(gzip.get_mut()));
        }
        Ok(())
    }

    fn remaining(&self, inner: Option<u64>) -> Option<u64> {
        inner
    }
}
