//! Names and namespaces of a document.

/// The namespace that the prefix `xml` always means.
pub const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

/// The namespace that the prefix `xmlns` always means.
pub const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// A namespace of a document. Within one parse equal URIs have equal ids, so that a sink can look a URI up once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace<'a> {
    /// 0 is not a namespace, 1 is [`XML_NAMESPACE`], others in the order they were met.
    pub id: u32,
    /// Empty for no namespace.
    pub uri: &'a str,
}

/// The name of an element or attribute: `prefix:local`, and the prefix's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QName<'a> {
    /// Empty where there is none.
    pub prefix: &'a str,
    pub local: &'a str,
    pub namespace: Namespace<'a>,
}

impl QName<'static> {
    /// The name of a node without a name.
    pub const NONE: QName<'static> =
        QName { prefix: "", local: "", namespace: Namespace { id: 0, uri: "" } };
}
