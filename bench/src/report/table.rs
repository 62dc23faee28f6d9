//! A table as Markdown and as HTML.

use std::fmt::Write as _;

/// Cells with their columns. The first column contains texts, the others numbers.
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
        let mut text = format!("<h2>{}</h2>\n", escaped(&self.title));
        if !self.note.is_empty() {
            let _ = writeln!(text, "<p>{}</p>", escaped(&self.note));
        }
        text.push_str("<div class=\"wide\"><table>\n<thead><tr>");
        for name in &self.columns {
            let class = if name.starts_with("Document: ") { " class=\"theirs\"" } else { "" };
            let _ = write!(text, "<th scope=\"col\"{class}>{}</th>", escaped(name));
        }
        text.push_str("</tr></thead>\n<tbody>\n");
        for row in &self.rows {
            text.push_str("<tr>");
            for cell in row {
                let _ = write!(text, "<td>{}</td>", escaped(cell));
            }
            text.push_str("</tr>\n");
        }
        text.push_str("</tbody></table></div>\n");
        text
    }
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
