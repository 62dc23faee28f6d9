//! The lexical mapping: from a text with normalised white space to its value.

use std::str::FromStr;

use super::date_time::{DateTime, DateTimeKind};
use super::decimal::DecimalRef;
use super::duration::Duration;
use super::fail::Fail;
use super::names::NameScope;
use super::value::Atom;
use super::{Builtin, text};

/// Parses a text as a value of an atomic built-in type. Bounds of the integer types are facets and not checked here.
pub(crate) fn read<'a>(
    builtin: Builtin,
    text: &'a str,
    names: &'a dyn NameScope,
) -> Result<Atom<'a>, Fail> {
    let wrong = Fail::Lexical(builtin);
    let when = |sound: bool| {
        if sound { Ok(Atom::Text { primitive: Builtin::String, text }) } else { Err(wrong) }
    };
    let moment = |kind| DateTime::parse(kind, text).map(Atom::DateTime).ok_or(wrong);
    match builtin {
        Builtin::AnySimpleType => Ok(Atom::Text { primitive: builtin, text }),
        Builtin::String | Builtin::NormalizedString | Builtin::Token => when(true),
        Builtin::Language => when(text::is_language(text)),
        Builtin::Name => when(text::is_name(text)),
        Builtin::NmToken | Builtin::NmTokens => when(text::is_nmtoken(text)),
        Builtin::NcName | Builtin::Id | Builtin::IdRef | Builtin::IdRefs => {
            when(text::is_ncname(text))
        }
        Builtin::Entity | Builtin::Entities => {
            let sound = text::is_ncname(text);
            if sound && !names.entity(text) { Err(Fail::Entity) } else { when(sound) }
        }
        Builtin::AnyUri if text::is_any_uri(text) => Ok(Atom::Text { primitive: builtin, text }),
        Builtin::HexBinary if text::is_hex(text) => Ok(Atom::Hex(text)),
        Builtin::AnyUri | Builtin::HexBinary => Err(wrong),
        Builtin::Boolean => match text {
            "true" | "1" => Ok(Atom::Boolean(true)),
            "false" | "0" => Ok(Atom::Boolean(false)),
            _ => Err(wrong),
        },
        Builtin::Decimal => DecimalRef::parse(text).map(Atom::Decimal).ok_or(wrong),
        Builtin::Integer
        | Builtin::NonPositiveInteger
        | Builtin::NegativeInteger
        | Builtin::Long
        | Builtin::Int
        | Builtin::Short
        | Builtin::Byte
        | Builtin::NonNegativeInteger
        | Builtin::UnsignedLong
        | Builtin::UnsignedInt
        | Builtin::UnsignedShort
        | Builtin::UnsignedByte
        | Builtin::PositiveInteger => {
            DecimalRef::parse_integer(text).map(Atom::Decimal).ok_or(wrong)
        }
        Builtin::Float => float(text).map(Atom::Float).ok_or(wrong),
        Builtin::Double => float(text).map(Atom::Double).ok_or(wrong),
        Builtin::Duration => Duration::parse(text).map(Atom::Duration).ok_or(wrong),
        Builtin::DateTime => moment(DateTimeKind::DateTime),
        Builtin::Time => moment(DateTimeKind::Time),
        Builtin::Date => moment(DateTimeKind::Date),
        Builtin::GYearMonth => moment(DateTimeKind::GYearMonth),
        Builtin::GYear => moment(DateTimeKind::GYear),
        Builtin::GMonthDay => moment(DateTimeKind::GMonthDay),
        Builtin::GDay => moment(DateTimeKind::GDay),
        Builtin::GMonth => moment(DateTimeKind::GMonth),
        Builtin::Base64Binary => {
            text::base64_len(text).map(|len| Atom::Base64 { text, len }).ok_or(wrong)
        }
        Builtin::QName | Builtin::Notation => name(builtin, text, names),
    }
}

fn float<F: FromStr>(text: &str) -> Option<F> {
    // Harmless: a text of this form is always a number.
    text::is_float(text).then(|| text.parse().ok())?
}

fn name<'a>(builtin: Builtin, text: &'a str, names: &'a dyn NameScope) -> Result<Atom<'a>, Fail> {
    let (prefix, local) = text::split_qname(text).ok_or(Fail::Lexical(builtin))?;
    let uri = names.resolve(prefix).ok_or(Fail::Prefix)?;
    if builtin == Builtin::Notation && !names.notation(uri, local) {
        return Err(Fail::Notation);
    }
    Ok(Atom::Name { primitive: builtin, uri, local })
}
