//! Evaluation: segments applied to lists of nodes.

use std::borrow::Cow;

use json::Kind;

use crate::jsonpath::iregexp::{self, Regex, Translation};
use crate::jsonpath::operand::{Operand, operand};
use crate::jsonpath::{
    Comparable, Comparison, Inner, Logical, Path, Pattern, Segment, Selector, compare,
};
use crate::tape::{Children, JsonNode, JsonText};
use crate::{Budget, FailureKind};

/// The state of one evaluation.
pub(super) struct Run<'r> {
    pub(super) text: &'r JsonText,
    root: JsonNode,
    pub(super) budget: &'r mut Budget,
    /// The most recent pattern that came from the message. It is kept because the next node usually has the same pattern.
    pattern: Option<FoundPattern>,
}

/// A pattern that came from a message.
struct FoundPattern {
    text: String,
    whole: bool,
    /// The compiled pattern, or `None` if it is invalid and matches nothing.
    regex: Option<Regex>,
    /// Number of steps for matching one byte.
    steps: u64,
}

/// Maximum number of steps for compiling a pattern, and for matching one text. The evaluation cannot pause during either, so the limit
/// bounds how long other tasks wait: about five milliseconds. Applies only to patterns that come from a message.
const PATTERN_STEPS_MAX: u64 = 1_000_000;

impl<'r> Run<'r> {
    pub(super) fn new(text: &'r JsonText, root: JsonNode, budget: &'r mut Budget) -> Run<'r> {
        Run { text, root, budget, pattern: None }
    }

    /// Returns the nodes that the segments select, starting from a node.
    pub(super) fn path(
        &mut self,
        path: &Path,
        from: JsonNode,
    ) -> Result<Vec<JsonNode>, FailureKind> {
        let mut nodes = vec![from];
        for segment in &path.segments {
            let mut found = Vec::new();
            for node in nodes {
                if segment.descends {
                    self.descend(segment, node, &mut found)?
                } else {
                    self.select(segment, node, &mut found)?
                }
            }
            nodes = found;
        }
        Ok(nodes)
    }

    /// Applies a segment to a node and then to all its descendants, in document order. Uses an explicit stack.
    fn descend(
        &mut self,
        segment: &Segment,
        node: JsonNode,
        found: &mut Vec<JsonNode>,
    ) -> Result<(), FailureKind> {
        let text = self.text;
        self.select(segment, node, found)?;
        let mut open: Vec<Children<'_>> = vec![text.children(node)];
        while let Some(children) = open.last_mut() {
            self.budget.charge(1)?;
            match children.next() {
                None => drop(open.pop()),
                Some((_, child)) if matches!(text.kind(child), Kind::Object | Kind::Array) => {
                    self.select(segment, child, found)?;
                    open.push(text.children(child));
                    self.budget.depth(open.len())?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn select(
        &mut self,
        segment: &Segment,
        node: JsonNode,
        found: &mut Vec<JsonNode>,
    ) -> Result<(), FailureKind> {
        let count = self.text.count(node);
        self.budget.charge(1)?;
        for selector in &segment.selectors {
            match selector {
                Selector::Name(name) => {
                    self.budget.charge(u64::from(count))?;
                    found.extend(self.text.member(node, name));
                }
                Selector::Index(index) => {
                    let walked = if *index < 0 { u64::MAX } else { index.unsigned_abs() };
                    self.budget.charge(walked.min(u64::from(count)))?;
                    found.extend(self.text.item(node, *index));
                }
                Selector::Wildcard => {
                    self.budget.charge(u64::from(count))?;
                    found.extend(self.text.children(node).map(|(_, child)| child));
                }
                Selector::Slice { start, end, step } => {
                    self.slice(node, *start, *end, *step, found)?;
                }
                Selector::Filter(logical) => {
                    for (_, child) in self.text.children(node) {
                        if self.holds(logical, child)? {
                            found.push(child);
                        }
                        self.budget.results(found.len())?;
                    }
                }
            }
            self.budget.results(found.len())?;
        }
        Ok(())
    }

    /// Selects a slice (RFC 9535, 2.3.4.2.2).
    fn slice(
        &mut self,
        node: JsonNode,
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
        found: &mut Vec<JsonNode>,
    ) -> Result<(), FailureKind> {
        if self.text.kind(node) != Kind::Array || step == 0 {
            return Ok(());
        }
        self.budget.charge(u64::from(self.text.count(node)))?;
        let items: Vec<JsonNode> = self.text.children(node).map(|(_, item)| item).collect();
        let len = i64::from(self.text.count(node));
        let place = |index: i64| if index < 0 { len + index } else { index };
        let forward = step > 0;
        let (first, last) = if forward {
            (start.map_or(0, place), end.map_or(len, place))
        } else {
            (start.map_or(len - 1, place), end.map_or(-1, place))
        };
        let (mut at, stop) = if forward {
            (first.clamp(0, len), last.clamp(0, len))
        } else {
            (first.clamp(-1, len - 1), last.clamp(-1, len - 1))
        };
        while if forward { at < stop } else { at > stop } {
            // Harmless: an index before the first item selects nothing.
            let item = usize::try_from(at).ok().and_then(|at| items.get(at));
            found.extend(item);
            at = at.saturating_add(step);
        }
        Ok(())
    }

    /// Returns true if a filter holds for a value.
    fn holds(&mut self, logical: &Logical, current: JsonNode) -> Result<bool, FailureKind> {
        self.budget.charge(1)?;
        match logical {
            Logical::Any(any) => {
                for logical in any {
                    if self.holds(logical, current)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Logical::All(all) => {
                for logical in all {
                    if !self.holds(logical, current)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Logical::Not(inner) => Ok(!self.holds(inner, current)?),
            Logical::Exists(inner) => Ok(!self.inner(inner, current)?.is_empty()),
            Logical::Compare(comparison, left, right) => {
                self.compare(*comparison, left, right, current)
            }
            Logical::Match { text, pattern, whole } => self.matches(text, pattern, *whole, current),
        }
    }

    fn inner(&mut self, inner: &Inner, current: JsonNode) -> Result<Vec<JsonNode>, FailureKind> {
        let from = if inner.from_root { self.root } else { current };
        self.path(&inner.path, from)
    }

    fn compare(
        &mut self,
        comparison: Comparison,
        left: &Comparable,
        right: &Comparable,
        current: JsonNode,
    ) -> Result<bool, FailureKind> {
        let left = self.operand(left, current)?;
        let right = self.operand(right, current)?;
        Ok(match comparison {
            Comparison::Equal => compare::equal(self.text, self.budget, &left, &right)?,
            Comparison::NotEqual => !compare::equal(self.text, self.budget, &left, &right)?,
            Comparison::Less => compare::less(self.budget, &left, &right)?,
            Comparison::Greater => compare::less(self.budget, &right, &left)?,
            Comparison::LessEqual => {
                compare::less(self.budget, &left, &right)?
                    || compare::equal(self.text, self.budget, &left, &right)?
            }
            Comparison::GreaterEqual => {
                compare::less(self.budget, &right, &left)?
                    || compare::equal(self.text, self.budget, &left, &right)?
            }
        })
    }

    fn operand<'o>(
        &mut self,
        comparable: &'o Comparable,
        current: JsonNode,
    ) -> Result<Operand<'o>, FailureKind>
    where
        'r: 'o,
    {
        let text = self.text;
        Ok(match comparable {
            Comparable::Null => Operand::Null,
            Comparable::Boolean(yes) => Operand::Boolean(*yes),
            Comparable::Number(number) => Operand::Number(Cow::Borrowed(number)),
            Comparable::Text(text) => Operand::Text(Cow::Borrowed(text)),
            Comparable::Query(inner) => match self.inner(inner, current)?.first() {
                Some(node) => operand(text, *node),
                None => Operand::Nothing,
            },
            Comparable::Value(inner) => match *self.inner(inner, current)? {
                [node] => operand(text, node),
                _ => Operand::Nothing,
            },
            Comparable::Count(inner) => {
                let count = self.inner(inner, current)?.len();
                Operand::Number(Cow::Owned(count.to_string()))
            }
            Comparable::Length(inner) => match self.operand(inner, current)? {
                Operand::Text(text) => {
                    self.budget.text(text.len())?;
                    Operand::Number(Cow::Owned(text.chars().count().to_string()))
                }
                Operand::Node(node) => {
                    self.budget.charge(u64::from(text.count(node)))?;
                    Operand::Number(Cow::Owned(text.children(node).count().to_string()))
                }
                Operand::Nothing | Operand::Null | Operand::Boolean(_) | Operand::Number(_) => {
                    Operand::Nothing
                }
            },
        })
    }

    fn matches(
        &mut self,
        text: &Comparable,
        pattern: &Pattern,
        whole: bool,
        current: JsonNode,
    ) -> Result<bool, FailureKind> {
        let Operand::Text(text) = self.operand(text, current)? else { return Ok(false) };
        // The engine takes one step for each byte of a text.
        self.budget.charge(1 + text.len() as u64)?;
        let pattern = match pattern {
            Pattern::Known(regex) => return Ok(regex.matches(&text)),
            Pattern::Found(found) => found,
        };
        let Operand::Text(found) = self.operand(pattern, current)? else { return Ok(false) };
        let known = self.pattern.take();
        let known = known.filter(|known| known.text == *found && known.whole == whole);
        let pattern = match known {
            Some(known) => known,
            None => self.compile(found.into_owned(), whole)?,
        };
        let steps = pattern.steps.saturating_mul(1 + text.len() as u64);
        self.charge_pattern(steps)?;
        let matches = pattern.regex.as_ref().is_some_and(|regex| regex.matches(&text));
        self.pattern = Some(pattern);
        Ok(matches)
    }

    /// Compiles a pattern that came from a message.
    fn compile(&mut self, text: String, whole: bool) -> Result<FoundPattern, FailureKind> {
        self.charge_pattern(text.len() as u64)?;
        let translation = Translation::of(&text, whole);
        let mut pattern = FoundPattern { text, whole, regex: None, steps: 0 };
        let Some(translation) = translation else { return Ok(pattern) };
        if iregexp::is_too_long(&pattern.text) {
            let max = iregexp::PATTERN_BYTES_MAX as u64;
            return Err(FailureKind::Limit { name: "bytes of a pattern of the message", max });
        }
        self.charge_pattern(translation.steps)?;
        pattern.regex = match translation.compile() {
            Ok(regex) => Some(regex),
            Err(regex::Error::CompiledTooBig(_)) => {
                let max = iregexp::COMPILED_BYTES_MAX as u64;
                return Err(FailureKind::Limit {
                    name: "bytes of a compiled pattern of the message",
                    max,
                });
            }
            Err(_) => None,
        };
        // For each byte, the engine usually follows one state, and in the worst case all. This estimate lies in between.
        pattern.steps = 1 + translation.steps / 256;
        Ok(pattern)
    }

    fn charge_pattern(&mut self, steps: u64) -> Result<(), FailureKind> {
        if steps > PATTERN_STEPS_MAX { Err(pattern_over()) } else { self.budget.charge(steps) }
    }
}

fn pattern_over() -> FailureKind {
    FailureKind::Limit { name: "steps of a pattern of the message", max: PATTERN_STEPS_MAX }
}
