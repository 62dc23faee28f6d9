//! Formats the results of cases as JUnit XML, for build servers.

use std::fmt::Write as _;

use xml::{escape_attribute, escape_text};

use super::Outcome;

/// Returns a test suite with the results of all cases of one configuration.
pub(super) fn written(file: &str, outcomes: &[Outcome]) -> String {
    let failures = outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count();
    let total = outcomes.iter().map(|outcome| outcome.took.as_secs_f64()).sum::<f64>();
    let counts = format!(r#"tests="{}" failures="{failures}" errors="0""#, outcomes.len());
    let file = attribute(file);
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts} time=\"{total:.3}\">\n\
         <testsuite name=\"{file}\" {counts} time=\"{total:.3}\">\n"
    );
    for outcome in outcomes {
        let (name, time) = (attribute(&outcome.name), outcome.took.as_secs_f64());
        let _ = write!(text, "<testcase classname=\"{file}\" name=\"{name}\" time=\"{time:.3}\"");
        let Some(first) = outcome.failures.first() else {
            text.push_str("/>\n");
            continue;
        };
        let all = content(&outcome.failures.join("\n"));
        // Harmless: a failure is never empty, so it has a first line.
        let first = attribute(first.lines().next().unwrap_or_default());
        let _ = write!(text, ">\n<failure message=\"{first}\">{all}</failure>\n</testcase>\n");
    }
    text.push_str("</testsuite>\n</testsuites>\n");
    text
}

/// Returns a test suite with one error, for cases that could not be run.
pub(super) fn not_run(file: &str, why: &str) -> String {
    let counts = r#"tests="1" failures="0" errors="1" time="0.000""#;
    let (file, all) = (attribute(file), content(why));
    // Harmless: a reason is never empty, so it has a first line.
    let first = attribute(why.lines().next().unwrap_or_default());
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n\
         <testsuite name=\"{file}\" {counts}>\n\
         <testcase classname=\"{file}\" name=\"cases\" time=\"0.000\">\n\
         <error message=\"{first}\">{all}</error>\n</testcase>\n</testsuite>\n</testsuites>\n"
    )
}

/// Removes characters that XML 1.0 does not allow.
fn clean(text: &str) -> String {
    let good = |c: &char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{FFFD}' | '\u{10000}'..);
    text.chars().filter(good).collect()
}

fn attribute(text: &str) -> String {
    let mut out = String::new();
    escape_attribute(&clean(text), &mut out);
    out
}

fn content(text: &str) -> String {
    let mut out = String::new();
    escape_text(&clean(text), &mut out);
    out
}
