//! Reads the modules of a stylesheet, and puts their declarations in the order of import precedence.

use std::sync::Arc;

use xml::{Doctype, Document, Kind, NodeId, Options};

use super::XSLT;
use crate::error::{At, Error, ErrorKind};
use crate::resolver::Resolver;

/// Maximum number of modules in one stylesheet. More are a mistake or an attack.
const MODULES_MAX: usize = 500;

/// Maximum nesting of imports and includes, because reading modules is recursive.
const NESTING_MAX: usize = 40;

/// Maximum nesting of elements, because the compiler is recursive and a worker's stack has 2 MiB.
const DEPTH_MAX: u32 = 120;

/// A parsed module.
#[derive(Debug)]
pub(super) struct ParsedModule {
    pub(super) uri: Arc<str>,
    pub(super) document: Arc<Document>,
}

/// A top-level element with its place in the import tree.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declaration {
    pub(super) module: u32,
    pub(super) node: NodeId,
    pub(super) precedence: u32,
    pub(super) imports_from: u32,
    /// Whether the element is a whole simplified stylesheet, which is a template for the root (XSLT 1.0, 2.3).
    pub(super) simplified: bool,
}

/// Loader of modules.
pub(super) struct Loader<'r> {
    pub(super) modules: Vec<ParsedModule>,
    pub(super) declarations: Vec<Declaration>,
    resolver: &'r dyn Resolver,
    precedence: u32,
    /// The modules being read, outermost first.
    path: Vec<Arc<str>>,
}

/// The content of one level of the import tree: a module and everything that it includes.
#[derive(Default)]
struct LevelParts {
    imports: Vec<(String, u32, NodeId)>,
    own: Vec<(u32, NodeId, bool)>,
}

impl<'r> Loader<'r> {
    pub(super) fn new(resolver: &'r dyn Resolver) -> Loader<'r> {
        Loader {
            modules: Vec::new(),
            declarations: Vec::new(),
            resolver,
            precedence: 0,
            path: Vec::new(),
        }
    }

    /// Reads the principal module and all modules it refers to.
    pub(super) fn load(&mut self, bytes: &[u8], uri: &str) -> Result<(), Error> {
        let module = self.read(bytes, uri)?;
        self.level(module)
    }

    /// Reads the imports first, so that they have the lower precedence (XSLT 1.0, 2.6.2).
    fn level(&mut self, module: u32) -> Result<(), Error> {
        let imports_from = self.precedence;
        let mut parts = LevelParts::default();
        self.enter(module)?;
        self.gather(module, &mut parts)?;
        for (href, from, node) in &parts.imports {
            let imported = self.resolve(href, *from, *node)?;
            self.level(imported)?;
        }
        self.path.pop();
        let precedence = self.precedence;
        self.precedence += 1;
        self.declarations.extend(parts.own.into_iter().map(|(module, node, simplified)| {
            Declaration { module, node, precedence, imports_from, simplified }
        }));
        Ok(())
    }

    /// Collects the imports and the declarations of a module. Those of an included module take the place of the inclusion.
    fn gather(&mut self, module: u32, parts: &mut LevelParts) -> Result<(), Error> {
        let Some(document) = self.document(module) else { return Ok(()) };
        let Some(root) = document.root_element() else { return Ok(()) };
        let name = document.name(root);
        if name.namespace.uri != XSLT {
            if document.attribute(root, XSLT, "version").is_none() {
                let what = "this is not a stylesheet: the root is not xsl:stylesheet and has no xsl:version";
                return Err(self.wrong(module, root, what));
            }
            parts.own.push((module, root, true));
            return Ok(());
        }
        if name.local != "stylesheet" && name.local != "transform" {
            let what = format!("xsl:{} cannot be the root of a stylesheet", name.local);
            return Err(self.wrong(module, root, &what));
        }
        if document.attribute(root, "", "version").is_none() {
            return Err(self.wrong(module, root, "xsl:stylesheet needs the attribute version"));
        }
        let mut imports_over = false;
        for child in document.children(root).filter(|n| document.kind(*n) == Kind::Element) {
            let name = document.name(child);
            let reference = match (name.namespace.uri, name.local) {
                (XSLT, "import") if imports_over => {
                    return Err(self.wrong(
                        module,
                        child,
                        "xsl:import must come before all other elements",
                    ));
                }
                (XSLT, "import") => "import",
                (XSLT, "include") => "include",
                _ => "",
            };
            if reference != "import" {
                imports_over = true;
            }
            if reference.is_empty() {
                parts.own.push((module, child, false));
                continue;
            }
            let Some(href) = document.attribute(child, "", "href") else {
                let what = format!("xsl:{reference} needs the attribute href");
                return Err(self.wrong(module, child, &what));
            };
            if reference == "import" {
                parts.imports.push((href.to_owned(), module, child));
                continue;
            }
            let included = self.resolve(href, module, child)?;
            self.enter(included)?;
            self.gather(included, parts)?;
            self.path.pop();
        }
        Ok(())
    }

    fn enter(&mut self, module: u32) -> Result<(), Error> {
        let Some(loaded) = self.modules.get(module as usize) else { return Ok(()) };
        let uri = loaded.uri.clone();
        let root = NodeId(0);
        if !uri.is_empty() && self.path.contains(&uri) {
            let what = format!("`{uri}` imports or includes itself");
            return Err(self.wrong(module, root, &what));
        }
        if self.path.len() >= NESTING_MAX {
            let at = self.at(module, root);
            return Err(Error::limit("nested modules", NESTING_MAX as u64, at));
        }
        self.path.push(uri);
        Ok(())
    }

    fn resolve(&mut self, href: &str, from: u32, node: NodeId) -> Result<u32, Error> {
        // Harmless: each number belongs to a module.
        let base = self.modules.get(from as usize).map(|m| m.uri.clone()).unwrap_or_default();
        let found = self.resolver.resolve(href, &base).map_err(|cause| {
            let kind = ErrorKind::Resolve { href: href.into(), cause: cause.into() };
            Error::new(kind, self.at(from, node))
        })?;
        self.read(&found.bytes, &found.uri)
    }

    fn read(&mut self, bytes: &[u8], uri: &str) -> Result<u32, Error> {
        let uri: Arc<str> = uri.into();
        if self.modules.len() >= MODULES_MAX {
            let at = At { file: uri, line: 0, column: 0 };
            return Err(Error::limit("modules", MODULES_MAX as u64, at));
        }
        let mut options = Options { doctype: Doctype::Internal, ..Options::default() };
        options.limits.depth_max = DEPTH_MAX;
        let document = Document::parse(bytes, &options).map_err(|error| {
            let at = At { file: uri.clone(), line: error.at.line, column: error.at.column };
            Error::new(ErrorKind::Document(error.kind.to_string().into()), at)
        })?;
        let number = u32::try_from(self.modules.len()).unwrap_or(u32::MAX);
        self.modules.push(ParsedModule { uri, document: Arc::new(document) });
        Ok(number)
    }

    fn document(&self, module: u32) -> Option<Arc<Document>> {
        self.modules.get(module as usize).map(|loaded| loaded.document.clone())
    }

    fn at(&self, module: u32, node: NodeId) -> At {
        let Some(loaded) = self.modules.get(module as usize) else { return At::default() };
        let position = loaded.document.position(node);
        At { file: loaded.uri.clone(), line: position.line, column: position.column }
    }

    fn wrong(&self, module: u32, node: NodeId, what: &str) -> Error {
        Error::new(ErrorKind::Static(what.into()), self.at(module, node))
    }
}
