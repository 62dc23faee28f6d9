//! One request to the admin API of a gateway that runs.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow};

use crate::log;

/// More than all of a large configuration.
const ANSWER_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// `tidegate ready`: exit code 0 if the gateway takes requests.
pub(crate) fn ready(url: &str, patience: Duration) -> anyhow::Result<ExitCode> {
    let (status, body) = ask(url, "GET /readyz", "", patience).with_context(|| cannot_ask(url))?;
    Ok(match status {
        200 => ExitCode::SUCCESS,
        status => {
            log::say_error(&format!("{url} is not ready: {status} {}", body.trim_end()));
            ExitCode::FAILURE
        }
    })
}

pub(crate) fn cannot_ask(url: &str) -> String {
    format!("cannot reach {url}")
}

/// Sends a request, such as `POST /config/diff`, with a text; the status and the body. `patience` bounds each wait.
pub(crate) fn ask(
    url: &str,
    request: &str,
    text: &str,
    patience: Duration,
) -> anyhow::Result<(u16, String)> {
    let authority = url.strip_prefix("http://").context("write it as http://ADDRESS:PORT")?;
    let authority = authority.trim_end_matches('/');
    let address = authority.to_socket_addrs().context("write it as http://ADDRESS:PORT")?.next();
    let address = address.context("no such address")?;
    let mut stream = TcpStream::connect_timeout(&address, patience)?;
    stream.set_read_timeout(Some(patience))?;
    stream.set_write_timeout(Some(patience))?;
    let head = format!(
        "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Content-Type: application/yaml\r\nContent-Length: {}\r\n\r\n",
        text.len()
    );
    let mut answer = String::new();
    let asked = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(text.as_bytes()))
        // Harmless: an answer that is cut is not JSON, which the caller says.
        .and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer));
    asked.map_err(|error| match error.kind() == ErrorKind::WouldBlock {
        true => anyhow!("no answer within {patience:?}"),
        false => error.into(),
    })?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no whole head")?;
    // Harmless: an absent status is an error below.
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok((status.context("no status")?, body.to_owned()))
}
