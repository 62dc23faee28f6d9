//! Selects the template for a node: the rules of a mode, then the built-in rules (XSLT 1.0, 5).

use xml::Document;
use xpath::{DocId, Node, NodeKind};

use super::frames::PendingNode;
use super::{Machine, NEXT_NODE, Reach, dynamic};
use crate::error::Error;
use crate::program::{ByName, Pass, Program, Template};

/// Cache of the rules for each name in the source document, filled once per name and mode. It is kept between runs, because the documents
/// that a thread transforms mostly share one name table.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The ids of the program and of the name table.
    of: (u64, u64),
    /// By mode (elements before attributes), then by name.
    known: Vec<Vec<RuleLookup>>,
}

/// The cached rules of a name.
#[derive(Debug, Clone, Copy)]
enum RuleLookup {
    Not,
    Others,
    Named(u32),
}

impl Lists {
    /// Prepares for a run with a program and the names of a document. Clears the cache if either has changed.
    pub(super) fn begin(&mut self, program: &Program, document: &Document) {
        let of = (program.id, document.names_id());
        if self.of != of {
            self.of = of;
            self.known.iter_mut().for_each(Vec::clear);
        }
    }

    /// Returns the memory held, in bytes.
    pub(super) fn capacity(&self) -> usize {
        let names: usize = self.known.iter().map(Vec::capacity).sum();
        names * size_of::<RuleLookup>() + self.known.capacity() * size_of::<Vec<RuleLookup>>()
    }

    /// Returns the rules that may match a node, best first.
    #[inline]
    fn of<'s>(
        &mut self,
        program: &'s Program,
        node: Node,
        kind: NodeKind,
        mode: u32,
        reach: &Reach<'_>,
    ) -> &'s [u32] {
        let Some(rules) = program.modes.get(mode as usize) else { return &[] };
        let place = 2 * mode as usize;
        match kind {
            NodeKind::Element => self.named(node, &rules.elements, place, reach),
            NodeKind::Attribute => self.named(node, &rules.attributes, place + 1, reach),
            NodeKind::Text => &rules.text,
            NodeKind::Comment => &rules.comment,
            NodeKind::Instruction => &rules.instruction,
            NodeKind::Root => &rules.root,
            NodeKind::Namespace => &rules.namespace,
        }
    }

    fn named<'s>(
        &mut self,
        node: Node,
        rules: &'s ByName,
        place: usize,
        reach: &Reach<'_>,
    ) -> &'s [u32] {
        if rules.named.is_empty() {
            return &rules.others;
        }
        let document = reach.documents.get().of(node);
        let id = document.name_id(node.id);
        let mut known = None;
        if node.doc == DocId(0) {
            if self.known.len() <= place {
                self.known.resize_with(place + 1, Vec::new);
            }
            if let Some(names) = self.known.get_mut(place) {
                if names.len() < document.names_len() {
                    names.resize(document.names_len(), RuleLookup::Not);
                }
                known = names.get_mut(id.0 as usize);
            }
        }
        match known.as_deref() {
            Some(RuleLookup::Others) => return &rules.others,
            Some(RuleLookup::Named(at)) => return rules.rules(Some(*at as usize)),
            Some(RuleLookup::Not) | None => {}
        }
        let name = document.name_of(id);
        let found = rules.find(name.local, name.namespace.uri);
        if let Some(known) = known {
            // Harmless: there are fewer rules than a `u32` can count.
            let named = found.and_then(|at| u32::try_from(at).ok()).map(RuleLookup::Named);
            *known = named.unwrap_or(RuleLookup::Others);
        }
        rules.rules(found)
    }
}

#[inline]
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
    /// Continues with the next nodes of the topmost apply frame.
    pub(super) fn apply_next(&mut self, reach: &mut Reach<'_>) -> Result<(), Error> {
        loop {
            let Some(PendingNode { focus, params }) = self.next_node() else {
                self.leave_nodes()?;
                match self.now.pc {
                    NEXT_NODE => continue,
                    _ => return Ok(()),
                }
            };
            let node = focus.node;
            let kind = reach.documents.get().kind(node);
            let rules = self.rules(node, kind, reach);
            let sure = rules.first().copied().filter(|rule| self.is_certain(*rule));
            let template = self.template(sure);
            let leaf = is_leaf(kind);
            match template.and_then(|template| template.passes) {
                _ if leaf && template.is_some_and(|template| template.copies) => {
                    self.copy_leaf(node, kind, reach)?;
                    self.check_spent()?;
                }
                Some(pass) if !leaf => self.pass(node, kind, pass, reach)?,
                Some(_) | None => {
                    self.now.focus = focus;
                    let rule = match sure {
                        Some(rule) => Some(rule),
                        None => self.find_rule(rules, None, reach)?,
                    };
                    if self.start_rule(rule, kind, params, reach)? {
                        return Ok(());
                    }
                }
            }
            if let Err(kind) = reach.budget.charge(1) {
                return Err(self.fault_kind(kind));
            }
        }
    }

    /// Begins to apply templates to the content of a node, which may be copied. Its siblings follow afterwards.
    fn pass(
        &mut self,
        node: Node,
        kind: NodeKind,
        pass: Pass,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        let copied = pass.copy && kind == NodeKind::Element;
        if copied {
            self.copy_start(node, reach)?;
            self.check_spent()?;
        }
        let start = self.content(node, pass.attributes, reach);
        self.push_apply(start, pass.mode, NEXT_NODE, self.params_end(), copied)
    }

    /// Executes `xsl:apply-imports` (XSLT 1.0, 5.6).
    pub(super) fn apply_imports(&mut self, reach: &mut Reach<'_>) -> Result<(), Error> {
        let Some(importer) = self.now.rule else {
            return Err(dynamic("xsl:apply-imports where no template rule is running"));
        };
        // A separate frame, to which the built-in rules can return.
        let node = self.now.focus.node;
        let start = self.memory.nodes.len();
        self.memory.nodes.push(node);
        let params = self.params_end();
        self.push_apply(start, self.now.mode, self.now.pc, params, false)?;
        self.now.pc = NEXT_NODE;
        // Harmless: there is always a first node.
        let _ = self.next_node();
        let kind = reach.documents.get().kind(node);
        let rules = self.rules(node, kind, reach);
        let rule = self.find_rule(rules, Some(importer), reach)?;
        self.start_rule(rule, kind, (params, params), reach).map(drop)
    }

    /// Starts the rule for the context node. Without a rule, executes the built-in one and returns false: it has written the value of the
    /// node, or has begun to apply templates to the content of the node.
    fn start_rule(
        &mut self,
        rule: Option<u32>,
        kind: NodeKind,
        params: (u32, u32),
        reach: &mut Reach<'_>,
    ) -> Result<bool, Error> {
        let node = self.now.focus.node;
        if rule.is_some() {
            let Some(template) = self.template(rule) else { return Ok(false) };
            self.now.pc = NEXT_NODE;
            let documents = reach.documents.get().len();
            self.enter(template.entry, params, Some(documents))?;
            self.now.rule = rule;
            return Ok(true);
        }
        match kind {
            NodeKind::Root | NodeKind::Element => {
                let pass = Pass { copy: false, attributes: false, mode: self.now.mode };
                self.now.pc = NEXT_NODE;
                self.pass(node, kind, pass, reach)?;
                Ok(false)
            }
            NodeKind::Text | NodeKind::Attribute => {
                let text = reach.documents.get().of(node).value(node.id);
                self.top()?.text(text, false);
                self.check_spent()?;
                Ok(false)
            }
            NodeKind::Comment | NodeKind::Instruction | NodeKind::Namespace => Ok(false),
        }
    }

    /// Returns the rules of the mode that may match a node, best first.
    #[inline]
    fn rules(&mut self, node: Node, kind: NodeKind, reach: &Reach<'_>) -> &'s [u32] {
        self.memory.lists.of(self.given.program, node, kind, self.now.mode, reach)
    }

    #[inline]
    fn is_certain(&self, rule: u32) -> bool {
        self.given.program.rules.get(rule as usize).is_some_and(|rule| rule.certain)
    }

    #[inline]
    fn template(&self, rule: Option<u32>) -> Option<&'s Template> {
        let program = self.given.program;
        let rule = program.rules.get(rule? as usize)?;
        program.templates.get(rule.template as usize)
    }

    /// Returns the best rule for the context node. With an importer, only considers rules that its stylesheet imports.
    fn find_rule(
        &mut self,
        rules: &[u32],
        importer: Option<u32>,
        reach: &mut Reach<'_>,
    ) -> Result<Option<u32>, Error> {
        let program = self.given.program;
        let rule = |number: u32| program.rules.get(number as usize);
        let importer = importer.and_then(rule);
        for number in rules {
            let Some(rule) = rule(*number) else { continue };
            if let Some(importer) = importer {
                let imported = importer.imports_from..importer.precedence;
                if !imported.contains(&rule.precedence) {
                    continue;
                }
            }
            if rule.certain {
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
