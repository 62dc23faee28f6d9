//! Which configuration serves. Owns the way of a change: it is compiled aside, published as one swap, and becomes the current one,
//! or it is refused with every complaint and the last good plan goes on serving.
//!
//! A change comes from the files ([`Control::watch`]), from a signal ([`Control::reload`]) or from the admin API
//! ([`Control::apply_text`]). One is looked at at a time. Nothing here sees a request.
#![forbid(unsafe_code)]

mod build;
mod file;
mod status;
pub mod view;
mod watch;
mod watched;

#[cfg(test)]
mod tests;

pub use config::{Report, json_schema};
pub use plan::Plan;
use plan::{REVOKED_MAX, TOKEN_ID_BYTES_MAX};
pub use status::{Failed, Status};
pub use watch::POLL_EVERY;

use build::{Built, Input};
use config::{Difference, Sources};
use file::Draft;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use telemetry::Telemetry;
use watched::{Contents, Stamps};

/// How long a token is refused where nobody says when it ends: longer than any sensible token is good.
const REVOKED_FOR: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// What complaints call a text that is sent to a gateway with a folder of files.
const SENT: &str = "sent.yaml";

/// Brings a plan into service: opens and closes listeners and hands the plan to every worker. It resolves once new exchanges take
/// the new plan. On an error it leaves the old plan in service and says why.
pub type Publish = Box<dyn Fn(Arc<Plan>) -> Publishing + Send + Sync>;

/// The work of a [`Publish`].
pub type Publishing = Pin<Box<dyn Future<Output = Result<(), String>> + Send>>;

/// The one who knows which configuration serves.
pub struct Control {
    /// The file or folder the configuration was started from.
    path: PathBuf,
    telemetry: Arc<Telemetry>,
    publish: Publish,
    current: Mutex<Arc<Current>>,
    /// The files whose change is a reason to look, as they were when last looked at.
    watched: Mutex<Stamps>,
    last_failed: Mutex<Option<Arc<Failed>>>,
    /// One change at a time; those who come meanwhile wait their turn.
    turn: tokio::sync::Mutex<()>,
    draining: AtomicBool,
}

/// What serves, and what it was made from.
#[derive(Clone)]
struct Current {
    plan: Arc<Plan>,
    sources: Sources,
    warnings: Report,
    /// `None` if a file changed while it was read: then nobody knows which content the plan has, and the next look compiles again.
    contents: Option<Contents>,
    /// The text, where the file does not have it.
    unwritten: Option<Unwritten>,
    hash: String,
    /// Since the Unix epoch.
    since: Duration,
}

/// A text that serves and could not be written, and how its file was left: once that changes, the file has the word again.
#[derive(Clone)]
struct Unwritten {
    text: String,
    file: Contents,
}

/// What came of a change that was not refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The plan of this generation serves now.
    Serving(u64),
    /// The plan of this generation serves now, but its text could not be written to the file, and why: a restart loses it.
    Unwritten(u64, String),
    /// The content is that of the plan that serves, whose generation this is. Nothing was done.
    Unchanged(u64),
}

/// Why a change was refused. The plan that served goes on serving.
#[derive(Debug)]
pub enum Failure {
    /// The configuration is wrong.
    Complaints(Report),
    /// The configuration file cannot be written.
    Unwritable(String),
    /// The plan could not be brought into service, for instance because an address is taken.
    Unpublished(String),
    /// A defect of ours.
    Internal(String),
}

impl Control {
    /// Compiles the first plan, which [`Control::plan`] then gives. It is for the caller to bring it into service and then to
    /// [`Control::announce`] it; `publish` is for those after it.
    pub fn start(path: &Path, publish: Publish) -> Result<Arc<Control>, Report> {
        let (built, files, telemetry) = build::first(path)?;
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
            draining: AtomicBool::new(false),
        }))
    }

    /// Says in the log that the first plan serves, once it does.
    pub fn announce(&self) {
        self.current().announce();
    }

    /// The plan that serves.
    pub fn plan(&self) -> Arc<Plan> {
        self.current().plan.clone()
    }

    /// Refuses a token, by its `jti`, until it would have ended; for a year where nobody says when that is. Gives the end.
    pub fn revoke(&self, id: &str, until: Option<u64>) -> Result<u64, String> {
        if id.is_empty() || id.len() > TOKEN_ID_BYTES_MAX {
            return Err(format!("`jti` has 1 to {TOKEN_ID_BYTES_MAX} bytes."));
        }
        let now = kit::clock::wall();
        let until = until.unwrap_or_else(|| (now + REVOKED_FOR).as_secs());
        let added = self.plan().revoked.add(id, until, now.as_secs());
        added.map_err(|_| format!("{REVOKED_MAX} tokens are revoked already."))?;
        tracing::info!("a token was revoked");
        Ok(until)
    }

    /// Believes a token again; false if it was not refused.
    pub fn take_back(&self, id: &str) -> bool {
        self.plan().revoked.remove(id)
    }

    /// The metrics of the process.
    pub fn telemetry(&self) -> &Arc<Telemetry> {
        &self.telemetry
    }

    /// The configuration that serves as it was written: references to secrets are references. The files of a folder come one after
    /// the other, each below a comment with its name.
    pub fn config_text(&self) -> String {
        let sources = self.current().sources.clone();
        if !self.path.is_dir() {
            return sources.iter().map(|source| source.text.as_str()).collect();
        }
        sources.iter().map(|source| format!("# {}\n{}\n", source.name, source.text)).collect()
    }

    /// What serves, since when, and what was refused last.
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

    /// Why the gateway should get no new clients, if it should not.
    pub fn not_ready(&self) -> Option<&'static str> {
        self.draining.load(Relaxed).then_some("draining")
    }

    /// The gateway is going away.
    pub fn set_draining(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Looks at the files again and brings what they say into service. Once begun it ends, even if the caller goes away: half a swap
    /// would leave the workers with another plan than everybody else believes.
    pub async fn reload(self: &Arc<Self>) -> Result<Outcome, Failure> {
        let control = self.clone();
        to_the_end(async move { control.take_turn(None).await }).await
    }

    /// Brings a text into service, and writes it to the file the program was started from, so that it survives a restart. Once begun
    /// it ends, as [`Control::reload`] does.
    pub async fn apply_text(self: &Arc<Self>, text: String) -> Result<Outcome, Failure> {
        let control = self.clone();
        to_the_end(async move { control.take_turn(Some(text)).await }).await
    }

    /// Everything there is to say about a text, without bringing it into service.
    pub async fn check_text(&self, text: String) -> Result<Report, Failure> {
        let input = Input::Text(text, self.place_of_text());
        blocking(move || build::check(&input)).await
    }

    /// What a text would change, without bringing it into service.
    pub async fn compare_text(&self, text: String) -> Result<Vec<Difference>, Failure> {
        let sources = self.current().sources.clone();
        let input = Input::Text(text, self.place_of_text());
        let found = blocking(move || build::differences(&sources, &input)).await?;
        found.map_err(Failure::Complaints)
    }

    /// Where a text that is only looked at would stand: relative paths in it start where those of the files do.
    fn place_of_text(&self) -> PathBuf {
        if self.path.is_dir() { self.path.join(SENT) } else { self.path.clone() }
    }

    /// A text takes the place of a file.
    fn only_file(&self) -> Result<(), Failure> {
        if !self.path.is_dir() {
            return Ok(());
        }
        let why = format!("{} is a folder: change the files in it", self.path.display());
        Err(Failure::Unwritable(why))
    }

    /// One change, of a text or of the files.
    async fn take_turn(&self, text: Option<String>) -> Result<Outcome, Failure> {
        let _turn = self.turn.lock().await;
        let result = match text {
            Some(text) => self.apply(text).await,
            None => self.look().await,
        };
        self.note(&result);
        result
    }

    async fn look(&self) -> Result<Outcome, Failure> {
        if self.is_unchanged().await? {
            return Ok(Outcome::Unchanged(self.plan().generation));
        }
        let Some(Unwritten { text, file }) = self.current().unwritten.clone() else {
            return self.change(Input::Path(self.path.clone())).await;
        };
        if blocking(move || file.again() != file).await? {
            tracing::warn!(
                "the configuration that could not be written is given up: its file has changed"
            );
            return self.change(Input::Path(self.path.clone())).await;
        }
        let outcome = self.change(Input::Unwritten(text, self.path.clone())).await?;
        tracing::warn!(
            file = %self.path.display(),
            "it is the configuration that could not be written to its file, and a restart loses it"
        );
        Ok(outcome)
    }

    async fn apply(&self, text: String) -> Result<Outcome, Failure> {
        self.only_file()?;
        let is_written = self.current().unwritten.is_none();
        if is_written && self.config_text() == text && self.is_unchanged().await? {
            return Ok(Outcome::Unchanged(self.plan().generation));
        }
        self.change(Input::Text(text, self.path.clone())).await
    }

    /// Whether the files hold what the current plan was made from.
    async fn is_unchanged(&self) -> Result<bool, Failure> {
        let Some(known) = self.current().contents.clone() else { return Ok(false) };
        blocking(move || known.again() == known).await
    }

    /// Compiles aside, publishes, and makes it the current one. A text is written beside the file just before and put in its place
    /// just after, so that a disk that is full or read-only refuses it while nothing has happened yet.
    async fn change(&self, input: Input) -> Result<Outcome, Failure> {
        let input = Arc::new(input);
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
        // From here on it serves, whatever becomes of the file.
        let placed = blocking(move || draft.map_or(Ok(()), Draft::replace)).await;
        let unwritten = match placed {
            Ok(Ok(())) => return Ok(Outcome::Serving(generation)),
            Ok(Err(error)) => error.to_string(),
            Err(failure) => failure.to_string(),
        };
        if let Input::Text(text, path) = &*input {
            let (text, path) = (text.clone(), path.clone());
            let left = blocking(move || Unwritten { text, file: Contents::read(&[path]) }).await;
            let current = Current::clone(&self.current()).with_unwritten(left.ok());
            *lock(&self.current) = Arc::new(current);
        }
        Ok(Outcome::Unwritten(generation, unwritten))
    }

    async fn compile(&self, input: Arc<Input>) -> Result<Built, Failure> {
        let (current, telemetry) = (self.current(), self.telemetry.clone());
        // From before anything is read: what changes from now on is seen as a change.
        let stamps = lock(&self.watched).again();
        let known = current.contents.clone().unwrap_or_default();
        let work = move || build::attempt(&input, Some(&current.plan), &telemetry, &known);
        let tried = blocking(work).await?;
        // What serves is watched beside what was refused: taking a mistake back is a change too.
        let mut files = tried.files;
        let current = self.current();
        files.extend(current.contents.iter().flat_map(Contents::files).cloned());
        files.sort();
        files.dedup();
        *lock(&self.watched) = stamps.extended(&files);
        tried.result.map_err(Failure::Complaints)
    }

    /// Writes down how a change went: in the log, the metrics and the status.
    fn note(&self, result: &Result<Outcome, Failure>) {
        let generation = self.plan().generation;
        let failed = match result {
            Ok(Outcome::Serving(_)) => None,
            Ok(Outcome::Unwritten(_, why)) => {
                tracing::error!(
                    generation,
                    file = %self.path.display(),
                    "the new configuration serves, but it could not be written to its file and a restart loses it: {why}"
                );
                None
            }
            Ok(Outcome::Unchanged(_)) => {
                tracing::info!(generation, "the configuration is unchanged");
                None
            }
            Err(failure) => {
                self.telemetry.reload().failed();
                tracing::error!(
                    generation,
                    "the new configuration is refused, the old one serves:\n{failure}"
                );
                Some(Arc::new(Failed { at: kit::clock::wall(), why: failure.to_string() }))
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
        let Built { plan, warnings, sources, contents } = built;
        let hash = contents.as_ref().map(Contents::name).unwrap_or_default();
        let since = kit::clock::wall();
        Current { plan, sources, warnings, contents, unwritten: None, hash, since }
    }

    /// Its own file does not have what it was made from, but what it was left with.
    fn with_unwritten(mut self, unwritten: Option<Unwritten>) -> Current {
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
        tracing::info!(generation, hash = self.hash, "the configuration serves");
        if !self.warnings.is_empty() {
            tracing::warn!(
                generation,
                "the configuration may not be what was meant:\n{}",
                self.warnings
            );
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
            Failure::Internal(why) => write!(f, "a defect of the gateway: {why}"),
        }
    }
}

impl std::error::Error for Failure {}

fn unwritable(error: io::Error) -> Failure {
    Failure::Unwritable(error.to_string())
}

/// Runs a change in a task of its own, so that it does not end with who asked for it: an admin client may hang up.
#[allow(
    clippy::disallowed_methods,
    reason = "kit::spawn is for tasks that stay on a worker; here is none"
)]
async fn to_the_end(
    change: impl Future<Output = Result<Outcome, Failure>> + Send + 'static,
) -> Result<Outcome, Failure> {
    tokio::spawn(change).await.unwrap_or_else(|error| Err(Failure::Internal(error.to_string())))
}

/// Runs what blocks beside the runtime: it also serves `/healthz`.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Failure::Internal(error.to_string()))
}

/// Every change to what these guard is one assignment, so it is whole whatever happened to a thread that held it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
