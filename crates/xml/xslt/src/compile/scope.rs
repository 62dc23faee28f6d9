//! The static context of expressions at an element of the stylesheet: prefixes, variables, functions and keys.

use std::cell::RefCell;

use xpath::{ErrorKind as Kind, Expr, Lookup, Name, Options, Pattern, Statics, Unknown};

use super::element::Element;
use super::names::split_qname;
use super::{Compiler, Locals, Notes};
use crate::error::{Error, ErrorKind};
use crate::exslt;
use crate::program::{CallSite, CalledFunction, GLOBAL};

/// The static context at one element.
struct Scope<'c, 'm> {
    compiler: &'c Compiler<'m>,
    element: Element<'m>,
    locals: &'c Locals,
}

/// The context of an expression that is an error when it is evaluated: it uses an undefined variable, or failed to compile in
/// forwards-compatible mode (XSLT 1.0, 2.5).
struct FailedExpression<'c> {
    notes: &'c RefCell<Notes>,
    module: u32,
    called: CalledFunction,
}

impl Statics for Scope<'_, '_> {
    fn namespace(&self, prefix: &str) -> Option<&str> {
        self.element.lookup(prefix)
    }

    fn variable(&self, name: &Name) -> Option<u32> {
        let local = self.locals.visible.iter().rev().find(|(visible, _)| visible == name);
        if let Some((_, slot)) = local {
            return Some(*slot);
        }
        let global = *self.compiler.globals.get(name)?;
        self.compiler.notes.borrow_mut().needs.push(global);
        Some(global | GLOBAL)
    }

    fn function(&self, name: &Name, arguments: &[Option<&str>]) -> Lookup {
        let found = match &*name.uri {
            "" => self.standard(&name.local, arguments),
            uri => self.extension(uri, name, arguments.len()),
        };
        match found {
            Ok(Some((called, scoped))) => {
                let scope = if scoped { self.scope() } else { 0 };
                let call = CallSite { function: called, module: self.element.module(), scope };
                note(&self.compiler.notes, call)
            }
            Ok(None) if name.uri.is_empty() && !self.element.forwards() => {
                Lookup::WrongArguments(format!("there is no function `{}()`", name.local).into())
            }
            Ok(None) => Lookup::Unknown,
            Err(what) => Lookup::WrongArguments(what),
        }
    }

    fn key(&self, name: &Name) -> Option<u32> {
        self.compiler.program.key_names.get(name).copied()
    }

    fn options(&self) -> Options {
        // Stylesheets of a later version may use the supported functions of XPath 2.0.
        Options { xpath2: self.element.forwards(), current: true, unknown: Unknown::FailAtCall }
    }
}

fn note(notes: &RefCell<Notes>, call: CallSite) -> Lookup {
    let calls = &mut notes.borrow_mut().calls;
    calls.push(call);
    Lookup::Found(u32::try_from(calls.len() - 1).unwrap_or(u32::MAX))
}

/// Returns a function of XSLT 1.0, 12, with the least and the largest number of its arguments, and whether a call needs the prefixes in
/// scope. `later`: for a stylesheet of a later version.
fn standard(local: &str, later: bool) -> Option<(CalledFunction, (usize, usize), bool)> {
    Some(match local {
        "key" => (CalledFunction::Key(None), (2, 2), true),
        "document" => (CalledFunction::Document, (1, 2), false),
        "format-number" => (CalledFunction::FormatNumber, (2, 3), true),
        "generate-id" => (CalledFunction::GenerateId, (0, 1), false),
        "system-property" => (CalledFunction::SystemProperty, (1, 1), true),
        "element-available" => (CalledFunction::ElementAvailable, (1, 1), true),
        // The second argument is from XSLT 2.0, 18.1.1.
        "function-available" => {
            (CalledFunction::FunctionAvailable { later }, (1, if later { 2 } else { 1 }), true)
        }
        "unparsed-entity-uri" => (CalledFunction::UnparsedEntityUri, (1, 1), false),
        _ => return None,
    })
}

/// Returns the least and the largest number of arguments of a function without a namespace.
pub(crate) fn arity(local: &str, later: bool) -> Option<(usize, usize)> {
    match local {
        "current" => Some((0, 0)),
        local => standard(local, later)
            .map(|(_, arity, _)| arity)
            .or_else(|| xpath::core_arity(local, later)),
    }
}

type ResolvedCall = Result<Option<(CalledFunction, bool)>, Box<str>>;

impl Scope<'_, '_> {
    /// Resolves a function of XSLT 1.0, 12, and determines whether the call needs the prefixes in scope.
    fn standard(&self, local: &str, arguments: &[Option<&str>]) -> ResolvedCall {
        let Some((called, (least, most), scoped)) = standard(local, self.element.forwards()) else {
            return Ok(None);
        };
        if !(least..=most).contains(&arguments.len()) {
            return Err(format!("`{local}()` does not take {} arguments", arguments.len()).into());
        }
        // A literal key name is resolved at compile time.
        if let (CalledFunction::Key(None), Some(Some(literal))) = (called, arguments.first()) {
            let Some((prefix, local)) = split_qname(literal) else {
                return Err(format!("`{literal}` is not a name").into());
            };
            let uri = match prefix {
                "" => "",
                prefix => self
                    .element
                    .lookup(prefix)
                    .ok_or_else(|| format!("the prefix `{prefix}` is not declared"))?,
            };
            let number = self.key(&Name { uri: uri.into(), local: local.into() });
            return match number {
                Some(number) => Ok(Some((CalledFunction::Key(Some(number)), false))),
                None => Ok(Some((called, true))),
            };
        }
        Ok(Some((called, scoped)))
    }

    fn extension(&self, uri: &str, name: &Name, given: usize) -> ResolvedCall {
        if let Some(number) = self.compiler.functions.get(name) {
            return Ok(Some((CalledFunction::User(*number), false)));
        }
        let Some(function) = exslt::find(uri, &name.local) else { return Ok(None) };
        if (function.least..=function.most).contains(&given) {
            Ok(Some((CalledFunction::Extension(function), false)))
        } else {
            Err(format!("`{}()` does not take {given} arguments", name.local).into())
        }
    }

    fn scope(&self) -> u32 {
        self.compiler.scope_number(self.element)
    }
}

impl Statics for FailedExpression<'_> {
    fn namespace(&self, _prefix: &str) -> Option<&str> {
        None
    }

    fn variable(&self, _name: &Name) -> Option<u32> {
        None
    }

    fn function(&self, _name: &Name, _arguments: &[Option<&str>]) -> Lookup {
        let call = CallSite { function: self.called, module: self.module, scope: 0 };
        note(self.notes, call)
    }

    fn key(&self, _name: &Name) -> Option<u32> {
        None
    }

    fn options(&self) -> Options {
        Options { xpath2: false, current: true, unknown: Unknown::Refuse }
    }
}

impl<'m> Compiler<'m> {
    /// Records the prefixes in scope at an element for the run. Returns the index of the list in [`crate::program::Program::scopes`].
    pub(super) fn scope_number(&self, element: Element<'_>) -> u32 {
        let own = |(prefix, uri): (&str, &str)| (Box::from(prefix), Box::from(uri));
        let scope: Vec<_> = element.namespaces().into_iter().map(own).collect();
        let scopes = &mut self.notes.borrow_mut().scopes;
        let found = scopes.iter().rposition(|other| *other == scope);
        let at = found.unwrap_or_else(|| {
            scopes.push(scope);
            scopes.len() - 1
        });
        u32::try_from(at).unwrap_or(u32::MAX)
    }

    /// Compiles an expression.
    pub(super) fn expr(&self, e: Element<'m>, locals: &Locals, text: &str) -> Result<Expr, Error> {
        let scope = Scope { compiler: self, element: e, locals };
        Expr::compile(text, &scope).or_else(|error| {
            let wrong = || {
                let what = format!("`{}`: {error}", short(text));
                Error::new(ErrorKind::Expression(what.into()), self.at(e))
            };
            let called = if matches!(error.kind, Kind::UnknownVariable(_)) {
                CalledFunction::Missing(self.missing(wrong()))
            } else if e.forwards() && !matches!(error.kind, Kind::UndeclaredPrefix(_)) {
                CalledFunction::Broken
            } else {
                return Err(wrong());
            };
            let broken = FailedExpression { notes: &self.notes, module: e.module(), called };
            Expr::compile("broken()", &broken).map_err(|error| {
                Error::new(ErrorKind::Expression(error.to_string().into()), self.at(e))
            })
        })
    }

    /// Compiles a pattern.
    pub(super) fn pattern(
        &self,
        e: Element<'m>,
        locals: &Locals,
        text: &str,
    ) -> Result<Pattern, Error> {
        let scope = Scope { compiler: self, element: e, locals };
        Pattern::compile(text, &scope).map_err(|error| {
            let what = format!("the pattern `{}`: {error}", short(text));
            Error::new(ErrorKind::Expression(what.into()), self.at(e))
        })
    }
}

/// Shortens a text for a message.
fn short(text: &str) -> String {
    let mut chars = text.trim().chars();
    // Harmless: dots at the end show that the text is cut.
    let mut short: String = chars.by_ref().take(100).collect();
    if chars.next().is_some() {
        short.push_str("..");
    }
    short
}
