//! Functions taken from XPath 2.0. This crate has no sequences and uses node-sets instead.

use std::collections::HashSet;
use std::sync::Arc;

use super::val::{Str, Val};
use crate::regex::{Regex, Replacement};
use crate::syntax::{Core, Op};
use crate::{Error, ErrorKind, Evaluation, Node, NodeKind, text_number};

impl<'a> Evaluation<'a> {
    /// Calls a function of XPath 2.0.
    pub(super) fn more<'v>(
        &mut self,
        function: Core,
        arguments: &'v [Op],
        offset: u32,
    ) -> Result<Val<'v>, Error>
    where
        'a: 'v,
    {
        match (function, arguments) {
            (Core::UpperCase, [text]) => self.cased(text, str::to_uppercase),
            (Core::LowerCase, [text]) => self.cased(text, str::to_lowercase),
            (Core::StringJoin, [nodes]) => self.join(nodes, None),
            (Core::StringJoin, [nodes, between]) => self.join(nodes, Some(between)),
            (Core::Abs, [value]) => Ok(Val::Number(self.number(value)?.abs())),
            (Core::Min, [values]) => Ok(Val::Number(self.reduce(values, f64::min)?.0)),
            (Core::Max, [values]) => Ok(Val::Number(self.reduce(values, f64::max)?.0)),
            (Core::Avg, [values]) => {
                let (sum, count) = self.reduce(values, |sum, value| sum + value)?;
                Ok(Val::Number(sum / count))
            }
            (Core::DistinctValues, [nodes]) => Ok(Val::Nodes(self.distinct_values(nodes)?)),
            (Core::Exists, [nodes]) => Ok(Val::Boolean(self.first(nodes)?.is_some())),
            (Core::Empty, [nodes]) => Ok(Val::Boolean(self.first(nodes)?.is_none())),
            (Core::Tokenize, [text]) => {
                let text = self.text(text)?;
                let tokens = text.as_str().split_ascii_whitespace();
                self.tokens(tokens, offset)
            }
            (Core::Matches, [text, pattern, flags @ ..]) => {
                let text = self.text(text)?;
                let regex = self.regex(pattern, flags.first(), offset)?;
                self.searches(text.as_str(), pattern)?;
                Ok(Val::Boolean(regex.is_match(text.as_str())))
            }
            (Core::Tokenize, [text, pattern, flags @ ..]) => {
                let text = self.text(text)?;
                let regex = self.regex(pattern, flags.first(), offset)?;
                self.searches(text.as_str(), pattern)?;
                refuse_empty(&regex, pattern).map_err(|kind| kind.at(offset))?;
                let tokens = regex.split(text.as_str());
                self.tokens(tokens.into_iter(), offset)
            }
            (Core::Replace, [text, pattern, replacement, flags @ ..]) => {
                let text = self.text(text)?;
                let regex = self.regex(pattern, flags.first(), offset)?;
                let replacement = self.text(replacement)?;
                let wrong = |kind: ErrorKind| kind.at(offset);
                let replacement = Replacement::parse(replacement.as_str()).map_err(wrong)?;
                refuse_empty(&regex, pattern).map_err(wrong)?;
                self.searches(text.as_str(), pattern)?;
                let max = self.budget.limits().text_bytes_max;
                let replaced = regex.replace(text.as_str(), &replacement, max).map_err(wrong)?;
                self.makes(replaced.len())?;
                Ok(Val::Text(Str::Owned(replaced)))
            }
            (function, arguments) => {
                let name = function.name();
                Err(ErrorKind::Arity { function: name.into(), given: arguments.len() }.at(offset))
            }
        }
    }

    /// Charges for a search, which is linear in the text: one step for each byte if the pattern is a literal, otherwise 64, because a
    /// pattern from a message may be constructed to be slow.
    fn searches(&mut self, text: &str, pattern: &Op) -> Result<(), Error> {
        let each = if matches!(pattern, Op::Pattern(_)) { 1 } else { 64 };
        self.charge(1 + each * text.len() as u64)
    }

    /// Returns a compiled pattern. Compiling one during the evaluation is expensive, so at least 500 steps are charged for each byte, but
    /// not more than a million in all.
    fn regex(
        &mut self,
        pattern: &Op,
        flags: Option<&Op>,
        offset: u32,
    ) -> Result<Arc<Regex>, Error> {
        if let Op::Pattern(regex) = pattern {
            return Ok(Arc::clone(regex));
        }
        let pattern = self.text(pattern)?;
        let flags = match flags {
            Some(flags) => self.text(flags)?,
            None => Str::Borrowed(""),
        };
        // A category inside a repetition takes a thousand states for each copy. The limit on the compiled size bounds the time to about
        // five milliseconds.
        let counted = pattern.as_str().contains(['{', '\\']);
        let each = if counted { 20_000 } else { 500 };
        self.charge((1000 + each * pattern.as_str().len() as u64).min(1_000_000))?;
        let regex = Regex::new(pattern.as_str(), flags.as_str());
        regex.map(Arc::new).map_err(|_| computed_pattern("is not valid").at(offset))
    }

    fn cased<'v>(
        &mut self,
        text: &Op,
        change: impl FnOnce(&str) -> String,
    ) -> Result<Val<'v>, Error> {
        let text = self.text(text)?;
        self.makes(text.as_str().len())?;
        Ok(Val::Text(Str::Owned(change(text.as_str()))))
    }

    fn join<'v>(&mut self, nodes: &Op, between: Option<&Op>) -> Result<Val<'v>, Error> {
        let nodes = self.nodes(nodes)?;
        let between = match between {
            Some(between) => self.text(between)?,
            None => Str::Borrowed(""),
        };
        let mut whole = String::new();
        for (place, node) in nodes.into_iter().enumerate() {
            if place > 0 {
                whole.push_str(between.as_str());
            }
            let text = self.string_value(node)?;
            self.makes(whole.len() + text.as_str().len())?;
            whole.push_str(text.as_str());
        }
        Ok(Val::Text(Str::Owned(whole)))
    }

    /// Combines the numbers of a node-set, or of a single number. Returns the result with their count. The result is NaN if there are no
    /// numbers, or if any of them is NaN.
    fn reduce(&mut self, op: &Op, join: impl Fn(f64, f64) -> f64) -> Result<(f64, f64), Error> {
        let value = self.value(op)?;
        let Some(nodes) = value.as_nodes() else {
            return Ok((value.to_number(self.documents), 1.0));
        };
        let mut result = None;
        let mut count = 0.0;
        for &node in nodes {
            let number = text_number(self.string_value(node)?.as_str());
            result = Some(match result {
                Some(result) if f64::is_nan(result) || number.is_nan() => f64::NAN,
                Some(result) => join(result, number),
                None => number,
            });
            count += 1.0;
        }
        Ok((result.unwrap_or(f64::NAN), count))
    }

    /// Returns the first node for each distinct string-value.
    fn distinct_values(&mut self, op: &Op) -> Result<Vec<Node>, Error> {
        let mut seen = HashSet::new();
        let mut kept = Vec::new();
        for node in self.nodes(op)? {
            let text = self.documents.string_value(node);
            self.charge(10 + self.documents.nodes_below(node) + text.len() as u64 / 8)?;
            if seen.insert(text) {
                kept.push(node);
            }
        }
        Ok(kept)
    }

    /// Creates a document of `token` elements and returns them as a node-set.
    fn tokens<'v, 't>(
        &mut self,
        tokens: impl Iterator<Item = &'t str>,
        offset: u32,
    ) -> Result<Val<'v>, Error> {
        let wrong = |_| ErrorKind::Type("the tokens do not fit in a document".into()).at(offset);
        let mut builder = xml::Builder::new();
        for token in tokens {
            self.makes(token.len())?;
            builder.start("", "token", "").map_err(wrong)?;
            builder.text(token).map_err(wrong)?;
            builder.end().map_err(wrong)?;
        }
        let document = builder.finish();
        let doc = self.documents.add(Arc::new(document)).map_err(|kind| kind.at(offset))?;
        let root = Node::new(doc, xml::Document::ROOT);
        let documents = self.documents;
        let nodes: Vec<Node> =
            documents.of(root).children(root.id).map(|id| root.with(id)).collect();
        debug_assert!(
            nodes.iter().all(|&node| documents.kind(node) == NodeKind::Element),
            "tokens are elements"
        );
        self.budget.nodes(nodes.len()).map_err(|kind| kind.at(offset))?;
        Ok(Val::Nodes(nodes))
    }
}

/// Refuses a pattern that matches the empty string.
fn refuse_empty(regex: &Regex, pattern: &Op) -> Result<(), ErrorKind> {
    let is_literal = matches!(pattern, Op::Pattern(_));
    regex.refuse_empty().map_err(|quoting| {
        if is_literal { quoting } else { computed_pattern("matches the empty string") }
    })
}

/// Returns the error for a pattern that is not a literal. It may come from a message, whose values are in no error, so it is not quoted.
fn computed_pattern(why: &str) -> ErrorKind {
    ErrorKind::Regex(format!("the computed regular expression {why}").into())
}
