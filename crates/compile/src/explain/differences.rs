//! A change in words, a line for each place.

use std::fmt::Write as _;

use config::{Change, Difference};

use super::yaml::flow;

/// `+` for an addition, `-` for a removal, `~` for a change, and their numbers; nothing if there is no difference.
pub fn explain_differences(differences: &[Difference]) -> String {
    let mut text = String::new();
    for Difference { path, change } in differences {
        let _infallible = match change {
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

/// A value; a masked one stands without quotes.
fn plain(value: &serde_json::Value) -> String {
    match value.as_str() {
        Some(text) if text.starts_with('(') && text.ends_with(')') => text.to_owned(),
        Some(_) | None => flow(value),
    }
}
