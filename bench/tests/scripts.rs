//! Every script of the project, and every recipe of make that runs one, prints the script's description when it is asked for help, and does
//! nothing else.

#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Read by other scripts, and so not a script that can be asked.
const SHARED: &str = "common.sh";

/// Returns a folder with these programs alone.
fn programs(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let found = ["/usr/bin", "/bin"].map(|at| Path::new(at).join(name));
        let program = found.into_iter().find(|program| program.exists()).unwrap();
        std::os::unix::fs::symlink(program, folder.path().join(name)).unwrap();
    }
    folder
}

#[test]
fn help_does_nothing_else() {
    // With these programs alone, a script can neither build nor fetch nor write anything.
    let folder = programs(&["bash", "sed", "dirname"]);
    let scripts =
        ["scripts", "bench", "deploy", "examples", "tests"].map(|name| scripts(Path::new(name)));
    let scripts = scripts.concat();
    assert!(scripts.len() > 40, "{scripts:?}");
    for script in scripts {
        for asked in [&["--help"][..], &["-h"], &["--help", "more"]] {
            let mut command = Command::new("/usr/bin/env");
            command.env_clear().env("PATH", folder.path()).current_dir(ROOT);
            let output = command.arg(&script).args(asked).stdin(Stdio::null()).output().unwrap();
            let told = String::from_utf8(output.stdout).unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{} {asked:?}: {told}{said}", script.display());
            let text = fs::read_to_string(Path::new(ROOT).join(&script)).unwrap();
            let first = text.lines().nth(1).and_then(|line| line.strip_prefix("# "));
            assert_eq!(told.lines().next(), first, "{} {asked:?}", script.display());
            assert_eq!(said, "", "{} {asked:?}", script.display());
        }
    }
}

#[test]
fn a_recipe_that_is_asked_for_help_does_nothing_else() {
    let folder = programs(&["bash", "sed", "dirname", "make"]);
    let makefile = fs::read_to_string(Path::new(ROOT).join("Makefile")).unwrap();
    let mut recipes: Vec<&str> = Vec::new();
    let mut recipe = "";
    for line in makefile.lines() {
        let name = line.split_once(':').map_or("", |(name, _)| name);
        let runs_a_script =
            ["\t@scripts/", "\t@bench/", "\t@for "].iter().any(|run| line.starts_with(run));
        if runs_a_script {
            recipes.push(recipe);
        } else if !name.is_empty() && !line.starts_with(['\t', '#', '.']) {
            recipe = name;
        }
    }
    assert!(recipes.len() > 30, "{recipes:?}");
    for recipe in recipes {
        let mut command = Command::new("/usr/bin/env");
        command.env_clear().env("PATH", folder.path()).current_dir(ROOT).stdin(Stdio::null());
        let output = command.args(["make", recipe, "ARGS=--help"]).output().unwrap();
        let told = String::from_utf8(output.stdout).unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success() && said.is_empty(), "{recipe}: {told}{said}");
        assert!(told.lines().next().is_some_and(|line| line.len() > 20), "{recipe}: {told}");
    }
}

/// Returns the scripts below a folder of the project.
fn scripts(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = folder.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            found.extend(scripts(&path));
        } else if path.extension().is_some_and(|end| end == "sh") && !path.ends_with(SHARED) {
            found.push(path);
        }
    }
    found
}
