//! Compiling any text ends with an expression or an error, and so does evaluating.

use crate::support::documents;
use proptest::prelude::*;
use xpath::{Budget, Evaluation, Expr, Limits, NoHost, Options, Pattern, Plain};

/// Pieces of expressions: random combinations are mostly invalid, but not always.
const PIECES: &[&str] = &[
    "a",
    "b",
    "*",
    "@",
    "id",
    "/",
    "//",
    ".",
    "..",
    "::",
    "child",
    "ancestor",
    "self",
    "namespace",
    "[",
    "]",
    "(",
    ")",
    "1",
    "2.5",
    "'x'",
    "\"",
    "and",
    "or",
    "div",
    "mod",
    "-",
    "+",
    "=",
    "!=",
    "<",
    ">=",
    "|",
    ",",
    "$",
    "p:",
    "text()",
    "node()",
    "position()",
    "last()",
    "count(",
    "string(",
    "not(",
    "concat(",
    "if (",
    "then",
    "else",
    "key('k', 'v')",
    " ",
    "é",
    "#",
];

fn run(text: &str) {
    let options = Options { xpath2: true, current: true, unknown: xpath::Unknown::FailAtCall };
    let statics = Plain { prefixes: &[("p", "urn:p")], options };
    let documents =
        documents("<a id='1' xmlns:p='urn:p'><b>x</b><p:b id='2'/><!--c--><b><a/></b></a>");
    let limits = Limits { steps_max: 100_000, ..Limits::default() };
    let (mut host, mut budget) = (NoHost, Budget::new(limits));
    let mut evaluation = Evaluation::of(&documents, documents.root(), &mut host, &mut budget);
    match Expr::compile(text, &statics) {
        Ok(expr) => {
            if let Ok(value) = expr.value(&mut evaluation)
                && let Some(nodes) = value.as_nodes()
            {
                assert!(nodes.is_sorted_by(|a, b| a < b), "{text}");
            }
        }
        Err(error) => {
            assert!(usize::try_from(error.offset).unwrap() <= text.len(), "{text}: {error}")
        }
    }
    if let Ok(pattern) = Pattern::compile(text, &statics) {
        drop(pattern.matches(&mut evaluation));
    }
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        run(&text);
    }

    #[test]
    fn any_pieces(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..20)) {
        run(&pieces.concat());
    }
}
