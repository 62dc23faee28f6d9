//! A set of schema documents on its way to becoming a schema.
//!
//! Owns the order of the steps: load, read, compile, check. Each is a module of its own.

use xml::{Document, NodeId};

use crate::complaint::Complaint;
use crate::documents::{Documents, SchemaDocument};
use crate::model::Components;
use crate::resolve::{Resolver, join};
use crate::schema::Schema;

/// Budgets of one schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Documents that are loaded, those that turn out not to be schemas included.
    pub documents_max: usize,
    /// Types, elements, attributes, groups and particles together.
    pub components_max: usize,
    /// States of one content model, after counted particles that need it are written out.
    pub states_max: usize,
    /// Steps of the comparison of one restriction with its base.
    pub restriction_steps_max: usize,
    /// Model groups inside one another, and types derived from one another.
    pub depth_max: usize,
    pub complaints_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Large standards (FpML, HL7, NIEM) come in some hundreds.
            documents_max: 2_000,
            // FpML, one of the largest, has about 30,000.
            components_max: 500_000,
            // A state costs about 100 bytes; models people write have below 100.
            states_max: 20_000,
            restriction_steps_max: 200_000,
            // Written schemas stay below 20.
            depth_max: 150,
            complaints_max: 100,
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

    /// A schema document at hand; `location` is what its own references are relative to.
    pub fn add_bytes(&mut self, bytes: &[u8], location: &str) {
        self.documents.add_bytes(&mut self.components.names, bytes, location);
    }

    /// A `schema` element inside another document, as WSDL's `types` have it.
    pub fn add(&mut self, document: &'d Document, schema: NodeId, base: &str) {
        self.documents.add_embedded(&mut self.components.names, document, schema, base);
    }

    /// A schema that is no part of the set, unless an import names its namespace and leads to no other document: the
    /// `schema` elements beside one in WSDL's `types`.
    pub fn offer(&mut self, document: &'d Document, schema: NodeId, base: &str) {
        self.documents.offer(document, schema, base);
    }

    /// A schema document that the resolver has. False: it has none there.
    pub fn add_location(&mut self, location: &str) -> bool {
        self.documents.add_location(&mut self.components.names, location)
    }

    /// A hint of an instance (`xsi:schemaLocation`): followed unless the set has a document for the namespace already. A
    /// hint that leads nowhere is no fault.
    pub fn add_hint(&mut self, namespace: &str, location: &str, base: &str) {
        self.documents.follow(&mut self.components.names);
        if !self.documents.has_namespace(&self.components.names, namespace) {
            self.add_location(&join(base, location));
        }
    }

    /// The documents of the set with everything they name, in order: location, element `schema` and namespace of each. Sets
    /// of the same are the same schema.
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

    /// Everything the documents name is loaded, and all of it compiled.
    pub fn compile(mut self) -> Result<Schema, Vec<Complaint>> {
        self.documents.follow(&mut self.components.names);
        crate::read::build(self.documents, self.components, &self.limits)
    }
}
