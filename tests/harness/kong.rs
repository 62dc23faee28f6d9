//! Imports of files of Kong, and gateways that serve the result.

use tempfile::TempDir;

use super::{Gateway, Run, tidegate};

/// Imports a file into a new folder, where the configuration becomes `made/tidegate.yaml`. `more` are other arguments.
pub(crate) fn import_kong(text: &str, more: &[&str]) -> (Run, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kong.yaml");
    std::fs::write(&file, text).unwrap();
    let into = folder.path().join("made");
    let (file, into) = (file.to_str().unwrap(), into.to_str().unwrap());
    let words = ["import", "kong", file, "--into", into, "--listen", "127.0.0.1:0"];
    (tidegate(&[&words[..], more].concat()), folder)
}

/// Starts a gateway with the result of an import, which must have ended with this code.
#[track_caller]
pub(crate) fn start_imported((run, folder): (Run, TempDir), code: i32) -> (Gateway, Run) {
    assert_eq!(run.code, Some(code), "{}{}", run.stdout, run.stderr);
    (Gateway::start_of(folder, "made/tidegate.yaml"), run)
}
