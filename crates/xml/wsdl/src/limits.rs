//! Limits on a description.

/// Limits on one description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Number of WSDL documents. Schema documents have a limit of their own.
    pub documents_max: usize,
    /// Number of services, ports, bindings, operations, messages and parts together.
    pub definitions_max: usize,
    /// Number of schemas in an [`crate::Outline`].
    pub schemas_max: usize,
    pub complaints_max: usize,
    /// Limits on each document.
    pub xml: xml::Limits,
    pub xsd: xsd::Limits,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Hand-written descriptions import only a few.
            documents_max: 200,
            // The largest public ones (NetSuite, eBay) have some thousands.
            definitions_max: 100_000,
            // Each schema is compiled with its imports. Generated descriptions have one schema for each namespace, some dozens.
            schemas_max: 500,
            complaints_max: 100,
            xml: xml::Limits::default(),
            xsd: xsd::Limits::default(),
        }
    }
}
