//! The only Java virtual machine of the process, and the stylesheets that it has compiled.

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use kit::clock;
use tokio::sync::oneshot;

use crate::feed;
use crate::find::{self, INSTALL_JARS, INSTALL_JAVA, Jars};
use crate::on_worker;
use crate::pool::{self, EngineStats, JavaStylesheet, Job, PoolState, Work};
use crate::transformation::{Message, RunError};
use crate::vm::Vm;

/// Minimum heap size; less leaves no room for Saxon itself.
const HEAP_BYTES_MIN: u64 = 16 << 20;

/// Timeout for starting the JVM, long enough for a busy host without a class data archive.
const START_MAX: Duration = Duration::from_secs(60);

/// Timeout for compiling one stylesheet. The largest known stylesheets take a few seconds in a cold JVM.
const COMPILE_MAX: Duration = Duration::from_secs(60);

/// The configuration of the JVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSettings {
    /// The Java installation. Searched for in the usual places if `None`.
    pub java_home: Option<PathBuf>,
    /// The folder with the jars. Searched for in the usual places if `None`.
    pub home: Option<PathBuf>,
    /// Maximum size of the Java heap.
    pub heap_bytes_max: u64,
    /// Maximum number of messages transformed at the same time.
    pub threads: usize,
    /// Maximum number of messages that wait. Further ones are refused.
    pub pending_max: usize,
}

/// The JVM. There is only one, and it ends with the process.
pub struct Engine {
    settings: EngineSettings,
    shared: Arc<PoolState>,
}

/// A compiled stylesheet.
pub struct Stylesheet {
    shared: Arc<PoolState>,
    sheet: Arc<JavaStylesheet>,
}

/// The reason why there is no JVM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    pub what: String,
    /// Advice for the operator.
    pub instead: &'static str,
}

/// An error in a stylesheet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// The name of the module as given; empty if unknown.
    pub module: String,
    /// Counted from 1; `None` if unknown.
    pub line: Option<u32>,
    pub column: Option<u32>,
    pub what: String,
}

impl Engine {
    /// Returns the JVM, and starts it if necessary. A JVM that is already running keeps its settings, even if `settings` differ; see
    /// [`Engine::settings`].
    pub fn get(settings: &EngineSettings) -> Result<Arc<Engine>, Unavailable> {
        static ENGINE: Mutex<Option<Arc<Engine>>> = Mutex::new(None);
        let mut engine = ENGINE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(engine) = &*engine {
            return Ok(engine.clone());
        }
        let started = Arc::new(Engine::start(settings)?);
        *engine = Some(started.clone());
        Ok(started)
    }

    fn start(settings: &EngineSettings) -> Result<Engine, Unavailable> {
        let missing = |instead| move |what| Unavailable { what, instead };
        heap_fits(settings.heap_bytes_max)?;
        let libjvm = find::libjvm(settings.java_home.as_deref()).map_err(missing(INSTALL_JAVA))?;
        let jars = find::jars(settings.home.as_deref()).map_err(missing(INSTALL_JARS))?;
        let options = options(settings, &jars);
        let shared = Arc::new(PoolState::new(settings.pending_max, COMPILE_MAX));
        let (started, ready) = mpsc::sync_channel(1);
        let keeper = {
            let (shared, libjvm, threads) = (shared.clone(), libjvm.clone(), settings.threads);
            let gave_up = started.clone();
            let gives_up = move || drop(gave_up.send(Err("it gave up".to_owned())));
            move || match Vm::start(&libjvm, &options, gives_up) {
                Ok(attached) => {
                    // Harmless: the caller may have stopped waiting, and reported that Java does not start.
                    drop(started.send(Ok(())));
                    pool::keep(&attached, &shared, threads);
                }
                Err(error) => {
                    // Harmless: the caller may have stopped waiting.
                    drop(started.send(Err(error)));
                }
            }
        };
        let spawned = thread::Builder::new().name("saxon".to_owned()).spawn(keeper);
        let ready = spawned
            .map_err(|error| error.to_string())
            .and_then(|_| ready.recv_timeout(START_MAX).map_err(|_| "it does not start".to_owned()))
            // Harmless: both errors are texts, of which one is reported.
            .flatten();
        ready.map_err(|error| Unavailable {
            what: format!("{}: {error}", libjvm.display()),
            instead: "look at what Java says on the error output, and at `saxon.heap_bytes_max`; it is tried again when the gateway is started again",
        })?;
        Ok(Engine { settings: settings.clone(), shared })
    }

    /// Returns the settings with which the JVM was started.
    pub fn settings(&self) -> &EngineSettings {
        &self.settings
    }

    pub fn stats(&self) -> EngineStats {
        self.shared.stats()
    }

    /// Compiles a stylesheet. `modules` are names and texts: the main module first, then all modules that it refers to. Parameters are
    /// names and values. Blocks until the stylesheet is compiled.
    pub fn compile(
        &self,
        modules: &[(String, Vec<u8>)],
        parameters: &[(String, String)],
    ) -> Result<Stylesheet, Vec<Complaint>> {
        let parameters: Vec<_> = parameters
            .iter()
            .map(|(name, value)| (name.clone(), value.clone().into_bytes()))
            .collect();
        let (done, made) = mpsc::sync_channel(1);
        let failed = |what: &str| vec![Complaint::nowhere(what)];
        if !self.shared.push(Work::Compile(feed::parts([modules, &parameters]), done)) {
            return Err(failed("too many messages wait to be transformed; try again"));
        }
        match made.recv_timeout(COMPILE_MAX.saturating_mul(2)) {
            Ok(Ok(sheet)) => Ok(Stylesheet { shared: self.shared.clone(), sheet: Arc::new(sheet) }),
            Ok(Err(lines)) => Err(lines.lines().map(Complaint::read).collect()),
            Err(_) => Err(failed("it takes too long to compile")),
        }
    }
}

/// Refuses a heap size for which the JVM would end the process.
fn heap_fits(bytes: u64) -> Result<(), Unavailable> {
    let wrong = |what, instead| Err(Unavailable { what, instead });
    if bytes < HEAP_BYTES_MIN {
        let what = format!("a heap of {bytes} bytes is too small for a JVM");
        return wrong(what, "write `saxon.heap_bytes_max: 16MiB` or more");
    }
    match find::memory() {
        Some(memory) if bytes > memory => {
            let what = format!("a heap of {bytes} bytes is more than the {memory} bytes there are");
            wrong(what, "write less as `saxon.heap_bytes_max`")
        }
        Some(_) | None => Ok(()),
    }
}

/// Returns the command-line options of the JVM.
fn options(settings: &EngineSettings, jars: &Jars) -> Vec<String> {
    let mut options = vec![
        format!("-Djava.class.path={}", jars.class_path),
        format!("-Xmx{}", settings.heap_bytes_max),
        // The young generation takes a quarter of the heap, so that it is collected rarely. With Java's default of 10 MiB, collections took
        // 3 % of a message's time.
        format!("-Xmn{}", settings.heap_bytes_max / 4),
        // The collector with the smallest footprint and no threads of its own. Objects of a message live for microseconds, so a collection
        // copies almost nothing.
        "-XX:+UseSerialGC".to_owned(),
        // The gateway handles signals itself.
        "-Xrs".to_owned(),
        // Java must write nothing unrequested: no performance counter files and no attach socket. Crash reports go to stderr.
        "-XX:-UsePerfData".to_owned(),
        "-XX:+DisableAttachMechanism".to_owned(),
        "-XX:+ErrorFileToStderr".to_owned(),
        "-Xlog:disable".to_owned(),
        // Saxon's stacks take a lock at each access, which costs a seventh of a message's time although no other thread ever uses them.
        // Biased locking makes this cheap. Java has it up to version 17, with a deprecation warning; later versions ignore the option.
        "-XX:+UnlockDiagnosticVMOptions".to_owned(),
        "-XX:-PrintWarnings".to_owned(),
        "-XX:+IgnoreUnrecognizedVMOptions".to_owned(),
        "-XX:+UseBiasedLocking".to_owned(),
        "-XX:BiasedLockingStartupDelay=0".to_owned(),
        // Code cache and metaspace, in addition to the heap. Saxon uses some 20 MiB of each.
        "-XX:ReservedCodeCacheSize=64m".to_owned(),
        "-XX:MaxMetaspaceSize=128m".to_owned(),
        "-Djavax.xml.accessExternalDTD=".to_owned(),
        "-Djavax.xml.accessExternalSchema=".to_owned(),
        "-Djavax.xml.accessExternalStylesheet=".to_owned(),
    ];
    if let Some(archive) = &jars.archive {
        options.push(format!("-XX:SharedArchiveFile={}", archive.display()));
    }
    options
}

impl Stylesheet {
    /// Transforms a message. The result has at most `output_bytes_max` bytes, and a run that is not finished within `timeout` is stopped. A
    /// small message for a stylesheet known to be fast is transformed by the calling thread at the first poll. Others wait for a thread of
    /// the pool. If the future is dropped before that, the run does not start.
    pub async fn transform(
        &self,
        message: Message,
        output_bytes_max: usize,
        timeout: Duration,
    ) -> Result<Vec<u8>, RunError> {
        let deadline = clock::now() + timeout;
        if let Some(ended) = on_worker::run(&self.shared, &self.sheet, &message, output_bytes_max) {
            return ended;
        }
        let (done, result) = oneshot::channel();
        let sheet = self.sheet.clone();
        let job = Job { sheet, message, output_bytes_max, deadline, done };
        if self.shared.push(Work::Transform(job)) {
            // A thread that ends without an answer was stopped.
            result.await.unwrap_or(Err(RunError::Late))
        } else {
            Err(RunError::Busy)
        }
    }
}

impl Complaint {
    fn nowhere(what: &str) -> Complaint {
        Complaint { module: String::new(), line: None, column: None, what: what.to_owned() }
    }

    /// Parses a line of `Slot.compile`: module, line, column and text, separated by tabs.
    fn read(line: &str) -> Complaint {
        let mut parts = line.splitn(4, '\t');
        let module = parts.next().unwrap_or("").to_owned();
        // Harmless: an error without a position is shown without one.
        let mut number = || parts.next()?.parse::<u32>().ok().filter(|number| *number > 0);
        let (line, column) = (number(), number());
        let what = parts.next().unwrap_or("").to_owned();
        Complaint { module, line, column, what }
    }
}

impl fmt::Debug for Stylesheet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stylesheet")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_are_parsed_from_lines() {
        let read = Complaint::read("a.xsl\t3\t-1\tno such function: f()");
        assert_eq!(
            (read.module.as_str(), read.line, read.column, read.what.as_str()),
            ("a.xsl", Some(3), None, "no such function: f()")
        );
        assert_eq!(Complaint::read("").module, "");
    }
}
