//! The built-in types: their names and their derivation (Part 2, section 3).

use super::white::WhiteSpace;

/// A built-in simple type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Builtin {
    AnySimpleType,
    String,
    Boolean,
    Decimal,
    Float,
    Double,
    Duration,
    DateTime,
    Time,
    Date,
    GYearMonth,
    GYear,
    GMonthDay,
    GDay,
    GMonth,
    HexBinary,
    Base64Binary,
    AnyUri,
    QName,
    Notation,
    NormalizedString,
    Token,
    Language,
    Name,
    NcName,
    NmToken,
    NmTokens,
    Id,
    IdRef,
    IdRefs,
    Entity,
    Entities,
    Integer,
    NonPositiveInteger,
    NegativeInteger,
    Long,
    Int,
    Short,
    Byte,
    NonNegativeInteger,
    UnsignedLong,
    UnsignedInt,
    UnsignedShort,
    UnsignedByte,
    PositiveInteger,
}

impl Builtin {
    /// All built-in types, each after its base type.
    pub const ALL: [Builtin; 45] = [
        Builtin::AnySimpleType,
        Builtin::String,
        Builtin::Boolean,
        Builtin::Decimal,
        Builtin::Float,
        Builtin::Double,
        Builtin::Duration,
        Builtin::DateTime,
        Builtin::Time,
        Builtin::Date,
        Builtin::GYearMonth,
        Builtin::GYear,
        Builtin::GMonthDay,
        Builtin::GDay,
        Builtin::GMonth,
        Builtin::HexBinary,
        Builtin::Base64Binary,
        Builtin::AnyUri,
        Builtin::QName,
        Builtin::Notation,
        Builtin::NormalizedString,
        Builtin::Token,
        Builtin::Language,
        Builtin::Name,
        Builtin::NcName,
        Builtin::NmToken,
        Builtin::NmTokens,
        Builtin::Id,
        Builtin::IdRef,
        Builtin::IdRefs,
        Builtin::Entity,
        Builtin::Entities,
        Builtin::Integer,
        Builtin::NonPositiveInteger,
        Builtin::NegativeInteger,
        Builtin::Long,
        Builtin::Int,
        Builtin::Short,
        Builtin::Byte,
        Builtin::NonNegativeInteger,
        Builtin::UnsignedLong,
        Builtin::UnsignedInt,
        Builtin::UnsignedShort,
        Builtin::UnsignedByte,
        Builtin::PositiveInteger,
    ];

    /// Returns the built-in type with this local name in the namespace of XML Schema.
    pub fn from_name(local: &str) -> Option<Builtin> {
        Builtin::ALL.into_iter().find(|builtin| builtin.name() == local)
    }

    /// Returns the local name.
    pub fn name(self) -> &'static str {
        match self {
            Builtin::AnySimpleType => "anySimpleType",
            Builtin::String => "string",
            Builtin::Boolean => "boolean",
            Builtin::Decimal => "decimal",
            Builtin::Float => "float",
            Builtin::Double => "double",
            Builtin::Duration => "duration",
            Builtin::DateTime => "dateTime",
            Builtin::Time => "time",
            Builtin::Date => "date",
            Builtin::GYearMonth => "gYearMonth",
            Builtin::GYear => "gYear",
            Builtin::GMonthDay => "gMonthDay",
            Builtin::GDay => "gDay",
            Builtin::GMonth => "gMonth",
            Builtin::HexBinary => "hexBinary",
            Builtin::Base64Binary => "base64Binary",
            Builtin::AnyUri => "anyURI",
            Builtin::QName => "QName",
            Builtin::Notation => "NOTATION",
            Builtin::NormalizedString => "normalizedString",
            Builtin::Token => "token",
            Builtin::Language => "language",
            Builtin::Name => "Name",
            Builtin::NcName => "NCName",
            Builtin::NmToken => "NMTOKEN",
            Builtin::NmTokens => "NMTOKENS",
            Builtin::Id => "ID",
            Builtin::IdRef => "IDREF",
            Builtin::IdRefs => "IDREFS",
            Builtin::Entity => "ENTITY",
            Builtin::Entities => "ENTITIES",
            Builtin::Integer => "integer",
            Builtin::NonPositiveInteger => "nonPositiveInteger",
            Builtin::NegativeInteger => "negativeInteger",
            Builtin::Long => "long",
            Builtin::Int => "int",
            Builtin::Short => "short",
            Builtin::Byte => "byte",
            Builtin::NonNegativeInteger => "nonNegativeInteger",
            Builtin::UnsignedLong => "unsignedLong",
            Builtin::UnsignedInt => "unsignedInt",
            Builtin::UnsignedShort => "unsignedShort",
            Builtin::UnsignedByte => "unsignedByte",
            Builtin::PositiveInteger => "positiveInteger",
        }
    }

    /// Returns the base type, or `None` for `anySimpleType`.
    pub fn base(self) -> Option<Builtin> {
        Some(match self {
            Builtin::AnySimpleType => return None,
            Builtin::String
            | Builtin::Boolean
            | Builtin::Decimal
            | Builtin::Float
            | Builtin::Double
            | Builtin::Duration
            | Builtin::DateTime
            | Builtin::Time
            | Builtin::Date
            | Builtin::GYearMonth
            | Builtin::GYear
            | Builtin::GMonthDay
            | Builtin::GDay
            | Builtin::GMonth
            | Builtin::HexBinary
            | Builtin::Base64Binary
            | Builtin::AnyUri
            | Builtin::QName
            | Builtin::Notation
            | Builtin::NmTokens
            | Builtin::IdRefs
            | Builtin::Entities => Builtin::AnySimpleType,
            Builtin::NormalizedString => Builtin::String,
            Builtin::Token => Builtin::NormalizedString,
            Builtin::Language | Builtin::Name | Builtin::NmToken => Builtin::Token,
            Builtin::NcName => Builtin::Name,
            Builtin::Id | Builtin::IdRef | Builtin::Entity => Builtin::NcName,
            Builtin::Integer => Builtin::Decimal,
            Builtin::NonPositiveInteger | Builtin::Long | Builtin::NonNegativeInteger => {
                Builtin::Integer
            }
            Builtin::NegativeInteger => Builtin::NonPositiveInteger,
            Builtin::Int => Builtin::Long,
            Builtin::Short => Builtin::Int,
            Builtin::Byte => Builtin::Short,
            Builtin::UnsignedLong | Builtin::PositiveInteger => Builtin::NonNegativeInteger,
            Builtin::UnsignedInt => Builtin::UnsignedLong,
            Builtin::UnsignedShort => Builtin::UnsignedInt,
            Builtin::UnsignedByte => Builtin::UnsignedShort,
        })
    }

    /// Returns the primitive type from which it derives, or itself if it is primitive. `anySimpleType` and the three list types have none.
    pub fn primitive(self) -> Option<Builtin> {
        let mut at = self;
        while let Some(base) = at.base().filter(|base| *base != Builtin::AnySimpleType) {
            at = base;
        }
        (at != Builtin::AnySimpleType && at.item().is_none()).then_some(at)
    }

    /// Returns the item type of a list type, or `None` for any other type.
    pub fn item(self) -> Option<Builtin> {
        [
            (Builtin::NmTokens, Builtin::NmToken),
            (Builtin::IdRefs, Builtin::IdRef),
            (Builtin::Entities, Builtin::Entity),
        ]
        .into_iter()
        .find_map(|(list, item)| (list == self).then_some(item))
    }

    /// Returns the whiteSpace facet.
    pub(crate) fn white(self) -> WhiteSpace {
        if matches!(self, Builtin::AnySimpleType | Builtin::String) {
            WhiteSpace::Preserve
        } else if self == Builtin::NormalizedString {
            WhiteSpace::Replace
        } else {
            WhiteSpace::Collapse
        }
    }

    /// Returns the bounds that an integer type adds to its base: the lower and the upper.
    pub(crate) fn bounds(self) -> (Option<&'static str>, Option<&'static str>) {
        let bounds = [
            (Builtin::NonPositiveInteger, None, Some("0")),
            (Builtin::NegativeInteger, None, Some("-1")),
            (Builtin::Long, Some("-9223372036854775808"), Some("9223372036854775807")),
            (Builtin::Int, Some("-2147483648"), Some("2147483647")),
            (Builtin::Short, Some("-32768"), Some("32767")),
            (Builtin::Byte, Some("-128"), Some("127")),
            (Builtin::NonNegativeInteger, Some("0"), None),
            (Builtin::UnsignedLong, None, Some("18446744073709551615")),
            (Builtin::UnsignedInt, None, Some("4294967295")),
            (Builtin::UnsignedShort, None, Some("65535")),
            (Builtin::UnsignedByte, None, Some("255")),
            (Builtin::PositiveInteger, Some("1"), None),
        ];
        bounds
            .into_iter()
            .find_map(|(of, min, max)| (of == self).then_some((min, max)))
            .unwrap_or((None, None))
    }
}
