//! The rows of LEXICON.md: each word has one meaning, and a place in a crate.

use std::collections::BTreeMap;

use super::named_code::{Crates, quoted};
use super::{Complaint, Text};

const DOCUMENT: &str = "LEXICON.md";

/// Words that are there twice without a subject in parentheses, and places that do not begin with a crate.
pub(crate) fn check(texts: &[Text], crates: &Crates<'_>) -> Vec<Complaint> {
    let Some(document) = texts.iter().find(|text| text.path == DOCUMENT) else { return Vec::new() };
    let complain = |line: usize, what: String, instead: &str| Complaint {
        file: DOCUMENT.to_owned(),
        line,
        what,
        instead: instead.to_owned(),
    };
    let rows =
        || document.text.lines().zip(1..).filter_map(|(row, line)| Some((line, cells(row)?)));
    let mut words: BTreeMap<&str, Vec<(usize, &str)>> = BTreeMap::new();
    let mut complaints = Vec::new();
    for (line, [word, _, place]) in rows() {
        for entry in word.split(", ") {
            let (bare, subject) = entry.split_once(" (").unwrap_or((entry, ""));
            words.entry(bare).or_default().push((line, subject));
        }
        for path in quoted(place).filter(|path| !crates.has_crate_of(path)) {
            let what = format!("`{path}` does not begin with a crate");
            complaints.push(complain(line, what, "write `CRATE::NAME`"));
        }
    }
    for (word, uses) in words.iter().filter(|(_, uses)| uses.len() > 1) {
        let is_taken = |(at, (_, subject)): (usize, &(usize, &str))| {
            subject.is_empty() || uses.iter().take(at).any(|(_, other)| other == subject)
        };
        let wrong = uses.iter().enumerate().find(|(at, used)| is_taken((*at, *used)));
        complaints.extend(wrong.map(|(_, (line, _))| {
            let what = format!("`{word}` has several rows");
            complain(*line, what, "name the subject of each in parentheses, or remove one")
        }));
    }
    complaints
}

/// The cells of a row in a table of three columns, except for its heading.
fn cells(row: &str) -> Option<[&str; 3]> {
    let row = row.strip_prefix("| ")?.strip_suffix('|')?;
    let mut cells = row.splitn(3, " | ");
    let cells = [cells.next()?, cells.next()?, cells.next()?.trim_end()];
    (!matches!(cells, ["word" | "---", ..])).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::Source;

    fn found(rows: &str) -> Vec<String> {
        let text = |path: &str, text: &str| Text { path: path.to_owned(), text: text.to_owned() };
        let sources = [Source::read(&text("crates/xml/plan/src/lib.rs", ""))];
        let document = format!("| word | what | where |\n| --- | --- | --- |\n{rows}");
        let found = check(&[text(DOCUMENT, &document)], &Crates::read(&sources));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_word_has_one_row_for_each_subject() {
        for rows in [
            "| a, b | x | `plan` |\n| c | y | |\n",
            "| a (of b) | x | `plan::A` |\n| a (of c) | y | `plan` |\n",
        ] {
            assert_eq!(found(rows), [""; 0], "{rows}");
        }
        for rows in [
            "| a | x | `plan` |\n| b, a (of c) | y | `plan` |\n",
            "| a (of c) | x | `plan` |\n| a | y | `plan` |\n",
            "| a (of c) | x | `plan` |\n| a (of c) | y | `plan` |\n",
        ] {
            let found = found(rows);
            assert!(
                found.len() == 1 && found.concat().contains("`a` has several rows"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn a_place_begins_with_a_crate() {
        assert_eq!(
            found("| a | `x` | `plan::A`, `Table::find` |\n"),
            ["LEXICON.md:3: `Table::find` does not begin with a crate; write `CRATE::NAME`"]
        );
    }
}
