//! The audit log: one line for each change, for each read of secrets, and for each refused attempt.

use std::fs::OpenOptions;
use std::io::{self, Write as _, stderr, stdout};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use axum::http::{Method, StatusCode, Uri};
use control::{AuditSink, Role};
use serde_json::{Value, json};

use crate::access::{Operator, asks_secrets};
use crate::bounded::Peer;

/// The number of differences that a request caused in the configuration; an extension of its response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Changes(pub(crate) usize);

/// The data of a request for its line in the log.
pub(crate) struct Attempt {
    pub(crate) method: Method,
    pub(crate) uri: Uri,
    pub(crate) peer: Peer,
    pub(crate) request_id: String,
    pub(crate) operator: Option<Operator>,
    pub(crate) needed: Option<Role>,
}

impl Attempt {
    /// True if the log gets a line: for each operation that needs the role `write`, and for each 401 or 403.
    fn is_noted(&self, status: StatusCode) -> bool {
        let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        refused || self.needed == Some(Role::Write)
    }

    fn line(&self, status: StatusCode, changes: Option<Changes>) -> Value {
        let operator = self.operator.as_ref();
        // Queries are not logged, since they may contain secrets. Only `secrets=true` is, since it explains why a read is in the log.
        let query = if asks_secrets(self.uri.query()) { "?secrets=true" } else { "" };
        json!({
            "time": kit::calendar::rfc3339(kit::clock::wall()),
            "user": operator.and_then(|operator| operator.name.as_deref()),
            "role": operator.map(|operator| operator.role.name()),
            "client": self.peer.address.ip().to_canonical().to_string(),
            "method": self.method.as_str(),
            "path": format!("{}{query}", self.uri.path()),
            "status": status.as_u16(),
            "changes": changes.map(|changes| changes.0),
            "request_id": self.request_id,
        })
    }

    /// Writes the line, before the client gets its response.
    pub(crate) async fn note(self, sink: AuditSink, status: StatusCode, changes: Option<Changes>) {
        if !self.is_noted(status) {
            return;
        }
        let line = self.line(status, changes).to_string();
        let written = match sink {
            AuditSink::Own => return tracing::info!(audit = %line, "an operator's request"),
            AuditSink::Receiver(receiver) => receiver.send(&line),
            AuditSink::Stdout => {
                written(line.clone(), |line| writeln!(stdout().lock(), "{line}")).await
            }
            AuditSink::Stderr => {
                written(line.clone(), |line| writeln!(stderr().lock(), "{line}")).await
            }
            AuditSink::File(path) => written(line.clone(), move |line| append(&path, line)).await,
        };
        let Err(error) = written else { return };
        tracing::error!(audit = %line, %error, "the audit log cannot be written");
    }
}

/// Writes a line on a thread that may block.
async fn written(
    line: String,
    write: impl FnOnce(&str) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let written = kit::task::run_blocking(move || write(&line)).await;
    written.unwrap_or_else(|| Err(io::Error::other("the writer panicked")))
}

/// Opens the file for each line, so that a file renamed by log rotation gets no more lines.
fn append(path: &Path, line: &str) -> io::Result<()> {
    // Only operators may read this log.
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}
