//! Derivation by restriction: the facets that a step may have, given its base (Part 2, 4.3).

use std::cmp::Ordering;
use std::sync::Arc;

use super::facets::{Bound, Enumeration, Facets, LISTED_MAX, Pattern};
use super::fail::quote;
use super::kind::FacetKind;
use super::names::{EmptyScope, NameScope};
use super::value::Value;
use super::white::WhiteSpace;
use super::{Builtin, FacetError, SimpleType, Variety};
use crate::regex::Regex;

/// A facet as written in a schema document.
#[derive(Clone, Copy)]
pub struct RawFacet<'a> {
    pub kind: FacetKind,
    /// The `value` attribute as written.
    pub value: &'a str,
    pub fixed: bool,
    /// The namespaces in scope of the facet (for QName and NOTATION).
    pub names: &'a dyn NameScope,
}

impl SimpleType {
    /// Creates a restriction of `base` by the facets of one derivation step, in the order written. Without facets, it is still a new type.
    /// Returns all errors, not only the first.
    pub fn restrict(
        base: &Arc<SimpleType>,
        facets: &[RawFacet<'_>],
    ) -> Result<SimpleType, Vec<FacetError>> {
        if matches!(base.variety(), Variety::Ur) {
            return Err(vec![FacetError {
                facet: None,
                code: "cos-st-restricts.1.1",
                message: "anySimpleType cannot be restricted; restrict one of the other types"
                    .to_owned(),
            }]);
        }
        let (facets, white) = derive(base, facets)?;
        let mut simple = SimpleType::new(base.builtin(), base.variety().clone(), Some(base));
        (simple.facets, simple.white) = (facets, white);
        simple.settle().map_err(|error| vec![error])
    }
}

/// Returns the facets and the white space of a restriction of `base`, or all errors.
fn derive(
    base: &Arc<SimpleType>,
    raw: &[RawFacet<'_>],
) -> Result<(Facets, WhiteSpace), Vec<FacetError>> {
    let mut step =
        Step { base, facets: base.facets().clone(), white: base.white(), raw, errors: Vec::new() };
    let mut met = 0u16;
    for (at, facet) in raw.iter().enumerate() {
        if facet.kind.is_single() && met & facet.kind.bit() != 0 {
            step.complain(
                at,
                "src-single-facet-value",
                format!("{} occurs twice", facet.kind.name()),
            );
            continue;
        }
        met |= facet.kind.bit();
        if !base.variety().takes(facet.kind) {
            step.complain(
                at,
                "cos-applicable-facets",
                format!("{} does not apply to a type like this", facet.kind.name()),
            );
            continue;
        }
        step.read(at, facet);
    }
    step.patterns();
    step.enumeration();
    step.lengths();
    step.digits();
    step.bounds();
    if step.errors.is_empty() { Ok((step.facets, step.white)) } else { Err(step.errors) }
}

const LOWER: [FacetKind; 2] = [FacetKind::MinInclusive, FacetKind::MinExclusive];
const UPPER: [FacetKind; 2] = [FacetKind::MaxInclusive, FacetKind::MaxExclusive];

/// State of one derivation step.
struct Step<'a> {
    base: &'a Arc<SimpleType>,
    facets: Facets,
    white: WhiteSpace,
    raw: &'a [RawFacet<'a>],
    errors: Vec<FacetError>,
}

impl Step<'_> {
    /// Returns the index of the step's first facet of these kinds.
    fn first(&self, kinds: &[FacetKind]) -> Option<usize> {
        self.raw.iter().position(|facet| kinds.contains(&facet.kind))
    }

    fn complain(&mut self, facet: usize, code: &'static str, message: String) {
        self.errors.push(FacetError { facet: Some(facet), code, message });
    }

    /// Reads one facet; its relation to other facets is checked later.
    fn read(&mut self, at: usize, facet: &RawFacet<'_>) {
        let kind = facet.kind;
        match kind {
            FacetKind::Pattern | FacetKind::Enumeration => {}
            FacetKind::WhiteSpace => self.read_white(at, facet),
            FacetKind::Length
            | FacetKind::MinLength
            | FacetKind::MaxLength
            | FacetKind::TotalDigits
            | FacetKind::FractionDigits => self.read_number(at, facet),
            FacetKind::MaxInclusive
            | FacetKind::MaxExclusive
            | FacetKind::MinExclusive
            | FacetKind::MinInclusive => self.read_bound(at, facet),
        }
        if facet.fixed {
            self.facets.fixed |= kind.bit();
        }
    }

    fn is_fixed(&self, kind: FacetKind) -> bool {
        self.base.facets().fixed & kind.bit() != 0
    }

    fn fixed_differs(&mut self, at: usize, kind: FacetKind) {
        self.complain(
            at,
            "st-restrict-facets",
            format!("{} is fixed in the base type and differs here", kind.name()),
        );
    }

    fn read_white(&mut self, at: usize, facet: &RawFacet<'_>) {
        let Some(white) =
            WhiteSpace::from_name(WhiteSpace::Collapse.normalize(facet.value).as_ref())
        else {
            let message = format!("{} must be preserve, replace or collapse", quote(facet.value));
            return self.complain(at, "cvc-enumeration-valid", message);
        };
        let base = self.base.white();
        if self.is_fixed(FacetKind::WhiteSpace) && white != base {
            self.fixed_differs(at, FacetKind::WhiteSpace);
        } else if white < base {
            self.complain(
                at,
                FacetKind::WhiteSpace.restriction(),
                "the base type treats more white space than this".to_owned(),
            );
        }
        self.white = white;
    }

    fn read_number(&mut self, at: usize, facet: &RawFacet<'_>) {
        let kind = facet.kind;
        let form = if kind == FacetKind::TotalDigits {
            Builtin::PositiveInteger
        } else {
            Builtin::NonNegativeInteger
        };
        if let Err(violation) = form.simple().check(facet.value, &EmptyScope) {
            return self.complain(at, violation.code, violation.message);
        }
        // A number that does not fit counts as the largest one, because no text is that long.
        let digits = super::white::trim(facet.value).trim_start_matches('+');
        let number = digits.parse().unwrap_or(u64::MAX);
        let Some(slot) = self.number(kind) else { return };
        let Some(before) = slot.replace(number) else { return };
        if self.is_fixed(kind) && before != number {
            return self.fixed_differs(at, kind);
        }
        let wider = match number.cmp(&before) {
            Ordering::Equal => false,
            Ordering::Less => matches!(kind, FacetKind::Length | FacetKind::MinLength),
            Ordering::Greater => kind != FacetKind::MinLength,
        };
        if wider {
            let name = kind.name();
            let message = format!("{name} is {before} in the base type, {number} allows more");
            self.complain(at, kind.restriction(), message);
        }
    }

    fn number(&mut self, kind: FacetKind) -> Option<&mut Option<u64>> {
        match kind {
            FacetKind::Length => Some(&mut self.facets.length),
            FacetKind::MinLength => Some(&mut self.facets.min_length),
            FacetKind::MaxLength => Some(&mut self.facets.max_length),
            FacetKind::TotalDigits => Some(&mut self.facets.total_digits),
            FacetKind::FractionDigits => Some(&mut self.facets.fraction_digits),
            FacetKind::Pattern
            | FacetKind::Enumeration
            | FacetKind::WhiteSpace
            | FacetKind::MaxInclusive
            | FacetKind::MaxExclusive
            | FacetKind::MinExclusive
            | FacetKind::MinInclusive => None,
        }
    }

    fn read_bound(&mut self, at: usize, facet: &RawFacet<'_>) {
        let kind = facet.kind;
        let lower = matches!(kind, FacetKind::MinInclusive | FacetKind::MinExclusive);
        let inclusive = matches!(kind, FacetKind::MinInclusive | FacetKind::MaxInclusive);
        let Ok(value) = self.base.builtin().simple().validate(facet.value, facet.names) else {
            let message = format!("{} is not in the base type's value space", quote(facet.value));
            return self.complain(at, kind.restriction(), message);
        };
        let before = if lower { &self.base.facets().min } else { &self.base.facets().max };
        let same = before.as_ref().is_some_and(|before| {
            before.inclusive == inclusive && before.value.order(&value) == Some(Ordering::Equal)
        });
        if self.is_fixed(kind) && !same {
            self.fixed_differs(at, kind);
        } else if !same && let Err(violation) = self.base.check(facet.value, facet.names) {
            // An exclusive bound may equal that of the base, although that value is not in the base's value space.
            self.complain(at, kind.restriction(), violation.message);
        }
        let bound = Some(Bound::new(value, inclusive, super::white::trim(facet.value)));
        let (slot, pair, code) = if lower {
            (&mut self.facets.min, LOWER, "minInclusive-minExclusive")
        } else {
            (&mut self.facets.max, UPPER, "maxInclusive-maxExclusive")
        };
        *slot = bound;
        if pair.iter().all(|kind| self.first(&[*kind]).is_some_and(|first| first <= at)) {
            self.complain(at, code, "a derivation step must not have both".to_owned());
        }
    }

    fn patterns(&mut self) {
        let (at, sources) = of_kind(self.raw, FacetKind::Pattern);
        if sources.is_empty() || !self.base.variety().takes(FacetKind::Pattern) {
            return;
        }
        let patterns: Vec<&str> = sources.iter().map(|facet| facet.value).collect();
        match Regex::any(&patterns) {
            Ok(regex) => {
                let sources = patterns.into_iter().map(Box::from).collect();
                self.facets.patterns.push(Arc::new(Pattern { regex, sources }));
            }
            Err((index, error)) => {
                let pattern = patterns.get(index).copied().unwrap_or("");
                // Harmless: if the index is unknown, the error names the first facet.
                let facet = at.get(index).copied().unwrap_or_default();
                self.complain(facet, "pattern-valid", format!("{} {error}", quote(pattern)));
            }
        }
    }

    fn enumeration(&mut self) {
        let (at, facets) = of_kind(self.raw, FacetKind::Enumeration);
        if facets.is_empty() || !self.base.variety().takes(FacetKind::Enumeration) {
            return;
        }
        let mut values: Vec<Value> = Vec::with_capacity(facets.len());
        let mut listed: Vec<Box<str>> = Vec::new();
        // Harmless: each facet has an index.
        for (at, facet) in at.into_iter().zip(facets) {
            match self.base.validate(facet.value, facet.names) {
                Ok(value) => {
                    if listed.len() < LISTED_MAX {
                        listed.push(match (&value, self.base.builtin()) {
                            // The canonical form of a decimal has a point.
                            (Value::Decimal(number), Builtin::Decimal)
                                if !number.to_string().contains('.') =>
                            {
                                format!("{number}.0").into()
                            }
                            (Value::Decimal(number), _) => number.to_string().into(),
                            _ => self.base.white().normalize(facet.value).into(),
                        });
                    }
                    values.push(value);
                }
                Err(violation) => {
                    self.complain(at, FacetKind::Enumeration.restriction(), violation.message);
                }
            }
        }
        self.facets.enumeration = Some(Arc::new(Enumeration::new(values, listed)));
    }

    fn lengths(&mut self) {
        let (min, max) = (self.facets.min_length, self.facets.max_length);
        if let (Some(low), Some(high)) = (min, max)
            && low > high
            && let Some(at) = self.first(&[FacetKind::MaxLength, FacetKind::MinLength])
        {
            let message = format!("minLength {low} is over maxLength {high}");
            self.complain(at, "minLength-less-than-equal-to-maxLength", message);
        }
        let Some(length) = self.facets.length else { return };
        let lengths = [FacetKind::Length, FacetKind::MinLength, FacetKind::MaxLength];
        let Some(at) = self.first(&lengths) else { return };
        let ancestor = |wanted: &dyn Fn(&Facets) -> bool| {
            let mut at = Some(self.base);
            while let Some(simple) = at {
                let facets = simple.facets();
                if facets.length.is_none() && wanted(facets) {
                    return true;
                }
                at = simple.base();
            }
            false
        };
        let min_sound = min.is_none_or(|low| low <= length && ancestor(&|f| f.min_length == min));
        let max_sound = max.is_none_or(|high| length <= high && ancestor(&|f| f.max_length == max));
        if !min_sound || !max_sound {
            let message = format!("length {length} contradicts minLength or maxLength");
            self.complain(at, "length-minLength-maxLength", message);
        }
    }

    fn digits(&mut self) {
        if let (Some(total), Some(fraction)) =
            (self.facets.total_digits, self.facets.fraction_digits)
            && fraction > total
            && let Some(at) = self.first(&[FacetKind::FractionDigits, FacetKind::TotalDigits])
        {
            let message = format!("fractionDigits {fraction} is over totalDigits {total}");
            self.complain(at, "fractionDigits-totalDigits", message);
        }
    }

    /// Checks that the lower bound is below the upper one.
    fn bounds(&mut self) {
        let Some(at) = self.first(&UPPER).or(self.first(&LOWER)) else { return };
        let (Some(min), Some(max)) = (&self.facets.min, &self.facets.max) else { return };
        let order = min.value.order(&max.value);
        let mixed = min.inclusive != max.inclusive;
        if order == Some(Ordering::Greater) || mixed && order == Some(Ordering::Equal) {
            let code = match (min.inclusive, max.inclusive) {
                (true, true) => "minInclusive-less-than-equal-to-maxInclusive",
                (true, false) => "minInclusive-less-than-maxExclusive",
                (false, true) => "minExclusive-less-than-maxInclusive",
                (false, false) => "minExclusive-less-than-equal-to-maxExclusive",
            };
            let message = format!("nothing lies between {} and {}", min.literal, max.literal);
            self.complain(at, code, message);
        }
    }
}

/// Returns the facets of a kind with their indexes.
fn of_kind<'a, 'b>(
    raw: &'a [RawFacet<'b>],
    kind: FacetKind,
) -> (Vec<usize>, Vec<&'a RawFacet<'b>>) {
    raw.iter().enumerate().filter(|(_, facet)| facet.kind == kind).unzip()
}
