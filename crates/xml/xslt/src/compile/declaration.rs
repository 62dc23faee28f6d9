//! Top-level elements (XSLT 1.0, 2.2).

use xpath::{Alternative, Name, NameTest, Shape};

use super::element::Element;
use super::load::Declaration;
use super::names::NO_MODE;
use super::{Compiler, FUNCTIONS, Locals, XSLT};
use crate::decimal::DecimalFormat;
use crate::error::Error;
use crate::out::{Encoding, Method};
use crate::program::{CodeBlock, Key, Op, Rule, SpaceRule, Template};

impl<'m> Compiler<'m> {
    pub(super) fn declaration(&mut self, d: &Declaration) -> Result<(), Error> {
        let e = self.element(d);
        if d.simplified {
            return self.simplified(d, e);
        }
        let name = e.name();
        match (name.namespace.uri, name.local) {
            (XSLT, local) => self.standard(d, e, local),
            (FUNCTIONS, "function") => self.function(e),
            // User-defined elements are ignored, but must have a namespace.
            ("", _) if !e.forwards() => {
                Err(self.wrong(e, format!("{} at the top level needs a namespace", e.shown())))
            }
            _ => Ok(()),
        }
    }

    fn standard(&mut self, d: &Declaration, e: Element<'m>, local: &str) -> Result<(), Error> {
        match local {
            "template" | "variable" | "param" | "key" | "decimal-format" | "output"
            | "attribute-set" | "strip-space" | "preserve-space" | "namespace-alias" => {
                self.check_attributes(e)?;
            }
            // Harmless: the loader has handled imports and includes, and the code below refuses unknown elements.
            _ => {}
        }
        match local {
            "template" => self.template(d, e),
            "variable" | "param" => self.global(d, e),
            "key" => self.key_declaration(e),
            "decimal-format" => self.decimal_format(e),
            "output" => self.output(e),
            "strip-space" => self.space(d, e, true),
            "preserve-space" => self.space(d, e, false),
            // Handled earlier, or after all other declarations.
            "attribute-set" | "namespace-alias" | "import" | "include" => Ok(()),
            _ if e.forwards() => Ok(()),
            _ => Err(self.wrong(e, format!("{} is not allowed at the top level", e.shown()))),
        }
    }

    fn simplified(&mut self, d: &Declaration, e: Element<'m>) -> Result<(), Error> {
        let mut locals = Locals::default();
        let pc = self.here();
        self.literal(e, &mut locals)?;
        self.emit(Op::Return, e);
        let template = u32::try_from(self.program.templates.len()).unwrap_or(u32::MAX);
        let entry = CodeBlock { pc, slots: locals.slots };
        self.program.templates.push(Template::new(entry, &self.program.code));
        self.rules(d, e, template, "/")
    }

    fn template(&mut self, d: &Declaration, e: Element<'m>) -> Result<(), Error> {
        let (matches, name) = (e.attribute("match"), e.attribute("name"));
        if matches.is_none() && name.is_none() {
            return Err(self.wrong(e, "xsl:template needs the attribute match or name"));
        }
        if matches.is_none() && (e.attribute("mode").is_some() || e.attribute("priority").is_some())
        {
            let what = "xsl:template without match takes neither mode nor priority";
            if !e.forwards() {
                return Err(self.wrong(e, what));
            }
        }
        let mut locals = Locals::default();
        let pc = self.here();
        self.body(e, &mut locals)?;
        self.emit(Op::Return, e);
        let entry = CodeBlock { pc, slots: locals.slots };
        let mut named = None;
        if let Some(text) = name {
            let name = self.qname(e, text)?;
            // Only the declaration with the highest precedence can be called.
            let found = self.templates.get(&name).copied();
            named = found.filter(|(_, precedence)| *precedence == d.precedence).map(|(n, _)| n);
        }
        let number = match named {
            Some(number) => {
                if let Some(template) = self.program.templates.get_mut(number as usize) {
                    *template = Template::new(entry, &self.program.code);
                }
                number
            }
            None => {
                self.program.templates.push(Template::new(entry, &self.program.code));
                u32::try_from(self.program.templates.len() - 1).unwrap_or(u32::MAX)
            }
        };
        match matches {
            Some(text) => self.rules(d, e, number, text),
            None => Ok(()),
        }
    }

    fn rules(
        &mut self,
        d: &Declaration,
        e: Element<'m>,
        template: u32,
        matches: &str,
    ) -> Result<(), Error> {
        let pattern = self.pattern(e, &Locals::default(), matches)?;
        let priority = match e.attribute("priority").filter(|_| !d.simplified) {
            None => None,
            Some(text) => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => Some(number),
                _ if e.forwards() => None,
                _ => return Err(self.wrong(e, format!("the priority `{text}` is not a number"))),
            },
        };
        let modes = if d.simplified { vec![NO_MODE] } else { self.modes_of(e)? };
        for alternative in pattern.alternatives {
            let priority = priority.unwrap_or(alternative.priority);
            let rule = Rule {
                template,
                certain: is_certain(&alternative),
                alternative,
                precedence: d.precedence,
                imports_from: d.imports_from,
                priority,
            };
            self.add_rule(&modes, rule);
        }
        Ok(())
    }

    fn key_declaration(&mut self, e: Element<'m>) -> Result<(), Error> {
        let name = self.required_name(e)?;
        let (matches, value) = (self.required(e, "match")?, self.required(e, "use")?);
        let locals = Locals::default();
        let key = Key {
            matches: self.pattern(e, &locals, matches)?,
            value: self.expr(e, &locals, value)?,
            place: e.place(),
        };
        let number = self.program.key_names.get(&name).copied().unwrap_or(0);
        if let Some(list) = self.program.keys.get_mut(number as usize) {
            list.push(key);
        }
        Ok(())
    }

    fn decimal_format(&mut self, e: Element<'m>) -> Result<(), Error> {
        let name = match e.attribute("name") {
            Some(text) => self.qname(e, text)?,
            None => Name { uri: "".into(), local: "".into() },
        };
        let usual = DecimalFormat::default();
        let character = |local: &str, usual: char| match e.attribute(local) {
            None => Ok(usual),
            Some(text) => {
                let mut chars = text.chars();
                match (chars.next(), chars.next()) {
                    (Some(c), None) => Ok(c),
                    _ => Err(self.wrong(e, format!("{local} must be one character, not `{text}`"))),
                }
            }
        };
        let text = |local: &str, usual: &str| e.attribute(local).unwrap_or(usual).into();
        let format = DecimalFormat {
            decimal_separator: character("decimal-separator", usual.decimal_separator)?,
            grouping_separator: character("grouping-separator", usual.grouping_separator)?,
            infinity: text("infinity", &usual.infinity),
            minus_sign: character("minus-sign", usual.minus_sign)?,
            nan: text("NaN", &usual.nan),
            percent: character("percent", usual.percent)?,
            per_mille: character("per-mille", usual.per_mille)?,
            zero_digit: character("zero-digit", usual.zero_digit)?,
            digit: character("digit", usual.digit)?,
            pattern_separator: character("pattern-separator", usual.pattern_separator)?,
        };
        // Two different formats with the same name are an error (XSLT 1.0, 12.3), but like most processors, this one uses the last.
        self.program.formats.insert(name, format);
        Ok(())
    }

    fn space(&mut self, d: &Declaration, e: Element<'m>, strip: bool) -> Result<(), Error> {
        for text in self.required(e, "elements")?.split_ascii_whitespace() {
            let (test, priority) = match text.strip_suffix(":*") {
                _ if text == "*" => (NameTest::Any, -0.5),
                Some(prefix) => match e.lookup(prefix) {
                    Some(uri) => (NameTest::Namespace(uri.into()), -0.25),
                    None => {
                        let what = format!("the prefix `{prefix}` is not declared");
                        return Err(self.wrong(e, what));
                    }
                },
                // `*:name` is a name test of XPath 2.0. It is ignored.
                None if text.starts_with("*:") && e.forwards() => continue,
                None => (NameTest::Name(self.qname(e, text)?), 0.0),
            };
            let precedence = d.precedence;
            self.program.spaces.push(SpaceRule { test, strip, precedence, priority });
        }
        Ok(())
    }

    /// Merges the attributes of an `xsl:output` with those of the earlier ones. For each attribute, the declaration with the highest
    /// precedence wins, but the lists of CDATA section elements are united (XSLT 1.0, 16).
    fn output(&mut self, e: Element<'m>) -> Result<(), Error> {
        if let Some(names) = e.attribute("cdata-section-elements") {
            for text in names.split_ascii_whitespace() {
                let name = self.named(e, text, true)?;
                self.output.cdata_sections.push((name.uri, name.local));
            }
        }
        if let Some(text) = e.attribute("method") {
            let method = match text.trim() {
                "xml" => Some(Method::Xml),
                "html" => Some(Method::Html),
                "text" => Some(Method::Text),
                // A method of a later version or of another vendor. The default method is used.
                other if other.contains(':') || e.forwards() => None,
                other => return Err(self.wrong(e, format!("there is no output method `{other}`"))),
            };
            if method.is_some() {
                self.output.method = method;
            }
        }
        // Declarations come in ascending precedence, so a later one may overwrite an earlier one.
        let text = |local: &str| e.attribute(local).map(Box::<str>::from);
        let (omit, alone) =
            (self.yes_no(e, "omit-xml-declaration")?, self.yes_no(e, "standalone")?);
        let indent = self.yes_no(e, "indent")?;
        let output = &mut self.output;
        let encoding_name = e.attribute("encoding").map(str::trim).filter(|name| is_encoding(name));
        if let Some(name) = encoding_name {
            output.encoding_name = Some(name.into());
            output.encoding = Encoding::named(name);
        }
        output.version = text("version").or(output.version.take());
        output.omit_declaration = omit.or(output.omit_declaration);
        output.standalone = alone.or(output.standalone);
        output.doctype_public = text("doctype-public").or(output.doctype_public.take());
        output.doctype_system = text("doctype-system").or(output.doctype_system.take());
        output.indent = indent.or(output.indent);
        output.media_type = text("media-type").or(output.media_type.take());
        Ok(())
    }
}

/// Returns whether a text is the name of an encoding (XML 1.0, production 81).
fn is_encoding(name: &str) -> bool {
    let part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(part)
}

/// Returns whether every node of the shape's kind and name matches the alternative.
fn is_certain(alternative: &Alternative) -> bool {
    let unchecked = match &alternative.shape {
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
    alternative.settled && !unchecked
}
