//! Builds a plan with its sources from files or a text. It reads and compiles, and writes nothing but the draft of a text. All of it
//! blocks, so it runs on a separate thread.

use crate::Report;
use crate::file::Draft;
use crate::watched::Contents;
use compile::CompiledPlan;
use config::{Difference, LoadedConfig, LogTo, ShownValue, Sources};
use plan::Plan;
use std::collections::BTreeSet;
use std::io;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use telemetry::Telemetry;

/// The source of a configuration.
pub(crate) enum Input {
    /// A file or a folder.
    Path(PathBuf),
    /// A text that will be written to this path.
    Text(String, PathBuf),
    /// A text that could not be written to its path.
    Unwritten(String, PathBuf),
}

/// A compiled plan that can go into service.
pub(crate) struct Built {
    pub(crate) plan: Arc<Plan>,
    pub(crate) warnings: Report,
    pub(crate) sources: Sources,
    pub(crate) contents: Option<Contents>,
    /// The folder of bundles: that of `bundles`, or else that of `catalog`, if one of them is configured.
    pub(crate) bundles: Option<PathBuf>,
}

/// The result of a compilation, with the files that it depends on in both cases.
pub(crate) struct CompileAttempt {
    pub(crate) result: Result<Built, Report>,
    pub(crate) files: Vec<PathBuf>,
}

/// The first plan, with metrics for its number of workers.
pub(crate) fn first(path: &Path) -> Result<(Built, Vec<PathBuf>, Arc<Telemetry>), Report> {
    let input = Input::Path(path.to_owned());
    let guess = Telemetry::new(thread::available_parallelism().map_or(1, NonZero::get));
    let tried = attempt(&input, None, &guess, &Contents::default());
    let workers = tried.result.as_ref().map_or(guess.workers(), |built| built.plan.workers);
    if workers == guess.workers() {
        return Ok((tried.result?, tried.files, guess));
    }
    // Metrics have one shard per worker, and only the plan knows the number of workers.
    let telemetry = Telemetry::new(workers);
    let tried = attempt(&input, None, &telemetry, &Contents::default());
    Ok((tried.result?, tried.files, telemetry))
}

/// The plan after `previous`, reusing its unchanged parts.
pub(crate) fn attempt(
    input: &Input,
    previous: Option<&Plan>,
    telemetry: &Telemetry,
    known: &Contents,
) -> CompileAttempt {
    let mut before = known.reread();
    let loaded = input.load();
    let compiled = compile::compile(&loaded, previous, telemetry);
    let named = match &compiled {
        Ok(compiled) => compiled.warnings.files(),
        Err(report) => report.files(),
    };
    let files = input.files(&loaded, named);
    let mut after = Contents::read(&files);
    if let Input::Text(text, place) | Input::Unwritten(text, place) = input {
        before.put(place, text);
        after.put(place, text);
    }
    // If a file changed meanwhile, it is unknown which content was compiled.
    let contents = after.agrees(&before).then_some(after);
    let sources = loaded.report.sources().clone();
    let written = loaded.config.as_ref().and_then(|config| config.bundles.as_ref());
    let written = written.map(|bundles| bundles.folder.value.as_path().to_owned());
    let has_catalog = loaded.config.as_ref().is_some_and(|config| config.catalog.is_some());
    let bundles = written
        .or_else(|| if has_catalog { config::folder_of_bundles(input.path()) } else { None });
    let result = compiled.map(|CompiledPlan { plan, warnings }| Built {
        plan: Arc::new(plan),
        warnings,
        sources,
        contents,
        bundles,
    });
    CompileAttempt { result, files }
}

/// All complaints about a configuration. Its metrics are discarded.
pub(crate) fn check(input: &Input) -> Report {
    match compile::compile(&input.load(), None, &Telemetry::new(1)) {
        Ok(compiled) => compiled.warnings,
        Err(report) => report,
    }
}

/// The differences from these sources to another configuration, or its complaints if it has errors.
pub(crate) fn differences(sources: &Sources, input: &Input) -> Result<Vec<Difference>, Report> {
    let new = input.load();
    compile::compile(&new, None, &Telemetry::new(1))?;
    Ok(config::differences(&config::read_again(sources), &new, ShownValue::Api))
}

impl Input {
    fn load(&self) -> LoadedConfig {
        match self {
            Input::Path(path) => config::load(path),
            Input::Text(text, place) | Input::Unwritten(text, place) => config::parse(text, place),
        }
    }

    /// A draft of a text beside the file that it will replace. None for files, which are already in place, and for a text
    /// that could not be written.
    pub(crate) fn draft(&self) -> io::Result<Option<Draft>> {
        match self {
            Input::Path(_) | Input::Unwritten(..) => Ok(None),
            Input::Text(text, place) => Draft::write(place, text).map(Some),
        }
    }

    /// The file or folder of the configuration. A text may not have been written to it yet.
    fn path(&self) -> &PathBuf {
        let (Input::Path(path) | Input::Text(_, path) | Input::Unwritten(_, path)) = self;
        path
    }

    /// All files that the configuration depends on, including its own. `named` are the files that it names.
    fn files(&self, loaded: &LoadedConfig, named: &BTreeSet<PathBuf>) -> Vec<PathBuf> {
        let path = self.path();
        let own = loaded.files.iter().filter(|file| *file != path && !is_written(file, loaded));
        let named = named.iter().filter(|file| *file != path && !loaded.files.contains(file));
        std::iter::once(path).chain(own).chain(named).cloned().collect()
    }
}

/// True if the gateway itself writes a file named in the configuration. Watching it would cause a reload for each line of the
/// access log, and for each file of the store.
fn is_written(file: &Path, loaded: &LoadedConfig) -> bool {
    let Some(config) = &loaded.config else { return false };
    let store = config.store.as_ref().and_then(|store| store.value.path.as_ref());
    if store.is_some_and(|path| path.value.as_path() == file) {
        return true;
    }
    let access = config.telemetry.access_log.as_ref().map(|log| &log.to.value);
    let audit = config.telemetry.audit_log.as_ref().map(|log| &log.to.value);
    let is_it = |to: &LogTo| matches!(to, LogTo::File(path) if path.as_path() == file);
    access.into_iter().chain(audit).any(is_it)
}
