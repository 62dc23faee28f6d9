//! Load tests as files: what each row of a reference document sends, with which configuration, and to which backends.
//!
//! Owns the files of `bench/scenarios`, which are embedded in the program, and converts them to rows and loads. It opens no socket and
//! starts nothing; the `run` module does that.

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

/// A scenario, with its file.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name on the command line, and the name of its folder.
    pub name: String,
    /// The path of its file, relative to the root of the tree.
    pub file: PathBuf,
    /// What it shares with the other scenarios of its file.
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

    /// Returns the path of the gateway's configuration, relative to the root of the tree or to the same folder as the file's own path.
    #[must_use]
    pub fn gateway(&self) -> PathBuf {
        let written = self.own.gateway.as_ref().unwrap_or(&self.shared.gateway);
        self.file.parent().unwrap_or(Path::new("")).join(&written.value)
    }
}

/// Returns all embedded scenarios, in the order of the documents.
///
/// # Errors
///
/// The report about an invalid file.
pub fn all() -> Result<Vec<Scenario>, Report> {
    let mut scenarios = Vec::new();
    for (name, text) in embedded::scenario_files() {
        scenarios.extend(parse(text, Path::new(name))?);
    }
    Ok(scenarios)
}

/// Returns the scenarios of a file.
///
/// # Errors
///
/// The report with all complaints.
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
