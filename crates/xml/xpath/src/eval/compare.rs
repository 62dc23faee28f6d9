//! Comparisons (XPath 1.0, 3.4).

use std::borrow::Cow;
use std::collections::HashSet;

use kit::turns;

use super::path::Flow;
use super::val::Val;
use crate::syntax::{Comparison, Op, Path};
use crate::{DocumentSet, Error, Evaluation, Node, text_number};

/// Steps for a text in a hash table, which costs as much as visiting some ten nodes.
const HASH_STEPS: u64 = 10;

/// Up to this number of pairs, comparing all of them is cheaper than a hash table.
const PAIRS_FEW: usize = 64;

impl<'a> Evaluation<'a> {
    /// Compares two expressions. A path is followed only until the result is known.
    pub(super) fn compare(
        &mut self,
        comparison: Comparison,
        left: &Op,
        right: &Op,
    ) -> Result<bool, Error> {
        self.charge(1)?;
        match (left, right) {
            (Op::Path(path), other) => {
                let value = self.value(other)?;
                self.compare_path(comparison, path, &value)
            }
            (other, Op::Path(path)) => {
                let value = self.value(other)?;
                self.compare_path(comparison.flipped(), path, &value)
            }
            (left, right) => {
                let left = self.value(left)?;
                let right = self.value(right)?;
                self.compare_values(comparison, &left, &right)
            }
        }
    }

    /// Returns whether the comparison holds for the value and any node of the path.
    fn compare_path(
        &mut self,
        comparison: Comparison,
        path: &Path,
        value: &Val<'_>,
    ) -> Result<bool, Error> {
        if value.as_nodes().is_some() || matches!(value, Val::Boolean(_)) {
            let nodes = Val::Nodes(self.path_nodes(path)?);
            return self.compare_values(comparison, &nodes, value);
        }
        let documents = self.documents;
        let mut found = false;
        self.path_each(path, &mut |budget, node| {
            let text = documents.string_value(node);
            let cost = 1 + documents.nodes_below(node) + text.len() as u64 / 8;
            budget.charge(cost).map_err(|kind| kind.at(path.offset))?;
            found = compare_text(comparison, &text, value);
            Ok(if found { Flow::Break(()) } else { Flow::Continue(()) })
        })?;
        Ok(found)
    }

    fn compare_values(
        &mut self,
        comparison: Comparison,
        left: &Val<'_>,
        right: &Val<'_>,
    ) -> Result<bool, Error> {
        match (left.as_nodes(), right.as_nodes()) {
            (Some(_), None) | (None, Some(_)) if is_boolean(left) || is_boolean(right) => {
                Ok(comparison.holds(number(left.to_boolean()), number(right.to_boolean())))
            }
            (Some(left), Some(right)) => self.compare_sets(comparison, left, right),
            (Some(nodes), None) => self.compare_any(comparison, nodes, right),
            (None, Some(nodes)) => self.compare_any(comparison.flipped(), nodes, left),
            (None, None) => Ok(self.compare_scalars(comparison, left, right)),
        }
    }

    fn compare_any(
        &mut self,
        comparison: Comparison,
        nodes: &[Node],
        value: &Val<'_>,
    ) -> Result<bool, Error> {
        for &node in nodes {
            let text = self.string_value(node)?;
            if compare_text(comparison, text.as_str(), value) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn compare_scalars(&mut self, comparison: Comparison, left: &Val<'_>, right: &Val<'_>) -> bool {
        let equality = matches!(comparison, Comparison::Equal | Comparison::NotEqual);
        match (left, right) {
            (Val::Boolean(_), _) | (_, Val::Boolean(_)) if equality => {
                comparison.holds(number(left.to_boolean()), number(right.to_boolean()))
            }
            (Val::Text(left), Val::Text(right)) if equality => {
                (left.as_str() == right.as_str()) == (comparison == Comparison::Equal)
            }
            _ => comparison.holds(left.to_number(self.documents), right.to_number(self.documents)),
        }
    }

    fn compare_sets(
        &mut self,
        comparison: Comparison,
        left: &[Node],
        right: &[Node],
    ) -> Result<bool, Error> {
        match comparison {
            Comparison::Equal if left.len().saturating_mul(right.len()) <= PAIRS_FEW => {
                let right = self.texts(right)?;
                Ok(self.texts(left)?.iter().any(|text| right.contains(text)))
            }
            Comparison::Equal => {
                self.charge(HASH_STEPS * (left.len() + right.len()) as u64)?;
                let mut known: HashSet<Cow<'_, str>> = HashSet::with_capacity(left.len());
                for text in self.texts(left)? {
                    turns::count_part();
                    known.insert(text);
                }
                for &node in right {
                    if known.contains(self.string_value(node)?.as_str()) {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Comparison::NotEqual => {
                // This is false only if all strings of both sets are equal.
                let (left, right) = (self.texts(left)?, self.texts(right)?);
                let (Some(one), Some(other)) = (left.first(), right.first()) else {
                    return Ok(false);
                };
                Ok(right.iter().any(|text| text != one) || left.iter().any(|text| text != other))
            }
            Comparison::Less
            | Comparison::LessEqual
            | Comparison::Greater
            | Comparison::GreaterEqual => {
                let (left, right) = (self.texts(left)?, self.texts(right)?);
                let less = matches!(comparison, Comparison::Less | Comparison::LessEqual);
                // Only the pair that is most likely to satisfy the comparison has to be tested: the least number of one side and the
                // greatest of the other.
                let pair = if less {
                    (least(&left), greatest(&right))
                } else {
                    (greatest(&left), least(&right))
                };
                Ok(matches!(pair, (Some(left), Some(right)) if comparison.holds(left, right)))
            }
        }
    }

    fn texts(&mut self, nodes: &[Node]) -> Result<Vec<Cow<'a, str>>, Error> {
        let documents: &'a DocumentSet = self.documents;
        let mut texts = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let text = documents.string_value(node);
            self.charge(1 + documents.nodes_below(node) + text.len() as u64 / 8)?;
            texts.push(text);
        }
        Ok(texts)
    }
}

impl Comparison {
    /// Returns the same comparison with its sides exchanged.
    fn flipped(self) -> Comparison {
        match self {
            Comparison::Equal => Comparison::Equal,
            Comparison::NotEqual => Comparison::NotEqual,
            Comparison::Less => Comparison::Greater,
            Comparison::LessEqual => Comparison::GreaterEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterEqual => Comparison::LessEqual,
        }
    }

    fn holds(self, left: f64, right: f64) -> bool {
        match self {
            Comparison::Equal => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterEqual => left >= right,
        }
    }
}

/// Compares the string-value of a node with a number or a string.
fn compare_text(comparison: Comparison, text: &str, value: &Val<'_>) -> bool {
    match (value, comparison) {
        (Val::Text(other), Comparison::Equal) => text == other.as_str(),
        (Val::Text(other), Comparison::NotEqual) => text != other.as_str(),
        (Val::Text(other), _) => comparison.holds(text_number(text), text_number(other.as_str())),
        (Val::Number(other), _) => comparison.holds(text_number(text), *other),
        (Val::Boolean(other), _) => comparison.holds(1.0, number(*other)),
        (Val::Nodes(_) | Val::Shared(_) | Val::Tree(_), _) => false,
    }
}

fn is_boolean(value: &Val<'_>) -> bool {
    matches!(value, Val::Boolean(_))
}

fn number(value: bool) -> f64 {
    f64::from(u8::from(value))
}

/// Returns the least number among strings.
fn least(texts: &[Cow<'_, str>]) -> Option<f64> {
    texts.iter().map(|text| text_number(text)).filter(|value| !value.is_nan()).reduce(f64::min)
}

fn greatest(texts: &[Cow<'_, str>]) -> Option<f64> {
    texts.iter().map(|text| text_number(text)).filter(|value| !value.is_nan()).reduce(f64::max)
}
