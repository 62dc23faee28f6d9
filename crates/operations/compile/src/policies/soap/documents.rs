//! Reads a schema, description or stylesheet from files, with all documents that it refers to.
//!
//! All files are read before anything is compiled, so that a definition of the same bytes can be taken over from the previous plan. URLs of
//! documents are collected, to be fetched elsewhere.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ::policies::remote_definition::FetchedDocuments;
use config::{At, DefinitionAt, FilePath, Map, Report, Spanned};
use mediation::Rejection;
use wsdl::{RpcMessages, WSDL11, WSDL20};
use xml::{Document, NodeId};
use xsd::{ResolveError, Resolver};

/// The bound on one file. Files of large standards have some hundred kilobytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// The maximum number of files of one definition. Large standards have some hundreds.
const FILES_MAX: usize = 2000;

pub(crate) const XSD: &str = "http://www.w3.org/2001/XMLSchema";
pub(crate) const XSLT: &str = "http://www.w3.org/1999/XSL/Transform";

/// Which references of a definition are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReferenceRules {
    /// Whether the namespace of an import is used as its location if it has no other.
    pub(crate) namespaces: bool,
    /// Whether imports of descriptions in a description are followed.
    pub(crate) descriptions: bool,
}

impl ReferenceRules {
    /// No optional references, as for a stylesheet, of which only the modules are followed.
    pub(crate) const NO_OPTIONAL: ReferenceRules =
        ReferenceRules { namespaces: false, descriptions: false };

    /// Returns the rules that a policy's keys select.
    pub(crate) fn of(keys: &config::Soap) -> ReferenceRules {
        ReferenceRules { namespaces: keys.imports_by_namespace, descriptions: keys.wsdl_imports }
    }
}

/// Documents in memory.
#[derive(Clone)]
pub(crate) struct Documents {
    pub(crate) location: String,
    pub(crate) all: HashMap<String, Vec<u8>>,
    /// URLs that documents refer to and for which there is no file.
    pub(crate) remote: Vec<String>,
    /// Files that the configuration maps to locations, by location as written.
    mapped: HashMap<String, (PathBuf, Vec<u8>)>,
    /// Namespaces of the schemas that were read. An import that names only such a namespace needs no further document.
    declared: HashSet<String>,
    following: ReferenceRules,
    /// The treatment of messages in the style rpc/literal.
    pub(crate) rpc: RpcMessages,
}

/// A reference from one document to another.
#[derive(Debug, PartialEq, Eq)]
enum Reference {
    /// A schema, by its location.
    Schema(String),
    /// A stylesheet's module. If it is missing, the stylesheet compiler complains.
    Module(String),
    /// A description, by its location, with its namespace.
    Description { location: String, namespace: String },
    /// A schema, by its namespace alone.
    Namespace(String),
}

impl Documents {
    /// Returns a single document that refers to no other.
    pub(crate) fn of_text(text: &str, location: &str) -> Documents {
        Documents {
            location: location.to_owned(),
            all: HashMap::from([(location.to_owned(), text.as_bytes().to_vec())]),
            remote: Vec::new(),
            mapped: HashMap::new(),
            declared: HashSet::new(),
            following: ReferenceRules { namespaces: false, descriptions: true },
            rpc: RpcMessages::Declared,
        }
    }

    /// Returns the first document, which refers to the others.
    pub(super) fn first(&self) -> &[u8] {
        self.all.get(&self.location).map_or(&[], Vec::as_slice)
    }

    /// Returns true if the document is only an XML comment. Users of Kong disable a schema this way.
    pub(crate) fn is_comment(&self) -> bool {
        let text = self.first().trim_ascii();
        let inner = text.strip_prefix(b"<!--").and_then(|rest| rest.strip_suffix(b"-->"));
        inner.is_some_and(|inner| !inner.windows(3).any(|three| three == b"-->"))
    }

    /// Returns a text in which the names of these files are relative to the folder of the first document, so that clients do not see
    /// folders.
    pub(crate) fn without_folders(&self, text: &str) -> String {
        let folder = self.location.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut files: Vec<&String> = self.all.keys().filter(|file| !is_url(file)).collect();
        // Longest first, since one name may be a prefix of another.
        files.sort_unstable_by_key(|file| std::cmp::Reverse(file.len()));
        let name = |file: &str| {
            let last = || file.rsplit('/').next().unwrap_or_default().to_owned();
            let within = file.strip_prefix(folder).and_then(|rest| rest.strip_prefix('/'));
            within.map_or_else(last, str::to_owned)
        };
        files.iter().fold(text.to_owned(), |text, file| text.replace(*file, &name(file)))
    }

    /// Like `without_folders`, and shortens URLs of documents to the last segment of the path, so that clients do not see hosts either.
    pub(crate) fn without_hosts(&self, text: &str, fetched: &FetchedDocuments) -> String {
        let all = self.all.keys().chain(fetched.keys()).chain(&self.remote).chain([&self.location]);
        let mut urls: Vec<&String> = all.filter(|location| is_url(location)).collect();
        urls.sort_unstable_by_key(|url| std::cmp::Reverse(url.len()));
        let last = |url: &str| url.rsplit('/').next().unwrap_or_default().to_owned();
        let text = urls.iter().fold(text.to_owned(), |text, url| text.replace(*url, &last(url)));
        self.without_folders(&text)
    }

    /// Returns the reason of a failure in the compiler's words, and in a form that any client may see.
    pub(crate) fn failed(&self, why: &str, fetched: &FetchedDocuments) -> Rejection {
        let (text, client) = (self.without_folders(why), self.without_hosts(why, fetched));
        if text == client { Rejection::server(text) } else { Rejection::hiding(text, client, why) }
    }

    /// Returns true for a plain schema, as opposed to a description.
    pub(super) fn is_schema(&self) -> bool {
        // Harmless: an invalid document is reported where it is compiled.
        let document = parsed(self.first()).ok();
        let root = document.as_ref().and_then(|document| {
            document.root_element().map(|root| document.name(root).namespace.uri == XSD)
        });
        root == Some(true)
    }

    /// Returns the key of a definition made of these documents: their names and contents.
    pub(crate) fn key(&self) -> String {
        let mut all: Vec<(&String, &Vec<u8>)> = self.all.iter().collect();
        all.sort_unstable();
        let hash = kit::hash::fixed(&all);
        let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
        let (location, following) = (&self.location, self.following);
        let (rpc, remote) = (self.rpc, &self.remote);
        format!("xml definitions {location} {bytes} {hash:x} {following:?} {rpc:?} {remote:?}")
    }

    /// Follows the references of a document: reads each file and collects each URL.
    fn follow(
        &mut self,
        base: &str,
        path: &Path,
        at: At,
        report: &mut Report,
    ) -> Vec<(String, PathBuf)> {
        let mut found = Vec::new();
        let bytes = self.all.get(base).map_or(&[][..], Vec::as_slice);
        let (references, declared) = references(bytes);
        self.declared.extend(declared);
        for reference in references {
            let Some((location, written)) = self.meant(base, &reference) else { continue };
            if self.all.contains_key(&location) {
                continue;
            }
            if self.all.len() >= FILES_MAX {
                let what = format!("more than {FILES_MAX} documents refer to one another");
                report.error(at, what, "remove those that are not needed");
                return found;
            }
            if let (Reference::Description { namespace, .. }, false) =
                (&reference, self.following.descriptions)
            {
                let empty =
                    format!("<definitions xmlns='{WSDL11}' targetNamespace='{namespace}'/>");
                self.all.insert(location, empty.into_bytes());
                continue;
            }
            let mapped = self.mapped.get(&written).or_else(|| self.mapped.get(&location)).cloned();
            let by_location = !matches!(reference, Reference::Namespace(_));
            let file = match mapped {
                None if by_location => beside(path, &written, report),
                mapped => mapped.map(Ok),
            };
            match file {
                Some(Ok((file, bytes))) => {
                    self.all.insert(location.clone(), bytes);
                    found.push((location, file));
                }
                Some(Err(why)) => absent(&reference, &location, base, &why, at, report),
                None if is_url(&location) && !self.remote.contains(&location) => {
                    self.remote.push(location);
                }
                // Only a warning: a definition that needs the document does not compile, and public schemas refer to many documents that
                // are not needed.
                None => absent(&reference, &location, base, "it is not a file", at, report),
            }
        }
        found
    }

    /// Returns the resolved location of a reference and its text as written, or `None` if the reference is not followed.
    fn meant(&self, base: &str, reference: &Reference) -> Option<(String, String)> {
        match reference {
            Reference::Schema(location)
            | Reference::Module(location)
            | Reference::Description { location, .. } => {
                Some((xsd::join(base, location), location.clone()))
            }
            Reference::Namespace(namespace) => {
                // A schema mapped by the configuration replaces a declared one.
                let wanted =
                    self.mapped.contains_key(namespace) || !self.declared.contains(namespace);
                let followed = self.following.namespaces && wanted;
                followed.then(|| (xsd::join("", namespace), namespace.clone()))
            }
        }
    }

    /// Returns the URLs that remain to be fetched. If a fetched document refers to one for which the configuration has a file, that file is
    /// added to `fetched`.
    pub(crate) fn missing(&self, fetched: &mut HashMap<String, Vec<u8>>) -> Vec<String> {
        let mut missing: Vec<String> = self.remote.clone();
        let mut waiting: Vec<String> = fetched.keys().cloned().collect();
        while let Some(base) = waiting.pop() {
            let (references, _) = references(fetched.get(&base).map_or(&[], Vec::as_slice));
            for reference in references {
                let Some((location, written)) = self.meant(&base, &reference) else { continue };
                if self.all.contains_key(&location) || fetched.contains_key(&location) {
                    continue;
                }
                match self.mapped.get(&written).or_else(|| self.mapped.get(&location)) {
                    Some((_, bytes)) => {
                        fetched.insert(location.clone(), bytes.clone());
                        waiting.push(location);
                    }
                    None if is_url(&location) => missing.push(location),
                    None => {}
                }
            }
        }
        missing.retain(|location| !fetched.contains_key(location));
        missing.sort_unstable();
        missing.dedup();
        missing
    }
}

/// Documents from files and fetched documents.
pub(crate) struct DefinitionDocuments<'d> {
    pub(crate) documents: &'d Documents,
    pub(crate) fetched: &'d HashMap<String, Vec<u8>>,
}

impl DefinitionDocuments<'_> {
    /// Returns the first document, which refers to the others.
    pub(crate) fn first(&self) -> &[u8] {
        let location = &self.documents.location;
        let fetched = || self.fetched.get(location).map_or(&[][..], Vec::as_slice);
        self.documents.all.get(location).map_or_else(fetched, Vec::as_slice)
    }

    /// Returns the documents at these locations.
    pub(super) fn all_of(&self, locations: &[Box<str>]) -> Vec<Document> {
        // Harmless: a missing document is reported where it is compiled.
        let bytes = locations.iter().filter_map(|location| self.load(location).ok());
        // Harmless: a malformed document is reported where it is compiled.
        bytes.filter_map(|bytes| parsed(&bytes).ok()).collect()
    }

    /// Returns true if there are schemas, within a description or as separate documents. Also returns true if a document cannot be parsed,
    /// since it may have schemas.
    pub(super) fn types(&self) -> bool {
        let all = self.documents.all.values().chain(self.fetched.values());
        all.into_iter().any(|bytes| {
            let Ok(document) = parsed(bytes) else { return true };
            let Some(root) = document.root_element() else { return true };
            let is_types = |name: xml::QName<'_>| {
                matches!(name.namespace.uri, WSDL11 | WSDL20) && name.local == "types"
            };
            document.name(root).namespace.uri == XSD
                || document.children(root).any(|child| {
                    document.kind(child) == xml::Kind::Element && is_types(document.name(child))
                })
        })
    }
}

impl DefinitionDocuments<'_> {
    /// Returns the message for clients about the first unusable document, if any. A document is unusable if it is missing, is not XML, or
    /// is imported as a description without being one. The message names the document as the importing document does.
    pub(crate) fn unusable(&self) -> Option<String> {
        let mut waiting = vec![self.documents.location.clone()];
        let mut seen: HashSet<String> = waiting.iter().cloned().collect();
        while let Some(base) = waiting.pop() {
            // Harmless: a missing document refers to no other.
            let (references, _) = references(&self.load(&base).unwrap_or_default());
            for reference in references {
                let Some((location, written)) = self.documents.meant(&base, &reference) else {
                    continue;
                };
                if !seen.insert(location.clone()) || matches!(reference, Reference::Namespace(_)) {
                    continue;
                }
                // Harmless: a missing document is unusable, as is an empty one.
                let bytes = self.load(&location).unwrap_or_default();
                let Ok(document) = parsed(&bytes) else {
                    return Some(format!("Failed to parse the XML resource '{written}'."));
                };
                let root = document.root_element().map(|root| document.name(root));
                let fits = |name: &xml::QName<'_>| {
                    matches!(
                        (name.namespace.uri, name.local),
                        (WSDL11, "definitions") | (WSDL20, "description") | (XSD, "schema")
                    )
                };
                if let (Reference::Description { .. }, Some(root)) = (&reference, root)
                    && !fits(&root)
                {
                    let root = root.local;
                    return Some(format!(
                        "Invalid WSDL/XSD schema. The root of the imported '{written}' is '{root}', and that of a WSDL \
                         is 'definitions' or 'description'"
                    ));
                }
                waiting.push(location);
            }
        }
        None
    }
}

impl Resolver for DefinitionDocuments<'_> {
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError> {
        let found = self.documents.all.get(location).or_else(|| self.fetched.get(location));
        found.cloned().ok_or(ResolveError::Absent)
    }

    fn of_namespace(&self, namespace: &str) -> Option<String> {
        let (location, _) =
            self.documents.meant("", &Reference::Namespace(namespace.to_owned()))?;
        let known =
            self.documents.all.contains_key(&location) || self.fetched.contains_key(&location);
        known.then_some(location)
    }
}

/// Warns of a missing schema or description. It is not an error, since a definition that needs it does not compile, and public schemas
/// refer to many documents that are not needed.
fn absent(
    reference: &Reference,
    location: &str,
    base: &str,
    why: &str,
    at: At,
    report: &mut Report,
) {
    let written = match reference {
        Reference::Schema(written) | Reference::Description { location: written, .. } => written,
        Reference::Module(_) | Reference::Namespace(_) => return,
    };
    if !location.contains("://") {
        let what = format!("{base} refers to `{written}`, which cannot be read: {why}");
        let help = "put it there, give a file for it in `imports`, or remove the reference to it";
        report.warn(at, what, help);
    }
}

fn is_url(location: &str) -> bool {
    let scheme = location.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    matches!(scheme.as_deref(), Some("http" | "https"))
}

/// Reads a file and all files that it refers to. URLs are left to be fetched. Complains if a file that the configuration names is missing.
pub(crate) fn load(
    first: &Spanned<DefinitionAt>,
    imports: &Map<Spanned<FilePath>>,
    following: ReferenceRules,
    report: &mut Report,
) -> Option<Documents> {
    let mut mapped = HashMap::new();
    for (location, import) in imports.iter() {
        let bytes = read_or_complain(import, report)?;
        mapped.insert(location.value.clone(), (import.value.as_path().to_owned(), bytes));
    }
    let mut documents = Documents {
        location: String::new(),
        all: HashMap::new(),
        remote: Vec::new(),
        mapped,
        declared: HashSet::new(),
        following,
        rpc: RpcMessages::Declared,
    };
    let file = match &first.value {
        DefinitionAt::File(file) => file,
        DefinitionAt::Url(url) => {
            documents.location.clone_from(url);
            documents.remote.push(url.clone());
            return Some(documents);
        }
    };
    let path = file.as_path().to_owned();
    let location = xsd::join("", &path.to_string_lossy());
    let bytes = read_at_or_complain(&path, first.at, report)?;
    documents.all.insert(location.clone(), bytes);
    documents.location.clone_from(&location);
    let mut waiting = vec![(location, path)];
    while let Some((base, path)) = waiting.pop() {
        waiting.extend(documents.follow(&base, &path, first.at, report));
    }
    Some(documents)
}

/// Reads a file that is named relative to the file that refers to it. Returns `None` if the reference is a URL or has no path. The path is
/// watched from now on, even if the file does not exist.
fn beside(
    path: &Path,
    reference: &str,
    report: &mut Report,
) -> Option<Result<(PathBuf, Vec<u8>), String>> {
    let relative = reference.split('#').next().unwrap_or_default();
    if relative.is_empty() || relative.contains("://") {
        return None;
    }
    let file = import::wsdl::file_at(path.parent().unwrap_or(Path::new("")), relative);
    report.depends_on(file.clone());
    Some(read(&file).map(|bytes| (file, bytes)))
}

/// Parses a document of the operator. Document types are accepted: stylesheets use them for character entities, and public schemas have
/// them for editors.
pub(crate) fn parsed(bytes: &[u8]) -> Result<Document, xml::Error> {
    let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
    Document::parse(bytes, &options)
}

/// Returns the references in a schema, a description or a stylesheet, and the namespaces of the schemas within it.
fn references(bytes: &[u8]) -> (Vec<Reference>, Vec<String>) {
    let (mut found, mut declared) = (Vec::new(), Vec::new());
    let Ok(document) = parsed(bytes) else { return (found, declared) };
    let Some(root) = document.root_element() else { return (found, declared) };
    if document.name(root).namespace.uri == XSLT {
        return (modules(&document, root), declared);
    }
    let elements =
        document.descendants(root).filter(|node| document.kind(*node) == xml::Kind::Element);
    for node in elements {
        let name = document.name(node);
        let attribute = |key| document.attribute(node, "", key).map(|text| text.trim().to_owned());
        match (name.namespace.uri, name.local) {
            (XSD, "schema") => declared.extend(attribute("targetNamespace")),
            (XSD, "import" | "include" | "redefine") => {
                let by_namespace = || attribute("namespace").map(Reference::Namespace);
                found.extend(
                    attribute("schemaLocation").map(Reference::Schema).or_else(by_namespace),
                );
            }
            (WSDL11 | WSDL20, "import" | "include") => {
                found.extend(description(&document, root, node));
            }
            // Harmless: no other element refers to a document.
            _ => {}
        }
    }
    (found, declared)
}

/// Returns the modules that a stylesheet imports and includes. Other elements may be output and are ignored.
fn modules(document: &Document, root: NodeId) -> Vec<Reference> {
    let names_another = |node: &NodeId| {
        let name = document.name(*node);
        name.namespace.uri == XSLT && matches!(name.local, "import" | "include")
    };
    let modules = document.children(root).filter(names_another);
    // Harmless: the compiler reports an import without `href`.
    let hrefs = modules.filter_map(|node| document.attribute(node, "", "href"));
    hrefs.map(|href| Reference::Module(href.trim().to_owned())).collect()
}

fn description(document: &Document, root: NodeId, node: NodeId) -> Option<Reference> {
    let location = document.attribute(node, "", "location")?.trim().to_owned();
    let own = || document.attribute(root, "", "targetNamespace");
    let namespace = document.attribute(node, "", "namespace").or_else(own).unwrap_or("");
    Some(Reference::Description { location, namespace: namespace.to_owned() })
}

/// Reads a file, within the bound.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let file = config::open(path).map_err(|error| config::reason(&error))?;
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| config::reason(&error))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= FILE_BYTES_MAX) {
        Ok(super::in_utf8(bytes))
    } else {
        Err(format!("it is larger than {FILE_BYTES_MAX} bytes"))
    }
}

/// Reads a file that the configuration names, or complains.
fn read_or_complain(file: &Spanned<FilePath>, report: &mut Report) -> Option<Vec<u8>> {
    read_at_or_complain(file.value.as_path(), file.at, report)
}

fn read_at_or_complain(path: &Path, at: At, report: &mut Report) -> Option<Vec<u8>> {
    let told = |why: String| {
        let help =
            "name a file that the gateway may read; a relative path starts at this file's folder";
        report.error(at, format!("cannot read `{}`: {why}", path.display()), help);
    };
    read(path).map_err(told).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_that_is_only_a_comment_is_recognized() {
        for (text, comment) in [
            ("<!-- -->", true),
            (" <!--a-->\n", true),
            ("<!--a--><b/><!--c-->", false),
            ("<a/>", false),
        ] {
            assert_eq!(Documents::of_text(text, "x").is_comment(), comment, "{text}");
        }
    }

    #[test]
    fn references_of_a_document_are_found_by_kind() {
        let text = format!(
            "<w:definitions xmlns:w='{WSDL11}' xmlns:x='{XSD}' targetNamespace='t'><w:import location='a.wsdl'/>\
             <w:types><x:schema targetNamespace='one'><x:import namespace='two'/>\
             <x:import namespace='three' schemaLocation=' three.xsd '/></x:schema></w:types></w:definitions>"
        );
        let (found, declared) = references(text.as_bytes());
        let namespace = "t".to_owned();
        assert_eq!(
            found,
            [
                Reference::Description { location: "a.wsdl".to_owned(), namespace },
                Reference::Namespace("two".to_owned()),
                Reference::Schema("three.xsd".to_owned()),
            ]
        );
        assert_eq!(declared, ["one"]);
    }

    #[test]
    fn unread_documents_are_reported_with_the_reason() {
        let text = format!("<x:schema xmlns:x='{XSD}'><x:include schemaLocation='.'/></x:schema>");
        let told = |documents: &mut Documents| {
            let mut report = Report::default();
            documents.follow("main.xsd", Path::new("main.xsd"), At::NOWHERE, &mut report);
            let mut all = report.errors().chain(report.warnings());
            all.next().map(|complaint| complaint.what.clone())
        };
        let mut documents = Documents::of_text(&text, "main.xsd");
        let folder = "main.xsd refers to `.`, which cannot be read: it is a folder";
        assert_eq!(told(&mut documents).as_deref(), Some(folder));
        for number in 1..FILES_MAX {
            documents.all.insert(format!("{number}.xsd"), Vec::new());
        }
        let many = "more than 2000 documents refer to one another";
        assert_eq!(told(&mut documents).as_deref(), Some(many));
    }

    #[test]
    fn no_document_is_missing_once_all_are_fetched() {
        let schema =
            |inner: &str| format!("<x:schema xmlns:x='{XSD}'>{inner}</x:schema>").into_bytes();
        let mut documents = Documents::of_text("<a/>", "main.xsd");
        documents.remote = vec!["http://h/a.xsd".to_owned()];
        let given = (PathBuf::from("c.xsd"), schema(""));
        documents.mapped = HashMap::from([("c.xsd".to_owned(), given)]);
        let mut fetched = HashMap::new();
        assert_eq!(documents.missing(&mut fetched), ["http://h/a.xsd"]);
        let names = "<x:include schemaLocation='d/b.xsd'/><x:include schemaLocation='c.xsd'/>";
        fetched.insert("http://h/a.xsd".to_owned(), schema(names));
        assert_eq!(documents.missing(&mut fetched), ["http://h/d/b.xsd"]);
        fetched.insert(
            "http://h/d/b.xsd".to_owned(),
            schema("<x:include schemaLocation='../a.xsd'/>"),
        );
        assert!(documents.missing(&mut fetched).is_empty());
        assert!(fetched.contains_key("http://h/c.xsd"), "the file that is given for it");
    }
}
