//! Phrases that are not plain English, in comments, messages and documents.

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
    Phrase {
        words: "so many",
        instead: "write `this many`, `several`, or the limit",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "whoever",
        instead: "name the client, caller or operator",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "is looked at",
        instead: "write `is checked`, `is read` or `is parsed`",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "are looked at",
        instead: "write `are checked`, `are read` or `are parsed`",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "worth a look",
        instead: "say what is checked and when",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "for ever",
        instead: "write `without end` or `permanently`",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "under way",
        instead: "write `in progress`",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "all the same",
        instead: "write `nevertheless` or `anyway`",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "as it stands",
        instead: "write `unchanged`",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "news of",
        instead: "name the events or changes",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "what of that",
        instead: "name the part",
        unless_after: &[],
        unless_before: &[],
    },
    Phrase {
        words: "nor is",
        instead: "write `and neither is`",
        unless_after: &[],
        unless_before: &[],
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
            if rest.starts_with(is_of_a_word) || before.ends_with(is_of_a_word) {
                return false;
            }
            let after = rest.trim_start();
            let last = before.trim_end().rsplit(|c: char| !c.is_alphanumeric()).next();
            let next = after.split(|c: char| !c.is_alphanumeric()).next();
            !last.is_some_and(|word| self.unless_after.contains(&word))
                && !next.is_some_and(|word| self.unless_before.contains(&word))
        })
    }
}

/// Names of tests and of fields are not checked, so an underscore belongs to a word.
fn is_of_a_word(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(line: &str) -> usize {
        check(&Text { path: "a.md".to_owned(), text: line.to_owned() }).len()
    }

    #[test]
    fn phrases_are_found_where_they_are_not_idiomatic() {
        let unidiomatic = [
            "`a b` is no name",
            "bytes that are no text",
            "What is no key is a value",
            "Of those, so many begin at once.",
            "it runs for ever",
        ];
        for line in unidiomatic {
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
            "forever is one word",
            "rate_limit::whoever_asks",
        ];
        for line in idiomatic {
            assert_eq!(found(line), 0, "{line}");
        }
    }
}
