//! Stylesheets that need no tree of their source: run on a parser's events, with the same result as the machine gives.
//!
//! Owns which stylesheets those are ([`lower`]), what their templates come to, and the run itself ([`events`]). A node's
//! template is chosen when the node begins, by the rules the machine has, and goes into what is in the node once at most.

mod acts;
mod around;
mod events;
mod known;
mod lower;
mod memory;
mod text;

use xpath::{Asked, Question, Saying, Told};

use crate::program::{Literal, Named, Pc};
use text::Passage;

pub(crate) use events::Stream;
pub(crate) use known::Known;
pub(crate) use lower::lower;

/// A program whose templates run on events.
#[derive(Debug, Default)]
pub(crate) struct Streamed {
    code: Vec<Act>,
    /// For each act the instruction it came from.
    places: Vec<Pc>,
    descents: Vec<Descent>,
    /// By the number of the template.
    bodies: Vec<Body>,
    /// By mode, for elements of each name.
    sure: Vec<Sure>,
    /// Some template may write an attribute for an element that another one started.
    lends: bool,
    /// Some pattern looks at what stands around a node.
    around: bool,
    /// White space may have to go.
    strips: bool,
}

/// Where a template's acts begin, by what it is applied to.
#[derive(Debug, Clone, Copy, Default)]
struct Body {
    root: Option<u32>,
    element: Option<Content>,
    leaf: Option<Leaf>,
}

/// What is done with elements where the first rule of their name is for all of them.
#[derive(Debug, Default)]
struct Sure {
    /// In the order of the mode's names.
    named: Vec<Option<Content>>,
    others: Option<Content>,
}

/// What a template does with an element.
#[derive(Debug, Clone, Copy)]
enum Content {
    Acts(u32),
    /// It is copied, and templates are applied to what is in it: what the commonest template of all does.
    Pass {
        /// To all of them, by the templates of a mode.
        attributes: Option<u32>,
        descent: u32,
    },
}

/// What a template does with a node that has no content.
#[derive(Debug, Clone, Copy)]
enum Leaf {
    Nothing,
    Copy,
    Acts(u32),
}

/// Into the content of a node: which nodes are found there, and what is done with them.
#[derive(Debug, Clone)]
struct Descent {
    steps: Vec<Step>,
    then: Then,
    /// All children are found, and no others.
    whole: bool,
    /// What is done with any text, where one rule is for all.
    texts: Option<Passage>,
}

/// Children that any of the alternatives accepts.
#[derive(Debug, Clone)]
struct Step {
    /// All of them.
    any: bool,
    asked: Vec<Asked>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Templates of a mode are applied.
    Apply(u32),
    Copy,
    /// The text of the first one is written.
    Value {
        raw: bool,
    },
    /// All text in it is written.
    Texts {
        raw: bool,
    },
}

/// The acts every program begins with: one to end, and the rest of an element that is copied.
const DONE: u32 = 0;
const COPY_END: u32 = 1;

/// An instruction that what a parser tells suffices for.
#[derive(Debug)]
enum Act {
    Done,
    Text {
        text: Box<str>,
        raw: bool,
    },
    Say {
        what: Says,
        raw: bool,
    },
    Start(Box<Literal>),
    StartMade(Box<Made>),
    End,
    Attribute(Box<(Named, Says)>),
    MadeAttribute(Box<(Made, Says)>),
    Comment(Says),
    /// Target and text.
    Instruction(Box<[Says; 2]>),
    CopyStart,
    /// Of a copy with all that is in it.
    CopyWholeStart,
    CopyLeaf,
    CopyAttributes(Box<[Asked]>),
    /// By the templates of a mode.
    ApplyAttributes(Box<[Asked]>, u32),
    /// Goes on behind when the node ends.
    Descend(u32),
    Unless(Question, u32),
    Jump(u32),
}

/// Text that is put together.
type Says = Box<[Say]>;

#[derive(Debug)]
enum Say {
    Text(Box<str>),
    Of(Saying),
}

/// A name that is made in the run.
#[derive(Debug)]
struct Made {
    name: Says,
    namespace: Option<Says>,
    /// In `Program::scopes`.
    scope: u32,
}

impl Streamed {
    /// What a template is for a kind of node; nothing for a kind it is never applied to.
    fn body(&self, template: u32) -> Body {
        self.bodies.get(template as usize).copied().unwrap_or_default()
    }

    /// What is done with an element whose name has that place, if no rule has to be asked.
    #[inline]
    fn sure(&self, mode: u32, place: Option<usize>) -> Option<Content> {
        let sure = self.sure.get(mode as usize)?;
        match place {
            Some(place) => sure.named.get(place).copied().flatten(),
            None => sure.others,
        }
    }
}

impl Descent {
    fn new(steps: Vec<Step>, then: Then) -> Descent {
        let whole = matches!(steps.as_slice(), [step] if step.any);
        Descent { steps, then, whole, texts: None }
    }

    fn accepts(&self, step: u32, told: &Told<'_>) -> bool {
        self.steps.get(step as usize).is_some_and(|step| step.accepts(told))
    }

    fn is_last(&self, step: u32) -> bool {
        step as usize + 1 >= self.steps.len()
    }
}

impl Step {
    fn accepts(&self, told: &Told<'_>) -> bool {
        self.any || self.asked.iter().any(|asked| asked.accepts(told))
    }
}
