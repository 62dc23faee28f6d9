//! Hostile expressions end with a typed error within their budgets.

use crate::support::documents;
use xpath::{Budget, Error, ErrorKind, Evaluation, Expr, Limits, NoHost, Options, Plain, Value};

fn run(document: &str, text: &str, limits: Limits) -> Result<Value, Error> {
    let options = Options { xpath2: true, ..Options::default() };
    let expr = Expr::compile(text, &Plain { prefixes: &[], options })?;
    let documents = documents(document);
    let (mut host, mut budget) = (NoHost, Budget::new(limits));
    expr.value(&mut Evaluation::of(&documents, documents.root(), &mut host, &mut budget))
}

fn limit(result: Result<Value, Error>) -> &'static str {
    let error = result.unwrap_err();
    let ErrorKind::Limit { name, .. } = error.kind else { panic!("not a limit: {error}") };
    name
}

#[test]
fn budgets_end_what_costs_too_much() {
    let wide = format!("<r>{}</r>", "<a/>".repeat(2000));
    let few =
        Limits { steps_max: 100_000, nodes_max: 1000, text_bytes_max: 1000, ..Limits::default() };
    for (text, name) in [
        ("//a[count(//a) = 1]", "steps_max"),
        ("count(//a[count(/r/a) = 1])", "steps_max"),
        ("count(//a[preceding-sibling::a[last()]])", "steps_max"),
        ("//a[//a[//a[//a[//b]]]]", "steps_max"),
        ("//a[contains(/, 'x')]", "steps_max"),
        ("//a[/r = 'x']", "steps_max"),
        ("//a", "nodes_max"),
        ("//a | //r", "nodes_max"),
        ("string-join(//a, '0123456789')", "nodes_max"),
    ] {
        assert_eq!(limit(run(&wide, text, few.clone())), name, "{text}");
    }
    let narrow = format!("<r>{}</r>", "<a/>".repeat(100));
    for text in [
        "concat(string-join(//a, '0123456789'), string-join(//a, '0123456789'))",
        "string-join(//a, '01234567890123456789')",
        "replace(string-join(//a, '0123456789'), '[0-9]', '$0$0$0')",
    ] {
        assert_eq!(limit(run(&narrow, text, few.clone())), "text_bytes_max", "{text}");
    }
    let huge = run(&narrow, "matches('a', '(((a{100}){100}){100}){100}')", few);
    assert!(matches!(huge.unwrap_err().kind, ErrorKind::Regex(_)));
}

/// Building the list of namespaces for each of its nodes would take minutes.
#[test]
fn the_cost_of_a_namespace_node_does_not_grow_with_the_declarations() {
    let outer: String = (0..16)
        .map(|at| {
            let all = (0..500).map(|n| format!(" xmlns:p{n}_{at}='{n}'")).collect::<String>();
            format!("<o{all}>")
        })
        .collect();
    let document = format!("{outer}{}{}", "<a/>".repeat(2_000), "</o>".repeat(16));
    let deepest = "//o[a]/namespace::*";
    for (text, expected) in [
        (format!("count({deepest})"), 8_001.0),
        (format!("count({deepest}[name() = 'p7_0' or . = 'x'])"), 1.0),
        (format!("count({deepest}[string(.) = '7'])"), 16.0),
        ("count(//o[a]/namespace::p7_3)".to_owned(), 1.0),
    ] {
        let value = run(&document, &text, Limits::default());
        assert_eq!(value.unwrap(), Value::Number(expected), "{text}");
    }
    let few = Limits { steps_max: 1_000_000, ..Limits::default() };
    assert_eq!(limit(run(&document, "count(//a[namespace::*[1] = 'x'])", few)), "steps_max");
}

#[test]
fn regular_expressions_stay_linear() {
    let text = format!("<r>{}!</r>", "a".repeat(100_000));
    for pattern in ["^(a+)+$", "^(a|aa)+$", "^(a*)*b", "(.*)(.*)(.*)(.*)x"] {
        let value = run(&text, &format!("matches(/r, '{pattern}')"), Limits::default());
        assert_eq!(value.unwrap(), Value::Boolean(false), "{pattern}");
    }
}

#[test]
fn depth_is_bounded_and_length_is_not_depth() {
    let nested = |levels: usize| {
        [
            format!("{}1{}", "(".repeat(levels), ")".repeat(levels)),
            format!("{}1{}", "not(".repeat(levels), ")".repeat(levels)),
            format!("{}a{}", "a[".repeat(levels), "]".repeat(levels)),
            format!("{}a{}", "(a|".repeat(levels), ")".repeat(levels)),
            format!("{}1{}", "if (1) then ".repeat(levels), " else 0".repeat(levels)),
        ]
    };
    // On a thread with a worker's stack, in a build that is not optimised.
    let run_all = move || {
        for text in nested(90) {
            run("<a/>", &text, Limits::default()).unwrap();
        }
        for text in nested(200).iter().chain(&nested(2000)) {
            assert_eq!(limit(run("<a/>", text, Limits::default())), "expression_depth");
        }
        for (start, more) in
            [("1", " + 1"), ("a", "|a"), ("a", "/a"), ("a", "[1]"), ("1", " or 1"), ("", "-")]
        {
            let text = format!("{start}{}", more.repeat(5000));
            let text = if more == "-" { format!("{text}1") } else { text };
            run("<a/>", &text, Limits::default()).unwrap();
        }
        assert_eq!(
            limit(run("<a/>", &format!("1{}", " = 1".repeat(5000)), Limits::default())),
            "comparisons"
        );
        assert_eq!(
            limit(run("<a/>", &"a/".repeat(200_000), Limits::default())),
            "expression_bytes"
        );
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run_all).unwrap().join().unwrap();
}
