//! The functions of XPath 2.0, available only if asked for.

use crate::support::{check, documents, shown};
use expect_test::expect;
use xpath::Options;

const OPTIONS: Options = Options { xpath2: true, current: false, unknown: xpath::Unknown::Refuse };

#[test]
fn functions_of_xpath_2() {
    check(
        "<r><a id='1'>3</a><a id='2'>1</a><a id='3'>3</a><b>x</b></r>",
        OPTIONS,
        &[
            ("upper-case('aß')", "\"ASS\""),
            ("lower-case('ÀB')", "\"àb\""),
            ("ends-with('abc', 'bc')", "true"),
            ("string-join(//a, ', ')", "\"3, 1, 3\""),
            ("string-join(//a)", "\"313\""),
            ("string-join(//x, ',')", "\"\""),
            ("abs(-1.5)", "1.5"),
            ("abs('x')", "NaN"),
            ("min(//a)", "1"),
            ("max(//a)", "3"),
            ("avg(//a)", "2.3333333333333335"),
            ("max(//b)", "NaN"),
            ("max(//a | //b)", "NaN"),
            ("min(//x)", "NaN"),
            ("distinct-values(//a)", "a#1 a#2"),
            ("exists(//a)", "true"),
            ("empty(//a)", "false"),
            ("empty(//x)", "true"),
            ("if (//a) then 'y' else 'n'", "\"y\""),
            ("if (//x) then //a else //b", "b"),
            ("(if (//x) then //a else //b)/text()", "\"x\""),
            ("/r/if", ""),
            ("//a[if (. = 1) then true() else false()]", "a#2"),
            ("matches('abracadabra', 'bra')", "true"),
            ("matches('abracadabra', '^a.*a$')", "true"),
            ("matches('abracadabra', '^bra')", "false"),
            ("matches('ABC', 'b', 'i')", "true"),
            ("matches('a\nb', 'a.b')", "false"),
            ("matches('a\nb', 'a.b', 's')", "true"),
            ("matches('a\nb', '^b$', 'm')", "true"),
            ("matches('ab', 'a b', 'x')", "true"),
            ("matches('x-1', '^[\\i-[:]][\\c-[:]]*$')", "true"),
            ("matches('1x', '^\\i\\c*$')", "false"),
            ("matches('hello', '^[a-z-[aeiou]]')", "true"),
            ("matches('ello', '^[a-z-[aeiou]]')", "false"),
            ("matches('É', '^\\p{Lu}$')", "true"),
            ("matches('é', '^\\p{IsBasicLatin}$')", "false"),
            ("matches('\u{915}', '^\\p{IsDevanagari}$')", "true"),
            ("matches('\u{E000}', '^[a\\p{IsPrivateUse}]$')", "true"),
            ("matches('a', '\\p{IsHighSurrogates}')", "false"),
            ("matches('a', '^[\\P{IsLowSurrogates}]$')", "true"),
            ("matches('a&b', '[&&]')", "true"),
            ("matches('\u{A0}', '\\s')", "false"),
            ("matches('a-b', '[x\\-y]')", "true"),
            ("replace('abracadabra', 'bra', '*')", "\"a*cada*\""),
            ("replace('abracadabra', 'a.*a', '*')", "\"*\""),
            ("replace('abracadabra', 'a.*?a', '*')", "\"*c*bra\""),
            ("replace('abracadabra', 'a(.)', 'a$1$1')", "\"abbraccaddabbra\""),
            ("replace('a.b', '\\.', '\\$\\\\')", "\"a$\\\\b\""),
            ("string-join(tokenize('a, b,c', ',\\s*'), '|')", "\"a|b|c\""),
            ("string-join(tokenize('  a b  '), '|')", "\"a|b\""),
            ("count(tokenize('', ','))", "0"),
            ("count(tokenize('a,', ','))", "2"),
            ("tokenize('a,b', ',')[2] = 'b'", "true"),
        ],
    );
}

#[test]
fn regular_expressions_that_are_refused() {
    let documents = documents("<r>(</r>");
    let mut all = String::new();
    for text in [
        "matches('a', '(a)\\1')",
        "matches('a', '(?=a)')",
        "matches('a', '(?i)a')",
        "matches('a', '(')",
        "matches('a', string(/r))",
        "matches('a', '[a')",
        "matches('a', '[a-z-[b]c]')",
        "matches('a', '[[a]]')",
        "matches('a', '\\bx')",
        "matches('a', '\\x41')",
        "matches('a', '\\p{Latin}')",
        "matches('a', '\\p{Cs}')",
        "matches('a', '\\p{IsNowhere}')",
        "matches('a', '\\')",
        "matches('a', 'a', 'q')",
        "replace('a', 'a*', 'b')",
        "replace('a', 'a', '$')",
        "replace('a', 'a', '\\n')",
        "tokenize('a', 'x?')",
        "tokenize('a', concat(/r, ')?'))",
        "matches('a', 'a{1000}{1000}')",
    ] {
        let error = shown(&documents, text, OPTIONS).unwrap_err();
        all.push_str(&format!("{text}\n    {}: {}\n", error.offset, error.kind));
    }
    expect![[r#"
        matches('a', '(a)\1')
            0: a reference back cannot be matched in linear time
        matches('a', '(?=a)')
            0: after `(?` only `:` can stand
        matches('a', '(?i)a')
            0: after `(?` only `:` can stand
        matches('a', '(')
            0: the regular expression `(`: unclosed group
        matches('a', string(/r))
            0: the computed regular expression is not valid
        matches('a', '[a')
            0: unterminated class
        matches('a', '[a-z-[b]c]')
            0: a subtracted class ends the class it is taken from
        matches('a', '[[a]]')
            0: `[` in a class has to be written `\[`
        matches('a', '\bx')
            0: there is no escape `\b`
        matches('a', '\x41')
            0: there is no escape `\x`
        matches('a', '\p{Latin}')
            0: there is no category `Latin`
        matches('a', '\p{Cs}')
            0: there is no category `Cs`
        matches('a', '\p{IsNowhere}')
            0: the block `Nowhere` is not known here
        matches('a', '\')
            0: nothing follows the last `\`
        matches('a', 'a', 'q')
            0: there is no flag `q`
        replace('a', 'a*', 'b')
            0: the regular expression `a*`: it matches the empty string
        replace('a', 'a', '$')
            0: a replacement has `$` only as `\\`, `\$` or `$1`
        replace('a', 'a', '\n')
            0: a replacement has `\` only as `\\`, `\$` or `$1`
        tokenize('a', 'x?')
            0: the regular expression `x?`: it matches the empty string
        tokenize('a', concat(/r, ')?'))
            0: the computed regular expression matches the empty string
        matches('a', 'a{1000}{1000}')
            0: the regular expression `a{1000}{1000}`: Compiled regex exceeds size limit of 1048576 bytes.
    "#]].assert_eq(&all);
}
