//! A process that runs one program: both the parent's side and the engine's side of its socket.
//!
//! The parent sends the program's text after a letter for its language, and the engine replies [`READY`]. Then the parent sends messages,
//! and the engine answers each with its [`status`] and then the value or the failure's text. Each text is preceded by its length in four
//! bytes (little endian).

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitCode, Stdio};

use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::interpreter::{self, CompiledProgram, Language};
use crate::outcome::Outcome;
use crate::{MEMORY_BYTES_MAX, MESSAGE_BYTES_MAX, STACK_BYTES, TEXT_BYTES_MAX};

/// The first command-line argument of a process that is to be an engine. Such a process only runs [`serve`].
pub const ARGUMENT: &str = "script-engine";

/// The byte that an engine sends when it has compiled its program.
const READY: u8 = b'r';

/// The running program's own executable, even if the file has been replaced.
const SELF: &str = "/proc/self/exe";

/// The first byte of an answer, which tells the kind of [`Outcome`].
mod status {
    pub(super) const VALUE: u8 = 0;
    pub(super) const NOTHING: u8 = 1;
    pub(super) const FAILED: u8 = 2;
}

/// A process that runs one program. It is killed when dropped.
pub(crate) struct Engine {
    process: Child,
    socket: UnixStream,
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Harmless: the process may have ended already, and then `kill` fails.
        drop(self.process.kill());
        // Harmless: the process may have ended already, and then `wait` fails.
        drop(self.process.wait());
    }
}

impl Engine {
    /// Starts a process and sends it the program.
    pub(crate) fn start(language: Language, text: &str) -> io::Result<Engine> {
        let (mut socket, theirs) = UnixStream::pair()?;
        let process = Command::new(SELF)
            .arg0("tidegate")
            .arg(ARGUMENT)
            .env_clear()
            // The allocator then reserves address space but commits memory only as needed, so that the limit counts used memory.
            .env("MIMALLOC_ARENA_EAGER_COMMIT", "0")
            .current_dir("/")
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        // The text is smaller than the socket's buffer, so this does not block.
        write_text(&mut socket, &[&[language.letter()], text.as_bytes()].concat())?;
        socket.set_nonblocking(true)?;
        Ok(Engine { process, socket })
    }

    /// Waits until a new engine has compiled its program, which takes longer than running it on most messages.
    pub(crate) async fn ready(&self) -> io::Result<()> {
        let mut socket = tokio::net::UnixStream::from_std(self.socket.try_clone()?)?;
        let mut said = [0];
        socket.read_exact(&mut said).await?;
        if said == [READY] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    /// Returns the CPU time used, in ticks of 10 ms (`man 5 proc`, USER_HZ), or `None` if the system does not report it.
    pub(crate) fn ticks(&self) -> Option<u64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.process.id())).ok()?;
        // Fields 14 and 15. The second field may contain blanks and brackets, so parsing starts after its last bracket.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
        // Harmless: without a value, the run counts as long.
        let mut ticks = || fields.next()?.parse::<u64>().ok();
        Some(ticks()? + ticks()?)
    }

    /// Runs the program on a message. An error means that the engine has ended or is unusable.
    pub(crate) async fn run(&self, message: &[u8]) -> io::Result<Outcome> {
        let mut socket = tokio::net::UnixStream::from_std(self.socket.try_clone()?)?;
        socket.write_all(&length(message)?).await?;
        socket.write_all(message).await?;
        let mut head = [0; 5];
        socket.read_exact(&mut head).await?;
        let [kind, length @ ..] = head;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut bytes = vec![0; length];
        socket.read_exact(&mut bytes).await?;
        match kind {
            status::VALUE => Ok(Ok(Some(bytes))),
            status::NOTHING => Ok(Ok(None)),
            // Harmless: the text is only shown to people.
            status::FAILED => Ok(Err(String::from_utf8_lossy(&bytes).into_owned())),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The main function of an engine: reads a program from standard input, which is a socket, and then messages until the parent is gone.
pub fn serve() -> ExitCode {
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(answer_all);
    match thread.map(|thread| thread.join()) {
        Ok(Ok(Ok(()))) => ExitCode::SUCCESS,
        Ok(Ok(Err(_)) | Err(_)) | Err(_) => ExitCode::FAILURE,
    }
}

fn answer_all() -> io::Result<()> {
    // Otherwise a program in an endless loop would outlive its parent.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let most = Some(MEMORY_BYTES_MAX + STACK_BYTES as u64);
    setrlimit(Resource::Data, Rlimit { current: most, maximum: most })?;
    let none = Some(0);
    setrlimit(Resource::Core, Rlimit { current: none, maximum: none })?;
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let text = read_text(&mut socket, TEXT_BYTES_MAX + 1)?;
    let text = String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData)?;
    let (letter, text) = text.split_at_checked(1).ok_or(io::ErrorKind::InvalidData)?;
    let language = letter.bytes().next().and_then(Language::of_letter);
    let language = language.ok_or(io::ErrorKind::InvalidData)?;
    let compiled = interpreter::compile(language, text).map_err(|_| io::ErrorKind::InvalidData)?;
    socket.write_all(&[READY])?;
    loop {
        let message = match read_text(&mut socket, MESSAGE_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            read => read?,
        };
        answer(&compiled, &message, &mut socket)?;
    }
}

fn answer(compiled: &CompiledProgram, message: &[u8], socket: &mut UnixStream) -> io::Result<()> {
    let (kind, bytes) = match compiled.run(message) {
        Ok(Some(value)) => (status::VALUE, value),
        Ok(None) => (status::NOTHING, Vec::new()),
        // Harmless: the text is only shown to people.
        Err(what) => (status::FAILED, what.chars().take(500).collect::<String>().into_bytes()),
    };
    socket.write_all(&[kind])?;
    write_text(socket, &bytes)
}

fn length(text: &[u8]) -> io::Result<[u8; 4]> {
    let length = u32::try_from(text.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(length.to_le_bytes())
}

fn write_text(socket: &mut UnixStream, text: &[u8]) -> io::Result<()> {
    socket.write_all(&length(text)?)?;
    socket.write_all(text)
}

fn read_text(socket: &mut UnixStream, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    socket.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = vec![0; length];
    socket.read_exact(&mut text)?;
    Ok(text)
}
