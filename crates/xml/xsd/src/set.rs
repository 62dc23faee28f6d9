//! A set of schema documents to be compiled to one schema.
//!
//! Owns the order of the steps: load, read, compile, check. Each step is a module.

use xml::{Document, NodeId};

use crate::complaint::Complaint;
use crate::documents::{Documents, SchemaDocument};
use crate::model::Components;
use crate::resolve::{Resolver, join};
use crate::schema::Schema;

/// Limits of one schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Number of attempts to load a document, including those that fail or do not find a schema.
    pub documents_max: usize,
    /// Number of types, elements, attributes and particles together.
    pub components_max: usize,
    /// Number of states of one content model, after expanding counted particles where necessary.
    pub states_max: usize,
    /// Number of steps of comparing one restriction with its base.
    pub restriction_steps_max: usize,
    /// Nesting of model groups, and depth of type derivation.
    pub depth_max: usize,
    pub complaints_max: usize,
    /// Whether violations of rules that libxml2 does not check are only recorded; see [`Schema::noted`].
    pub as_libxml: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Large standards (FpML, HL7, NIEM) have some hundreds.
            documents_max: 2_000,
            // FpML, one of the largest, has about 30,000.
            components_max: 500_000,
            // A state takes about 100 bytes. Hand-written models have fewer than 100 states.
            states_max: 20_000,
            restriction_steps_max: 200_000,
            // Hand-written schemas stay below 20.
            depth_max: 150,
            complaints_max: 100,
            as_libxml: false,
        }
    }
}

/// Schema documents that together make one schema.
pub struct SchemaSet<'d> {
    documents: Documents<'d>,
    components: Components,
    limits: Limits,
}

impl<'d> SchemaSet<'d> {
    pub fn new(resolver: &'d dyn Resolver, limits: Limits) -> SchemaSet<'d> {
        SchemaSet {
            documents: Documents::new(resolver, &limits),
            components: Components::new(),
            limits,
        }
    }

    /// Adds a schema document in memory. `location` is the base of its references.
    pub fn add_bytes(&mut self, bytes: &[u8], location: &str) {
        self.documents.add_bytes(&mut self.components.names, bytes, location);
    }

    /// Adds a `schema` element of another document, as in WSDL's `types`.
    pub fn add(&mut self, document: &'d Document, schema: NodeId, base: &str) {
        self.documents.add_embedded(&mut self.components.names, document, schema, base);
    }

    /// Offers a schema that joins the set only if an import names its namespace and finds no other document. Used for the other `schema`
    /// elements in WSDL's `types`.
    pub fn offer(&mut self, document: &'d Document, schema: NodeId, base: &str) {
        self.documents.offer(document, schema, base);
    }

    /// Adds a schema document from the resolver. Returns false if there is none.
    pub fn add_location(&mut self, location: &str) -> bool {
        self.documents.add_location(&mut self.components.names, location)
    }

    /// Follows a location hint in an instance (`xsi:schemaLocation`), unless the set has a document for the namespace. If the hint fails,
    /// this is not an error.
    pub fn add_hint(&mut self, namespace: &str, location: &str, base: &str) {
        self.documents.follow(&mut self.components.names);
        if !self.documents.has_namespace(&self.components.names, namespace) {
            self.add_location(&join(base, location));
        }
    }

    /// Follows all references, and returns the documents of the set in order: location, `schema` element and namespace of each. Sets with
    /// equal members compile to equal schemas.
    pub fn members(&mut self) -> Vec<(String, NodeId, String)> {
        let names = &mut self.components.names;
        self.documents.follow(names);
        let member = |document: &SchemaDocument<'_>| {
            let namespace = names.uri(document.target).to_owned();
            (document.location.to_string(), document.root, namespace)
        };
        let mut members: Vec<_> = self.documents.list.iter().map(member).collect();
        members.sort_unstable();
        members
    }

    /// Loads all documents that are referred to, and compiles everything.
    pub fn compile(mut self) -> Result<Schema, Vec<Complaint>> {
        self.documents.follow(&mut self.components.names);
        crate::read::build(self.documents, self.components, &self.limits)
    }
}
