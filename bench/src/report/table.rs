//! A table as Markdown and as HTML.

use std::fmt::Write as _;

/// Cells with their columns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// The heading.
    pub title: String,
    /// A paragraph below the heading; may be empty.
    pub note: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows, each with as many cells as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Returns the heading, the note and the table as Markdown. As in the reference's template, the first column is aligned to the left and
    /// the others to the right.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<String> =
                cells.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " ")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = format!("## {}\n\n", self.title);
        if !self.note.is_empty() {
            let _ = write!(text, "{}\n\n", self.note);
        }
        text.push_str(&line(&self.columns));
        text.push_str("|---|");
        text.push_str(&"---:|".repeat(self.columns.len().saturating_sub(1)));
        text.push('\n');
        self.rows.iter().for_each(|row| text.push_str(&line(row)));
        text
    }

    /// Returns the same as HTML.
    #[must_use]
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut text = format!("<h2>{title}</h2>\n");
        if !self.note.is_empty() {
            let _ = writeln!(text, "<p>{}</p>", with_code(&self.note));
        }
        // Wide tables scroll, also by the keys of somebody who has no pointer.
        let region = format!("role=\"region\" aria-label=\"{title}\" tabindex=\"0\"");
        let _ = write!(text, "<div class=\"wide\" {region}><table>\n<thead><tr>");
        let classes: Vec<String> = (0..self.columns.len()).map(|at| self.class(at)).collect();
        for (name, class) in self.columns.iter().zip(&classes) {
            let _ = write!(text, "<th scope=\"col\"{class}>{}</th>", escaped(name));
        }
        text.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            text.push_str("<tr>");
            for (cell, class) in row.iter().zip(&classes) {
                let _ = write!(text, "<td{class}>{}</td>", with_code(cell));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>\n");
        text
    }

    /// Returns the classes of a column's cells: whether they are texts, long, or the document's.
    fn class(&self, place: usize) -> String {
        let cells = || self.rows.iter().filter_map(|row| row.get(place)); // Harmless: rows have all cells.
        let is_theirs = self.columns.get(place).is_some_and(|name| name.starts_with("Document: "));
        let mut classes = Vec::new();
        for (is, class) in [
            (cells().any(|cell| is_text(cell)), "text"),
            (cells().any(|cell| cell.len() > SHORT), "long"),
            (is_theirs, "theirs"),
        ] {
            classes.extend(is.then_some(class));
        }
        if classes.is_empty() {
            return String::new();
        }
        format!(" class=\"{}\"", classes.join(" "))
    }
}

/// Maximum length of a cell that is not broken into lines.
const SHORT: usize = 24;

/// Returns false for a number, with or without a unit, and for what stands in place of one.
fn is_text(cell: &str) -> bool {
    let is_number = cell.trim_start_matches('-').starts_with(|first: char| first.is_ascii_digit());
    !is_number && !["", "-", "N/A", "not run"].contains(&cell)
}

/// Escapes a text, and shows what stands between backticks as code.
fn with_code(text: &str) -> String {
    let text = escaped(text);
    let parts: Vec<&str> = text.split('`').collect();
    if parts.len().is_multiple_of(2) {
        return text;
    }
    let part = |(place, part): (usize, &&str)| {
        if place.is_multiple_of(2) { (*part).to_owned() } else { format!("<code>{part}</code>") }
    };
    parts.iter().enumerate().map(part).collect()
}

/// Formats a number with at most two decimals, or `N/A` if it was not measured.
pub(super) fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return "N/A".to_owned() };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if text == "-0" { "0".to_owned() } else { text.to_owned() }
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_texts_and_of_numbers_are_told_apart() {
        let of = |cells: &[&str]| {
            let rows = cells.iter().map(|cell| vec![(*cell).to_owned()]).collect();
            Table { columns: vec!["Document: x".to_owned()], rows, ..Table::default() }.class(0)
        };
        assert_eq!(of(&["1.5", "-2", "12 ms", "N/A", "-", "not run"]), " class=\"theirs\"");
        assert_eq!(of(&["1", "S1-32"]), " class=\"text theirs\"");
        assert_eq!(of(&["a text that needs several lines"]), " class=\"text long theirs\"");
        assert_eq!(Table { columns: vec!["x".to_owned()], ..Table::default() }.class(0), "");
    }

    #[test]
    fn a_text_between_backticks_is_code() {
        assert_eq!(
            with_code("marked `a<b`, or `c`"),
            "marked <code>a&lt;b</code>, or <code>c</code>"
        );
        assert_eq!(with_code("one ` alone"), "one ` alone");
    }
}
