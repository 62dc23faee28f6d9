//! Undeclared elements, represented as XML in a string.
//!
//! Checks such a string in requests, and writes one in replies. A written fragment is self-contained: every prefix of a name is declared
//! where it is used, and so is a prefix at the beginning of an attribute's value. Prefixes in text are not declared.

use xml::{Here, Options, QName, Sink, Start};

use super::scalar::push_text;

/// Checks that a text is a single complete element.
pub(super) fn check(text: &str) -> Result<(), String> {
    let text = text.trim();
    if text.starts_with("<?") || text.starts_with("<!") {
        return Err("expected an element of XML, and nothing before it".to_owned());
    }
    let parsed = xml::parse(text.as_bytes(), &Options::default(), &mut NullSink);
    parsed.map_err(|error| format!("expected an element of XML: {error}"))
}

/// Parses an element and writes it as in replies.
pub(super) fn again(text: &str) -> Result<String, String> {
    let mut fragment = Fragment::default();
    xml::parse(text.as_bytes(), &Options::default(), &mut fragment)
        .map_err(|error| error.to_string())?;
    Ok(fragment.text)
}

impl Sink for Fragment {
    type Error = xml::Error;

    fn start(&mut self, start: &Start<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        Fragment::start(self, start);
        Ok(())
    }

    fn text(&mut self, text: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        self.characters(text);
        Ok(())
    }

    fn end(&mut self, name: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        Fragment::end(self, name);
        Ok(())
    }
}

struct NullSink;

impl Sink for NullSink {
    type Error = xml::Error;

    fn start(&mut self, _: &Start<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn text(&mut self, _: &str, _: bool, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }

    fn end(&mut self, _: QName<'_>, _: Here<'_>) -> Result<(), xml::Error> {
        Ok(())
    }
}

/// An element that is being written to a string.
#[derive(Debug, Default)]
pub(super) struct Fragment {
    pub(super) text: String,
    /// Declared prefixes with their namespaces and depths.
    declared: Vec<(String, String, usize)>,
    pub(super) depth: usize,
}

impl Fragment {
    pub(super) fn start(&mut self, start: &Start<'_>) {
        self.depth += 1;
        self.text.push('<');
        self.name(start.name);
        self.declare(start.name.prefix, start.name.namespace.uri);
        for attribute in start.attributes.iter() {
            if !attribute.name.prefix.is_empty() {
                self.declare(attribute.name.prefix, attribute.name.namespace.uri);
            }
            // An attribute value may be a type name with a prefix.
            if let Some((prefix, _)) = attribute.value.split_once(':')
                && let Some(namespace) = start.scope.lookup(prefix)
            {
                self.declare(prefix, namespace.uri);
            }
        }
        for attribute in start.attributes.iter() {
            self.text.push(' ');
            self.name(attribute.name);
            self.text.push_str("=\"");
            push_text(&mut self.text, attribute.value, true);
            self.text.push('"');
        }
        self.text.push('>');
    }

    pub(super) fn characters(&mut self, text: &str) {
        push_text(&mut self.text, text, false);
    }

    /// Handles the end of an element. Returns true if the fragment is complete.
    pub(super) fn end(&mut self, name: QName<'_>) -> bool {
        match self.text.strip_suffix('>').filter(|_| self.just_opened()) {
            Some(open) => {
                let len = open.len();
                // Harmless: the end of the tag is written again.
                self.text.truncate(len);
                self.text.push_str("/>");
            }
            None => {
                self.text.push_str("</");
                self.name(name);
                self.text.push('>');
            }
        }
        let depth = self.depth;
        self.declared.retain(|(_, _, at)| *at < depth);
        self.depth -= 1;
        self.depth == 0
    }

    /// Returns whether the last thing written was a start tag.
    fn just_opened(&self) -> bool {
        let tag = self.text.rfind('<').and_then(|at| self.text.get(at..)).unwrap_or("");
        !tag.starts_with("</") && !tag.ends_with("/>") && tag.ends_with('>')
    }

    fn name(&mut self, name: QName<'_>) {
        if !name.prefix.is_empty() {
            self.text.push_str(name.prefix);
            self.text.push(':');
        }
        self.text.push_str(name.local);
    }

    fn declare(&mut self, prefix: &str, uri: &str) {
        if prefix == "xml" {
            return;
        }
        let known = self.declared.iter().rev().find(|(known, _, _)| known == prefix);
        let means = known.map_or("", |(_, means, _)| means.as_str());
        if means == uri {
            return;
        }
        self.text.push_str(if prefix.is_empty() { " xmlns" } else { " xmlns:" });
        self.text.push_str(prefix);
        self.text.push_str("=\"");
        push_text(&mut self.text, uri, true);
        self.text.push('"');
        self.declared.push((prefix.to_owned(), uri.to_owned(), self.depth));
    }
}
