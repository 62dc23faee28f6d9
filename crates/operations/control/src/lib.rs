//! The configuration in service. Owns the process of a change: the configuration is compiled while the current plan serves,
//! published to all workers, and becomes the current one. Or it is refused with all complaints, and the previous plan stays in
//! service.
//!
//! A change comes from the files ([`Control::watch`]), from a signal ([`Control::reload`]), from the admin API ([`Control::put`],
//! [`Control::deploy`]), from the catalog ([`Control::place_bundle`]) or from another gateway that shares the store
//! ([`Control::follow`]). Changes are handled one at a time. This crate handles no requests of clients.
#![forbid(unsafe_code)]

mod archive;
mod build;
mod bundles;
mod changes;
mod compiler;
mod file;
mod follow;
mod history;
mod hubs;
mod log_level;
mod place;
mod sampling;
mod schedules;
mod status;
mod targets;
mod unpack;
pub mod view;
mod watch;
mod watched;

#[cfg(test)]
mod tests;

pub use bundles::{Bundle, BundleFiles};
pub use changes::{ChangeRequest, Condition, NOBODY, Sent};
pub use config::{Report, duration, json_schema, json_text};
pub use history::HistoryEntry;
pub use hubs::HubFailure;
pub use log_level::{LOG_LEVEL_MAX, SetLevel};
pub use plan::{Admin, AuditSink, LazyStore, Plan, Role, StatusListener, StoreLocation};
use plan::{REVOKED_MAX, TOKEN_ID_BYTES_MAX};
pub use status::{FailedAttempt, Status};
pub use tls;
pub use watch::POLL_EVERY;

use build::{Built, Input};
use compiler::Compiler;
use config::Sources;
use file::Draft;
use history::History;
use log_level::LogLevel;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use telemetry::Telemetry;
use watched::{Contents, Stamps};

/// The duration of a revocation without an end: longer than any sensible token is valid.
const REVOKED_FOR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The file name in complaints about a text that was sent to a gateway with a folder of files.
const SENT: &str = "sent.yaml";

/// Puts a plan into service: opens and closes listeners, and passes the plan to every worker. It is ready once new exchanges
/// use the new plan. On an error the old plan stays in service.
pub type Publish = Box<dyn Fn(Arc<Plan>) -> PublishFuture + Send + Sync>;

/// The future of a [`Publish`].
pub type PublishFuture = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// Decides which configuration is in service.
pub struct Control {
    /// The file or folder given at the start.
    path: PathBuf,
    telemetry: Arc<Telemetry>,
    publish: Publish,
    current: Mutex<Arc<Current>>,
    /// The files whose changes cause a reload, with their last known stamps.
    watched: Mutex<Stamps>,
    last_failed: Mutex<Option<Arc<FailedAttempt>>>,
    /// Held during a change. Further changes wait.
    turn: tokio::sync::Mutex<()>,
    compiler: Compiler,
    draining: AtomicBool,
    history: Arc<History>,
    log_level: LogLevel,
    /// The number of differences of the last change.
    changes: AtomicUsize,
    /// The last known shared state of the gateways of the store.
    shared: Mutex<Option<follow::Shared>>,
}

/// The plan in service and its sources.
#[derive(Clone)]
struct Current {
    plan: Arc<Plan>,
    sources: Sources,
    warnings: Report,
    /// `None` if a file changed while it was read: then the plan's content is unknown, and the next poll compiles again.
    contents: Option<Contents>,
    /// The text, if it could not be written to the file.
    unwritten: Option<UnsavedText>,
    hash: String,
    /// When the plan went into service, since the Unix epoch.
    since: Duration,
    /// The folder of bundles, if configured.
    bundles: Option<PathBuf>,
}

/// A text in service that could not be written, and the file's content at that time. Once the file changes, its content replaces the
/// text.
#[derive(Clone)]
struct UnsavedText {
    text: String,
    file: Contents,
}

/// The result of a change that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The plan of this generation is in service now.
    Serving(u64),
    /// The plan of this generation is in service, but its text could not be written to the file for this reason. A restart
    /// loses the text.
    Unwritten(u64, String),
    /// The content equals that of the plan in service, which has this generation. Nothing was done.
    Unchanged(u64),
}

/// The reason why a change was refused. The previous plan stays in service.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong.
    Complaints(Report),
    /// The configuration file cannot be written.
    Unwritable(String),
    /// The plan could not be put into service, for instance because an address is taken.
    Unpublished(String),
    /// The files for a check of the configuration cannot be put together.
    Unchecked(String),
    /// The archive is invalid, for this reason.
    Invalid(String),
    /// The name of a bundle is invalid, for this reason.
    BadName(String),
    /// There is no bundle of this name.
    NoBundle(String),
    /// The archive is too large, for this reason.
    TooLarge(String),
    /// Another configuration is in service than the one that was to be changed.
    Stale,
    /// Files that an earlier configuration names are missing, and are not stored in the history.
    FilesMissing(Vec<String>),
    /// The history has no such generation.
    NoGeneration(u64),
    /// A defect of the gateway.
    Internal(String),
}

impl Control {
    /// Compiles the first plan, which [`Control::plan`] then returns. The caller has to put it into service and then
    /// [`Control::announce`] it; `publish` is for later plans.
    pub fn start(path: &Path, publish: Publish) -> Result<Arc<Control>, Report> {
        if let Some(folder) = config::folder_of_bundles(path) {
            bundles::recover(&folder);
        }
        if path.is_dir() {
            changes::recover(path);
        }
        let (mut built, files, telemetry) = build::first(path)?;
        let history = Arc::new(History::open(path));
        if let Some(plan) = Arc::get_mut(&mut built.plan) {
            let hash = built.contents.as_ref().map_or_else(String::new, Contents::digest);
            plan.generation = history.first_generation(&hash);
        }
        let current = Current::new(built);
        current.count(&telemetry);
        Ok(Arc::new(Control {
            path: path.to_owned(),
            telemetry,
            publish,
            current: Mutex::new(Arc::new(current)),
            watched: Mutex::new(Stamps::take(&files)),
            last_failed: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            compiler: Compiler::default(),
            draining: AtomicBool::new(false),
            history,
            log_level: LogLevel::default(),
            changes: AtomicUsize::new(0),
            shared: Mutex::default(),
        }))
    }

    /// Logs that the first plan is in service, and keeps it in the history.
    pub fn announce(&self) {
        self.current().announce();
        self.keep_first();
    }

    /// The plan in service.
    pub fn plan(&self) -> Arc<Plan> {
        self.current().plan.clone()
    }

    /// Revokes a token by its `jti` until `until`, or for a year. Returns the end.
    pub fn revoke(&self, id: &str, until: Option<u64>) -> Result<u64, String> {
        if id.is_empty() || id.len() > TOKEN_ID_BYTES_MAX {
            return Err(format!("`jti` must have 1 to {TOKEN_ID_BYTES_MAX} bytes."));
        }
        let now = kit::clock::wall();
        let until = until.unwrap_or_else(|| (now + REVOKED_FOR).as_secs());
        if until <= now.as_secs() {
            return Err(format!("`until` is in the past: the time is {} now.", now.as_secs()));
        }
        let added = self.plan().revoked.add(id, until, now.as_secs());
        added.map_err(|_| format!("{REVOKED_MAX} tokens are revoked already."))?;
        tracing::info!("a token was revoked");
        Ok(until)
    }

    /// Undoes a revocation; false if there was none.
    pub fn undo_revocation(&self, id: &str) -> bool {
        self.plan().revoked.remove(id)
    }

    /// The metrics of the process.
    pub fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }

    /// The configuration in service as written, including secrets.
    fn config_text(&self) -> String {
        let sources = self.current().sources.clone();
        changes::whole_text(&sources, self.path.is_dir(), true)
    }

    /// The state of the plan in service, and the last change if it was refused.
    pub fn status(&self) -> Status {
        let current = self.current();
        Status {
            generation: current.plan.generation,
            hash: current.hash.clone(),
            since: current.since,
            warnings: current.warnings.clone(),
            last_failed: lock(&self.last_failed).clone(),
        }
    }

    /// The reason why the gateway should get no new clients, if any.
    pub fn not_ready(&self) -> Option<&'static str> {
        self.draining.load(Relaxed).then_some("draining")
    }

    /// Records that the gateway is stopping.
    pub fn set_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Reads the files again and puts their configuration into service. Once started, it runs to its end, even if the caller
    /// is dropped: an incomplete switch would leave workers with different plans.
    pub async fn reload(self: &Arc<Self>) -> Result<Outcome, Failure> {
        let control = self.clone();
        run_detached(async move { control.take_turn("signal").await }).await
    }

    /// Reads files that have just changed. With `waits`, a certificate and a key that do not match are not reported, since one of the files
    /// may change soon. Returns true if the change was not reported for this reason.
    pub(crate) async fn reload_changed(self: &Arc<Self>, waits: bool) -> bool {
        let control = self.clone();
        // Once started, it runs to its end, like `reload`.
        let turn = run_detached(async move {
            let _turn = control.turn.lock().await;
            let result = control.look("file").await;
            let half = matches!(&result, Err(Failure::Complaints(report)) if compile::is_only_key_mismatch(report));
            if !(waits && half) {
                control.note(&result);
            }
            Ok(waits && half)
        });
        // Harmless: failures are recorded within the turn.
        turn.await.unwrap_or_default()
    }

    /// The path that an operator's text gets before it is written to a file. Relative paths in the text are resolved as in the files.
    fn place_of_text(&self) -> PathBuf {
        if self.path.is_dir() { self.path.join(SENT) } else { self.path.clone() }
    }

    /// Refuses a text if the configuration is a folder, since a text replaces a single file.
    fn only_file(&self) -> Result<(), Failure> {
        if !self.path.is_dir() {
            return Ok(());
        }
        let why = format!("{} is a folder: change the files in it", self.path.display());
        Err(Failure::Unwritable(why))
    }

    /// Waits for earlier changes, then reads the files, and puts them into service if they have changed.
    async fn take_turn(&self, by: &str) -> Result<Outcome, Failure> {
        let _turn = self.turn.lock().await;
        let result = self.look(by).await;
        self.note(&result);
        result
    }

    async fn look(&self, by: &str) -> Result<Outcome, Failure> {
        if self.is_unchanged().await? {
            return Ok(Outcome::Unchanged(self.plan().generation));
        }
        let Some(UnsavedText { file, .. }) = self.current().unwritten.clone() else {
            return self.change(self.files(), by).await;
        };
        if blocking(move || file.reread() != file).await? {
            tracing::warn!(
                "the configuration that could not be written is dropped, since its file has changed"
            );
            return self.change(Input::Path(self.path.clone()), by).await;
        }
        let outcome = self.change(self.files(), by).await?;
        tracing::warn!(
            file = %self.path.display(),
            "the configuration could not be written to its file; a restart loses it"
        );
        Ok(outcome)
    }

    /// The files, or the text that could not be written to its file.
    fn files(&self) -> Input {
        match self.current().unwritten.clone() {
            Some(UnsavedText { text, .. }) => Input::Unwritten(text, self.path.clone()),
            None => Input::Path(self.path.clone()),
        }
    }

    async fn apply(&self, text: String, by: &str) -> Result<Outcome, Failure> {
        self.only_file()?;
        let is_written = self.current().unwritten.is_none();
        if is_written && self.config_text() == text && self.is_unchanged().await? {
            return Ok(Outcome::Unchanged(self.plan().generation));
        }
        self.change(Input::Text(text, self.path.clone()), by).await
    }

    /// True if the files are the same as when the current plan was compiled.
    async fn is_unchanged(&self) -> Result<bool, Failure> {
        let Some(known) = self.current().contents.clone() else { return Ok(false) };
        blocking(move || known.reread() == known).await
    }

    /// Compiles a plan, publishes it, and makes it the current one. A text is written to a draft beside the file before the plan is
    /// published, and the draft is renamed afterwards. So a full disk makes the change fail before anything has happened.
    async fn change(&self, input: Input, by: &str) -> Result<Outcome, Failure> {
        let input = Arc::new(input);
        let before = self.current().sources.clone();
        let built = self.compile(input.clone()).await?;
        let source = input.clone();
        let draft = blocking(move || source.draft()).await?.map_err(unwritable)?;
        (self.publish)(built.plan.clone()).await.map_err(Failure::Unpublished)?;
        let kept = match *input {
            Input::Unwritten(..) => self.current().unwritten.clone(),
            Input::Path(_) | Input::Text(..) => None,
        };
        let current = Arc::new(Current::new(built).with_unwritten(kept));
        current.count(&self.telemetry);
        current.announce();
        let generation = current.plan.generation;
        *lock(&self.current) = current;
        // From here on the plan is in service, whatever happens to the file.
        let placed = blocking(move || draft.map_or(Ok(()), Draft::replace)).await;
        self.keep(before, by).await;
        let unwritten = match placed {
            Ok(Ok(())) => return Ok(Outcome::Serving(generation)),
            Ok(Err(error)) => error.to_string(),
            Err(failure) => failure.to_string(),
        };
        if let Input::Text(text, path) = &*input {
            let (text, path) = (text.clone(), path.clone());
            let left = blocking(move || UnsavedText { text, file: Contents::read(&[path]) }).await;
            // Harmless: without it, the next check of the file finds the difference.
            let current = Current::clone(&self.current()).with_unwritten(left.ok());
            *lock(&self.current) = Arc::new(current);
        }
        Ok(Outcome::Unwritten(generation, unwritten))
    }

    async fn compile(&self, input: Arc<Input>) -> Result<Built, Failure> {
        let (current, telemetry) = (self.current(), self.telemetry.clone());
        // Taken before anything is read, so that later changes are noticed.
        let stamps = lock(&self.watched).reread();
        // Harmless: without known contents, every file counts as changed.
        let known = current.contents.clone().unwrap_or_default();
        let work = move || build::attempt(&input, Some(&current.plan), &telemetry, &known);
        let tried = self.compiler.run(work).await?;
        // The files in service are watched beside the refused ones: undoing a mistake is a change too.
        let mut files = tried.files;
        let current = self.current();
        files.extend(current.contents.iter().flat_map(Contents::files).cloned());
        files.sort();
        files.dedup();
        *lock(&self.watched) = stamps.extended(&files);
        tried.result.map_err(Failure::Complaints)
    }

    /// Records the result of a change in the log, the metrics and the status.
    fn note(&self, result: &Result<Outcome, Failure>) {
        let generation = self.plan().generation;
        let failed = match result {
            Ok(Outcome::Serving(_)) => None,
            Ok(Outcome::Unwritten(_, why)) => {
                tracing::error!(
                    generation,
                    file = %self.path.display(),
                    "the new configuration is in service, but could not be written to its file; a restart loses it: {why}"
                );
                None
            }
            Ok(Outcome::Unchanged(_)) => {
                tracing::info!(generation, "the configuration is unchanged");
                None
            }
            // A rollback that had nothing to put into service.
            Err(Failure::NoGeneration(_) | Failure::FilesMissing(_)) => return,
            Err(failure) => {
                self.telemetry.reload().failed();
                tracing::error!(
                    generation,
                    report = %failure,
                    "the new configuration is refused, the old one stays in service"
                );
                Some(Arc::new(FailedAttempt { at: kit::clock::wall(), why: failure.to_string() }))
            }
        };
        *lock(&self.last_failed) = failed;
    }

    fn current(&self) -> Arc<Current> {
        lock(&self.current).clone()
    }
}

impl Current {
    fn new(built: Built) -> Current {
        let Built { plan, warnings, sources, contents, bundles } = built;
        let hash = contents.as_ref().map_or_else(String::new, Contents::digest);
        let since = kit::clock::wall();
        Current { plan, sources, warnings, contents, unwritten: None, hash, since, bundles }
    }

    /// Sets the text that could not be written, and replaces the content known of the file with its actual content.
    fn with_unwritten(mut self, unwritten: Option<UnsavedText>) -> Current {
        if let (Some(contents), Some(unwritten)) = (&mut self.contents, &unwritten) {
            contents.correct(&unwritten.file);
        }
        self.unwritten = unwritten;
        self
    }

    fn count(&self, telemetry: &Telemetry) {
        telemetry.reload().succeeded(self.plan.generation, &self.hash);
        telemetry.reload().certificates(self.plan.certificates());
    }

    fn announce(&self) {
        let generation = self.plan.generation;
        tracing::info!(generation, hash = self.hash, "the configuration is in service");
        if !self.warnings.is_empty() {
            tracing::warn!(generation, report = %self.warnings, "the configuration has warnings");
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Complaints(report) => write!(f, "{report}"),
            Failure::Unwritable(why) => write!(f, "the configuration cannot be written: {why}"),
            Failure::Unpublished(why) => {
                write!(f, "the configuration cannot be brought into service: {why}")
            }
            Failure::Unchecked(why) => write!(f, "the configuration cannot be checked: {why}"),
            Failure::Invalid(why) => write!(f, "the archive is invalid: {why}"),
            Failure::BadName(why) => f.write_str(why),
            Failure::NoBundle(name) => write!(f, "there is no bundle {name}"),
            Failure::TooLarge(why) => f.write_str(why),
            Failure::Stale => f.write_str("another configuration is in service"),
            Failure::NoGeneration(number) => {
                write!(f, "the history has no configuration {number}")
            }
            Failure::FilesMissing(names) => write!(
                f,
                "the configuration names files that are missing and not stored in the history: {}; restore them first",
                names.join(", ")
            ),
            Failure::Internal(why) => write!(f, "a defect of the gateway: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

fn unwritable(error: io::Error) -> Failure {
    Failure::Unwritable(error.to_string())
}

/// Runs a change in a separate task, so that it continues when its caller is dropped: an admin client may disconnect.
#[allow(
    clippy::disallowed_methods,
    reason = "kit::spawn is for tasks that stay on a worker; this code runs on none"
)]
async fn run_detached<T: Send + 'static>(
    change: impl Future<Output = Result<T, Failure>> + Send + 'static,
) -> Result<T, Failure> {
    tokio::spawn(change).await.unwrap_or_else(|error| Err(Failure::Internal(error.to_string())))
}

/// Runs blocking work on another thread, since the runtime also serves `/healthz`.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::Internal(error.to_string()))
}

/// Locks a mutex, ignoring poisoning. The data is consistent even after a panic, since every change is one assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
