//! Loads schema documents: finds, parses and checks the structure of each one, with everything that it includes, imports and redefines.
//!
//! Owns the queue of documents and the rules for references between documents. It builds no components.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use xml::{Document, Kind, NodeId};

use crate::complaint::{Complaint, Report};
use crate::limits::Limits;
use crate::model::DerivationSet;
use crate::names::{Names, NsId, XSD_NAMESPACE};
use crate::resolve::{ResolveError, Resolver, join};
use crate::syntax;

/// Source of a schema: a document of the set, or a schema element embedded in another document.
#[derive(Debug)]
pub(crate) enum Source<'d> {
    Owned(Box<Document>),
    Borrowed(&'d Document),
}

/// One schema document.
#[derive(Debug)]
pub(crate) struct SchemaDocument<'d> {
    source: Source<'d>,
    /// Its index in the list.
    pub(crate) index: usize,
    /// The `schema` element.
    pub(crate) root: NodeId,
    pub(crate) location: Arc<str>,
    /// The target namespace. For a chameleon include, that of the including document.
    pub(crate) target: NsId,
    /// Whether the document has no target namespace of its own and uses that of the including document.
    pub(crate) chameleon: bool,
    pub(crate) imports: Vec<NsId>,
    pub(crate) elements_qualified: bool,
    pub(crate) attributes_qualified: bool,
    pub(crate) block_default: DerivationSet,
    pub(crate) final_default: DerivationSet,
    /// The documents that it includes or redefines.
    pub(crate) includes: Vec<usize>,
    /// Its `redefine` elements with the documents that they redefine.
    pub(crate) redefines: Vec<(NodeId, usize)>,
}

impl SchemaDocument<'_> {
    pub(crate) fn tree(&self) -> &Document {
        match &self.source {
            Source::Owned(document) => document,
            Source::Borrowed(document) => document,
        }
    }

    /// Returns the local name of an element of the schema namespace; empty for other nodes.
    pub(crate) fn tag(&self, node: NodeId) -> &str {
        let tree = self.tree();
        if tree.kind(node) != Kind::Element {
            return "";
        }
        let name = tree.name(node);
        if name.namespace.uri == XSD_NAMESPACE { name.local } else { "" }
    }

    /// Child elements of the schema namespace.
    pub(crate) fn children(&self, node: NodeId) -> impl Iterator<Item = NodeId> {
        self.tree().children(node).filter(|&child| !self.tag(child).is_empty())
    }

    pub(crate) fn child(&self, node: NodeId, tags: &[&str]) -> Option<NodeId> {
        self.children(node).find(|&child| tags.contains(&self.tag(child)))
    }

    /// Returns an attribute's value, trimmed.
    pub(crate) fn attribute(&self, node: NodeId, name: &str) -> Option<&str> {
        self.tree().attribute(node, "", name).map(syntax::collapse)
    }

    pub(crate) fn flag(&self, node: NodeId, name: &str) -> bool {
        matches!(self.attribute(node, name), Some("true" | "1"))
    }

    /// Returns the set in a `final` or `block` attribute, or else the default, limited to the allowed methods.
    pub(crate) fn ways(
        &self,
        node: NodeId,
        name: &str,
        default: DerivationSet,
        allowed: DerivationSet,
    ) -> DerivationSet {
        match self.attribute(node, name) {
            Some(value) => ways(value),
            None => default,
        }
        .only(allowed)
    }
}

fn ways(value: &str) -> DerivationSet {
    value.split_ascii_whitespace().fold(DerivationSet::NONE, |sum, word| {
        sum.with(match word {
            "#all" => DerivationSet(0xFF),
            "extension" => DerivationSet::EXTENSION,
            "restriction" => DerivationSet::RESTRICTION,
            "substitution" => DerivationSet::SUBSTITUTION,
            "list" => DerivationSet::LIST,
            "union" => DerivationSet::UNION,
            _ => DerivationSet::NONE,
        })
    })
}

/// The reason why a document is loaded, which determines the namespace that it must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoadReason {
    /// Added by the caller.
    Directly,
    Include(NsId),
    Redefine(NsId),
    Import(NsId),
}

/// All documents of a set. The list grows until all references have been followed.
pub(crate) struct Documents<'d> {
    resolver: &'d dyn Resolver,
    limits: Limits,
    pub(crate) list: Vec<SchemaDocument<'d>>,
    known: HashMap<(String, NsId), usize>,
    waiting: VecDeque<usize>,
    /// Schemas that are used only if an import finds no other schema for its namespace.
    offered: Vec<OfferedSchema<'d>>,
    /// Namespaces of imports without a document.
    unmet: Vec<NsId>,
    loads: usize,
    pub(crate) report: Report,
}

/// A schema offered in addition to those of the set.
struct OfferedSchema<'d> {
    tree: &'d Document,
    root: NodeId,
    location: String,
}

/// The attributes of the namespace `xml`, for schemas that import it without a loadable location.
const XML_ATTRIBUTES: &str = r#"<schema xmlns="http://www.w3.org/2001/XMLSchema"
  targetNamespace="http://www.w3.org/XML/1998/namespace">
<attribute name="lang"><simpleType><union memberTypes="language"><simpleType>
  <restriction base="string"><enumeration value=""/></restriction></simpleType></union></simpleType></attribute>
<attribute name="space"><simpleType><restriction base="NCName">
  <enumeration value="default"/><enumeration value="preserve"/></restriction></simpleType></attribute>
<attribute name="base" type="anyURI"/>
<attribute name="id" type="ID"/>
<attributeGroup name="specialAttrs"><attribute ref="xml:base"/><attribute ref="xml:lang"/>
  <attribute ref="xml:space"/><attribute ref="xml:id"/></attributeGroup>
</schema>"#;

impl<'d> Documents<'d> {
    pub(crate) fn new(resolver: &'d dyn Resolver, limits: &Limits) -> Documents<'d> {
        Documents {
            resolver,
            limits: limits.clone(),
            list: Vec::new(),
            known: HashMap::new(),
            waiting: VecDeque::new(),
            offered: Vec::new(),
            unmet: Vec::new(),
            loads: 0,
            report: Report::new(limits.complaints_max),
        }
    }

    pub(crate) fn has_namespace(&self, names: &Names, uri: &str) -> bool {
        let namespace = names.find_namespace(uri);
        self.list.iter().any(|document| document.target == namespace)
    }

    pub(crate) fn add_bytes(&mut self, names: &mut Names, bytes: &[u8], location: &str) {
        if let Some(document) = self.parse(bytes, location) {
            self.adopt(
                names,
                Source::Owned(Box::new(document)),
                None,
                location,
                LoadReason::Directly,
            );
        }
    }

    pub(crate) fn add_embedded(
        &mut self,
        names: &mut Names,
        document: &'d Document,
        root: NodeId,
        location: &str,
    ) {
        let source = Source::Borrowed(document);
        self.adopt(names, source, Some(root), location, LoadReason::Directly);
    }

    pub(crate) fn offer(&mut self, tree: &'d Document, root: NodeId, location: &str) {
        self.offered.push(OfferedSchema { tree, root, location: location.to_owned() });
    }

    /// Adds a document from the resolver. Returns false if there is none.
    pub(crate) fn add_location(&mut self, names: &mut Names, location: &str) -> bool {
        let location = join("", location);
        if self.known.keys().any(|(known, _)| *known == location) {
            return true;
        }
        match self.load(&location) {
            Ok(bytes) => {
                self.add_bytes(names, &bytes, &location);
                true
            }
            Err(_) => false,
        }
    }

    /// Follows the references of all documents until no new one is found.
    pub(crate) fn follow(&mut self, names: &mut Names) {
        self.follow_locations(names);
        // Documents found by location take precedence over offered ones, wherever the location is given.
        while let Some(namespace) = self.unmet.pop() {
            self.take_offered(names, namespace);
            self.follow_locations(names);
        }
        let wants_xml = self.list.iter().any(|document| document.imports.contains(&NsId::XML));
        if wants_xml && !self.list.iter().any(|document| document.target == NsId::XML) {
            self.add_bytes(names, XML_ATTRIBUTES.as_bytes(), xml::XML_NAMESPACE);
            self.waiting.clear();
        }
    }

    /// Adds the offered schemas of a namespace, unless the set has one already.
    fn take_offered(&mut self, names: &mut Names, namespace: NsId) {
        if self.list.iter().any(|document| document.target == namespace) {
            return;
        }
        let uri = names.uri(namespace).to_owned();
        let is_wanted = |offered: &OfferedSchema<'d>| {
            let target = offered.tree.attribute(offered.root, "", "targetNamespace");
            target.map_or("", syntax::collapse) == uri
        };
        let (wanted, others) = self.offered.drain(..).partition(is_wanted);
        self.offered = others;
        let wanted: Vec<OfferedSchema<'d>> = wanted;
        for offered in wanted {
            self.add_embedded(names, offered.tree, offered.root, &offered.location);
        }
    }

    fn follow_locations(&mut self, names: &mut Names) {
        while let Some(index) = self.waiting.pop_front() {
            let Some(document) = self.list.get(index) else { continue };
            let root = document.root;
            let links: Vec<NodeId> = document
                .children(root)
                .filter(|&n| matches!(document.tag(n), "include" | "import" | "redefine"))
                .collect();
            for link in links {
                self.link(names, index, link);
            }
        }
    }

    fn link(&mut self, names: &mut Names, index: usize, link: NodeId) {
        let Some(document) = self.list.get(index) else { return };
        let target = document.target;
        let tag = document.tag(link).to_owned();
        let location =
            document.attribute(link, "schemaLocation").map(|l| join(&document.location, l));
        let wanted = match tag.as_str() {
            "include" => LoadReason::Include(target),
            "redefine" => LoadReason::Redefine(target),
            _ => {
                let Some(namespace) = self.import(names, index, link) else { return };
                if let Some(document) = self.list.get_mut(index) {
                    document.imports.push(namespace);
                }
                LoadReason::Import(namespace)
            }
        };
        let by_namespace = || match wanted {
            LoadReason::Import(namespace) => self.resolver.of_namespace(names.uri(namespace)),
            LoadReason::Include(_) | LoadReason::Redefine(_) | LoadReason::Directly => None,
        };
        let location = location.or_else(by_namespace);
        let found =
            location.as_ref().and_then(|location| self.fetch(names, index, link, location, wanted));
        if let (LoadReason::Import(namespace), None) = (wanted, found) {
            self.unmet.push(namespace);
        }
        let Some(location) = location else { return };
        let Some(document) = self.list.get_mut(index) else { return };
        match (wanted, found) {
            (LoadReason::Include(_), Some(found)) => document.includes.push(found),
            (LoadReason::Redefine(_), Some(found)) => {
                document.includes.push(found);
                document.redefines.push((link, found));
            }
            (LoadReason::Redefine(_), None) => {
                let empty =
                    document.children(link).all(|child| document.tag(child) == "annotation");
                if !empty {
                    let message = format!("there is no schema document at {location:?}");
                    self.complain("src-redefine.2", index, link, message);
                }
            }
            (LoadReason::Include(_), None) | (LoadReason::Import(_) | LoadReason::Directly, _) => {}
        }
    }

    /// Returns the namespace of an import, if the import is allowed.
    fn import(&mut self, names: &mut Names, index: usize, link: NodeId) -> Option<NsId> {
        let document = self.list.get(index)?;
        let target = document.target;
        let namespace = document.attribute(link, "namespace").map(|uri| names.namespace(uri));
        let (code, message) = match namespace {
            Some(namespace) if namespace == target && target != NsId::ABSENT => {
                ("src-import.1.1", "a schema cannot import its own target namespace")
            }
            None if document.tree().attribute(document.root, "", "targetNamespace").is_none() => {
                ("src-import.1.2", "a schema without a target namespace must import a namespace")
            }
            Some(NsId::ABSENT) => {
                ("src-import.1.1", "the namespace of an import must not be empty")
            }
            Some(namespace) => return Some(namespace),
            None => return Some(NsId::ABSENT),
        };
        self.complain(code, index, link, message.to_owned());
        None
    }

    fn fetch(
        &mut self,
        names: &mut Names,
        from: usize,
        link: NodeId,
        location: &str,
        wanted: LoadReason,
    ) -> Option<usize> {
        let target = match wanted {
            LoadReason::Include(target)
            | LoadReason::Redefine(target)
            | LoadReason::Import(target) => target,
            LoadReason::Directly => return None,
        };
        if let Some(&known) = self.known.get(&(location.to_owned(), target)) {
            return Some(known);
        }
        let bytes = match self.load(location) {
            Ok(bytes) => bytes,
            Err(ResolveError::Absent) => return None,
            Err(ResolveError::Refused(why)) => {
                self.complain("limit", from, link, format!("{location:?} is not read: {why}"));
                return None;
            }
        };
        let document = self.parse(&bytes, location)?;
        self.adopt(names, Source::Owned(Box::new(document)), None, location, wanted)
    }

    fn load(&mut self, location: &str) -> Result<Vec<u8>, ResolveError> {
        self.loads += 1;
        if self.loads > self.limits.documents_max {
            let max = self.limits.documents_max;
            return Err(ResolveError::Refused(format!("over {max} schema documents")));
        }
        self.resolver.load(location)
    }

    fn parse(&mut self, bytes: &[u8], location: &str) -> Option<Document> {
        let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
        match Document::parse(bytes, &options) {
            Ok(document) => Some(document),
            Err(error) => {
                self.report.push(Complaint {
                    code: "s4s-not-xml",
                    location: location.into(),
                    at: error.at,
                    message: error.kind.to_string(),
                });
                None
            }
        }
    }

    /// Adds a parsed document to the list, if it meets the requirements of the reference to it.
    fn adopt(
        &mut self,
        names: &mut Names,
        source: Source<'d>,
        root: Option<NodeId>,
        location: &str,
        wanted: LoadReason,
    ) -> Option<usize> {
        let index = self.list.len();
        let tree = match &source {
            Source::Owned(document) => document,
            Source::Borrowed(document) => *document,
        };
        let root = root.or_else(|| tree.root_element())?;
        let own = tree.attribute(root, "", "targetNamespace").map(syntax::collapse);
        let (has_target, empty) = (own.is_some(), own == Some(""));
        let own_target = own.map_or(NsId::ABSENT, |uri| names.namespace(uri));
        let target = match wanted {
            LoadReason::Include(target) | LoadReason::Redefine(target) if !has_target => target,
            LoadReason::Directly
            | LoadReason::Include(_)
            | LoadReason::Redefine(_)
            | LoadReason::Import(_) => own_target,
        };
        let faults = syntax::check(tree, root);
        let mut document = SchemaDocument {
            source,
            index,
            root,
            location: location.into(),
            target,
            chameleon: !has_target && target != NsId::ABSENT,
            imports: Vec::new(),
            elements_qualified: false,
            attributes_qualified: false,
            block_default: DerivationSet::NONE,
            final_default: DerivationSet::NONE,
            includes: Vec::new(),
            redefines: Vec::new(),
        };
        let is_schema = document.tag(root) == "schema";
        let qualified = |name| document.attribute(root, name) == Some("qualified");
        let elements_qualified = qualified("elementFormDefault");
        let attributes_qualified = qualified("attributeFormDefault");
        document.block_default =
            document.ways(root, "blockDefault", DerivationSet::NONE, DerivationSet(0xFF));
        document.final_default =
            document.ways(root, "finalDefault", DerivationSet::NONE, DerivationSet(0xFF));
        document.elements_qualified = elements_qualified;
        document.attributes_qualified = attributes_qualified;
        self.list.push(document);
        self.known.insert((join("", location), target), index);
        if !is_schema {
            let message = "its root is not the element schema of XML Schema".to_owned();
            self.complain("src-not-a-schema", index, root, message);
            return None;
        }
        if empty {
            let message = "the target namespace is empty: leave the attribute out".to_owned();
            self.complain("s4s-att-invalid-value", index, root, message);
        }
        for fault in faults {
            self.complain(fault.code, index, fault.node, fault.message);
        }
        self.waiting.push_back(index);
        self.fits(names, index, wanted).then_some(index)
    }

    /// Returns whether the target namespace is the required one.
    fn fits(&mut self, names: &Names, index: usize, wanted: LoadReason) -> bool {
        let Some(document) = self.list.get(index) else { return false };
        let (code, expected) = match wanted {
            LoadReason::Directly => return true,
            LoadReason::Include(target) => ("src-include.2.1", target),
            LoadReason::Redefine(target) => ("src-redefine.3.1", target),
            LoadReason::Import(target) => ("src-import.3", target),
        };
        if document.target == expected {
            return true;
        }
        let message = format!(
            "its target namespace is {:?}, and {:?} is asked for",
            names.uri(document.target),
            names.uri(expected)
        );
        let root = document.root;
        self.complain(code, index, root, message);
        false
    }

    pub(crate) fn complain(
        &mut self,
        code: &'static str,
        index: usize,
        node: NodeId,
        message: String,
    ) {
        let Some(document) = self.list.get(index) else { return };
        let at = document.tree().position(node);
        let location = Arc::clone(&document.location);
        self.report.push(Complaint { code, location, at, message });
    }
}
