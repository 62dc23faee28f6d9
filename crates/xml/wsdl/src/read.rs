//! Reads a description from a location.
//!
//! Owns the order of the steps, and compiles all schemas as one set.

use std::sync::Arc;

use xsd::{Complaint, ResolveError, Resolver, Schema, SchemaSet};

use crate::definitions::ReadDefinitions;
use crate::documents::{self, Documents, SCHEMA};
use crate::element::{Element, File, Report};
use crate::limits::Limits;
use crate::model::{Description, Name, Payload};
use crate::{Version, WSDL11, WSDL20, encoding, v11, v20};

/// Reads the description at a location with all its imports, or returns all complaints about it.
pub fn read(
    location: &str,
    resolver: &dyn Resolver,
    limits: &Limits,
) -> Result<Description, Vec<Complaint>> {
    let mut report = Report::new(limits.complaints_max);
    let Some(documents) = documents(location, resolver, limits, &mut report) else {
        return Err(report.into_complaints());
    };
    let schema = schema(&documents, resolver, limits, &mut report);
    let read = read_definitions(&documents, &mut report);
    let description = assemble(documents, read, schema, &mut report);
    match description {
        Some(description) if report.is_empty() => Ok(description),
        Some(_) | None => Err(report.into_complaints()),
    }
}

/// Loads all documents. Returns `None` if they contain too many definitions.
pub(crate) fn documents(
    location: &str,
    resolver: &dyn Resolver,
    limits: &Limits,
    report: &mut Report,
) -> Option<Documents> {
    let documents = documents::load(location, resolver, limits, report)?;
    if definitions(&documents) > limits.definitions_max {
        let message = format!("over {} definitions", limits.definitions_max);
        report.at(documents.files.first()?.root(), "limit", message);
        return None;
    }
    Some(documents)
}

/// Reads the definitions of all documents.
pub(crate) fn read_definitions(documents: &Documents, report: &mut Report) -> ReadDefinitions {
    match documents.version {
        Version::V11 => v11::read(documents, report),
        Version::V20 => v20::read(documents, report),
    }
}

impl Documents {
    pub(crate) fn locations(&self) -> Vec<Box<str>> {
        self.files.iter().map(|file| (*file.location).into()).collect()
    }

    pub(crate) fn has_types(&self) -> bool {
        !self.schemas.is_empty()
            || self.files.iter().any(|file| types(file.root()).next().is_some())
    }
}

fn assemble(
    documents: Documents,
    read: ReadDefinitions,
    schema: Option<Schema>,
    report: &mut Report,
) -> Option<Description> {
    let schema = schema?;
    check_payloads(&documents, &read, &[&schema], report);
    let first = documents.files.first()?;
    Some(Description {
        version: documents.version,
        target_namespace: first.target.clone(),
        documents: documents.locations(),
        services: read.services,
        bindings: read.bindings,
        interfaces: read.interfaces,
        messages: read.messages,
        has_types: documents.has_types(),
        schema: Arc::new(schema),
    })
}

/// Counts the WSDL elements of all documents, which is an upper bound on the number of definitions.
fn definitions(documents: &Documents) -> usize {
    fn below(element: Element<'_>, depth: usize) -> usize {
        let wsdl = |child: &Element<'_>| matches!(child.namespace(), WSDL11 | WSDL20);
        let deeper = |child: Element<'_>| if depth == 0 { 0 } else { below(child, depth - 1) };
        element.children().filter(wsdl).map(|child| 1 + deeper(child)).sum()
    }
    // Counts the levels of definitions, operations, messages and parts.
    documents.files.iter().map(|file| below(file.root(), 3)).sum()
}

pub(crate) fn types(root: Element<'_>) -> impl Iterator<Item = Element<'_>> {
    root.children().filter(|child| child.is(WSDL11, "types") || child.is(WSDL20, "types"))
}

fn schema(
    documents: &Documents,
    resolver: &dyn Resolver,
    limits: &Limits,
    report: &mut Report,
) -> Option<Schema> {
    let resolver = BuiltIn { resolver };
    let mut set = SchemaSet::new(&resolver, limits.xsd.clone());
    for file in &documents.files {
        for types in types(file.root()) {
            // WSDL 2.0 lets `types` import a schema; a schema imported by namespace alone is in the set already.
            for import in types.all(SCHEMA, "import") {
                if let Some(location) = import.attribute("schemaLocation") {
                    add(&mut set, &xsd::join(&file.location, location), import, report);
                }
            }
            for inline in types.all(SCHEMA, "schema") {
                set.add(&file.document, inline.node, &file.location);
            }
        }
    }
    for location in &documents.schemas {
        set.add_location(location);
    }
    for namespace in encoding::imported(documents) {
        set.add_bytes(encoding::schema(namespace).as_bytes(), namespace);
    }
    match set.compile() {
        Ok(schema) => Some(schema),
        Err(complaints) => {
            complaints.into_iter().for_each(|complaint| report.push(complaint));
            None
        }
    }
}

fn add(set: &mut SchemaSet<'_>, location: &str, import: Element<'_>, report: &mut Report) {
    if !set.add_location(location) {
        let message = format!("there is no schema document at {location:?}");
        report.at(import, "wsdl-import", message);
    }
}

/// Checks that the parts of messages name elements and types of the schemas.
pub(crate) fn check_payloads(
    documents: &Documents,
    read: &ReadDefinitions,
    schemas: &[&Schema],
    report: &mut Report,
) {
    let has_element =
        |name: &Name| schemas.iter().any(|s| s.has_element(&name.namespace, &name.local));
    // The built-in types need no schema.
    let has_type = |name: &Name| {
        let is_own = schemas.is_empty() && *name.namespace == *SCHEMA;
        is_own || schemas.iter().any(|s| s.has_type(&name.namespace, &name.local))
    };
    let of_operations = read.interfaces.iter().flat_map(|interface| &interface.operations);
    let of_operations = of_operations.flat_map(|operation| {
        operation.input.iter().chain(&operation.output).chain(operation.faults.iter().map(|f| &f.1))
    });
    let mut said: Vec<&Name> = Vec::new();
    for part in read.messages.iter().chain(of_operations).flat_map(|message| &message.parts) {
        let (name, what, known) = match &part.payload {
            Payload::Element(name) => (name, "element", has_element(name)),
            Payload::Type(name) => (name, "type", has_type(name)),
            Payload::Any | Payload::None | Payload::Other => continue,
        };
        if !known && !said.contains(&name) {
            said.push(name);
            let message =
                format!("a part of a message is the {what} {name}, which no schema declares");
            if let Some(at) = naming(documents, name, what) {
                report.at(at, "wsdl-part", message);
            }
        }
    }
}

/// Returns the first part or operation whose attribute `key` refers to this element or type, or else the root of the description.
fn naming<'d>(documents: &'d Documents, name: &Name, key: &str) -> Option<Element<'d>> {
    // Wrong references were reported when they were read.
    let mut scratch = Report::new(1);
    let roots = || documents.files.iter().map(File::root);
    let parts = roots().flat_map(|root| root.all(WSDL11, "message").collect::<Vec<_>>());
    let parts = parts.flat_map(|message| message.all(WSDL11, "part").collect::<Vec<_>>());
    let operations = roots().flat_map(|root| root.all(WSDL20, "interface").collect::<Vec<_>>());
    let operations = operations.flat_map(|one| one.children().collect::<Vec<_>>());
    let inner = operations.flat_map(|one| {
        std::iter::once(one).chain(one.children().collect::<Vec<_>>()).collect::<Vec<_>>()
    });
    let mut all = parts.chain(inner);
    let found = all.find(|element| {
        let value = element.attribute(key);
        value.and_then(|value| element.resolve(value, &mut scratch)).as_ref() == Some(name)
    });
    found.or_else(|| Some(documents.files.first()?.root()))
}

/// The caller's resolver, with the built-in schemas of the SOAP encodings as a fallback.
pub(crate) struct BuiltIn<'r> {
    pub(crate) resolver: &'r dyn Resolver,
}

impl Resolver for BuiltIn<'_> {
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError> {
        match self.resolver.load(location) {
            Err(ResolveError::Absent) => match encoding::at(location) {
                Some(namespace) => Ok(encoding::schema(namespace).into_bytes()),
                None => Err(ResolveError::Absent),
            },
            loaded => loaded,
        }
    }

    fn of_namespace(&self, namespace: &str) -> Option<String> {
        self.resolver.of_namespace(namespace)
    }
}
