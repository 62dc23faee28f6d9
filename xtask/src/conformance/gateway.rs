//! The gateway under test: built, given a configuration, started, and stopped when dropped.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::Failure;
use crate::conformance::workspace;

/// Interval between checks whether the gateway accepts connections.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Maximum number of checks, which take 10 seconds in all.
const CHECKS_MAX: u32 = 200;

/// A running gateway.
pub(crate) struct Gateway {
    pub(crate) address: SocketAddr,
    child: Child,
    /// Its configuration and its output; removed when dropped.
    folder: TempDir,
}

impl Gateway {
    /// Starts a gateway that routes every path of every host to `upstream`, and waits until it accepts connections.
    pub(crate) fn start(program: &Path, upstream: SocketAddr) -> Result<Self, Failure> {
        let broken = |error: io::Error| Failure::Broken(format!("{}: {error}", program.display()));
        let folder = TempDir::new().map_err(broken)?;
        let (address, admin) = free_addresses().map_err(broken)?;
        let configuration = folder.path().join("tidegate.yaml");
        fs::write(&configuration, configure(address, admin, upstream)).map_err(broken)?;
        let said = fs::File::create(folder.path().join("said")).map_err(broken)?;
        let child = Command::new(program)
            .arg("run")
            .arg(&configuration)
            .stdin(Stdio::null())
            .stdout(said.try_clone().map_err(broken)?)
            .stderr(said)
            .spawn()
            .map_err(broken)?;
        let mut gateway = Self { address, child, folder };
        gateway.wait()?;
        Ok(gateway)
    }

    fn wait(&mut self) -> Result<(), Failure> {
        for _ in 0..CHECKS_MAX {
            if TcpStream::connect(self.address).is_ok() {
                return Ok(());
            }
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(self.complain(&format!("ended at once, {status}")));
            }
            thread::sleep(CHECK_INTERVAL);
        }
        Err(self.complain("did not listen within 10 s"))
    }

    fn complain(&self, what: &str) -> Failure {
        let said = fs::read_to_string(self.folder.path().join("said")).unwrap_or_default();
        Failure::Broken(format!("the gateway {what}\n{said}"))
    }
}

impl Drop for Gateway {
    /// Stops the process. If it has ended already, the cases that failed have shown it.
    fn drop(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).ok();
    }
}

/// Builds the gateway as cargo does for a developer, and returns the program's path.
pub(crate) fn build() -> Result<PathBuf, Failure> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["build", "--package", "tidegate", "--message-format", "json-render-diagnostics"])
        .current_dir(workspace())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| Failure::Broken(format!("cargo: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let binary = messages
        .filter(|message: &serde_json::Value| {
            message.pointer("/target/name").is_some_and(|n| n == "tidegate")
        })
        .filter_map(|message| Some(PathBuf::from(message.get("executable")?.as_str()?)))
        .next_back();
    match binary {
        Some(binary) if output.status.success() => Ok(binary),
        _ => {
            Err(Failure::Broken("cargo build --package tidegate did not give a binary".to_owned()))
        }
    }
}

/// Returns two free addresses. Both sockets are open until both addresses are known, so the addresses differ. If another program takes one
/// before the gateway does, the gateway ends at once, which is reported.
fn free_addresses() -> io::Result<(SocketAddr, SocketAddr)> {
    let (one, two) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((one.local_addr()?, two.local_addr()?))
}

fn configure(address: SocketAddr, admin: SocketAddr, upstream: SocketAddr) -> String {
    format!(
        "listen:\n  public: {{ address: \"{address}\" }}\n\
         admin: {{ address: \"{admin}\" }}\n\
         upstreams:\n  echo: {{ targets: [\"http://{upstream}\"] }}\n\
         routes:\n  all: {{ match: {{ path: \"/**\" }}, upstream: echo }}\n"
    )
}
