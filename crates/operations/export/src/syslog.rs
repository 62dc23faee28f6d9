//! Syslog messages (RFC 5424), and their framing in a stream (RFC 6587, 3.4.1).

use kit::{calendar, clock};

/// Facility `local0` and severity `info`: an ordinary line of a service.
const PRIORITY: u8 = 16 * 8 + 6;

/// The longest name of a host that a message may have (RFC 5424, 6).
const HOST_BYTES_MAX: usize = 255;

/// The part that all messages of a log share.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    host: String,
    process: u32,
    log: &'static str,
}

impl Header {
    /// `log` is the message id, such as `access`.
    pub(crate) fn new(log: &'static str) -> Header {
        let name = rustix::system::uname();
        // Harmless: other characters are removed below.
        let name = name.nodename().to_string_lossy();
        // Harmless: names of hosts are shorter.
        let host: String =
            name.chars().filter(char::is_ascii_graphic).take(HOST_BYTES_MAX).collect();
        let host = if host.is_empty() { "-".to_owned() } else { host };
        Header { host, process: std::process::id(), log }
    }

    /// The message for a line without its line end.
    pub(crate) fn message(&self, line: &[u8]) -> Vec<u8> {
        let time = calendar::rfc3339(clock::wall());
        let Header { host, process, log } = self;
        let mut message =
            format!("<{PRIORITY}>1 {time} {host} tidegate {process} {log} - ").into_bytes();
        message.extend_from_slice(line);
        message
    }
}

/// A message with its length before it, for a stream.
pub(crate) fn counted(message: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(message.len().to_string().as_bytes());
    out.push(b' ');
    out.extend_from_slice(message);
}
