//! Names and namespaces of a document.

/// The namespace that is always bound to the prefix `xml`.
pub const XML_NAMESPACE: &str = "http://www.w3.org/XML/1998/namespace";

/// The namespace that is always bound to the prefix `xmlns`.
pub const XMLNS_NAMESPACE: &str = "http://www.w3.org/2000/xmlns/";

/// A namespace of a document. Within one parse, equal URIs have equal ids, so that a sink can look up each URI only once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Namespace<'a> {
    /// 0 means no namespace and 1 is [`XML_NAMESPACE`]. Others are numbered in the order of their first occurrence.
    pub id: u32,
    /// Empty if there is no namespace.
    pub uri: &'a str,
}

/// The name of an element or attribute: `prefix:local`, and the prefix's namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QName<'a> {
    /// Empty if there is no prefix.
    pub prefix: &'a str,
    pub local: &'a str,
    pub namespace: Namespace<'a>,
}

impl QName<'static> {
    /// The name of a node without a name.
    pub const NONE: QName<'static> =
        QName { prefix: "", local: "", namespace: Namespace { id: 0, uri: "" } };
}
