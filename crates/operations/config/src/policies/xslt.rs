//! `xslt`: transforms messages.

use super::soap::{BadDefinitions, DefinitionFetch, MessageSide};
use crate::decode::{keys, words};
use crate::values::{DefinitionAt, Map, Size, Spanned};

keys! {
    /// Transforms requests or replies by a stylesheet.
    pub struct Xslt {
        /// What is transformed: `request` or `response`.
        // YAML 1.1 treats `on` as a boolean.
        side or "on": Spanned<MessageSide>,
        /// The stylesheet: a file or, with `fetch`, a URL. Files that it imports or includes are read relative to it.
        stylesheet: Spanned<DefinitionAt>,
        /// Fetches documents that are referred to by URL, in the background. If absent, nothing is fetched. Definitions are recompiled
        /// after `ttl`.
        fetch: Option<DefinitionFetch>,
        /// The engine: `native` for XSLT 1.0, `saxon` for 2.0 and 3.0, or `auto` by the stylesheet's version. For a stylesheet at a URL
        /// that needs Saxon, write `saxon`.
        engine: XsltEngine = XsltEngine::Auto,
        /// Values for its parameters, as strings.
        parameters: Map<String> = Map::default(),
        /// How the native engine writes XML: `plain` as the stylesheet asks, or `canonical`, the bytes of libxslt behind Kong's
        /// plugins: Canonical XML 1.0 with comments, an XML declaration in front unless the stylesheet omits it. The route's
        /// `errors: kong` implies `canonical`.
        output: Option<Spanned<XsltOutput>>,
        /// Whether every ` xmlns=""` is removed from the result, so that elements written without a namespace get that of their parent.
        // Stylesheets written for other gateways rely on it.
        strip_empty_namespaces: bool = true,
        /// What happens with a stylesheet that does not compile: `complain` refuses the configuration, `fault` answers each message with a
        /// fault. The route's `errors: kong` implies `fault`.
        bad_definitions: Option<BadDefinitions>,
        /// Whether errors are reported to the client.
        verbose: bool = false,
        /// The largest message; 413 above for a request, 502 for a reply.
        // As for `soap`. The tree of a message takes about ten times as much memory.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

words! {
    /// How XML is written.
    pub enum XsltOutput {
        /// As `xsl:output` specifies, including indentation, CDATA sections and document type.
        Plain = "plain",
        /// As Canonical XML 1.0 with comments, after an XML declaration.
        Canonical = "canonical",
    }
}

words! {
    /// The engine that runs stylesheets.
    pub enum XsltEngine {
        /// The gateway itself: XSLT 1.0.
        Native = "native",
        /// Saxon-HE, on a JVM: XSLT 2.0 and 3.0, and 1.0 as far as 3.0 is compatible.
        Saxon = "saxon",
        /// By the stylesheet's version: up to 1.1 the gateway itself, above it Saxon.
        Auto = "auto",
    }
}
