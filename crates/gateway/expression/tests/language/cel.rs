//! CEL over JSON: numbers of every spelling, exact comparisons, and what is absent or of another type.

use expression::{Budget, ErrorKind, Expression, FailureKind, Language, Limits, Number, Value};

use crate::message::{Message, text};

const NUMBERS: &str = r#"{"a": 1, "b": 2.5, "five": 5, "point": 5.0, "exponent": 50e-1, "half": 0.5, "zero": 0, "nil": 0.0,
    "max": 9223372036854775807, "min": -9223372036854775808, "double": 9223372036854775807.0, "uint": 18446744073709551615,
    "over": 18446744073709551616, "above": 18446744073709551617, "odd": 9007199254740993, "even": 9007199254740992.0,
    "huge": 1e400, "tiny": -1e400, "text": "5", "yes": true, "nothing": null, "list": [1, 2.0, 9007199254740993], "map": {"x": 5.0}}"#;

fn message() -> Message {
    Message::json(NUMBERS)
        .header("X-Id", "42")
        .with("x", text("5"))
        .with("infinite", Value::Number(Number::of(f64::INFINITY)))
}

fn run(source: &str) -> Result<String, String> {
    let message = message();
    let compiled = Expression::compile(source, Language::Cel, &message);
    let compiled = compiled.unwrap_or_else(|error| panic!("{source}: {error}"));
    let value = compiled.value(&message, &mut Budget::default());
    value
        .map(|value| value.text().unwrap().into_owned())
        .map_err(|failure| failure.kind.to_string())
}

#[track_caller]
fn give(cases: &[(&str, &str)]) {
    for (source, expected) in cases {
        assert_eq!(run(source).as_deref(), Ok(*expected), "{source}");
    }
}

#[track_caller]
fn hold(holds: bool, cases: &[&str]) {
    for source in cases {
        assert_eq!(run(source), Ok(holds.to_string()), "{source}");
    }
}

/// Issue 42: `payload.a + payload.b` of an int and a double was an error.
#[test]
fn numbers_mix_as_in_json() {
    give(&[
        ("body.a + body.b", "3.5"),
        ("body.b + body.a", "3.5"),
        ("body.a - body.b", "-1.5"),
        ("body.a * body.b", "2.5"),
        ("body.b / body.a", "2.5"),
        ("body.five % body.b", "0"),
        ("body.five % 3.5", "1.5"),
        ("-body.five % 3", "-2"),
        ("body.a + 1u", "2"),
        ("2u * body.b", "5"),
        ("body.uint - body.a", "18446744073709551614"),
        ("body.uint + 0.5", "18446744073709552000"),
        ("[1, 2.5].map(n, n * 2)", "[2,5]"),
        ("[1, 2.5, 3u].filter(n, n > 1.5)", "[2.5,3]"),
        ("[1, 2].exists_one(n, n == 1.0)", "true"),
        ("'a' + 'b'", "ab"),
        ("[1] + [2.5]", "[1,2.5]"),
        ("body.list + body.list == [1, 2, body.odd, 1, 2, body.odd]", "true"),
        ("body.uint % 10.0", "5"),
        ("body.odd % 2.0", "1"),
    ]);
}

#[test]
fn a_number_is_the_same_however_it_is_written() {
    for n in ["body.five", "body.point", "body.exponent", "5", "5.0", "5u", "body.map.x"] {
        for (rule, expected) in [
            ("N == 5 && N == 5.0 && N == 5u && 5 == N && !(N != 5.0)", "true"),
            ("N in [4, 5] && N in [5.0] && N in {5: 1} && N in {5u: 1} && !(N in [5.5])", "true"),
            ("N < 5.5 && N <= 5 && N >= 5.0 && N > 4u && !(N < 5) && !(N > 5.0)", "true"),
            ("[N, {'k': [N]}] == [5.0, {'k': [5u]}]", "true"),
            ("N + 1", "6"),
            ("N - 1", "4"),
            ("N * 2", "10"),
            ("N % 3", "2"),
            ("body.five / body.half + N", "15"),
            ("string(N)", "5"),
            ("int(N) / 2", "2"),
            ("[0, 1, 2, 3, 4, 9][N]", "9"),
            ("{5: 'five'}[N]", "five"),
            ("'%' + string(N * 2)", "%10"),
        ] {
            let source = rule.replace('N', n);
            assert_eq!(run(&source).as_deref(), Ok(expected), "{source}");
        }
    }
    // The quotient of numbers in a message does not depend on their spelling. Integers in the expression are divided as in CEL.
    for (source, expected) in [
        ("body.five / 2", "2.5"),
        ("body.point / 2", "2.5"),
        ("2 / body.five", "0.4"),
        ("body.five / body.five", "1"),
        ("body.point / body.five + 0", "1"),
        ("body.max / 1", "9223372036854775807"),
        ("7 / 2", "3"),
        ("7u / 2", "3"),
        ("(status + 3) / 100", "2"),
        ("-7 / 2", "-3"),
        ("7.0 / 2", "3.5"),
        ("size(body.list) / 2", "1"),
        ("int(body.five) / 2", "2"),
        ("(int(body.b) + 3) * 2 / 4", "2"),
        ("int(body.five / 2)", "2"),
    ] {
        assert_eq!(run(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn comparisons_are_exact() {
    hold(
        true,
        &[
            "body.max < body.double && body.double > body.max && body.max != body.double",
            "body.max == 9223372036854775807 && body.max > 9223372036854774784.0",
            "body.min == -9223372036854775808.0 && body.min < -9223372036854774784.0",
            "body.min < 0u && 0u > body.min && body.min < body.uint && body.uint > body.max",
            "body.odd != body.even && body.odd > body.even && body.even < body.odd",
            "!(body.odd in [body.even]) && body.odd in body.list && !(9007199254740992.0 in body.list)",
            "[body.odd] != [body.even] && {'a': body.odd} != {'a': body.even}",
            "body.uint < 18446744073709551616.0 && body.over == 18446744073709551616.0",
            "body.over > body.uint && body.over < body.above && body.over != body.above",
            "body.over == body.over && body.above > 18446744073709551616.0 && body.over > body.max",
            "body.huge > 1.7976931348623157e308 && body.huge > body.uint && body.tiny < body.min",
            "body.huge > body.tiny && body.a < body.huge && body.huge in [body.huge]",
            "body.half > 0 && body.half < 1 && -body.half < 0 && -0.5 > -1",
            "body.zero == body.nil && -0.0 == 0 && 0u == -0.0",
            "double('NaN') != double('NaN') && double('NaN') != 1",
            "1 < double('Infinity') && body.over < double('Infinity')",
        ],
    );
}

#[test]
fn what_does_not_fit_is_an_error() {
    for (source, part) in [
        ("body.max + 1", "`+`: the result does not fit into 64 bits"),
        ("body.min - 1", "`-`: the result does not fit into 64 bits"),
        ("body.max * 2", "`*`: the result does not fit into 64 bits"),
        ("body.min / -1", "`/`: the result does not fit into 64 bits"),
        ("body.max + body.uint", "does not fit into 64 bits"),
        ("body.uint * body.uint", "does not fit into 64 bits"),
        ("9223372036854775807 + 1", "does not fit into 64 bits"),
        ("1u - 2u", "does not fit into 64 bits"),
        ("1e308 * 10", "`*`: the result is larger than any double"),
        ("body.over + 1", "`+`: a number of the message has more than 64 bits"),
        ("body.half * body.huge", "more than 64 bits"),
        ("body.a / body.zero", "`/`: division by zero"),
        ("body.a / body.nil", "`/`: division by zero"),
        ("body.b % body.nil", "`%`: division by zero"),
        ("1 / 0", "division by zero"),
        ("1.0 / 0.0", "division by zero"),
        ("1 < double('NaN')", "`<`: NaN cannot be ordered"),
    ] {
        let said = run(source).unwrap_err();
        assert!(said.contains(part), "{source}: {said}");
    }
}

/// Issue 42: an integer of more than 64 bits was rounded to the nearest double.
#[test]
fn a_number_that_nothing_computes_with_keeps_its_digits() {
    give(&[
        ("body.over", "18446744073709551616"),
        ("string(body.above) + '!'", "18446744073709551617!"),
        ("[body.over, {'h': body.huge}]", r#"[18446744073709551616,{"h":1e400}]"#),
        ("double(body.over)", "18446744073709552000"),
        ("vars.infinite > body.huge && vars.infinite > 1 && vars.infinite != body.huge", "true"),
        ("body.odd", "9007199254740993"),
    ]);
}

#[test]
fn other_types_are_not_coerced() {
    hold(
        true,
        &[
            "vars.x == '5' && vars.x != 5 && !(vars.x == 5) && vars.x != 5.0",
            "body.text != body.five && !(body.five in [body.text]) && !(body.five in ['5'])",
            "body.yes != 1 && body.nothing != 0 && body.nothing == null && body.map != 5",
            "double(vars.x) == 5 && int(vars.x) < 5.5 && string(body.five) == vars.x",
            "'a' < 'b' && false < true",
        ],
    );
    for (source, parts) in [
        ("vars.x > 5", ["`>`", "string", "int"]),
        ("5.5 <= body.text", ["`<=`", "double", "string"]),
        ("body.a + body.text", ["`+`", "int", "string"]),
        ("body.text * 2", ["`*`", "string", "int"]),
        ("body.yes > 0", ["`>`", "bool", "int"]),
        ("body.nothing < 1", ["`<`", "null", "int"]),
        ("body.list > 1", ["`>`", "list", "int"]),
        ("1 in body.a", ["`in`", "int", "int"]),
        ("int(body.text) / status / 'a'", ["`/`", "int", "string"]),
    ] {
        let said = run(source).unwrap_err();
        assert!(parts.iter().all(|part| said.contains(part)), "{source}: {said}");
    }
}

/// A comparison of a text with a number, which can never be true, is refused when it is compiled.
#[test]
fn a_text_is_compared_with_no_number() {
    for source in [
        "headers['x-id'] == 42",
        "42.0 != headers['x-id']",
        "1u == headers.a",
        "vars.x == '' || headers.a == 1",
    ] {
        let error = Expression::compile(source, Language::Cel, &message()).unwrap_err();
        let ErrorKind::Type(what) = &error.kind else { panic!("{source}: {error}") };
        assert!(what.contains("is a text, which no number equals"), "{source}: {what}");
    }
    hold(
        true,
        &["headers['x-id'] == '42'", "double(headers['x-id']) == 42", "headers['x-id'] != vars.x"],
    );
    hold(false, &["[1].exists(headers, headers == 2)"]);
}

#[test]
fn what_is_absent_is_named() {
    for (source, part) in [
        ("body.none > 5", "`body.none` is absent; test it with `has(body.none)`"),
        ("body.map.none + 1", "`body.map.none` is absent"),
        ("body['none'] == 1", "`body.none` is absent"),
        ("body.none.more == 1", "`body.none` is absent"),
        ("body.none == 1 || body.map.none == 1", "the member `none` is absent"),
        ("body.list[7] > 1", "the list has no item with this index"),
    ] {
        let said = run(source).unwrap_err();
        assert!(said.contains(part), "{source}: {said}");
    }
    hold(false, &["has(body.none) && body.none > 5", "body.none > 5 && false"]);
    hold(true, &["body.none > 5 || true"]);
    // A path alone may find nothing, as in the other languages.
    for source in ["body.none", "body.none.more", "body['none']", "body.list[7]", "body.map.x.y"] {
        let found = run(source);
        assert!(found.as_deref() == Ok("") || source == "body.map.x.y", "{source}: {found:?}");
    }
    let required = Expression::compile("body.none", Language::Cel, &message()).unwrap().required();
    let failure = required.value(&message(), &mut Budget::default()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Missing);
}

#[test]
fn a_default_stands_for_what_fails() {
    give(&[
        ("default(body.none > 5, false)", "false"),
        ("default(body.none, 'x')", "x"),
        ("default(body.a, 'x')", "1"),
        ("default(vars.x > 5, '')", ""),
        ("default(body.none, 0) + 1", "1"),
        ("[1, 0].map(n, default(1 % n, -1))", "[0,-1]"),
        ("default(body.none, default(body.nowhere, 7))", "7"),
        (
            "sameText(vars.x, 5) && sameText(5, '5') && !sameText('5', 6) && sameText(true, 'true')",
            "true",
        ),
        ("sameText(null, null) && !sameText(null, '') && !sameText(null, 'null')", "true"),
        ("sameText(body.half, '0.5') && sameText(body.over, '18446744073709551616')", "true"),
        ("sameText(body.list, [1, 2, body.odd]) && !sameText(body.list, '1')", "true"),
    ]);
    let error = Expression::compile("default(default(1, 2), 3)", Language::Cel, &message());
    assert!(error.unwrap_err().to_string().contains("cannot be nested in the first part"));
    // A default does not hide that a limit was exceeded.
    let source = "default(body.list.all(a, body.list.all(b, a != b || true)), true)";
    let compiled = Expression::compile(source, Language::Cel, &message()).unwrap();
    let limits = Limits { steps_max: 900, ..Limits::default() };
    let failure = compiled.value(&message(), &mut Budget::new(limits)).unwrap_err();
    assert!(matches!(failure.kind, FailureKind::Limit { .. }), "{failure}");
    assert!(matches!(compiled.value(&message(), &mut Budget::default()), Ok(Value::Boolean(true))));
}
