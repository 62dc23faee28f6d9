//! `xslt`: transforms messages.

use super::soap::{BadDefinitions, DefinitionFetch, MessageSide};
use crate::decode::{keys, words};
use crate::values::{DefinitionAt, Map, Size, Spanned};

keys! {
    /// Transforms requests or replies by a stylesheet.
    pub struct Xslt {
        /// What is transformed: `request` or `response`.
        // `on` is what YAML 1.1 takes for a truth.
        side or "on": Spanned<MessageSide>,
        /// The stylesheet, a file or, with `fetch`, a URL; what it imports or includes stands beside it.
        stylesheet: Spanned<DefinitionAt>,
        /// Fetches what is named by a URL, beside the requests; without this nothing is. What was compiled is made anew in time.
        fetch: Option<DefinitionFetch>,
        /// What runs it: `native` for XSLT 1.0, `saxon` for 2.0 and 3.0, or `auto` for whatever its version asks for; one at a URL
        /// that needs Saxon has to say so.
        engine: XsltEngine = XsltEngine::Auto,
        /// Values for its parameters, as strings.
        parameters: Map<String> = Map::default(),
        /// How the native engine writes XML: `plain` as the stylesheet asks, or `canonical`, the bytes of libxslt behind Kong's
        /// plugins: Canonical XML 1.0 with comments, an XML declaration in front unless the stylesheet omits it. The route's
        /// `errors: kong` implies `canonical`.
        output: Option<Spanned<XsltOutput>>,
        /// Whether every ` xmlns=""` is taken out of the result, so that what the stylesheet writes without a namespace takes
        /// that of its parent.
        // Stylesheets written for other gateways count on it.
        strip_empty_namespaces: bool = true,
        /// What becomes of a stylesheet that does not compile: `complain` stops the configuration, `fault` answers each message
        /// with a fault. The route's `errors: kong` implies `fault`.
        bad_definitions: Option<BadDefinitions>,
        /// Whether the client is told what is wrong.
        verbose: bool = false,
        /// The largest message; 413 above for a request, 502 for a reply.
        // As for `soap`; a tree of it takes some ten times as much.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

words! {
    /// How XML is written.
    pub enum XsltOutput {
        /// As `xsl:output` asks: lines, CDATA sections and a document type among it.
        Plain = "plain",
        /// As Canonical XML 1.0 with comments, behind a declaration.
        Canonical = "canonical",
    }
}

words! {
    /// What runs stylesheets.
    pub enum XsltEngine {
        /// The gateway itself: XSLT 1.0.
        Native = "native",
        /// Saxon-HE, on a Java machine: XSLT 2.0 and 3.0, and 1.0 as far as 3.0 is compatible.
        Saxon = "saxon",
        /// Whatever the stylesheet's version asks for: up to 1.1 the gateway itself, above it Saxon.
        Auto = "auto",
    }
}
