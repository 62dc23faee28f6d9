//! Writes the text for clients about a stylesheet that does not compile. It has the exact sentences of libxml2, libxslt and Saxon, because
//! clients that were written for Kong compare them. It names only files and hosts that the stylesheet itself names.

use ::saxon::Complaint;
use mediation::libxml_messages::malformed_text;
use xslt::{Error, ErrorKind};

use super::DefinitionDocuments;
use crate::policies::soap::load;

/// The beginning of every such text.
const INVALID: &str = "Invalid XSLT definition.";

/// The sentence in which libxslt reports the place of a mistake. The mistake follows in another sentence.
const COMPILING: &str = "compilation error.";

/// The text if Saxon is not available. The reason is only for the operator.
pub(super) const UNAVAILABLE: &str = "Unable to load the XSLT library";

/// Returns the text for a stylesheet of a later version than the gateway's own engine supports.
pub(super) fn later() -> String {
    format!("{INVALID} {COMPILING} xsl:version: only 1.1 features are supported")
}

/// Returns the text for a document that is not a valid XSLT 1.0 stylesheet.
pub(super) fn broken(error: &Error, found: &DefinitionDocuments<'_>) -> String {
    let first = found.first();
    if let Err(error) = load::parsed(first) {
        return format!("{INVALID} {}", malformed_text(&error, first));
    }
    let missing = |location: &str| format!("Failed to parse the XML resource '{location}'.");
    let told = match &error.kind {
        ErrorKind::Resolve { href, .. } => missing(href),
        ErrorKind::Document(what) => found.unusable().unwrap_or_else(|| what.to_string()),
        ErrorKind::Static(what) if what.starts_with("this is not a stylesheet") => {
            format!("{COMPILING} xsltParseStylesheetProcess : document is not a stylesheet")
        }
        ErrorKind::Static(_)
        | ErrorKind::Expression(_)
        | ErrorKind::Dynamic(_)
        | ErrorKind::Terminated(_)
        | ErrorKind::Limit { .. } => format!("{COMPILING} {}", error.kind),
    };
    format!("{INVALID} {}", found.documents.without_folders(&told))
}

/// Returns the text for a stylesheet that Saxon does not compile. `root` is the prefix of module names, which is removed.
pub(super) fn by_saxon(complaints: &[Complaint], root: &str) -> String {
    const PARSER: &str = "Error reported by XML parser";
    let what = complaints.first().map_or("", |complaint| complaint.what.as_str());
    // Saxon includes this code in its message when there is no position in the stylesheet yet.
    let code = if what.starts_with(PARSER) { "SXXP0003:  " } else { "" };
    format!("{INVALID} {code}{}", what.replace(root, ""))
}
