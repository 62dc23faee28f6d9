//! Reads recorded requests with their replies: an access log with lines of JSON, or a browser's archive (HAR 1.2).
//!
//! A line or an entry that is not a complete request is reported with its place and skipped.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context as _, ensure};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::sent_request::{SentRequest, is_sendable, origin};

/// The maximum size of a file, which is held in memory.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// The maximum number of requests in a file. Replaying them with two small configurations takes about a minute.
const REQUESTS_MAX: usize = 100_000;

/// Headers of an archive that are not replayed. Most belong to the connection. `Host` is taken from the URL, and an archive holds bodies
/// without their coding.
const OF_CONNECTIONS: [&str; 9] = [
    "connection",
    "content-length",
    "content-encoding",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

const REQUEST_ID: &str = "X-Request-Id";

/// The requests in a file.
pub(super) struct Recording {
    pub(super) requests: Vec<RecordedRequest>,
    /// The skipped entries, each with its place and the reason.
    pub(super) left_out: Vec<String>,
    /// True for an access log, which has no bodies, and no headers except `Host` and `User-Agent`.
    pub(super) is_log: bool,
}

/// One request with the upstream's reply.
pub(super) struct RecordedRequest {
    /// The place, such as `line 3`.
    pub(super) place: String,
    pub(super) client: Option<IpAddr>,
    pub(super) sent: SentRequest,
    pub(super) reply: RecordedReply,
}

/// The reply with which stand-ins for upstreams answer.
#[derive(Clone, Default)]
pub(super) struct RecordedReply {
    pub(super) status: u16,
    pub(super) lines: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

pub(super) fn read(file: &Path) -> anyhow::Result<Recording> {
    let mut bytes = Vec::new();
    let read =
        File::open(file).and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    let read = read.map_err(|error| anyhow::anyhow!(config::reason(&error)))?;
    let fits = u64::try_from(read).is_ok_and(|read| read <= FILE_BYTES_MAX);
    ensure!(fits, "it is larger than {FILE_BYTES_MAX} bytes: replay a part of it");
    let text = String::from_utf8(bytes).context("it is not UTF-8 text")?;
    let text = text.trim_start_matches('\u{feff}');
    let recording = match serde_json::from_str::<Value>(text) {
        Ok(archive) if archive.get("log").is_some() => of_archive(&archive)?,
        Ok(_) | Err(_) => of_log(text),
    };
    ensure!(
        recording.requests.len() <= REQUESTS_MAX,
        "it has more than {REQUESTS_MAX} requests: replay a part of it"
    );
    ensure!(
        !recording.requests.is_empty(),
        "it has no request that can be replayed: it must be lines of an access log in JSON, or a HAR file{}",
        recording.left_out.first().map_or_else(String::new, |why| format!("; {why}"))
    );
    Ok(recording)
}

fn of_log(text: &str) -> Recording {
    let mut recording = Recording { requests: Vec::new(), left_out: Vec::new(), is_log: true };
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let place = format!("line {number}");
        match of_line(place.clone(), line) {
            Ok(request) => recording.requests.push(request),
            Err(why) => recording.left_out.push(format!("{place}: {why:#}")),
        }
    }
    recording
}

fn of_line(place: String, line: &str) -> anyhow::Result<RecordedRequest> {
    let line: Value = serde_json::from_str(line).context("it is not a line of JSON")?;
    let member = |name: &str| line.get(name).and_then(Value::as_str);
    let method = member("method").context("it has no `method`")?;
    let target = member("path").context("it has no `path`")?;
    ensure!(!method.is_empty(), "its head could not be read");
    ensure!(!target.ends_with("..."), "its `path` was cut");
    let named = [("Host", member("host")), ("User-Agent", member("user_agent"))];
    // Harmless: a header that the line does not have is not sent.
    let lines =
        named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned())));
    let sent = SentRequest {
        method: method.to_owned(),
        target: target.to_owned(),
        lines: lines.collect(),
        body: Vec::new(),
    };
    // Harmless: without a valid address, the default client is used.
    let client = member("client").and_then(|client| client.parse().ok());
    // With a fault, the gateway made the reply, and the upstream's status is unknown.
    let status = line.get("status").and_then(Value::as_u64).filter(|_| member("fault").is_none());
    request(
        place,
        client,
        sent,
        RecordedReply { status: status_of(status), ..RecordedReply::default() },
    )
}

fn of_archive(archive: &Value) -> anyhow::Result<Recording> {
    let entries = archive.pointer("/log/entries").and_then(Value::as_array);
    let entries = entries.context("it has no `log.entries`")?;
    let mut recording = Recording { requests: Vec::new(), left_out: Vec::new(), is_log: false };
    for (number, entry) in (1..).zip(entries) {
        let place = format!("entry {number}");
        match of_entry(place.clone(), entry) {
            Ok(request) => recording.requests.push(request),
            Err(why) => recording.left_out.push(format!("{place}: {why:#}")),
        }
    }
    Ok(recording)
}

fn of_entry(place: String, entry: &Value) -> anyhow::Result<RecordedRequest> {
    let asked = entry.get("request").context("it has no `request`")?;
    let text =
        |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    let method = text(asked, "method").context("its request has no `method`")?;
    let url = text(asked, "url").context("its request has no `url`")?;
    let mut lines = lines(asked);
    let (host, target) = origin(&url);
    let host = host.context("its `url` has no host")?;
    lines.push(("Host".to_owned(), host.to_owned()));
    let body = match asked.get("postData") {
        None => Vec::new(),
        Some(posted) => {
            bytes(posted)?.context("its `postData` has no text, so its body is not known")?
        }
    };
    let sent = SentRequest { method, target: target.into_owned(), lines, body };
    let answered = entry.get("response").unwrap_or(&Value::Null);
    let content = answered.get("content").unwrap_or(&Value::Null);
    let reply = RecordedReply {
        status: status_of(answered.get("status").and_then(Value::as_u64)),
        lines: self::lines(answered),
        // Harmless: a reply without content has no body.
        body: bytes(content)?.unwrap_or_default(),
    };
    request(place, None, sent, reply)
}

/// The headers of a message in an archive, without those in `OF_CONNECTIONS` and pseudo-headers of HTTP/2.
fn lines(message: &Value) -> Vec<(String, String)> {
    // Harmless: a message without headers has none.
    let listed = message.get("headers").and_then(Value::as_array).into_iter().flatten();
    let line = |line: &Value| {
        let text = |name: &str| line.get(name)?.as_str().map(str::to_owned);
        let (name, value) = (text("name")?, text("value")?);
        let is_of_message = !OF_CONNECTIONS.contains(&&*name.to_ascii_lowercase());
        (is_of_message && !name.starts_with(':')).then_some((name, value))
    };
    // Harmless: an entry without a name and a value is not a header.
    listed.filter_map(line).collect()
}

fn bytes(content: &Value) -> anyhow::Result<Option<Vec<u8>>> {
    let Some(text) = content.get("text").and_then(Value::as_str) else { return Ok(None) };
    match content.get("encoding").and_then(Value::as_str) {
        Some("base64") => {
            let decoded = BASE64_STANDARD.decode(text);
            decoded.map(Some).context("its content is not base64")
        }
        Some("") | None => Ok(Some(text.as_bytes().to_vec())),
        Some(other) => anyhow::bail!("its content has the unknown encoding `{other}`"),
    }
}

/// A status that an upstream may send, or 200 if it is unknown.
fn status_of(status: Option<u64>) -> u16 {
    // Harmless: an invalid status counts as unknown.
    let status = status.and_then(|status| u16::try_from(status).ok());
    status.filter(|status| (200..=599).contains(status)).unwrap_or(200)
}

/// Returns the recorded request, with a request id. Fails if a client cannot send the request, or an upstream the reply.
fn request(
    place: String,
    client: Option<IpAddr>,
    mut sent: SentRequest,
    reply: RecordedReply,
) -> anyhow::Result<RecordedRequest> {
    ensure!(
        is_sendable(&sent.method, &sent.target),
        "its request line `{} {}` cannot be sent",
        sent.method.escape_debug(),
        sent.target.escape_debug()
    );
    for (name, value) in sent.lines.iter().chain(&reply.lines) {
        let is_good = http1::is_token(name.as_bytes()) && http1::is_header_value(value.as_bytes());
        ensure!(is_good, "its header `{}` cannot be sent", name.escape_debug());
    }
    // The request id occurs in replies, so it has to be the same for both configurations.
    if !sent.lines.iter().any(|(name, _)| name.eq_ignore_ascii_case(REQUEST_ID)) {
        sent.lines.push((REQUEST_ID.to_owned(), place.replace(' ', "-")));
    }
    Ok(RecordedRequest { place, client, sent, reply })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(text: &str) -> anyhow::Result<Recording> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("recording");
        std::fs::write(&file, text).unwrap();
        read(&file)
    }

    #[test]
    fn lines_that_are_not_requests_are_left_out_with_the_reason() {
        let text = "{\"method\":\"GET\",\"path\":\"/a?b\",\"host\":\"h\",\"status\":404}\n\n{\"path\":\"/\"}\nno json\n\
                    {\"method\":\"GET\",\"path\":\"/x...\"}\n{\"method\":\"G T\",\"path\":\"/\"}\n\
                    {\"method\":\"PUT\",\"path\":\"/b\",\"status\":502,\"fault\":\"connect_failed\"}\n";
        let recording = recording(text).unwrap();
        let shown: Vec<(&str, &str, u16)> = recording
            .requests
            .iter()
            .map(|one| (&*one.place, &*one.sent.target, one.reply.status))
            .collect();
        assert_eq!(shown, [("line 1", "/a?b", 404), ("line 7", "/b", 200)]);
        assert_eq!(
            recording.left_out,
            [
                "line 3: it has no `method`",
                "line 4: it is not a line of JSON: expected ident at line 1 column 2",
                "line 5: its `path` was cut",
                "line 6: its request line `G T /` cannot be sent",
            ]
        );
    }

    #[test]
    fn archives_have_headers_and_bodies() {
        let text = r#"{"log":{"entries":[
            {"request":{"method":"POST","url":"https://h:1/p?q=1","headers":[{"name":":path","value":"/p"},{"name":"X-A","value":"b"},{"name":"Content-Length","value":"9"}],"postData":{"text":"x"}},
             "response":{"status":201,"headers":[{"name":"X-R","value":"s"}],"content":{"text":"AAE=","encoding":"base64"}}},
            {"request":{"method":"POST","url":"/p","headers":[]}},
            {"request":{"method":"POST","url":"http://h/p","postData":{"params":[]}}}
        ]}}"#;
        let Recording { requests, left_out, is_log } = recording(text).unwrap();
        let [RecordedRequest { sent, reply, .. }] = &requests[..] else { panic!("{left_out:?}") };
        let line = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!((&*sent.target, &*sent.body, is_log), ("/p?q=1", &b"x"[..], false));
        assert_eq!(
            sent.lines,
            [line("X-A", "b"), line("Host", "h:1"), line("X-Request-Id", "entry-1")]
        );
        assert_eq!((reply.status, &*reply.body), (201, &[0, 1][..]));
        assert_eq!(reply.lines, [line("X-R", "s")]);
        assert_eq!(left_out.len(), 2, "{left_out:?}");
    }

    #[test]
    fn what_is_not_a_recording_is_refused() {
        for text in ["", "{}", "<a/>", "{\"log\":{}}", "[1]"] {
            assert!(recording(text).is_err(), "{text}");
        }
    }
}
