//! Requests to the admin API of a running gateway, and to its catalog.

use std::fs;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use config::WebUrl;
use serde_json::Value;

use crate::log;
use crate::operations::Access;

/// The maximum size of an answer, which is more than a large configuration needs.
const ANSWER_BYTES_MAX: u64 = 160 << 20;

/// The exit code if no gateway answers, or if the operator lacks the permission.
pub(crate) const NO_ACCESS: u8 = 2;

/// The environment variable with the operator's token.
const TOKEN: &str = "TIDEGATE_TOKEN";

/// A gateway, and the operator's credentials for it.
pub(crate) struct Gateway {
    url: String,
    target: WebUrl,
    /// The value of `Authorization`.
    authorization: Option<String>,
    client: Option<tls::Client>,
    /// The time limit of each wait.
    patience: Duration,
}

/// A request.
#[derive(Default)]
pub(crate) struct AdminRequest<'q> {
    /// The method and path, such as `POST /config/diff`.
    pub(crate) request: &'q str,
    /// Additional headers.
    pub(crate) headers: &'q [(&'q str, &'q str)],
    pub(crate) body: &'q [u8],
}

/// The answer to a request.
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// `tidegate ready`: exit code 0 if the gateway takes requests.
pub(crate) fn ready(url: &str, access: &Access, patience: Duration) -> anyhow::Result<ExitCode> {
    let gateway = Gateway::new(url, access, patience)?;
    let answer =
        gateway.ask(&AdminRequest { request: "GET /readyz", ..AdminRequest::default() })?;
    Ok(match answer.status {
        200 => ExitCode::SUCCESS,
        status => {
            log::say_error(&format!("{url} is not ready: {status} {}", answer.text().trim_end()));
            ExitCode::FAILURE
        }
    })
}

impl Gateway {
    pub(crate) fn new(url: &str, access: &Access, patience: Duration) -> anyhow::Result<Gateway> {
        // Harmless: without the variable, or if it is not text, no token is sent.
        let token = access.token.clone().or_else(|| std::env::var(TOKEN).ok());
        Gateway::open(url, token.map(|token| format!("Bearer {token}")), access, patience)
    }

    /// Creates a client for the catalog of a gateway, whose users are not the operators.
    pub(crate) fn as_user(
        url: &str,
        authorization: Option<String>,
        ca: Option<PathBuf>,
        patience: Duration,
    ) -> anyhow::Result<Gateway> {
        let access = Access { ca, ..Access::default() };
        Gateway::open(url, authorization, &access, patience)
    }

    fn open(
        url: &str,
        authorization: Option<String>,
        access: &Access,
        patience: Duration,
    ) -> anyhow::Result<Gateway> {
        let target = WebUrl::parse(url).map_err(anyhow::Error::msg)?;
        let is_good = |value: &String| value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if !authorization.as_ref().is_none_or(is_good) {
            bail!("the token has characters that are not allowed in a header");
        }
        let client = if target.target.tls { Some(tls::Client::new(&spec(access)?)?) } else { None };
        Ok(Gateway { url: url.to_owned(), target, authorization, client, patience })
    }

    /// Sends a request and reads its answer, whatever the status.
    pub(crate) fn ask(&self, question: &AdminRequest<'_>) -> anyhow::Result<Answer> {
        let asked = self.exchange(question);
        asked.with_context(|| format!("cannot reach {}", self.url))
    }

    fn exchange(&self, question: &AdminRequest<'_>) -> anyhow::Result<Answer> {
        let (host, port) = (self.target.target.host.as_str(), self.target.target.port);
        let address = (host, port).to_socket_addrs()?.next().context("the address is unknown")?;
        let socket = TcpStream::connect_timeout(&address, self.patience)?;
        socket.set_read_timeout(Some(self.patience))?;
        socket.set_write_timeout(Some(self.patience))?;
        let head = self.head(question, &address.to_string());
        let answer = match &self.client {
            None => converse(socket, &head, question.body),
            Some(client) => converse(client.wrap(host, socket)?, &head, question.body),
        };
        answer.map_err(|error| match error.downcast_ref::<io::Error>().map(io::Error::kind) {
            Some(ErrorKind::WouldBlock) => anyhow!("no answer within {:?}", self.patience),
            _ => error,
        })
    }

    /// The head of a request. `Host` is the address, since the gateway may not know the name.
    fn head(&self, question: &AdminRequest<'_>, address: &str) -> String {
        let prefix = self.target.path.trim_end_matches('/');
        let (method, path) = question.request.split_once(' ').unwrap_or(("GET", "/"));
        let mut head = format!("{method} {prefix}{path} HTTP/1.1\r\nHost: {address}\r\n");
        head.push_str("Connection: close\r\n");
        if let Some(authorization) = &self.authorization {
            head.push_str(&format!("Authorization: {authorization}\r\n"));
        }
        for (name, value) in question.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", question.body.len()));
        head
    }
}

/// Prints the answer to an operation, or the reason of its refusal.
pub(crate) fn report_answer(answer: &Answer) -> anyhow::Result<ExitCode> {
    if !(200..300).contains(&answer.status) {
        log::say_error(&answer.refusal(&|name| name.to_owned()));
        return Ok(if answer.is_forbidden() {
            ExitCode::from(NO_ACCESS)
        } else {
            ExitCode::FAILURE
        });
    }
    if answer.body.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let text = match answer.json() {
        Ok(told) => serde_json::to_string_pretty(&told)?,
        Err(_) => answer.text(),
    };
    log::write_out(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// Reports why a gateway could not be asked.
pub(crate) fn report_no_access(why: &anyhow::Error) -> ExitCode {
    log::say_error(&format!("{why:#}"));
    ExitCode::from(NO_ACCESS)
}

fn spec(access: &Access) -> anyhow::Result<tls::ClientSpec> {
    let read = |file: &Path| {
        fs::read(file)
            .map_err(|e| anyhow!("cannot read `{}`: {}", file.display(), config::reason(&e)))
    };
    let pair = match (&access.certificate, &access.key) {
        (Some(certificate), Some(key)) => {
            Some(tls::Pair { certificate: read(certificate)?, key: read(key)? })
        }
        _ => None,
    };
    let ca = access.ca.as_deref().map(read).transpose()?;
    Ok(tls::ClientSpec { ca, pair, verify: true, server_name: None })
}

fn converse(mut stream: impl Read + Write, head: &str, body: &[u8]) -> anyhow::Result<Answer> {
    // A gateway that refuses a request may not read all of it.
    let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
    let sent = sent.and_then(|()| stream.flush());
    let mut bytes = Vec::new();
    // Harmless: `Answer::parse` refuses an answer that is shorter than its length.
    let read = (&mut stream).take(ANSWER_BYTES_MAX).read_to_end(&mut bytes);
    match (Answer::parse(&bytes), sent, read) {
        (Some(answer), ..) => Ok(answer),
        (None, Err(error), _) | (None, Ok(()), Err(error)) => Err(error.into()),
        (None, Ok(()), Ok(_)) => bail!("the answer is not an HTTP response"),
    }
}

/// Decodes a chunked body (RFC 9112, 7.1). Returns `None` if it is incomplete. The gateway uses no other transfer coding, and no
/// trailers.
fn without_chunks(mut rest: &[u8]) -> Option<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let end = rest.windows(2).position(|window| window == b"\r\n")?;
        let (line, after) = rest.split_at_checked(end)?;
        let bytes = usize::from_str_radix(std::str::from_utf8(line).ok()?, 16).ok()?;
        let (chunk, after) = after.get(2..)?.split_at_checked(bytes)?;
        rest = after.strip_prefix(b"\r\n")?;
        if bytes == 0 {
            return rest.is_empty().then_some(body);
        }
        body.extend_from_slice(chunk);
    }
}

impl Answer {
    /// Parses an answer. Returns `None` if it is incomplete.
    fn parse(bytes: &[u8]) -> Option<Answer> {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(bytes.get(..end)?).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let line = |line: &str| {
            let (name, value) = line.split_once(':')?;
            Some((name.to_ascii_lowercase(), value.trim().to_owned()))
        };
        let headers: Vec<_> = lines.map(line).collect::<Option<_>>()?;
        let body = bytes.get(end + 4..)?.to_vec();
        let answer = Answer { status, headers, body };
        if answer.header("transfer-encoding").is_some() {
            return Some(Answer { body: without_chunks(&answer.body)?, ..answer });
        }
        // Harmless: an answer without a length ends with the connection.
        let length = answer.header("content-length").and_then(|length| length.parse().ok());
        length.is_none_or(|length: usize| length == answer.body.len()).then_some(answer)
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> String {
        // Harmless: the text is only shown.
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.body)
            .with_context(|| format!("the gateway answered {} without JSON", self.status))
    }

    /// True if the operator is unknown, or lacks the role.
    pub(crate) fn is_forbidden(&self) -> bool {
        matches!(self.status, 401 | 403)
    }

    /// The problem in an answer as text for a person: every complaint, or the detail. `renamed` maps the gateway's names of files to
    /// local ones.
    pub(crate) fn refusal(&self, renamed: &dyn Fn(&str) -> String) -> String {
        let Ok(problem) = self.json() else { return format!("the answer is {}", self.status) };
        let text = |of: &Value, name: &str| match of.get(name) {
            Some(Value::String(text)) => text.clone(),
            Some(other) => other.to_string(),
            None => String::new(),
        };
        let complaint = |one: &Value| {
            let (line, column) = (text(one, "line"), text(one, "column"));
            let file = renamed(&text(one, "file"));
            let (message, help) = (text(one, "message"), text(one, "help"));
            format!("{file}:{line}:{column}: {message}\n  help: {help}")
        };
        match problem.get("complaints").and_then(Value::as_array) {
            Some(complaints) => complaints.iter().map(complaint).collect::<Vec<_>>().join("\n"),
            None => format!("{} {}", self.status, text(&problem, "detail")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Answer;

    #[test]
    fn an_answer_is_whole_or_none() {
        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n";
        for (head, body, whole) in [
            (chunked, "2\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\n", Some("ab0123456789")),
            (chunked, "0\r\n\r\n", Some("")),
            (chunked, "2\r\nab\r\n", None),
            (chunked, "2\r\nab\r\n0\r\n", None),
            (chunked, "9\r\nab\r\n0\r\n\r\n", None),
            (chunked, "x\r\nab\r\n0\r\n\r\n", None),
            (chunked, "ffffffffffffffffff\r\nab\r\n0\r\n\r\n", None),
            (sized, "ab", Some("ab")),
            (sized, "a", None),
        ] {
            let answer = Answer::parse(format!("{head}{body}").as_bytes());
            assert_eq!(answer.map(|answer| answer.text()).as_deref(), whole, "{body}");
        }
    }
}
