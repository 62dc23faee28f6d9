//! The fields of a record in the text format. A record is always one line, whatever a peer sent.

use std::fmt::{self, Debug, Write};

use tracing::field::Field;
use tracing_subscriber::fmt::format::Writer;

/// The only field that may have several lines: the complaints about a configuration.
const REPORT: &str = "report";

/// Writes a message unchanged, and any other field as `name=value`.
pub(super) fn write(to: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    match field.name() {
        REPORT => return write!(Escaped { to, lines: true }, "\n{value:?}"),
        "message" => {}
        name => write!(to, "{}=", name.strip_prefix("r#").unwrap_or(name))?,
    }
    write!(Escaped { to, lines: false }, "{value:?}")
}

/// True for a character that could end a record, move the cursor of a terminal, or change the order of what it shows.
pub(super) fn is_dangerous(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes such characters as escapes, except line ends if they are allowed.
struct Escaped<'a, W> {
    to: &'a mut W,
    lines: bool,
}

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(|c| is_dangerous(c) && !(self.lines && c == '\n')) {
            let (plain, behind) = rest.split_at_checked(at).unwrap_or((rest, ""));
            self.to.write_str(plain)?;
            let mut behind = behind.chars();
            if let Some(c) = behind.next() {
                write!(self.to, "{}", c.escape_default())?;
            }
            rest = behind.as_str();
        }
        self.to.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_field_ends_a_record_or_reaches_a_terminal() {
        for (lines, text, written) in [
            (false, "a b", "a b"),
            (false, "a\r\n2026 INFO forged\u{1b}[31m", r"a\r\n2026 INFO forged\u{1b}[31m"),
            (false, "\u{85}\u{2028}\u{202e}\u{7f}", r"\u{85}\u{2028}\u{202e}\u{7f}"),
            (true, "a\nb\r", "a\nb\\r"),
        ] {
            let mut out = String::new();
            write!(Escaped { to: &mut out, lines }, "{text}").unwrap();
            assert_eq!(out, written);
        }
    }
}
