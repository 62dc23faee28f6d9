//! Programs replace one another under load and with streams of every kind: no request fails, and every stream continues.
//!
//! `make soak` replaces the program fifty times.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use crate::harness::{Gateway, H2, Message, Origin, Wire, full, until, whole};
use crate::hubs::{bodies, events, json_of, stream};
use crate::new_program::{Successors, subscribe};
use crate::reload_soak::asked;
use crate::stream_soak::{KINDS, Service, Shared, Stream, calls, open, yaml as of_streams};
use crate::websub::{LOOPBACK, confirming, texts};

const UPGRADES: usize = 2;

/// The number of processes whose streams stay open, besides those of the first one, which stay open to the end.
const KEPT: usize = 3;

/// What the clients have done.
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

fn yaml(service: &Service, calls: &Origin, origin: &Origin) -> String {
    of_streams(service, calls, 0).replace(
        "upstreams:\n",
        &format!("upstreams:\n  origin: {{ targets: [\"{}\"] }}\n", origin.url()),
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

#[test]
fn programs_follow_one_another_and_nobody_notices() {
    let upgrades = asked("TIDEGATE_SOAK_UPGRADES", UPGRADES);
    let (service, calls, callback) = (Service::start(), calls(), confirming());
    let origin = Origin::saying("ok");
    let gateway = Gateway::start(yaml(&service, &calls, &origin));
    let successors = Successors(&gateway);
    let address = gateway.address("public");
    subscribe(&gateway, &callback);
    let (mut reader, _) = stream(&gateway, "?after=0", "");
    let mut generations = vec![Generation::open(&gateway)];
    let load: Arc<Load> = Arc::default();
    let work = |work: fn(SocketAddr, &Load)| {
        let load = load.clone();
        thread::spawn(move || work(address, &load))
    };
    let (one, other) = (work(plain), work(over_h2));
    let (published, queued) = {
        let (first, second) = (load.clone(), load.clone());
        (
            thread::spawn(move || bodies_to(address, "/news/publish?topic=sports", 200, &first)),
            thread::spawn(move || bodies_to(address, "/in/x", 202, &second)),
        )
    };
    let mut pid = gateway.pid().as_raw_nonzero().get();
    for number in 1..=upgrades {
        let before = load.requests.load(Ordering::SeqCst);
        pid = successors.replace(pid);
        service.send_events();
        generations.iter_mut().for_each(Generation::echo);
        generations.push(Generation::open(&gateway));
        if generations.len() > KEPT + 1 {
            generations.remove(1);
        }
        until("requests are answered", || load.requests.load(Ordering::SeqCst) > before + 20);
        println!("upgrade {number}: {} requests", load.requests.load(Ordering::SeqCst));
    }
    load.stop.store(true, Ordering::SeqCst);
    one.join().expect("no request failed");
    other.join().expect("no request failed");
    let published = published.join().expect("nothing that was published failed");
    let queued = queued.join().expect("no message failed");
    // The stream of the first process receives each event once, in order.
    let read = events(&mut reader, published.len());
    let read: Vec<&str> = read.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    assert_eq!(read, published);
    until("each event is delivered", || {
        let came: HashSet<String> = texts(&callback).into_iter().collect();
        published.iter().all(|body| came.contains(body))
    });
    until("each message is processed", || {
        let is_work = |request: &&Message| request.target() == "/work";
        let came: HashSet<String> =
            origin.requests().iter().filter(is_work).map(Message::text).collect();
        queued.iter().all(|body| came.contains(body))
    });
    let poll = gateway.wire().get("/news/topics/sports?after=0&limit=1");
    assert_eq!(bodies(&json_of(&poll)), ["0"]);
    println!(
        "{upgrades} upgrades, {} requests, {} events, {} messages; {} connections closed between two requests",
        load.requests.load(Ordering::SeqCst),
        published.len(),
        queued.len(),
        load.stale.load(Ordering::SeqCst)
    );
    drop((generations, reader));
    until("the first one has ended", || gateway.exit_status().is_some());
}

/// The streams of all kinds that were opened in one process.
struct Generation {
    shared: Shared,
    streams: Vec<Stream>,
}

impl Generation {
    fn open(gateway: &Gateway) -> Generation {
        let shared = Shared::connect(gateway);
        let streams = KINDS.iter().map(|(kind, _)| open(gateway, kind, &shared)).collect();
        Generation { shared, streams }
    }

    /// Sends a message on each stream, and reads the answer.
    #[track_caller]
    fn echo(&mut self) {
        let Generation { shared, streams } = self;
        streams.iter_mut().for_each(|stream| stream.echo(shared));
    }
}
