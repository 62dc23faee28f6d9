//! Literal result elements: their names, namespaces and aliases (XSLT 1.0, 7.1.1), and extension elements.

use super::element::Element;
use super::load::Declaration;
use super::{Compiler, Locals, XSLT};
use crate::error::Error;
use crate::program::{Literal, Op, SourceName};

/// The replacement of a stylesheet namespace in the result.
#[derive(Debug, Clone)]
pub(super) struct Alias {
    /// Prefix for names that had no namespace. Other names keep their prefix.
    pub(super) prefix: Box<str>,
    pub(super) uri: Box<str>,
    pub(super) precedence: u32,
}

impl<'m> Compiler<'m> {
    /// Reads an `xsl:namespace-alias`.
    pub(super) fn alias(&mut self, d: &Declaration, e: Element<'m>) -> Result<(), Error> {
        let namespace = |local: &str| {
            let text = self.required(e, local)?.trim();
            let prefix = if text == "#default" { "" } else { text };
            match (e.lookup(prefix), prefix) {
                (Some(uri), _) => Ok((prefix, uri)),
                (None, "") => Ok(("", "")),
                (None, _) => Err(self.wrong(e, format!("the prefix `{prefix}` is not declared"))),
            }
        };
        let (_, from) = namespace("stylesheet-prefix")?;
        let (prefix, uri) = namespace("result-prefix")?;
        let alias = Alias { prefix: prefix.into(), uri: uri.into(), precedence: d.precedence };
        let weaker = |other: &Alias| other.precedence > d.precedence;
        if !self.aliases.get(from).is_some_and(weaker) {
            self.aliases.insert(from.into(), alias);
        }
        Ok(())
    }

    /// Compiles a literal result element with its attributes and content.
    pub(super) fn literal(&mut self, e: Element<'m>, locals: &mut Locals) -> Result<(), Error> {
        let name = self.aliased(e.name(), true);
        let namespaces = self.result_namespaces(e);
        let near = near(e, &namespaces);
        let literal = Literal { name, namespaces: namespaces.into(), near };
        self.emit(Op::Start(Box::new(literal)), e);
        self.use_sets(e)?;
        for (name, value) in e.attributes() {
            if name.namespace.uri == XSLT {
                let known = ["version", "use-attribute-sets", "exclude-result-prefixes"];
                let known =
                    known.contains(&name.local) || name.local == "extension-element-prefixes";
                if !known && !e.forwards() {
                    return Err(self.wrong(e, format!("there is no attribute xsl:{}", name.local)));
                }
                continue;
            }
            let value = self.avt(e, locals, value)?;
            let name = self.aliased(name, false);
            self.emit(Op::Attribute(Box::new((name, value))), e);
        }
        self.body(e, locals)?;
        self.emit(Op::End, e);
        Ok(())
    }

    fn aliased(&self, name: xml::QName<'_>, element: bool) -> SourceName {
        let own = SourceName {
            prefix: name.prefix.into(),
            local: name.local.into(),
            uri: name.namespace.uri.into(),
        };
        // The default namespace does not apply to attributes.
        if !element && name.namespace.uri.is_empty() {
            return own;
        }
        // Only the namespace is replaced (XSLT 1.0, 7.1.1), unless the old or the new name has none.
        match self.aliases.get(name.namespace.uri) {
            Some(alias) if own.uri.is_empty() || alias.uri.is_empty() => {
                let prefix = if alias.uri.is_empty() { "".into() } else { alias.prefix.clone() };
                SourceName { prefix, uri: alias.uri.clone(), ..own }
            }
            Some(alias) => SourceName { uri: alias.uri.clone(), ..own },
            None => own,
        }
    }

    /// Returns the namespace nodes of a literal element in the result: those in scope that are not excluded, except those that its literal
    /// parent already has.
    fn result_namespaces(&self, e: Element<'m>) -> Vec<(Box<str>, Box<str>)> {
        let own = self.all_namespaces(e);
        let around = e.ancestry().skip(1).find(|outer| {
            !matches!(outer.xsl(), Some("if" | "choose" | "when" | "otherwise" | "for-each"))
        });
        match around.filter(|outer| outer.xsl().is_none() && !self.is_extension(*outer)) {
            Some(outer) => {
                let outer = self.all_namespaces(outer);
                own.into_iter().filter(|namespace| !outer.contains(namespace)).collect()
            }
            None => own,
        }
    }

    fn all_namespaces(&self, e: Element<'m>) -> Vec<(Box<str>, Box<str>)> {
        let excluded = excluded(e);
        let mut list: Vec<(Box<str>, Box<str>)> = Vec::new();
        for (prefix, uri) in e.namespaces() {
            // Exclusion applies to the namespaces in the stylesheet, before aliases are applied.
            if uri == XSLT || excluded.contains(&uri) || uri.is_empty() {
                continue;
            }
            let uri = self.aliases.get(uri).map_or(uri, |alias| &*alias.uri);
            if !uri.is_empty() {
                list.push((prefix.into(), uri.into()));
            }
        }
        list
    }

    /// Returns whether an element is an extension element in this place (XSLT 1.0, 14.1).
    pub(super) fn is_extension(&self, e: Element<'m>) -> bool {
        let uri = e.name().namespace.uri;
        !uri.is_empty() && prefixes(e, "extension-element-prefixes").contains(&uri)
    }
}

/// Returns how many of `namespaces`, counted from the first, libxslt adds to a literal element. Within an instruction, libxslt adds only
/// those declared on the element itself, which come first.
fn near(e: Element<'_>, namespaces: &[(Box<str>, Box<str>)]) -> usize {
    match e.parent().and_then(Element::xsl) {
        None | Some("template") => namespaces.len(),
        Some(_) => {
            let declares = |prefix: &str| e.declared().any(|(known, _)| known == prefix);
            namespaces.iter().take_while(|(prefix, _)| declares(prefix)).count()
        }
    }
}

/// Returns the namespaces excluded from the result, including those of extensions.
fn excluded(e: Element<'_>) -> Vec<&str> {
    let mut excluded = prefixes(e, "exclude-result-prefixes");
    excluded.extend(prefixes(e, "extension-element-prefixes"));
    excluded
}

/// Returns the namespaces of the prefixes listed in an attribute, on this element and on enclosing ones.
fn prefixes<'m>(e: Element<'m>, local: &str) -> Vec<&'m str> {
    let mut uris = Vec::new();
    for element in e.ancestry() {
        let applies = element.xsl().is_none_or(|name| matches!(name, "stylesheet" | "transform"));
        let listed = element.standard(local).filter(|_| applies).unwrap_or("");
        for prefix in listed.split_ascii_whitespace() {
            let all = prefix == "#all";
            let prefix = if prefix == "#default" { "" } else { prefix };
            if all {
                uris.extend(element.namespaces().into_iter().map(|(_, uri)| uri))
            } else {
                uris.extend(element.lookup(prefix))
            }
        }
    }
    uris
}
