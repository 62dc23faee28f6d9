//! Prints the differences of two configurations, one line for each.

use std::fmt::Write as _;

use config::{Change, Difference};

use super::yaml::flow;

/// Returns a line for each difference, marked `+` (added), `-` (removed) or `~` (changed), followed by the totals. The text is empty if
/// there are no differences.
pub fn explain_differences(differences: &[Difference]) -> String {
    let mut text = String::new();
    for Difference { path, change } in differences {
        let _ = match change {
            Change::Added(new) => writeln!(text, "+ {path}: {}", flow(new)),
            Change::Removed(old) => writeln!(text, "- {path}: {}", flow(old)),
            Change::Changed(old, new) => {
                writeln!(text, "~ {path}: {} -> {}", plain(old), plain(new))
            }
            Change::Content(file) => writeln!(text, "~ {path}: {}, its content", plain(file)),
        };
    }
    let count = |of: fn(&Change) -> bool| differences.iter().filter(|one| of(&one.change)).count();
    let counts = [
        (count(|change| matches!(change, Change::Added(_))), "added"),
        (count(|change| matches!(change, Change::Removed(_))), "removed"),
        (count(|change| matches!(change, Change::Changed(..) | Change::Content(_))), "changed"),
    ];
    let told: Vec<String> = counts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    text.push_str(&told.join(", "));
    text
}

/// Returns a value as text. A masked value is shown without quotes.
fn plain(value: &serde_json::Value) -> String {
    match value.as_str() {
        Some(text) if text.starts_with('(') && text.ends_with(')') => text.to_owned(),
        Some(_) | None => flow(value),
    }
}
