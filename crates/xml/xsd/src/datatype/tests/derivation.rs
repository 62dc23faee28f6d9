//! Facets that a derivation may have, and their check of values.

use std::sync::Arc;

use super::super::{Builtin, EmptyScope, FacetKind, SimpleType, Variety};
use super::{check, of, restrict};

/// A base, the facets of each step, and the broken rules.
type Row = (Builtin, &'static [&'static [&'static str]], &'static [&'static str]);

/// More values than a linear search is used for.
const TEN: &[&str] = &[
    "enumeration=a",
    "enumeration=b",
    "enumeration=c",
    "enumeration=d",
    "enumeration=e",
    "enumeration=f",
    "enumeration=g",
    "enumeration=h",
    "enumeration=i",
    "enumeration=j",
];

#[test]
fn rules_of_one_step_after_another() {
    use Builtin::*;
    let rows: &[Row] = &[
        (String, &[&["length=3"]], &[]),
        (String, &[&["length=-1"]], &["cvc-minInclusive-valid"]),
        (String, &[&["length=x"]], &["cvc-datatype-valid.1.2.1"]),
        (String, &[&["length=99999999999999999999999"]], &[]),
        (String, &[&["minLength=3", "maxLength=2"]], &["minLength-less-than-equal-to-maxLength"]),
        (String, &[&["minLength=3"], &["minLength=2"]], &["minLength-valid-restriction"]),
        (String, &[&["minLength=3"], &["minLength=4"]], &[]),
        (String, &[&["maxLength=3"], &["maxLength=4"]], &["maxLength-valid-restriction"]),
        (String, &[&["length=3"], &["length=4"]], &["length-valid-restriction"]),
        (String, &[&["length=3", "minLength=3"]], &["length-minLength-maxLength"]),
        (String, &[&["minLength=2"], &["length=3"]], &[]),
        (String, &[&["minLength=4"], &["length=3"]], &["length-minLength-maxLength"]),
        (String, &[&["maxLength=2"], &["length=3"]], &["length-minLength-maxLength"]),
        (String, &[&["length=3"], &["maxLength=3"]], &["length-minLength-maxLength"]),
        (
            String,
            &[&["maxLength=9"], &["minLength=10"]],
            &["minLength-less-than-equal-to-maxLength"],
        ),
        (String, &[&["length=3", "length=3"]], &["src-single-facet-value"]),
        (String, &[&["maxInclusive=3"]], &["cos-applicable-facets"]),
        (String, &[&["totalDigits=3"]], &["cos-applicable-facets"]),
        (String, &[&["pattern=["]], &["pattern-valid"]),
        (String, &[&["enumeration=ab", "enumeration=abcd"]], &[]),
        (
            String,
            &[&["maxLength=3"], &["enumeration=ab", "enumeration=abcd"]],
            &["enumeration-valid-restriction"],
        ),
        (
            String,
            &[&["enumeration=a", "enumeration=b"], &["enumeration=c"]],
            &["enumeration-valid-restriction"],
        ),
        (
            String,
            &[&["whiteSpace=collapse"], &["whiteSpace=replace"]],
            &["whiteSpace-valid-restriction"],
        ),
        (String, &[&["whiteSpace=replace"], &["whiteSpace=collapse"]], &[]),
        (String, &[&["whiteSpace=trim"]], &["cvc-enumeration-valid"]),
        (String, &[&["maxLength!=3"], &["maxLength=2"]], &["st-restrict-facets"]),
        (String, &[&["maxLength!=3"], &["maxLength=3"]], &[]),
        (String, &[&["maxLength!=3"], &[], &["maxLength=2"]], &["st-restrict-facets"]),
        (Token, &[&["whiteSpace=preserve"]], &["whiteSpace-valid-restriction"]),
        (Boolean, &[&["pattern=true"]], &[]),
        (Boolean, &[&["enumeration=true"]], &["cos-applicable-facets"]),
        (Decimal, &[&["totalDigits=0"]], &["cvc-minInclusive-valid"]),
        (Decimal, &[&["totalDigits=2", "fractionDigits=3"]], &["fractionDigits-totalDigits"]),
        (Decimal, &[&["totalDigits=2"], &["totalDigits=3"]], &["totalDigits-valid-restriction"]),
        (
            Decimal,
            &[&["fractionDigits=2"], &["fractionDigits=3"]],
            &["fractionDigits-valid-restriction"],
        ),
        (Decimal, &[&["length=2"]], &["cos-applicable-facets"]),
        (Integer, &[&["fractionDigits=0"]], &[]),
        (Integer, &[&["fractionDigits=1"]], &["st-restrict-facets"]),
        (Integer, &[&["minInclusive=1.5"]], &["minInclusive-valid-restriction"]),
        (
            Integer,
            &[&["minInclusive=2", "maxInclusive=1"]],
            &["minInclusive-less-than-equal-to-maxInclusive"],
        ),
        (
            Integer,
            &[&["minInclusive=1", "maxExclusive=1"]],
            &["minInclusive-less-than-maxExclusive"],
        ),
        (
            Integer,
            &[&["minExclusive=1", "maxInclusive=1"]],
            &["minExclusive-less-than-maxInclusive"],
        ),
        (Integer, &[&["minExclusive=1", "maxExclusive=1"]], &[]),
        (
            Integer,
            &[&["minExclusive=2", "maxExclusive=1"]],
            &["minExclusive-less-than-equal-to-maxExclusive"],
        ),
        (Integer, &[&["minInclusive=1", "minExclusive=1"]], &["minInclusive-minExclusive"]),
        (Integer, &[&["maxInclusive=1", "maxExclusive=1"]], &["maxInclusive-maxExclusive"]),
        (Integer, &[&["maxInclusive=5"], &["maxInclusive=6"]], &["maxInclusive-valid-restriction"]),
        (Integer, &[&["maxExclusive=5"], &["maxExclusive=5"]], &[]),
        (Integer, &[&["maxExclusive=5"], &["maxExclusive=6"]], &["maxExclusive-valid-restriction"]),
        (Integer, &[&["maxExclusive=5"], &["maxInclusive=5"]], &["maxInclusive-valid-restriction"]),
        (Integer, &[&["minInclusive=5"], &["minExclusive=4"]], &["minExclusive-valid-restriction"]),
        (Integer, &[&["minInclusive=5"], &["minExclusive=5"]], &[]),
        (Byte, &[&["maxInclusive=200"]], &["maxInclusive-valid-restriction"]),
        (
            UnsignedInt,
            &[&["minInclusive=5"], &["maxInclusive=4"]],
            &["maxInclusive-valid-restriction", "minInclusive-less-than-equal-to-maxInclusive"],
        ),
        (Float, &[&["minInclusive=x"]], &["minInclusive-valid-restriction"]),
        (Duration, &[&["minInclusive=P1M", "maxInclusive=P30D"]], &[]),
        (
            Duration,
            &[&["minInclusive=P1M", "maxInclusive=P27D"]],
            &["minInclusive-less-than-equal-to-maxInclusive"],
        ),
        (Date, &[&["length=10"]], &["cos-applicable-facets"]),
        (NmTokens, &[&["minLength=0"]], &["minLength-valid-restriction"]),
        (NmTokens, &[&["maxLength=3", "enumeration=a b"]], &[]),
        (NmTokens, &[&["maxInclusive=3"]], &["cos-applicable-facets"]),
        (AnySimpleType, &[&["length=3"]], &["cos-st-restricts.1.1"]),
        (QName, &[&["enumeration=xml:a"]], &[]),
        (QName, &[&["enumeration=nope:a"]], &["enumeration-valid-restriction"]),
        (
            String,
            &[&["minLength=3", "maxLength=2", "pattern=(", "totalDigits=1"]],
            &["cos-applicable-facets", "pattern-valid", "minLength-less-than-equal-to-maxLength"],
        ),
    ];
    for (base, steps, expected) in rows {
        let mut simple = base.simple();
        let mut found = Vec::new();
        for step in *steps {
            match restrict(&simple, step) {
                Ok(narrower) => simple = narrower,
                Err(codes) => found.extend(codes),
            }
        }
        assert_eq!(found, *expected, "{} restricted by {steps:?}", base.name());
    }
}

#[test]
fn facets_restrict_values() {
    use Builtin::*;
    let rows: &[(Builtin, &[&str], &str, &str)] = &[
        (String, &["length=2"], "äö", ""),
        (String, &["length=2"], "aaa", "cvc-length-valid"),
        (String, &["minLength=2"], "a", "cvc-minLength-valid"),
        (String, &["maxLength=2"], "abc", "cvc-maxLength-valid"),
        (String, &["pattern=a", "pattern=b"], "b", ""),
        (String, &["pattern=a", "pattern=b"], "ab", "cvc-pattern-valid"),
        (String, &["whiteSpace=collapse", "length=3"], "  a  b ", ""),
        (String, &["whiteSpace=collapse", "minLength=2"], "        ", "cvc-minLength-valid"),
        (NormalizedString, &["minLength=2", "maxLength=3"], "é", "cvc-minLength-valid"),
        (NormalizedString, &["minLength=2", "maxLength=3"], "ééé", ""),
        (NormalizedString, &["minLength=2", "maxLength=3"], "éééé", "cvc-maxLength-valid"),
        (NormalizedString, &["minLength=1", "maxLength=3"], "", "cvc-minLength-valid"),
        (NmToken, &["minLength=1", "maxLength=3"], "a b", "cvc-datatype-valid.1.2.1"),
        (String, &["enumeration=a"], " a", "cvc-enumeration-valid"),
        (String, &["enumeration=a", "minLength=1"], "a", ""),
        (String, TEN, "j", ""),
        (String, TEN, "k", "cvc-enumeration-valid"),
        (Token, &["enumeration=a"], " a", ""),
        (HexBinary, &["length=2"], "0aff", ""),
        (HexBinary, &["length=4"], "0aff", "cvc-length-valid"),
        (Base64Binary, &["length=3"], "QUJD", ""),
        (Base64Binary, &["length=1"], "Q Q = =", ""),
        (AnyUri, &["maxLength=2"], "abc", "cvc-maxLength-valid"),
        (QName, &["length=9"], "a", ""),
        (Decimal, &["totalDigits=3"], "0012.50", ""),
        (Decimal, &["totalDigits=3"], "12.345", "cvc-totalDigits-valid"),
        (Decimal, &["fractionDigits=1"], "1.50", ""),
        (Decimal, &["fractionDigits=1"], "1.55", "cvc-fractionDigits-valid"),
        (
            Decimal,
            &["maxInclusive=99999999999999999999"],
            "100000000000000000000",
            "cvc-maxInclusive-valid",
        ),
        (Decimal, &["minExclusive=1.5"], "1.50", "cvc-minExclusive-valid"),
        (Decimal, &["enumeration=1.0"], "01", ""),
        (Float, &["maxInclusive=1"], "NaN", "cvc-maxInclusive-valid"),
        (Float, &["enumeration=NaN"], "NaN", ""),
        (Double, &["minInclusive=0"], "-0", ""),
        (Duration, &["maxExclusive=P30D"], "P1M", "cvc-maxExclusive-valid"),
        (
            DateTime,
            &["minInclusive=2000-01-01T00:00:00Z"],
            "2000-01-01T10:00:00",
            "cvc-minInclusive-valid",
        ),
        (DateTime, &["minInclusive=2000-01-01T00:00:00Z"], "2000-01-01T15:00:00", ""),
        (Date, &["enumeration=2000-01-01Z"], "2000-01-01+00:00", ""),
        (Int, &["pattern=\\d{2}"], " 12 ", ""),
        (Int, &["minInclusive=5", "maxExclusive=7"], "7", "cvc-maxExclusive-valid"),
    ];
    for (base, facets, text, expected) in rows {
        let simple = of(*base, facets);
        assert_eq!(check(&simple, text), *expected, "{text:?} as {} {facets:?}", base.name());
    }
}

#[test]
fn patterns_of_every_step_have_to_match() {
    let first = of(Builtin::String, &["pattern=a.*"]);
    let second = restrict(&first, &["pattern=.*b", "pattern=.*c"]).unwrap();
    for (text, code) in
        [("ab", ""), ("ac", ""), ("a", "cvc-pattern-valid"), ("b", "cvc-pattern-valid")]
    {
        assert_eq!(check(&second, text), code, "{text:?}");
    }
}

#[test]
fn lists_and_unions_have_special_rules() {
    let ints = Arc::new(SimpleType::list(&Builtin::Int.simple()).unwrap());
    let union =
        Arc::new(SimpleType::union(&[Builtin::Int.simple(), Builtin::Name.simple()]).unwrap());
    let mixed = Arc::new(SimpleType::union(&[Builtin::Int.simple(), Arc::clone(&ints)]).unwrap());
    let refused =
        |item: &Arc<SimpleType>| SimpleType::list(item).map_or_else(|error| error.code, |_| "");
    assert_eq!(refused(&ints), "cos-list-of-atomic");
    assert_eq!(refused(&mixed), "cos-list-of-atomic");
    assert_eq!(refused(&Builtin::NmTokens.simple()), "cos-list-of-atomic");
    assert_eq!(refused(&Builtin::AnySimpleType.simple()), "cos-list-of-atomic");
    assert_eq!(refused(&union), "");
    for kind in FacetKind::ALL {
        let facet = format!("{}=1", kind.name());
        let allowed = matches!(kind, FacetKind::Pattern | FacetKind::Enumeration);
        assert_eq!(restrict(&union, &[&facet]).is_ok(), allowed, "{facet} of a union");
    }
    let outer = SimpleType::union(&[union, Builtin::Boolean.simple()]).unwrap();
    let Variety::Union(members) = outer.variety() else { panic!("not a union") };
    assert_eq!(members.len(), 3, "a union of a union is flat");
}

#[test]
fn the_depth_of_derivation_and_the_members_of_unions_are_limited() {
    let mut simple = Builtin::String.simple();
    let codes = loop {
        match restrict(&simple, &[]) {
            Ok(narrower) => simple = narrower,
            Err(codes) => break codes,
        }
    };
    assert_eq!(codes, ["limit.simple_type_depth_max"]);
    let many = |len: usize| -> Vec<Arc<SimpleType>> {
        std::iter::repeat_with(|| restrict(&Builtin::Int.simple(), &[]).unwrap())
            .take(len)
            .collect()
    };
    let code = |members: &[Arc<SimpleType>]| SimpleType::union(members).map_err(|e| e.code).err();
    assert_eq!(code(&many(10_000)), None);
    assert_eq!(code(&many(10_001)), Some("limit.union_members_max"));
    let halves = [many(5_000), many(5_001)].map(|all| Arc::new(SimpleType::union(&all).unwrap()));
    assert_eq!(code(&halves), Some("limit.union_members_max"));
}

/// Each level would double the number of types that a text is compared with.
#[test]
fn nested_unions_stay_small() {
    let mut repeated = Arc::new(SimpleType::union(&[Builtin::Int.simple()]).unwrap());
    for _ in 0..100 {
        repeated = Arc::new(SimpleType::union(&[Arc::clone(&repeated), repeated]).unwrap());
    }
    let Variety::Union(members) = repeated.variety() else { panic!("not a union") };
    assert_eq!(members.len(), 1);
    let mut restricted = restrict(&repeated, &["pattern=1"]).unwrap();
    for _ in 0..100 {
        let both = [Arc::clone(&restricted), restricted];
        restricted =
            restrict(&Arc::new(SimpleType::union(&both).unwrap()), &["pattern=1"]).unwrap();
    }
    assert!(restricted.check("1", &EmptyScope).is_ok());
    assert!(restricted.check("2", &EmptyScope).is_err());
    let mut distinct = restricted;
    let error = loop {
        let both = ["pattern=1", "pattern=."].map(|facet| restrict(&distinct, &[facet]).unwrap());
        match SimpleType::union(&both) {
            Ok(union) => distinct = Arc::new(union),
            Err(error) => break error,
        }
    };
    assert_eq!(error.code, "limit.union_members_max");
}
