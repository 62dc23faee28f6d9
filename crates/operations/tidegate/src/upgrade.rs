//! Replaces the gateway's process without interrupting service.
//!
//! The old process starts the program again, and passes the listening sockets to the new process. Once the new process has compiled its
//! configuration, it requests the work: the schedules, and the embedded store if both use the same one. It serves as soon as its
//! configuration is in service, and reports that. From then on, the old process accepts nothing new, and completes open exchanges. If the
//! new process fails or hangs before, nothing is lost: the old one takes its work back and continues.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use control::{LazyStore, StoreLocation};
use kit::clock::{self, Instant};
use listen::handover::{self, HandedSocket};

/// The environment variable with the socket of the previous process.
const VARIABLE: &str = "TIDEGATE_UPGRADE";

/// The byte that the new process sends once it serves.
const SERVING: u8 = b'S';

/// The byte that the new process sends earlier, with the folder of its store, when it is ready to take over the work.
const WANTS_WORK: u8 = b'W';

/// The answer to [`WANTS_WORK`] if the new process gets the schedules, and this process does not use the store in its folder.
const HAS_SCHEDULES: u8 = b'N';
/// The answer to [`WANTS_WORK`] if the new process gets the schedules and the store.
const HAS_STORE: u8 = b'Y';
/// The answer to [`WANTS_WORK`] if the new process gets neither. The reason follows.
const KEEPS_WORK: u8 = b'E';

/// The longest path of a store's folder, and the longest reason.
const TEXT_BYTES_MAX: usize = 16 << 10;

/// How long runs of schedules may take to end before the handover. Longer ones continue in the old process.
const RUNS_MAX: Duration = Duration::from_secs(10);

/// How much longer than twice [`RUNS_MAX`] the new process waits for the work.
const WORK_SLACK: Duration = Duration::from_secs(20);

/// How often the old process checks the new one.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How long the new process waits for the sockets.
const SOCKETS_MAX: Duration = Duration::from_secs(10);

/// The connection to the previous process, until this one serves.
static BEFORE: Mutex<Option<UnixStream>> = Mutex::new(None);

/// True if the process is ending and has to end the process that it has started.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The path of the program.
static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Takes over the sockets of the previous process if there is one, or those of a service manager.
pub(crate) fn inherit() -> anyhow::Result<()> {
    PROGRAM.get_or_init(|| {
        let name = std::env::args_os().next()?;
        program(&name, std::env::var_os("PATH").as_deref())
    });
    let Some(name) = std::env::var_os(VARIABLE) else {
        let passed = kit::activation::take_passed();
        handover::keep_passed(passed.context("a socket of the service manager cannot be used")?);
        return Ok(());
    };
    let mut stream = connect(&name).context("the previous process cannot be reached")?;
    handover::receive(&mut stream).context("the previous process did not hand over its sockets")?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    Ok(())
}

fn connect(name: &OsStr) -> io::Result<UnixStream> {
    let stream =
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name.as_encoded_bytes())?)?;
    stream.set_read_timeout(Some(SOCKETS_MAX))?;
    Ok(stream)
}

/// Takes over the work of the previous process, if there is one: the schedules, and the store in a folder. Returns true if that process
/// had the store, and may still use it. This blocks.
pub(crate) fn take_work(folder: Option<&Path>) -> anyhow::Result<bool> {
    let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(before) = before.as_mut() else { return Ok(false) };
    let path = folder.map_or(&[][..], |folder| folder.as_os_str().as_encoded_bytes());
    before.set_read_timeout(Some(RUNS_MAX.saturating_mul(2) + WORK_SLACK))?;
    before.write_all(&[WANTS_WORK])?;
    write_text(before, path)?;
    let mut told = [0];
    before.read_exact(&mut told).context("the previous process did not hand over its work")?;
    if told == [KEEPS_WORK] {
        // Harmless: it is only shown.
        let why = String::from_utf8_lossy(&read_text(|into| before.read_exact(into))?).into_owned();
        anyhow::bail!("the previous process keeps its store: {why}");
    }
    let mut since = [0; 8];
    before.read_exact(&mut since)?;
    handover::set_schedules_since(Duration::from_millis(u64::from_be_bytes(since)));
    Ok(told == [HAS_STORE])
}

fn write_text(stream: &mut UnixStream, text: &[u8]) -> io::Result<()> {
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
    stream.write_all(&length.to_be_bytes())?;
    stream.write_all(text)
}

fn read_text(mut read: impl FnMut(&mut [u8]) -> io::Result<()>) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    read(&mut length)?;
    // Harmless: the next line refuses a length that is too large.
    let length = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > TEXT_BYTES_MAX {
        return Err(io::Error::other("a text is too long"));
    }
    let mut text = vec![0; length];
    read(&mut text)?;
    Ok(text)
}

/// Reports to the previous process that this one serves.
pub(crate) fn serving() {
    handover::forget_rest();
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut before) = before else { return };
    let pid = std::process::id();
    match before.write_all(&[SERVING]) {
        Ok(()) => tracing::info!(pid, "this process has replaced the previous one"),
        Err(error) => tracing::warn!(pid, "the previous process has ended: {error}"),
    }
}

/// `tidegate upgrade PID`: asks a gateway to start a new process of its program.
pub(crate) fn ask(pid: i32) -> anyhow::Result<ExitCode> {
    let process =
        rustix::process::Pid::from_raw(pid).context("the id of a process must be positive")?;
    let asked = rustix::process::kill_process(process, rustix::process::Signal::USR2);
    asked.with_context(|| format!("process {pid} cannot be signalled"))?;
    Ok(ExitCode::SUCCESS)
}

/// Aborts an upgrade in progress, since this process is ending.
pub(crate) fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// The work that a process hands over, besides its sockets.
pub(crate) struct Work {
    store: Option<Arc<LazyStore>>,
    /// The work that was handed over, which has to be taken back if the next process fails.
    given: Option<GivenWork>,
}

struct GivenWork {
    has_store: bool,
    /// The time since which no run of a schedule has started, since the Unix epoch.
    since: Duration,
}

impl Work {
    pub(crate) fn of(store: Option<Arc<LazyStore>>) -> Work {
        Work { store, given: None }
    }

    /// Hands over the work: the schedules, and the store if it is in that folder. This blocks.
    fn give(&mut self, folder: &Path, until: Instant) -> Result<&GivenWork, String> {
        let since = clock::wall();
        handover::give_schedules();
        let is_over = || GIVEN_UP.load(Ordering::Relaxed) || clock::now() >= until;
        // Half of the remaining time is for the next process.
        let patience = until.saturating_duration_since(clock::now()) / 2;
        let runs_until = clock::now() + patience.min(RUNS_MAX);
        while handover::has_schedule_runs() && clock::now() < runs_until && !is_over() {
            sleep(LOOK_EVERY);
        }
        let given = self.store.as_ref().filter(|store| is_in(store, folder));
        let left = runs_until.saturating_duration_since(clock::now());
        if let Some(Err(error)) = given.map(|store| store.hand_over(left, &is_over)) {
            handover::keep_schedules();
            return Err(error.to_string());
        }
        let has_store = given.is_some();
        tracing::info!(
            has_store,
            "the next process has the schedules, and the store if it is the same"
        );
        Ok(self.given.insert(GivenWork { has_store, since }))
    }

    /// Takes the work back, since the process that had it has ended. This blocks.
    fn take_back(&mut self) {
        let Some(given) = self.given.take() else { return };
        if let Some(store) = self.store.as_ref().filter(|_| given.has_store) {
            let recovered = store.take_back(&|| GIVEN_UP.load(Ordering::Relaxed));
            if let Some(found) = recovered {
                let (path, records) = (store.place().to_string(), found.records);
                tracing::info!(path, records, "this process has its store again");
            }
        }
        handover::keep_schedules();
    }
}

/// True for the store in a folder.
fn is_in(store: &LazyStore, folder: &Path) -> bool {
    let StoreLocation::Folder(own) = store.place() else { return false };
    // Harmless: a folder that does not exist yet is compared by name.
    let real = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    real(own) == real(folder)
}

/// Starts the program again, hands over the sockets and the work, and waits until it serves. Returns its id. This blocks.
pub(crate) fn start_next(
    sockets: &[HandedSocket],
    mut work: Work,
    patience: Duration,
) -> Result<u32, String> {
    let program = PROGRAM.get().and_then(Option::as_ref).ok_or("the program's file is unknown")?;
    let name = format!("tidegate-{}-{:016x}", std::process::id(), fastrand::u64(..));
    let address = SocketAddr::from_abstract_name(&name).map_err(|e| e.to_string())?;
    let listener = UnixListener::bind_addr(&address).map_err(|e| e.to_string())?;
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    let mut child = Command::new(program)
        .args(std::env::args_os().skip(1))
        .env(VARIABLE, &name)
        .spawn()
        .map_err(|e| format!("{} cannot be started: {e}", program.display()))?;
    let until = clock::now() + patience;
    match converse(&listener, &mut child, sockets, &mut work, until) {
        Ok(()) => Ok(child.id()),
        Err(why) => {
            // Harmless: it may have ended already.
            let _ = child.kill();
            // Harmless: this only removes the ended process from the process table.
            let _ = child.wait();
            work.take_back();
            Err(why)
        }
    }
}

fn converse(
    listener: &UnixListener,
    child: &mut Child,
    sockets: &[HandedSocket],
    work: &mut Work,
    until: Instant,
) -> Result<(), String> {
    let mut stream = loop {
        match listener.accept() {
            // Another local user who guessed the name is refused.
            Ok((stream, _)) if is_from(&stream, child) => break stream,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string()),
        }
        look(child, until)?;
    };
    stream.set_nonblocking(false).map_err(|e| e.to_string())?;
    stream.set_write_timeout(Some(SOCKETS_MAX)).map_err(|e| e.to_string())?;
    handover::send(&mut stream, sockets)
        .map_err(|e| format!("the sockets were not accepted: {e}"))?;
    stream.set_read_timeout(Some(LOOK_EVERY)).map_err(|e| e.to_string())?;
    loop {
        let mut told = [0];
        hear(&mut stream, &mut told, child, until)?;
        match told {
            [SERVING] => return Ok(()),
            [WANTS_WORK] => {
                let heard = |into: &mut [u8]| {
                    hear(&mut stream, into, child, until).map_err(io::Error::other)
                };
                let folder = read_text(heard).map_err(|error| error.to_string())?;
                // Harmless: it is a path of this system, written by the same program.
                let folder = PathBuf::from(OsStr::from_bytes(&folder));
                let given = work.give(&folder, until);
                if answer(&mut stream, given).is_err() {
                    // The new process no longer reads. Its exit status says more than the error.
                    loop {
                        look(child, until)?;
                    }
                }
            }
            [other] => {
                return Err(format!("it sent {other:#04x}, which this program does not know"));
            }
        }
    }
}

/// Answers the new process.
fn answer(stream: &mut UnixStream, given: Result<&GivenWork, String>) -> io::Result<()> {
    match given {
        Ok(GivenWork { has_store, since }) => {
            stream.write_all(&[if *has_store { HAS_STORE } else { HAS_SCHEDULES }])?;
            stream.write_all(&kit::clock::millis(*since).to_be_bytes())
        }
        Err(why) => {
            stream.write_all(&[KEEPS_WORK])?;
            write_text(stream, why.as_bytes())
        }
    }
}

/// Fills the buffer, while the new process runs and has time left.
fn hear(
    stream: &mut UnixStream,
    mut into: &mut [u8],
    child: &mut Child,
    until: Instant,
) -> Result<(), String> {
    while !into.is_empty() {
        match stream.read(into) {
            // The new process has closed its end. Its exit status says why.
            Ok(0) => look(child, until)?,
            // Harmless: a read never exceeds the buffer.
            Ok(read) => into = std::mem::take(&mut into).get_mut(read..).unwrap_or_default(),
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock
                        | io::ErrorKind::Interrupted
                        | io::ErrorKind::ConnectionReset
                ) =>
            {
                look(child, until)?;
            }
            Err(error) => return Err(format!("it has ended: {error}")),
        }
    }
    Ok(())
}

/// True for a connection from this child.
fn is_from(stream: &UnixStream, child: &Child) -> bool {
    let credentials = rustix::net::sockopt::socket_peercred(stream);
    credentials.is_ok_and(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()) == Ok(child.id()))
}

/// Waits for a moment. Fails if the child has ended, or has taken too long.
fn look(child: &mut Child, until: Instant) -> Result<(), String> {
    match child.try_wait() {
        Ok(Some(status)) => return Err(format!("it has ended: {status}")),
        Ok(None) => {}
        Err(error) => return Err(error.to_string()),
    }
    if GIVEN_UP.load(Ordering::Relaxed) {
        return Err("this process is ending".to_owned());
    }
    if clock::now() >= until {
        return Err("it did not begin to serve in time".to_owned());
    }
    sleep(LOOK_EVERY);
    Ok(())
}

/// The file of a program, given the name with which it was started. A name without a slash is looked up in `PATH`, as in a shell.
/// Links are not resolved, so that changing a link selects another version.
fn program(name: &OsString, path: Option<&OsStr>) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() > 1 || name.is_absolute() {
        // Harmless: without a working directory the program is not found, and an upgrade reports that.
        return std::env::current_dir().ok().map(|folder| folder.join(name));
    }
    std::env::split_paths(path?).map(|folder| folder.join(name)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_as_a_shell_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate");
        std::fs::write(&file, "").unwrap();
        let path = std::env::join_paths([Path::new("/nonexistent"), folder.path()]).unwrap();
        assert_eq!(program(&"tidegate".into(), Some(&path)), Some(file.clone()));
        assert_eq!(program(&"other".into(), Some(&path)), None);
        assert_eq!(program(&file.clone().into(), None), Some(file));
        let here = std::env::current_dir().unwrap();
        assert_eq!(program(&"./tidegate".into(), None), Some(here.join("./tidegate")));
    }
}
