//! Kinds of facets: their names and rules, and the types they apply to (Part 2, 4.1.5).

use super::Builtin;

/// The constraining facets of XSD 1.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FacetKind {
    Length,
    MinLength,
    MaxLength,
    Pattern,
    Enumeration,
    WhiteSpace,
    MaxInclusive,
    MaxExclusive,
    MinExclusive,
    MinInclusive,
    TotalDigits,
    FractionDigits,
}

impl FacetKind {
    pub const ALL: [FacetKind; 12] = [
        FacetKind::Length,
        FacetKind::MinLength,
        FacetKind::MaxLength,
        FacetKind::Pattern,
        FacetKind::Enumeration,
        FacetKind::WhiteSpace,
        FacetKind::MaxInclusive,
        FacetKind::MaxExclusive,
        FacetKind::MinExclusive,
        FacetKind::MinInclusive,
        FacetKind::TotalDigits,
        FacetKind::FractionDigits,
    ];

    /// Returns the facet with this element name (`minLength`), if there is one.
    pub fn from_name(local: &str) -> Option<FacetKind> {
        FacetKind::ALL.into_iter().find(|kind| kind.name() == local)
    }

    /// Returns the element name.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the rule broken by a value that violates the facet.
    pub(crate) fn violation(self) -> &'static str {
        self.row().1
    }

    /// Returns the rule broken by a derivation whose facet is wider than that of its base.
    pub(crate) fn restriction(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> (&'static str, &'static str, &'static str) {
        match self {
            FacetKind::Length => ("length", "cvc-length-valid", "length-valid-restriction"),
            FacetKind::MinLength => {
                ("minLength", "cvc-minLength-valid", "minLength-valid-restriction")
            }
            FacetKind::MaxLength => {
                ("maxLength", "cvc-maxLength-valid", "maxLength-valid-restriction")
            }
            FacetKind::Pattern => ("pattern", "cvc-pattern-valid", "pattern-valid"),
            FacetKind::Enumeration => {
                ("enumeration", "cvc-enumeration-valid", "enumeration-valid-restriction")
            }
            FacetKind::WhiteSpace => {
                ("whiteSpace", "cvc-whiteSpace-valid", "whiteSpace-valid-restriction")
            }
            FacetKind::MaxInclusive => {
                ("maxInclusive", "cvc-maxInclusive-valid", "maxInclusive-valid-restriction")
            }
            FacetKind::MaxExclusive => {
                ("maxExclusive", "cvc-maxExclusive-valid", "maxExclusive-valid-restriction")
            }
            FacetKind::MinExclusive => {
                ("minExclusive", "cvc-minExclusive-valid", "minExclusive-valid-restriction")
            }
            FacetKind::MinInclusive => {
                ("minInclusive", "cvc-minInclusive-valid", "minInclusive-valid-restriction")
            }
            FacetKind::TotalDigits => {
                ("totalDigits", "cvc-totalDigits-valid", "totalDigits-valid-restriction")
            }
            FacetKind::FractionDigits => {
                ("fractionDigits", "cvc-fractionDigits-valid", "fractionDigits-valid-restriction")
            }
        }
    }

    /// Returns its bit in a set of kinds.
    pub(crate) fn bit(self) -> u16 {
        1 << (self as u16)
    }

    /// Returns whether the facet applies to types with this primitive type.
    pub(crate) fn applies_to(self, primitive: Builtin) -> bool {
        let measured = matches!(
            primitive,
            Builtin::String
                | Builtin::AnyUri
                | Builtin::HexBinary
                | Builtin::Base64Binary
                | Builtin::QName
                | Builtin::Notation
        );
        match self {
            FacetKind::Pattern | FacetKind::WhiteSpace => true,
            FacetKind::Enumeration => primitive != Builtin::Boolean,
            FacetKind::Length | FacetKind::MinLength | FacetKind::MaxLength => measured,
            FacetKind::MaxInclusive
            | FacetKind::MaxExclusive
            | FacetKind::MinExclusive
            | FacetKind::MinInclusive => !measured && primitive != Builtin::Boolean,
            FacetKind::TotalDigits | FacetKind::FractionDigits => primitive == Builtin::Decimal,
        }
    }

    pub(crate) fn counts_length(self) -> bool {
        matches!(self, FacetKind::Length | FacetKind::MinLength | FacetKind::MaxLength)
    }

    /// Returns whether the facet may occur only once in a derivation step.
    pub(crate) fn is_single(self) -> bool {
        !matches!(self, FacetKind::Pattern | FacetKind::Enumeration)
    }
}
