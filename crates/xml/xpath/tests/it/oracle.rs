//! Compares with `xmllint` on the same expressions and documents; the project's setup installs it.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::support::documents;
use xpath::{Budget, DocumentSet, Evaluation, Expr, NoHost, Plain};

const DOCUMENTS: &[&str] = &[
    "<a><b i='1'>x<c/>y</b><b i='2'><c j='3'>z</c><a><b/></a></b><!--n--><?p d?><c>7</c></a>",
    "<a i='9'><a i='8'><a><b>1</b><b>2</b><b>3</b></a><c>2</c></a><b>3</b>t<c><c><b i='1'>-1.5</b></c></c></a>",
    "<c xml:lang='en'><b i='1'/> <b i='2'/>\n<b i='3'><a/><a/><a/></b><?p?><!--1--><!--2--><b>x</b></c>",
];

const AXES: &[&str] = &[
    "ancestor",
    "ancestor-or-self",
    "attribute",
    "child",
    "descendant",
    "descendant-or-self",
    "following",
    "following-sibling",
    "parent",
    "preceding",
    "preceding-sibling",
    "self",
];

const TESTS: &[&str] =
    &["node()", "*", "a", "b", "c", "i", "text()", "comment()", "processing-instruction()"];

const PREDICATES: &[&str] = &[
    "",
    "[1]",
    "[2]",
    "[last()]",
    "[position() > 1]",
    "[@i]",
    "[@i > 1]",
    "[b]",
    "[not(*)]",
    "[. = 'x']",
    "[.//c][1]",
    "[position() = last() - 1]",
    "[self::b or self::c]",
    "[2][1]",
    "[count(*) > 1]",
    "[../b = 2]",
    "[c = //b]",
    "[ancestor::a[1]/b]",
    "[following-sibling::*[1][self::c]]",
    "[string-length() > 1]",
];

/// Except where libxml2 differs: it reads `1e1` as a number and writes at most 15 digits.
const SCALARS: &[&str] = &[
    "count(//b)",
    "sum(//b[number() = number()])",
    "string(//c)",
    "//b = //c",
    "//b != //c",
    "//b < //c",
    "//b > 2",
    "//@i = 2",
    "2 >= //@i",
    "'2' = //@i",
    "//b = true()",
    "//x = false()",
    "//x != 1",
    "number(//c)",
    "boolean(//x)",
    "normalize-space(/)",
    "string-length(/)",
    "substring(/, 2, 3)",
    "substring('12345', 1.5, 2.6)",
    "substring('12345', 0 div 0, 3)",
    "substring('12345', -42, 1 div 0)",
    "substring-before(//@i, '')",
    "translate(/, 'xyz', 'XY')",
    "concat(//b, '-', //c)",
    "starts-with(//b, 'x')",
    "contains(/, 'x')",
    "name(//*[@i])",
    "local-name(//@i)",
    "name(//processing-instruction())",
    "round(-2.5)",
    "round(2.5)",
    "floor(-0.5)",
    "ceiling(1.2)",
    "5 mod 2",
    "-5 mod 2",
    "5 mod -2",
    "1 div 0",
    "-1 div 0",
    "0 div 0",
    "6 div 4 * 2 - 1",
    "1 = 1 = 1",
    "3 > 2 > 1",
    "-//c",
    "--2",
    "not(//x) and //b or //y",
    "string(1000000)",
    "string(0.5)",
    "string(-3)",
    "number('  12 ')",
    "number('+1')",
    "boolean('false')",
    "count(//b | //c | //b)",
    "lang('en')",
    "count(//*[lang('en')])",
    "string(//comment())",
    "count(//namespace::*)",
    "string((//b | //c)[last()])",
    "count(//b/ancestor::*)",
    "count(//node()/preceding::node())",
    "count(//@*/..)",
    "round(100 * sum(//@i) div count(//@i))",
];

/// A small document generated from a number; deterministic.
fn grown(seed: u64) -> String {
    let mut state = seed;
    let mut next = |below: u64| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut text = String::from("<a>");
    let mut open = vec!["a"];
    for _ in 0..60 {
        match next(10) {
            0..=3 if open.len() < 6 => {
                let name = ["a", "b", "c"][usize::try_from(next(3)).unwrap()];
                let attribute = match next(3) {
                    0 => format!(" i='{}'", next(4)),
                    1 => format!(" j='{}'", next(4)),
                    _ => String::new(),
                };
                text.push_str(&format!("<{name}{attribute}>"));
                open.push(name);
            }
            4..=6 if open.len() > 1 => text.push_str(&format!("</{}>", open.pop().unwrap())),
            7 => text.push_str(&format!("{}", next(5))),
            8 => text.push_str(["<!--x-->", "<?p d?>", " "][usize::try_from(next(3)).unwrap()]),
            _ => text.push_str(["x", "y z", "-1.5"][usize::try_from(next(3)).unwrap()]),
        }
    }
    while let Some(name) = open.pop() {
        text.push_str(&format!("</{name}>"));
    }
    text
}

/// Paths of one to three steps with predicates: two thousand, generated deterministically.
fn paths() -> Vec<String> {
    let mut all = Vec::new();
    for axis in AXES {
        for test in TESTS {
            for predicate in PREDICATES {
                let turn = all.len();
                let (other, more) = (AXES[turn % AXES.len()], PREDICATES[turn % 7]);
                all.push(match turn % 4 {
                    0 => format!("//*/{axis}::{test}{predicate}"),
                    1 => format!("//b{more}/{axis}::{test}{predicate}"),
                    2 => format!("(//{test}/{axis}::node()){predicate}"),
                    _ => format!("//c/{other}::node(){more}/{axis}::{test}{predicate}"),
                });
            }
        }
    }
    all
}

/// Describes a node-set: its size, its first and last node, and their ancestors.
fn summary(path: &str) -> String {
    let nodes = format!("({path})");
    format!(
        "concat(count({nodes}), ' ', sum({nodes}/@i), ' ', name({nodes}[1]), '=', string({nodes}[1]), ' ', \
         name({nodes}[last()]), '=', string({nodes}[last()]), ' ', count({nodes}/ancestor::node()))"
    )
}

fn ours(documents: &DocumentSet, text: &str) -> String {
    let expr = Expr::compile(text, &Plain::default()).unwrap();
    let (mut host, mut budget) = (NoHost, Budget::default());
    expr.text(&mut Evaluation::of(documents, documents.root(), &mut host, &mut budget)).unwrap()
}

/// Number of expressions in one call, because an argument is limited to 128 KiB.
const BATCH: usize = 150;

const BETWEEN: &str = "<|>";

/// `xmllint` evaluates many expressions in one run, as the arguments of one `concat()`.
fn theirs(document: &str, texts: &[String]) -> Vec<String> {
    let whole = format!("concat({}, '')", texts.join(&format!(", '{BETWEEN}', ")));
    let mut child = Command::new("xmllint")
        .args(["--xpath", &whole, "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("xmllint has to be installed (libxml2-utils): {error}"));
    child.stdin.take().unwrap().write_all(document.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{whole}");
    let output = String::from_utf8(output.stdout).unwrap();
    let output = output.strip_suffix('\n').unwrap_or(&output);
    output.split(BETWEEN).map(str::to_owned).collect()
}

#[test]
fn xmllint_says_the_same() {
    let texts: Vec<String> = SCALARS
        .iter()
        .map(|text| format!("string({text})"))
        .chain(paths().iter().map(|text| summary(text)))
        .collect();
    let mut wrong = Vec::new();
    let mut right = 0;
    let inputs = DOCUMENTS.iter().map(|text| (*text).to_owned()).chain((1..=2).map(grown));
    for document in inputs {
        let documents = documents(&document);
        for batch in texts.chunks(BATCH) {
            let answers = theirs(&document, batch);
            assert_eq!(answers.len(), batch.len());
            for (text, theirs) in batch.iter().zip(answers) {
                let ours = ours(&documents, text);
                if ours == theirs {
                    right += 1
                } else {
                    wrong.push(format!(
                        "{text}\n  on      {document}\n  xmllint {theirs:?}\n  ours    {ours:?}"
                    ))
                }
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} wrong, {right} right\n{}",
        wrong.len(),
        wrong[..wrong.len().min(20)].join("\n")
    );
    assert!(right > 11_000, "only {right} compared");
}
