//! Functions that XSLT adds to XPath (XSLT 1.0, 12 and 15).

use std::collections::HashSet;

use xpath::{Call, Name, Node, Value};

use super::{DocumentsHandle, Machine, Reach, dynamic, no_nodes};
use crate::compile::{self, XSLT, split_qname};
use crate::decimal::{DecimalFormat, Rounding};
use crate::error::Error;
use crate::exslt;
use crate::program::{CallSite, CalledFunction};

/// Result of `system-property('xsl:vendor')`.
const VENDOR: &str = "Tidegate";

/// Returns whether a name is that of a supported instruction, for `element-available()`.
fn is_element(name: &Name) -> bool {
    if *name.uri == *XSLT {
        return compile::is_instruction(&name.local);
    }
    *name.uri == *compile::FUNCTIONS && &*name.local == "result"
}

impl Machine<'_> {
    pub(super) fn function(
        &mut self,
        site: CallSite,
        arguments: &mut Vec<Value>,
        call: &mut Call<'_>,
    ) -> Result<Value, Error> {
        let text = |at: usize| {
            let value = arguments.get(at);
            // Harmless: a missing argument is an empty string.
            value.map(|value| value.to_text(call.documents).into_owned()).unwrap_or_default()
        };
        match site.function {
            CalledFunction::Key(number) => self.key_call(number, site, arguments, call),
            CalledFunction::Document => {
                let Some(value) = arguments.first() else { return Ok(no_nodes()) };
                let base = arguments.get(1);
                let documents = DocumentsHandle::Lent(call.documents);
                let mut reach = Reach { documents, budget: &mut *call.budget };
                self.document_call(value, base, site.module, &mut reach)
            }
            CalledFunction::FormatNumber => {
                let number =
                    arguments.first().map_or(f64::NAN, |value| value.to_number(call.documents));
                let name = arguments.get(2).map(|_| text(2));
                self.format_number(number, &text(1), name.as_deref(), site)
            }
            CalledFunction::GenerateId => {
                let node = match arguments.first() {
                    None => Some(call.focus.node),
                    Some(value) => match value.as_nodes() {
                        Some(nodes) => nodes.first().copied(),
                        None => {
                            return Err(dynamic(
                                "the argument of generate-id() must be a node-set",
                            ));
                        }
                    },
                };
                // Harmless: XSLT specifies an empty string for an empty node-set (12.4).
                Ok(Value::text(node.map(|node| identity(node, call)).unwrap_or_default()))
            }
            CalledFunction::SystemProperty => Ok(property(&self.runtime_name(&text(0), site)?)),
            CalledFunction::ElementAvailable => {
                let name = self.runtime_name(&text(0), site)?;
                Ok(Value::Boolean(is_element(&name)))
            }
            CalledFunction::FunctionAvailable { later } => {
                let name = self.runtime_name(&text(0), site)?;
                let asked = arguments.get(1).map(|value| value.to_number(call.documents));
                let found = self.arity(&name, later);
                Ok(Value::Boolean(found.is_some_and(|(least, most)| takes(least, most, asked))))
            }
            CalledFunction::UnparsedEntityUri => {
                let document = call.documents.of(call.focus.node);
                Ok(Value::text(document.unparsed_entity(&text(0)).unwrap_or("")))
            }
            CalledFunction::Extension(function) => {
                let code = function.code;
                let mut inputs = self.given.inputs;
                let result = code(arguments, call, &mut inputs);
                self.given.inputs = inputs;
                result.map_err(|kind| self.fault_kind(kind))
            }
            CalledFunction::User(number) => self.user(number, arguments, call),
            CalledFunction::Missing(number) => Err(self.missing(number)),
            CalledFunction::Broken => Err(dynamic("this expression is not valid in XPath 1.0")),
        }
    }

    /// Returns the least and the largest number of arguments of a function, or `None` if it is not available.
    fn arity(&self, name: &Name, later: bool) -> Option<(usize, usize)> {
        if name.uri.is_empty() {
            return compile::arity(&name.local, later);
        }
        let user = self.given.program.functions.iter().find(|function| function.name == *name);
        user.map(|function| (0, function.params.len())).or_else(|| {
            exslt::find(&name.uri, &name.local).map(|function| (function.least, function.most))
        })
    }

    /// Resolves a QName at run time, in the scope of the call.
    fn runtime_name(&self, text: &str, site: CallSite) -> Result<Name, Error> {
        let text = text.trim();
        let Some((prefix, local)) = split_qname(text) else {
            return Err(dynamic(format!("`{text}` is not a name")));
        };
        let scope = self.given.program.scopes.get(site.scope as usize);
        let found = scope.and_then(|scope| scope.iter().find(|(known, _)| **known == *prefix));
        let uri = match (prefix, found) {
            ("", _) => "",
            (_, Some((_, uri))) => uri,
            (_, None) => return Err(dynamic(format!("the prefix `{prefix}` is not declared"))),
        };
        Ok(Name { uri: uri.into(), local: local.into() })
    }

    fn key_call(
        &mut self,
        number: Option<u32>,
        site: CallSite,
        arguments: &[Value],
        call: &mut Call<'_>,
    ) -> Result<Value, Error> {
        let [name, value] = arguments else { return Ok(no_nodes()) };
        let number = match number {
            Some(number) => number,
            None => {
                let text = name.to_text(call.documents).into_owned();
                let name = self.runtime_name(&text, site)?;
                match self.given.program.key_names.get(&name) {
                    Some(number) => *number,
                    None => return Err(dynamic(format!("there is no key `{text}`"))),
                }
            }
        };
        let doc = call.focus.node.doc;
        let documents = call.documents;
        let mut reach =
            Reach { documents: DocumentsHandle::Lent(documents), budget: &mut *call.budget };
        let Value::Nodes(nodes) = value else {
            let text = value.to_text(documents).into_owned();
            return self.keyed(number, &text, doc, &mut reach).map(Value::Nodes);
        };
        // Each value is looked up only once, however many nodes have it, and the nodes found are charged. Otherwise many nodes with the
        // same value would take quadratic time.
        let (mut all, mut asked) = (Vec::new(), HashSet::new());
        for node in nodes.iter() {
            let text = documents.string_value(*node);
            if !asked.insert(text.clone()) {
                continue;
            }
            let found = self.keyed(number, &text, doc, &mut reach)?;
            let charged = reach.budget.charge(1 + found.len() as u64);
            charged.map_err(|error| self.fault_kind(error))?;
            all.extend_from_slice(&found);
        }
        Ok(Value::nodes(all))
    }

    fn missing(&self, number: u32) -> Error {
        let missing = self.given.program.missing.get(number as usize);
        // Harmless: each number belongs to an error.
        dynamic(missing.map(|error| error.kind.to_string()).unwrap_or_default())
    }

    fn format_number(
        &self,
        number: f64,
        pattern: &str,
        name: Option<&str>,
        site: CallSite,
    ) -> Result<Value, Error> {
        let name = match name {
            Some(text) => self.runtime_name(text, site)?,
            None => Name { uri: "".into(), local: "".into() },
        };
        let usual = DecimalFormat::default();
        let format = match self.given.program.formats.get(&name) {
            Some(format) => format,
            None if name.local.is_empty() => &usual,
            None => return Err(dynamic(format!("there is no decimal format `{}`", name.local))),
        };
        let rounding = if self.given.libxslt { Rounding::Up } else { Rounding::ToEven };
        format.format(number, pattern, rounding).map(Value::text).map_err(dynamic)
    }

    /// Calls a function of the stylesheet.
    fn user(
        &mut self,
        number: u32,
        arguments: &mut Vec<Value>,
        call: &mut Call<'_>,
    ) -> Result<Value, Error> {
        let Some(function) = self.given.program.functions.get(number as usize) else {
            return Ok(no_nodes());
        };
        if arguments.len() > function.params.len() {
            let name = &function.name.local;
            return Err(dynamic(format!("`{name}()` takes fewer arguments")));
        }
        // Harmless: parameters without an argument use their default.
        let given = function.params.iter().copied().zip(arguments.drain(..)).collect();
        let mut reach =
            Reach { documents: DocumentsHandle::Lent(call.documents), budget: &mut *call.budget };
        self.run_entry(function.entry, call.focus, given, &mut reach)
    }
}

/// Returns whether a function takes this number of arguments, or any if none is asked for.
fn takes(least: usize, most: usize, asked: Option<f64>) -> bool {
    asked.is_none_or(|asked| {
        // Harmless: other numbers are not numbers of arguments.
        let asked = format!("{asked}").parse::<usize>().ok();
        asked.is_some_and(|asked| (least..=most).contains(&asked))
    })
}

/// Evaluates `system-property()` (XSLT 1.0, 12.4).
fn property(name: &Name) -> Value {
    match (&*name.uri, &*name.local) {
        (XSLT, "version") => Value::Number(1.0),
        (XSLT, "vendor") => Value::text(VENDOR),
        (XSLT, "vendor-url") => Value::text("https://github.com/tidegate/tidegate"),
        _ => Value::text(""),
    }
}

/// Returns an identifier for a node, which is constant and unique during the run.
fn identity(node: Node, call: &Call<'_>) -> String {
    // The numbers of documents are reused, but ids may be kept longer than the nodes: in a result, or in a text.
    let serial = call.documents.serial(node.doc);
    if node.is_namespace() {
        let prefix = call.documents.namespace(node).map_or("", |(prefix, _)| prefix);
        format!("id{serial}x{}n{prefix}", node.id.0)
    } else {
        format!("id{serial}x{}", node.id.0)
    }
}
