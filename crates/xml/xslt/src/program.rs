//! A compiled stylesheet: a flat list of instructions, and the tables they refer to. Immutable.
//!
//! Instructions jump within the list instead of being nested, so the machine needs no recursion.

use std::collections::HashMap;
use std::sync::Arc;

use xml::Document;
use xpath::{Expr, Name, NameTest, Pattern};

use crate::decimal::DecimalFormat;
use crate::error::Error;
use crate::exslt::Function;
use crate::out::OutputSettings;

/// Address of an instruction in [`Program::code`].
pub(crate) type Pc = u32;

/// A compiled program.
#[derive(Debug, Default)]
pub(crate) struct Program {
    /// Unique among all programs.
    pub(crate) id: u64,
    pub(crate) code: Vec<Op>,
    /// For each instruction, its position in the stylesheet.
    pub(crate) places: Vec<SourcePosition>,
    pub(crate) modules: Vec<Module>,
    pub(crate) templates: Vec<Template>,
    pub(crate) rules: Vec<Rule>,
    pub(crate) modes: Vec<Mode>,
    pub(crate) globals: Vec<Global>,
    pub(crate) sets: Vec<CodeBlock>,
    /// Keys by the number of their name.
    pub(crate) keys: Vec<Vec<Key>>,
    pub(crate) key_names: HashMap<Name, u32>,
    pub(crate) formats: HashMap<Name, DecimalFormat>,
    /// Function calls by their number.
    pub(crate) calls: Vec<CallSite>,
    /// Prefixes in scope, for functions that need them at run time.
    pub(crate) scopes: Vec<Vec<(Box<str>, Box<str>)>>,
    pub(crate) functions: Vec<UserFunction>,
    pub(crate) spaces: Vec<SpaceRule>,
    pub(crate) output: OutputSettings,
    /// Errors for templates, variables and attribute sets that the stylesheet refers to but does not define.
    pub(crate) missing: Vec<Error>,
}

/// A module's text, for `document('')` and for errors.
#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) uri: Arc<str>,
    pub(crate) document: Arc<Document>,
}

/// A position in a module.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SourcePosition {
    pub(crate) module: u32,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A sequence of instructions with its own variables, up to a [`Op::Return`].
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CodeBlock {
    pub(crate) pc: Pc,
    /// Number of its variables.
    pub(crate) slots: u32,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Template {
    pub(crate) entry: CodeBlock,
    /// Whether the template is a single `xsl:copy`. For a node that cannot have content, such as text, it then only copies the node.
    pub(crate) copies: bool,
    /// The effect of the template on a root or an element, or `None` if the template does more than a [`Pass`].
    pub(crate) passes: Option<Pass>,
}

/// Optionally copies an element, and applies templates to the content of an element or a root. This is the effect of the built-in rules
/// and of the identity template.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pass {
    pub(crate) copy: bool,
    pub(crate) attributes: bool,
    pub(crate) mode: u32,
}

impl Template {
    /// Makes a template compiled to an entry of the code.
    pub(crate) fn new(entry: CodeBlock, code: &[Op]) -> Template {
        let rest = code.get(entry.pc as usize..).unwrap_or_default();
        let returns = |pc: Pc| matches!(code.get(pc as usize), Some(Op::Return));
        let passes = match rest {
            [Op::Copy(_), Op::Apply(apply), Op::EndCopy, Op::Return, ..]
                if apply.sorts.is_empty() && apply.params == 0 =>
            {
                apply.select.content().map(|attributes| Pass {
                    copy: true,
                    attributes,
                    mode: apply.mode,
                })
            }
            _ => None,
        };
        let copies = matches!(rest, [Op::Copy(behind), ..] if returns(*behind));
        Template { entry, copies, passes }
    }
}

/// A template rule for one alternative of a template's pattern.
#[derive(Debug)]
pub(crate) struct Rule {
    pub(crate) template: u32,
    pub(crate) alternative: xpath::Alternative,
    /// Whether every node that this rule is tried for, by kind and name, matches.
    pub(crate) certain: bool,
    pub(crate) precedence: u32,
    /// The lowest precedence among the imports of the rule's stylesheet. `xsl:apply-imports` searches from there up to `precedence`.
    pub(crate) imports_from: u32,
    pub(crate) priority: f64,
}

/// Rules for nodes with names, each list best first.
#[derive(Debug, Default)]
pub(crate) struct ByName {
    /// Lists by local part and namespace, each with the rules for that name and for any name, in the order of `keys`.
    pub(crate) named: Box<[NamedRules]>,
    /// The keys of their local parts, sorted. See [`key`].
    keys: Box<[u64]>,
    /// Rules for all other names.
    pub(crate) others: Box<[u32]>,
}

/// The rules for one name.
#[derive(Debug)]
pub(crate) struct NamedRules {
    pub(crate) local: Box<str>,
    pub(crate) uri: Box<str>,
    pub(crate) rules: Box<[u32]>,
}

/// Returns a number for a local part, from its first bytes and its length. Different names usually have different numbers.
#[inline]
fn key(local: &str) -> u64 {
    let bytes = local.as_bytes();
    let start = match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>(), bytes.last_chunk::<4>())
    {
        (Some(first), ..) => u64::from_le_bytes(*first),
        (None, Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        (None, ..) => bytes.iter().fold(0, |key, byte| key << 8 | u64::from(*byte)),
    };
    start ^ (bytes.len() as u64) << 56
}

impl ByName {
    pub(crate) fn new(mut named: Vec<NamedRules>, others: Box<[u32]>) -> ByName {
        named.sort_by_cached_key(|rules| key(&rules.local));
        let keys = named.iter().map(|rules| key(&rules.local)).collect();
        ByName { named: named.into(), keys, others }
    }

    /// Returns the index of a name among those with rules of their own. Names are compared only if their keys are equal.
    #[inline]
    pub(crate) fn find(&self, local: &str, uri: &str) -> Option<usize> {
        let wanted = key(local);
        let mut at = self.keys.partition_point(|known| *known < wanted);
        while self.keys.get(at) == Some(&wanted) {
            // Empty texts are not compared: on some processors, loading no bytes from a dangling address takes a hundred nanoseconds.
            let is_uri = |own: &str| own.len() == uri.len() && (uri.is_empty() || *own == *uri);
            let is = |rules: &NamedRules| is_uri(&rules.uri) && *rules.local == *local;
            if self.named.get(at).is_some_and(is) {
                return Some(at);
            }
            at += 1;
        }
        None
    }

    /// Returns the rules at an index, or those for other names.
    #[inline]
    pub(crate) fn rules(&self, place: Option<usize>) -> &[u32] {
        let named = place.and_then(|place| self.named.get(place));
        named.map_or(&self.others, |named| &named.rules)
    }
}

/// The rules of a mode by the nodes they can match, each list best first.
#[derive(Debug, Default)]
pub(crate) struct Mode {
    pub(crate) elements: ByName,
    pub(crate) attributes: ByName,
    pub(crate) text: Box<[u32]>,
    pub(crate) comment: Box<[u32]>,
    pub(crate) instruction: Box<[u32]>,
    pub(crate) root: Box<[u32]>,
    pub(crate) namespace: Box<[u32]>,
}

/// A global variable or parameter.
#[derive(Debug)]
pub(crate) struct Global {
    pub(crate) name: Name,
    pub(crate) is_param: bool,
    pub(crate) entry: CodeBlock,
    /// Globals that this one refers to. They are evaluated first, so that chains of them need no recursion.
    pub(crate) needs: Vec<u32>,
    pub(crate) place: SourcePosition,
}

#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) matches: Pattern,
    pub(crate) value: Expr,
    pub(crate) place: SourcePosition,
}

/// A function call in an expression: the function, and the position of the call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallSite {
    pub(crate) function: CalledFunction,
    pub(crate) module: u32,
    /// Index in [`Program::scopes`], if the function needs the prefixes in scope. Otherwise unused.
    pub(crate) scope: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum CalledFunction {
    /// `key()`, with the key's number if the name is a literal and declared.
    Key(Option<u32>),
    Document,
    FormatNumber,
    GenerateId,
    SystemProperty,
    ElementAvailable,
    /// `function-available()`, in a stylesheet of a later version or not.
    FunctionAvailable {
        later: bool,
    },
    UnparsedEntityUri,
    Extension(Function),
    /// A `func:function`, by its index in [`Program::functions`].
    User(u32),
    /// An expression that failed to compile in forwards-compatible mode.
    Broken,
    /// An expression with an undefined variable, by its index in [`Program::missing`].
    Missing(u32),
}

/// A `func:function`.
#[derive(Debug)]
pub(crate) struct UserFunction {
    pub(crate) name: Name,
    pub(crate) entry: CodeBlock,
    /// Names of its parameters, in order.
    pub(crate) params: Vec<u32>,
}

/// A name in `xsl:strip-space` or `xsl:preserve-space`. The first rule that matches decides.
#[derive(Debug)]
pub(crate) struct SpaceRule {
    pub(crate) test: NameTest,
    pub(crate) strip: bool,
    pub(crate) precedence: u32,
    pub(crate) priority: f64,
}

/// A name as written in the stylesheet.
#[derive(Debug, Clone, Default)]
pub(crate) struct SourceName {
    pub(crate) prefix: Box<str>,
    pub(crate) local: Box<str>,
    pub(crate) uri: Box<str>,
}

/// An attribute value template.
#[derive(Debug)]
pub(crate) enum Avt {
    Constant(Box<str>),
    Parts(Box<[Part]>),
}

#[derive(Debug)]
pub(crate) enum Part {
    Text(Box<str>),
    Value(Expr),
}

/// A literal result element.
#[derive(Debug, Clone)]
pub(crate) struct Literal {
    pub(crate) name: SourceName,
    pub(crate) namespaces: Box<[(Box<str>, Box<str>)]>,
    /// Number of `namespaces`, counted from the first, that libxslt adds to the element.
    pub(crate) near: usize,
}

impl Literal {
    /// Returns the namespaces. If `lean`, returns only those that libxslt adds to the element.
    #[inline]
    pub(crate) fn namespaces(&self, lean: bool) -> &[(Box<str>, Box<str>)] {
        if lean { self.namespaces.get(..self.near).unwrap_or_default() } else { &self.namespaces }
    }
}

/// Computed name of an `xsl:element` or `xsl:attribute`.
#[derive(Debug)]
pub(crate) struct ComputedName {
    pub(crate) name: Avt,
    pub(crate) namespace: Option<Avt>,
    /// Index in [`Program::scopes`].
    pub(crate) scope: u32,
}

#[derive(Debug)]
pub(crate) struct SortKey {
    pub(crate) value: Expr,
    pub(crate) order: Option<Avt>,
    pub(crate) data_type: Option<Avt>,
    pub(crate) case_order: Option<Avt>,
    pub(crate) lang: Option<Avt>,
}

#[derive(Debug)]
pub(crate) struct ForEach {
    pub(crate) select: Expr,
    pub(crate) sorts: Box<[SortKey]>,
    /// The address after the loop.
    pub(crate) end: Pc,
}

/// The nodes to which templates are applied.
#[derive(Debug)]
pub(crate) enum Select {
    /// The children, preceded by the attributes if requested. Nearly all stylesheets use this, and it needs no expression.
    Content {
        attributes: bool,
    },
    Expr(Expr),
}

impl Select {
    /// If the selection is content, returns whether it includes attributes.
    pub(crate) fn content(&self) -> Option<bool> {
        match self {
            Select::Content { attributes } => Some(*attributes),
            Select::Expr(_) => None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Apply {
    pub(crate) select: Select,
    pub(crate) mode: u32,
    pub(crate) sorts: Box<[SortKey]>,
    /// Number of its parameters on the stack.
    pub(crate) params: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    Single,
    Multiple,
    Any,
}

#[derive(Debug)]
pub(crate) struct Numbering {
    pub(crate) value: Option<Expr>,
    pub(crate) level: Level,
    pub(crate) count: Option<Pattern>,
    pub(crate) from: Option<Pattern>,
    pub(crate) format: Avt,
    pub(crate) grouping_separator: Option<Avt>,
    pub(crate) grouping_size: Option<Avt>,
}

/// Destination of a result tree fragment or a value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Dest {
    /// A variable of the running entry.
    Local(u32),
    /// A parameter for the next call, by the number of its name.
    Param(u32),
    /// The result of the entry: the value of a global, or of a function.
    Result,
}

/// One instruction.
#[derive(Debug)]
pub(crate) enum Op {
    /// Continues with the next node of the topmost apply frame. This is the first instruction of the code.
    NextNode,
    /// Ends an entry.
    Return,
    Jump(Pc),
    /// Continues if the expression is true, otherwise jumps.
    Unless(Expr, Pc),
    Text(Box<str>),
    RawText(Box<str>),
    Value(Expr),
    RawValue(Expr),
    Start(Box<Literal>),
    StartMade(Box<ComputedName>),
    End,
    /// An attribute with a constant name.
    Attribute(Box<(SourceName, Avt)>),
    /// Begins to collect text instead of writing it.
    BeginText,
    /// Turns the collected text into an attribute.
    EndAttribute(Box<ComputedName>),
    EndComment,
    /// Turns the collected text into a namespace node.
    EndNamespace(Avt),
    EndInstruction(Avt),
    EndMessage {
        terminate: bool,
    },
    /// Begins a result tree fragment.
    BeginTree,
    EndTree(Dest),
    Set(Dest, Expr),
    /// Stores the parameter with this name and jumps to `otherwise`. If it was not passed, continues with the code for the default.
    Param {
        slot: u32,
        name: u32,
        otherwise: Pc,
    },
    /// Like `Param`, for a global parameter, with the caller's values.
    GlobalParam {
        number: u32,
        otherwise: Pc,
    },
    /// Sets the destination to an empty string.
    SetEmpty(Dest),
    UseSet(u32),
    Copy(Pc),
    EndCopy,
    CopyOf(Expr),
    ForEach(Box<ForEach>),
    Next,
    Apply(Box<Apply>),
    ApplyImports,
    Call {
        template: u32,
        params: u32,
    },
    Number(Box<Numbering>),
    /// An error when it is executed.
    Fail(Box<str>),
}

/// The bit that distinguishes a global's number from a local's.
pub(crate) const GLOBAL: u32 = 1 << 31;
