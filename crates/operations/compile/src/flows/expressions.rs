//! Compiles texts to expressions and templates.

use ::flows::FlowNames;
use config::{ExpressionLanguage, ExpressionText, Map, Spanned};
use expression::{Error, ErrorKind, Expression, Kind, Language, Template, seems_expression};
use regex::Regex;

use super::{Compiler, Namespaces};

impl Compiler<'_, '_> {
    /// Compiles an expression.
    pub(super) fn expression(
        &mut self,
        text: &ExpressionText,
        namespaces: &Namespaces,
    ) -> Option<Expression> {
        let language = match text.language {
            ExpressionLanguage::Marked => Language::Marked,
            ExpressionLanguage::XPath => Language::XPath,
            ExpressionLanguage::Json => Language::Json,
            ExpressionLanguage::Cel => Language::Cel,
            ExpressionLanguage::Text => Language::Text,
        };
        let names = FlowNames { table: self.table, variables: self.variables(), namespaces };
        let compiled = Expression::compile(&text.text.value, language, &names);
        self.warn_of_literal(text, compiled.as_ref().is_ok_and(|known| known.literal().is_some()));
        match compiled {
            Ok(expression) if text.required => Some(expression.required()),
            Ok(expression) => Some(expression),
            Err(error) => {
                self.complain(&text.text, &error);
                None
            }
        }
    }

    /// Compiles an expression that selects something in a message. A literal there is probably a mistake, so it gets a warning.
    pub(super) fn finder(
        &mut self,
        text: &ExpressionText,
        namespaces: &Namespaces,
    ) -> Option<Expression> {
        let expression = self.expression(text, namespaces)?;
        let is_literal = text.language == ExpressionLanguage::Marked
            && expression.literal().is_some_and(|text| seems_expression(text).is_none());
        if is_literal {
            self.report.warn(
                text.text.at,
                "this is plain text: an expression begins with `$`, `/` or a function such as `count(`",
                "write one such as `$body/m:id`, or `{ xpath: TEXT }`, `{ json: TEXT }` or `{ cel: TEXT }`; `{ text: TEXT }` for literal text",
            );
        }
        Some(expression)
    }

    /// Warns of a literal that looks like an expression or a template.
    fn warn_of_literal(&mut self, text: &ExpressionText, is_literal: bool) {
        let is_marked = is_literal && text.language == ExpressionLanguage::Marked;
        let Some(sign) = seems_expression(&text.text.value).filter(|_| is_marked) else { return };
        let what = format!(
            "this is literal text, so its `{sign}` is not evaluated: an expression begins with `$`, `/` or a function such as `count(`"
        );
        let help = match sign {
            "{{" => {
                "write the expression without braces, such as `$body.id`, or `concat('a ', $body.id)`; `{ text: TEXT }` for literal text"
            }
            _ => {
                "write `concat('a ', $body.id)`, `{ xpath: TEXT }` or `{ cel: TEXT }`; `{ text: TEXT }` for literal text"
            }
        };
        self.report.warn(text.text.at, what, help);
    }

    /// Compiles a template of the given kind.
    pub(super) fn template(
        &mut self,
        text: &Spanned<String>,
        kind: Kind,
        namespaces: &Namespaces,
    ) -> Option<Template> {
        let names = FlowNames { table: self.table, variables: self.variables(), namespaces };
        match Template::compile(&text.value, kind, &names) {
            Ok(template) => Some(template),
            Err(error) => {
                self.complain(text, &error);
                None
            }
        }
    }

    /// Compiles header names with templates for their values.
    pub(super) fn lines(
        &mut self,
        lines: &Map<Spanned<String>>,
        namespaces: &Namespaces,
    ) -> Option<Vec<(Box<str>, Template)>> {
        let mut read = Some(Vec::new());
        for (name, value) in lines.iter() {
            let known = crate::names::changeable_header(&name.value, name.at, self.report);
            let value = self.template(value, Kind::Line, namespaces);
            match (known, value, &mut read) {
                (Some(name), Some(value), Some(read)) => read.push((name.into(), value)),
                (None, _, _) | (_, None, _) => read = None,
                (Some(_), Some(_), None) => {}
            }
        }
        read
    }

    /// Compiles names of headers.
    pub(super) fn header_names(&mut self, names: &[Spanned<String>]) -> Option<Vec<Box<str>>> {
        let read = names.iter().map(|name| {
            crate::names::changeable_header(&name.value, name.at, self.report).map(Into::into)
        });
        read.collect::<Vec<_>>().into_iter().collect()
    }

    /// Compiles a regular expression. `help` says what to write instead.
    pub(super) fn regex(&mut self, text: &Spanned<String>, help: &str) -> Option<Regex> {
        match Regex::new(&text.value) {
            Ok(regex) => Some(regex),
            Err(error) => {
                let why = kit::regex_error::reason(&error);
                let what = format!("that is not a regular expression: {why}");
                self.report.error(text.at, what, help);
                None
            }
        }
    }

    fn complain(&mut self, text: &Spanned<String>, error: &Error) {
        let place = match error.at.offset {
            0 => String::new(),
            _ => format!(", at {} of the text", error.at),
        };
        let what = format!("{}{place}", error.kind);
        let help = help(&error.kind, self);
        self.report.error(text.at, what, help);
    }
}

fn help(kind: &ErrorKind, compiler: &Compiler<'_, '_>) -> String {
    match kind {
        ErrorKind::UnknownName(name) => unknown_name(name, compiler),
        ErrorKind::Group(_) => "write which one, such as `$headers.x-id`".to_owned(),
        ErrorKind::UndeclaredPrefix(prefix) => {
            format!("add `namespaces: {{ {prefix}: \"URI\" }}` to the flow")
        }
        ErrorKind::Misplaced(_) => "insert values only into text and attributes".to_owned(),
        ErrorKind::Syntax(_) => {
            "write a path such as `$body.items[0].price` or `$body//m:order`, or `{ text: .. }` for plain text".to_owned()
        }
        ErrorKind::Function(_)
        | ErrorKind::Type(_)
        | ErrorKind::Regex(_)
        | ErrorKind::Malformed(_)
        | ErrorKind::Limit { .. }
        | _ => "correct it".to_owned(),
    }
}

fn unknown_name(name: &str, compiler: &Compiler<'_, '_>) -> String {
    let name = name.trim_start_matches('$');
    let variables = compiler.table.names(compiler.variables());
    match compiler.report.suggest(name, variables.chain(config::RESERVED_NAMES)) {
        Some(meant) => format!("did you mean `${meant}`?"),
        None => "set it earlier with `set`, or name `$body`, `$headers.NAME`, `$path.NAME`, `$query.NAME`, `$status`, `$request.body` or `$error.code`".to_owned(),
    }
}
