//! Adds a policy, a step and a metric from templates and compiles the result, which shows that an extension changes no more files than
//! CONTRIBUTING.md lists.
//!
//! Owns the templates in `xtask/extensions` and how they are applied. They are applied to a copy, and the tree itself is not changed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Failure;
use crate::conformance::target_folder;

const HELP: &str = "\
Adds a policy, a flow step and a metric to a copy of the tree, counts the files, and compiles it.

usage: cargo xtask extensions
";

/// A kind of extension: its template, and the number of files that it may touch.
struct Extension {
    name: &'static str,
    template: &'static str,
    files_max: usize,
}

const EXTENSIONS: &[Extension] = &[
    Extension {
        name: "a policy",
        template: include_str!("../extensions/policy.txt"),
        files_max: 6,
    },
    Extension { name: "a step", template: include_str!("../extensions/step.txt"), files_max: 4 },
    Extension {
        name: "a metric",
        template: include_str!("../extensions/metric.txt"),
        files_max: 1,
    },
];

/// One change of a template.
#[derive(Debug, PartialEq, Eq)]
struct Change<'t> {
    path: &'t str,
    place: Insertion<'t>,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Insertion<'t> {
    /// A new file.
    New,
    /// Below this line.
    After(&'t str),
    /// Above this line.
    Before(&'t str),
}

/// Runs the task. Returns true if the extensions compile and none of them changes more files than it may.
pub(crate) fn run(words: &[&str]) -> Result<bool, Failure> {
    if !words.is_empty() {
        return Err(Failure::Usage(HELP.to_owned()));
    }
    let tree = target_folder().join("extensions");
    copy(&tree)?;
    let mut is_right = true;
    for extension in EXTENSIONS {
        let changes = changes(extension.template)?;
        for change in &changes {
            apply(&tree, change)?;
        }
        let files = files(&changes);
        println!("{}: {files} files, at most {}", extension.name, extension.files_max);
        is_right &= files <= extension.files_max;
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["check", "--quiet", "--locked", "--package", "compile", "--package", "listen"]);
    // The dependencies are already compiled in the target folder of the tree itself.
    cargo
        .current_dir(&tree)
        .env("CARGO_TARGET_DIR", fs::canonicalize(target_folder()).map_err(broken)?);
    Ok(cargo.status().map_err(broken)?.success() && is_right)
}

fn broken(error: std::io::Error) -> Failure {
    Failure::Broken(error.to_string())
}

/// Copies the files that git tracks or would add.
fn copy(tree: &Path) -> Result<(), Failure> {
    if tree.exists() {
        fs::remove_dir_all(tree).map_err(broken)?;
    }
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .output()
        .map_err(broken)?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    for path in listed.split('\0').filter(|path| !path.is_empty() && Path::new(path).is_file()) {
        let to = tree.join(path);
        fs::create_dir_all(to.parent().unwrap_or(tree)).map_err(broken)?;
        fs::copy(path, to).map_err(broken)?;
    }
    Ok(())
}

/// The number of files that changes touch.
fn files(changes: &[Change<'_>]) -> usize {
    changes.iter().map(|change| change.path).collect::<BTreeSet<_>>().len()
}

/// Reads a template: sections that begin with `@new PATH`, `@after PATH: LINE` or `@before PATH: LINE`.
fn changes(template: &str) -> Result<Vec<Change<'_>>, Failure> {
    let unreadable = |line: &str| Failure::Broken(format!("a template has the line `{line}`"));
    let mut changes: Vec<Change<'_>> = Vec::new();
    for line in template.lines() {
        if let Some(section) = line.strip_prefix('@') {
            let (kind, rest) = section.split_once(' ').ok_or_else(|| unreadable(line))?;
            let (path, anchor) = rest.split_once(": ").unwrap_or((rest, ""));
            let place = match kind {
                "new" => Insertion::New,
                "after" => Insertion::After(anchor),
                "before" => Insertion::Before(anchor),
                _ => return Err(unreadable(line)),
            };
            changes.push(Change { path, place, text: String::new() });
        } else if let Some(change) = changes.last_mut() {
            change.text.push_str(line);
            change.text.push('\n');
        }
    }
    Ok(changes)
}

fn apply(tree: &Path, change: &Change<'_>) -> Result<(), Failure> {
    let file = tree.join(change.path);
    let text = match change.place {
        Insertion::New if file.exists() => {
            return Err(Failure::Broken(format!("{} is there already", change.path)));
        }
        Insertion::New => change.text.clone(),
        Insertion::After(_) | Insertion::Before(_) => {
            changed(&fs::read_to_string(&file).map_err(broken)?, change)?
        }
    };
    fs::write(&file, text).map_err(broken)
}

/// Returns the text of a file with the change. The line that the change refers to has to occur exactly once.
fn changed(text: &str, change: &Change<'_>) -> Result<String, Failure> {
    let (Insertion::After(anchor) | Insertion::Before(anchor)) = change.place else {
        return Ok(change.text.clone());
    };
    let mut out = String::with_capacity(text.len() + change.text.len());
    let mut found = 0;
    for line in text.lines() {
        let is_here = line == anchor;
        found += usize::from(is_here);
        if is_here && matches!(change.place, Insertion::Before(_)) {
            out.push_str(&change.text);
        }
        out.push_str(line);
        out.push('\n');
        if is_here && matches!(change.place, Insertion::After(_)) {
            out.push_str(&change.text);
        }
    }
    if found == 1 {
        Ok(out)
    } else {
        Err(Failure::Broken(format!("{} has the line `{anchor}` {found} times", change.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The root of the workspace.
    fn root() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    #[test]
    fn extensions_touch_as_few_files_as_contributing_says() {
        let contributing = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
        for extension in EXTENSIONS {
            let changes = changes(extension.template).unwrap();
            assert_eq!(files(&changes), extension.files_max, "{}", extension.name);
            for change in changes {
                let folder = change.path.rsplit_once('/').unwrap().0;
                assert!(contributing.contains(folder), "CONTRIBUTING.md does not name {folder}");
                match change.place {
                    Insertion::New => {
                        assert!(!root().join(change.path).exists(), "{}", change.path)
                    }
                    Insertion::After(_) | Insertion::Before(_) => {
                        let text = fs::read_to_string(root().join(change.path)).unwrap();
                        assert!(changed(&text, &change).is_ok(), "{change:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_place_that_does_not_occur_exactly_once_is_refused() {
        let template = "about\n@after a.rs: b\nc\n@before a.rs: d\ne\n";
        let changes = changes(template).unwrap();
        assert_eq!(changed("a\nb\nd\n", &changes[0]).ok().as_deref(), Some("a\nb\nc\nd\n"));
        assert_eq!(changed("a\nb\nd\n", &changes[1]).ok().as_deref(), Some("a\nb\ne\nd\n"));
        assert!(changed("a\n", &changes[0]).is_err());
        assert!(changed("b\nb\n", &changes[0]).is_err());
        assert_eq!(files(&changes), 1);
    }
}
