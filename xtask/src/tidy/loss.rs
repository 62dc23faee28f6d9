//! Calls that can silently lose what an operator wrote or a peer sent.
//!
//! Owns the list of these calls. Each use in a shipped file needs a comment next to it that says after `Harmless:` why nothing is lost, or
//! that the loss is reported.

use std::collections::BTreeMap;

use super::forms;
use super::source::{Source, is_name};
use super::{Complaint, line_of};

/// A call that drops a value or replaces it.
struct Lossy {
    /// Its text in the source.
    text: &'static str,
    /// How it loses something.
    why: &'static str,
}

const LOSSY: &[Lossy] = &[
    Lossy { text: ".ok()", why: "drops an error" },
    Lossy { text: "if let Ok(", why: "passes over an error" },
    Lossy { text: ".filter_map(", why: "drops elements" },
    Lossy { text: ".flatten()", why: "drops what is absent or failed" },
    Lossy { text: ".map_while(", why: "stops at the first element that does not fit" },
    Lossy { text: ".take(", why: "cuts a list or a text" },
    Lossy { text: ".truncate(", why: "cuts a list or a text" },
    Lossy { text: ".zip(", why: "joins by position and ends with the shorter list" },
    Lossy { text: ".unwrap_or_default()", why: "puts a default in place of a value" },
    Lossy { text: "_ => {}", why: "passes over every other case" },
    Lossy { text: "let _", why: "drops a result" },
    Lossy { text: "from_utf8_lossy(", why: "replaces bytes" },
];

/// The mark of a comment that says why a use loses nothing.
const MARK: &str = "Harmless:";

/// Returns the results that are dropped under a name, which is for what has to live until the end of its scope.
pub(crate) fn check_names(source: &Source) -> Vec<Complaint> {
    let text = "let _";
    let named =
        source.code.match_indices(text).map(|(at, _)| at).filter(|at| {
            source.code.get(at + text.len()..).is_some_and(forms::names_a_dropped_result)
        });
    let complain = |at| {
        let what = "a result that is dropped has a name".to_owned();
        source.complain(at, what, "write `let _ = ..`".to_owned())
    };
    named.map(complain).collect()
}

/// Returns the uses that have no such comment.
pub(crate) fn check(sources: &[Source]) -> Vec<Complaint> {
    let of_tests: Vec<String> = sources.iter().flat_map(Source::test_modules).collect();
    let is_in = |path: &str, module: &str| {
        path.strip_prefix(module).is_some_and(|rest| rest.starts_with(['.', '/']))
    };
    let is_test = |source: &Source| {
        source.is_test() || of_tests.iter().any(|module| is_in(&source.path, module))
    };
    let shipped = sources.iter().filter(|s| s.crate_name().is_some() && !is_test(s));
    shipped.flat_map(unexplained).collect()
}

fn unexplained(source: &Source) -> Vec<Complaint> {
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, lossy) in LOSSY.iter().enumerate() {
        let uses = source.shipped.match_indices(lossy.text).map(|(at, _)| at);
        let unexplained =
            uses.filter(|at| is_lossy(source, lossy, *at) && !is_explained(source, *at));
        found.entry(index).or_default().extend(unexplained);
    }
    let complaints = LOSSY.iter().zip(found.into_values()).filter_map(|(lossy, uses)| {
        let last = *uses.last()?;
        let what = format!("`{}` {}; uses without a reason: {}", lossy.text, lossy.why, uses.len());
        let instead = format!("report what is lost, or say after `{MARK}` why nothing is");
        Some(source.complain(last, what, instead))
    });
    complaints.collect()
}

/// Returns true if the text at `at` is this call and may lose something: `Option::take()` moves, and `let _` may begin a longer pattern.
fn is_lossy(source: &Source, lossy: &Lossy, at: usize) -> bool {
    let after = source.shipped.get(at + lossy.text.len()..).unwrap_or_default();
    let is_such = match lossy.text {
        ".take(" => !after.starts_with(')'),
        "let _" => {
            let name = after.bytes().take_while(|byte| is_name(*byte)).count();
            after.get(name..).is_some_and(|rest| rest.starts_with(" = "))
        }
        _ => true,
    };
    is_such && !forms::is_harmless(&source.shipped, lossy.text, at)
}

/// Returns true if a comment with the mark is in the statement that contains `at`, or directly above it.
fn is_explained(source: &Source, at: usize) -> bool {
    let line = line_of(&source.code, at);
    let code: Vec<&str> = source.code.lines().take(line).collect();
    let comments: Vec<&str> = source.comments.lines().take(line).collect();
    for (index, (code, comment)) in code.iter().zip(&comments).enumerate().rev() {
        let ends = index + 1 < line && code.trim_end().ends_with([';', '{', '}', ',']);
        if ends {
            return false;
        }
        if comment.contains(MARK) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::Text;

    fn found(path: &str, text: &str) -> Vec<String> {
        let text = Text { path: path.to_owned(), text: text.to_owned() };
        let complaints = check(&[Source::read(&text)]);
        complaints.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_lossy_call_needs_a_reason() {
        let path = "crates/xml/a/src/lib.rs";
        let lost = |text: &str| found(path, text).len();
        assert_eq!(lost("fn f() {\n    a().ok();\n}\n"), 1);
        assert_eq!(lost("fn f() {\n    // Harmless: nobody waits for it.\n    a().ok();\n}\n"), 0);
        assert_eq!(
            lost("fn f() {\n    a()\n        .b()\n        // Harmless: why.\n        .ok();\n}\n"),
            0
        );
        assert_eq!(lost("fn f() {\n    // Harmless: why.\n    a().ok();\n    b().ok();\n}\n"), 1);
        assert_eq!(lost("fn f() {\n    // Of the other.\n    a().ok();\n}\n"), 1);
        assert_eq!(lost("fn f() { a.take(); b.take(3); let _x = c(); let _guard: D = d(); }\n"), 2);
        assert_eq!(lost("#[cfg(test)]\nmod tests { fn f() { a().ok(); } }\n"), 0);
        assert_eq!(found("tests/a.rs", "fn f() { a().ok(); }\n"), [""; 0]);
    }

    #[test]
    fn only_what_is_kept_has_a_name() {
        let text = "fn f() { let _sent = a.send(b); let _ = a.send(b); let _guard = a.lock(); }\n";
        let text = Text { path: "tests/a.rs".to_owned(), text: text.to_owned() };
        assert_eq!(check_names(&Source::read(&text)).len(), 1);
    }

    #[test]
    fn modules_that_are_only_for_tests_are_passed_over() {
        let lossy = "fn f() { a().ok(); }\n";
        let declaration = "#[cfg(test)]\npub(crate) mod model;\nmod models;\n";
        for (parent, of_test, other) in [
            ("crates/xml/a/src/lib.rs", "crates/xml/a/src/model.rs", "crates/xml/a/src/models.rs"),
            (
                "crates/xml/a/src/b/mod.rs",
                "crates/xml/a/src/b/model/c.rs",
                "crates/xml/a/src/model.rs",
            ),
            (
                "crates/xml/a/src/b.rs",
                "crates/xml/a/src/b/model.rs",
                "crates/xml/a/src/b/models.rs",
            ),
        ] {
            let texts = [(parent, declaration), (of_test, lossy), (other, lossy)];
            let texts = texts.map(|(path, text)| Text { path: path.into(), text: text.into() });
            let complaints = check(&texts.map(|text| Source::read(&text)));
            let files: Vec<&str> = complaints.iter().map(|one| one.file.as_str()).collect();
            assert_eq!(files, [other]);
        }
    }

    #[test]
    fn uses_are_counted_for_each_file_and_call() {
        let text = "fn f() { a().ok(); b().ok(); }\n";
        assert_eq!(
            found("crates/xml/a/src/lib.rs", text),
            ["crates/xml/a/src/lib.rs:1: `.ok()` drops an error; uses without a reason: 2; \
              report what is lost, or say after `Harmless:` why nothing is"]
        );
    }
}
