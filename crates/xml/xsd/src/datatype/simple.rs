//! Simple types: their structure, their construction, and checking texts against them.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use super::atom;
use super::decimal::small_integer;
use super::facets::{Bound, Facets};
use super::fail::Fail;
use super::kind::FacetKind;
use super::names::{EmptyScope, NameScope};
use super::quick;
use super::value::Value;
use super::white::{WhiteSpace, words};
use super::{Builtin, FacetError, Violation};

/// Maximum depth of derivation, lists and unions. Checking and dropping types recurses this deep.
const DEPTH_MAX: u16 = 400;

/// A simple type definition. Immutable; share it by `Arc`.
#[derive(Debug)]
pub struct SimpleType {
    builtin: Builtin,
    variety: Variety,
    base: Option<Arc<SimpleType>>,
    pub(super) white: WhiteSpace,
    pub(super) facets: Facets,
    /// Whether only white space has to be handled, and no other facet restricts the type.
    plain: bool,
    /// Fast path of the check, if there is one.
    short: Short,
    has_identifiers: bool,
    depth: u16,
    /// Number of types that a text is compared with at most: the members of a union and the item type of a list, with those of each.
    alternatives: usize,
}

/// A fast path that decides about most texts without examining the whole type.
#[derive(Debug, Clone, Copy)]
enum Short {
    None,
    /// Every text is valid.
    Any,
    /// Integers of at most 18 digits in this range are valid.
    Between(i64, i64),
    /// Texts that are obviously in the lexical space are valid.
    Lexical,
    /// Strings whose length in characters is in this range are valid.
    Length(u64, u64),
    /// Strings in the enumeration are valid.
    Among,
}

/// Structure of a type's values.
#[derive(Debug, Clone)]
pub enum Variety {
    /// `anySimpleType`: any text.
    Ur,
    /// Atomic, with its primitive type.
    Atomic(Builtin),
    /// A list of items of this type, separated by white space.
    List(Arc<SimpleType>),
    /// A union: a value of the first member that accepts the text.
    Union(Box<[Arc<SimpleType>]>),
}

/// Role of a value of type ID or IDREF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Identifier {
    /// The element has this ID.
    Id,
    /// Refers to an element with this ID.
    IdRef,
}

impl Variety {
    /// Returns whether a facet applies to types of this variety.
    pub(crate) fn takes(&self, facet: FacetKind) -> bool {
        match self {
            Variety::Ur => false,
            Variety::Union(_) => matches!(facet, FacetKind::Pattern | FacetKind::Enumeration),
            Variety::List(_) => {
                facet.counts_length()
                    || matches!(
                        facet,
                        FacetKind::Pattern | FacetKind::Enumeration | FacetKind::WhiteSpace
                    )
            }
            Variety::Atomic(primitive) => facet.applies_to(*primitive),
        }
    }
}

impl Builtin {
    /// Returns the type definition; every call returns the same `Arc`.
    pub fn simple(self) -> Arc<SimpleType> {
        static TYPES: OnceLock<Vec<Arc<SimpleType>>> = OnceLock::new();
        let types = TYPES.get_or_init(|| {
            let mut types = Vec::with_capacity(Builtin::ALL.len());
            for builtin in Builtin::ALL {
                let simple = SimpleType::of_builtin(builtin, &types);
                types.push(Arc::new(simple));
            }
            types
        });
        match types.get(self as usize) {
            Some(simple) => Arc::clone(simple),
            // Cannot happen, because every built-in type is in the list. A type that accepts any text is the safest fallback.
            None => Arc::new(SimpleType::of_builtin(Builtin::AnySimpleType, &[])),
        }
    }
}

impl SimpleType {
    /// Makes a list of items (rule `cos-list-of-atomic`: the item type is atomic, or a union without lists).
    pub fn list(item: &Arc<SimpleType>) -> Result<SimpleType, FacetError> {
        if !item.is_item() {
            return Err(FacetError {
                facet: None,
                code: "cos-list-of-atomic",
                message: "the item type of a list must be atomic, or a union of atomic types"
                    .to_owned(),
            });
        }
        let base = Builtin::AnySimpleType.simple();
        let variety = Variety::List(Arc::clone(item));
        SimpleType::new(Builtin::AnySimpleType, variety, Some(&base)).settle()
    }

    /// Makes a union of members, in order. Members that are unions without facets are replaced by their members. A type that was a member
    /// before is left out, because it refuses what it has refused.
    pub fn union(members: &[Arc<SimpleType>]) -> Result<SimpleType, FacetError> {
        let mut flat = Vec::with_capacity(members.len());
        let mut seen = HashSet::with_capacity(members.len());
        for member in members {
            let members = match &member.variety {
                Variety::Union(inner) if member.plain => inner,
                Variety::Ur | Variety::Atomic(_) | Variety::List(_) | Variety::Union(_) => {
                    std::slice::from_ref(member)
                }
            };
            flat.extend(members.iter().filter(|member| seen.insert(Arc::as_ptr(member))).cloned());
        }
        let base = Builtin::AnySimpleType.simple();
        SimpleType::new(Builtin::AnySimpleType, Variety::Union(flat.into()), Some(&base)).settle()
    }

    /// Makes a built-in type from those before it.
    pub(crate) fn of_builtin(builtin: Builtin, before: &[Arc<SimpleType>]) -> SimpleType {
        let known = |other: Builtin| before.get(other as usize);
        let variety = match (builtin.primitive(), builtin.item().and_then(known)) {
            (_, Some(item)) => Variety::List(Arc::clone(item)),
            (Some(primitive), None) => Variety::Atomic(primitive),
            (None, None) => Variety::Ur,
        };
        let base = builtin.base().and_then(known);
        let mut simple = SimpleType::new(builtin, variety, base);
        simple.white = builtin.white();
        if let Some(base) = base {
            simple.facets = base.facets.clone();
        }
        let bound = |literal: &str| {
            let atom = atom::read(Builtin::Integer, literal, &EmptyScope).ok()?;
            Some(Bound::new(atom.to_value(), true, literal))
        };
        let facets = &mut simple.facets;
        if builtin == Builtin::Integer {
            facets.fraction_digits = Some(0);
            facets.fixed |= FacetKind::FractionDigits.bit();
        }
        if builtin.item().is_some() {
            facets.min_length = Some(1);
        }
        let (min, max) = builtin.bounds();
        facets.min = min.and_then(bound).or(facets.min.take());
        facets.max = max.and_then(bound).or(facets.max.take());
        simple.plain = simple.is_plain();
        simple.short = simple.find_short();
        simple
    }

    pub(super) fn new(
        builtin: Builtin,
        variety: Variety,
        base: Option<&Arc<SimpleType>>,
    ) -> SimpleType {
        let below = match &variety {
            Variety::Ur | Variety::Atomic(_) => 0,
            Variety::List(item) => item.depth,
            Variety::Union(members) => members.iter().map(|member| member.depth).max().unwrap_or(0),
        };
        let has_identifiers = match &variety {
            Variety::Ur => false,
            Variety::Atomic(_) => matches!(builtin, Builtin::Id | Builtin::IdRef),
            Variety::List(item) => item.has_identifiers,
            Variety::Union(members) => members.iter().any(|member| member.has_identifiers),
        };
        let alternatives = match &variety {
            Variety::Ur | Variety::Atomic(_) => 1,
            Variety::List(item) => item.alternatives,
            Variety::Union(members) => {
                members.iter().fold(0, |all: usize, member| all.saturating_add(member.alternatives))
            }
        };
        SimpleType {
            builtin,
            variety,
            base: base.cloned(),
            white: WhiteSpace::Collapse,
            facets: Facets::default(),
            plain: true,
            short: Short::None,
            has_identifiers,
            depth: base.map_or(0, |base| base.depth).max(below).saturating_add(1),
            alternatives,
        }
    }

    pub(super) fn settle(mut self) -> Result<SimpleType, FacetError> {
        self.plain = self.is_plain();
        self.short = self.find_short();
        let over = |code, message| Err(FacetError { facet: None, code, message });
        if self.depth > DEPTH_MAX {
            let message = format!("simple types are derived more than {DEPTH_MAX} levels deep");
            over("limit.simple_type_depth_max", message)
        } else if self.alternatives > MEMBERS_MAX {
            let message =
                format!("a union has over {MEMBERS_MAX} members, with those of its members");
            over("limit.union_members_max", message)
        } else {
            Ok(self)
        }
    }

    /// Returns whether no facet restricts more than the lexical mapping of the built-in type.
    fn is_plain(&self) -> bool {
        self.facets.min.is_none() && self.facets.max.is_none() && self.has_bounds_only()
    }

    /// Returns whether bounds are the only restricting facets.
    fn has_bounds_only(&self) -> bool {
        let f = &self.facets;
        let whole = f.fraction_digits.is_none() || self.is_integer();
        f.length.is_none()
            && f.min_length.is_none()
            && f.max_length.is_none()
            && f.total_digits.is_none()
            && whole
            && f.patterns.is_empty()
            && f.enumeration.is_none()
    }

    fn is_integer(&self) -> bool {
        matches!(self.variety, Variety::Atomic(Builtin::Decimal))
            && self.builtin != Builtin::Decimal
    }

    fn find_short(&self) -> Short {
        if self.plain
            && matches!(self.builtin, Builtin::String | Builtin::NormalizedString | Builtin::Token)
        {
            return Short::Any;
        }
        if self.plain && !self.is_integer() && matches!(self.variety, Variety::Atomic(_)) {
            return Short::Lexical;
        }
        if matches!(self.variety, Variety::Atomic(Builtin::String)) {
            return self.find_short_of_string();
        }
        if !self.is_integer() || !self.has_bounds_only() {
            return Short::None;
        }
        // A bound that does not fit an `i64` is beyond all integers of 18 digits.
        let low =
            self.facets.min.as_ref().map_or(i64::MIN, |min| match (min.small, min.inclusive) {
                (Some(bound), true) => bound,
                (Some(bound), false) => bound + 1,
                (None, _) if min.is_negative() => i64::MIN,
                (None, _) => i64::MAX,
            });
        let high =
            self.facets.max.as_ref().map_or(i64::MAX, |max| match (max.small, max.inclusive) {
                (Some(bound), true) => bound,
                (Some(bound), false) => bound - 1,
                (None, _) if max.is_negative() => i64::MIN,
                (None, _) => i64::MAX,
            });
        Short::Between(low, high)
    }

    fn find_short_of_string(&self) -> Short {
        let f = &self.facets;
        let lengths = f.length.is_some() || f.min_length.is_some() || f.max_length.is_some();
        let keeps_length = self.white != WhiteSpace::Collapse
            && matches!(self.builtin, Builtin::String | Builtin::NormalizedString);
        match (!f.patterns.is_empty() || f.length.is_some(), f.enumeration.is_some(), lengths) {
            (false, true, false) => Short::Among,
            (false, false, true) if keeps_length => {
                Short::Length(f.min_length.unwrap_or(0), f.max_length.unwrap_or(u64::MAX))
            }
            _ => Short::None,
        }
    }

    /// Returns whether the type can be the item type of a list.
    fn is_item(&self) -> bool {
        match &self.variety {
            Variety::Ur | Variety::List(_) => false,
            Variety::Atomic(_) => true,
            Variety::Union(members) => members.iter().all(|member| member.is_item()),
        }
    }

    /// Returns the base type; None for `anySimpleType`.
    pub fn base(&self) -> Option<&Arc<SimpleType>> {
        self.base.as_ref()
    }

    /// Returns the nearest built-in type: itself or an ancestor. For a list or union it is `anySimpleType`.
    pub fn builtin(&self) -> Builtin {
        self.builtin
    }

    /// Returns the structure of its values.
    pub fn variety(&self) -> &Variety {
        &self.variety
    }

    /// Returns the white space handling. For a union it is `Collapse`, but each member uses its own.
    pub fn white(&self) -> WhiteSpace {
        self.white
    }

    /// Returns whether it has an enumeration, own or inherited. A `NOTATION` may be used only with one (rule
    /// `enumeration-required-notation`).
    pub fn has_enumeration(&self) -> bool {
        self.facets.enumeration.is_some()
    }

    /// Returns whether the type is `other`, or derived from it by any number of restrictions.
    pub fn derives_from(&self, other: &SimpleType) -> bool {
        let mut at = Some(self);
        while let Some(simple) = at {
            if std::ptr::eq(simple, other) {
                return true;
            }
            at = simple.base.as_deref();
        }
        false
    }

    /// Returns whether the fast path accepts a text. The text is valid then.
    #[inline]
    pub(crate) fn is_plainly(&self, lexical: &str) -> bool {
        match self.short {
            Short::Any => true,
            Short::Between(low, high) => {
                small_integer(lexical).is_some_and(|number| low <= number && number <= high)
            }
            Short::Lexical => quick::is_plainly(self.builtin, lexical),
            // A character has one to four bytes.
            Short::Length(min, max) => {
                let bytes = lexical.len() as u64;
                min <= bytes.div_ceil(4) && bytes <= max
            }
            Short::Among => self.facets.enumeration.as_ref().is_some_and(|e| e.has_text(lexical)),
            Short::None => false,
        }
    }

    /// Checks a text. `lexical` is the text before white space is normalised.
    #[inline]
    pub fn check(&self, lexical: &str, names: &dyn NameScope) -> Result<(), Violation> {
        if self.is_plainly(lexical) {
            return Ok(());
        }
        self.examine(lexical, names, None).map_err(|fail| fail.violation(lexical, &self.facets))
    }

    /// Checks a text like [`SimpleType::check`] and returns its value.
    pub fn validate(&self, lexical: &str, names: &dyn NameScope) -> Result<Value, Violation> {
        let mut value = Value::Boolean(false);
        match self.examine(lexical, names, Some(&mut value)) {
            Ok(()) => Ok(value),
            Err(fail) => Err(fail.violation(lexical, &self.facets)),
        }
    }

    pub(super) fn examine(
        &self,
        lexical: &str,
        names: &dyn NameScope,
        value: Option<&mut Value>,
    ) -> Result<(), Fail> {
        match &self.variety {
            Variety::Ur | Variety::Atomic(_) => {
                let text = self.white.normalize(lexical);
                let atom = atom::read(self.builtin, &text, names)?;
                if !self.plain {
                    self.facets.check(&atom, &text, names)?;
                }
                if let Some(value) = value {
                    *value = atom.to_value();
                }
                Ok(())
            }
            Variety::List(item) => self.examine_list(item, lexical, names, value),
            Variety::Union(members) => self.examine_union(members, lexical, names, value),
        }
    }

    fn examine_list(
        &self,
        item: &SimpleType,
        lexical: &str,
        names: &dyn NameScope,
        value: Option<&mut Value>,
    ) -> Result<(), Fail> {
        let mut items = Vec::new();
        let keep = value.is_some() || self.facets.enumeration.is_some();
        let mut len = 0u64;
        for word in words(lexical) {
            let mut slot = Value::Boolean(false);
            item.examine(word, names, keep.then_some(&mut slot)).map_err(Fail::of_item)?;
            len += 1;
            if keep {
                items.push(slot);
            }
        }
        self.facets.check_length(len)?;
        if !self.facets.patterns.is_empty() {
            self.facets.check_patterns(&WhiteSpace::Collapse.normalize(lexical), names)?;
        }
        if !keep {
            return Ok(());
        }
        self.finish(Value::List(items.into()), value)
    }

    fn examine_union(
        &self,
        members: &[Arc<SimpleType>],
        lexical: &str,
        names: &dyn NameScope,
        value: Option<&mut Value>,
    ) -> Result<(), Fail> {
        let keep = value.is_some() || self.facets.enumeration.is_some();
        let mut slot = Value::Boolean(false);
        let mut member = Err(Fail::Union);
        for one in members {
            match one.examine(lexical, names, keep.then_some(&mut slot)) {
                Ok(()) => {
                    member = Ok(one);
                    break;
                }
                // If one member exceeds the budget, the others are not tried.
                Err(Fail::TooCostly) => return Err(Fail::TooCostly),
                Err(_) => {}
            }
        }
        let member = member?;
        if !self.facets.patterns.is_empty() {
            self.facets.check_patterns(&member.white.normalize(lexical), names)?;
        }
        if !keep {
            return Ok(());
        }
        self.finish(slot, value)
    }

    /// Checks the enumeration of a list or union, and returns the value.
    fn finish(&self, found: Value, value: Option<&mut Value>) -> Result<(), Fail> {
        if self.facets.enumeration.as_ref().is_some_and(|values| !values.has(&found)) {
            return Err(Fail::Facet(FacetKind::Enumeration));
        }
        if let Some(value) = value {
            *value = found;
        }
        Ok(())
    }

    /// Returns whether values can be or contain IDs or IDREFs, so that [`SimpleType::identifiers`] is needed.
    pub fn has_identifiers(&self) -> bool {
        self.has_identifiers
    }

    /// Visits the IDs and IDREFs in a valid text.
    pub fn identifiers(
        &self,
        lexical: &str,
        names: &dyn NameScope,
        visit: &mut dyn FnMut(Identifier, &str),
    ) {
        if !self.has_identifiers {
            return;
        }
        match &self.variety {
            Variety::Ur => {}
            Variety::Atomic(_) => {
                let kind =
                    if self.builtin == Builtin::Id { Identifier::Id } else { Identifier::IdRef };
                visit(kind, &self.white.normalize(lexical));
            }
            Variety::List(item) => {
                words(lexical).for_each(|word| item.identifiers(word, names, visit));
            }
            Variety::Union(members) => {
                let member =
                    members.iter().find(|member| member.examine(lexical, names, None).is_ok());
                if let Some(member) = member {
                    member.identifiers(lexical, names, visit);
                }
            }
        }
    }

    pub(crate) fn facets(&self) -> &Facets {
        &self.facets
    }
}

/// Maximum number of members of a union, with the members of those that are unions. Checking a text tries as many types, however unions are
/// nested.
const MEMBERS_MAX: usize = 10_000;
