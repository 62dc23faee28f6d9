//! Another program of the gateway takes this one's place, without an interruption.
//!
//! The old process starts the program's file anew and hands it the listening sockets. The new one serves on them as soon as its
//! configuration is in service, and says so. From then on the old one accepts nothing and lets what is open end. A new one that fails,
//! hangs, or ends before, costs nothing: the old one goes on.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read as _, Write as _};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use kit::clock::{self, Instant};
use listen::handover::{self, HandedSocket};

/// The variable that names the socket of the process before.
const VARIABLE: &str = "TIDEGATE_UPGRADE";

/// What the new process sends once it serves.
const SERVING: u8 = b'S';

/// The time between two looks at the new process.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// The time that the new process waits for the sockets.
const SOCKETS_MAX: Duration = Duration::from_secs(10);

/// The way to the process before, until this one serves.
static BEFORE: Mutex<Option<UnixStream>> = Mutex::new(None);

/// The process ends, and takes along what it has started.
static GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// The program as it was started.
static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();

/// Takes over the sockets of the process before, if there is one.
pub(crate) fn inherit() -> anyhow::Result<()> {
    PROGRAM.get_or_init(|| {
        let name = std::env::args_os().next()?;
        program(&name, std::env::var_os("PATH").as_deref())
    });
    let Some(name) = std::env::var_os(VARIABLE) else { return Ok(()) };
    let mut stream = connect(&name).context("the process before cannot be reached")?;
    handover::receive(&mut stream).context("the process before did not hand over its sockets")?;
    *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(stream);
    Ok(())
}

fn connect(name: &OsStr) -> io::Result<UnixStream> {
    let stream =
        UnixStream::connect_addr(&SocketAddr::from_abstract_name(name.as_encoded_bytes())?)?;
    stream.set_read_timeout(Some(SOCKETS_MAX))?;
    Ok(stream)
}

/// Tells the process before that this one serves.
pub(crate) fn serving() {
    handover::forget_rest();
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(mut before) = before else { return };
    let pid = std::process::id();
    match before.write_all(&[SERVING]) {
        Ok(()) => tracing::info!(pid, "this process serves in place of the one before"),
        Err(error) => tracing::warn!(pid, "the process before has gone: {error}"),
    }
}

/// `tidegate upgrade PID`: asks a gateway to start its program anew.
pub(crate) fn ask(pid: i32) -> anyhow::Result<ExitCode> {
    let process = rustix::process::Pid::from_raw(pid).context("the id of a process is positive")?;
    let asked = rustix::process::kill_process(process, rustix::process::Signal::USR2);
    asked.with_context(|| format!("process {pid} cannot be asked"))?;
    Ok(ExitCode::SUCCESS)
}

/// Gives up an upgrade that is under way: this process is to end.
pub(crate) fn give_up() {
    GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Starts the program's file anew, hands it the sockets, and waits until it serves. Returns its id. This blocks.
pub(crate) fn start_next(sockets: &[HandedSocket], patience: Duration) -> Result<u32, String> {
    let program =
        PROGRAM.get().and_then(Option::as_ref).ok_or("the program's file is not known")?;
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
    match converse(&listener, &mut child, sockets, until) {
        Ok(()) => Ok(child.id()),
        Err(why) => {
            // Harmless: it may have ended already.
            let _killed = child.kill();
            // Harmless: it is only waited for, so that nothing is left of it.
            let _ended = child.wait();
            Err(why)
        }
    }
}

fn converse(
    listener: &UnixListener,
    child: &mut Child,
    sockets: &[HandedSocket],
    until: Instant,
) -> Result<(), String> {
    let mut stream = loop {
        match listener.accept() {
            // Somebody else of this machine who guessed the name gets nothing.
            Ok((stream, _)) if is_from(&stream, child) => break stream,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string()),
        }
        look(child, until)?;
    };
    stream.set_nonblocking(false).map_err(|e| e.to_string())?;
    stream.set_write_timeout(Some(SOCKETS_MAX)).map_err(|e| e.to_string())?;
    handover::send(&mut stream, sockets).map_err(|e| format!("the sockets were not taken: {e}"))?;
    stream.set_read_timeout(Some(LOOK_EVERY)).map_err(|e| e.to_string())?;
    loop {
        let mut told = [0];
        match stream.read(&mut told) {
            Ok(1) if told == [SERVING] => return Ok(()),
            // It has closed its end: its exit says more.
            Ok(_) => look(child, until)?,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                look(child, until)?;
            }
            Err(error) => return Err(format!("it has gone: {error}")),
        }
    }
}

/// True for a stream of this child.
fn is_from(stream: &UnixStream, child: &Child) -> bool {
    let credentials = rustix::net::sockopt::socket_peercred(stream);
    credentials.is_ok_and(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()) == Ok(child.id()))
}

/// Waits a moment; an error if the child has ended, or has taken too long.
fn look(child: &mut Child, until: Instant) -> Result<(), String> {
    match child.try_wait() {
        Ok(Some(status)) => return Err(format!("it has ended: {status}")),
        Ok(None) => {}
        Err(error) => return Err(error.to_string()),
    }
    if GIVEN_UP.load(Ordering::Relaxed) {
        return Err("this process is to end".to_owned());
    }
    if clock::now() >= until {
        return Err("it did not serve in time".to_owned());
    }
    sleep(LOOK_EVERY);
    Ok(())
}

/// The file of a program by the name that it was started with. A name without a slash is found by `PATH`, as a shell does. Links are
/// not followed: another version is put in the place of the link.
fn program(name: &OsString, path: Option<&OsStr>) -> Option<PathBuf> {
    let name = Path::new(name);
    if name.components().count() > 1 || name.is_absolute() {
        // Harmless: without a folder the program is not found, and an upgrade says so.
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
