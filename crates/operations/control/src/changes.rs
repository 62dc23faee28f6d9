//! The admin API's operations on the configuration: conditional changes by text, by archive and by rollback; checks and comparisons;
//! and the configuration as operators may see it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use config::{Difference, LoadedConfig, Report, ShownValue, Source, Sources};

use crate::archive::{self, NamedFile, TemporaryFolder};
use crate::build::{self, Input};
use crate::bundles;
use crate::history::{History, HistoryEntry, KeptContent, KeptFile, KeptFiles};
use crate::place::{self, Replacement};
use crate::{Control, Current, Failure, Outcome, blocking, lock, run_detached, unwritable};

/// The author in the history if an operator has no name.
pub const NOBODY: &str = "admin";

/// A configuration as an operator sends it.
#[derive(Debug, Clone)]
pub enum Sent {
    Text(String),
    /// A ZIP archive of the files of a folder, or of the single file.
    Archive(Vec<u8>),
}

/// The sender of a change, and its condition.
#[derive(Debug, Clone, Default)]
pub struct ChangeRequest {
    pub by: Option<String>,
    pub condition: Option<Condition>,
}

/// The configurations in service for which a change is allowed.
#[derive(Debug, Clone)]
pub enum Condition {
    Any,
    /// The hashes of the allowed ones.
    OneOf(Vec<String>),
}

impl Control {
    /// Puts a configuration into service and writes it to its file. Also returns the number of differences.
    pub async fn put(
        self: &Arc<Self>,
        sent: Sent,
        demand: ChangeRequest,
    ) -> Result<(Outcome, usize), Failure> {
        let control = self.clone();
        self.in_turn(demand, move |by: String| async move { control.place(sent, &by).await }).await
    }

    /// Puts an earlier configuration into service again, as a new generation.
    pub async fn roll_back(
        self: &Arc<Self>,
        generation: u64,
        demand: ChangeRequest,
    ) -> Result<(Outcome, usize), Failure> {
        let control = self.clone();
        let back = move |by: String| async move {
            let files = control.kept(generation).await?;
            if control.path.is_dir() {
                let missing = missing(&control.path, &files.others);
                if !missing.is_empty() {
                    return Err(Failure::FilesMissing(missing));
                }
                let bytes = |(name, text): &KeptFile| (name.clone(), text.clone().into_bytes());
                let mut new: Vec<NamedFile> = files.texts.iter().map(bytes).collect();
                new.extend(files.named.iter().cloned());
                let own = archive::own_files(&control.path, &control.current().sources);
                let own = own.into_iter().map(|(name, _)| name).collect();
                control.replace(new, own, &by).await
            } else {
                control.apply(joined(&files.texts), &by).await
            }
        };
        self.in_turn(demand, back).await
    }

    /// Waits for earlier changes, and then makes this change if its condition holds.
    async fn in_turn<F>(
        self: &Arc<Self>,
        demand: ChangeRequest,
        change: impl FnOnce(String) -> F + Send + 'static,
    ) -> Result<(Outcome, usize), Failure>
    where
        F: Future<Output = Result<Outcome, Failure>> + Send + 'static,
    {
        let control = self.clone();
        let turn = async move {
            let _turn = control.turn.lock().await;
            if !demand.condition.is_none_or(|condition| condition.holds(&control.current().hash)) {
                return Err(Failure::Stale);
            }
            control.changes.store(0, Relaxed);
            let result = change(demand.by.unwrap_or_else(|| NOBODY.to_owned())).await;
            control.note(&result);
            Ok((result?, control.changes.load(Relaxed)))
        };
        run_detached(turn).await
    }

    async fn place(&self, sent: Sent, by: &str) -> Result<Outcome, Failure> {
        let sources = self.current().sources.clone();
        match (sent, self.path.is_dir()) {
            (Sent::Text(_), true) => self.only_file().map(|()| Outcome::Unchanged(0)),
            (Sent::Text(text), false) => {
                let text = self.unmasked(text, &sources)?;
                self.apply(text, by).await
            }
            (Sent::Archive(bytes), false) => {
                let text = blocking(move || one_text(&bytes, &sources)).await??;
                self.apply(text, by).await
            }
            (Sent::Archive(bytes), true) => {
                let path = self.path.clone();
                let work = move || {
                    let new = archive::unpacked(&bytes, &sources)?;
                    Ok::<_, Failure>((new, shown_names(&path, &sources)))
                };
                let (new, known) = blocking(work).await??;
                self.replace(new, known, by).await
            }
        }
    }

    /// Writes the files of a folder, removes the files of `known` that `new` lacks, and puts the result into service. If the
    /// configuration is refused, the old files are restored.
    async fn replace(
        &self,
        new: Vec<NamedFile>,
        known: Vec<String>,
        by: &str,
    ) -> Result<Outcome, Failure> {
        let removed = lacking(&new, known);
        let folder = self.path.clone();
        let (is_there, new) = blocking(move || (bundles::has_all(&folder, &new), new)).await?;
        if is_there && removed.is_empty() && self.is_unchanged().await? {
            return Ok(Outcome::Unchanged(self.plan().generation));
        }
        let folder = self.path.clone();
        let begun = blocking(move || Replacement::begin(&folder, &new, &removed)).await?;
        let replacement = begun.map_err(unwritable)?;
        let result = self.change(self.files(), by).await;
        let keeps = result.is_ok();
        let end = move || if keeps { replacement.keep() } else { replacement.undo() };
        match blocking(end).await? {
            Ok(()) => {}
            Err(error) if keeps => {
                tracing::error!(%error, "the copies of the old files could not be removed");
            }
            Err(error) => tracing::error!(%error, "the old files could not be restored"),
        }
        // The watch must not take these files for a change from outside.
        let folder = self.path.clone();
        lock(&self.watched).renew(|file| file.starts_with(&folder));
        result.map_err(|failure| relative(failure, &self.path))
    }

    fn unmasked(&self, text: String, sources: &Sources) -> Result<String, Failure> {
        config::unmasked(&text, &self.place_of_text(), sources).map_err(Failure::Complaints)
    }

    /// All complaints about a configuration, without putting it into service.
    pub async fn check(&self, sent: Sent) -> Result<Report, Failure> {
        let (input, _shadow, path) = self.input(sent).await?;
        let report = blocking(move || build::check(&input)).await?;
        Ok(renamed(report, &path))
    }

    /// The differences from the configuration in service to another one, and the hash of the former. Nothing is changed.
    pub async fn compare(&self, sent: Sent) -> Result<(Vec<Difference>, String), Failure> {
        let current = self.current();
        let (input, _shadow, path) = self.input(sent).await?;
        let (sources, hash) = (current.sources.clone(), current.hash.clone());
        let found = blocking(move || build::differences(&sources, &input)).await?;
        let found = found.map_err(|report| Failure::Complaints(renamed(report, &path)))?;
        Ok((found, hash))
    }

    /// The input of a compilation. For an archive of a folder, also the temporary folder with the files, which has to outlive the
    /// compilation, and the prefix to remove from file names in complaints.
    async fn input(
        &self,
        sent: Sent,
    ) -> Result<(Input, Option<TemporaryFolder>, Option<PathBuf>), Failure> {
        let sources = self.current().sources.clone();
        match sent {
            Sent::Text(text) => {
                let text = self.unmasked(text, &sources)?;
                Ok((Input::Text(text, self.place_of_text()), None, None))
            }
            Sent::Archive(bytes) if self.path.is_dir() => {
                let folder = self.path.clone();
                let work = move || {
                    let new = archive::unpacked(&bytes, &sources)?;
                    let removed = lacking(&new, shown_names(&folder, &sources));
                    let shadow = TemporaryFolder::shadow(&folder, &new, &removed);
                    shadow.map_err(|error| Failure::Unchecked(error.to_string()))
                };
                let shadow = blocking(work).await??;
                let path = shadow.0.clone();
                Ok((Input::Path(path.clone()), Some(shadow), Some(path)))
            }
            Sent::Archive(bytes) => {
                let text = blocking(move || one_text(&bytes, &sources)).await??;
                Ok((Input::Text(text, self.place_of_text()), None, None))
            }
        }
    }

    /// The configuration in service as written, with its secrets or with masks.
    pub async fn shown_text(&self, with_secrets: bool) -> Result<String, Failure> {
        let sources = self.current().sources.clone();
        let is_folder = self.path.is_dir();
        blocking(move || whole_text(&sources, is_folder, with_secrets)).await
    }

    /// The configuration in service as a ZIP archive of its files.
    pub async fn shown_archive(&self, with_secrets: bool) -> Result<Vec<u8>, Failure> {
        let (sources, path) = (self.current().sources.clone(), self.path.clone());
        let packed = blocking(move || {
            // Harmless: each source has a text.
            let shown = Sources::new(
                sources
                    .iter()
                    .zip(texts(&sources, with_secrets))
                    .map(|(source, text)| Source { text, ..source.clone() })
                    .collect(),
            );
            let own = archive::own_files(&path, &shown).into_iter();
            let mut files: Vec<NamedFile> =
                own.map(|(name, text)| (name, text.into_bytes())).collect();
            if path.is_dir() {
                files.extend(archive::named_files(&path, &config::read_again(&sources)));
            }
            archive::pack(&files)
        });
        packed.await?.map_err(|error| Failure::Internal(error.to_string()))
    }

    /// True if the configuration is a folder of files.
    pub fn is_folder(&self) -> bool {
        self.path.is_dir()
    }

    /// The configurations that were in service, newest first.
    pub fn history(&self) -> Vec<HistoryEntry> {
        self.history.entries()
    }

    /// An earlier configuration as written.
    pub async fn history_text(
        &self,
        generation: u64,
        with_secrets: bool,
    ) -> Result<String, Failure> {
        let files = self.kept(generation).await?;
        let sources = self.sources_of(&files.texts);
        let is_folder = self.path.is_dir();
        blocking(move || whole_text(&sources, is_folder, with_secrets)).await
    }

    /// The differences from one generation of the history to another, or to the one in service.
    pub async fn history_differences(
        &self,
        from: u64,
        to: Option<u64>,
    ) -> Result<Vec<Difference>, Failure> {
        let old = self.sources_of(&self.kept(from).await?.texts);
        let new = match to {
            Some(to) => self.sources_of(&self.kept(to).await?.texts),
            None => self.current().sources.clone(),
        };
        blocking(move || {
            let (old, new) = (config::read_again(&old), config::read_again(&new));
            config::differences(&old, &new, ShownValue::Api)
        })
        .await
    }

    async fn kept(&self, generation: u64) -> Result<KeptFiles, Failure> {
        let found = self.history.files(generation);
        let found = found.map_err(|error| Failure::Internal(error.to_string()))?;
        found.ok_or(Failure::NoGeneration(generation))
    }

    /// Files of the history as sources with their paths in the folder.
    fn sources_of(&self, files: &[KeptFile]) -> Sources {
        let folder = if self.path.is_dir() {
            self.path.clone()
        } else {
            self.path.parent().unwrap_or(Path::new("")).to_owned()
        };
        let source = |(name, text): &KeptFile| Source {
            name: folder.join(name).display().to_string(),
            folder: folder.clone(),
            text: text.clone(),
        };
        Sources::new(files.iter().map(source).collect())
    }

    /// Records the first configuration in the history.
    pub(crate) fn keep_first(&self) {
        let Some(max) = self.history_max() else { return };
        let current = self.current();
        let before = self.history.last().filter(|last| last.hash != current.hash);
        // Harmless: without the previous files the number of differences is unknown, and counts as 0.
        let before = before.and_then(|last| self.history.files(last.generation).ok().flatten());
        let changes =
            before.map_or(0, |files| count(&self.sources_of(&files.texts), &current.sources));
        add(&self.history, &self.path, &current, "start", changes, max);
    }

    /// Records the configuration in service in the history, with the number of differences to the previous one.
    pub(crate) async fn keep(&self, before: Sources, by: &str) {
        let Some(max) = self.history_max() else { return };
        let (current, history) = (self.current(), self.history.clone());
        let (path, by) = (self.path.clone(), by.to_owned());
        let work = move || {
            let changes = count(&before, &current.sources);
            add(&history, &path, &current, &by, changes, max);
            changes
        };
        // Harmless: after a panic the number of differences is unknown, and counts as 0.
        self.changes.store(self.compiler.run(work).await.unwrap_or_default(), Relaxed);
    }

    /// The limit of configurations in the history. None without an admin API, since nothing else shows the history.
    fn history_max(&self) -> Option<usize> {
        self.plan().admin.as_ref().map(|admin| admin.history_max)
    }
}

/// Adds the configuration in service to a history, with its author and the number of its differences.
fn add(history: &History, path: &Path, current: &Current, by: &str, changes: usize, max: usize) {
    let entry = HistoryEntry {
        generation: current.plan.generation,
        time: kit::calendar::rfc3339(current.since),
        by: by.to_owned(),
        hash: current.hash.clone(),
        changes,
    };
    let texts = archive::own_files(path, &current.sources);
    let (named, others) = if path.is_dir() {
        archive::kept_files(path, &config::read_again(&current.sources))
    } else {
        Default::default()
    };
    history.add(entry, KeptContent { texts, named, others }, max);
}

/// Those of the names for which the folder has no file.
fn missing(folder: &Path, names: &[String]) -> Vec<String> {
    names.iter().filter(|name| !folder.join(name).is_file()).cloned().collect()
}

impl Condition {
    fn holds(&self, hash: &str) -> bool {
        match self {
            Condition::Any => true,
            Condition::OneOf(hashes) => hashes.iter().any(|one| one == hash),
        }
    }
}

/// Restores the files of a change that a crash has interrupted.
pub(crate) fn recover(folder: &Path) {
    if let Err(error) = place::recover(folder) {
        tracing::error!(%error, "an interrupted change of the configuration cannot be undone");
    }
    if let Err(error) = place::remove_old(folder) {
        tracing::error!(%error, "copies of old files of the configuration cannot be removed");
    }
}

/// A configuration as one text. The files of a folder are concatenated, each after a comment with its name.
pub(crate) fn whole_text(sources: &Sources, is_folder: bool, with_secrets: bool) -> String {
    let texts = texts(sources, with_secrets);
    if is_folder {
        // Harmless: each source has a text.
        let named = sources.iter().zip(texts);
        named.map(|(source, text)| format!("# {}\n{text}\n", source.name)).collect()
    } else {
        // Harmless: the sources after the first belong to bundles.
        texts.into_iter().next().unwrap_or_default()
    }
}

/// The texts of the sources, with their secrets or with masks.
fn texts(sources: &Sources, with_secrets: bool) -> Vec<String> {
    if with_secrets {
        sources.iter().map(|source| source.text.clone()).collect()
    } else {
        config::masked(sources)
    }
}

fn joined(files: &[KeptFile]) -> String {
    files.iter().map(|(_, text)| text.as_str()).collect()
}

/// The number of differences between two configurations.
fn count(before: &Sources, now: &Sources) -> usize {
    let (before, now) = (config::read_again(before), config::read_again(now));
    config::differences(&before, &now, ShownValue::Api).len()
}

/// The text of an archive with one file.
fn one_text(archive: &[u8], sources: &Sources) -> Result<String, Failure> {
    let files = archive::unpacked(archive, sources)?;
    match <[NamedFile; 1]>::try_from(files) {
        Ok([(_, bytes)]) => String::from_utf8(bytes)
            .map_err(|_| Failure::Invalid("the file of the archive is not UTF-8".to_owned())),
        Err(files) => Err(Failure::Invalid(format!(
            "the configuration is one file, but the archive has {}",
            files.len()
        ))),
    }
}

/// The names of the files in the archive that `GET /config` returns for a folder.
fn shown_names(folder: &Path, sources: &Sources) -> Vec<String> {
    let loaded: LoadedConfig = config::read_again(sources);
    let own = archive::own_files(folder, sources).into_iter().map(|(name, _)| name);
    own.chain(archive::named_files(folder, &loaded).into_iter().map(|(name, _)| name)).collect()
}

fn lacking(new: &[NamedFile], known: Vec<String>) -> Vec<String> {
    known.into_iter().filter(|name| !new.iter().any(|(other, _)| other == name)).collect()
}

/// A report with the names of files as in the archive.
fn renamed(report: Report, folder: &Option<PathBuf>) -> Report {
    match folder {
        Some(folder) => report.relative_to(folder),
        None => report,
    }
}

fn relative(failure: Failure, folder: &Path) -> Failure {
    if let Failure::Complaints(report) = failure {
        return Failure::Complaints(report.relative_to(folder));
    }
    failure
}
