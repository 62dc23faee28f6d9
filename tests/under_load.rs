//! Clients of every kind that run while the gateway is changed: requests over both versions of HTTP, streams, a hub and a queue. None of
//! them may be affected.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};

use crate::harness::{Gateway, H2, Message, Origin, Wire, full, until, whole};
use crate::hubs::{bodies, events, json_of, stream};
use crate::new_program::subscribe;
use crate::stream_soak::{KINDS, Service, Shared, Stream, calls, open, yaml as of_streams};
use crate::websub::{LOOPBACK, confirming, texts};

/// The services of a gateway.
pub(crate) struct Behind {
    pub(crate) service: Service,
    calls: Origin,
    origin: Origin,
    callback: Origin,
}

impl Behind {
    pub(crate) fn start() -> Behind {
        let (service, calls, callback) = (Service::start(), calls(), confirming());
        Behind { service, calls, origin: Origin::saying("ok"), callback }
    }

    /// A configuration. Each generation of it changes every route with streams.
    pub(crate) fn yaml(&self, generation: usize) -> String {
        of_streams(&self.service, &self.calls, generation).replace(
            "upstreams:\n",
            &format!("upstreams:\n  origin: {{ targets: [\"{}\"] }}\n", self.origin.url()),
        ) + &format!(
            r#"
  plain: {{ match: {{ path: "/plain" }}, upstream: origin }}
  in: {{ match: {{ path: "/in/**" }}, flow: keep }}
  news: {{ match: {{ path: "/news/**" }}, hub: news }}
store: {{ path: data }}
flows: {{ keep: [{{ store: {{ queue: work }} }}], send: [{{ call: {{ upstream: origin, path: /work }} }}] }}
queues: {{ work: {{ flow: send }} }}
hubs: {{ news: {{ topics: [sports], verify: false{LOOPBACK} }} }}
upgrade: {{ timeout: 60s }}
"#
        )
    }
}

/// All clients, and their results.
pub(crate) struct Clients {
    load: Arc<Load>,
    plain: [JoinHandle<()>; 2],
    published: JoinHandle<Vec<String>>,
    queued: JoinHandle<Vec<String>>,
    reader: Wire,
}

/// The results after all clients have ended.
pub(crate) struct Outcome {
    pub(crate) requests: usize,
    pub(crate) events: usize,
    pub(crate) messages: usize,
    /// Connections that were closed between two requests.
    pub(crate) stale: usize,
    /// The stream of the hub that was open all the time.
    pub(crate) reader: Wire,
}

impl Clients {
    #[track_caller]
    pub(crate) fn start(gateway: &Gateway, behind: &Behind) -> Clients {
        let address = gateway.address("public");
        subscribe(gateway, &behind.callback);
        let (reader, _) = stream(gateway, "?after=0", "");
        let load: Arc<Load> = Arc::default();
        let work = |work: fn(SocketAddr, &Load)| {
            let load = load.clone();
            thread::spawn(move || work(address, &load))
        };
        let plain = [work(plain), work(over_h2)];
        let bodies = |target: &'static str, status: u16| {
            let load = load.clone();
            thread::spawn(move || bodies_to(address, target, status, &load))
        };
        let (published, queued) = (bodies("/news/publish?topic=sports", 200), bodies("/in/x", 202));
        Clients { load, plain, published, queued, reader }
    }

    /// Waits until this many more requests were answered, and returns how many were.
    #[track_caller]
    pub(crate) fn go_on(&self, more: usize) -> usize {
        let done = || self.load.requests.load(Ordering::SeqCst);
        let (before, plain) = (done(), &self.plain);
        let failed = || plain.iter().any(JoinHandle::is_finished);
        until("requests are answered", || done() > before + more || failed());
        assert!(!failed(), "a request failed");
        done()
    }

    /// Ends all clients, and checks that nothing of theirs was lost.
    #[track_caller]
    pub(crate) fn finish(self, gateway: &Gateway, behind: &Behind) -> Outcome {
        let Clients { load, plain, published, queued, mut reader } = self;
        load.stop.store(true, Ordering::SeqCst);
        plain.into_iter().for_each(|client| client.join().expect("no request failed"));
        let published = published.join().expect("nothing that was published failed");
        let queued = queued.join().expect("no message failed");
        // The stream that was open all the time has each event once, in order.
        let read = events(&mut reader, published.len());
        let read: Vec<&str> = read.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        assert_eq!(read, published);
        until("each event is delivered", || {
            let came: HashSet<String> = texts(&behind.callback).into_iter().collect();
            published.iter().all(|body| came.contains(body))
        });
        until("each message is processed", || {
            let is_work = |request: &&Message| request.target() == "/work";
            let came: HashSet<String> =
                behind.origin.requests().iter().filter(is_work).map(Message::text).collect();
            queued.iter().all(|body| came.contains(body))
        });
        let poll = gateway.wire().get("/news/topics/sports?after=0&limit=1");
        assert_eq!(bodies(&json_of(&poll)), ["0"]);
        let count = |of: &AtomicUsize| of.load(Ordering::SeqCst);
        let (requests, stale) = (count(&load.requests), count(&load.stale));
        Outcome { requests, events: published.len(), messages: queued.len(), stale, reader }
    }
}

/// Streams of all kinds that were opened at one time.
pub(crate) struct Generation {
    shared: Shared,
    streams: Vec<Stream>,
}

impl Generation {
    pub(crate) fn open(gateway: &Gateway) -> Generation {
        let shared = Shared::connect(gateway);
        let streams = KINDS.iter().map(|(kind, _)| open(gateway, kind, &shared)).collect();
        Generation { shared, streams }
    }

    /// Sends a message on each stream, and reads the answer.
    #[track_caller]
    pub(crate) fn echo(&mut self) {
        let Generation { shared, streams } = self;
        streams.iter_mut().for_each(|stream| stream.echo(shared));
    }
}

#[derive(Default)]
struct Load {
    stop: AtomicBool,
    requests: AtomicUsize,
    /// The number of connections that were closed between two requests.
    stale: AtomicUsize,
}

impl Load {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::SeqCst)
    }

    fn count(&self) {
        self.requests.fetch_add(1, Ordering::SeqCst);
    }
}

fn post(target: &str, body: &str) -> String {
    format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// Sends requests, in turn on a new connection and on one that is kept for as long as it lasts.
fn plain(address: SocketAddr, load: &Load) {
    let mut kept = Wire::connect(address);
    let ok = |reply: &Message| assert_eq!((reply.status(), &*reply.text()), (200, "ok"));
    while load.goes_on() {
        ok(&Wire::connect(address).get("/plain"));
        // The connection may end with a reply, or be closed before the next request. Then a new one is used.
        kept = match again(kept, load) {
            Some(kept) => kept,
            None => Wire::connect(address),
        };
        load.count();
    }
}

/// Sends another request on a connection. Returns `None` if the connection has ended, which is allowed only between two requests.
fn again(mut kept: Wire, load: &Load) -> Option<Wire> {
    let sent = kept.try_send("GET /plain HTTP/1.1\r\nHost: a\r\n\r\n");
    let Some(mut head) = kept.next_head().filter(|_| sent) else {
        load.stale.fetch_add(1, Ordering::SeqCst);
        return None;
    };
    assert_eq!(head.status(), 200);
    kept.read_request_body(&mut head);
    assert_eq!(head.text(), "ok");
    (!head.lists("connection", "close")).then_some(kept)
}

/// Sends requests on connections of HTTP/2, several on each.
fn over_h2(address: SocketAddr, load: &Load) {
    while load.goes_on() {
        let h2 = H2::connect(address);
        for _ in 0..10 {
            let request = hyper::Request::get(format!("http://{address}/plain"));
            let mut sender = h2.sender.clone();
            let answered = h2.block_on(async {
                sender.ready().await?;
                whole(sender.send_request(request.body(full("")).unwrap()).await?).await
            });
            match answered {
                Ok(reply) => assert_eq!((reply.status, &reply.body[..]), (200, &b"ok"[..])),
                // The gateway has announced that it accepts no more requests on this connection.
                Err(error) => {
                    let why = format!("{error:?}");
                    let is_told =
                        error.is_canceled() || error.is_closed() || why.contains("NO_ERROR");
                    assert!(is_told, "{why}");
                    load.stale.fetch_add(1, Ordering::SeqCst);
                    break;
                }
            }
            load.count();
        }
    }
}

/// Sends bodies to a target, and returns those that were accepted.
fn bodies_to(address: SocketAddr, target: &str, status: u16, load: &Load) -> Vec<String> {
    let mut accepted = Vec::new();
    while load.goes_on() {
        let body = format!("{}", accepted.len());
        let reply = Wire::connect(address).ask(post(target, &body));
        assert_eq!(reply.status(), status, "{reply:?}");
        accepted.push(body);
        load.count();
    }
    accepted
}
