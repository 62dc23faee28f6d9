//! The versions of SOAP and their namespaces.

/// The namespace of SOAP 1.1 envelopes.
pub const SOAP_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";

/// The namespace of SOAP 1.2 envelopes.
pub const SOAP_12: &str = "http://www.w3.org/2003/05/soap-envelope";

/// The namespace of WSDL 1.1's bindings to SOAP 1.1.
pub const BINDING_11: &str = "http://schemas.xmlsoap.org/wsdl/soap/";

/// The namespace of WSDL 1.1's bindings to SOAP 1.2.
pub const BINDING_12: &str = "http://schemas.xmlsoap.org/wsdl/soap12/";

/// A version of SOAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoapVersion {
    V11,
    V12,
}

impl SoapVersion {
    /// Returns the index of the version.
    pub fn index(self) -> usize {
        match self {
            SoapVersion::V11 => 0,
            SoapVersion::V12 => 1,
        }
    }

    /// Returns the version number as commonly written.
    pub fn text(self) -> &'static str {
        match self {
            SoapVersion::V11 => "1.1",
            SoapVersion::V12 => "1.2",
        }
    }

    /// Returns the namespace of the version's envelopes.
    pub const fn namespace(self) -> &'static str {
        match self {
            SoapVersion::V11 => SOAP_11,
            SoapVersion::V12 => SOAP_12,
        }
    }
}
