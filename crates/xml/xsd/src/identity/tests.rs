//! Documents as one line of events, with the violations of constraints.

use std::sync::Arc;

use super::{Constraint, ConstraintKind, Content, IdentityLimits, Path, Tables};
use crate::datatype::{Builtin, EmptyScope, NameScope, Violation};

/// A context that declares only the prefix `p`.
struct Here;

impl NameScope for Here {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "p" => Some("urn:p"),
            other => EmptyScope.resolve(other),
        }
    }
}

fn constraint(
    kind: ConstraintKind,
    local: &str,
    selector: &str,
    fields: &[&str],
) -> Arc<Constraint> {
    Arc::new(Constraint {
        kind,
        uri: "".into(),
        local: local.into(),
        selector: Path::selector(selector, &Here).unwrap(),
        fields: fields.iter().map(|field| Path::field(field, &Here).unwrap()).collect(),
    })
}

fn refers_to(local: &str) -> ConstraintKind {
    ConstraintKind::KeyRef { uri: "".into(), local: local.into() }
}

/// Runs a document written in words: `<a` starts an element, `@x=1` is its attribute, `>1` ends it with this value, `>` with
/// children, `>!` nil and `>?1` as a nillable element. `at` gives the constraints of elements by name.
fn run(
    document: &str,
    at: &[(&str, Arc<Constraint>)],
    limits: IdentityLimits,
) -> Vec<&'static str> {
    let mut tables = Tables::new(limits);
    let mut violations: Vec<Violation> = Vec::new();
    let value = |text: &str| Builtin::Decimal.simple().validate(text, &EmptyScope).unwrap();
    for word in document.split_whitespace() {
        if let Some(name) = word.strip_prefix('<') {
            let (uri, local) = match name.strip_prefix("p:") {
                Some(local) => ("urn:p", local),
                None => ("", name),
            };
            let own: Vec<_> =
                at.iter().filter(|(of, _)| *of == local).map(|(_, c)| Arc::clone(c)).collect();
            tables.start(uri, local, &own, &mut violations);
        } else if let Some(attribute) = word.strip_prefix('@') {
            let (name, text) = attribute.split_once('=').unwrap();
            let wanted = tables.wants_attribute("", name);
            let before = format!("{tables:?}");
            tables.attribute("", name, Some(&value(text)), &mut violations);
            assert!(wanted || before == format!("{tables:?}"), "wants_attribute at {word}");
        } else {
            let rest = word.strip_prefix('>').unwrap();
            let (rest, nillable) =
                rest.strip_prefix('?').map_or((rest, false), |rest| (rest, true));
            let content = match rest {
                "" => Content::Complex,
                "!" => Content::Absent,
                text => Content::Value(value(text)),
            };
            tables.end(&content, nillable, &mut violations);
        }
    }
    assert!(tables.idle(), "all scopes are closed");
    violations.into_iter().map(|violation| violation.code).collect()
}

fn check(document: &str, at: &[(&str, Arc<Constraint>)], expected: &[&str]) {
    let found = run(document, at, IdentityLimits::default());
    let codes: Vec<_> = found
        .iter()
        .map(|code| code.strip_prefix("cvc-identity-constraint.").unwrap_or(code))
        .collect();
    assert_eq!(codes, expected, "{document}");
}

#[test]
fn unique_values_must_differ() {
    let at = [("r", constraint(ConstraintKind::Unique, "u", "a", &["@x"]))];
    check("<r <a @x=1 > <a @x=2 > >", &at, &[]);
    check("<r <a @x=1 > <a @x=01.0 > >", &at, &["4.1"]);
    check("<r <a > <a > >", &at, &[]);
    check("<r <b <a @x=1 > > <a @x=1 > >", &at, &[]);
    check("<r <a @x=1 > > <r <a @x=1 > >", &at, &[]);
    let pair = [("r", constraint(ConstraintKind::Unique, "u", "a", &["@x", "b"]))];
    check("<r <a @x=1 <b >1 > <a @x=1 <b >2 > >", &pair, &[]);
    check("<r <a @x=1 <b >1 > <a @x=1 <b >1 > >", &pair, &["4.1"]);
    check("<r <a @x=1 > <a @x=1 > >", &pair, &[]);
    check("<r <a @x=1 <b >! > <a @x=1 <b >! > >", &pair, &[]);
}

#[test]
fn keys() {
    let at = [("r", constraint(ConstraintKind::Key, "k", "a", &["b"]))];
    check("<r <a <b >1 > <a <b >2 > >", &at, &[]);
    check("<r <a <b >1 > <a <b >1 > >", &at, &["4.2.2"]);
    check("<r <a > >", &at, &["4.2.1"]);
    check("<r <a <b >?1 > >", &at, &["4.2.3"]);
    check("<r <a <b >1 <b >2 > >", &at, &["3"]);
    check("<r <a <b <c >1 > > >", &at, &["3"]);
    let itself = [("r", constraint(ConstraintKind::Key, "k", "a", &["."]))];
    check("<r <a >1 <a >2 >", &itself, &[]);
    check("<r <a >1 <a >1 >", &itself, &["4.2.2"]);
}

#[test]
fn paths_select_nodes() {
    // A selector, a field, and the number of nodes in the document that they select. The value of every node is 1.
    let document = "<r <a @x=1 <b @x=1 <a @x=1 > > <p:a @x=1 > > <b @x=1 <p:b @x=1 > > >";
    let rows = [
        ("a", "@x", 1),
        (".//a", "@x", 2),
        (".//b", "@x", 2),
        ("*", "@x", 2),
        (".//*", "@x", 6),
        ("a/b", "@x", 1),
        ("a/*", "@x", 2),
        ("./a/./b/.", "@x", 1),
        (".//a/b/a", "@x", 1),
        (".//p:*", "@x", 2),
        (".//p:a", "@x", 1),
        ("a|b", "@x", 2),
        ("a|b|.//p:b", "@x", 3),
        ("child::a/child::b", "attribute::x", 1),
        (" . // a ", " @ x ", 2),
        ("a", ".//@x", 0),
        ("a", "b/@x", 1),
        ("a", "@y|b/a/@x", 1),
        ("b", "p:b/@*", 1),
        ("nope", "@x", 0),
    ];
    for (selector, field, count) in rows {
        let at = [("r", constraint(ConstraintKind::Unique, "u", selector, &[field]))];
        let found = run(document, &at, IdentityLimits::default());
        let twice = found.iter().filter(|code| code.ends_with(".4.1")).count();
        assert_eq!(twice, usize::max(count, 1) - 1, "{selector} {field}: {found:?}");
    }
}

#[test]
fn paths_are_valid_for_selectors_or_fields() {
    let rows: &[(&str, bool, bool)] = &[
        // A path, whether it is a selector, whether it is a field.
        (".", true, true),
        (".//.", true, true),
        ("a/.", true, true),
        ("@x", false, true),
        (".//@x", false, true),
        ("a/@x|@p:*", false, true),
        ("", false, false),
        ("/a", false, false),
        ("//a", false, false),
        ("a//b", false, false),
        ("a/", false, false),
        ("a|", false, false),
        ("|a", false, false),
        ("..", false, false),
        ("a[1]", false, false),
        ("@x/a", false, false),
        ("@", false, false),
        ("q:a", false, false),
        ("p:", false, false),
        ("p: a", false, false),
        ("parent::a", false, false),
        ("text()", false, false),
        (".//", false, false),
        ("a b", false, false),
        ("1", false, false),
        ("p:*/child::*", true, true),
    ];
    for (path, selector, field) in rows {
        assert_eq!(Path::selector(path, &Here).is_ok(), *selector, "selector {path:?}");
        assert_eq!(Path::field(path, &Here).is_ok(), *field, "field {path:?}");
    }
    let long = vec!["a"; 100].join("/");
    assert_eq!(Path::selector(&long, &Here).unwrap_err().code, "c-selector-xpath");
    assert_eq!(Path::field("1", &Here).unwrap_err().code, "c-fields-xpaths");
}

#[test]
fn references_find_keys_of_the_element_and_of_its_descendants() {
    let key = constraint(ConstraintKind::Key, "k", "key", &["@x"]);
    let reference = constraint(refers_to("k"), "f", ".//ref", &["@x"]);
    let same = [("r", Arc::clone(&key)), ("r", Arc::clone(&reference))];
    check("<r <key @x=1 > <ref @x=1 > <ref > >", &same, &[]);
    check("<r <ref @x=1 > <key @x=1 > >", &same, &[]);
    check("<r <key @x=1 > <ref @x=2 > <ref @x=2 > >", &same, &["4.3"]);
    let inside = [("s", Arc::clone(&key)), ("r", Arc::clone(&reference))];
    check("<r <s <key @x=1 > > <s <key @x=2 > > <ref @x=2 > >", &inside, &[]);
    check("<r <s <key @x=1 > > <s <key @x=1 > > <ref @x=1 > >", &inside, &["4.3"]);
    check("<r <t <s <key @x=1 > > > <ref @x=1 > >", &inside, &[]);
    let outside = [("r", key), ("s", reference)];
    check("<r <key @x=1 > <s <ref @x=1 > > >", &outside, &["4.3"]);
}

#[test]
fn a_key_of_the_element_takes_precedence_over_inner_ones() {
    let key = constraint(ConstraintKind::Key, "k", "key", &["@x"]);
    let reference = constraint(refers_to("k"), "f", "ref", &["@x"]);
    let at = [("r", Arc::clone(&key)), ("r", reference)];
    check("<r <key @x=1 > <r <key @x=1 > > <r <key @x=1 > > <ref @x=1 > >", &at, &[]);
}

#[test]
fn selected_nodes_may_be_nested() {
    let at = [("r", constraint(ConstraintKind::Key, "k", ".//a", &["@x"]))];
    check("<r <a @x=1 <a @x=2 <a @x=1 > > > >", &at, &["4.2.2"]);
    check("<r <a <a @x=2 > > >", &at, &["4.2.1"]);
}

#[test]
fn key_sequences_are_bounded() {
    let at = [("r", constraint(ConstraintKind::Unique, "u", "a", &["@x"]))];
    let limits = IdentityLimits { identity_entries_max: 2, ..IdentityLimits::default() };
    let found = run("<r <a @x=1 > <a @x=2 > <a @x=3 > <a @x=4 > >", &at, limits);
    assert_eq!(found, ["limit.identity_entries_max"]);
    let found = run("<r <a @x=1 > <a @x=2 > > <r <a @x=3 > <a @x=4 > >", &at, limits);
    assert!(found.is_empty(), "a scope that ends gives its room back: {found:?}");
}

/// The first element with constraints is free; enclosing ones are charged to a budget.
#[test]
fn nested_scopes_share_one_budget() {
    let at = [("r", constraint(ConstraintKind::Unique, "u", ".//*", &["@x"]))];
    let limits = IdentityLimits { identity_steps_max: 3, ..IdentityLimits::default() };
    let entries =
        |from: usize| -> String { (from..from + 50).map(|x| format!("<a @x={x} > ")).collect() };
    let flat = format!("<r {}> ", entries(0));
    assert_eq!(run(&flat, &at, limits), [""; 0]);
    assert_eq!(run(&format!("<o {} >", flat.repeat(9)), &at, limits), [""; 0]);
    let inside = |count: usize| {
        let inner: String = (0..count).map(|x| format!("<a @x={x} > ")).collect();
        format!("<r {} <r {inner} > >", entries(100))
    };
    assert_eq!(run(&inside(3), &at, limits), [""; 0]);
    assert_eq!(run(&inside(4), &at, limits), ["limit.identity_steps_max"]);
    // Long values cost more than short ones.
    let long = format!("<r <r <a @x=1{} > > >", "0".repeat(300));
    assert_eq!(run(&long, &at, limits), ["limit.identity_steps_max"]);
    // Fields that many nodes share cost more too.
    let at = [("r", constraint(ConstraintKind::Unique, "u", ".//a", &[".//@x"]))];
    let nested = format!("<r {} @x=1 {} >", "<a ".repeat(4), "> ".repeat(4));
    assert_eq!(run(&nested, &at, limits), ["cvc-identity-constraint.4.1"; 3]);
    let nested = format!("<r {} @x=1 {} >", "<a ".repeat(5), "> ".repeat(5));
    assert!(run(&nested, &at, limits).contains(&"limit.identity_steps_max"));
}
