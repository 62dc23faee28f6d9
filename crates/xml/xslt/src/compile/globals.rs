//! Named components of the whole stylesheet: global variables, attribute sets, functions.

use xpath::Name;

use super::element::Element;
use super::load::Declaration;
use super::{Compiler, Locals};
use crate::error::Error;
use crate::program::{CodeBlock, Dest, Op};

impl<'m> Compiler<'m> {
    /// Compiles a global variable or parameter. Skips it if a declaration with a higher import precedence overrides it.
    pub(super) fn global(&mut self, d: &Declaration, e: Element<'m>) -> Result<(), Error> {
        let name = self.required_name(e)?;
        let counts = self
            .chosen
            .get(&name)
            .is_some_and(|chosen| chosen.node == d.node && chosen.module == d.module);
        let Some(number) = self.globals.get(&name).copied().filter(|_| counts) else {
            return Ok(());
        };
        self.notes.borrow_mut().needs.clear();
        let mut locals = Locals::default();
        let pc = self.here();
        let is_param = e.xsl() == Some("param");
        let given = is_param.then(|| self.emit(Op::GlobalParam { number, otherwise: 0 }, e));
        self.value_into(e, &mut locals, Dest::Result)?;
        let end = self.emit(Op::Return, e);
        if let Some(given) = given {
            self.patch(given, Op::GlobalParam { number, otherwise: end });
        }
        let needs = std::mem::take(&mut self.notes.borrow_mut().needs);
        if let Some(global) = self.program.globals.get_mut(number as usize) {
            global.entry = CodeBlock { pc, slots: locals.slots };
            global.needs = needs;
            global.is_param = is_param;
            global.place = e.place();
        }
        Ok(())
    }

    /// Compiles all attribute sets. Each becomes an entry that first applies the sets it uses, then creates its attributes.
    pub(super) fn attribute_sets(&mut self) -> Result<(), Error> {
        let sets = std::mem::take(&mut self.set_parts);
        self.check_set_cycles(&sets)?;
        for parts in &sets {
            let pc = self.here();
            let mut locals = Locals::default();
            let mut last = None;
            for part in parts {
                let e = self.element(part);
                self.check_attributes(e)?;
                self.use_sets(e)?;
                for child in e.elements() {
                    if child.xsl() != Some("attribute") {
                        let what = "xsl:attribute-set must contain only xsl:attribute";
                        return Err(self.wrong(child, what));
                    }
                    self.instruction(child, &mut locals)?;
                }
                last = Some(e);
            }
            let e = last.unwrap_or_else(|| self.node(0, xml::NodeId(0)));
            self.emit(Op::Return, e);
            self.program.sets.push(CodeBlock { pc, slots: locals.slots });
        }
        Ok(())
    }

    /// Applies the attribute sets that an element names, in order.
    pub(super) fn use_sets(&mut self, e: Element<'m>) -> Result<(), Error> {
        let Some(names) = e.standard("use-attribute-sets") else { return Ok(()) };
        for text in names.split_ascii_whitespace() {
            let name = self.qname(e, text)?;
            match self.sets.get(&name).copied() {
                Some(set) => {
                    self.emit(Op::UseSet(set), e);
                }
                None => {
                    let what = format!("there is no attribute set `{text}`");
                    self.missing(self.wrong(e, what.clone()));
                    self.emit(Op::Fail(what.into()), e);
                }
            }
        }
        Ok(())
    }

    /// Checks that no attribute set uses itself, which is an error (XSLT 1.0, 7.1.4).
    fn check_set_cycles(&self, sets: &[Vec<Declaration>]) -> Result<(), Error> {
        let mut uses: Vec<Vec<usize>> = Vec::new();
        for parts in sets {
            let mut used = Vec::new();
            for part in parts {
                let e = self.element(part);
                let names = e.attribute("use-attribute-sets").unwrap_or("");
                for text in names.split_ascii_whitespace() {
                    let name = self.qname(e, text)?;
                    used.extend(self.sets.get(&name).map(|set| *set as usize));
                }
            }
            uses.push(used);
        }
        // Repeatedly marks sets that use only marked sets. Those that remain are in a cycle, or use a set in one.
        let mut settled = vec![false; sets.len()];
        let is_settled = |settled: &[bool], set: usize| settled.get(set).copied().unwrap_or(true);
        loop {
            let ready = (0..sets.len()).find(|set| {
                let used = uses.get(*set).map_or(&[][..], Vec::as_slice);
                !is_settled(&settled, *set) && used.iter().all(|u| is_settled(&settled, *u))
            });
            match ready.and_then(|set| settled.get_mut(set)) {
                Some(place) => *place = true,
                None => break,
            }
        }
        let cyclic = settled.iter().position(|done| !done);
        match cyclic.and_then(|set| sets.get(set)).and_then(|parts| parts.first()) {
            Some(part) => Err(self.wrong(self.element(part), "an attribute set uses itself")),
            None => Ok(()),
        }
    }

    /// Compiles a `func:function`.
    pub(super) fn function(&mut self, e: Element<'m>) -> Result<(), Error> {
        let name = self.required_name(e)?;
        let Some(number) = self.functions.get(&name).copied() else { return Ok(()) };
        let mut locals = Locals { function: true, ..Locals::default() };
        let params: Vec<Name> = e
            .elements()
            .filter(|child| child.xsl() == Some("param"))
            .map(|child| self.required_name(child))
            .collect::<Result<_, _>>()?;
        let params = params.into_iter().map(|name| self.param_number(name)).collect();
        let pc = self.here();
        self.emit(Op::SetEmpty(Dest::Result), e);
        self.body(e, &mut locals)?;
        self.emit(Op::Return, e);
        if let Some(function) = self.program.functions.get_mut(number as usize) {
            function.entry = CodeBlock { pc, slots: locals.slots };
            function.params = params;
        }
        Ok(())
    }
}
