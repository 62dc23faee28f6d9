//! Tables of expressions with texts; hostile expressions; and a naive matcher for comparison.

use proptest::prelude::*;

use super::parse::{Node, parse};
use super::{Regex, Steps, TooCostly};

fn matches(pattern: &str, text: &str) -> bool {
    Regex::compile(pattern).unwrap().matches(text, &Steps::default()).unwrap()
}

#[test]
fn expressions_match_whole_texts() {
    // An expression, the texts it matches, and the texts it does not.
    let rows: &[(&str, &[&str], &[&str])] = &[
        ("", &[""], &["a"]),
        ("a", &["a"], &["", "aa", "b", "A"]),
        ("ab|cd", &["ab", "cd"], &["abd", "acd", ""]),
        ("(ab|)c", &["abc", "c"], &["ab", ""]),
        ("()a()", &["a"], &[""]),
        ("a?b+c*", &["b", "abbbccc"], &["", "a", "c"]),
        ("a{2}", &["aa"], &["a", "aaa"]),
        ("a{2,}", &["aa", "aaaa"], &["a"]),
        ("a{1,3}", &["a", "aaa"], &["", "aaaa"]),
        ("a{0}b", &["b"], &["ab"]),
        ("(a|ab)(c|bcd)", &["abcd", "ac", "abc"], &["ab", "abcdd"]),
        ("(a*)*b", &["b", "aaab"], &["a"]),
        ("^a$", &["^a$"], &["a"]),
        ("a\\nb", &["a\nb"], &["anb"]),
        (".", &["a", "\t", "\u{10FFFF}", "\u{85}"], &["\n", "\r", ""]),
        ("\\.\\\\\\?\\*\\+\\{\\}\\(\\)\\[\\]\\|\\-\\^", &[".\\?*+{}()[]|-^"], &[]),
        ("[a-c]", &["a", "b", "c"], &["d", "-"]),
        ("[^a-c]", &["d", "\n", "é"], &["a", ""]),
        ("[-a]", &["-", "a"], &["b"]),
        ("[a-]", &["-", "a"], &["b"]),
        ("[^-a]", &["b"], &["-", "a"]),
        ("[a^]", &["^", "a"], &["b"]),
        ("[.?*+(){}|$]", &[".", "{", "$"], &["a"]),
        ("[a-z-[aeiou]]", &["b", "z"], &["a", "u", "-"]),
        ("[a-z-[^a]]", &["a"], &["b"]),
        ("[^a-z-[A-Z]]", &["0"], &["a", "A"]),
        ("[a-z-[b-y-[m]]]", &["a", "m", "z"], &["b", "n"]),
        ("[\\p{L}-[\\p{Lu}]]", &["a", "ß"], &["A", "1"]),
        ("[!-~-[\\[\\]]]+", &["a!~"], &["[", "é"]),
        ("\\d+", &["12", "٣", "１"], &["a", "½", "Ⅷ"]),
        ("\\D", &["a"], &["1"]),
        ("\\s", &[" ", "\t", "\n", "\r"], &["\u{A0}", "a", "\u{85}"]),
        ("\\S", &["a", "\u{A0}"], &[" "]),
        ("\\w", &["a", "é", "1", "$", "+"], &["-", "_", ".", " ", "(", "\u{7}"]),
        ("\\W", &["-", " "], &["a"]),
        ("\\i\\c*", &["a", "_-.1", ":a", "é"], &["1a", "-a", " "]),
        ("\\I\\C", &["1 ", "-&"], &["a ", "1a"]),
        ("\\p{Lu}", &["A", "É"], &["a"]),
        ("\\P{Lu}", &["a"], &["A"]),
        ("\\p{L}\\p{N}\\p{P}\\p{Z}\\p{S}", &["a1! +"], &["1a! +"]),
        ("\\p{Cn}", &["\u{378}"], &["a"]),
        ("\\p{Cs}", &[], &["a"]),
        ("\\p{IsBasicLatin}+", &["a~\0"], &["é"]),
        ("\\p{IsGreek}", &["α"], &["a"]),
        ("\\p{IsLatin-1Supplement}", &["é"], &["a", "ā"]),
        ("\\P{IsBasicLatin}", &["é"], &["a"]),
        ("[\\p{IsCyrillic}\\d]+", &["Я1"], &["a"]),
        ("[\\n\\t]", &["\n", "\t"], &["n"]),
        ("(((((((((a)))))))))", &["a"], &["b"]),
        ("x{0,1000}", &["", "x"], &["y"]),
    ];
    for (pattern, yes, no) in rows {
        for text in *yes {
            assert!(matches(pattern, text), "{pattern:?} should match {text:?}");
        }
        for text in *no {
            assert!(!matches(pattern, text), "{pattern:?} should not match {text:?}");
        }
    }
}

const REFUSED: &[&str] = &[
    "(",
    ")",
    "(a",
    "a)",
    "*",
    "a|*",
    "+a",
    "?",
    "(?:a)",
    "a**",
    "a+?",
    "a{1}{2}",
    "{1}",
    "a{",
    "a{1",
    "a{,2}",
    "a{2,1}",
    "a{1,2",
    "a{x}",
    "a{-1}",
    "a{99999999999}",
    "}",
    "]",
    "a]",
    "[",
    "[]",
    "[^]",
    "[a",
    "[]a]",
    "[a]]",
    "[[a]",
    "[a[b]",
    "[b-a]",
    "[a--b]",
    "[a-c-e]",
    "[a-c-1-4]",
    "[^-[a]]",
    "[-[a]]",
    "[a-[b]",
    "[a-[b]c]",
    "[a-\\d]",
    "[\\d-a]",
    "[a-[]]",
    "\\",
    "\\1",
    "\\b",
    "\\A",
    "\\z",
    "\\x41",
    "\\u0041",
    "\\$",
    "\\/",
    "\\ ",
    "\\p",
    "\\pL",
    "\\p{}",
    "\\p{L",
    "\\p{Xx}",
    "\\p{lu}",
    "\\p{Is}",
    "\\p{IsNowhere}",
    "\\p{Greek}",
    "[\\p]",
    "(?i)a",
    "(?=a)",
];

#[test]
fn invalid_expressions_are_refused() {
    for pattern in REFUSED {
        assert!(Regex::compile(pattern).is_err(), "{pattern:?} should be refused");
    }
}

#[test]
fn errors_have_the_offset_of_the_mistake() {
    let rows = [("ab(", 3), ("a\\q", 3), ("[z-a]", 4), ("a{2,1}", 6), ("ab*+", 3)];
    for (pattern, offset) in rows {
        assert_eq!(Regex::compile(pattern).unwrap_err().offset, offset, "{pattern:?}");
    }
    let blamed = Regex::any(&["a", "("]).unwrap_err().0;
    assert_eq!(blamed, 1);
}

/// The outcome of a hostile expression with a hostile text.
fn fate(pattern: &str, text: &str) -> &'static str {
    match Regex::compile(pattern).map(|regex| regex.matches(text, &Steps::default())) {
        Err(_) => "refused",
        Ok(Err(TooCostly)) => "too costly",
        Ok(Ok(true)) => "match",
        Ok(Ok(false)) => "no match",
    }
}

#[test]
fn hostile_expressions_end_quickly() {
    let many = "a".repeat(20_000);
    let nested = format!("{}a{}", "(".repeat(100_000), ")".repeat(100_000));
    let deep_class = format!("[a{}", "-[a".repeat(50_000));
    let rows = [
        ("(a+)+b", "no match"),
        ("(a|a)*b", "no match"),
        ("(a*)*(a*)*(a*)*b", "no match"),
        ("(a|aa)+", "match"),
        ("a{1,100000}", "match"),
        ("a{1,100000}{1,100000}", "refused"),
        ("(a{1,100000}){1,100000}", "refused"),
        ("(a{0,1000}){0,1000}b", "refused"),
        ("((a{0,10}){0,10}){0,10}", "no match"),
        ("([ab]*a[ab]{4000})*b", "too costly"),
        ("a{4294967295}", "refused"),
        ("(){4294967295}a*", "match"),
        ("((((a?){9}){9}){9}){9}", "too costly"),
        ("(.*a){20}.*", "match"),
        ("[ab]*a[ab]{40}", "match"),
        ("(a?){50}a{50}", "no match"),
        (nested.as_str(), "refused"),
        (deep_class.as_str(), "refused"),
    ];
    for (pattern, expected) in rows {
        let shown = pattern.get(..40).unwrap_or(pattern);
        assert_eq!(fate(pattern, &many), expected, "{shown}");
    }
}

/// All offsets at which a part that starts at `at` may end. Exponential, but obviously right.
fn ends(node: &Node, text: &[char], at: usize) -> Vec<usize> {
    let mut found = match node {
        Node::Empty => vec![at],
        Node::Set(set) => match text.get(at) {
            Some(c) if set.contains(*c) => vec![at + 1],
            _ => vec![],
        },
        Node::Sequence(parts) => parts.iter().fold(vec![at], |starts, part| {
            starts.into_iter().flat_map(|at| ends(part, text, at)).collect()
        }),
        Node::Choice(parts) => parts.iter().flat_map(|part| ends(part, text, at)).collect(),
        Node::Repeat { what, min, max } => {
            // Rounds beyond the text's length match the empty string and change nothing.
            let last = max.unwrap_or(u32::MAX).min(min + u32::try_from(text.len()).unwrap() + 1);
            let mut now = vec![at];
            let mut all = if *min == 0 { now.clone() } else { vec![] };
            for round in 1..=last {
                now = now.iter().flat_map(|at| ends(what, text, *at)).collect();
                now.sort_unstable();
                now.dedup();
                if round >= *min {
                    all.extend(&now);
                }
            }
            all
        }
    };
    found.sort_unstable();
    found.dedup();
    found
}

fn naive(pattern: &str, text: &str) -> bool {
    let chars: Vec<char> = text.chars().collect();
    ends(&parse(pattern).unwrap(), &chars, 0).contains(&chars.len())
}

fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("a"),
        Just("b"),
        Just("c"),
        Just("é"),
        Just("."),
        Just("\\d"),
        Just("\\w"),
        Just("[ab]"),
        Just("[^a]"),
        Just("[a-c-[b]]"),
        Just("\\p{Lu}"),
        Just(""),
        Just("[é-ü]"),
        Just("\\S"),
    ]
    .prop_map(str::to_owned);
    leaf.prop_recursive(4, 24, 3, |inner| {
        prop_oneof![
            (inner.clone(), inner.clone()).prop_map(|(one, two)| format!("{one}{two}")),
            (inner.clone(), inner.clone()).prop_map(|(one, two)| format!("({one}|{two})")),
            (
                inner,
                prop_oneof![
                    Just("*"),
                    Just("+"),
                    Just("?"),
                    Just("{2}"),
                    Just("{0,2}"),
                    Just("{1,3}"),
                    Just("{2,}"),
                    Just("{0}"),
                ]
            )
                .prop_map(|(one, quantifier)| format!("({one}){quantifier}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_naive_matcher(pattern in expression(), text in "[abcdéA1 ]{0,6}") {
        let regex = Regex::compile(&pattern).unwrap();
        prop_assert_eq!(regex.matches(&text, &Steps::default()).unwrap(), naive(&pattern, &text));
        // Both automata, whichever the expression would get.
        let nfa = super::Nfa::build(&parse(&pattern).unwrap()).unwrap();
        let classes = super::Classes::build(&nfa.sets).unwrap();
        prop_assert_eq!(nfa.run(&classes, &text, &Steps::default()).unwrap(), naive(&pattern, &text));
    }

    #[test]
    fn any_text_compiles_or_is_refused(pattern in "[\\[\\]\\\\()ab^{}|?*+,.pdPL1-]{0,12}", text in "[ab-]{0,4}") {
        if let Ok(regex) = Regex::compile(&pattern) {
            prop_assert_eq!(regex.matches(&text, &Steps::default()).unwrap(), naive(&pattern, &text));
        }
    }
}
