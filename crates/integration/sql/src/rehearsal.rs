//! Runs a statement when the network is simulated: as a call whose body is the statement with its arguments, and whose reply's body is the
//! answer of the database.
//!
//! In `tidegate test` and `tidegate explain --run`, the calls listed in a case answer it. No database is contacted and no file is opened.

use kit::Wire;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::{Answer, Argument, Bounds, Failure, Statement};

/// Maximum size of a reply's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

pub(crate) async fn run(
    wire: Wire,
    statement: &Statement,
    arguments: &[Argument],
    bounds: Bounds,
) -> Result<Answer, Failure> {
    let asked = ask(wire, statement, arguments, bounds.bytes_max);
    match tokio::time::timeout_at(bounds.deadline, asked).await {
        Err(_) => Err(Failure::Late),
        Ok(Err(error)) => Err(Failure::Unavailable(error.to_string())),
        Ok(Ok((status, body))) => answer(status, &body, bounds),
    }
}

async fn ask(
    mut wire: Wire,
    statement: &Statement,
    arguments: &[Argument],
    bytes_max: usize,
) -> std::io::Result<(u16, String)> {
    let mut body = "{\"query\":".to_owned();
    json::push_string(&mut body, &statement.0);
    body.push_str(",\"arguments\":[");
    for (number, argument) in arguments.iter().enumerate() {
        if number > 0 {
            body.push(',');
        }
        argument.push_json(&mut body);
    }
    body.push_str("]}");
    let head = format!(
        "POST / HTTP/1.1\r\nHost: database\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    wire.write_all((head + &body).as_bytes()).await?;
    let mut bytes = Vec::new();
    let mut piece = [0; 4096];
    loop {
        if let Some(read) = read(&bytes) {
            return Ok(read);
        }
        let count = wire.read(&mut piece).await?;
        if count == 0 || bytes.len() > bytes_max.saturating_add(HEAD_BYTES_MAX) {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
}

/// Parses the status and the body, once everything has been received.
fn read(bytes: &[u8]) -> Option<(u16, String)> {
    let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n")?;
    let head = std::str::from_utf8(bytes.get(..end)?).ok()?.to_ascii_lowercase();
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    let length: usize = length.map_or("0", str::trim).parse().ok()?;
    let body = bytes.get(end + 4..)?.get(..length)?;
    Some((status, std::str::from_utf8(body).ok()?.to_owned()))
}

/// Converts a reply: an array is the rows, and a number is the count of changed rows.
fn answer(status: u16, body: &str, bounds: Bounds) -> Result<Answer, Failure> {
    match status {
        200..=299 => {}
        503 => return Err(Failure::Unavailable(body.to_owned())),
        504 => return Err(Failure::Late),
        501 => return Err(Failure::Unavailable("no case lists this statement".to_owned())),
        _ => return Err(Failure::Refused(body.to_owned())),
    }
    let body = body.trim();
    // Harmless: anything but a number is parsed as rows.
    if let Ok(count) = body.parse() {
        return Ok(Answer::Affected { count, key: None });
    }
    let limits = json::Limits { depth_max: 512, entries_max: 2_000_000 };
    // Harmless: anything that cannot be parsed is refused below.
    let rows = json::Tape::read(body, &limits).ok();
    let rows = rows.as_ref().and_then(|tape| tape.entries().first());
    match rows.filter(|rows| rows.kind == json::Kind::Array) {
        None => Err(Failure::Refused(
            "the case's answer of the database is neither an array of rows nor a number".to_owned(),
        )),
        Some(rows) if usize::try_from(rows.count).is_ok_and(|rows| rows > bounds.rows_max) => {
            Err(Failure::TooLarge(format!("over {} rows", bounds.rows_max)))
        }
        Some(_) => Ok(Answer::Rows(body.to_owned())),
    }
}
