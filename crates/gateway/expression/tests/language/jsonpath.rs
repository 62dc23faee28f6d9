//! JSONPath by tables of cases: our own, and the compliance suite if it has been downloaded.

use std::path::PathBuf;
use std::sync::Arc;

use expression::{Budget, ErrorKind, FailureKind, JsonText, Limits, Query};
use serde_json::Value as Json;

const WIDE: json::Limits = json::Limits { depth_max: 20_000, entries_max: 10_000_000 };

fn read(text: &str) -> Arc<JsonText> {
    JsonText::read(text.to_owned(), &WIDE).unwrap()
}

/// Returns the values that a query selects, and their paths.
fn found(query: &str, text: &str) -> (Vec<Json>, Vec<String>) {
    let query = Query::compile(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    let text = read(text);
    let nodes = query.nodes(&text, JsonText::ROOT, &mut Budget::default()).unwrap();
    let values = nodes.iter().map(|node| serde_json::from_str(text.raw(*node)).unwrap());
    (values.collect(), nodes.iter().map(|node| text.location(*node)).collect())
}

const STORE: &str = r#"{"store": {"book": [
    {"category": "reference", "author": "Nigel Rees", "title": "Sayings", "price": 8.95},
    {"category": "fiction", "author": "Evelyn Waugh", "title": "Sword", "price": 12.99},
    {"category": "fiction", "author": "Herman Melville", "title": "Moby Dick", "isbn": "0-553", "price": 8.99},
    {"category": "fiction", "author": "J. R. R. Tolkien", "title": "Rings", "isbn": "0-395", "price": 22.99}
], "bicycle": {"color": "red", "price": 399}}}"#;

#[test]
fn queries_find_what_rfc_9535_says() {
    for (query, text, expected) in [
        (
            "$.store.book[*].author",
            STORE,
            r#"["Nigel Rees","Evelyn Waugh","Herman Melville","J. R. R. Tolkien"]"#,
        ),
        ("$..price", STORE, "[8.95,12.99,8.99,22.99,399]"),
        ("$..book[-1].title", STORE, r#"["Rings"]"#),
        ("$..book[0,1].price", STORE, "[8.95,12.99]"),
        ("$..book[:2].price", STORE, "[8.95,12.99]"),
        ("$..book[?@.isbn].title", STORE, r#"["Moby Dick","Rings"]"#),
        ("$..book[?@.price<10].title", STORE, r#"["Sayings","Moby Dick"]"#),
        ("$.store.book[?@.price > $.store.book[0].price && !(@.isbn)].price", STORE, "[12.99]"),
        ("$..book[?match(@.author, 'J.*n')].price", STORE, "[22.99]"),
        ("$..book[?search(@.title, '[or]d')].price", STORE, "[12.99]"),
        ("$.store[?count(@.*) == 2].color", STORE, r#"["red"]"#),
        ("$..book[?length(@.title) == 5].title", STORE, r#"["Sword","Rings"]"#),
        (
            "$[?value(@..x) == 1]",
            r#"[{"x":1},{"x":2},{"a":{"x":1}},{"x":1,"b":{"x":1}}]"#,
            r#"[{"x":1},{"a":{"x":1}}]"#,
        ),
        ("$[::-1]", "[1,2,3]", "[3,2,1]"),
        ("$[5:1:-2]", "[0,1,2,3,4,5,6]", "[5,3]"),
        ("$[1:1]", "[1,2]", "[]"),
        ("$[::0]", "[1,2]", "[]"),
        ("$[0,0,*]", "[1,2]", "[1,1,1,2]"),
        ("$['\\u0061', \"b\"]", r#"{"b":2,"a":1}"#, "[1,2]"),
        ("$..*", r#"[[1],{"a":2}]"#, r#"[[1],{"a":2},1,2]"#),
        ("$..[0]", "[[1,[2]],3]", "[[1,[2]],1,2]"),
        // Numbers are compared exactly.
        (
            "$[?@ == 9007199254740993]",
            "[9007199254740992,9007199254740993,9.007199254740993e15]",
            "[9007199254740993,9.007199254740993e15]",
        ),
        // A missing value equals only another missing value.
        ("$[?@.a == @.b]", r#"[{},{"a":null},{"a":1,"b":1.0}]"#, r#"[{},{"a":1,"b":1.0}]"#),
        ("$[?@ <= $.none]", "[1,null]", "[]"),
        (
            "$[?@ == $[0]]",
            r#"[{"a":1,"b":[2]},{"b":[2.0],"a":1},{"a":1},[2]]"#,
            r#"[{"a":1,"b":[2]},{"b":[2.0],"a":1}]"#,
        ),
        // Of members with the same name, the last one counts.
        ("$.a", r#"{"a":1,"a":2}"#, "[2]"),
        ("$.*", r#"{"a":1,"b":3,"a":2}"#, "[3,2]"),
        ("$[?length(@) == 1]", r#"[{"a":1,"a":2}]"#, r#"[{"a":2}]"#),
        // Invalid patterns in a message match nothing.
        ("$[?match(@, $[0])]", r#"["(", "a"]"#, "[]"),
    ] {
        let expected: Vec<Json> = serde_json::from_str(expected).unwrap();
        assert_eq!(found(query, text).0, expected, "{query}");
    }
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (query, column, part) in [
        ("", 1, "begin with `$`"),
        ("$ ", 2, "expected a segment"),
        ("$.", 3, "a member's name"),
        ("$.a.1", 5, "a member's name"),
        ("$.[0]", 3, "a member's name or `*`; write `[...]` without a dot before it"),
        ("$..1", 4, "a member's name, `*` or `[`"),
        ("$[01]", 3, "leading zeros"),
        ("$[-0]", 3, "leading zeros"),
        ("$[9007199254740992]", 3, "exceeds the limit"),
        ("$['a", 5, "unterminated"),
        ("$['\\x']", 4, "unknown escape"),
        ("$['\\ud800']", 4, "surrogate"),
        ("$[?@.* == 1]", 4, "several values"),
        ("$[?1]", 4, "neither true nor false"),
        ("$[?length(@.a)]", 4, "neither true nor false"),
        ("$[?match(@, 'a') == true]", 4, "a boolean is not a value"),
        ("$[?count(1) == 1]", 10, "expected a query"),
        ("$[?length(@.*) == 1]", 11, "several values"),
        ("$[?size(@) == 1]", 4, "there is no function `size()`"),
        ("$[?match(@)]", 4, "does not take 1 arguments"),
        ("$[?match(@, '(?i)a')]", 13, "not a regular expression"),
        ("$[?@ == '\u{1}']", 10, "control character"),
        ("$[?@\n== x]", 4, "`x` is not a literal"),
    ] {
        let error = Query::compile(query).unwrap_err();
        assert!(error.to_string().contains(part), "{query}: {error}");
        assert_eq!(error.at.column, column, "{query}: {error}");
    }
    assert_eq!(Query::compile("$[?@\n== x]").unwrap_err().at.line, 2);
    let deep = format!("$[?{}@{}]", "(".repeat(5000), ")".repeat(5000));
    assert!(matches!(Query::compile(&deep).unwrap_err().kind, ErrorKind::Limit { .. }));
    let deep = format!("${}@{}", "[?@".repeat(5000), "]".repeat(5000));
    assert!(matches!(Query::compile(&deep).unwrap_err().kind, ErrorKind::Limit { .. }));
}

fn limits() -> Limits {
    Limits { steps_max: 6_000_000, results_max: 1_000_000, depth_max: 20_000, ..Limits::default() }
}

#[test]
fn hostile_texts_cost_no_more_than_the_budget() {
    let wide = format!("[{}1]", "1,".repeat(999_999));
    let huge = format!("[{}1]", "1,".repeat(4_999_999));
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let objects = format!("{}1{}", "{\"a\":".repeat(10_000), "}".repeat(10_000));
    let strings = format!("[{}\"\"]", format!("\"{}\",", "a".repeat(10_000)).repeat(1000));
    let limit = |name: &'static str| Err(name);
    for (query, text, limits, expected) in [
        ("$..*", &huge, limits(), limit("results_max")),
        ("$..*..*", &wide, Limits { steps_max: 2_000_000, ..limits() }, limit("steps_max")),
        ("$[?@ == $[999999]]", &wide, limits(), limit("steps_max")),
        ("$[?@ == $[-1]]", &wide, limits(), limit("steps_max")),
        ("$..*", &deep, limits(), Ok(9_999)),
        ("$..*", &deep, Limits { depth_max: 512, ..limits() }, limit("depth_max")),
        ("$..*..*..*", &deep, limits(), limit("results_max")),
        ("$..a", &objects, limits(), Ok(10_000)),
        ("$[?@ == $[0]]", &format!("[{deep},{deep}]"), limits(), Ok(2)),
        ("$..[?@..a]", &objects, limits(), limit("steps_max")),
        ("$[?match(@, '(a*)*b')]", &strings, Limits::default(), Ok(0)),
        ("$[?@ == $[1]]", &strings, Limits::default(), Ok(1000)),
    ] {
        let query_text = query;
        let (query, text) = (Query::compile(query).unwrap(), read(text));
        let found = query.nodes(&text, JsonText::ROOT, &mut Budget::new(limits));
        let found = found.map(|nodes| nodes.len()).map_err(|kind| {
            let FailureKind::Limit { name, .. } = kind else { panic!("{query_text}: {kind}") };
            name
        });
        assert_eq!(found, expected, "{query_text}");
    }
}

fn suite() -> Option<Json> {
    let built = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = built.unwrap_or_else(|| "target".into());
    // A relative folder is one of the workspace.
    let workspace = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let text = std::fs::read_to_string(workspace.join(target).join("jsonpath/cts.json")).ok()?;
    Some(serde_json::from_str(&text).unwrap())
}

#[test]
fn the_compliance_suite_passes() {
    let Some(suite) = suite() else {
        println!("SKIPPED: the suite is not there; scripts/jsonpath.sh fetches it");
        return;
    };
    let cases = suite["tests"].as_array().unwrap();
    let failed: Vec<String> = cases.iter().filter_map(|case| wrong(case).err()).collect();
    assert!(failed.is_empty(), "{} of {}:\n{}", failed.len(), cases.len(), failed.join("\n"));
    println!("{} cases of the compliance suite passed", cases.len());
}

fn wrong(case: &Json) -> Result<(), String> {
    let (name, selector) = (&case["name"], case["selector"].as_str().unwrap());
    let compiled = Query::compile(selector);
    if case["invalid_selector"] == true {
        return compiled.err().map(|_| ()).ok_or(format!("{name}: {selector} compiles"));
    }
    compiled.map_err(|error| format!("{name}: {selector}: {error}"))?;
    let (values, paths) = found(selector, &case["document"].to_string());
    let is_one_of = |one: &str, several: &str, got: Json| match case.get(several) {
        Some(alternatives) => alternatives.as_array().unwrap().contains(&got),
        None => case[one] == got,
    };
    if !is_one_of("result", "results", values.clone().into()) {
        return Err(format!("{name}: {selector} finds {values:?}"));
    }
    if is_one_of("result_paths", "results_paths", paths.clone().into()) {
        Ok(())
    } else {
        Err(format!("{name}: {selector} finds at {paths:?}"))
    }
}
