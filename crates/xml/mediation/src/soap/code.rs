//! A parser sink that finds the code of a SOAP fault.
//!
//! Knows the position of the code in both versions. A message that is not a fault has no code.

use telemetry::SoapFault;
use xml::{Here, QName, Sink, Start};

use super::is_soap;

/// Maximum length of a code, which is a short name with a prefix.
const TEXT_BYTES_MAX: usize = 256;

/// Finds the code of a fault.
#[derive(Debug, Default, Clone)]
pub struct Code {
    depth: usize,
    /// Whether the parser is inside the Body.
    body: bool,
    /// Whether the parser is inside the Fault of the Body.
    fault: bool,
    /// Whether the parser is inside the element `Code` of SOAP 1.2, which contains the element of the code.
    outer: bool,
    /// Whether the parser is inside the element whose text is the code.
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
            // Harmless: no other element is the code.
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

    /// Returns the code, or `None` if the message is not a fault.
    pub fn fault(&self) -> Option<SoapFault> {
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
