//! Table of the attributes that each element of XSLT allows (XSLT 1.0, appendix B).

use super::Compiler;
use super::element::{Child, Element};
use crate::error::Error;

const ATTRIBUTES: &[(&str, &[&str])] = &[
    ("apply-imports", &[]),
    ("apply-templates", &["select", "mode"]),
    ("attribute", &["name", "namespace"]),
    ("attribute-set", &["name", "use-attribute-sets"]),
    ("call-template", &["name"]),
    ("choose", &[]),
    ("comment", &[]),
    ("copy", &["use-attribute-sets"]),
    ("copy-of", &["select"]),
    (
        "decimal-format",
        &[
            "name",
            "decimal-separator",
            "grouping-separator",
            "infinity",
            "minus-sign",
            "NaN",
            "percent",
            "per-mille",
            "zero-digit",
            "digit",
            "pattern-separator",
        ],
    ),
    ("element", &["name", "namespace", "use-attribute-sets"]),
    ("fallback", &[]),
    ("for-each", &["select"]),
    ("if", &["test"]),
    ("key", &["name", "match", "use"]),
    ("message", &["terminate"]),
    ("namespace-alias", &["stylesheet-prefix", "result-prefix"]),
    (
        "number",
        &[
            "level",
            "count",
            "from",
            "value",
            "format",
            "lang",
            "letter-value",
            "grouping-separator",
            "grouping-size",
        ],
    ),
    ("otherwise", &[]),
    (
        "output",
        &[
            "method",
            "version",
            "encoding",
            "omit-xml-declaration",
            "standalone",
            "doctype-public",
            "doctype-system",
            "cdata-section-elements",
            "indent",
            "media-type",
        ],
    ),
    ("param", &["name", "select"]),
    ("preserve-space", &["elements"]),
    ("processing-instruction", &["name"]),
    ("sort", &["select", "lang", "data-type", "order", "case-order"]),
    ("strip-space", &["elements"]),
    ("template", &["match", "name", "priority", "mode"]),
    ("text", &["disable-output-escaping"]),
    ("value-of", &["select", "disable-output-escaping"]),
    ("variable", &["name", "select"]),
    ("when", &["test"]),
    ("with-param", &["name", "select"]),
];

/// Returns whether an element is an instruction, for `element-available()`.
pub(crate) fn is_instruction(local: &str) -> bool {
    const OTHERS: &[&str] = &[
        "attribute-set",
        "decimal-format",
        "key",
        "namespace-alias",
        "otherwise",
        "output",
        "param",
        "preserve-space",
        "sort",
        "strip-space",
        "template",
        "when",
        "with-param",
    ];
    ATTRIBUTES.iter().any(|(name, _)| *name == local) && !OTHERS.contains(&local)
}

/// Elements that must be empty in every version, except for fallbacks. Imports and includes at the top level are not checked.
const EMPTY: &[&str] = &[
    "copy-of",
    "decimal-format",
    "import",
    "include",
    "namespace-alias",
    "number",
    "preserve-space",
    "strip-space",
];

impl<'m> Compiler<'m> {
    /// Refuses content of elements that must be empty.
    fn check_empty(&self, e: Element<'m>) -> Result<(), Error> {
        let empty = e.xsl().is_some_and(|local| EMPTY.contains(&local));
        let holds = |child: &Child<'_>| match child {
            Child::Element(child) => child.xsl() != Some("fallback"),
            Child::Text(_) => true,
        };
        if empty && e.children().iter().any(holds) {
            Err(self.wrong(e, format!("{} must be empty", e.shown())))
        } else {
            Ok(())
        }
    }

    /// Refuses attributes that an element of XSLT does not have. In forwards-compatible mode they are ignored.
    pub(super) fn check_attributes(&self, e: Element<'m>) -> Result<(), Error> {
        self.check_empty(e)?;
        if e.forwards() {
            return Ok(());
        }
        let known = e.xsl().and_then(|local| ATTRIBUTES.iter().find(|(name, _)| *name == local));
        let Some((_, known)) = known else { return Ok(()) };
        for (name, _) in e.attributes() {
            if name.namespace.uri.is_empty() && !known.contains(&name.local) {
                let what = format!("{} does not take the attribute {}", e.shown(), name.local);
                return Err(self.wrong(e, what));
            }
        }
        Ok(())
    }
}
