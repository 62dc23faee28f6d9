//! Compiles the text of a stylesheet to a program. All names, expressions, templates and patterns are resolved here.

mod avt;
mod body;
mod declaration;
mod dispatch;
mod element;
mod globals;
mod grammar;
mod instruction;
mod literal;
mod load;
mod names;
mod scope;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use xpath::Name;

use crate::error::{At, Error, ErrorKind};
use crate::out::OutputDeclaration;
use crate::program::{CallSite, Module, Op, Pc, Program, SourcePosition};
use crate::resolver::Resolver;
use element::Element;
pub(crate) use grammar::is_instruction;
use load::{Declaration, Loader, ParsedModule};
pub(crate) use names::{is_ncname, split_qname};
pub(crate) use scope::arity;

/// The namespace of XSLT.
pub(crate) const XSLT: &str = "http://www.w3.org/1999/XSL/Transform";

/// The namespace of EXSLT's functions.
pub(crate) const FUNCTIONS: &str = "http://exslt.org/functions";

/// Compiles a stylesheet and all its modules.
pub(crate) fn compile(bytes: &[u8], uri: &str, resolver: &dyn Resolver) -> Result<Program, Error> {
    let mut loader = Loader::new(resolver);
    loader.load(bytes, uri)?;
    let Loader { modules, declarations, .. } = loader;
    let mut compiler = Compiler::new(&modules);
    compiler.number_names(&declarations)?;
    for declaration in &declarations {
        compiler.declaration(declaration)?;
    }
    compiler.finish(&modules)
}

/// State of the compiler.
pub(super) struct Compiler<'m> {
    modules: &'m [ParsedModule],
    program: Program,
    /// Numbers by name.
    modes: HashMap<Name, u32>,
    params: HashMap<Name, u32>,
    sets: HashMap<Name, u32>,
    globals: HashMap<Name, u32>,
    functions: HashMap<Name, u32>,
    /// Named templates: number and precedence.
    templates: HashMap<Name, (u32, u32)>,
    /// Declarations of each attribute set, in order.
    set_parts: Vec<Vec<Declaration>>,
    /// For each global, the declaration in effect.
    chosen: HashMap<Name, Declaration>,
    /// Pairs of a mode and a rule for it.
    in_modes: Vec<(u32, u32)>,
    /// Rules for all modes.
    everywhere: Vec<u32>,
    aliases: HashMap<Box<str>, literal::Alias>,
    output: OutputDeclaration,
    /// Side results of expressions, which borrow the compiler while they are compiled.
    notes: RefCell<Notes>,
}

/// Side results of compiling expressions.
#[derive(Default)]
struct Notes {
    calls: Vec<CallSite>,
    scopes: Vec<Vec<(Box<str>, Box<str>)>>,
    /// Globals referred to since the list was last cleared.
    needs: Vec<u32>,
    /// Errors for undefined names, raised when a run reaches the reference, as in libxslt.
    missing: Vec<Error>,
}

/// The variables of the entry that is being compiled.
#[derive(Default)]
pub(super) struct Locals {
    /// Variables in scope, inner ones last.
    visible: Vec<(Name, u32)>,
    slots: u32,
    /// Whether the entry is a function, which `func:result` ends.
    function: bool,
}

fn fresh_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl<'m> Compiler<'m> {
    fn new(modules: &'m [ParsedModule]) -> Compiler<'m> {
        let mut compiler = Compiler {
            modules,
            program: Program::default(),
            modes: HashMap::new(),
            params: HashMap::new(),
            sets: HashMap::new(),
            globals: HashMap::new(),
            functions: HashMap::new(),
            templates: HashMap::new(),
            set_parts: Vec::new(),
            chosen: HashMap::new(),
            in_modes: Vec::new(),
            everywhere: Vec::new(),
            aliases: HashMap::new(),
            output: OutputDeclaration::default(),
            notes: RefCell::default(),
        };
        compiler.program.id = fresh_id();
        compiler.program.code.push(Op::NextNode);
        compiler.program.places.push(SourcePosition::default());
        compiler
    }

    fn finish(mut self, modules: &[ParsedModule]) -> Result<Program, Error> {
        self.attribute_sets()?;
        self.sort_rules();
        let notes = self.notes.take();
        self.program.calls = notes.calls;
        self.program.scopes = notes.scopes;
        self.program.missing = notes.missing;
        self.program.output = Arc::new(self.output);
        let module = |m: &ParsedModule| Module { uri: m.uri.clone(), document: m.document.clone() };
        self.program.modules = modules.iter().map(module).collect();
        Ok(self.program)
    }

    fn element(&self, declaration: &Declaration) -> Element<'m> {
        self.node(declaration.module, declaration.node)
    }

    fn node(&self, module: u32, node: xml::NodeId) -> Element<'m> {
        // Modules are never removed, so their numbers are valid indexes.
        let found = self.modules.get(module as usize).or(self.modules.first());
        Element::new(found.map(|m| &m.document), module, node)
    }

    /// Adds an instruction.
    fn emit(&mut self, op: Op, element: Element<'_>) -> Pc {
        let pc = self.here();
        self.program.code.push(op);
        self.program.places.push(element.place());
        pc
    }

    /// Returns the address of the next instruction.
    fn here(&self) -> Pc {
        Pc::try_from(self.program.code.len()).unwrap_or(Pc::MAX)
    }

    /// Replaces an instruction, once its jump target is known.
    fn patch(&mut self, pc: Pc, op: Op) {
        if let Some(place) = self.program.code.get_mut(pc as usize) {
            *place = op;
        }
    }

    fn at(&self, element: Element<'_>) -> At {
        let place = element.place();
        let file = self.modules.get(place.module as usize).map(|m| m.uri.clone());
        // Harmless: each number belongs to a module.
        At { file: file.unwrap_or_default(), line: place.line, column: place.column }
    }

    /// Records the error for an undefined name and returns its index. A run fails when it reaches the reference.
    fn missing(&self, error: Error) -> u32 {
        let missing = &mut self.notes.borrow_mut().missing;
        missing.push(error);
        u32::try_from(missing.len() - 1).unwrap_or(u32::MAX)
    }

    /// Returns the error for a rule of XSLT that an element violates.
    fn wrong(&self, element: Element<'_>, what: impl Into<Box<str>>) -> Error {
        Error::new(ErrorKind::Static(what.into()), self.at(element))
    }
}
