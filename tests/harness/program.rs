//! A third-party program as a process.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::PATIENCE;

/// A program that writes lines and may read some. It is killed when dropped.
pub(crate) struct Program {
    process: Child,
    input: ChildStdin,
    pub(crate) lines: Receiver<String>,
}

impl Program {
    /// Starts a program that `scripts/setup.sh tests` installs.
    #[track_caller]
    pub(crate) fn start(command: &mut Command) -> Program {
        let spawned = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut process =
            spawned.unwrap_or_else(|e| panic!("{command:?}: {e}; run scripts/setup.sh tests"));
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let (said, lines) = channel();
        thread::spawn(move || {
            output.lines().map_while(Result::ok).try_for_each(|line| said.send(line))
        });
        Program { process, input, lines }
    }

    /// Returns the next line that it writes.
    #[track_caller]
    pub(crate) fn line(&self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("a line")
    }

    #[track_caller]
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
