//! Subscribers of a hub and their publisher. Each event must be delivered to each subscriber once, completely, and signed with its secret.
//!
//! Owns the server of the callbacks. It runs on one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use memchr::memmem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::LocalSet;

use super::compiled::{Compiled, Turn, write_letters};
use super::control::Control;
use super::load::{Expected, Load, Template, WebSub};
use super::outcome::{ErrorKind, Streams, Users, WebSubCounts};
use super::recorder::{Recorder, Sample, Shape};
use super::run::{CpuTime, ThreadOutcome};

/// All callbacks. The path of each ends with its number.
struct Callbacks {
    each: RefCell<Vec<Callback>>,
    recorder: RefCell<Recorder>,
    start: Instant,
    body: RefCell<Vec<u8>>,
    published: Cell<Duration>,
    event: Cell<u32>,
    verified: Cell<u64>,
    delivered: Cell<u64>,
    bad: Cell<u64>,
    last: Cell<Duration>,
}

struct Callback {
    key: hmac::Key,
    is_verified: bool,
    /// The last event that was received.
    event: u32,
}

/// Number of connections over which subscriptions are sent.
const ASKING: usize = 32;
/// Maximum size of a delivery: its head, and an event of at most 1 MiB.
const REQUEST_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Maximum size of a reply of the hub.
const REPLY_BYTES_MAX: usize = 1 << 20;
const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const TICK: Duration = Duration::from_millis(5);

pub(super) fn run(load: &Load, hub: &WebSub, control: &Control) -> Result<ThreadOutcome, String> {
    if load.target.tls.is_some() {
        return Err("a hub's load goes to a listener without TLS".to_owned());
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let callbacks = Rc::new(Callbacks::new(load, hub, control));
    let mut counts = WebSubCounts::default();
    let cpu = CpuTime::from_warm_up(|warm| {
        let drive = drive(load, hub, control, &callbacks, warm);
        counts = LocalSet::new().block_on(&runtime, drive)?;
        drop(runtime);
        Ok(())
    })?;
    let callbacks = Rc::try_unwrap(callbacks).map_err(|_| "callbacks still run".to_owned())?;
    let labels = vec![callbacks.recorder.into_inner().finish()];
    let subscribers = counts.subscribers as f64;
    let users = Users { warm_up: subscribers, measured: subscribers };
    let streams = Some(Streams::Websub(counts));
    Ok(ThreadOutcome { labels, users, streams, cpu, log_failed: None })
}

async fn drive(
    load: &Load,
    hub: &WebSub,
    control: &Control,
    callbacks: &Rc<Callbacks>,
    warm: &mut dyn FnMut(),
) -> io::Result<WebSubCounts> {
    let listener = TcpListener::bind((hub.callback, 0)).await?;
    let origin = listener.local_addr()?;
    #[allow(
        clippy::disallowed_methods,
        reason = "no gateway runs here, and panics may end the run"
    )]
    let server = tokio::task::spawn_local(accept(Rc::clone(callbacks), listener));
    subscribe(load, hub, origin).await;
    let wanted = u64::from(hub.subscribers);
    callbacks.until(load.response_max, control, || callbacks.verified.get() >= wanted).await;
    // Subscribing is the warm-up. The deliveries are measured.
    let left = load.warm_up.saturating_sub(callbacks.now());
    callbacks.until(left, control, || false).await;
    warm();
    let verified = callbacks.verified.get();
    let mut counts = WebSubCounts { subscribers: verified, ..WebSubCounts::default() };
    let mut expected = 0;
    for event in 1..=hub.events {
        if control.is_stopped() {
            break;
        }
        expected += wanted;
        let before = callbacks.delivered.get();
        if publish(load, hub, event, callbacks).await.is_ok() {
            let is_all = || callbacks.delivered.get() >= before + verified;
            callbacks.until(load.response_max, control, is_all).await;
        }
        let missing = wanted.saturating_sub(callbacks.delivered.get() - before);
        let (begin, end) = (callbacks.published.get(), callbacks.now());
        let late = Sample::failed(begin, end, ErrorKind::ResponseTimeout);
        for _ in 0..missing {
            callbacks.recorder.borrow_mut().record(&late);
        }
        if callbacks.delivered.get() > before {
            let took = callbacks.last.get().saturating_sub(begin).as_secs_f64() * 1e3;
            counts.last_delivery_ms = Some(counts.last_delivery_ms.unwrap_or(0.0).max(took));
        }
    }
    server.abort();
    // The task has been aborted and ends at its next poll.
    drop(server.await);
    counts.undelivered = expected.saturating_sub(callbacks.delivered.get());
    counts.bad_signatures = callbacks.bad.get();
    Ok(counts)
}

async fn accept(callbacks: Rc<Callbacks>, listener: TcpListener) {
    let mut connections = tokio::task::JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let callbacks = Rc::clone(&callbacks);
        connections.spawn_local(async move {
            // If the hub disconnects early, the event is not delivered, which is counted.
            drop(callbacks.serve(stream).await);
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Requests all subscriptions. Those that are refused are not verified.
async fn subscribe(load: &Load, hub: &WebSub, origin: SocketAddr) {
    let mut tasks = tokio::task::JoinSet::new();
    for first in 0..ASKING.min(hub.subscribers as usize) {
        let requests: Vec<Vec<u8>> = (first..hub.subscribers as usize)
            .step_by(ASKING)
            .map(|number| subscription(load, hub, origin, number))
            .collect();
        let (address, time_max) = (load.target.address, load.response_max);
        tasks.spawn_local(async move {
            let Ok(mut stream) = TcpStream::connect(address).await else { return };
            for request in requests {
                let asked = tokio::time::timeout(time_max, ask(&mut stream, &request)).await;
                if !matches!(asked, Ok(Ok(_))) {
                    return;
                }
            }
        });
    }
    while tasks.join_next().await.is_some() {}
}

fn subscription(load: &Load, hub: &WebSub, origin: SocketAddr, number: usize) -> Vec<u8> {
    let callback = format!("http://{origin}/s/{number}");
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("hub.mode", "subscribe").append_pair("hub.topic", &hub.topic);
    form.append_pair("hub.callback", &callback).append_pair("hub.secret", &secret(number));
    post(load, hub, &hub.path, "application/x-www-form-urlencoded", form.finish().as_bytes())
}

async fn publish(
    load: &Load,
    hub: &WebSub,
    event: u32,
    callbacks: &Callbacks,
) -> Result<(), ErrorKind> {
    let mut body = vec![0; hub.message_bytes as usize];
    write_letters(load.seed, event.into(), &mut body);
    let request = post(load, hub, &hub.publish, "text/plain", &body);
    *callbacks.body.borrow_mut() = body;
    callbacks.event.set(event);
    let stream = TcpStream::connect(load.target.address).await;
    let mut stream = stream.map_err(|_| ErrorKind::Connect)?;
    callbacks.published.set(callbacks.now());
    let asked = tokio::time::timeout(load.response_max, ask(&mut stream, &request)).await;
    match asked {
        Ok(Ok(status)) if (200..300).contains(&status) => Ok(()),
        Ok(Ok(_)) => Err(ErrorKind::Status),
        Ok(Err(_)) => Err(ErrorKind::Closed),
        Err(_) => Err(ErrorKind::ResponseTimeout),
    }
}

fn post(load: &Load, hub: &WebSub, path: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let mut headers = hub.headers.clone();
    headers.push(("Content-Type".to_owned(), super::Text::same(kind)));
    let template = Template {
        label: String::new(),
        weight: 1,
        method: "POST".to_owned(),
        path: super::Text::same(path),
        headers,
        body: super::Text::same(String::from_utf8_lossy(body)),
        expected: Expected::default(),
    };
    let tables = std::collections::BTreeMap::new();
    Compiled::request(&load.target, &template, &tables).of(&Turn::default()).to_vec()
}

/// Sends a request, reads the reply, and returns its status.
async fn ask(stream: &mut TcpStream, request: &[u8]) -> io::Result<u16> {
    stream.write_all(request).await?;
    let mut received = Vec::new();
    loop {
        if let Some((head, length)) = sizes(&received)
            && received.len() >= head + length
        {
            let digits = received.get(9..12).and_then(|digits| str::from_utf8(digits).ok());
            let status = digits.and_then(|digits| digits.parse().ok());
            return status.ok_or_else(|| io::ErrorKind::InvalidData.into());
        }
        read_more(stream, &mut received, REPLY_BYTES_MAX).await?;
    }
}

async fn read_more(stream: &mut TcpStream, to: &mut Vec<u8>, bytes_max: usize) -> io::Result<()> {
    if to.len() > bytes_max {
        return Err(io::ErrorKind::InvalidData.into());
    }
    to.reserve(16 << 10);
    match stream.read_buf(to).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}

fn secret(number: usize) -> String {
    format!("secret-of-{number}")
}

impl Callbacks {
    fn new(load: &Load, hub: &WebSub, control: &Control) -> Callbacks {
        let callback = |number| Callback {
            key: hmac::Key::new(hmac::HMAC_SHA256, secret(number).as_bytes()),
            is_verified: false,
            event: 0,
        };
        let recorder = Recorder::new("HTTP Request".to_owned(), Duration::ZERO, Shape::of(load));
        Callbacks {
            each: RefCell::new((0..hub.subscribers as usize).map(callback).collect()),
            recorder: RefCell::new(recorder),
            start: control.start(),
            body: RefCell::new(Vec::new()),
            published: Cell::new(Duration::ZERO),
            event: Cell::new(0),
            verified: Cell::new(0),
            delivered: Cell::new(0),
            bad: Cell::new(0),
            last: Cell::new(Duration::ZERO),
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Waits until `is_so` returns true, at most for `time_max`.
    async fn until(&self, time_max: Duration, control: &Control, is_so: impl Fn() -> bool) {
        let end = self.now() + time_max;
        while !is_so() && self.now() < end && !control.is_stopped() {
            tokio::time::sleep(TICK).await;
            control.count_of(&mut self.recorder.borrow_mut());
        }
    }

    async fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let (mut received, mut out) = (Vec::new(), Vec::new());
        loop {
            read_more(&mut stream, &mut received, REQUEST_BYTES_MAX).await?;
            let mut rest = &*received;
            while let Some((head_bytes, body_bytes)) = sizes(rest)
                && let Some((request, after)) = rest.split_at_checked(head_bytes + body_bytes)
            {
                let (head, body) = request.split_at_checked(head_bytes).unwrap_or_default();
                self.answer(head, body, &mut out);
                rest = after;
            }
            let left = rest.len();
            received.drain(..received.len() - left);
            if !out.is_empty() {
                stream.write_all(&out).await?;
                out.clear();
            }
        }
    }

    fn answer(&self, head: &[u8], body: &[u8], out: &mut Vec<u8>) {
        let target = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let target = str::from_utf8(target).unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let number = path.strip_prefix("/s/").and_then(|number| number.parse::<usize>().ok());
        let mut each = self.each.borrow_mut();
        let Some(callback) = number.and_then(|number| each.get_mut(number)) else {
            out.extend_from_slice(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
            return;
        };
        if head.starts_with(b"GET ") {
            let mut pairs = form_urlencoded::parse(query.as_bytes());
            let challenge = pairs.find(|(name, _)| name == "hub.challenge");
            let challenge = challenge.map(|(_, value)| value.into_owned()).unwrap_or_default();
            self.verified.set(self.verified.get() + u64::from(!callback.is_verified));
            callback.is_verified = true;
            let length = challenge.len();
            let reply = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{challenge}");
            out.extend_from_slice(reply.as_bytes());
            return;
        }
        out.extend_from_slice(OK);
        // The callback has received the current event already.
        if callback.event == self.event.get() {
            return;
        }
        callback.event = self.event.get();
        let signature = field(head, b"x-hub-signature");
        let is_right = *self.body.borrow() == body
            && signature.is_some_and(|signature| is_signed(&callback.key, signature, body));
        let (begin, end) = (self.published.get(), self.now());
        self.last.set(end);
        self.delivered.set(self.delivered.get() + 1);
        self.bad.set(self.bad.get() + u64::from(!is_right));
        let result = if is_right { Ok(()) } else { Err(ErrorKind::Content) };
        let (sent_bytes, received_bytes) = (OK.len() as u64, (head.len() + body.len()) as u64);
        let sample = Sample { begin, end, result, status: None, sent_bytes, received_bytes };
        self.recorder.borrow_mut().record(&sample);
    }
}

/// Returns the sizes of a complete head and of its body.
fn sizes(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = memmem::find(bytes, b"\r\n\r\n")? + 4;
    let length = field(bytes.get(..end)?, b"content-length");
    let length = length.and_then(|length| str::from_utf8(length).ok()?.parse().ok()).unwrap_or(0);
    Some((end, REQUEST_BYTES_MAX.min(length)))
}

/// Returns the value of a header field.
fn field<'h>(head: &'h [u8], name: &[u8]) -> Option<&'h [u8]> {
    head.split(|byte| *byte == b'\n').find_map(|line| {
        let (start, rest) = line.split_at_checked(name.len())?;
        let value = rest.strip_prefix(b":")?;
        start.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
    })
}

/// Returns true if a signature is `sha256=HEX` of the bytes. It is independent of the gateway's own check, so that it detects errors there.
#[must_use]
pub fn is_signed(key: &hmac::Key, signature: &[u8], body: &[u8]) -> bool {
    let Some(hex) = signature.strip_prefix(b"sha256=") else { return false };
    let digit =
        |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| Some((digit(pair.first()?)? << 4) | digit(pair.get(1)?)?);
    let tag: Option<Vec<u8>> = hex.chunks(2).map(byte).collect();
    tag.is_some_and(|tag| hmac::verify(key, body, &tag).is_ok())
}

#[cfg(test)]
mod tests;
