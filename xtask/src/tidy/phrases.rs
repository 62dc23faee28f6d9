//! Phrases that are not idiomatic English, in comments, messages and documents.

use super::{Complaint, Text};

/// A phrase, and what to write instead.
struct Phrase {
    words: &'static str,
    instead: &'static str,
    /// Words before it with which it is idiomatic.
    unless_after: &'static [&'static str],
    /// Words after it with which it is idiomatic.
    unless_before: &'static [&'static str],
}

const PHRASES: &[Phrase] = &[
    Phrase {
        words: "is no",
        instead: "write `is not a`, or `must be a`",
        unless_after: &["there", "where"],
        unless_before: IDIOMS,
    },
    Phrase {
        words: "are no",
        instead: "write `are not`, or `must be`",
        unless_after: &["there", "where"],
        unless_before: IDIOMS,
    },
];

const IDIOMS: &[&str] = &[
    "longer", "larger", "deeper", "more", "other", "reason", "less", "better", "worse", "need",
    "sign", "matter", "room", "such",
];

/// The file that lists them.
const OWN: &str = "xtask/src/tidy/phrases.rs";

/// Every use of such a phrase within a line.
pub(crate) fn check(text: &Text) -> Vec<Complaint> {
    let is_read = text.path.ends_with(".rs") || text.path.ends_with(".md");
    if !is_read || text.path == OWN {
        return Vec::new();
    }
    let lines = text.text.lines().enumerate();
    let found = lines.flat_map(|(index, line)| {
        let uses = PHRASES.iter().filter(move |phrase| phrase.is_in(line));
        uses.map(move |phrase| Complaint {
            file: text.path.clone(),
            line: index + 1,
            what: format!("`{}`", phrase.words),
            instead: phrase.instead.to_owned(),
        })
    });
    found.collect()
}

impl Phrase {
    fn is_in(&self, line: &str) -> bool {
        let line = line.to_ascii_lowercase();
        line.match_indices(self.words).any(|(at, _)| {
            let (before, rest) = line.split_at(at);
            let rest = rest.get(self.words.len()..).unwrap_or_default();
            let Some(after) = rest.strip_prefix(' ') else { return false };
            let last = before.trim_end().rsplit(|c: char| !c.is_alphanumeric()).next();
            let next = after.split(|c: char| !c.is_alphanumeric()).next();
            before.ends_with(' ')
                && !last.is_some_and(|word| self.unless_after.contains(&word))
                && !next.is_some_and(|word| self.unless_before.contains(&word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check(&Text { path: "a.md".to_owned(), text: line.to_owned() }).len()
    }

    #[test]
    fn phrases_are_found_where_they_are_not_idiomatic() {
        for line in ["`a b` is no name", "bytes that are no text", "What is no key is a value"] {
            assert_eq!(found(line), 1, "{line}");
        }
        let idiomatic = [
            "There is no file",
            "it is no longer here",
            "this is not a name",
            "are no more than 5",
            "the list is none",
            "where there are no keys",
            "ZEIS NO",
        ];
        for line in idiomatic {
            assert_eq!(found(line), 0, "{line}");
        }
    }
}
