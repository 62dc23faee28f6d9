//! Replay: a reader far behind reads a long topic from its beginning, from the page cache.

use std::io;
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use memchr::memmem;
use store::{Embedded, Logs as _};

use crate::gateway::Gateway;
use crate::wire::Wire;
use crate::{Arguments, Row};

/// Events that are put into the store at once.
const BATCH: usize = 1000;
const TARGET: f64 = 500_000.0;

/// The bytes of an event in the reply of a poll, at most.
const POLLED_BYTES: usize = 256;

struct Measured {
    events: usize,
    time: Duration,
    cpu: Duration,
}

pub(crate) fn measure(arguments: &Arguments) -> io::Result<Vec<Row>> {
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let bytes = runtime.block_on(fill(&folder.path().join("store"), arguments.replayed))?;
    let keys = "{ topics: [news], retention: { bytes: 100GiB } }";
    let gateway = Gateway::start(&arguments.program(), folder.path(), keys)?;
    let each = bytes / arguments.replayed.max(1);
    let mut rows = Vec::new();
    for (name, is_stream) in [("long poll, limit=1000", false), ("SSE", true)] {
        // The first brings what the gateway needs once.
        let _first = runtime.block_on(read(&gateway, is_stream, arguments.replayed / 20))?;
        let measured = runtime.block_on(read(&gateway, is_stream, arguments.replayed))?;
        rows.push(row(name, each, &measured));
    }
    Ok(rows)
}

fn row(name: &str, bytes: usize, measured: &Measured) -> Row {
    let events = measured.events as f64;
    let rate = events / measured.time.as_secs_f64();
    let cpu = measured.cpu.as_secs_f64() * 1e6 / events.max(1.0);
    let what = format!("replay of {} events of {bytes} bytes, {name}", measured.events);
    Row::new(what, format!("{rate:.0} events/s, CPU {cpu:.2} us each"))
        .with_target("500,000 events/s", rate >= TARGET)
}

/// Puts events into a store that no gateway has, and gives the bytes of all bodies.
async fn fill(path: &Path, events: usize) -> io::Result<usize> {
    let (store, _) = Embedded::open(path).map_err(io::Error::other)?;
    let content_type = bytes::Bytes::from_static(b"application/json");
    let said = hub::Representation { content_type, ..hub::Representation::default() };
    let (mut bytes, mut next) = (0, 0);
    while next < events {
        let mut records = Vec::new();
        while records.len() < BATCH && next < events {
            let body = text(next);
            bytes += body.len();
            records.extend(hub::record_of(&said, body.as_bytes()));
            next += 1;
        }
        store.append("hub/bench/topic/news", records, None).await.map_err(io::Error::other)?;
    }
    Ok(bytes)
}

fn text(number: usize) -> String {
    let (home, guest) = (number * 7 % 11, number * 13 % 5);
    format!(
        "{{\"match\":{number},\"home\":{home},\"guest\":{guest},\"text\":\"goal in the {}th minute\"}}",
        number % 90
    )
}

/// Reads so many events, and checks that they are all there, in order.
async fn read(gateway: &Gateway, is_stream: bool, events: usize) -> io::Result<Measured> {
    let mut wire = Wire::connect(gateway.public).await?;
    let before = gateway.cpu()?;
    let time =
        if is_stream { stream(&mut wire, events).await? } else { poll(&mut wire, events).await? };
    Ok(Measured { events, time, cpu: gateway.cpu()?.saturating_sub(before) })
}

/// Polls until so many events have come, and returns the time for that, without the time for looking at them.
async fn poll(wire: &mut Wire, events: usize) -> io::Result<Duration> {
    let ask = |after: &str| {
        format!("GET /hub/topics/news?after={after}&limit=1000 HTTP/1.1\r\nHost: hub\r\n\r\n")
    };
    let (mut seen, mut checks) = (0, Vec::new());
    // The system has given the memory before.
    let mut bodies = vec![b' '; events * POLLED_BYTES];
    bodies.clear();
    let began = Instant::now();
    wire.send(ask("0").as_bytes()).await?;
    while seen < events {
        let from = bodies.len();
        let status = wire.reply_into(&mut bodies).await?;
        let body = bodies.get(from..).unwrap_or_default();
        // The next is on its way while this one is looked at.
        let next = memmem::rfind(body, b"\"next\":\"").map(|at| body.get(at + 8..));
        let next = next.flatten().and_then(|next| next.split(|byte| *byte == b'"').next());
        let next = next.and_then(|next| std::str::from_utf8(next).ok()).unwrap_or_default();
        let place = next.parse::<usize>().unwrap_or_default();
        if status != 200 || place <= seen {
            return Err(io::Error::other(format!("a poll behind {seen}: {status}, {next}")));
        }
        if place < events {
            wire.send(ask(next).as_bytes()).await?;
        }
        checks.push((seen, place, from..bodies.len()));
        seen = place;
    }
    let time = began.elapsed();
    let body = |range: Range<usize>| bodies.get(range).unwrap_or_default();
    checks
        .into_iter()
        .try_for_each(|(after, place, range)| check_poll(after, place, body(range)))?;
    Ok(time)
}

/// One reply of a poll: all events behind one place up to another.
fn check_poll(after: usize, place: usize, body: &[u8]) -> io::Result<()> {
    let json: serde_json::Value = serde_json::from_slice(body)?;
    let events = json.get("events").and_then(serde_json::Value::as_array);
    let is_right = |(number, event): (usize, &serde_json::Value)| {
        let id = (number + 1).to_string();
        let text = text(number);
        event.get("id").is_some_and(|found| *found == *id)
            && event.get("body").is_some_and(|found| *found == *text)
    };
    let is_whole = events
        .is_some_and(|events| events.len() == place - after && (after..).zip(events).all(is_right));
    is_whole.then_some(()).ok_or_else(|| io::Error::other(format!("events behind {after}")))
}

/// The same as an event stream.
async fn stream(wire: &mut Wire, events: usize) -> io::Result<Duration> {
    let began = Instant::now();
    let request =
        b"GET /hub/topics/news?after=0 HTTP/1.1\r\nHost: hub\r\nAccept: text/event-stream\r\n\r\n";
    wire.send(request).await?;
    let mut received = Vec::new();
    let head = loop {
        received.extend(wire.piece().await?);
        if let Some((head, _)) = crate::wire::sizes(&received) {
            break head;
        }
    };
    let mut rest = received.split_off(head);
    let (mut text, mut looked, mut ends) = (Vec::new(), 0, 0);
    while ends < events {
        let taken = unchunked(&rest, &mut text)?;
        rest.drain(..taken);
        // Two line feeds end an event; the first of them may have come before.
        let fresh = text.get(looked..).unwrap_or_default();
        ends += memmem::find_iter(fresh, b"\n\n").count();
        looked = text.len() - usize::from(text.ends_with(b"\n") && !text.ends_with(b"\n\n"));
        if ends < events {
            rest.extend(wire.piece().await?);
        }
    }
    let time = began.elapsed();
    check_stream(&text, events)?;
    Ok(time)
}

/// Appends what is in whole chunks at the front, and gives their bytes.
fn unchunked(bytes: &[u8], text: &mut Vec<u8>) -> io::Result<usize> {
    let mut at = 0;
    while let Some(rest) = bytes.get(at..)
        && let Some(line) = memmem::find(rest, b"\r\n")
    {
        let size = rest.get(..line).and_then(|size| std::str::from_utf8(size).ok());
        let size = size.and_then(|size| usize::from_str_radix(size, 16).ok());
        let size = size.ok_or_else(|| io::Error::other("a chunk without a length"))?;
        let Some(chunk) = rest.get(line + 2..line + 4 + size) else { break };
        text.extend_from_slice(chunk.get(..size).unwrap_or_default());
        at += line + 4 + size;
    }
    Ok(at)
}

/// The events of a stream from the first on.
fn check_stream(text_seen: &[u8], events: usize) -> io::Result<()> {
    let seen = String::from_utf8_lossy(text_seen);
    let mut blocks = seen.split("\n\n");
    for number in 0..events {
        let expected = format!("id: {}\ndata: {}", number + 1, text(number));
        let found = blocks.next().unwrap_or_default();
        if found != expected {
            let what = format!("event stream: `{found}` instead of `{expected}`");
            return Err(io::Error::other(what));
        }
    }
    Ok(())
}
