//! Which template a node goes to: the rules of a mode, then the built-in ones (XSLT 1.0, 5).

use xpath::{DocId, NameTest, Node, NodeKind, Shape};

use super::{Machine, NEXT_NODE, Reach, dynamic};
use crate::error::Error;
use crate::program::{ByName, Op, Pc, Program, Rule};

/// The rules for each name of the first document, found once for a name and mode.
#[derive(Debug)]
pub(super) struct Lists<'s> {
    program: &'s Program,
    /// By mode, elements before attributes, then by name.
    known: Vec<Vec<Option<&'s [u32]>>>,
}

impl<'s> Lists<'s> {
    pub(super) fn new(program: &'s Program) -> Lists<'s> {
        Lists { program, known: Vec::new() }
    }

    /// The rules that may match a node, best first.
    fn of(&mut self, node: Node, kind: NodeKind, mode: u32, reach: &Reach<'_>) -> &'s [u32] {
        let Some(rules) = self.program.modes.get(mode as usize) else { return &[] };
        let place = 2 * mode as usize;
        match kind {
            NodeKind::Element => {
                self.named(node, (&rules.elements, &rules.any_element), place, reach)
            }
            NodeKind::Attribute => {
                self.named(node, (&rules.attributes, &rules.any_attribute), place + 1, reach)
            }
            NodeKind::Text => &rules.text,
            NodeKind::Comment => &rules.comment,
            NodeKind::Instruction => &rules.instruction,
            NodeKind::Root => &rules.root,
            NodeKind::Namespace => &rules.namespace,
        }
    }

    fn named(
        &mut self,
        node: Node,
        rules: (&'s ByName, &'s [u32]),
        place: usize,
        reach: &Reach<'_>,
    ) -> &'s [u32] {
        let document = reach.world.get().of(node);
        let find = || {
            let name = document.name(node.id);
            named(rules.0, name.local, name.namespace.uri, rules.1)
        };
        if node.doc != DocId(0) {
            return find();
        }
        if self.known.len() <= place {
            self.known.resize_with(place + 1, Vec::new);
        }
        let Some(names) = self.known.get_mut(place) else { return find() };
        if names.is_empty() {
            names.resize(document.names_len(), None);
        }
        match names.get_mut(document.name_id(node.id).0 as usize) {
            Some(place) => place.get_or_insert_with(find),
            None => find(),
        }
    }
}

fn named<'s>(lists: &'s ByName, local: &str, uri: &str, otherwise: &'s [u32]) -> &'s [u32] {
    let lists = lists.get(local).map(Vec::as_slice).unwrap_or_default();
    lists.iter().find(|(known, _)| **known == *uri).map_or(otherwise, |(_, list)| list)
}

/// Whether being in a list of the node's kind and name is all a rule asks.
fn is_certain(rule: &Rule) -> bool {
    let unchecked = match &rule.alternative.shape {
        Shape::Element(NameTest::Namespace(_)) | Shape::Attribute(NameTest::Namespace(_)) => true,
        Shape::Instruction(target) => target.is_some(),
        Shape::Element(_)
        | Shape::Attribute(_)
        | Shape::Root
        | Shape::Text
        | Shape::Comment
        | Shape::Child
        | Shape::Any => false,
    };
    rule.alternative.settled && !unchecked
}

fn is_leaf(kind: NodeKind) -> bool {
    match kind {
        NodeKind::Root | NodeKind::Element => false,
        NodeKind::Attribute
        | NodeKind::Text
        | NodeKind::Comment
        | NodeKind::Instruction
        | NodeKind::Namespace => true,
    }
}

impl<'s> Machine<'s> {
    /// Goes on with the nodes of the topmost apply frame.
    pub(super) fn apply_next(&mut self, reach: &mut Reach<'_>) -> Result<(), Error> {
        while let Some(params) = self.next_node()? {
            if self.start_rule(None, params, reach)? {
                return Ok(());
            }
            if let Err(kind) = reach.budget.charge(1) {
                return Err(self.fault_kind(kind));
            }
        }
        Ok(())
    }

    /// `xsl:apply-imports` (XSLT 1.0, 5.6).
    pub(super) fn apply_imports(&mut self, reach: &mut Reach<'_>) -> Result<(), Error> {
        let Some(rule) = self.now.rule else {
            return Err(dynamic("xsl:apply-imports where no template rule is running"));
        };
        // A frame of its own, so that the built-in rules have somewhere to return to.
        let mut nodes = self.spare_nodes();
        nodes.push(self.now.focus.node);
        let focus = self.now.focus;
        let params = self.params_end();
        self.push_apply(nodes, self.now.mode, self.now.pc, params)?;
        self.now.pc = NEXT_NODE;
        let _params = self.next_node()?;
        self.now.focus = focus;
        self.start_rule(Some(rule), (params, params), reach).map(drop)
    }

    /// Starts the rule for the focus. False: a built-in rule did all there was to do.
    fn start_rule(
        &mut self,
        importer: Option<u32>,
        params: (u32, u32),
        reach: &mut Reach<'_>,
    ) -> Result<bool, Error> {
        let node = self.now.focus.node;
        let kind = reach.world.get().kind(node);
        if let Some(number) = self.find_rule(node, kind, importer, reach)? {
            let program = self.given.program;
            let template = program.rules.get(number as usize).map(|rule| rule.template);
            let template = template.and_then(|number| program.templates.get(number as usize));
            let Some(template) = template else { return Ok(false) };
            self.now.pc = NEXT_NODE;
            // The commonest template of all copies its node: for one without content there is nothing else to it.
            if is_leaf(kind) && self.only_copies(template.entry.pc) {
                self.copy_node(node, reach)?;
                self.check_spent()?;
                return Ok(false);
            }
            let documents = reach.world.get().len();
            self.enter(template.entry, params, Some(documents))?;
            self.now.rule = Some(number);
            return Ok(true);
        }
        match kind {
            NodeKind::Root | NodeKind::Element => {
                let children = self.content(node, false, reach);
                let params = self.params_end();
                self.push_apply(children, self.now.mode, NEXT_NODE, params)?;
                self.now.pc = NEXT_NODE;
                Ok(false)
            }
            NodeKind::Text | NodeKind::Attribute => {
                let text = reach.world.get().of(node).value(node.id);
                self.top()?.text(text, false);
                self.check_spent()?;
                Ok(false)
            }
            NodeKind::Comment | NodeKind::Instruction | NodeKind::Namespace => Ok(false),
        }
    }

    /// Whether the instructions there do no more than copy a node that has no content.
    fn only_copies(&self, pc: Pc) -> bool {
        let code = &self.given.program.code;
        match code.get(pc as usize) {
            Some(Op::Copy(behind)) => matches!(code.get(*behind as usize), Some(Op::Return)),
            _ => false,
        }
    }

    /// The best rule for a node; with an importer, among those its stylesheet imports.
    fn find_rule(
        &mut self,
        node: Node,
        kind: NodeKind,
        importer: Option<u32>,
        reach: &mut Reach<'_>,
    ) -> Result<Option<u32>, Error> {
        let list = self.lists.of(node, kind, self.now.mode, reach);
        let program = self.given.program;
        let rule = |number: u32| program.rules.get(number as usize);
        let importer = importer.and_then(rule);
        for number in list {
            let Some(rule) = rule(*number) else { continue };
            if let Some(importer) = importer {
                let imported = importer.imports_from..importer.precedence;
                if !imported.contains(&rule.precedence) {
                    continue;
                }
            }
            if is_certain(rule) {
                return Ok(Some(*number));
            }
            let matched = rule.alternative.matches(&mut self.evaluation(reach));
            if matched.map_err(|error| self.fault(error))? {
                return Ok(Some(*number));
            }
        }
        Ok(None)
    }
}
