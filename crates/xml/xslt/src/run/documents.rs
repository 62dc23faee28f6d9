//! `document()`: loads documents through the caller's resolver, each once (XSLT 1.0, 12.1).

use std::collections::HashMap;
use std::sync::Arc;

use xml::{Doctype, Document, Options};
use xpath::{DocId, Node, Value};

use super::{Machine, Reach, dynamic, no_nodes, spaces};
use crate::error::{At, Error, ErrorKind};

/// The documents of the run, by address.
#[derive(Debug, Default)]
pub(super) struct Documents {
    /// By reference and base, as requested.
    asked: HashMap<(Box<str>, Box<str>), DocId>,
    /// By the address that the resolver returned.
    known: HashMap<Box<str>, DocId>,
    /// Modules of the stylesheet that were loaded as documents.
    modules: HashMap<u32, DocId>,
    loaded: u32,
}

impl Machine<'_> {
    /// Evaluates `document(value)` or `document(value, base)` for an expression in a module.
    pub(super) fn document_call(
        &mut self,
        value: &Value,
        base: Option<&Value>,
        module: u32,
        reach: &mut Reach<'_>,
    ) -> Result<Value, Error> {
        let base_node = match base {
            None => None,
            Some(value) => match value.as_nodes() {
                Some([first, ..]) => Some(Some(*first)),
                Some([]) => Some(None),
                None => return Err(dynamic("the second argument of document() is not a node-set")),
            },
        };
        let Some(nodes) = value.as_nodes().map(<[Node]>::to_vec) else {
            let href = value.to_text(reach.documents.get()).into_owned();
            let root = match base_node {
                None => self.load_from_module(&href, module, reach)?,
                Some(Some(node)) => self.load_from_node(&href, node, reach)?,
                Some(None) => return Ok(no_nodes()),
            };
            return Ok(Value::node(root));
        };
        let mut roots = Vec::new();
        for node in nodes {
            let href = reach.documents.get().string_value(node).into_owned();
            match base_node {
                None => roots.push(self.load_from_node(&href, node, reach)?),
                Some(Some(base)) => roots.push(self.load_from_node(&href, base, reach)?),
                Some(None) => {}
            }
        }
        Ok(Value::nodes(roots))
    }

    fn load_from_module(
        &mut self,
        href: &str,
        module: u32,
        reach: &mut Reach<'_>,
    ) -> Result<Node, Error> {
        let program = self.given.program;
        let Some(found) = program.modules.get(module as usize) else {
            return Err(dynamic("an expression without a module"));
        };
        let (href, _fragment) = href.split_once('#').unwrap_or((href, ""));
        if !href.is_empty() {
            return self.load(href, &found.uri, reach);
        }
        self.module(module, reach)
    }

    /// Returns a module as a source document (XSLT 1.0, 12.1).
    fn module(&mut self, module: u32, reach: &mut Reach<'_>) -> Result<Node, Error> {
        if let Some(doc) = self.documents.modules.get(&module) {
            return Ok(Node::new(*doc, Document::ROOT));
        }
        let Some(found) = self.given.program.modules.get(module as usize) else {
            return Err(dynamic("an expression without a module"));
        };
        let document = spaces::stripped(&found.document, self.given.program);
        let doc = self.add(document, reach)?;
        self.documents.modules.insert(module, doc);
        Ok(Node::new(doc, Document::ROOT))
    }

    fn load_from_node(
        &mut self,
        href: &str,
        node: Node,
        reach: &mut Reach<'_>,
    ) -> Result<Node, Error> {
        let (href, _fragment) = href.split_once('#').unwrap_or((href, ""));
        if href.is_empty() {
            return Ok(node.root());
        }
        let module = self.documents.modules.iter().find(|(_, doc)| **doc == node.doc);
        let base: Box<str> = match (node.doc, module) {
            (DocId(0), _) => self.given.base.into(),
            (_, Some((module, _))) => {
                let module = self.given.program.modules.get(*module as usize);
                // Harmless: each number belongs to a module.
                module.map(|module| Box::from(&*module.uri)).unwrap_or_default()
            }
            (doc, None) => {
                let known = self.documents.known.iter().find(|(_, known)| **known == doc);
                known.map(|(uri, _)| uri.clone()).unwrap_or_else(|| self.given.base.into())
            }
        };
        self.load(href, &base, reach)
    }

    fn load(&mut self, href: &str, base: &str, reach: &mut Reach<'_>) -> Result<Node, Error> {
        let asked = (Box::from(href), Box::from(base));
        if let Some(doc) = self.documents.asked.get(&asked) {
            return Ok(Node::new(*doc, Document::ROOT));
        }
        let found = self.given.resolver.resolve(href, base).map_err(|cause| {
            let kind = ErrorKind::Resolve { href: href.into(), cause: cause.into() };
            Error::new(kind, At::default())
        })?;
        let modules =
            || self.given.program.modules.iter().position(|module| *module.uri == *found.uri);
        let doc = match self.documents.known.get(&*found.uri) {
            Some(doc) => *doc,
            // References that resolve to the same address yield the same document.
            None if !found.uri.is_empty() && *found.uri == *self.given.base => DocId(0),
            None if let Some(module) = modules() => {
                let module = u32::try_from(module).unwrap_or(u32::MAX);
                self.module(module, reach)?.doc
            }
            None => {
                let max = self.given.budgets.documents_max;
                if self.documents.loaded >= max {
                    return Err(Error::limit("documents_max", max.into(), At::default()));
                }
                self.documents.loaded += 1;
                let options = Options { doctype: Doctype::Internal, ..Options::default() };
                let document = Document::parse(&found.bytes, &options).map_err(|error| {
                    let what = format!("{}:{error}", found.uri);
                    Error::new(ErrorKind::Document(what.into()), At::default())
                })?;
                let document = spaces::stripped(&Arc::new(document), self.given.program);
                let doc = self.add(document, reach)?;
                self.documents.known.insert(found.uri.into(), doc);
                doc
            }
        };
        self.documents.asked.insert(asked, doc);
        Ok(Node::new(doc, Document::ROOT))
    }

    /// Adds a document that is kept until the run ends.
    fn add(&mut self, document: Arc<Document>, reach: &mut Reach<'_>) -> Result<DocId, Error> {
        let doc = reach.documents.get().add(document).map_err(|kind| self.fault_kind(kind))?;
        // A nested run removes no documents, and keeps all that were added when it ends.
        if self.pinned != u32::MAX {
            self.pinned = self.pinned.max(reach.documents.get().len());
        }
        Ok(doc)
    }
}
