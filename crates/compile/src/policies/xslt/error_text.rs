//! The text for clients about a stylesheet that does not compile: the sentences of libxml2, libxslt and Saxon, as clients of the
//! reference system compare them. It names no files or hosts but those that the stylesheet itself names.

use ::saxon::Complaint;
use mediation::libxml_messages::not_xml;
use xslt::{Error, ErrorKind};

use super::DefinitionDocuments;
use crate::policies::soap::load;

/// All of it begins so.
const INVALID: &str = "Invalid XSLT definition.";

/// libxslt reports the place of a mistake, and in a sentence of its own the mistake.
const COMPILING: &str = "compilation error.";

/// There is no Saxon. Why is the operator's business.
pub(super) const UNAVAILABLE: &str = "Unable to load the XSLT library";

/// The stylesheet is of a later version than our own engine runs.
pub(super) fn later() -> String {
    format!("{INVALID} {COMPILING} xsl:version: only 1.1 features are supported")
}

/// It is not a stylesheet of XSLT 1.0.
pub(super) fn broken(error: &Error, found: &DefinitionDocuments<'_>) -> String {
    let first = found.first();
    if let Err(error) = load::parsed(first) {
        return format!("{INVALID} {}", not_xml(&error, first));
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

/// Saxon does not compile it. `root` stands before the names of its modules.
pub(super) fn by_saxon(complaints: &[Complaint], root: &str) -> String {
    const PARSER: &str = "Error reported by XML parser";
    let what = complaints.first().map_or("", |complaint| complaint.what.as_str());
    // The code is part of how Saxon words it where there is no place in the stylesheet yet.
    let code = if what.starts_with(PARSER) { "SXXP0003:  " } else { "" };
    format!("{INVALID} {code}{}", what.replace(root, ""))
}
