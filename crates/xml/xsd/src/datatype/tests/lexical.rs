//! The lexical space of each built-in type: valid and invalid texts.

use super::super::{Builtin, NameScope};
use super::check;

/// A type, its valid texts, and its invalid texts.
type Row = (Builtin, &'static [&'static str], &'static [&'static str]);

const NUMBERS: &[Row] = &[
    (Builtin::Boolean, &["true", "false", "1", "0", " \t\n1 "], &["", "TRUE", "2", "01", "t rue"]),
    (
        Builtin::Decimal,
        &["0", "-0", "+1", "1.", ".5", "-1.23", "0001.1000", "123456789012345678901234567890.5"],
        &["", ".", "+", "-.", "1e3", "1,5", "1 2", "--1", "INF", "٣"],
    ),
    (
        Builtin::Float,
        &[
            "1", "-1E4", "1.e2", ".5E-3", "INF", "-INF", "NaN", "0", "-0", "12.78e+2", "1e9999",
            "1E+05", "-.5", "5.e-0",
        ],
        &["", "+INF", "inf", "nan", "1E", "E5", "1e1.5", "0x1p3", "infinity", "1_0", "."],
    ),
    (Builtin::Double, &["1e308", "NaN", "-INF", "1e-999"], &["", "1d", "1 e3", "Infinity"]),
    (
        Builtin::Integer,
        &["0", "-1", "+1", "00012", "99999999999999999999999"],
        &["", "1.0", "1.", "- 1", "+-1", "1e2"],
    ),
    (Builtin::NonPositiveInteger, &["0", "-0", "-1", "-99999999999999999999"], &["1", "+1", ""]),
    (Builtin::NegativeInteger, &["-1", "-99999999999999999999"], &["0", "-0", "1"]),
    (
        Builtin::Long,
        &["9223372036854775807", "-9223372036854775808", "+0009223372036854775807"],
        &["9223372036854775808", "-9223372036854775809"],
    ),
    (Builtin::Int, &["2147483647", "-2147483648", " 1 "], &["2147483648", "-2147483649", "1.0"]),
    (Builtin::Short, &["32767", "-32768"], &["32768", "-32769"]),
    (Builtin::Byte, &["127", "-128", "+127"], &["128", "-129"]),
    (Builtin::NonNegativeInteger, &["0", "-0", "+1"], &["-1"]),
    (Builtin::UnsignedLong, &["18446744073709551615", "0"], &["18446744073709551616", "-1"]),
    (Builtin::UnsignedInt, &["4294967295"], &["4294967296", "-1"]),
    (Builtin::UnsignedShort, &["65535"], &["65536", "-1"]),
    (Builtin::UnsignedByte, &["255", "-0"], &["256", "-1"]),
    (Builtin::PositiveInteger, &["1", "+1", "99999999999999999999"], &["0", "-1", "-0"]),
];

const TIMES: &[Row] = &[
    (
        Builtin::Duration,
        &["P1Y", "-P1Y2M3DT4H5M6.7S", "PT0S", "P0D", "PT36H", "P1347M", "-P1M"],
        &[
            "", "P", "PT", "P1YT", "1Y", "P-1Y", "P1M2Y", "P1H", "PT1D", "P1.5Y", "P1.0Y", "PT.5S",
            "PT1.S", "+P1Y", "P1S", "P 1Y",
        ],
    ),
    (
        Builtin::DateTime,
        &[
            "2002-10-10T12:00:00-05:00",
            "2002-10-10T12:00:00Z",
            "2002-10-10T24:00:00",
            "2000-02-29T00:00:00",
            "2000-01-31T23:59:59",
            " 2000-01-01T00:00:00Z ",
            "-0001-01-01T00:00:00.123456789012345678901234",
            "12002-01-01T00:00:00+14:00",
            "1999-12-31T23:59:59.9",
        ],
        &[
            "",
            "2002-10-10",
            "2002-10-10T12:00",
            "0000-01-01T00:00:00",
            "002-01-01T00:00:00",
            "02002-01-01T00:00:00",
            "1900-02-29T00:00:00",
            "2002-13-01T00:00:00",
            "2002-00-01T00:00:00Z",
            "2002-01-00T00:00:00Z",
            "2002-04-31T00:00:00Z",
            "2002-02-29T00:00:00Z",
            "2002-01-01T0:000:00Z",
            "2002-01-01T00:00:0:Z",
            "2002-01-32T00:00:00",
            "2002-01-01T24:00:01",
            "2002-01-01T25:00:00",
            "2002-01-01T00:60:00",
            "2002-01-01T00:00:60",
            "2002-01-01T00:00:00.",
            "2002-01-01T00:00:00+14:01",
            "2002-01-01T00:00:00+15:00",
            "2002-01-01T00:00:00+1:00",
            "2002-01-01t00:00:00",
            "+2002-01-01T00:00:00",
            "2002-01-01T00:00:00z",
            "2002-01-01 00:00:00",
            "2002-1-1T00:00:00",
            "9999999999999-01-01T00:00:00",
        ],
    ),
    (
        Builtin::Time,
        &["13:20:00-05:00", "24:00:00", "00:00:00.5", "23:59:59Z"],
        &["", "1:20:00", "13:20", "24:00:00.1", "13:60:00"],
    ),
    (
        Builtin::Date,
        &["1999-05-31", "1999-05-31Z", "-1999-05-31+01:00", "2004-02-29"],
        &[
            "",
            "1999-5-31",
            "2003-02-29",
            "1999-04-31",
            "1999-05-00",
            "99-05-31",
            "1999-05-31T00:00:00",
        ],
    ),
    (
        Builtin::GYearMonth,
        &["1999-05", "1999-05Z", "-1999-12-14:00"],
        &["", "1999", "1999-13", "1999-00", "1999-5"],
    ),
    (
        Builtin::GYear,
        &["1999", "-0001", "1999Z", "12000", "1999-05:00"],
        &[
            "",
            "0000",
            "99",
            "01999",
            "1999-05",
            "+1999",
            "9223372036854775808",
            "99999999999999999999",
        ],
    ),
    (
        Builtin::GMonthDay,
        &["--02-29", "--05-31Z", "--12-31+01:00"],
        &["", "--02-30", "--04-31", "-05-31", "--5-31", "05-31", "--05-31-"],
    ),
    (Builtin::GDay, &["---01", "---31Z", "---31-05:00"], &["", "---32", "---00", "--01", "---1"]),
    (
        Builtin::GMonth,
        &["--05", "--12Z", "--01+14:00"],
        &["", "--13", "--00", "-05", "--5", "--05--"],
    ),
];

const TEXTS: &[Row] = &[
    (Builtin::AnySimpleType, &["", "anything  at\tall"], &[]),
    (Builtin::String, &["", " \t\n "], &[]),
    (Builtin::NormalizedString, &["", " a\tb "], &[]),
    (Builtin::Token, &["", " a  b "], &[]),
    (
        Builtin::Language,
        &["en", "en-GB", "x-klingon", "sgn-US-MA", " de "],
        &["", "en_GB", "123", "toolonglang", "en-", "en-toolongpart"],
    ),
    (Builtin::Name, &["a", ":a", "_", "a:b:c", "é-1.2"], &["", "1a", "-a", "a b", "a&b"]),
    (Builtin::NcName, &["a", "_a", "é"], &["", "a:b", ":a", "1"]),
    (Builtin::NmToken, &["1", "-a", "a:b", ".", "·"], &["", "a b", "a,b", "×"]),
    (Builtin::NmTokens, &["1", "1  2\n3"], &["", " ", "1 ,"]),
    (Builtin::Id, &["a1"], &["", "1a", "a:b"]),
    (Builtin::IdRef, &["a1"], &["", "1a", "a b"]),
    (Builtin::IdRefs, &["a1 b2", "a"], &["", "a 1"]),
    (Builtin::Entity, &["e"], &["", "1"]),
    (Builtin::Entities, &["e f"], &["", "e 1"]),
    (Builtin::QName, &["a", "xml:a"], &["", "nope:a", "a:b:c", ":a", "a:", "1"]),
    (Builtin::Notation, &["a"], &["", "a b"]),
    (Builtin::HexBinary, &["", "0aF9", "FF"], &["0", "0g", "0x00", "0 0"]),
    (
        Builtin::Base64Binary,
        &["", "AAAA", "AA==", "AAA=", "QUJD REVG", "A A A A", "AAA =", "+/9z"],
        &["A", "AA", "AAA", "A===", "AAAA=", "AB==", "AAB=", "=AAA", "AA=A", "A-A_", "AAAAA"],
    ),
    (
        Builtin::AnyUri,
        &[
            "",
            "http://www.example.com/a?b#c",
            "a b",
            "../a",
            "urn:x:y",
            "é",
            "a%20b",
            "#a",
            "mailto:a@b",
            "a/b:c",
            "?a:b",
            "{a}",
            "http://[::1]/",
        ],
        &["%", "%zz", "a#b#c", ":a", "1a:b", "a b:c"],
    ),
];

#[test]
fn texts_are_in_the_lexical_space_or_not() {
    for (builtin, valid, invalid) in [NUMBERS, TIMES, TEXTS].concat() {
        let simple = builtin.simple();
        for text in valid {
            assert_eq!(check(&simple, text), "", "{} should take {text:?}", builtin.name());
        }
        for text in invalid {
            assert_ne!(check(&simple, text), "", "{} should refuse {text:?}", builtin.name());
        }
    }
}

#[test]
fn every_builtin_is_in_a_table_and_has_a_name() {
    for builtin in Builtin::ALL {
        assert_eq!(Builtin::from_name(builtin.name()), Some(builtin));
        let rows = [NUMBERS, TIMES, TEXTS].concat();
        assert!(rows.iter().any(|(of, ..)| *of == builtin), "{} has no row", builtin.name());
        let base = builtin.base().map(Builtin::simple);
        let found = builtin.simple();
        assert_eq!(found.builtin(), builtin);
        assert!(base.is_none_or(|base| found.derives_from(&base)));
    }
    assert_eq!(Builtin::from_name("anyType"), None);
}

#[test]
fn codes_distinguish_lexical_errors_from_facets_and_lists_from_atoms() {
    let rows = [
        (Builtin::Int, "x", "cvc-datatype-valid.1.2.1"),
        (Builtin::Int, "2147483648", "cvc-maxInclusive-valid"),
        (Builtin::Byte, "-129", "cvc-minInclusive-valid"),
        (Builtin::NmTokens, "a ,", "cvc-datatype-valid.1.2.2"),
        (Builtin::NmTokens, "", "cvc-minLength-valid"),
    ];
    for (builtin, text, code) in rows {
        assert_eq!(check(&builtin.simple(), text), code, "{text:?} as {}", builtin.name());
    }
}

/// A context with one prefix, one notation and one entity.
struct Here;

impl NameScope for Here {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "" => Some("urn:default"),
            "p" => Some("urn:p"),
            _ => None,
        }
    }

    fn notation(&self, uri: &str, local: &str) -> bool {
        (uri, local) == ("urn:p", "gif")
    }

    fn entity(&self, name: &str) -> bool {
        name == "picture"
    }
}

#[test]
fn names_are_resolved_in_their_context() {
    let rows = [
        (Builtin::QName, "a", "{urn:default}a"),
        (Builtin::QName, "p:a", "{urn:p}a"),
        (Builtin::QName, "q:a", "cvc-datatype-valid.1.2.1"),
        (Builtin::Notation, "p:gif", "{urn:p}gif"),
        (Builtin::Notation, "gif", "cvc-datatype-valid.1.2.1"),
        (Builtin::Entity, "picture", "'picture'"),
        (Builtin::Entity, "sound", "cvc-simple-type.2"),
        (Builtin::Entities, "picture sound", "cvc-simple-type.2"),
    ];
    for (builtin, text, expected) in rows {
        let found = match builtin.simple().validate(text, &Here) {
            Ok(value) => value.to_string(),
            Err(violation) => violation.code.to_owned(),
        };
        assert_eq!(found, expected, "{text:?} as {}", builtin.name());
    }
}
