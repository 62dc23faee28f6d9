//! Chooses the namespaces that an element has to declare in the output, and their prefixes.

use std::borrow::Cow;

use crate::scope::{DeclareOutcome, Spaces};
use crate::serialize::Form;
use crate::{Document, NodeId, QName, XML_NAMESPACE};

/// Namespace declarations in scope in the output.
pub(crate) struct WrittenNamespaces {
    spaces: Spaces,
}

impl WrittenNamespaces {
    pub(crate) fn new() -> WrittenNamespaces {
        WrittenNamespaces { spaces: Spaces::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.spaces.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        // Harmless: the declarations of an element end with it.
        self.spaces.truncate(len);
    }

    pub(crate) fn since(&self, from: usize) -> impl Iterator<Item = (&str, &str)> {
        self.spaces.since(from)
    }

    /// Returns the namespace of a prefix in the output; empty if it has none.
    fn meaning(&self, prefix: &str) -> &str {
        self.spaces.resolve(prefix).map_or("", |id| self.spaces.namespace(id).uri)
    }

    /// Adds the declarations that an element needs, and returns the prefixes of its attributes in tree order. They differ from the prefixes
    /// in the tree only if the tree was built with conflicting prefixes.
    pub(crate) fn declare<'d>(
        &mut self,
        document: &'d Document,
        element: NodeId,
        apex: NodeId,
        form: &Form<'_>,
    ) -> Vec<Cow<'d, str>> {
        let from = self.len();
        let candidates: Vec<(&str, &str)> = if element == apex {
            document.namespaces(element)
        } else {
            document.declared(element).collect()
        };
        for (prefix, uri) in candidates {
            let wanted = match form {
                Form::Plain | Form::Pretty { .. } => true,
                Form::Moved { kept } => element != apex || kept.contains(&prefix),
                Form::Canonical { .. } => self.meaning(prefix) != uri,
                Form::Exclusive { inclusive, .. } => {
                    inclusive.contains(&prefix) && self.meaning(prefix) != uri
                }
            };
            if wanted && prefix != "xml" {
                self.add(prefix, uri);
            }
        }
        let name = document.name(element);
        if self.meaning(name.prefix) != name.namespace.uri {
            self.replace(from, name.prefix, name.namespace.uri);
        }
        let attributes = document.attributes(element);
        attributes.map(|attribute| self.prefix(from, document.name(attribute))).collect()
    }

    fn add(&mut self, prefix: &str, uri: &str) {
        let added = self.spaces.declare(self.spaces.len(), prefix, uri);
        debug_assert_eq!(added, DeclareOutcome::New, "a document has no more names than numbers");
    }

    /// Declares a prefix on this element, and replaces this element's earlier declaration of it.
    fn replace(&mut self, from: usize, prefix: &str, uri: &str) {
        let own: Vec<(String, String)> =
            self.since(from).map(|(p, u)| (p.to_owned(), u.to_owned())).collect();
        // Harmless: all declarations except the replaced one are added again.
        self.truncate(from);
        for (own_prefix, own_uri) in own.iter().filter(|(own_prefix, _)| own_prefix != prefix) {
            self.add(own_prefix, own_uri);
        }
        self.add(prefix, uri);
    }

    /// Returns the prefix of an attribute: its own if that is bound to the namespace or is free, otherwise another prefix of the namespace,
    /// or a new one.
    fn prefix<'d>(&mut self, from: usize, name: QName<'d>) -> Cow<'d, str> {
        let uri = name.namespace.uri;
        match (name.prefix, uri) {
            (_, "") => return Cow::Borrowed(""),
            (_, XML_NAMESPACE) => return Cow::Borrowed("xml"),
            (prefix, uri) if !prefix.is_empty() && self.meaning(prefix) == uri => {
                return Cow::Borrowed(prefix);
            }
            // Harmless: the code below handles all other names.
            _ => {}
        }
        if !name.prefix.is_empty() && !self.spaces.declares(from, name.prefix) {
            self.add(name.prefix, uri);
            return Cow::Borrowed(name.prefix);
        }
        let mut known = self.spaces.all().filter(|(prefix, _)| !prefix.is_empty());
        if let Some((prefix, _)) = known.find(|(_, known)| known.uri == uri) {
            return Cow::Owned(prefix.to_owned());
        }
        drop(known);
        let made = (0u32..).map(|n| format!("ns{n}")).find(|made| self.meaning(made).is_empty());
        // Harmless: one of the numbers is always free.
        let made = made.unwrap_or_default();
        self.add(&made, uri);
        Cow::Owned(made)
    }
}
