//! Names of code in documents: a path such as `plan::Table` has to be in the crate that it begins with.
//!
//! Owns the index of names by crate. A name is known if the crate's code has it anywhere, or if a file or a folder of the crate has it.

use std::collections::{BTreeMap, BTreeSet};

use super::source::{Source, is_name};
use super::{Complaint, Text};

/// The documents that are checked: those at the root about the code, and the decisions.
const DOCUMENTS: &[&str] =
    &["ARCHITECTURE.md", "CONTRIBUTING.md", "LEXICON.md", "STYLE.md", "docs/adr/"];

/// The names of each crate.
pub(crate) struct Crates<'s>(BTreeMap<&'s str, BTreeSet<&'s str>>);

impl<'s> Crates<'s> {
    pub(crate) fn read(sources: &'s [Source]) -> Crates<'s> {
        let mut crates: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for source in sources {
            let beside = || source.path.split_once("/src/").map(|(folder, _)| folder);
            let beside = || beside().filter(|folder| !folder.contains('/'));
            let Some(name) = source.crate_name().or_else(beside) else { continue };
            let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
            let code = source.code.split(|c: char| !c.is_ascii() || !is_name(c as u8));
            crates.entry(name).or_default().extend(code.chain(stem.split('/')));
        }
        Crates(crates)
    }

    /// True if the first name of a path is a crate.
    pub(crate) fn has_crate_of(&self, path: &str) -> bool {
        path.split("::").next().is_some_and(|first| self.0.contains_key(first))
    }

    /// The name in a path that its crate does not have. A path that does not begin with a crate has none.
    pub(crate) fn missing<'p>(&self, path: &'p str) -> Option<&'p str> {
        let mut names = path.split("::");
        let known = self.0.get(names.next()?)?;
        names.find(|name| !known.contains(name))
    }
}

/// Every path in a document that names what its crate does not have.
pub(crate) fn check(texts: &[Text], crates: &Crates<'_>) -> Vec<Complaint> {
    let is_read = |text: &&Text| {
        text.path.ends_with(".md") && DOCUMENTS.iter().any(|front| text.path.starts_with(front))
    };
    let mut complaints = Vec::new();
    for text in texts.iter().filter(is_read) {
        for (index, line) in text.text.lines().enumerate() {
            for path in quoted(line) {
                if let Some(missing) = crates.missing(path) {
                    complaints.push(Complaint {
                        file: text.path.clone(),
                        line: index + 1,
                        what: format!("`{path}`: the crate does not have `{missing}`"),
                        instead: "name what is there now".to_owned(),
                    });
                }
            }
        }
    }
    complaints
}

/// The names and paths between two backticks.
pub(crate) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split('`').skip(1).step_by(2);
    code.filter(|word| word.chars().all(|c| c == ':' || (c.is_ascii() && is_name(c as u8))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_code_that_is_there() {
        let source = |path: &str, text: &str| {
            Source::read(&Text { path: path.to_owned(), text: text.to_owned() })
        };
        let sources = [
            source(
                "crates/xml/plan/src/table/mod.rs",
                "pub struct Table;\nfn find() {}\n// Gone\n",
            ),
            source("bench/src/run.rs", "struct Row;"),
        ];
        let crates = Crates::read(&sources);
        let found = |path: &str, line: &str| {
            let text = Text { path: path.to_owned(), text: format!("\n{line}\n") };
            let found = check(&[text], &crates);
            found.iter().map(ToString::to_string).collect::<Vec<String>>()
        };
        for line in [
            "`plan::Table`, `plan::table::Table`, `Table::find`, `bench::run::Row`",
            "`other::Gone`, `plan: Gone`, `plan::{Gone}`, plan::Gone",
        ] {
            assert_eq!(found("LEXICON.md", line), [""; 0], "{line}");
        }
        assert_eq!(
            found("docs/adr/0001-a.md", "`plan::table::Gone`"),
            [
                "docs/adr/0001-a.md:2: `plan::table::Gone`: the crate does not have `Gone`; name what is there now"
            ]
        );
        assert_eq!(found("CHANGELOG.md", "`plan::table::Gone`"), [""; 0]);
    }
}
