//! Load tests as files: what each row of a reference document sends, through which configuration, to which backends.
//!
//! Owns the files of `bench/scenarios`, which are in the program, and how a file becomes rows and loads. It opens no socket and
//! starts nothing: the `run` module does.

mod check;
mod embedded;
pub mod file;
mod payload;
mod plan;

use std::path::{Path, PathBuf};

pub use embedded::{FILES, write_files};
pub use file::{BackendKind, Document, Watch};
pub use plan::{Overrides, Row, RowLoad};

use config::Report;

/// A scenario with the file that it stands in.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name on the command line, and that of its folder.
    pub name: String,
    /// The path of its file, as from the root of the tree.
    pub file: PathBuf,
    /// What it shares with the others of its file.
    pub shared: std::sync::Arc<file::File>,
    /// Its own keys.
    pub own: file::Scenario,
}

impl Scenario {
    /// The document, as `001`.
    #[must_use]
    pub fn document(&self) -> &'static str {
        self.shared.document.word()
    }

    /// True if clients connect by TLS.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.own.tls.unwrap_or(self.shared.tls)
    }

    /// The gateway's configuration, as a path from the root of the tree, or from where the file's own path begins.
    #[must_use]
    pub fn gateway(&self) -> PathBuf {
        let written = self.own.gateway.as_ref().unwrap_or(&self.shared.gateway);
        self.file.parent().unwrap_or(Path::new("")).join(&written.value)
    }
}

/// All scenarios in the program, in the order of the documents.
///
/// # Errors
///
/// The report about a file that is wrong.
pub fn all() -> Result<Vec<Scenario>, Report> {
    let mut scenarios = Vec::new();
    for (name, text) in embedded::scenario_files() {
        scenarios.extend(parse(text, Path::new(name))?);
    }
    Ok(scenarios)
}

/// The scenarios of a file.
///
/// # Errors
///
/// The report with every complaint.
pub fn parse(text: &str, name: &Path) -> Result<Vec<Scenario>, Report> {
    let (read, mut report) = config::read::<file::File>(text, name);
    if let Some(read) = &read {
        check::check(read, &mut report);
    }
    let Some(read) = read.filter(|_| !report.has_errors()) else { return Err(report) };
    let shared = std::sync::Arc::new(read);
    let scenarios = shared.scenarios.iter().map(|(scenario, own)| Scenario {
        name: scenario.value.clone(),
        file: name.to_owned(),
        shared: std::sync::Arc::clone(&shared),
        own: own.clone(),
    });
    Ok(scenarios.collect())
}

/// The JSON schema of a scenario file.
#[must_use]
pub fn schema() -> serde_json::Value {
    config::json_schema_of::<file::File>("Tidegate load-test scenarios")
}

#[cfg(test)]
mod tests;
