//! Rules for calls, unfinished work and names.
//!
//! Owns three tables: calls that only certain crates may make, marks of unfinished work, and words that may not be in the name
//! of a type.

use super::source::{Source, whole};
use super::{Complaint, line_of};

/// A call that only some crates may make.
struct Call {
    /// Its text in the source.
    text: &'static str,
    crates: &'static [&'static str],
    instead: &'static str,
}

const CALLS: &[Call] = &[
    Call { text: "Instant::now", crates: &["kit"], instead: "call `kit::clock::now`" },
    Call { text: "SystemTime::now", crates: &["kit"], instead: "call `kit::clock::wall`" },
    // A change of the configuration continues without its admin client, and does not run on a worker's thread.
    Call { text: "tokio::spawn", crates: &["kit", "control"], instead: "call `kit::spawn`" },
    Call { text: "task::spawn", crates: &["kit"], instead: "call `kit::spawn`" },
    Call { text: "spawn_local", crates: &["kit"], instead: "call `kit::spawn`" },
    Call { text: "unbounded_channel", crates: &[], instead: "make a channel with a bound" },
    Call { text: "process::exit", crates: &["tidegate"], instead: "return an error" },
    // `script` runs programs of operators in processes that it can stop.
    Call {
        text: "Command::new",
        crates: &["tidegate", "script"],
        instead: "leave it to the program",
    },
    Call { text: "tokio::signal", crates: &["tidegate"], instead: "leave it to the program" },
];

/// Unfinished work in code.
const UNDONE: &[&str] = &["dbg!", "todo!", "unimplemented!", "#[ignore"];

/// Words that do not describe a type; LEXICON.md has words that do.
const EMPTY_WORDS: &[&str] = &[
    "Context",
    "Data",
    "Filter",
    "Handler",
    "Helper",
    "Info",
    "Manager",
    "Middleware",
    "Plugin",
    "Util",
    "Utils",
];

/// All violations in one file.
pub(crate) fn check(source: &Source) -> Vec<Complaint> {
    let mut complaints = undone(source);
    complaints.extend(promises(source));
    if !source.is_test() {
        complaints.extend(foreign_calls(source));
        complaints.extend(empty_names(source));
    }
    complaints
}

fn foreign_calls(source: &Source) -> Vec<Complaint> {
    let Some(name) = source.crate_name() else { return Vec::new() };
    let others = CALLS.iter().filter(|call| !call.crates.contains(&name));
    let found = others.flat_map(|call| whole(&source.shipped, call.text).map(move |at| (at, call)));
    found
        .map(|(at, call)| {
            let what = format!("`{}` in `{name}`", call.text);
            source.complain(at, what, call.instead.to_owned())
        })
        .collect()
}

fn undone(source: &Source) -> Vec<Complaint> {
    let found = UNDONE.iter().flat_map(|mark| whole(&source.code, mark).map(move |at| (at, mark)));
    let instead = "finish it, or leave it out";
    found.map(|(at, mark)| source.complain(at, format!("`{mark}`"), instead.to_owned())).collect()
}

/// Comments that announce work without the number of an issue.
fn promises(source: &Source) -> Vec<Complaint> {
    let complain = |(at, what): (usize, &str)| Complaint {
        file: source.path.clone(),
        line: line_of(&source.comments, at),
        what: format!("{what} without an issue"),
        instead: "do it now, or name the issue as `#12` on the same line".to_owned(),
    };
    let fixes = whole(&source.comments, "FIXME").map(|at| (at, "FIXME"));
    let later = whole(&source.comments, "TODO").filter(|at| !names_issue(&source.comments, *at));
    fixes.chain(later.map(|at| (at, "TODO"))).map(complain).collect()
}

/// True if the rest of the line has `#` and a digit.
fn names_issue(comments: &str, at: usize) -> bool {
    let line = comments.get(at..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    line.split('#').skip(1).any(|after| after.starts_with(|c: char| c.is_ascii_digit()))
}

fn empty_names(source: &Source) -> Vec<Complaint> {
    let kinds = ["struct ", "enum ", "trait "];
    let declared = kinds.iter().flat_map(|kind| {
        whole(&source.shipped, kind).filter_map(|at| {
            let rest = source.shipped.get(at + kind.len()..)?;
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
            Some((at, rest.get(..end)?))
        })
    });
    let empty = declared.filter_map(|(at, name)| {
        EMPTY_WORDS.iter().find(|word| name.ends_with(*word)).map(|word| (at, name, word))
    });
    empty
        .map(|(at, name, word)| {
            let what = format!("the type `{name}` is named with `{word}`");
            source.complain(at, what, "name it by what it is, with a word of LEXICON.md".to_owned())
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(path: &str, text: &str) -> Vec<String> {
        let text = Text { path: path.to_owned(), text: text.to_owned() };
        check(&Source::read(&text)).iter().map(|c| format!("{}: {}", c.line, c.what)).collect()
    }

    #[test]
    fn each_call_is_found_except_in_the_crates_that_may_make_it() {
        for call in CALLS {
            let text = format!("fn f() {{\n    {}();\n}}\n", call.text);
            let expected = format!("2: `{}` in `plan`", call.text);
            assert!(
                found("crates/gateway/plan/src/a.rs", &text).contains(&expected),
                "{}",
                call.text
            );
            for home in call.crates {
                assert_eq!(
                    found(&format!("crates/net/{home}/src/a.rs"), &text),
                    [""; 0],
                    "{}",
                    call.text
                );
            }
        }
    }

    #[test]
    fn tests_comments_and_texts_may_name_calls() {
        for text in [
            "// Instant::now\n",
            "const A: &str = \"tokio::spawn\";\n",
            "#[cfg(test)]\nmod tests { fn f() { Instant::now(); } }\n",
            "fn f() { tokio::task::spawn_blocking(g); my_spawn_local(); }\n",
        ] {
            assert_eq!(found("crates/gateway/plan/src/a.rs", text), [""; 0], "{text}");
        }
        assert_eq!(
            found("crates/gateway/plan/tests/a.rs", "fn f() { Instant::now(); }\n"),
            [""; 0]
        );
    }

    #[test]
    fn unfinished_work_is_found_in_tests_too() {
        for mark in UNDONE {
            let text = format!("fn f() {{}}\n{mark}\n");
            assert_eq!(found("tests/a.rs", &text), [format!("2: `{mark}`")]);
        }
        assert_eq!(found("a.rs", "const A: &str = \"todo!\"; // dbg!\n"), [""; 0]);
    }

    #[test]
    fn announcements_of_work_need_an_issue() {
        assert_eq!(found("a.rs", "// TODO later\n"), ["1: TODO without an issue"]);
        assert_eq!(found("a.rs", "\n/// FIXME #3\n"), ["2: FIXME without an issue"]);
        assert_eq!(found("a.rs", "// TODO(#3) later\n// AUTODOT\nfn f() { \"TODO\" }\n"), [""; 0]);
    }

    #[test]
    fn types_must_not_be_named_with_empty_words() {
        for word in EMPTY_WORDS {
            let text = format!("pub(crate) struct Route{word}<'a> {{}}\n");
            let expected = format!("1: the type `Route{word}` is named with `{word}`");
            assert_eq!(found("crates/gateway/plan/src/a.rs", &text), [expected]);
        }
        assert_eq!(found("a.rs", "struct Database {}\nfn f(x: Context) {}\n"), [""; 0]);
    }
}
