//! A set of schema documents to be compiled to one schema.
//!
//! Owns the order of the steps: load, read, compile, check. Each step is a module.

use xml::{Document, NodeId};

use crate::automaton;
use crate::complaint::Complaint;
use crate::documents::{Documents, SchemaDocument};
use crate::limits::Limits;
use crate::model::Components;
use crate::read::Builder;
use crate::resolve::{Resolver, join};
use crate::rules;
use crate::schema::Schema;

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
        let mut builder = Builder::new(self.documents, self.components, &self.limits);
        if builder.read() {
            rules::check(&mut builder);
        }
        let contents = if builder.report.is_empty() {
            automaton::compile_all(&mut builder)
        } else {
            Vec::new()
        };
        if builder.report.is_empty() {
            let noted = builder.noted.into_complaints();
            Ok(Schema::new(builder.components, contents, &builder.documents, noted))
        } else {
            Err(builder.report.into_complaints())
        }
    }
}
