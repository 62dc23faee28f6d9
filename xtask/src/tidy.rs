//! The rules of ARCHITECTURE.md and STYLE.md that a program can check: `cargo xtask tidy`, and a test.
//!
//! Owns the reading of the tree and the printing of violations. Each module finds those of one subject: [`edges`] (dependencies between
//! crates), [`calls`] (which calls are allowed where), [`size`] (lengths of files and functions), [`doors`] (the beginning of a crate),
//! [`names`] (names of types), [`policies`] (policies that depend on one another), [`links`] (links in documents), [`loss`] (calls that
//! lose something silently), [`forms`] (forms of those calls that do not lose anything), [`locks`] (locks on the hot path), [`cycles`]
//! (files of a crate that depend on one another), [`shape`] (large traits and `Deref`), [`code_map`] (the lists of crates and of policies
//! in ARCHITECTURE.md), [`named_code`] (names of code in documents), [`lexicon`] (the rows of LEXICON.md), [`phrases`] (phrases that are
//! not plain English). It does not change files and does not need the network.

mod calls;
mod code_map;
mod cycles;
mod doors;
mod edges;
mod forms;
mod lexicon;
mod links;
mod locks;
mod loss;
mod named_code;
mod names;
mod phrases;
mod policies;
mod ratchet;
mod shape;
mod size;
mod source;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::Path;

use crate::Failure;
use crate::conformance::workspace;

const HELP: &str = "\
Checks rules of ARCHITECTURE.md and STYLE.md that a compiler does not check.

usage: cargo xtask tidy

Prints each violation as file:line, what is wrong, and what to write instead.
Exit code 0: tidy, 1: not, 2: usage.
";

/// The list of allowed exceptions to the limits of size.
const EXCEPTIONS: &str = "xtask/tidy-exceptions.txt";

/// Folders that contain no files of the project, at any depth.
const SKIPPED: &[&str] =
    &["target", ".git", ".cache", "corpus", "artifacts", "var", "node_modules"];

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Complaint {
    /// The path from the root of the workspace.
    file: String,
    line: usize,
    what: String,
    /// The remedy.
    instead: String,
}

/// A file of the tree that some rule reads.
pub(crate) struct Text {
    /// The path from the root of the workspace, with `/`.
    path: String,
    text: String,
}

/// Checks the workspace. Returns true if there are no violations.
pub(crate) fn run(words: &[&str]) -> Result<bool, Failure> {
    match words {
        [] => {}
        ["--help" | "-h"] => {
            print!("{HELP}");
            return Ok(true);
        }
        [other, ..] => return Err(Failure::Usage(format!("unknown argument `{other}`\n\n{HELP}"))),
    }
    let complaints = check(workspace())?;
    for complaint in &complaints {
        println!("{complaint}");
    }
    match complaints.len() {
        0 => println!("tidy"),
        1 => println!("1 violation"),
        many => println!("{many} violations"),
    }
    Ok(complaints.is_empty())
}

/// Returns all violations in the tree below `root`, ordered by place.
fn check(root: &Path) -> Result<BTreeSet<Complaint>, Failure> {
    let texts = read_tree(root)?;
    let rust: Vec<source::Source> =
        texts.iter().filter(|t| t.path.ends_with(".rs")).map(source::Source::read).collect();
    let list = |path: &str| texts.iter().find(|t| t.path == path).map_or("", |t| t.text.as_str());
    let crates = edges::read(root, &texts)?;
    let mut complaints = BTreeSet::new();
    complaints.extend(edges::check(&crates));
    complaints.extend(rust.iter().flat_map(calls::check));
    complaints.extend(rust.iter().filter_map(doors::check));
    complaints.extend(rust.iter().flat_map(names::check));
    complaints.extend(policies::check(&rust));
    complaints.extend(size::check(&rust, list(EXCEPTIONS)));
    complaints.extend(loss::check(&rust));
    complaints.extend(rust.iter().flat_map(loss::check_names));
    complaints.extend(locks::check(&rust, list(locks::LIST)));
    complaints.extend(cycles::check(&rust, list(cycles::LIST)));
    complaints.extend(rust.iter().flat_map(shape::check));
    complaints.extend(code_map::check(&texts));
    complaints.extend(code_map::check_policies(&texts));
    let names = named_code::Crates::read(&rust);
    complaints.extend(named_code::check(&texts, &names));
    complaints.extend(lexicon::check(&texts, &names));
    complaints.extend(texts.iter().flat_map(phrases::check));
    complaints.extend(links::check(&texts, &|path| root.join(path).exists()));
    Ok(complaints)
}

/// Reads all text files that a rule needs, ordered by path.
fn read_tree(root: &Path) -> Result<Vec<Text>, Failure> {
    let mut texts = Vec::new();
    read_folder(root, root, &mut texts)
        .map_err(|error| Failure::Broken(format!("{}: {error}", root.display())))?;
    texts.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(texts)
}

fn read_folder(root: &Path, folder: &Path, texts: &mut Vec<Text>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name().to_string_lossy().into_owned();
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            read_folder(root, &path, texts)?;
        } else if kind.is_file() && is_read(&name) {
            let from_root = path.strip_prefix(root).unwrap_or(&path);
            let text = fs::read_to_string(&path)?;
            texts.push(Text { path: from_root.to_string_lossy().replace('\\', "/"), text });
        }
    }
    Ok(())
}

fn is_read(name: &str) -> bool {
    let ends = [".rs", ".md", ".toml", "-exceptions.txt", "-locks.txt", "-cycles.txt"];
    ends.iter().any(|end| name.ends_with(end))
}

/// The line number of a byte, from 1.
fn line_of(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}; {}", self.file, self.line, self.what, self.instead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tree_is_tidy() {
        let complaints = check(workspace()).unwrap();
        let lines: Vec<String> = complaints.iter().map(ToString::to_string).collect();
        assert!(lines.is_empty(), "\n{}\n", lines.join("\n"));
    }

    #[test]
    fn a_complaint_has_its_place_what_is_wrong_and_a_remedy() {
        let complaint = Complaint {
            file: "a.rs".to_owned(),
            line: 3,
            what: "this".to_owned(),
            instead: "write that".to_owned(),
        };
        assert_eq!(complaint.to_string(), "a.rs:3: this; write that");
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }

    #[test]
    fn every_rule_checks_the_files_of_a_tree() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(
            "Cargo.toml",
            "[workspace]\nresolver = \"3\"\nmembers = [\n  # tools\n  \"crates/xml/a\",\n]\n",
        );
        write(
            "crates/xml/a/Cargo.toml",
            "[package]\nname = \"a\"\nedition = \"2024\"\n[dependencies]\nanyhow = \"1\"\n",
        );
        write("crates/xml/a/src/lib.rs", "fn f() { dbg!(1); }\n");
        write("target/x.rs", "fn f() { dbg!(1); }\n");
        write("README.md", "[gone](docs/gone.md)\n");
        write(EXCEPTIONS, "crates/xml/a/src/lib.rs 700\n");
        let found: Vec<String> = check(folder.path())
            .unwrap()
            .iter()
            .map(|c| format!("{}:{}", c.file, c.line))
            .collect();
        assert_eq!(
            found,
            [
                "README.md:1",
                "crates/xml/a/Cargo.toml:5",
                "crates/xml/a/src/lib.rs:1",
                "crates/xml/a/src/lib.rs:1",
                "xtask/tidy-exceptions.txt:1",
            ]
        );
    }

    #[test]
    fn unknown_arguments_are_usage_errors() {
        assert!(matches!(run(&["--fix"]), Err(Failure::Usage(_))));
    }
}
