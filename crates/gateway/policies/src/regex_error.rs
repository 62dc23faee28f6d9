//! The reason why a regular expression cannot be used, in one line.

/// Returns the last line of an error. The lines before it only show the place in the text.
pub(crate) fn reason(error: &regex::Error) -> String {
    let error = error.to_string();
    // Harmless: an error has a text.
    let last = error.lines().last().unwrap_or_default().trim();
    last.strip_prefix("error: ").unwrap_or(last).to_owned()
}
