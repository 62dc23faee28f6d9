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
        /// The stylesheet, a file or, with `fetch`, a URL. What it imports or includes is read from beside it.
        stylesheet: Spanned<DefinitionAt>,
        /// Fetches what is named by a URL, in the background; without this nothing is fetched. Definitions are compiled anew after `ttl`.
        fetch: Option<DefinitionFetch>,
        /// The engine: `native` for XSLT 1.0, `saxon` for 2.0 and 3.0, or `auto` by the stylesheet's version. A stylesheet at a URL that
        /// needs Saxon has to say `saxon`.
        engine: XsltEngine = XsltEngine::Auto,
        /// Values for its parameters, as strings.
        parameters: Map<String> = Map::default(),
        /// How the native engine writes XML: `plain` as the stylesheet asks, or `canonical`, the bytes of libxslt behind Kong's
        /// plugins: Canonical XML 1.0 with comments, an XML declaration in front unless the stylesheet omits it. The route's
        /// `errors: kong` implies `canonical`.
        output: Option<Spanned<XsltOutput>>,
        /// Whether every ` xmlns=""` is removed from the result, so that elements that the stylesheet writes without a namespace take that
        /// of their parent.
        // Stylesheets written for other gateways count on it.
        strip_empty_namespaces: bool = true,
        /// What to do with a stylesheet that does not compile: `complain` refuses the configuration, `fault` answers each message with a
        /// fault. The route's `errors: kong` implies `fault`.
        bad_definitions: Option<BadDefinitions>,
        /// Whether the client is told what is wrong.
        verbose: bool = false,
        /// The largest message; 413 above for a request, 502 for a reply.
        // As for `soap`; a tree of it takes some ten times as much.
        body_bytes_max: Size = Size(10 * 1024 * 1024),
    }
}

words! {
    /// The way in which XML is written.
    pub enum XsltOutput {
        /// As `xsl:output` asks: lines, CDATA sections and a document type among it.
        Plain = "plain",
        /// As Canonical XML 1.0 with comments, behind a declaration.
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
        /// Whatever the stylesheet's version asks for: up to 1.1 the gateway itself, above it Saxon.
        Auto = "auto",
    }
}
