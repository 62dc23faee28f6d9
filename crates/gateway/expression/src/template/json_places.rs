//! Finds the places of placeholders in a JSON template: within strings, or in place of a value.

use crate::tape::JsonText;
use crate::template::Site;
use crate::template::pieces::Piece;
use crate::{Error, ErrorKind};

/// Limits of a template; no hand-written one is deeper or has more values.
const LIMITS: json::Limits = json::Limits { depth_max: 128, entries_max: 1 << 20 };

/// Returns the place of each placeholder. The template must be valid JSON whatever their values are.
pub(super) fn sites(text: &str, pieces: &[Piece<'_>]) -> Result<Vec<Site>, Error> {
    let mut sites = Vec::new();
    let mut in_string = false;
    // The template with a value in each placeholder, and the offset at which each piece begins in it.
    let mut filled = String::with_capacity(text.len());
    let mut starts = Vec::new();
    for piece in pieces {
        match piece {
            Piece::Literal { text, at } => {
                starts.push((filled.len(), *at));
                filled.push_str(text);
                in_string = is_string_open_after(text, in_string);
            }
            Piece::Placeholder { from, .. } => {
                starts.push((filled.len(), *from));
                // The stand-in is neither a hex digit nor an escape, so that it cannot complete an escape sequence.
                filled.push_str(if in_string { "x" } else { "null" });
                sites.push(if in_string { Site::JsonString } else { Site::JsonValue });
            }
        }
    }
    let wrong = |place: usize, what: String| {
        let start = starts.iter().rev().find(|(start, _)| *start <= place);
        // Harmless: the position is only shown in the error.
        let (start, at) = start.copied().unwrap_or_default();
        Err(ErrorKind::Malformed(what.into()).at(text, at + (place - start)))
    };
    let read = match JsonText::read(filled, &LIMITS) {
        Ok(read) => read,
        Err(malformed) => {
            let what = format!("the template is not JSON: expected {}", malformed.what);
            return wrong(malformed.at, what);
        }
    };
    // A placeholder in a string may be part of a name. Names that are equal here may then differ in a message, so they are not
    // checked.
    match read.duplicate_member().filter(|_| !sites.contains(&Site::JsonString)) {
        None => Ok(sites),
        Some(object) => {
            wrong(read.place(object), "an object of the template has a duplicate member".to_owned())
        }
    }
}

/// Returns true if a string is open at the end of the text.
fn is_string_open_after(text: &str, mut in_string: bool) -> bool {
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_string = !in_string,
            b'\\' if in_string => drop(bytes.next()),
            // Harmless: no other byte affects strings.
            _ => {}
        }
    }
    in_string
}
