//! Invalid expressions are refused with the place of the error; failed evaluations give the reason.

use crate::support::{PREFIXES, documents, shown};
use expect_test::expect;
use xpath::{Options, Pattern, Plain, Unknown};

#[test]
fn errors_say_what_and_where() {
    let documents = documents("<a/>");
    let mut all = String::new();
    for text in [
        "",
        " ",
        "a b",
        "a +",
        "(a",
        "a)",
        "a[",
        "a[]",
        "a]",
        "/a/",
        "//",
        "a//",
        "'open",
        "$",
        "$x",
        "$p:x",
        "$z:x",
        "z:a",
        "z:*",
        "@",
        "a::b",
        "child::",
        "child::p::a",
        "p:child::a",
        "..[1]",
        "a/1",
        "a/'x'",
        "a/f()",
        "f(",
        "f()",
        "p:f()",
        "z:f()",
        "count()",
        "count(1)",
        "count('a')",
        "count(a, a)",
        "position(1)",
        "not()",
        "concat('a')",
        "substring('a')",
        "1 | a",
        "a | 'x'",
        "'x'/a",
        "1[1]",
        "true()[1]",
        "(1 + 1)/a",
        "a ! b",
        "a # b",
        "é §",
        "matches('a', 'b')",
        "current()",
        "text(",
        "text('a')",
        "processing-instruction(a)",
        "node",
        "if (a) then b else c",
    ] {
        let outcome = match shown(&documents, text, Options::default()) {
            Ok(value) => format!("is {value:?}"),
            Err(error) => format!("{}: {}", error.offset, error.kind),
        };
        all.push_str(&format!("{text:?}\n    {outcome}\n"));
    }
    expect![[r#"
        ""
            0: expected an expression, found the end
        " "
            1: expected an expression, found the end
        "a b"
            2: expected the end or an operator, found `b`
        "a +"
            3: expected an expression, found the end
        "(a"
            2: expected `)`, found the end
        "a)"
            1: expected the end or an operator, found `)`
        "a["
            2: expected an expression, found the end
        "a[]"
            2: expected an expression, found `]`
        "a]"
            1: expected the end or an operator, found `]`
        "/a/"
            3: expected a step, found the end
        "//"
            2: expected a step, found the end
        "a//"
            3: expected a step, found the end
        "'open"
            0: unterminated string that starts with '
        "$"
            0: a variable's name is missing after `$`
        "$x"
            0: there is no variable `$x`
        "$p:x"
            0: there is no variable `$p:x`
        "$z:x"
            0: the prefix `z` is not declared
        "z:a"
            0: the prefix `z` is not declared
        "z:*"
            0: the prefix `z` is not declared
        "@"
            1: expected a step, found the end
        "a::b"
            0: there is no axis `a`
        "child::"
            7: expected a step, found the end
        "child::p::a"
            8: expected the end or an operator, found `::`
        "p:child::a"
            0: there is no axis `child`
        "..[1]"
            2: expected the end or an operator, found `[`
        "a/1"
            2: expected a step, found the number 1
        "a/'x'"
            2: expected a step, found a string
        "a/f()"
            2: a function cannot be a step
        "f("
            2: expected an expression, found the end
        "f()"
            0: there is no function `f()`
        "p:f()"
            0: there is no function `p:f()`
        "z:f()"
            0: the prefix `z` is not declared
        "count()"
            0: `count()` does not take 0 arguments
        "count(1)"
            0: `count()` takes a node-set
        "count('a')"
            0: `count()` takes a node-set
        "count(a, a)"
            0: `count()` does not take 2 arguments
        "position(1)"
            0: `position()` does not take 1 arguments
        "not()"
            0: `not()` does not take 0 arguments
        "concat('a')"
            0: `concat()` does not take 1 arguments
        "substring('a')"
            0: `substring()` does not take 1 arguments
        "1 | a"
            0: only a node-set can be asked for nodes
        "a | 'x'"
            4: only a node-set can be asked for nodes
        "'x'/a"
            0: only a node-set can be asked for nodes
        "1[1]"
            0: only a node-set can be asked for nodes
        "true()[1]"
            0: only a node-set can be asked for nodes
        "(1 + 1)/a"
            0: only a node-set can be asked for nodes
        "a ! b"
            2: `!` cannot stand here
        "a # b"
            2: `#` cannot stand here
        "é §"
            3: `§` cannot stand here
        "matches('a', 'b')"
            0: there is no function `matches()`
        "current()"
            0: there is no function `current()`
        "text("
            5: expected `)`, found the end
        "text('a')"
            5: expected `)`, found a string
        "processing-instruction(a)"
            23: expected `)`, found `a`
        "node"
            is ""
        "if (a) then b else c"
            0: there is no function `if()`
    "#]]
    .assert_eq(&all);
}

#[test]
fn an_unknown_function_can_wait_until_it_is_called() {
    let documents = documents("<a/>");
    let options = Options { unknown: Unknown::FailAtCall, ..Options::default() };
    assert_eq!(shown(&documents, "true() or f(1)", options).unwrap(), "true");
    expect!["there is no function `f()` (at byte 11 of the expression)"]
        .assert_eq(&shown(&documents, "false() or f(1)", options).unwrap_err().to_string());
}

#[test]
fn patterns_are_checked_too() {
    let mut all = String::new();
    for text in [
        "",
        "a|",
        "|a",
        "a/..",
        "..",
        ".",
        "parent::a",
        "a//",
        "id(x)",
        "id('a', 'b')",
        "key('a')",
        "key('k', 'v')",
        "$x",
        "a[",
        "z:a",
        "f()",
    ] {
        let statics = Plain { prefixes: PREFIXES, options: Options::default() };
        let outcome = match Pattern::compile(text, &statics) {
            Ok(_) => "is a pattern".to_owned(),
            Err(error) => format!("{}: {}", error.offset, error.kind),
        };
        all.push_str(&format!("{text:?}\n    {outcome}\n"));
    }
    expect![[r#"
        ""
            0: expected a step, found the end
        "a|"
            2: expected a step, found the end
        "|a"
            0: expected a step, found `|`
        "a/.."
            2: expected a step, found `..`
        ".."
            0: expected a step, found `..`
        "."
            0: expected a step, found `.`
        "parent::a"
            0: a pattern's steps are children and attributes
        "a//"
            3: expected a step, found the end
        "id(x)"
            3: expected a string, found `x`
        "id('a', 'b')"
            6: expected `)`, found `,`
        "key('a')"
            7: expected `,`, found `)`
        "key('k', 'v')"
            4: there is no key `k`
        "$x"
            0: expected a step, found `$x`
        "a["
            2: expected an expression, found the end
        "z:a"
            0: the prefix `z` is not declared
        "f()"
            0: a function cannot be a step
    "#]]
    .assert_eq(&all);
}
