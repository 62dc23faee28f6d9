//! Streaming: stylesheets that need no tree of their source run on the events of a parser, with the same result as on the machine.
//!
//! Decides which stylesheets can be streamed ([`lower()`]), compiles their templates to acts, and runs these ([`events`]). The template for
//! a node is chosen at the start of the node, by the same rules as in the machine. It descends into the content at most once.

mod acts;
mod around;
mod events;
mod frame;
mod lower;
mod memory;
mod passage;
mod result_cache;
mod text;

use xpath::{StreamNode, StreamStep, StreamString, StreamTest};

use crate::program::{Literal, Pc, SourceName};
use passage::Passage;

pub(crate) use events::Stream;
pub(crate) use lower::lower;
pub(crate) use result_cache::ResultCache;

/// A program whose templates run on events.
#[derive(Debug, Default)]
pub(crate) struct StreamProgram {
    code: Vec<Act>,
    /// For each act, the instruction it was compiled from.
    places: Vec<Pc>,
    descents: Vec<Descent>,
    /// Bodies by template number.
    bodies: Vec<Body>,
    /// For each mode, the actions for elements whose name alone determines the template.
    sure: Vec<ElementActions>,
    /// Whether some template may write an attribute to an element that another template started.
    lends: bool,
    /// Whether some pattern tests the ancestors of a node.
    around: bool,
    /// Whether white space may be stripped.
    strips: bool,
}

/// Start of a template's acts, by the kind of node it is applied to.
#[derive(Debug, Clone, Copy, Default)]
struct Body {
    root: Option<u32>,
    element: Option<Content>,
    leaf: Option<Leaf>,
}

/// The actions of a mode for elements, by name. A name has an action only if the first rule for it matches all elements of that name.
#[derive(Debug, Default)]
struct ElementActions {
    /// In the order of the mode's names.
    named: Vec<Option<Content>>,
    others: Option<Content>,
}

/// Action of a template for an element.
#[derive(Debug, Clone, Copy)]
enum Content {
    Acts(u32),
    /// Copies the element, and applies templates to its content, as the identity template does.
    Pass {
        /// Applies templates of this mode to all attributes.
        attributes: Option<u32>,
        descent: u32,
    },
    /// Writes a literal element, and applies templates to the content inside it.
    Rename {
        /// The act that starts it.
        start: u32,
        /// Applies templates of this mode to all attributes.
        attributes: Option<u32>,
        descent: u32,
    },
}

/// Action of a template for a node without content.
#[derive(Debug, Clone, Copy)]
enum Leaf {
    Nothing,
    Copy,
    Acts(u32),
}

/// A descent into the content of a node: the selection of nodes, and the action for them.
#[derive(Debug, Clone)]
struct Descent {
    steps: Vec<Step>,
    then: Then,
    /// Whether it selects all children and nothing else.
    whole: bool,
    /// How all texts are handled, if one rule matches them all.
    texts: Option<Passage>,
}

/// Selects children that any of the alternatives accepts.
#[derive(Debug, Clone)]
struct Step {
    /// Whether all children are selected.
    any: bool,
    asked: Vec<StreamStep>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Applies templates of a mode.
    Apply(u32),
    Copy,
    /// Writes the text of the first node.
    Value {
        raw: bool,
    },
    /// Writes all text in the nodes.
    Texts {
        raw: bool,
    },
}

/// Address of the act that ends the acts for a node. Every program begins with this act.
const DONE: u32 = 0;
/// Address of the acts, also fixed, that end the element started in the result for a node.
const COPY_END: u32 = 1;

/// An instruction that needs only what the parser reports.
#[derive(Debug)]
enum Act {
    Done,
    Text {
        text: Box<str>,
        raw: bool,
    },
    Say {
        what: TextTemplate,
        raw: bool,
    },
    Start(Box<Literal>),
    StartMade(Box<StreamedName>),
    End,
    Attribute(Box<(SourceName, TextTemplate)>),
    MadeAttribute(Box<(StreamedName, TextTemplate)>),
    Comment(TextTemplate),
    /// Target and text.
    Instruction(Box<[TextTemplate; 2]>),
    CopyStart,
    /// Starts a copy of the node together with its subtree.
    CopyWholeStart,
    CopyLeaf,
    CopyAttributes(Box<[StreamStep]>),
    /// Applies templates of a mode to the attributes that any of the steps accepts.
    ApplyAttributes(Box<[StreamStep]>, u32),
    /// Descends into the content. The following acts run when the node ends.
    Descend(u32),
    Unless(StreamTest, u32),
    Jump(u32),
}

/// Text composed of parts.
type TextTemplate = Box<[Say]>;

#[derive(Debug)]
enum Say {
    Text(Box<str>),
    Of(StreamString),
}

/// A computed name.
#[derive(Debug)]
struct StreamedName {
    name: TextTemplate,
    namespace: Option<TextTemplate>,
    /// Index in `Program::scopes`.
    scope: u32,
}

impl StreamProgram {
    /// Returns the bodies of a template. A template that is never applied has none.
    fn body(&self, template: u32) -> Body {
        // Harmless: a template that is never applied has an empty body.
        self.bodies.get(template as usize).copied().unwrap_or_default()
    }

    /// Returns the action for an element by its name's index, if no pattern needs to be tested.
    #[inline]
    fn sure(&self, mode: u32, place: Option<usize>) -> Option<Content> {
        let sure = self.sure.get(mode as usize)?;
        match place {
            Some(place) => sure.named.get(place).and_then(|sure| *sure),
            None => sure.others,
        }
    }
}

impl Descent {
    fn new(steps: Vec<Step>, then: Then) -> Descent {
        let whole = matches!(steps.as_slice(), [step] if step.any);
        Descent { steps, then, whole, texts: None }
    }

    fn accepts(&self, step: u32, told: &StreamNode<'_>) -> bool {
        self.steps.get(step as usize).is_some_and(|step| step.accepts(told))
    }

    fn is_last(&self, step: u32) -> bool {
        step as usize + 1 >= self.steps.len()
    }
}

impl Step {
    fn accepts(&self, told: &StreamNode<'_>) -> bool {
        self.any || self.asked.iter().any(|asked| asked.accepts(told))
    }
}
