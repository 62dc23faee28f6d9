//! Serialisation in canonical form (Canonical XML 1.0, 2.3).
//!
//! Handles what surrounds the root: the XML declaration, which gateways write although canonical form has none, and line breaks next to
//! comments and instructions. The composer handles the order within a tag.

use super::{Serializer, Style};

impl Serializer {
    #[inline]
    pub(crate) fn is_canonical(&self) -> bool {
        self.settings.style == Style::Canonical
    }

    /// Writes the declaration with the encoding as spelled in the stylesheet, and with `standalone` if it is `yes`. A line break follows if
    /// indentation is on.
    pub(super) fn canonical_declaration(&mut self) {
        let settings = self.settings.clone();
        self.out.extend_from_slice(b"<?xml version=\"1.0\" encoding=\"");
        self.out.extend_from_slice(settings.encoding_name.as_deref().unwrap_or("utf-8").as_bytes());
        self.out.push(b'"');
        if settings.standalone == Some(true) {
            self.out.extend_from_slice(b" standalone=\"yes\"");
        }
        self.out.extend_from_slice(b"?>");
        if settings.indent == Some(true) {
            self.out.push(b'\n');
        }
    }

    /// Writes a comment or an instruction. Outside the root element it gets a line of its own.
    pub(super) fn canonical_leaf(&mut self, pieces: [&str; 4]) {
        let beside = self.open.is_empty();
        if beside && self.root_written {
            self.out.push(b'\n');
        }
        for piece in pieces {
            let mut lines = piece.split('\r');
            self.out.extend_from_slice(lines.next().unwrap_or("").as_bytes());
            for line in lines {
                self.out.extend_from_slice(b"&#xD;");
                self.out.extend_from_slice(line.as_bytes());
            }
        }
        if beside && !self.root_written {
            self.out.push(b'\n');
        }
    }
}
