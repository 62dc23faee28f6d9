//! The instructions of XSLT (XSLT 1.0, 4 to 13).

use super::element::Element;
use super::{Compiler, Locals};
use crate::error::Error;
use crate::program::{
    Apply, Avt, ComputedName, Dest, ForEach, Level, Literal, Numbering, Op, Pc, Select, SortKey,
    SourceName,
};

impl<'m> Compiler<'m> {
    pub(super) fn instruction(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        self.check_attributes(e)?;
        match e.xsl().unwrap_or("") {
            "apply-imports" => {
                self.emit(Op::ApplyImports, e);
                Ok(())
            }
            "apply-templates" => self.apply(e, locals),
            "attribute" => self.attribute(e, locals),
            "call-template" => self.call(e, locals),
            "choose" => self.choose(e, locals),
            "comment" => self.kept(e, locals, Op::EndComment),
            "copy" => self.copy(e, locals),
            "copy-of" => {
                let select = self.required(e, "select")?;
                let expr = self.expr(e, locals, select)?;
                self.emit(Op::CopyOf(expr), e);
                Ok(())
            }
            "element" => self.made_element(e, locals),
            "for-each" => self.for_each(e, locals),
            "if" => {
                let otherwise = self.test(e, locals)?;
                self.branch(e, locals, otherwise)
            }
            "message" => {
                let terminate = self.yes_no(e, "terminate")?.unwrap_or(false);
                self.kept(e, locals, Op::EndMessage { terminate })
            }
            // An instruction of XSLT 2.0, for stylesheets of a later version.
            "namespace" if e.forwards() => {
                let name = self.required(e, "name")?;
                let name = self.avt(e, locals, name)?;
                self.emit(Op::BeginText, e);
                match e.attribute("select") {
                    Some(select) => {
                        let expr = self.expr(e, locals, select)?;
                        self.emit(Op::Value(expr), e);
                    }
                    None => self.body(e, locals)?,
                }
                self.emit(Op::EndNamespace(name), e);
                Ok(())
            }
            "number" => self.number(e, locals),
            "processing-instruction" => {
                let name = self.required(e, "name")?;
                let name = self.avt(e, locals, name)?;
                self.kept(e, locals, Op::EndInstruction(name))
            }
            "text" => self.text(e),
            "value-of" => self.value_of(e, locals),
            "variable" => self.variable(e, locals),
            _ if e.forwards() => self.unknown(e, locals),
            _ => Err(self.wrong(e, format!("{} is not allowed here", e.shown()))),
        }
    }

    fn text(&mut self, e: Element<'m>) -> Result<(), Error> {
        if e.elements().next().is_some() {
            return Err(self.wrong(e, "xsl:text must contain only text"));
        }
        let raw = self.yes_no(e, "disable-output-escaping")?.unwrap_or(false);
        let Some(Avt::Constant(text)) = self.text_body(e, &Locals::default())? else {
            return Ok(());
        };
        self.emit(if raw { Op::RawText(text) } else { Op::Text(text) }, e);
        Ok(())
    }

    fn value_of(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let select = self.required(e, "select")?;
        let expr = self.expr(e, locals, select)?;
        let raw = self.yes_no(e, "disable-output-escaping")?.unwrap_or(false);
        self.emit(if raw { Op::RawValue(expr) } else { Op::Value(expr) }, e);
        Ok(())
    }

    /// Compiles the content of an instruction such as `xsl:comment`. A run collects it as text, and `end` uses the text.
    fn kept(&mut self, e: Element<'m>, locals: &mut Locals, end: Op) -> Result<(), Error> {
        self.emit(Op::BeginText, e);
        self.body(e, locals)?;
        self.emit(end, e);
        Ok(())
    }

    /// Compiles the test of an `xsl:if` or `xsl:when`. Returns the address of the jump, to be patched once the end is known.
    fn test(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<Pc, Error> {
        let test = self.required(e, "test")?;
        let expr = self.expr(e, locals, test)?;
        Ok(self.emit(Op::Unless(expr, 0), e))
    }

    fn branch(&mut self, e: Element<'m>, locals: &mut Locals, test: Pc) -> Result<(), Error> {
        self.body(e, locals)?;
        self.land(test);
        Ok(())
    }

    /// Patches a jump or a test to lead to the current address.
    fn land(&mut self, pc: Pc) {
        let here = self.here();
        match self.program.code.get_mut(pc as usize) {
            Some(Op::Unless(_, target) | Op::Jump(target) | Op::Copy(target)) => *target = here,
            Some(Op::ForEach(for_each)) => for_each.end = here,
            // Harmless: other instructions have no target.
            _ => {}
        }
    }

    fn choose(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let mut jumps = Vec::new();
        let mut otherwise = false;
        for child in e.elements() {
            self.check_attributes(child)?;
            match child.xsl() {
                Some("when") if !otherwise => {
                    let test = self.test(child, locals)?;
                    self.body(child, locals)?;
                    jumps.push(self.emit(Op::Jump(0), child));
                    self.land(test);
                }
                Some("otherwise") if !otherwise => {
                    otherwise = true;
                    self.body(child, locals)?;
                }
                _ => {
                    let what = format!("{} is not allowed here in xsl:choose", child.shown());
                    return Err(self.wrong(child, what));
                }
            }
        }
        if jumps.is_empty() {
            return Err(self.wrong(e, "xsl:choose needs an xsl:when"));
        }
        for jump in jumps {
            self.land(jump);
        }
        Ok(())
    }

    fn copy(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let copy = self.emit(Op::Copy(0), e);
        self.use_sets(e)?;
        self.body(e, locals)?;
        self.emit(Op::EndCopy, e);
        self.land(copy);
        Ok(())
    }

    /// Compiles the sort keys of an `xsl:for-each` or `xsl:apply-templates`.
    fn sorts(&mut self, e: Element<'m>, locals: &Locals) -> Result<Box<[SortKey]>, Error> {
        let mut sorts = Vec::new();
        for sort in e.elements().filter(|child| child.xsl() == Some("sort")) {
            self.check_attributes(sort)?;
            let select = sort.attribute("select").unwrap_or(".");
            sorts.push(SortKey {
                value: self.expr(sort, locals, select)?,
                order: self.avt_of(sort, locals, "order")?,
                data_type: self.avt_of(sort, locals, "data-type")?,
                case_order: self.avt_of(sort, locals, "case-order")?,
                lang: self.avt_of(sort, locals, "lang")?,
            });
        }
        Ok(sorts.into())
    }

    fn for_each(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let select = self.required(e, "select")?;
        let select = self.expr(e, locals, select)?;
        let sorts = self.sorts(e, locals)?;
        let start = self.emit(Op::ForEach(Box::new(ForEach { select, sorts, end: 0 })), e);
        self.body(e, locals)?;
        self.emit(Op::Next, e);
        self.land(start);
        Ok(())
    }

    /// Compiles parameters, which are pushed onto the stack. Returns their number.
    fn params(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<u32, Error> {
        let mut names = Vec::new();
        for param in e.elements().filter(|child| child.xsl() == Some("with-param")) {
            self.check_attributes(param)?;
            let name = self.required_name(param)?;
            if names.contains(&name) {
                return Err(self.wrong(param, format!("`{}` is given twice", name.local)));
            }
            let number = self.param_number(name.clone());
            names.push(name);
            self.value_into(param, locals, Dest::Param(number))?;
        }
        Ok(u32::try_from(names.len()).unwrap_or(u32::MAX))
    }

    fn apply(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        self.only(e, &["sort", "with-param"])?;
        let text = e.attribute("select").unwrap_or("node()");
        let plain: String = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
        let select = match plain.as_str() {
            "node()" => Select::Content { attributes: false },
            "@*|node()" | "node()|@*" => Select::Content { attributes: true },
            _ => Select::Expr(self.expr(e, locals, text)?),
        };
        let sorts = self.sorts(e, locals)?;
        let params = self.params(e, locals)?;
        let mode = self.mode(e)?;
        self.emit(Op::Apply(Box::new(Apply { select, mode, sorts, params })), e);
        Ok(())
    }

    fn call(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        self.only(e, &["with-param"])?;
        let name = self.required_name(e)?;
        let Some((template, _)) = self.templates.get(&name).copied() else {
            let what = format!("there is no template `{}`", name.local);
            self.missing(self.wrong(e, what.clone()));
            self.emit(Op::Fail(what.into()), e);
            return Ok(());
        };
        let params = self.params(e, locals)?;
        self.emit(Op::Call { template, params }, e);
        Ok(())
    }

    fn only(&self, e: Element<'m>, allowed: &[&str]) -> Result<(), Error> {
        let other = e.elements().find(|child| !child.xsl().is_some_and(|n| allowed.contains(&n)));
        match other {
            Some(other) if !other.forwards() => {
                Err(self.wrong(other, format!("{} is not allowed in {}", other.shown(), e.shown())))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn made_element(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let made = self.made(e, locals)?;
        let op = match (&made.name, &made.namespace) {
            (Avt::Constant(text), None) => {
                let name = self.named(e, text, true)?;
                Op::Start(Box::new(Literal { name, namespaces: Box::default(), near: 0 }))
            }
            _ => Op::StartMade(Box::new(made)),
        };
        self.emit(op, e);
        self.use_sets(e)?;
        self.body(e, locals)?;
        self.emit(Op::End, e);
        Ok(())
    }

    fn made(&self, e: Element<'m>, locals: &Locals) -> Result<ComputedName, Error> {
        let name = self.required(e, "name")?;
        Ok(ComputedName {
            name: self.avt(e, locals, name)?,
            namespace: self.avt_of(e, locals, "namespace")?,
            scope: self.scope_number(e),
        })
    }

    fn attribute(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let made = self.made(e, locals)?;
        if let (Avt::Constant(text), None) = (&made.name, &made.namespace)
            && text.trim() != "xmlns"
            && let Some(value) = self.text_body(e, locals)?
        {
            let name: SourceName = self.named(e, text, false)?;
            self.emit(Op::Attribute(Box::new((name, value))), e);
            return Ok(());
        }
        self.kept(e, locals, Op::EndAttribute(Box::new(made)))
    }

    fn number(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let level = match e.attribute("level").map(str::trim) {
            None | Some("single") => Level::Single,
            Some("multiple") => Level::Multiple,
            Some("any") => Level::Any,
            Some(_) if e.forwards() => Level::Single,
            Some(other) => return Err(self.wrong(e, format!("there is no level `{other}`"))),
        };
        let pattern =
            |local: &str| e.attribute(local).map(|text| self.pattern(e, locals, text)).transpose();
        let value = e.attribute("value").map(|text| self.expr(e, locals, text)).transpose()?;
        let numbering = Numbering {
            value,
            level,
            count: pattern("count")?,
            from: pattern("from")?,
            format: self.avt(e, locals, e.attribute("format").unwrap_or("1"))?,
            grouping_separator: self.avt_of(e, locals, "grouping-separator")?,
            grouping_size: self.avt_of(e, locals, "grouping-size")?,
        };
        self.emit(Op::Number(Box::new(numbering)), e);
        Ok(())
    }
}
