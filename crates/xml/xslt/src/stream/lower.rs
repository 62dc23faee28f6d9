//! Decides which stylesheets can be streamed, and compiles their templates to acts.
//!
//! A template is suitable if it needs only what is known before the content of its node or at its end, and if it descends into the content
//! at most once. Every reachable template must be suitable.

#![allow(clippy::wildcard_enum_match_arm, reason = "all instructions but a few need a tree")]

use xpath::{Expr, Needs, NodeFacts, Selection, StreamStep};

use super::passage::Passage;
use super::{
    Act, Body, Content, DONE, Descent, ElementActions, Leaf, Say, Step, StreamProgram,
    StreamedName, TextTemplate, Then,
};
use crate::program::{Apply, Avt, ByName, Mode, Op, Part, Pc, Program, Select};

/// Maximum number of acts. Called templates are inlined, but hand-written stylesheets stay far below this.
const ACTS_MAX: usize = 10_000;

/// Maximum number of calls that are inlined into one template, including nested ones.
const CALLS_MAX: u32 = 64;

/// Kind of node to which a template is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Root,
    Element,
    /// A node without content.
    Leaf,
}

/// Compiles a program to acts. Returns `None` if the program needs a tree.
pub(crate) fn lower(program: &Program) -> Option<StreamProgram> {
    let (made, modes, leaves) = (begun(program), vec![0], Vec::new());
    let mut lowering = StreamCompiler { program, made, modes, leaves };
    lowering.template_rules(&program.modes.first()?.root, Kind::Root)?;
    let mut next = 0;
    while let Some(mode) = lowering.modes.get(next).copied() {
        lowering.mode(mode)?;
        next += 1;
    }
    lowering.settle_texts();
    lowering.made.lends = lowering.lends();
    lowering.made.sure = program.modes.iter().map(|mode| lowering.sure(mode)).collect();
    Some(lowering.made)
}

/// Returns the part that all stream programs have: the fixed acts, and the descents of the built-in rules for each mode.
fn begun(program: &Program) -> StreamProgram {
    let all = || vec![Step { any: true, asked: Vec::new() }];
    let modes = u32::try_from(program.modes.len()).unwrap_or(u32::MAX);
    let fixed = [Then::Copy, Then::Texts { raw: false }, Then::Texts { raw: true }];
    let thens = (0..modes).map(Then::Apply).chain(fixed);
    StreamProgram {
        code: vec![Act::Done, Act::End, Act::Done],
        places: vec![0; 3],
        descents: thens.map(|then| Descent::new(all(), then)).collect(),
        bodies: vec![Body::default(); program.templates.len()],
        sure: Vec::new(),
        lends: false,
        around: false,
        strips: program.spaces.iter().any(|rule| rule.strip),
    }
}

impl StreamProgram {
    /// Returns the descent into the whole content of a node.
    pub(super) fn whole(&self, then: Then) -> u32 {
        let at = self.descents.iter().position(|descent| descent.then == then);
        // Harmless: there are fewer descents than a `u32` can count.
        at.and_then(|at| u32::try_from(at).ok()).unwrap_or(0)
    }
}

struct StreamCompiler<'p> {
    program: &'p Program,
    made: StreamProgram,
    /// Modes that can be reached.
    modes: Vec<u32>,
    /// Addresses of the acts of templates for texts, comments and instructions.
    leaves: Vec<u32>,
}

/// A template being compiled for a kind of node.
struct TemplateDraft {
    kind: Kind,
    /// Whether the content of the node has been processed, so that only the name of the node is still known.
    over: bool,
    calls: u32,
}

/// A jump to an address that has not been compiled yet.
struct PendingJump {
    target: Pc,
    act: u32,
    /// Whether the content of the node has been processed before the jump.
    over: bool,
}

impl TemplateDraft {
    fn known(&self) -> NodeFacts {
        NodeFacts {
            value: self.kind == Kind::Leaf,
            attributes: self.kind != Kind::Element || !self.over,
        }
    }
}

impl StreamCompiler<'_> {
    fn mode(&mut self, mode: u32) -> Option<()> {
        let rules = self.program.modes.get(mode as usize)?;
        self.named_rules(&rules.elements, Kind::Element)?;
        self.named_rules(&rules.attributes, Kind::Leaf)?;
        for rules in [&rules.text, &rules.comment, &rules.instruction] {
            self.template_rules(rules, Kind::Leaf)?;
            for number in rules {
                let rule = self.program.rules.get(*number as usize)?;
                if let Some(Leaf::Acts(from)) = self.made.body(rule.template).leaf {
                    self.leaves.push(from);
                }
            }
        }
        Some(())
    }

    fn named_rules(&mut self, rules: &ByName, kind: Kind) -> Option<()> {
        for named in &rules.named {
            self.template_rules(&named.rules, kind)?;
        }
        self.template_rules(&rules.others, kind)
    }

    /// Compiles the templates of a list of rules, up to one that always matches.
    fn template_rules(&mut self, rules: &[u32], kind: Kind) -> Option<()> {
        for number in rules {
            let rule = self.program.rules.get(*number as usize)?;
            self.made.around |= rule.alternative.needs()? == Needs::Around;
            self.template(rule.template, kind)?;
            if rule.certain {
                break;
            }
        }
        Some(())
    }

    fn template(&mut self, number: u32, kind: Kind) -> Option<()> {
        let body = self.made.body(number);
        let known = match kind {
            Kind::Root => body.root.is_some(),
            Kind::Element => body.element.is_some(),
            Kind::Leaf => body.leaf.is_some(),
        };
        if known {
            return Some(());
        }
        let entry = self.program.templates.get(number as usize)?.entry;
        let from = self.here();
        self.block(entry.pc, &mut TemplateDraft { kind, over: false, calls: 0 })?;
        self.act(Act::Done, entry.pc)?;
        let content = self.content(from);
        let body = self.made.bodies.get_mut(number as usize)?;
        match kind {
            Kind::Root => body.root = Some(from),
            Kind::Element => body.element = Some(content),
            Kind::Leaf => {
                body.leaf = Some(match self.made.code.get(from as usize..)? {
                    [Act::Done] => Leaf::Nothing,
                    [Act::CopyLeaf, Act::Done] => Leaf::Copy,
                    _ => Leaf::Acts(from),
                });
            }
        }
        Some(())
    }

    /// Returns the action of the acts from `from` on: a known pattern, or else the acts themselves.
    fn content(&self, from: u32) -> Content {
        match self.made.code.get(from as usize..).unwrap_or_default() {
            [Act::CopyStart, Act::Descend(descent), Act::End, Act::Done] => {
                Content::Pass { attributes: None, descent: *descent }
            }
            [
                Act::CopyStart,
                Act::ApplyAttributes(asked, mode),
                Act::Descend(descent),
                Act::End,
                Act::Done,
            ] if asked.iter().any(StreamStep::is_any) => {
                Content::Pass { attributes: Some(*mode), descent: *descent }
            }
            [Act::Start(_), Act::Descend(descent), Act::End, Act::Done] => {
                Content::Rename { start: from, attributes: None, descent: *descent }
            }
            [
                Act::Start(_),
                Act::ApplyAttributes(asked, mode),
                Act::Descend(descent),
                Act::End,
                Act::Done,
            ] if asked.iter().any(StreamStep::is_any) => {
                Content::Rename { start: from, attributes: Some(*mode), descent: *descent }
            }
            _ => Content::Acts(from),
        }
    }

    /// Determines for each descent how all texts are handled, if it does not depend on the text node.
    fn settle_texts(&mut self) {
        for at in 0..self.made.descents.len() {
            let texts = self.made.descents.get(at).and_then(|descent| self.texts(descent));
            if let Some(descent) = self.made.descents.get_mut(at) {
                descent.texts = texts;
            }
        }
    }

    fn sure(&self, mode: &Mode) -> ElementActions {
        let content = |rules: &[u32]| {
            let rule = self.program.rules.get(*rules.first()? as usize)?;
            self.made.body(rule.template).element.filter(|_| rule.certain)
        };
        ElementActions {
            named: mode.elements.named.iter().map(|named| content(&named.rules)).collect(),
            others: content(&mode.elements.others),
        }
    }

    /// Returns whether some template may write an attribute before it has started an element, so that the attribute belongs to an element
    /// of another template.
    fn lends(&self) -> bool {
        // Harmless: the other bodies start an element, or write no attributes.
        let elements = self.made.bodies.iter().filter_map(|body| match body.element {
            Some(Content::Acts(from)) => Some(from),
            Some(Content::Pass { .. } | Content::Rename { .. }) | None => None,
        });
        // Harmless: a template that is not applied to the root has no acts for it.
        let roots = self.made.bodies.iter().filter_map(|body| body.root);
        elements.chain(roots).chain(self.leaves.iter().copied()).any(|from| self.lends_from(from))
    }

    /// Returns whether the acts from `from` on may write an attribute before they start an element.
    fn lends_from(&self, from: u32) -> bool {
        for act in self.made.code.get(from as usize..).unwrap_or_default() {
            match act {
                Act::Start(_)
                | Act::StartMade(_)
                | Act::CopyStart
                | Act::CopyWholeStart
                | Act::Done => return false,
                Act::Attribute(_)
                | Act::MadeAttribute(_)
                | Act::CopyAttributes(_)
                | Act::ApplyAttributes(..)
                | Act::Unless(..) => return true,
                // Harmless: the other acts write no attributes.
                _ => {}
            }
        }
        false
    }

    fn texts(&self, descent: &Descent) -> Option<Passage> {
        let mode = match descent.then {
            _ if !descent.whole => return None,
            Then::Copy => return Some(Passage::Written { raw: false }),
            Then::Value { .. } | Then::Texts { .. } => return None,
            Then::Apply(mode) => self.program.modes.get(mode as usize)?,
        };
        let Some(first) = mode.text.first() else { return Some(Passage::Written { raw: false }) };
        let rule = self.program.rules.get(*first as usize).filter(|rule| rule.certain)?;
        Some(Passage::of(self.made.body(rule.template).leaf))
    }

    fn here(&self) -> u32 {
        u32::try_from(self.made.code.len()).unwrap_or(u32::MAX)
    }

    fn act(&mut self, act: Act, pc: Pc) -> Option<u32> {
        let at = self.here();
        self.made.code.push(act);
        self.made.places.push(pc);
        (self.made.code.len() <= ACTS_MAX).then_some(at)
    }

    /// Compiles the instructions of an entry up to its end.
    fn block(&mut self, from: Pc, to: &mut TemplateDraft) -> Option<()> {
        let program = self.program;
        let mut waiting: Vec<PendingJump> = Vec::new();
        let (mut pc, mut reached) = (from, true);
        loop {
            for lands in waiting.extract_if(.., |waiting| waiting.target == pc) {
                to.over = to.over && reached || lands.over;
                reached = true;
                self.land(lands.act)?;
            }
            let op = program.code.get(pc as usize)?;
            pc = match op {
                Op::Return => return waiting.is_empty().then_some(()),
                Op::Unless(test, target) => {
                    let stream_test = test.stream_test(to.known())?;
                    let act = self.act(Act::Unless(stream_test, DONE), pc)?;
                    waiting.push(PendingJump { target: *target, act, over: to.over });
                    pc + 1
                }
                Op::Jump(target) => {
                    let act = self.act(Act::Jump(DONE), pc)?;
                    waiting.push(PendingJump { target: *target, act, over: to.over });
                    reached = false;
                    pc + 1
                }
                Op::Copy(behind) if to.kind == Kind::Leaf => {
                    self.act(Act::CopyLeaf, pc)?;
                    *behind
                }
                Op::BeginText => self.kept(pc, to)?,
                op => {
                    self.plain(op, pc, to)?;
                    pc + 1
                }
            };
        }
    }

    /// Patches a jump to lead to the current position.
    fn land(&mut self, act: u32) -> Option<()> {
        let here = self.here();
        match self.made.code.get_mut(act as usize)? {
            Act::Unless(_, target) | Act::Jump(target) => *target = here,
            _ => return None,
        }
        Some(())
    }

    /// Compiles an instruction after which execution continues with the next one.
    fn plain(&mut self, op: &Op, pc: Pc, to: &mut TemplateDraft) -> Option<()> {
        let known = to.known();
        let act = match op {
            Op::Text(text) => Act::Text { text: text.clone(), raw: false },
            Op::RawText(text) => Act::Text { text: text.clone(), raw: true },
            Op::Value(expr) => return self.value(expr, false, pc, to),
            Op::RawValue(expr) => return self.value(expr, true, pc, to),
            Op::Start(literal) => Act::Start(literal.clone()),
            Op::StartMade(made) => Act::StartMade(Box::new(made_of(made, known)?)),
            Op::End => Act::End,
            Op::Attribute(attribute) => {
                let (name, value) = &**attribute;
                Act::Attribute(Box::new((name.clone(), text_template(value, known)?)))
            }
            Op::Copy(_) | Op::EndCopy if to.kind != Kind::Element => return Some(()),
            Op::Copy(_) if to.over => return None,
            Op::Copy(_) => Act::CopyStart,
            Op::EndCopy => Act::End,
            Op::CopyOf(expr) => return self.copy_of(expr, pc, to),
            Op::Apply(apply) => return self.apply(apply, pc, to),
            Op::UseSet(set) => {
                return self.call(self.program.sets.get(*set as usize)?.pc, to);
            }
            Op::Call { template, params: 0 } => {
                return self.call(self.program.templates.get(*template as usize)?.entry.pc, to);
            }
            _ => return None,
        };
        self.act(act, pc).map(drop)
    }

    /// Inlines an entry without parameters.
    fn call(&mut self, entry: Pc, to: &mut TemplateDraft) -> Option<()> {
        to.calls += 1;
        if to.calls > CALLS_MAX { None } else { self.block(entry, to) }
    }

    /// Compiles the collection of text up to its end. Returns the address after it.
    fn kept(&mut self, pc: Pc, to: &TemplateDraft) -> Option<Pc> {
        let known = to.known();
        let mut text = Vec::new();
        let mut pc = pc + 1;
        loop {
            let act = match self.program.code.get(pc as usize)? {
                Op::Text(kept) | Op::RawText(kept) => {
                    text.push(Say::Text(kept.clone()));
                    pc += 1;
                    continue;
                }
                Op::Value(expr) | Op::RawValue(expr) => {
                    text.push(Say::Of(expr.stream_string(known)?));
                    pc += 1;
                    continue;
                }
                Op::EndAttribute(made) => {
                    Act::MadeAttribute(Box::new((made_of(made, known)?, text.into())))
                }
                Op::EndComment => Act::Comment(text.into()),
                Op::EndInstruction(target) => {
                    Act::Instruction(Box::new([text_template(target, known)?, text.into()]))
                }
                _ => return None,
            };
            self.act(act, pc)?;
            return Some(pc + 1);
        }
    }

    fn value(&mut self, expr: &Expr, raw: bool, pc: Pc, to: &mut TemplateDraft) -> Option<()> {
        if let Some(stream_string) = expr.stream_string(to.known()) {
            return self.act(Act::Say { what: [Say::Of(stream_string)].into(), raw }, pc).map(drop);
        }
        let selection = expr.selection()?;
        match (selection.itself, selection.attributes.is_empty()) {
            (true, _) => self.descend(self.made.whole(Then::Texts { raw }), pc, to),
            // The first node in document order might be an attribute.
            (false, false) => None,
            (false, true) => self.below(selection, Then::Value { raw }, pc, to),
        }
    }

    fn copy_of(&mut self, expr: &Expr, pc: Pc, to: &mut TemplateDraft) -> Option<()> {
        let Some(selection) = expr.selection() else {
            let stream_string = expr.stream_string(to.known())?;
            return self
                .act(Act::Say { what: [Say::Of(stream_string)].into(), raw: false }, pc)
                .map(drop);
        };
        let copy = self.made.whole(Then::Copy);
        match (selection.itself, to.kind) {
            (true, Kind::Leaf) => self.act(Act::CopyLeaf, pc).map(drop),
            (true, Kind::Root) => self.descend(copy, pc, to),
            (true, Kind::Element) if to.over => None,
            (true, Kind::Element) => {
                self.act(Act::CopyWholeStart, pc)?;
                let all = Selection::content(true).attributes.into();
                self.act(Act::CopyAttributes(all), pc)?;
                self.descend(copy, pc, to)?;
                self.act(Act::End, pc).map(drop)
            }
            (false, _) => {
                let attributes = selection.attributes.clone();
                self.attributes(attributes, Act::CopyAttributes, pc, to)?;
                self.below(selection, Then::Copy, pc, to)
            }
        }
    }

    fn apply(&mut self, apply: &Apply, pc: Pc, to: &mut TemplateDraft) -> Option<()> {
        let selection = match &apply.select {
            Select::Content { attributes } => Selection::content(*attributes),
            Select::Expr(expr) => expr.selection()?,
        };
        if selection.itself || !apply.sorts.is_empty() || apply.params > 0 {
            return None;
        }
        if !self.modes.contains(&apply.mode) {
            self.modes.push(apply.mode);
        }
        let by_templates = |asked| Act::ApplyAttributes(asked, apply.mode);
        self.attributes(selection.attributes.clone(), by_templates, pc, to)?;
        self.below(selection, Then::Apply(apply.mode), pc, to)
    }

    /// Compiles the handling of an element's attributes.
    fn attributes(
        &mut self,
        asked: Vec<StreamStep>,
        act: impl Fn(Box<[StreamStep]>) -> Act,
        pc: Pc,
        to: &TemplateDraft,
    ) -> Option<()> {
        match (asked.is_empty(), to.kind, to.over) {
            (true, ..) | (_, Kind::Root | Kind::Leaf, _) => Some(()),
            (false, Kind::Element, true) => None,
            (false, Kind::Element, false) => self.act(act(asked.into()), pc).map(drop),
        }
    }

    /// Compiles the handling of the nodes below.
    fn below(
        &mut self,
        found: Selection,
        then: Then,
        pc: Pc,
        to: &mut TemplateDraft,
    ) -> Option<()> {
        if found.from_root && to.kind != Kind::Root {
            return None;
        }
        if found.below.is_empty() || to.kind == Kind::Leaf {
            return Some(());
        }
        let step =
            |asked: Vec<StreamStep>| Step { any: asked.iter().any(StreamStep::is_any), asked };
        let at = u32::try_from(self.made.descents.len()).ok()?;
        let steps = found.below.into_iter().map(step).collect();
        self.made.descents.push(Descent::new(steps, then));
        self.descend(at, pc, to)
    }

    /// Adds a descent. Returns `None` if the template has one already.
    fn descend(&mut self, descent: u32, pc: Pc, to: &mut TemplateDraft) -> Option<()> {
        if to.over {
            return None;
        }
        to.over = true;
        self.act(Act::Descend(descent), pc).map(drop)
    }
}

fn made_of(made: &crate::program::ComputedName, known: NodeFacts) -> Option<StreamedName> {
    let namespace = match &made.namespace {
        Some(namespace) => Some(text_template(namespace, known)?),
        None => None,
    };
    Some(StreamedName { name: text_template(&made.name, known)?, namespace, scope: made.scope })
}

fn text_template(avt: &Avt, known: NodeFacts) -> Option<TextTemplate> {
    match avt {
        Avt::Constant(text) => Some([Say::Text(text.clone())].into()),
        Avt::Parts(parts) => parts.iter().map(|part| say(part, known)).collect(),
    }
}

fn say(part: &Part, known: NodeFacts) -> Option<Say> {
    match part {
        Part::Text(text) => Some(Say::Text(text.clone())),
        Part::Value(expr) => expr.stream_string(known).map(Say::Of),
    }
}
