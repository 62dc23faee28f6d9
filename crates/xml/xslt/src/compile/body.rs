//! Bodies of templates and instructions: text, literal elements, and the choice of the instruction for a child.

use super::element::{Child, Element};
use super::{Compiler, FUNCTIONS, Locals};
use crate::error::Error;
use crate::program::{Dest, Op};
use crate::run::spaces::is_blank;

/// Children that are part of their parent's syntax and not instructions.
const PARTS: &[&str] = &["sort", "with-param", "fallback"];

impl<'m> Compiler<'m> {
    /// Compiles the content of an element; its variables go out of scope at the end.
    pub(super) fn body(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let visible = locals.visible.len();
        let takes_params = e.xsl() == Some("template") || e.name().namespace.uri == FUNCTIONS;
        let mut params_over = !takes_params;
        for child in e.children() {
            match child {
                Child::Text(text) => {
                    params_over = true;
                    self.emit(Op::Text(text.into()), e);
                }
                Child::Element(inner) => match inner.xsl() {
                    Some("param") if params_over => {
                        return Err(
                            self.wrong(inner, "xsl:param must come before all other content")
                        );
                    }
                    Some("param") => self.param(inner, locals)?,
                    Some(part) if PARTS.contains(&part) => {}
                    Some(_) => {
                        params_over = true;
                        self.instruction(inner, locals)?;
                    }
                    None => {
                        params_over = true;
                        self.other(inner, locals)?;
                    }
                },
            }
        }
        // Harmless: the declarations of a body are visible only in it.
        locals.visible.truncate(visible);
        Ok(())
    }

    /// Compiles an element outside XSLT's namespace.
    fn other(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let name = e.name();
        if name.namespace.uri == FUNCTIONS && name.local == "result" && locals.function {
            self.value_into(e, locals, Dest::Result)?;
            self.emit(Op::Return, e);
            return Ok(());
        }
        if self.is_extension(e) { self.unknown(e, locals) } else { self.literal(e, locals) }
    }

    /// Compiles an unknown instruction: its fallbacks, or an error when it is executed (XSLT 1.0, 15).
    pub(super) fn unknown(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let mut any = false;
        for child in e.elements().filter(|child| child.xsl() == Some("fallback")) {
            any = true;
            self.body(child, locals)?;
        }
        if !any {
            let what = format!("there is no instruction {}", e.shown());
            self.emit(Op::Fail(what.into()), e);
        }
        Ok(())
    }

    pub(super) fn variable(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        // The variable is not in scope in its own value.
        let name = self.required_name(e)?;
        let slot = locals.slots;
        locals.slots += 1;
        self.value_into(e, locals, Dest::Local(slot))?;
        locals.visible.push((name, slot));
        Ok(())
    }

    fn param(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        self.check_attributes(e)?;
        let name = self.required_name(e)?;
        let number = self.param_number(name.clone());
        let slot = locals.slots;
        locals.slots += 1;
        let pc = self.emit(Op::Param { slot, name: number, otherwise: 0 }, e);
        // The default may refer to the parameters before it, but not to itself.
        self.value_into(e, locals, Dest::Local(slot))?;
        let otherwise = self.here();
        self.patch(pc, Op::Param { slot, name: number, otherwise });
        locals.visible.push((name, slot));
        Ok(())
    }

    /// Compiles the value of a variable, parameter or result: from `select`, from the content as a tree, or an empty string.
    pub(super) fn value_into(
        &mut self,
        e: Element<'m>,
        locals: &mut Locals,
        dest: Dest,
    ) -> Result<(), Error> {
        if let Some(select) = e.attribute("select") {
            let blank = |child: &Child<'_>| matches!(child, Child::Text(text) if is_blank(text));
            if !e.forwards() && !e.children().iter().all(blank) {
                let what = format!("{} has both select and content", e.shown());
                return Err(self.wrong(e, what));
            }
            let expr = self.expr(e, locals, select)?;
            self.emit(Op::Set(dest, expr), e);
            return Ok(());
        }
        if e.children().is_empty() {
            self.emit(Op::SetEmpty(dest), e);
            return Ok(());
        }
        self.emit(Op::BeginTree, e);
        self.body(e, locals)?;
        self.emit(Op::EndTree(dest), e);
        Ok(())
    }
}
