//! `tidegate backend` as a process.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use super::ClosedPort;

/// A running backend. It is killed when dropped.
pub(crate) struct Backend {
    pub(crate) process: Child,
    /// The URL that it prints.
    pub(crate) url: String,
    /// Its port, reserved after it was killed.
    closed: Option<ClosedPort>,
}

impl Backend {
    #[track_caller]
    pub(crate) fn start(kind: &str, arguments: &[&str]) -> Backend {
        Backend::start_with(kind, arguments, &[])
    }

    /// Starts a backend with these variables in its environment.
    #[track_caller]
    pub(crate) fn start_with(
        kind: &str,
        arguments: &[&str],
        variables: &[(&str, &str)],
    ) -> Backend {
        let mut process = Command::new(env!("CARGO_BIN_EXE_tidegate"))
            .args(["backend", kind, "--port", "0"])
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let url =
            line.trim().strip_prefix(&format!("{kind}: ")).expect("it says where it is").to_owned();
        Backend { process, url, closed: None }
    }

    /// Returns the host and the port.
    pub(crate) fn authority(&self) -> &str {
        self.url.rsplit('/').next().unwrap()
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.authority().parse().unwrap()
    }

    /// Kills it during the test. Its address refuses connections for the rest of the test.
    pub(crate) fn kill(&mut self) {
        self.process.kill().expect("a running process");
        self.process.wait().expect("a child of ours");
        self.closed = Some(ClosedPort::at(self.address()));
    }
}

impl Drop for Backend {
    fn drop(&mut self) {
        // The process may already have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
