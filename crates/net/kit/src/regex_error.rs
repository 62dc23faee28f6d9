//! The reason why a regular expression cannot be used, in one line.

use std::fmt::Display;

/// Returns the last line of an error of the crate `regex`. The lines before it only show the place in the expression.
pub fn reason(error: &impl Display) -> String {
    let error = error.to_string();
    // Harmless: an error has a text.
    let last = error.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
