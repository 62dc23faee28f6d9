//! Compares our validation with the schema library's validation of its own values: the same values must be valid, and invalid ones must
//! have the same faults.

use std::collections::HashSet;
use std::fmt;

use fastrand::Rng;
use jsonschema::{Draft, Validator};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::document::{Document, Unreadable};
use super::node::Part;
use super::{Schema, Schemas};

fn both(schema: &Value) -> (Schema, Validator) {
    let ours = Schemas::new([], true).unwrap().compile(schema).unwrap();
    let options = jsonschema::options().with_draft(Draft::Draft202012);
    (ours, options.should_validate_formats(true).build(schema).unwrap())
}

/// A JSON value without duplicate names; deserializing fails if a name occurs twice in an object.
struct Once;

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Once, D::Error> {
        reader.deserialize_any(OnceVisitor)
    }
}

struct OnceVisitor;

impl<'de> Visitor<'de> for OnceVisitor {
    type Value = Once;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Once, A::Error> {
        let mut names = HashSet::new();
        while let Some((name, Once)) = map.next_entry::<String, Once>()? {
            if !names.insert(name) {
                return Err(A::Error::custom("twice"));
            }
        }
        Ok(Once)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Once, A::Error> {
        while items.next_element::<Once>()?.is_some() {}
        Ok(Once)
    }

    fn visit_str<E>(self, _: &str) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_unit<E>(self) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Once, E> {
        Ok(Once)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Once, E> {
        Ok(Once)
    }
}

/// Returns true if no object of a JSON text has duplicate names.
fn is_once(text: &[u8]) -> bool {
    serde_json::from_slice::<Once>(text).is_ok()
}

/// Checks that both validations agree. Returns whether the text is valid, or `None` if it has duplicate names.
fn agree(schema: &Schema, known: &Validator, text: &str) -> Option<bool> {
    let value: Value = serde_json::from_str(text).unwrap();
    if !is_once(text.as_bytes()) {
        let twice = Document::read(text.as_bytes()).unwrap_err();
        assert!(matches!(twice, Unreadable::Twice { .. }), "{text}: {twice:?}");
        return None;
    }
    let document = Document::read(text.as_bytes()).unwrap();
    let good = schema.allows(&document);
    assert_eq!(good, known.is_valid(&value), "{text}");
    for shown in [true, false] {
        let told = known.iter_errors(&value).map(|error| {
            let message = if shown { error.to_string() } else { error.masked().to_string() };
            let pointer = error.instance_path().as_str().to_owned();
            let pointer = if pointer.is_empty() { "/".to_owned() } else { pointer };
            let cut = if message.chars().count() > 300 { "..." } else { "" };
            format!("{pointer}: {}{cut}", message.chars().take(300).collect::<String>())
        });
        let told: Vec<String> = told.collect();
        assert_eq!(told.is_empty(), good, "{text}");
        if !good {
            assert_eq!(schema.faults(&document, shown, 1000), told, "{text}");
        }
    }
    Some(good)
}

fn schemas() -> Vec<Value> {
    let named = |count: usize| -> Map<String, Value> {
        (0..count)
            .map(|n| (format!("k{n}"), json!({ "type": ["integer", "null", "string", "object"] })))
            .collect()
    };
    let names = |count: usize| (0..count).map(|n| format!("k{n}")).collect::<Vec<_>>();
    let tree = json!({
        "type": "object", "required": ["k0"],
        "properties": { "k0": { "type": "integer" }, "k1": { "$ref": "#" }, "k2": { "items": { "$ref": "#" } } },
    });
    vec![
        json!({ "type": "object", "required": ["k0", "k1"], "properties": named(4) }),
        json!({ "type": "object", "required": names(1), "properties": named(5), "additionalProperties": false }),
        json!({ "required": names(3), "properties": named(30) }),
        json!({ "properties": named(2), "additionalProperties": { "type": "string", "minLength": 2, "maxLength": 3 } }),
        json!({ "patternProperties": { "^k[0-3]$": { "type": "boolean" } }, "propertyNames": { "maxLength": 2 } }),
        json!({ "type": "array", "items": { "type": "number", "minimum": -2, "exclusiveMaximum": 3, "multipleOf": 0.5 } }),
        json!({ "prefixItems": [{ "const": 1 }, { "enum": ["a", null, [1], { "k0": 1 }] }], "items": false }),
        json!({ "type": "array", "uniqueItems": true, "minItems": 1, "maxItems": 3, "contains": { "type": "integer" } }),
        json!({ "oneOf": [{ "type": "string" }, { "type": "object", "maxProperties": 2 }, { "type": "integer" }] }),
        json!({ "anyOf": [{ "minProperties": 3 }, { "const": { "k0": 1, "k1": [true] } }], "not": { "type": "null" } }),
        json!({ "allOf": [{ "properties": named(1) }], "unevaluatedProperties": false, "dependentRequired": { "k0": ["k1"] } }),
        json!({ "if": { "required": ["k0"] }, "then": { "required": ["k1"] }, "else": { "maxProperties": 1 } }),
        json!({ "additionalProperties": { "type": "string", "format": "date", "pattern": "^[0-9-]+$" } }),
        tree,
    ]
}

/// Generates a JSON text by hand, with duplicate names, escaped names, and every spelling of numbers.
fn text(random: &mut Rng, depth: usize) -> String {
    const SCALARS: [&str; 24] = [
        "null",
        "true",
        "false",
        "0",
        "1",
        "-0",
        "-0.0",
        "1.0",
        "1e0",
        "2.5",
        "-3",
        "10E-1",
        "18446744073709551615",
        "18446744073709551616",
        "-9223372036854775809",
        "0.1",
        "\"\"",
        "\"a\"",
        "\"ab\"",
        "\"abcd\"",
        "\"\\u00e9\\n\\ud83d\\ude00\"",
        "\"2024-02-30\"",
        "\"2024-02-29\"",
        "\"é😀\"",
    ];
    let pick = |random: &mut Rng| SCALARS.get(random.usize(..SCALARS.len())).copied().unwrap();
    match random.u8(..10) {
        0..5 if depth > 0 => {
            let (count, names) = if random.u8(..6) == 0 { (40, 60) } else { (5, 5) };
            let members = (0..random.usize(..count)).map(|_| {
                let name = random.usize(..names);
                let key = if random.u8(..8) == 0 { "\\u006b" } else { "k" };
                format!("\"{key}{name}\" : {}", text(random, depth - 1))
            });
            format!("{{ {} }}", members.collect::<Vec<_>>().join(" , "))
        }
        5..7 if depth > 0 => {
            let items = (0..random.usize(..5)).map(|_| text(random, depth - 1));
            format!("[{}]", items.collect::<Vec<_>>().join(","))
        }
        _ => pick(random).to_owned(),
    }
}

#[test]
fn tapes_and_values_are_validated_alike() {
    let mut random = Rng::with_seed(7);
    for schema in schemas() {
        let (ours, known) = both(&schema);
        let judged: Vec<bool> =
            (0..800).filter_map(|_| agree(&ours, &known, &text(&mut random, 3))).collect();
        let (good, all) = (judged.iter().filter(|good| **good).count(), judged.len());
        // A schema that accepts all texts or none would prove little.
        assert!(all > 200 && (1..all).contains(&good), "{good} of {all} obey {schema}");
    }
}

#[test]
fn duplicate_names_are_refused_with_their_position() {
    let many = |count: usize, names: usize| {
        let members = (0..count).map(|n| format!("\"k{}\":{n}", n % names));
        format!("{{{}}}", members.collect::<Vec<_>>().join(","))
    };
    for (text, line, column) in [
        (r#"{"a":"x","a":1}"#, 1, 1),
        ("[1,\n {\"a\":1,\"\\u0061\":\"x\"}]", 2, 2),
        (r#"{"\u0061":"x","\u0061":1}"#, 1, 1),
        (r#"{"a":{"b":[{"\ud83d\ude00":1,"\ud83d\uDE00":1}]},"c":1}"#, 1, 12),
        (r#"{"":1,"":1}"#, 1, 1),
        (r#"{"a":1e999,"b":1,"b":2}"#, 1, 1),
        (&many(40, 39), 1, 1),
        (&many(17, 16), 1, 1),
        (&many(16, 15), 1, 1),
        (&format!("[{},{}]", many(40, 40), many(40, 39)), 1, many(40, 40).len() + 3),
    ] {
        let twice = Document::read(text.as_bytes()).unwrap_err();
        assert_eq!(twice, Unreadable::Twice { line, column }, "{text}");
    }
    // Equal names in different objects are not duplicates, and names are case-sensitive.
    for text in [r#"[{"a":1},{"a":1}]"#, r#"{"a":{"a":1},"A":2}"#, &many(40, 40)] {
        assert!(Document::read(text.as_bytes()).is_ok(), "{text}");
    }
}

/// Both parsers refuse the same texts, and read the others as the same value.
#[test]
fn both_parsers_read_texts_alike() {
    let schema = Schemas::new([], false).unwrap().compile(&json!(true)).unwrap();
    let check = |text: &[u8]| {
        let shown = String::from_utf8_lossy(text);
        match (Document::read(text), serde_json::from_slice::<Value>(text)) {
            (Ok(document), Ok(value)) => {
                assert!(schema.allows(&document));
                use jsonschema::json::Node as _;
                assert_eq!(*Part::whole(&document).to_value(), value, "{shown}");
            }
            (Err(Unreadable::Malformed { line, column }), Err(known)) => {
                assert_eq!((line, column), (known.line(), known.column()), "{shown}");
            }
            // Our parser reports duplicate names before numbers that are out of range.
            (Err(Unreadable::Twice { .. }), _) => assert!(!is_once(text), "{shown}"),
            (ours, known) => panic!("{shown}: {ours:?}, {known:?}"),
        }
    };
    for text in [
        &b"1e308"[..],
        b"1e309",
        b"-1e999",
        b"1e-999",
        b"[1e400]",
        b"\"\\ud800\"",
        b"\"\xff\"",
        b"\xff",
        b"\xef\xbb\xbf{}",
        b"",
        b" ",
        b"nul",
        b"1 1",
        b"{\"a\":1,}",
        b"\"\\u0000\"",
    ] {
        check(text);
    }
    check("9".repeat(400).as_bytes());
    check(format!("0.{}", "9".repeat(400)).as_bytes());
    for depth in [126, 127, 128] {
        check(("[".repeat(depth) + &"]".repeat(depth)).as_bytes());
        check(("{\"a\":".repeat(depth) + "1" + &"}".repeat(depth)).as_bytes());
    }
    let mut random = Rng::with_seed(11);
    for _ in 0..4000 {
        let mut broken = text(&mut random, 3).into_bytes();
        for _ in 0..random.usize(..3) {
            let at = random.usize(..broken.len());
            match random.u8(..3) {
                0 => drop(broken.remove(at)),
                1 => broken.insert(at, *random.choice(b"{}[]\",:\\0e-. \n\xc3u").unwrap()),
                _ => broken.truncate(at.max(1)),
            }
            if broken.is_empty() {
                broken.push(b'0');
            }
        }
        check(&broken);
    }
}
