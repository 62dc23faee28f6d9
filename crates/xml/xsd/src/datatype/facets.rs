//! The compiled facets of a type, and their check against values.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::sync::Arc;

use super::fail::Fail;
use super::kind::FacetKind;
use super::names::NameScope;
use super::value::{Atom, Value};
use crate::regex::{Regex, Steps, TooCostly};

/// The facets in force: those of the last derivation step and the inherited ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facets {
    pub(crate) length: Option<u64>,
    pub(crate) min_length: Option<u64>,
    pub(crate) max_length: Option<u64>,
    pub(crate) total_digits: Option<u64>,
    pub(crate) fraction_digits: Option<u64>,
    pub(crate) min: Option<Bound>,
    pub(crate) max: Option<Bound>,
    /// One entry for each derivation step with patterns. All have to match.
    pub(crate) patterns: Vec<Arc<Pattern>>,
    pub(crate) enumeration: Option<Arc<Enumeration>>,
    /// One bit for each kind of facet that is fixed.
    pub(crate) fixed: u16,
}

/// The patterns of one derivation step, at least one of which has to match.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) regex: Regex,
    /// The patterns as written.
    pub(crate) sources: Box<[Box<str>]>,
}

/// A bound of an ordered type.
#[derive(Debug, Clone)]
pub(crate) struct Bound {
    pub(crate) value: Value,
    pub(crate) inclusive: bool,
    /// The value, if it is an integer that fits a machine word.
    pub(crate) small: Option<i64>,
    /// The value as written.
    pub(crate) literal: Box<str>,
}

/// The values an enumeration allows.
#[derive(Debug, Default)]
pub(crate) struct Enumeration {
    values: HashSet<Value>,
    /// The texts in sorted order, if the values are strings. They are looked up without creating a value.
    texts: Box<[Box<str>]>,
    /// The first values in readable form, in the order written.
    pub(crate) listed: Box<[Box<str>]>,
}

/// Maximum number of enumeration values in a message.
pub(crate) const LISTED_MAX: usize = 100;

/// Lists up to this length are searched linearly.
const SCANNED_MAX: usize = 8;

impl Facets {
    /// Checks an atomic value. `text` is its literal with normalised white space.
    pub(crate) fn check(
        &self,
        atom: &Atom<'_>,
        text: &str,
        names: &dyn NameScope,
    ) -> Result<(), Fail> {
        self.check_patterns(text, names)?;
        self.check_value(atom)
    }

    /// Checks everything except patterns.
    pub(crate) fn check_value(&self, atom: &Atom<'_>) -> Result<(), Fail> {
        if self.length.is_some() || self.min_length.is_some() || self.max_length.is_some() {
            atom.len().map_or(Ok(()), |len| self.check_length(len))?;
        }
        if let Atom::Decimal(decimal) = atom {
            if self.total_digits.is_some_and(|max| decimal.total_digits() > max) {
                return Err(Fail::Facet(FacetKind::TotalDigits));
            }
            if self.fraction_digits.is_some_and(|max| decimal.fraction_digits() > max) {
                return Err(Fail::Facet(FacetKind::FractionDigits));
            }
        }
        if self.min.is_some() || self.max.is_some() {
            self.check_bounds(atom)?;
        }
        match &self.enumeration {
            Some(enumeration) if !enumeration.has_atom(atom) => {
                Err(Fail::Facet(FacetKind::Enumeration))
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn check_patterns(&self, text: &str, names: &dyn NameScope) -> Result<(), Fail> {
        for pattern in &self.patterns {
            match pattern.matches(text, names) {
                Ok(true) => {}
                Ok(false) => return Err(Fail::Facet(FacetKind::Pattern)),
                Err(TooCostly) => return Err(Fail::TooCostly),
            }
        }
        Ok(())
    }

    pub(crate) fn check_length(&self, len: u64) -> Result<(), Fail> {
        if self.length.is_some_and(|wanted| len != wanted) {
            return Err(Fail::Facet(FacetKind::Length));
        }
        if self.min_length.is_some_and(|min| len < min) {
            return Err(Fail::Facet(FacetKind::MinLength));
        }
        if self.max_length.is_some_and(|max| len > max) {
            return Err(Fail::Facet(FacetKind::MaxLength));
        }
        Ok(())
    }

    /// Returns the value of a facet in readable form.
    pub(crate) fn literal(&self, kind: FacetKind) -> Option<String> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let bound = |bound: &Option<Bound>| bound.as_ref().map(|bound| bound.literal.to_string());
        match kind {
            FacetKind::Length => number(self.length),
            FacetKind::MinLength => number(self.min_length),
            FacetKind::MaxLength => number(self.max_length),
            FacetKind::TotalDigits => number(self.total_digits),
            FacetKind::FractionDigits => number(self.fraction_digits),
            FacetKind::MinInclusive | FacetKind::MinExclusive => bound(&self.min),
            FacetKind::MaxInclusive | FacetKind::MaxExclusive => bound(&self.max),
            FacetKind::Pattern | FacetKind::Enumeration | FacetKind::WhiteSpace => None,
        }
    }

    fn check_bounds(&self, atom: &Atom<'_>) -> Result<(), Fail> {
        let small = match atom {
            Atom::Decimal(decimal) => decimal.small(),
            Atom::Text { .. }
            | Atom::Boolean(_)
            | Atom::Float(_)
            | Atom::Double(_)
            | Atom::Duration(_)
            | Atom::DateTime(_)
            | Atom::Hex(_)
            | Atom::Base64 { .. }
            | Atom::Name { .. } => None,
        };
        if let Some(min) = &self.min
            && !min.allows(atom, small, Ordering::Greater)
        {
            return Err(Fail::Facet(min.min_kind()));
        }
        if let Some(max) = &self.max
            && !max.allows(atom, small, Ordering::Less)
        {
            return Err(Fail::Facet(max.max_kind()));
        }
        Ok(())
    }
}

impl Pattern {
    /// Returns whether one of the patterns matches the whole text.
    pub(crate) fn matches(&self, text: &str, names: &dyn NameScope) -> Result<bool, TooCostly> {
        match names.pattern_budget() {
            Some(steps) => self.regex.matches(text, steps),
            None => self.regex.matches(text, &Steps::default()),
        }
    }

    /// Returns all patterns, for messages.
    pub(crate) fn source(&self) -> String {
        self.sources.join(" | ")
    }
}

impl Bound {
    pub(crate) fn new(value: Value, inclusive: bool, literal: &str) -> Bound {
        let small = match &value {
            Value::Decimal(decimal) => decimal.borrow().small(),
            Value::Text { .. }
            | Value::Boolean(_)
            | Value::Float(_)
            | Value::Double(_)
            | Value::Duration(_)
            | Value::DateTime(_)
            | Value::Bytes { .. }
            | Value::Name { .. }
            | Value::List(_) => None,
        };
        Bound { value, inclusive, small, literal: literal.into() }
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.literal.starts_with('-')
    }

    pub(crate) fn min_kind(&self) -> FacetKind {
        if self.inclusive { FacetKind::MinInclusive } else { FacetKind::MinExclusive }
    }

    pub(crate) fn max_kind(&self) -> FacetKind {
        if self.inclusive { FacetKind::MaxInclusive } else { FacetKind::MaxExclusive }
    }

    /// Returns whether a value is on the given side of the bound, or equal to an inclusive bound. A value that is not comparable is not
    /// allowed.
    fn allows(&self, atom: &Atom<'_>, small: Option<i64>, side: Ordering) -> bool {
        let order = match (small, self.small) {
            (Some(value), Some(bound)) => Some(value.cmp(&bound)),
            _ => atom.order(&self.value),
        };
        order == Some(side) || self.inclusive && order == Some(Ordering::Equal)
    }
}

impl Enumeration {
    pub(crate) fn new(values: Vec<Value>, listed: Vec<Box<str>>) -> Enumeration {
        let mut texts: Vec<Box<str>> = values
            .iter()
            // Harmless: other values are not texts.
            .filter_map(|value| match value {
                Value::Text { text, .. } => Some(text.clone()),
                Value::Boolean(_)
                | Value::Decimal(_)
                | Value::Float(_)
                | Value::Double(_)
                | Value::Duration(_)
                | Value::DateTime(_)
                | Value::Bytes { .. }
                | Value::Name { .. }
                | Value::List(_) => None,
            })
            .collect();
        texts.sort_unstable();
        Enumeration {
            values: values.into_iter().collect(),
            texts: texts.into(),
            listed: listed.into(),
        }
    }

    pub(crate) fn has(&self, value: &Value) -> bool {
        self.values.contains(value)
    }

    /// Returns whether a string is one of the values.
    pub(crate) fn has_text(&self, text: &str) -> bool {
        if self.texts.len() > SCANNED_MAX {
            self.texts.binary_search_by(|known| (**known).cmp(text)).is_ok()
        } else {
            self.texts.iter().any(|known| **known == *text)
        }
    }

    /// Returns the values, in no particular order.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Value> {
        self.values.iter()
    }

    /// Returns whether an atomic value is in the enumeration. All values have the same primitive type, so comparing texts is enough for
    /// strings.
    fn has_atom(&self, atom: &Atom<'_>) -> bool {
        match atom {
            Atom::Text { text, .. } => self.has_text(text),
            Atom::Boolean(_)
            | Atom::Decimal(_)
            | Atom::Float(_)
            | Atom::Double(_)
            | Atom::Duration(_)
            | Atom::DateTime(_)
            | Atom::Hex(_)
            | Atom::Base64 { .. }
            | Atom::Name { .. } => self.values.contains(&atom.to_value()),
        }
    }
}
