//! The machine: runs a program on documents and writes the result.
//!
//! It has its own stack of frames, so that templates may nest as deep as the budget allows, whatever the size of the thread's stack. Only
//! global variables and user-defined functions, which expressions use, run recursively.

mod copy;
mod dispatch;
mod documents;
mod frames;
mod functions;
mod host;
mod keys;
pub(crate) mod made;
mod memory;
mod number;
mod sort;
pub(crate) mod spaces;
mod step;

use std::collections::HashMap;
use std::rc::Rc;

use xpath::{Budget, DocId, DocumentSet, Evaluation, Expr, Focus, Node, Value};

use crate::error::{At, Error, ErrorKind};
use crate::exslt::FunctionInputs;
use crate::limits::Budgets;
use crate::out::{Composer, Target};
use crate::program::{Avt, CodeBlock, Part, Pc, Program, SourcePosition};
use crate::resolver::Resolver;
use memory::Memory;

/// Return address of an entry that was started from outside.
const HALT: Pc = Pc::MAX;

/// Address of the instruction that continues with the nodes of an apply frame.
const NEXT_NODE: Pc = 0;

/// Maximum nesting of runs. Each takes some kilobytes of the thread's stack.
const NESTED_MAX: u32 = 40;

/// The documents and the remaining budget. The outermost run owns its set of documents and may truncate it.
pub(crate) struct Reach<'w> {
    pub(crate) documents: DocumentsHandle<'w>,
    pub(crate) budget: &'w mut Budget,
}

/// A set of documents: owned, or lent by an expression.
pub(crate) enum DocumentsHandle<'w> {
    Own(&'w mut DocumentSet),
    Lent(&'w DocumentSet),
}

impl DocumentsHandle<'_> {
    #[inline]
    pub(crate) fn get(&self) -> &DocumentSet {
        match self {
            DocumentsHandle::Own(documents) => documents,
            DocumentsHandle::Lent(documents) => documents,
        }
    }
}

/// The inputs of a transformation, besides the documents.
pub(crate) struct RunInputs<'s> {
    pub(crate) program: &'s Program,
    pub(crate) resolver: &'s dyn Resolver,
    pub(crate) budgets: &'s Budgets,
    /// The address of the source, for `document()`.
    pub(crate) base: &'s str,
    pub(crate) inputs: FunctionInputs,
    /// Whether to omit namespaces that libxslt does not copy; see [`crate::Style::Canonical`].
    pub(crate) lean: bool,
    /// Whether numbers and sort orders are those of libxslt.
    pub(crate) libxslt: bool,
}

/// State of a global variable.
#[derive(Debug, Clone)]
enum State {
    Fresh,
    /// Under evaluation. A request for it means that it depends on itself.
    Busy,
    Done(Value),
}

/// Registers of the machine, apart from the stacks.
#[derive(Debug, Clone, Copy)]
struct Registers {
    pc: Pc,
    focus: Focus,
    /// Index of the running entry's first variable.
    base: u32,
    /// Range of the entry's parameters on the parameter stack.
    params: (u32, u32),
    /// The rule that selected the running template, for `xsl:apply-imports`.
    rule: Option<u32>,
    mode: u32,
}

/// A running transformation.
pub(crate) struct Machine<'s> {
    given: RunInputs<'s>,
    now: Registers,
    memory: Box<Memory>,
    /// The result, followed by the nested fragments and texts under construction.
    out: Vec<Composer>,
    /// Result of the last entry.
    result: Value,
    keys: HashMap<(u32, DocId), keys::Index>,
    documents: documents::Documents,
    messages: Vec<String>,
    /// The error of a variable, function or key that an expression requested. It replaces the error that the expression then returns.
    failed: Option<Error>,
    nested: u32,
    /// Documents with smaller numbers are kept when variables go out of scope.
    pinned: u32,
    /// Nodes and bytes of finished fragments.
    spent: (u64, u64),
    /// Number of nodes that the innermost of `out` may have.
    nodes_left: u64,
    /// Number of bytes that the innermost of `out` may have.
    bytes_left: u64,
}

impl<'s> Machine<'s> {
    pub(crate) fn new(given: RunInputs<'s>, root: Node, out: Composer) -> Machine<'s> {
        let mut memory = Memory::take();
        let mut outs = std::mem::take(&mut memory.out);
        outs.push(out);
        memory.globals.resize(given.program.globals.len(), State::Fresh);
        Machine {
            now: Registers {
                pc: HALT,
                focus: Focus::of(root),
                base: 0,
                params: (0, 0),
                rule: None,
                mode: 0,
            },
            memory,
            out: outs,
            result: Value::Boolean(false),
            keys: HashMap::new(),
            documents: documents::Documents::default(),
            messages: Vec::new(),
            failed: None,
            nested: 0,
            pinned: 1,
            spent: (0, 0),
            nodes_left: given.budgets.nodes_max,
            bytes_left: given.budgets.output_bytes_max,
            given,
        }
    }

    /// Sets a global parameter, if the stylesheet declares one with that name.
    pub(crate) fn set_parameter(&mut self, name: &xpath::Name, value: Value) {
        let globals = &self.given.program.globals;
        let at = globals.iter().position(|global| global.is_param && global.name == *name);
        if let Some(state) = at.and_then(|at| self.memory.globals.get_mut(at)) {
            *state = State::Done(value);
        }
    }

    /// Transforms the document at `root`.
    pub(crate) fn transform(&mut self, root: Node, reach: &mut Reach<'_>) -> Result<(), Error> {
        let documents = reach.documents.get();
        self.memory.lists.begin(self.given.program, documents.of(root));
        self.pinned = documents.len();
        let start = self.memory.nodes.len();
        self.memory.nodes.push(root);
        self.push_apply(start, 0, HALT, self.params_end(), false)?;
        self.now.pc = NEXT_NODE;
        self.run(reach)
    }

    /// Returns the composer with the result, and the messages.
    pub(crate) fn finish(self) -> (Option<Composer>, Vec<String>) {
        let Machine { mut memory, mut out, messages, .. } = self;
        // Harmless: incomplete fragments end with their run.
        out.truncate(1);
        let result = out.pop();
        memory.out = out;
        memory.give();
        (result, messages)
    }

    /// Runs instructions until an entry returns to [`HALT`].
    fn run(&mut self, reach: &mut Reach<'_>) -> Result<(), Error> {
        let program = self.given.program;
        while self.now.pc != HALT {
            let pc = self.now.pc;
            let Some(op) = program.code.get(pc as usize) else { break };
            self.now.pc = pc + 1;
            let done = self.step(op, reach);
            if let Err(mut error) = done {
                if error.at.line == 0 {
                    error.at = self.at(program.places.get(pc as usize).copied());
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Runs an entry to its end and returns its result. Afterwards restores the registers.
    fn run_entry(
        &mut self,
        entry: CodeBlock,
        focus: Focus,
        arguments: Vec<(u32, Value)>,
        reach: &mut Reach<'_>,
    ) -> Result<Value, Error> {
        if self.nested >= NESTED_MAX {
            let at = At::default();
            return Err(Error::limit("nested variables and functions", NESTED_MAX.into(), at));
        }
        self.nested += 1;
        let before = self.now;
        let pinned = std::mem::replace(&mut self.pinned, u32::MAX);
        self.result = Value::Boolean(false);
        let open = self.out.len();
        let start = self.params_end();
        self.memory.params.extend(arguments);
        self.now.pc = HALT;
        self.now.rule = None;
        let done = self.enter(entry, (start, self.params_end()), None).and_then(|()| {
            self.now.focus = focus;
            self.run(reach)
        });
        // Harmless: the parameters of a template end with it.
        self.memory.params.truncate(start as usize);
        // Harmless: the result of a function may be inside a fragment, which is then incomplete and ends with the function.
        self.out.truncate(open);
        self.allow();
        self.now = before;
        // Documents created in the run may be part of its result.
        self.pinned = pinned.max(reach.documents.get().len());
        self.nested -= 1;
        done?;
        Ok(std::mem::replace(&mut self.result, Value::Boolean(false)))
    }

    /// Makes the context in which an expression is evaluated.
    #[inline]
    fn evaluation<'a>(&'a mut self, reach: &'a mut Reach<'_>) -> Evaluation<'a> {
        let focus = self.now.focus;
        Evaluation { documents: reach.documents.get(), focus, host: self, budget: reach.budget }
    }

    /// Converts the error of an expression, or returns the stored error that caused it.
    fn fault(&mut self, error: xpath::Error) -> Error {
        self.fault_kind(error.kind)
    }

    fn fault_kind(&mut self, kind: xpath::ErrorKind) -> Error {
        if let Some(error) = self.failed.take() {
            return error;
        }
        if let xpath::ErrorKind::Limit { name, max } = kind {
            return Error::limit(name, max, At::default());
        }
        dynamic(kind.to_string())
    }

    fn value(&mut self, expr: &Expr, reach: &mut Reach<'_>) -> Result<Value, Error> {
        expr.value(&mut self.evaluation(reach)).map_err(|error| self.fault(error))
    }

    fn boolean(&mut self, expr: &Expr, reach: &mut Reach<'_>) -> Result<bool, Error> {
        expr.boolean(&mut self.evaluation(reach)).map_err(|error| self.fault(error))
    }

    fn nodes(&mut self, expr: &Expr, reach: &mut Reach<'_>) -> Result<Vec<Node>, Error> {
        expr.nodes(&mut self.evaluation(reach)).map_err(|error| self.fault(error))
    }

    fn write(
        &mut self,
        expr: &Expr,
        reach: &mut Reach<'_>,
        text: &mut String,
    ) -> Result<(), Error> {
        expr.write(&mut self.evaluation(reach), text).map_err(|error| self.fault(error))
    }

    /// Evaluates an attribute value template and appends the text.
    fn write_avt(
        &mut self,
        avt: &Avt,
        reach: &mut Reach<'_>,
        text: &mut String,
    ) -> Result<(), Error> {
        match avt {
            Avt::Constant(constant) => text.push_str(constant),
            Avt::Parts(parts) => {
                for part in parts {
                    match part {
                        Part::Text(constant) => text.push_str(constant),
                        Part::Value(expr) => self.write(expr, reach, text)?,
                    }
                }
            }
        }
        Ok(())
    }

    fn avt(&mut self, avt: &Avt, reach: &mut Reach<'_>) -> Result<String, Error> {
        let mut text = String::new();
        self.write_avt(avt, reach, &mut text)?;
        Ok(text)
    }

    /// Evaluates an optional template; empty if it is absent.
    fn avt_or_empty(&mut self, avt: Option<&Avt>, reach: &mut Reach<'_>) -> Result<String, Error> {
        avt.map_or(Ok(String::new()), |avt| self.avt(avt, reach))
    }

    fn at(&self, place: Option<SourcePosition>) -> At {
        // Harmless: an error without a position is reported without one.
        let place = place.unwrap_or_default();
        let module = self.given.program.modules.get(place.module as usize);
        // Harmless: each number belongs to a module.
        let file = module.map(|module| module.uri.clone()).unwrap_or_default();
        At { file, line: place.line, column: place.column }
    }

    fn params_end(&self) -> u32 {
        u32::try_from(self.memory.params.len()).unwrap_or(u32::MAX)
    }

    /// Returns the composer that is currently written to.
    #[inline]
    fn top(&mut self) -> Result<&mut Composer, Error> {
        self.out.last_mut().ok_or_else(|| dynamic("nothing is being written"))
    }

    /// Begins a nested result.
    fn begin(&mut self, target: Target) {
        self.out.push(Composer::new(target));
        self.allow();
    }

    /// Ends the innermost result.
    fn end(&mut self) -> Option<Composer> {
        let composer = self.out.pop();
        self.allow();
        composer
    }

    /// Recomputes the limits of the innermost result from the budgets.
    fn allow(&mut self) {
        let budgets = self.given.budgets;
        let (mut nodes, mut bytes) = self.spent;
        for composer in self.out.iter().rev().skip(1) {
            nodes += composer.nodes();
            bytes += composer.bytes();
        }
        self.nodes_left = budgets.nodes_max.saturating_sub(nodes);
        self.bytes_left = budgets.output_bytes_max.saturating_sub(bytes);
    }

    /// Checks the result against the limits.
    #[inline]
    fn check_spent(&self) -> Result<(), Error> {
        match self.out.last() {
            Some(out) if out.is_over(self.nodes_left, self.bytes_left) => {
                Err(out.over(self.nodes_left, self.bytes_left, self.given.budgets))
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// Creates an error of the run. Code that knows the instruction adds the position.
fn dynamic(what: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::Dynamic(what.into()), At::default())
}

/// Returns an empty node-set.
fn no_nodes() -> Value {
    Value::Nodes(Rc::new([]))
}
