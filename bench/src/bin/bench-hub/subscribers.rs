//! Subscribers: many callbacks at a few servers, which check what they get.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use aws_lc_rs::hmac;
use bench::generator::is_signed;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

use crate::wire;

/// All subscribers. The callback of each ends with its number.
pub(crate) struct Subscribers {
    each: RefCell<Vec<Subscriber>>,
    pub(crate) questions: Cell<usize>,
    pub(crate) delivered: Cell<usize>,
    pub(crate) invalid: Cell<usize>,
    /// Events that came to a subscriber again, or behind a later one.
    pub(crate) repeated: Cell<usize>,
    pub(crate) connections: Cell<usize>,
    last: Cell<Option<Instant>>,
    news: Notify,
}

struct Subscriber {
    key: hmac::Key,
    last: u64,
}

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// The secret of a subscriber. Each has one of its own.
pub(crate) fn secret(number: usize) -> String {
    format!("secret-of-{number}")
}

impl Subscribers {
    /// Serves on these many ports of loopback.
    pub(crate) async fn serve(
        count: usize,
        origins: usize,
    ) -> io::Result<(Rc<Subscribers>, Vec<SocketAddr>)> {
        let key = |number| hmac::Key::new(hmac::HMAC_SHA256, secret(number).as_bytes());
        let each = (0..count).map(|number| Subscriber { key: key(number), last: 0 });
        let all = Rc::new(Subscribers {
            each: RefCell::new(each.collect()),
            questions: Cell::new(0),
            delivered: Cell::new(0),
            invalid: Cell::new(0),
            repeated: Cell::new(0),
            connections: Cell::new(0),
            last: Cell::new(None),
            news: Notify::new(),
        });
        let mut addresses = Vec::new();
        for _ in 0..origins.max(1) {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            addresses.push(listener.local_addr()?);
            drop(tokio::task::spawn_local(accept(all.clone(), listener)));
        }
        Ok((all, addresses))
    }

    /// Waits until so many deliveries were made, and gives the time of the last.
    pub(crate) async fn until(&self, delivered: usize, wait_max: Duration) -> io::Result<Instant> {
        let end = Instant::now() + wait_max;
        while self.delivered.get() < delivered {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let there = self.delivered.get();
                return Err(io::Error::other(format!("{there} of {delivered} deliveries came")));
            }
            // It looks again at times, since each connection wakes it only at the last of what it read.
            let wait = left.min(Duration::from_millis(100));
            drop(tokio::time::timeout(wait, self.news.notified()).await);
        }
        Ok(self.last.get().unwrap_or_else(Instant::now))
    }

    /// Answers a request.
    fn answer(&self, head: &[u8], body: &[u8], out: &mut Vec<u8>) {
        let target = head.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
        let target = std::str::from_utf8(target).unwrap_or_default();
        if head.starts_with(b"GET ") {
            let challenge = target.split('&').find_map(|pair| pair.strip_prefix("hub.challenge="));
            let challenge = challenge.unwrap_or_default();
            self.questions.set(self.questions.get() + 1);
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\nContent-Length: ");
            out.extend_from_slice(challenge.len().to_string().as_bytes());
            out.extend_from_slice(b"\r\n\r\n");
            out.extend_from_slice(challenge.as_bytes());
            self.news.notify_one();
            return;
        }
        let number = target.rsplit('/').next().and_then(|number| number.parse::<usize>().ok());
        let mut each = self.each.borrow_mut();
        let subscriber = number.and_then(|number| each.get_mut(number));
        let is_valid = subscriber.is_some_and(|subscriber| {
            let id = wire::field(head, b"x-hub-event-id").map(<[u8]>::to_vec);
            let id = id.and_then(|id| String::from_utf8(id).ok()?.parse::<u64>().ok());
            if id.is_none_or(|id| id <= subscriber.last) {
                self.repeated.set(self.repeated.get() + 1);
            }
            subscriber.last = id.unwrap_or_default();
            let signature = wire::field(head, b"x-hub-signature");
            signature.is_some_and(|signature| is_signed(&subscriber.key, signature, body))
        });
        if !is_valid {
            self.invalid.set(self.invalid.get() + 1);
        }
        self.delivered.set(self.delivered.get() + 1);
        out.extend_from_slice(OK);
    }

    async fn serve_one(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        self.connections.set(self.connections.get() + 1);
        let mut received = Vec::new();
        let mut out = Vec::new();
        loop {
            received.reserve(16 << 10);
            if stream.read_buf(&mut received).await? == 0 {
                return Ok(());
            }
            let mut rest = &*received;
            while let Some((head_len, body_len)) = wire::sizes(rest)
                && let Some((request, behind)) = rest.split_at_checked(head_len + body_len)
            {
                let (head, body) = request.split_at(head_len);
                self.answer(head, body, &mut out);
                rest = behind;
            }
            let left = rest.len();
            received.drain(..received.len() - left);
            if !out.is_empty() {
                self.last.set(Some(Instant::now()));
                self.news.notify_one();
                stream.write_all(&out).await?;
                out.clear();
            }
        }
    }
}

async fn accept(all: Rc<Subscribers>, listener: TcpListener) {
    while let Ok((stream, _)) = listener.accept().await {
        let all = all.clone();
        drop(tokio::task::spawn_local(async move { all.serve_one(stream).await }));
    }
}
