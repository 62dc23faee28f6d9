//! A lenient reading of descriptions, for callers that need only the schemas and the actions of operations.
//!
//! Tolerates many errors in a description, and compiles each schema of its types separately. References between messages, port types,
//! bindings and services are followed as far as they can be resolved.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use xml::NodeId;
use xsd::{Complaint, Resolver, Schema, SchemaSet};

use crate::definitions::ReadDefinitions;
use crate::documents::{self, Documents, SCHEMA};
use crate::element::{Element, File, Report};
use crate::limits::Limits;
use crate::model::{Binding, BindingOperation, Interface, Operation, meant};
use crate::read::{self, BuiltIn};
use crate::{Version, encoding, rpc};

/// The schemas of a description and the actions of its operations. Unresolved references are omitted.
#[derive(Debug)]
pub struct Outline {
    pub version: Version,
    /// Locations of all documents read as WSDL, the first document first.
    pub documents: Vec<Box<str>>,
    pub bindings: Vec<Binding>,
    /// Interfaces, which WSDL 1.1 calls port types.
    pub interfaces: Vec<Interface>,
    /// Whether some document has a `types` element, which may contain no schema.
    pub has_types: bool,
    /// The schemas in document order, each compiled with its imports, or the complaints about it.
    pub schemas: Vec<SchemaResult>,
    /// Whether rpc/literal messages are refused because no schema declares their outermost elements.
    pub refuses_rpc: bool,
    /// Complaints about everything else.
    pub unresolved: Vec<Complaint>,
}

/// How an outline treats rpc/literal messages, whose outermost element no schema declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcMessages {
    /// A schema is generated for each of them from the operation and its parts.
    Declared,
    /// They are refused.
    Undeclared,
}

/// A schema, or the complaints that prevent it.
pub type SchemaResult = Result<Arc<Schema>, Vec<Complaint>>;

impl Outline {
    /// Returns the operation that a binding's operation refers to, if there is one.
    pub fn operation(&self, bound: &BindingOperation) -> Option<&Operation> {
        meant(&self.interfaces, bound)
    }
}

/// Reads the schemas and actions of the description at a location. Fails only if a document is missing or is neither WSDL nor a schema, or
/// if a limit is exceeded. All other complaints are in the outline.
pub fn outline(
    location: &str,
    resolver: &dyn Resolver,
    limits: &Limits,
    rpc: RpcMessages,
) -> Result<Outline, Vec<Complaint>> {
    let mut report = Report::new(limits.complaints_max);
    let Some(documents) = read::documents(location, resolver, limits, &mut report) else {
        return Err(report.into_complaints());
    };
    let read = read::read_definitions(&documents, &mut report);
    let SchemaSources { mut schemas, wrappers } =
        schemas(&documents, &read, resolver, limits, &mut report);
    if schemas.iter().all(Result::is_ok) {
        // Harmless: the code above has checked that no error is among them.
        let all: Vec<&Schema> = schemas.iter().flatten().map(|schema| &**schema).collect();
        read::check_payloads(&documents, &read, &all, &mut report);
    }
    let refuses_rpc = !wrappers.is_empty() && rpc == RpcMessages::Undeclared;
    let has_wrappers = !wrappers.is_empty() && !refuses_rpc;
    if has_wrappers {
        schemas.extend(wrappers.into_iter().map(Ok));
    }
    let (needed, unresolved): (Vec<_>, Vec<_>) =
        report.into_complaints().into_iter().partition(is_needed);
    if needed.is_empty() {
        Ok(Outline {
            version: documents.version,
            documents: documents.locations(),
            bindings: read.bindings,
            interfaces: read.interfaces,
            has_types: documents.has_types() || has_wrappers,
            schemas,
            refuses_rpc,
            unresolved,
        })
    } else {
        Err(needed)
    }
}

/// Returns true if a complaint is about a missing or unusable document, whose content is therefore unknown. Other complaints about WSDL
/// matter only for translating messages.
pub fn is_needed(complaint: &Complaint) -> bool {
    matches!(complaint.code, "limit" | "wsdl-import" | "wsdl-not-xml" | "wsdl-root")
}

/// A schema to compile.
#[derive(Clone, Copy)]
struct Source<'d> {
    file: &'d File,
    node: NodeId,
}

/// Where a schema of the types is located.
enum SchemaLocation<'d> {
    /// In the description.
    Here(Element<'d>),
    /// In a separate document at this location.
    There(Element<'d>, String),
}

/// The schemas of a description.
#[derive(Default)]
struct SchemaSources {
    schemas: Vec<SchemaResult>,
    /// The generated schemas of the outermost elements of rpc/literal messages, as far as they compile.
    wrappers: Vec<Arc<Schema>>,
}

/// Compiles all schemas in order.
fn schemas(
    documents: &Documents,
    read: &ReadDefinitions,
    resolver: &dyn Resolver,
    limits: &Limits,
    report: &mut Report,
) -> SchemaSources {
    let Some(first) = documents.files.first() else { return SchemaSources::default() };
    let resolver = BuiltIn { resolver };
    let places = places(documents, first);
    if places.len() > limits.schemas_max {
        report.at(first.root(), "limit", format!("over {} schemas", limits.schemas_max));
        return SchemaSources::default();
    }
    let mut there = |place: &SchemaLocation<'_>| match place {
        SchemaLocation::Here(_) => None,
        SchemaLocation::There(at, location) => load(*at, location, &resolver, limits, report),
    };
    let loaded: Vec<Option<File>> = places.iter().map(&mut there).collect();
    // Harmless: there is one result for each place, and documents that could not be loaded are reported.
    let sources = places.iter().zip(&loaded).filter_map(|(place, loaded)| match place {
        SchemaLocation::Here(at) => Some(Source { file: at.file, node: at.node }),
        SchemaLocation::There(..) => loaded.as_ref().map(whole),
    });
    // Harmless: an encoding that cannot be parsed is reported.
    let encodings = encoding::imported(documents).into_iter().filter_map(|namespace| {
        documents::parse(encoding::schema(namespace).as_bytes(), namespace, limits, report)
    });
    let encodings: Vec<File> = encodings.collect();
    let compiling = SchemaInput {
        sources: &sources.collect::<Vec<_>>(),
        encodings: &encodings.iter().map(whole).collect::<Vec<_>>(),
        resolver: &resolver,
        limits,
    };
    let schemas = compiling.all();
    let is_declared = |uri: &str, local: &str| {
        // Harmless: a schema that does not compile declares nothing.
        schemas.iter().flatten().any(|schema| schema.has_element(uri, local))
    };
    let wrappers = rpc::schemas(read, is_declared);
    let wrappers = wrappers.iter().filter_map(|text| compiling.wrapper(text, first, report));
    SchemaSources { wrappers: wrappers.collect(), schemas }
}

fn whole(file: &File) -> Source<'_> {
    Source { file, node: file.root().node }
}

/// Returns all schemas of the types in order, then those that are imported as if they were descriptions.
fn places<'d>(documents: &'d Documents, first: &'d File) -> Vec<SchemaLocation<'d>> {
    let mut places = Vec::new();
    for file in &documents.files {
        for child in read::types(file.root()).flat_map(Element::children) {
            // WSDL 2.0 lets `types` import a schema.
            let location = child.attribute("schemaLocation");
            match (child.local(), location) {
                _ if child.namespace() != SCHEMA => {}
                ("schema", _) => places.push(SchemaLocation::Here(child)),
                ("import", Some(location)) => {
                    places.push(SchemaLocation::There(child, xsd::join(&file.location, location)));
                }
                // Harmless: other children contain no schema.
                _ => {}
            }
        }
    }
    let imported = documents.schemas.iter();
    places.extend(imported.map(|location| SchemaLocation::There(first.root(), location.clone())));
    places
}

fn load(
    at: Element<'_>,
    location: &str,
    resolver: &dyn Resolver,
    limits: &Limits,
    report: &mut Report,
) -> Option<File> {
    match resolver.load(location) {
        Ok(bytes) => documents::parse(&bytes, location, limits, report),
        Err(_) => {
            let message = format!("there is no schema document at {location:?}");
            report.at(at, "wsdl-import", message);
            None
        }
    }
}

/// Input for compiling the schemas.
struct SchemaInput<'d> {
    sources: &'d [Source<'d>],
    /// Schemas of the SOAP encodings, which descriptions refer to by namespace but do not include.
    encodings: &'d [Source<'d>],
    resolver: &'d dyn Resolver,
    limits: &'d Limits,
}

/// Schemas offered to an import without a location.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Siblings {
    /// All schemas of its namespace.
    All,
    /// The first schema of its namespace, because two of them define the same name.
    First,
}

impl SchemaInput<'_> {
    fn all(&self) -> Vec<SchemaResult> {
        let mut known: HashMap<_, SchemaResult> = HashMap::new();
        let mut together = None;
        let sources = self.sources.iter();
        let made = sources.map(|source| {
            let mut set = self.set(source, Siblings::All);
            // Schemas that import each other are compiled as one.
            let members = set.members();
            let made = known.entry(members).or_insert_with(|| set.compile().map(Arc::new));
            match made {
                Err(complaints) if self.sources.len() > 1 => {
                    self.otherwise(source, &mut together).ok_or_else(|| complaints.clone())
                }
                Ok(_) | Err(_) => made.clone(),
            }
        });
        made.collect()
    }

    /// Retries a schema that failed to compile: with fewer sibling schemas, or together with all schemas. The schemas of some descriptions
    /// refer to each other without importing or including each other.
    fn otherwise(
        &self,
        source: &Source<'_>,
        together: &mut Option<Option<Arc<Schema>>>,
    ) -> Option<Arc<Schema>> {
        // Harmless: a schema that is incomplete on its own is compiled together with the others.
        let first = self.set(source, Siblings::First).compile().ok().map(Arc::new);
        first.or_else(|| together.get_or_insert_with(|| self.together()).clone())
    }

    /// Compiles a generated schema of outermost elements, with everything that it may refer to. Reports errors.
    fn wrapper(&self, text: &str, first: &File, report: &mut Report) -> Option<Arc<Schema>> {
        let file = documents::parse(text.as_bytes(), &first.location, self.limits, report)?;
        let target = file.target.clone();
        let mut set = self.new_set();
        set.add(&file.document, file.root().node, &file.location);
        for source in self.sources.iter().chain(self.encodings) {
            let root = Element { file: source.file, node: source.node };
            if root.attribute("targetNamespace").unwrap_or("") == &*target {
                set.add(&source.file.document, source.node, &source.file.location)
            } else {
                set.offer(&source.file.document, source.node, &source.file.location)
            }
        }
        let compiled = set.compile();
        // Harmless: on success there are no complaints.
        for complaint in compiled.as_ref().err().into_iter().flatten() {
            let message = format!("messages in the style rpc are refused: {}", complaint.message);
            report.at(first.root(), "wsdl-rpc", message);
        }
        // Harmless: the complaints are reported.
        compiled.ok().map(Arc::new)
    }

    fn new_set(&self) -> SchemaSet<'_> {
        SchemaSet::new(self.resolver, self.limits.xsd.clone())
    }

    fn set<'s>(&'s self, source: &Source<'s>, siblings: Siblings) -> SchemaSet<'s> {
        let mut set = self.new_set();
        set.add(&source.file.document, source.node, &source.file.location);
        let mut known = HashSet::new();
        for sibling in self.sources.iter().chain(self.encodings) {
            let same = sibling.node == source.node && std::ptr::eq(sibling.file, source.file);
            let root = Element { file: sibling.file, node: sibling.node };
            let target = root.attribute("targetNamespace").unwrap_or("");
            let later = !known.insert(target) && siblings == Siblings::First;
            if !same && !later {
                set.offer(&sibling.file.document, sibling.node, &sibling.file.location);
            }
        }
        set
    }

    /// Compiles all schemas as one.
    fn together(&self) -> Option<Arc<Schema>> {
        let mut set = self.new_set();
        for source in self.sources.iter().chain(self.encodings) {
            set.add(&source.file.document, source.node, &source.file.location);
        }
        // Harmless: the schemas were also compiled one by one, and their errors are reported.
        set.compile().ok().map(Arc::new)
    }
}
