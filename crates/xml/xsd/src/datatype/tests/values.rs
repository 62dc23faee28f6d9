//! Equality and order of values given as texts.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::{Builtin, EmptyScope, Identifier, SimpleType, WhiteSpace};
use super::{check, of};

#[test]
fn values_are_equal_or_ordered() {
    use Builtin::*;
    let rows = [
        (Decimal, "1", "=", "+01.00"),
        (Decimal, "0", "=", "-0.0"),
        (Decimal, "-1.5", "<", "-1.25"),
        (Decimal, "1.25", "<", "1.3"),
        (Decimal, "99999999999999999999", "<", "100000000000000000000"),
        (Decimal, "0.05", "<", "0.5"),
        (Integer, "10", ">", "9"),
        (Float, "0", "=", "-0"),
        (Float, "NaN", "=", "NaN"),
        (Float, "NaN", "?", "1"),
        (Float, "-INF", "<", "-3e38"),
        (Float, "16777216", "=", "16777217"),
        (Double, "16777216", "<", "16777217"),
        (Double, "1e999", "=", "INF"),
        (Boolean, "true", "=", "1"),
        (Boolean, "true", "?", "0"),
        (String, "a", "?", " a"),
        (Token, "a b", "=", " a\n b "),
        (HexBinary, "0aff", "=", "0AFF"),
        (Base64Binary, "QUJD", "=", "Q U J D"),
        (Base64Binary, "QUJD", "?", "QUJE"),
        (QName, "xml:a", "?", "a"),
        (Duration, "P1Y", "=", "P12M"),
        (Duration, "P1D", "=", "PT24H"),
        (Duration, "P1M", "?", "P30D"),
        (Duration, "P1M", ">", "P27D"),
        (Duration, "P1M", "<", "P32D"),
        (Duration, "P5M", "?", "P150D"),
        (Duration, "P5M", "<", "P154D"),
        (Duration, "-P1M", "<", "PT0S"),
        (Duration, "PT0.5S", "<", "PT0.50001S"),
        (Duration, "-PT0.5S", ">", "-PT1S"),
        (DateTime, "2000-01-15T00:00:00", "<", "2000-02-15T00:00:00"),
        (DateTime, "2000-01-15T12:00:00", "<", "2000-01-16T12:00:00Z"),
        (DateTime, "2000-01-01T12:00:00", "?", "1999-12-31T23:00:00Z"),
        (DateTime, "2000-01-16T12:00:00", "?", "2000-01-16T12:00:00Z"),
        (DateTime, "2000-01-16T00:00:00", "?", "2000-01-16T12:00:00Z"),
        (DateTime, "2002-10-10T12:00:00-05:00", "=", "2002-10-10T17:00:00Z"),
        (DateTime, "2000-03-04T23:00:00+03:00", "=", "2000-03-04T20:00:00Z"),
        (DateTime, "1999-12-31T24:00:00", "=", "2000-01-01T00:00:00"),
        (DateTime, "-0001-12-31T24:00:00", "=", "0001-01-01T00:00:00"),
        (DateTime, "10000-01-01T00:00:00", ">", "9999-12-31T23:59:59.999"),
        (DateTime, "2000-01-01T00:00:00.1", "=", "2000-01-01T00:00:00.100"),
        (Time, "24:00:00", "=", "00:00:00"),
        (Time, "08:00:00+09:00", "<", "17:00:00+06:00"),
        (Date, "2000-01-01+13:00", "=", "1999-12-31-11:00"),
        (GYear, "-0002", "<", "-0001"),
        (GMonthDay, "--02-29", "<", "--03-01"),
        (GDay, "---01", "<", "---02"),
        (GMonth, "--12", ">", "--01"),
        (GYearMonth, "2000-12", "<", "2001-01"),
        (NmTokens, "a b", "=", " a  b"),
        (NmTokens, "a b", "?", "b a"),
    ];
    for (builtin, one, sign, two) in rows {
        let value = |text| builtin.simple().validate(text, &EmptyScope).unwrap();
        let found = match value(one).order(&value(two)) {
            Some(Ordering::Less) => "<",
            Some(Ordering::Equal) => "=",
            Some(Ordering::Greater) => ">",
            None => "?",
        };
        assert_eq!(found, sign, "{one} and {two} as {}", builtin.name());
        assert_eq!(value(one) == value(two), sign == "=", "{one} and {two} as {}", builtin.name());
        assert_eq!(
            value(two).order(&value(one)),
            value(one).order(&value(two)).map(Ordering::reverse)
        );
    }
}

#[test]
fn values_of_different_primitives_are_never_equal() {
    let value = |builtin: Builtin, text| builtin.simple().validate(text, &EmptyScope).unwrap();
    assert_eq!(value(Builtin::Byte, "1"), value(Builtin::Decimal, "1.0"));
    assert_eq!(value(Builtin::Token, "a"), value(Builtin::Id, "a"));
    for (one, two) in [
        (Builtin::String, Builtin::AnyUri),
        (Builtin::Decimal, Builtin::Double),
        (Builtin::Float, Builtin::Double),
        (Builtin::String, Builtin::Decimal),
        (Builtin::HexBinary, Builtin::String),
    ] {
        assert_ne!(value(one, "10"), value(two, "10"), "{} and {}", one.name(), two.name());
    }
}

#[test]
fn white_space_is_normalised() {
    let rows = [
        (WhiteSpace::Preserve, " a\tb \n", " a\tb \n"),
        (WhiteSpace::Replace, " a\tb \r\n", " a b   "),
        (WhiteSpace::Collapse, " a\tb \n", "a b"),
        (WhiteSpace::Collapse, "a  b", "a b"),
        (WhiteSpace::Collapse, "\u{A0}a", "\u{A0}a"),
        (WhiteSpace::Collapse, " \n", ""),
    ];
    for (white, text, expected) in rows {
        assert_eq!(white.normalize(text), expected, "{white:?} of {text:?}");
    }
}

#[test]
fn a_union_takes_the_first_member_that_fits() {
    let members = [Builtin::Int.simple(), Builtin::Boolean.simple(), Builtin::Token.simple()];
    let union = Arc::new(SimpleType::union(&members).unwrap());
    for (text, of) in [("1", Builtin::Int), ("true", Builtin::Boolean), ("  x ", Builtin::Token)] {
        let value = union.validate(text, &EmptyScope).unwrap();
        assert_eq!(value, of.simple().validate(text, &EmptyScope).unwrap(), "{text:?}");
    }
    let narrow = super::restrict(&union, &["enumeration=01", "enumeration=x"]).unwrap();
    for (text, code) in [("1", ""), ("x", ""), ("true", "cvc-enumeration-valid")] {
        assert_eq!(check(&narrow, text), code, "{text:?}");
    }
    let numbers = SimpleType::union(&members[..2]).unwrap();
    assert_eq!(check(&numbers, "x"), "cvc-datatype-valid.1.2.3");
}

#[test]
fn lists_count_items_and_compare_them() {
    let ints = Arc::new(SimpleType::list(&Builtin::Int.simple()).unwrap());
    let pair = super::restrict(
        &ints,
        &["length=2", "pattern=\\d \\d", "enumeration=1 2", "enumeration=3  4"],
    );
    let pair = pair.unwrap();
    for (text, code) in [
        (" 1\n2 ", ""),
        ("3 4", ""),
        ("1", "cvc-length-valid"),
        ("01 2", "cvc-pattern-valid"),
        ("1 3", "cvc-enumeration-valid"),
        ("1 x", "cvc-datatype-valid.1.2.2"),
        ("1 9999999999", "cvc-maxInclusive-valid"),
    ] {
        assert_eq!(check(&pair, text), code, "{text:?}");
    }
    assert_eq!(check(&ints, ""), "");
}

#[test]
fn identifiers_are_found_in_lists_and_unions() {
    let union = SimpleType::union(&[Builtin::Int.simple(), Builtin::IdRefs.simple()]).unwrap();
    let rows = [
        (Builtin::Id.simple(), " a ", vec![(Identifier::Id, "a")]),
        (Builtin::IdRefs.simple(), "a b", vec![(Identifier::IdRef, "a"), (Identifier::IdRef, "b")]),
        (Arc::new(union), "a", vec![(Identifier::IdRef, "a")]),
        (of(Builtin::Id, &["maxLength=3"]), "abc", vec![(Identifier::Id, "abc")]),
        (Builtin::NcName.simple(), "a", vec![]),
    ];
    for (simple, text, expected) in rows {
        assert_eq!(simple.has_identifiers(), !expected.is_empty());
        let mut found = Vec::new();
        simple.identifiers(text, &EmptyScope, &mut |kind, id| found.push((kind, id.to_owned())));
        let found: Vec<_> = found.iter().map(|(kind, id)| (*kind, id.as_str())).collect();
        assert_eq!(found, expected, "{text:?}");
    }
}

#[test]
fn the_fast_path_never_accepts_what_the_full_check_refuses() {
    // Every text of up to three of these characters, for each type with a fast path.
    let parts = ["1", "-", ".", "e", "E", "+", ":", "T", " ", "a", "%", "#", "/", "é", "t"];
    let mut texts = vec![std::string::String::new()];
    let mut from = 0;
    for _ in 0..3 {
        let longer: Vec<_> = texts[from..]
            .iter()
            .flat_map(|text| parts.map(|part| format!("{text}{part}")))
            .collect();
        from = texts.len();
        texts.extend(longer);
    }
    texts.extend(
        ["2000-02-30", "2000-01-01T24:00:00", "24:00:00.0", "true", "http://a"].map(Into::into),
    );
    for builtin in Builtin::ALL {
        // A pattern that matches everything takes away the type's fast path.
        let Ok(long) = super::restrict(&builtin.simple(), &["pattern=(.|\\n)*"]) else { continue };
        for text in &texts {
            let (quick, long) = (check(&builtin.simple(), text), check(&long, text));
            assert_eq!(quick, long, "{text:?} as {}", builtin.name());
        }
    }
}
