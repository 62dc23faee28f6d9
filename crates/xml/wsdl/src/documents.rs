//! Loads the documents of a description: the first one, and each document that it imports or includes, once.
//!
//! Follows locations, within limits, and collects the schemas that it encounters. It does not read definitions.

use std::collections::HashSet;

use xml::{Doctype, Document, Options};
use xsd::{Complaint, ResolveError, Resolver};

use crate::element::{Element, File, Report};
use crate::limits::Limits;
use crate::{Version, WSDL11, WSDL20};

/// All loaded documents.
pub(crate) struct Documents {
    pub(crate) version: Version,
    pub(crate) files: Vec<File>,
    /// Locations of schema documents that are imported by `wsdl:import`, although they are not WSDL. Many tools write such imports.
    pub(crate) schemas: Vec<String>,
}

/// Loads the document at a location and everything that it refers to. Returns `None` if the first document is not a description.
pub(crate) fn load(
    location: &str,
    resolver: &dyn Resolver,
    limits: &Limits,
    report: &mut Report,
) -> Option<Documents> {
    let location = xsd::join("", location);
    let bytes = match resolver.load(&location) {
        Ok(bytes) => bytes,
        Err(why) => {
            report.push(unread(&location, &why));
            return None;
        }
    };
    let first = parse(&bytes, &location, limits, report)?;
    let version = version(first.root(), report)?;
    let mut documents = Documents { version, files: vec![first], schemas: Vec::new() };
    documents.follow(resolver, limits, report);
    Some(documents)
}

impl Documents {
    fn follow(&mut self, resolver: &dyn Resolver, limits: &Limits, report: &mut Report) {
        let mut known: HashSet<String> =
            self.files.iter().map(|file| file.location.to_string()).collect();
        let mut next = 0;
        while let Some(file) = self.files.get(next) {
            next += 1;
            let links = links(file.root(), report);
            for link in links {
                let at = self.files.get(next - 1).map(|file| Element { file, node: link.node });
                let (Some(at), true) = (at, known.insert(link.location.clone())) else { continue };
                if known.len() > limits.documents_max {
                    let message = format!("over {} documents", limits.documents_max);
                    report.at(at, "limit", message);
                    return;
                }
                match resolver.load(&link.location) {
                    Ok(bytes) => self.adopt(&bytes, link, limits, report),
                    Err(why) => {
                        let why = reason(&why);
                        report.at(at, "wsdl-import", format!("{:?} {why}", link.location));
                    }
                }
            }
        }
    }

    fn adopt(&mut self, bytes: &[u8], link: Link, limits: &Limits, report: &mut Report) {
        let Some(file) = parse(bytes, &link.location, limits, report) else { return };
        if file.root().is(SCHEMA, "schema") {
            return self.schemas.push(link.location);
        }
        if version(file.root(), report).is_some_and(|version| version == self.version) {
            if let Some(expected) = link.namespace.filter(|expected| **expected != *file.target) {
                let message = format!(
                    "its target namespace is {:?}, but {expected:?} is imported",
                    file.target
                );
                report.at(file.root(), "wsdl-namespace", message);
            }
            self.files.push(file);
        }
    }
}

/// The namespace of schema documents.
pub(crate) const SCHEMA: &str = "http://www.w3.org/2001/XMLSchema";

struct Link {
    node: xml::NodeId,
    location: String,
    /// The namespace that an import declares.
    namespace: Option<Box<str>>,
}

/// Returns the imports and includes of a description. One without a location only declares that a namespace is used, and is skipped.
fn links(root: Element<'_>, report: &mut Report) -> Vec<Link> {
    let mut links = Vec::new();
    let wanted = |child: &Element<'_>| {
        child.is(WSDL11, "import") || child.is(WSDL20, "import") || child.is(WSDL20, "include")
    };
    for child in root.children().filter(wanted) {
        let location = if child.is(WSDL20, "include") {
            child.required("location", report)
        } else {
            child.attribute("location").filter(|location| !location.is_empty())
        };
        let Some(location) = location else { continue };
        let location = xsd::join(&child.file.location, location);
        let namespace = child.attribute("namespace").map(Box::from);
        links.push(Link { node: child.node, location, namespace });
    }
    links
}

pub(crate) fn parse(
    bytes: &[u8],
    location: &str,
    limits: &Limits,
    report: &mut Report,
) -> Option<File> {
    // Schemas have document types for editors, so descriptions with inline schemas may have them too.
    let options =
        Options { limits: limits.xml.clone(), doctype: Doctype::Internal, ..Options::default() };
    let document = Document::parse(bytes, &options)
        .map_err(|error| {
            report.push(Complaint {
                code: "wsdl-not-xml",
                location: location.into(),
                at: error.at,
                message: error.kind.to_string(),
            });
        })
        .ok()?;
    let root = document.root_element()?;
    let target = document.attribute(root, "", "targetNamespace").unwrap_or("").trim().into();
    Some(File { location: location.into(), document, target })
}

/// Returns the WSDL version by the root element, or `None` if the document is not WSDL.
fn version(root: Element<'_>, report: &mut Report) -> Option<Version> {
    if root.is(WSDL11, "definitions") {
        return Some(Version::V11);
    }
    if root.is(WSDL20, "description") {
        return Some(Version::V20);
    }
    let message = format!(
        "the root is <{}> of the namespace {:?}; a description has <definitions> of {WSDL11} or <description> of {WSDL20}",
        root.local(),
        root.namespace()
    );
    report.at(root, "wsdl-root", message);
    None
}

fn unread(location: &str, why: &ResolveError) -> Complaint {
    Complaint {
        code: "wsdl-import",
        location: location.into(),
        at: xml::Position::default(),
        message: format!("the description {}", reason(why)),
    }
}

fn reason(why: &ResolveError) -> String {
    match why {
        ResolveError::Absent => "cannot be found".to_owned(),
        ResolveError::Refused(why) => format!("is not read: {why}"),
    }
}
