//! The schemas of a definition and the order in which they are tried.
//!
//! Decides which schemas validate an element: the first that declares it; others only if that schema lacks some declaration that the
//! element needs. `check` validates the messages.

use std::collections::HashMap;
use std::sync::Arc;

use xml::QName;
use xsd::Schema;

use crate::Rejection;

/// Maximum number of schemas that declare an element and are tried for it, before the last one. A message is parsed once for each.
const TRIED_MAX: usize = 8;

/// A compiled schema, or the refusal of messages that the schema would have validated.
pub type SchemaResult = Result<Arc<Schema>, Rejection>;

/// Schemas in the order of their documents.
pub struct Schemas {
    all: Box<[SchemaResult]>,
    /// The schemas that are tried for an element, by its namespace and its local name.
    of: HashMap<Box<str>, HashMap<Box<str>, Turns>>,
    /// The schemas for elements that none of them declares.
    otherwise: Turns,
}

/// Indices of schemas, in the order in which they are tried.
type Turns = Box<[usize]>;

impl Schemas {
    /// Creates a list of one schema.
    pub fn one(schema: Arc<Schema>) -> Schemas {
        Schemas::new(vec![Ok(schema)])
    }

    /// Creates the list. A schema that does not compile decides about elements that no earlier schema declares.
    pub fn new(all: Vec<SchemaResult>) -> Schemas {
        let broken = all.iter().position(Result::is_err);
        let last = all.len().checked_sub(1);
        let otherwise = broken.or(last).into_iter().collect();
        let mut schemas = Schemas { all: all.into(), of: HashMap::new(), otherwise };
        // With only one schema, no index by element is needed.
        if schemas.all.len() > 1 {
            schemas.declare();
        }
        schemas
    }

    fn declare(&mut self) {
        let mut of: HashMap<Box<str>, HashMap<Box<str>, Vec<usize>>> = HashMap::new();
        for (at, schema) in self.all.iter().enumerate() {
            // Schemas after a faulty one are not tried.
            let Ok(schema) = schema else { break };
            for (uri, local) in schema.elements() {
                let tried = of.entry(uri.into()).or_default().entry(local.into()).or_default();
                if tried.len() < TRIED_MAX && !self.is_among(at, tried) {
                    tried.push(at);
                }
            }
        }
        // The last schema tried determines the error text, whether or not it declares the element.
        let whole = |mut tried: Vec<usize>| {
            for at in &self.otherwise {
                if !self.is_among(*at, &tried) {
                    tried.push(*at);
                }
            }
            tried.into_boxed_slice()
        };
        let of = of.into_iter().map(|(uri, all)| {
            (uri, all.into_iter().map(|(local, tried)| (local, whole(tried))).collect())
        });
        self.of = of.collect();
    }

    /// Returns true if `tried` contains the schema. Descriptions whose schemas import one another share a single schema.
    fn is_among(&self, at: usize, tried: &[usize]) -> bool {
        let same = |one: usize| match (self.all.get(one), self.all.get(at)) {
            (Some(Ok(one)), Some(Ok(other))) => Arc::ptr_eq(one, other),
            _ => one == at,
        };
        tried.iter().any(|one| same(*one))
    }

    /// Returns the indices of the schemas to try for an element, in order.
    pub(super) fn turns(&self, name: QName<'_>) -> &[usize] {
        if self.of.is_empty() {
            return &self.otherwise;
        }
        let of = self.of.get(name.namespace.uri).and_then(|all| all.get(name.local));
        of.unwrap_or(&self.otherwise)
    }

    pub(super) fn get(&self, at: usize) -> Option<&SchemaResult> {
        self.all.get(at)
    }

    /// Returns the first schema, which for an envelope is the only one.
    pub fn first(&self) -> Option<&Arc<Schema>> {
        // Harmless: the message is refused if its envelope has no schema.
        self.all.first()?.as_ref().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(target: &str, content: &str) -> SchemaResult {
        let text = format!(
            "<x:schema xmlns:x='http://www.w3.org/2001/XMLSchema' targetNamespace='{target}'>{content}</x:schema>"
        );
        let mut set = xsd::SchemaSet::new(&xsd::NoDocuments, xsd::Limits::default());
        set.add_bytes(text.as_bytes(), "a.xsd");
        Ok(Arc::new(set.compile().unwrap()))
    }

    #[test]
    fn schemas_that_declare_an_element_are_tried_before_the_last_one() {
        let a = schema("urn:a", "<x:element name='one'/><x:element name='two'/>");
        let b = schema("urn:b", "<x:element name='one'/>");
        let again = schema("urn:a", "<x:element name='two'/>");
        let broken = || Err(Rejection::server("broken"));
        for (all, uri, local, turns) in [
            (vec![a.clone()], "urn:a", "one", vec![0]),
            (vec![a.clone()], "urn:c", "one", vec![0]),
            (vec![], "urn:a", "one", vec![]),
            (vec![a.clone(), b.clone()], "urn:a", "one", vec![0, 1]),
            (vec![a.clone(), b.clone()], "urn:b", "one", vec![1]),
            (vec![a.clone(), b.clone()], "urn:c", "one", vec![1]),
            (vec![a.clone(), b.clone(), again], "urn:a", "two", vec![0, 2]),
            (vec![a.clone(), b.clone(), a.clone()], "urn:a", "two", vec![0]),
            (vec![a.clone(), broken(), b.clone()], "urn:a", "one", vec![0, 1]),
            (vec![a.clone(), broken(), b.clone()], "urn:b", "one", vec![1]),
            (vec![broken(), a], "urn:a", "one", vec![0]),
        ] {
            let schemas = Schemas::new(all);
            let namespace = xml::Namespace { uri, ..QName::NONE.namespace };
            let name = QName { namespace, local, ..QName::NONE };
            assert_eq!(schemas.turns(name), turns, "{uri} {local}");
        }
    }
}
