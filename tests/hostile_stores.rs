//! Databases, brokers and stores of limits that lie, stall and break off, at first or later: every wait has an end, nothing is taken from
//! a number that a peer names, and the gateway serves on.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::harness::{Gateway, Origin, Peer, Plain, Postgres, Wire, until};
use crate::hubs::hub;

const PUBLISH: &str = "POST /news/publish?topic=sports HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx";

/// Waits until the other side has gone.
fn hold(peer: &mut Peer) {
    peer.read_to_end();
}

/// A server that sends this to each client, and then nothing.
fn saying(bytes: Vec<u8>) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        peer.try_send(&bytes);
        hold(peer);
    })
}

/// A server that sends this repeatedly without end.
fn endless(first: &'static [u8], then: &'static [u8]) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        peer.try_send(first);
        let many = then.repeat(1000);
        while peer.try_send(&many) {}
    })
}

/// A server that sends a byte now and then.
fn slow() -> Origin {
    Origin::start(move |peer: &mut Peer| {
        while peer.try_send("N") {
            sleep(Duration::from_millis(20));
        }
    })
}

/// Publishes are refused in time, and the gateway serves on with little memory.
#[track_caller]
fn refuses(gateway: &Gateway, what: &str) {
    let began = Instant::now();
    assert_eq!(gateway.wire().ask(PUBLISH).status(), 503, "{what}");
    assert!(began.elapsed() < Duration::from_secs(50), "{what}: {:?}", began.elapsed());
    let page = gateway.wire().get("/news/topics/other");
    assert_eq!(page.status(), 404, "{what}: it serves on");
    assert!(gateway.resident_bytes() < 512 << 20, "{what}");
    assert!(!gateway.log().contains("panic"), "{what}: {}", gateway.log());
}

#[test]
fn a_database_that_lies_or_stalls_is_away() {
    // An answer has a letter, a length and that many bytes.
    let servers = [
        ("silence", saying(Vec::new())),
        ("an end", Origin::start(|_| {})),
        ("a huge length", saying(b"NR\x7f\xff\xff\xff\0\0\0\0".to_vec())),
        ("no length", saying(b"NR\0\0\0\0".to_vec())),
        ("another protocol", saying(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())),
        ("notices without end", endless(b"N", b"N\0\0\0\x0aSx\0\0\0\0")),
        (
            "as many rounds of hashing as fit",
            saying(
                [
                    &b"NR\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0"[..],
                    b"R\0\0\0\x2a\0\0\0\x0br=x,s=AAAAAAAAAAAAAAAA,i=4294967295\0",
                ]
                .concat(),
            ),
        ),
        ("slow bytes", slow()),
    ];
    scope(|scope| {
        for (what, server) in &servers {
            scope.spawn(move || {
                let url = format!("postgres://a:b@{}/c?connect_timeout=2", server.address());
                let gateway =
                    Gateway::start(format!("{}store: {{ postgres: \"{url}\" }}\n", hub("")));
                gateway.wait_for_log("store: not available");
                refuses(&gateway, what);
            });
        }
    });
}

/// Answers each request of Kafka's protocol by its kind. The answer follows the length and the request's number.
fn broker(answer: impl Fn(i16, &[u8], u16) -> Vec<u8> + Send + Sync + 'static) -> Origin {
    let own = Arc::<OnceLock<u16>>::default();
    let known = own.clone();
    let origin = Origin::start(move |peer: &mut Peer| {
        let port = *known.get().unwrap();
        while let Some(len) = peer.read_exact(4) {
            let len = u32::from_be_bytes(len.try_into().unwrap());
            let Some(request) = peer.read_exact(usize::try_from(len).unwrap()) else { return };
            let kind = i16::from_be_bytes([request[0], request[1]]);
            let number = &request[4..8];
            let said = match kind {
                // The versions of all requests: Produce, Fetch, ListOffsets, Metadata, CreateTopics, InitProducerId.
                18 => {
                    let known = [(0_i16, 9_i16), (1, 12), (2, 7), (3, 9), (19, 7), (22, 4)];
                    let mut said = [number, &[0, 0, 0, 0, 0, 6]].concat();
                    for (kind, newest) in known {
                        for number in [kind, 0, newest] {
                            said.extend(number.to_be_bytes());
                        }
                    }
                    said
                }
                kind => answer(kind, number, port),
            };
            if said.is_empty() {
                return hold(peer);
            }
            let len = u32::try_from(said.len()).unwrap().to_be_bytes();
            if !peer.try_send([&len[..], &said].concat()) {
                return;
            }
        }
    });
    own.set(origin.address().port()).unwrap();
    origin
}

/// An answer of Metadata in version 9: one broker, which leads a topic of this name.
fn metadata(number: &[u8], port: u16, topic: &str) -> Vec<u8> {
    let len = |text: &str| u8::try_from(text.len() + 1).unwrap();
    let host = "127.0.0.1";
    [
        number,
        &[0, 0, 0, 0, 0, 2, 0, 0, 0, 1, len(host)],
        host.as_bytes(),
        &u32::from(port).to_be_bytes(),
        // No rack, no tags; no cluster, and a controller; one topic without an error.
        &[0, 0, 0, 0, 0, 0, 1, 2, 0, 0, len(topic)],
        topic.as_bytes(),
        // Not internal; one partition without an error, led by 1, at no epoch, without replicas, and no tags.
        &[0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0],
        &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    ]
    .concat()
}

#[test]
fn a_broker_that_lies_or_stalls_is_away() {
    let servers = [
        ("silence", saying(Vec::new())),
        ("an end", Origin::start(|_| {})),
        ("a huge length", saying(vec![0x7f, 0xff, 0xff, 0xff, 0])),
        ("slow bytes", slow()),
        ("another number", broker(|_, _, _| vec![0xff; 32])),
        ("no answer to what matters", broker(|_, _, _| Vec::new())),
        (
            "a list of thousands of millions",
            broker(|_, number, _| {
                [number, &[0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0, 0, 0]].concat()
            }),
        ),
        (
            "another topic",
            broker(|kind, number, port| match kind {
                3 => metadata(number, port, "other"),
                _ => Vec::new(),
            }),
        ),
        (
            "a leader that answers nothing",
            broker(|kind, number, port| match kind {
                3 => metadata(number, port, "tg.sports"),
                _ => Vec::new(),
            }),
        ),
        (
            "a topic that is another in the answer to a write",
            broker(|kind, number, port| match kind {
                3 => metadata(number, port, "tg.sports"),
                // The producer has the number 7.
                22 => [number, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0]].concat(),
                // One topic `x` with one partition, written at 0.
                0 => [number, &[0, 2, 2, b'x', 2], &[0; 30], &[1, 0, 0, 0, 0, 0, 0, 0, 0]].concat(),
                _ => Vec::new(),
            }),
        ),
    ];
    scope(|scope| {
        for (what, server) in &servers {
            scope.spawn(move || {
                let brokers =
                    format!("brokers: [\"{}\"], topics_prefix: \"tg.\"", server.address());
                let gateway = Gateway::start(hub(&format!(", log: {{ kafka: {{ {brokers} }} }}")));
                refuses(&gateway, what);
            });
        }
    });
}

#[test]
fn a_store_of_limits_that_lies_or_stalls_is_away() {
    let origin = Origin::saying("ok");
    let servers = [
        ("silence", saying(Vec::new())),
        ("an end", Origin::start(|_| {})),
        ("a text of gigabytes", saying(b"$99999999999\r\n".to_vec())),
        ("a list of millions", saying(b"*99999999\r\n".to_vec())),
        ("lists in lists", saying(b"*1\r\n".repeat(10_000))),
        ("a line without end", endless(b"+", b"xxxxxxxx")),
        ("answers to nobody", endless(b"", b"+OK\r\n")),
        ("the largest numbers", endless(b"", b"*2\r\n:1\r\n:18446744073709551615\r\n")),
        ("slow bytes", slow()),
    ];
    scope(|scope| {
        for (what, server) in &servers {
            let origin = &origin;
            scope.spawn(move || {
                let route = "policies: [{ rate_limit: { requests: 1000, per: 1s, burst: 5, by: route, shared: ours } }]";
                let more = format!(
                    "admin: {{ address: \"127.0.0.1:0\" }}\nstores: {{ ours: {{ redis: \"redis://{}\", interval: 20ms, timeout: 500ms }} }}",
                    server.address()
                );
                let gateway = Plain { route, more: &more, ..Plain::default() }.start(origin);
                until(what, || gateway.wire().get("/").status() == 200);
                let began = Instant::now();
                for _ in 0..3 {
                    let status = gateway.wire().get("/").status();
                    assert!(status == 200 || status == 429, "{what}: {status}");
                }
                assert!(began.elapsed() < Duration::from_secs(20), "{what}: {:?}", began.elapsed());
                assert!(gateway.resident_bytes() < 256 << 20, "{what}");
                assert!(!gateway.log().contains("panic"), "{what}: {}", gateway.log());
            });
        }
    });
}

/// Answers the questions of a store of limits with how far ahead each key is, in microseconds.
fn counting(ahead: impl Fn() -> String + Send + Sync + 'static) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        while let Some(parts) = command(peer) {
            let said = match parts.first().map(String::as_str) {
                Some("EVAL") => {
                    let keys: usize = parts[2].parse().unwrap();
                    let asks = parts[1].contains("passes");
                    let (each, ahead) = (if asks { ":1\r\n" } else { "" }, ahead());
                    let number = format!("{each}${}\r\n{ahead}\r\n", ahead.len());
                    let count = if asks { 2 * keys } else { keys };
                    format!("*{count}\r\n{}", number.repeat(keys))
                }
                _ => "+PONG\r\n".to_owned(),
            };
            if !peer.try_send(said) {
                return;
            }
        }
    })
}

/// The next command of a client of Redis.
fn command(peer: &mut Peer) -> Option<Vec<String>> {
    let mut line = |first: char| {
        let line = String::from_utf8(peer.read_until(b"\r\n")?).ok()?;
        line.strip_prefix(first)?.trim().parse::<usize>().ok()
    };
    let count = line('*')?;
    let mut parts = Vec::new();
    for _ in 0..count {
        let line = String::from_utf8(peer.read_until(b"\r\n")?).ok()?;
        let len: usize = line.strip_prefix('$')?.trim().parse().ok()?;
        let mut part = peer.read_exact(len + 2)?;
        part.truncate(len);
        parts.push(String::from_utf8(part).ok()?);
    }
    Some(parts)
}

/// Its clock may have been set back, or another server has taken its place.
#[test]
fn a_store_of_limits_that_was_wrong_once_locks_nobody_out() {
    let origin = Origin::saying("ok");
    for wrong in ["18446744073709551615", "3600000000"] {
        let is_wrong = Arc::new(AtomicBool::new(true));
        let lies = is_wrong.clone();
        let server =
            counting(
                move || if lies.load(Ordering::SeqCst) { wrong.to_owned() } else { "0".to_owned() },
            );
        let route = "policies: [{ rate_limit: { requests: 1000, per: 1s, burst: 5, by: route, shared: ours } }]";
        let more = format!("stores: {{ ours: {{ redis: \"redis://{}\" }} }}", server.address());
        let gateway = Plain { route, more: &more, ..Plain::default() }.start(&origin);
        until("it lies", || gateway.wire().get("/").status() == 429);
        let reply = gateway.wire().get("/");
        assert!(matches!(reply.get("retry-after"), None | Some("1")), "{wrong}: {reply:?}");
        is_wrong.store(false, Ordering::SeqCst);
        until("its word is forgotten", || gateway.wire().get("/").status() == 200);
    }
}

/// The sum of a batch of Kafka (CRC-32C).
fn sum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| match sum & 1 {
            1 => sum >> 1 ^ 0x82f6_3b78,
            _ => sum >> 1,
        })
    })
}

/// A number in groups of seven bits.
fn groups(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push(u8::try_from(number & 0x7f).unwrap() | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap());
    bytes
}

/// A signed number.
fn signed(number: usize) -> Vec<u8> {
    groups(number * 2)
}

/// A batch with one record: `hello`, with these headers, in this number.
fn record_batch(headers: &[u8], count: usize) -> Vec<u8> {
    let record = [&[0, 0, 0, 1][..], &signed(5), b"hello", &signed(count), headers].concat();
    let mut rest = vec![0; 40];
    // No producer; one record.
    rest[22..36].fill(0xff);
    rest[39] = 1;
    rest.extend([signed(record.len()), record].concat());
    let len = u32::try_from(rest.len() + 9).unwrap().to_be_bytes();
    [&[0; 8][..], &len, &[0; 4], &[2], &sum(&rest).to_be_bytes(), &rest].concat()
}

/// An answer of Fetch in version 12 with this of `tg.sports`, which has one message.
fn fetched(number: &[u8], batch: &[u8]) -> Vec<u8> {
    let ends = [&[0; 7][..], &[1], &[0; 7], &[1], &[0; 8]].concat();
    let partition = [&[0; 6][..], &ends, &[0, 0xff, 0xff, 0xff, 0xff]].concat();
    let records = [&groups(batch.len() + 1), batch].concat();
    let topic = [&[2, 10][..], b"tg.sports", &[2], &partition, &records, &[0; 3]].concat();
    [number, &[0; 11], &topic].concat()
}

/// An answer of ListOffsets in version 7: the next message of `tg.sports` has the offset 1.
fn ended(number: &[u8]) -> Vec<u8> {
    let partition = [&[0; 21][..], &[1], &[0; 5]].concat();
    [number, &[0; 5], &[2, 10], b"tg.sports", &[2], &partition, &[0; 2]].concat()
}

/// A broker whose topic has this.
fn with_batch(batch: Vec<u8>) -> Origin {
    broker(move |kind, number, port| match kind {
        3 => metadata(number, port, "tg.sports"),
        2 => ended(number),
        1 => fetched(number, &batch),
        _ => Vec::new(),
    })
}

/// Any producer of a topic can choose the headers of its messages.
#[test]
fn headers_of_messages_in_kafka_cannot_become_other_lines() {
    let header = |name: &str, value: &str| {
        [&signed(name.len()), name.as_bytes(), &signed(value.len()), value.as_bytes()].concat()
    };
    let many = vec![0; 6_000_000];
    for (what, headers, count, expected) in [
        ("good ones", header("ce_id", "7"), 1, Some("{\"ce-id\":\"7\"}")),
        ("a name with a line end", header("ce_a\r\ntransfer-encoding", "chunked"), 1, None),
        ("a name with a colon", header("ce_a: b", "c"), 1, None),
        ("a value with a line end", header("ce_a", "b\r\nhost: c"), 1, None),
        ("a type with a line end", header("content-type", "a/b\r\nhost: c"), 1, None),
        ("a type that is too long", header("content-type", &"x".repeat(70_000)), 1, None),
    ] {
        let batch = record_batch(&headers, count);
        let server = with_batch(batch);
        let page = page_of(&server);
        assert!(page.contains("\"body\":\"hello\""), "{what}: {page}");
        assert!(page.contains("\"type\":\"application/octet-stream\""), "{what}: {page}");
        let headers = page.split("\"headers\":").nth(1);
        let headers = headers.and_then(|rest| Some(&rest[..=rest.find('}')?]));
        assert_eq!(headers, expected, "{what}: {page}");
    }
    // Three million headers in two bytes each.
    let batch = record_batch(&many, many.len() / 2);
    let server = with_batch(batch);
    let gateway = in_kafka(&server);
    let page = gateway.wire().get("/news/topics/sports?after=0");
    assert!(page.status() == 200 && page.text().contains("\"events\":[]"), "{page:?}");
    assert!(gateway.peak_bytes() < 256 << 20, "{}", gateway.peak_bytes());
    gateway.wait_for_log("a batch in Kafka cannot be read and is skipped");
}

fn in_kafka(server: &Origin) -> Gateway {
    let brokers = format!("brokers: [\"{}\"], topics_prefix: \"tg.\"", server.address());
    Gateway::start(hub(&format!(", log: {{ kafka: {{ {brokers} }} }}")))
}

fn page_of(server: &Origin) -> String {
    in_kafka(server).wire().get("/news/topics/sports?after=0").text()
}

/// A proxy to a database, which can be made silent.
struct Way {
    entry: Origin,
    is_silent: Arc<AtomicBool>,
}

impl Way {
    fn to(postgres: &Postgres) -> Way {
        let is_silent = Arc::new(AtomicBool::new(false));
        let (silent, port) = (is_silent.clone(), postgres.port());
        let entry = Origin::start(move |peer: &mut Peer| {
            let mut back = peer.second();
            let mut there = Wire::connect(([127, 0, 0, 1], port).into());
            let mut answers = there.second();
            let quiet = silent.clone();
            let answering = std::thread::spawn(move || {
                while let Some(bytes) = answers.read_some() {
                    // Earlier data is still forwarded.
                    if quiet.load(Ordering::SeqCst) || !back.try_send(bytes) {
                        return;
                    }
                }
            });
            while let Some(bytes) = peer.read_some() {
                if silent.load(Ordering::SeqCst) {
                    continue;
                }
                if !there.try_send(bytes) {
                    break;
                }
            }
            there.shut();
            answering.join().unwrap();
        });
        Way { entry, is_silent }
    }

    fn falls_silent(&self) {
        self.is_silent.store(true, Ordering::SeqCst);
    }

    fn url(&self, postgres: &Postgres) -> String {
        let port = postgres.port().to_string();
        postgres.url().replace(&port, &self.entry.address().port().to_string())
    }
}

/// It does not hear that the statement is to be cancelled either.
#[test]
fn a_statement_at_a_database_that_falls_silent_takes_no_longer_than_it_may() {
    let postgres = Postgres::start();
    let way = Way::to(&postgres);
    let gateway = Gateway::start(format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n\
         databases: {{ shop: {{ url: \"{}\", timeout: 1s, connections: 1 }} }}\n\
         routes: {{ one: {{ match: {{ path: /one }}, flow: one }} }}\n\
         flows: {{ one: [{{ sql: {{ database: shop, query: \"select 1 as a\" }} }}] }}\n",
        way.url(&postgres)
    ));
    assert_eq!(gateway.wire().get("/one").status(), 200);
    way.falls_silent();
    let began = Instant::now();
    assert_eq!(gateway.wire().get("/one").status(), 504);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
}

/// Reads share a few connections. When the database becomes silent, none of them waits for all the others.
#[test]
fn those_who_look_into_a_store_that_falls_silent_wait_together() {
    let postgres = Postgres::start();
    let way = Way::to(&postgres);
    let gateway =
        Gateway::start(format!("{}store: {{ postgres: \"{}\" }}\n", hub(""), way.url(&postgres)));
    until("it is there", || gateway.wire().ask(PUBLISH).status() == 200);
    way.falls_silent();
    let began = Instant::now();
    scope(|scope| {
        for _ in 0..24 {
            scope.spawn(|| {
                let page = gateway.wire().get("/news/topics/sports?after=0");
                assert_eq!(page.status(), 503);
            });
        }
    });
    assert!(began.elapsed() < Duration::from_secs(45), "{:?}", began.elapsed());
}

/// Publishes, and gives the answer with the time that it took.
fn timed(gateway: &Gateway) -> (crate::harness::Message, Duration) {
    let began = Instant::now();
    let reply = gateway.wire().ask(PUBLISH);
    (reply, began.elapsed())
}

/// The wait for an answer about a write, with some seconds for a busy machine.
const WRITE_MAX: Duration = Duration::from_secs(22);
const UNKNOWN: &str = "It is not known whether this was stored.";

/// A commit without an answer may have happened, and the publisher is told so. Later writes are refused at once.
#[test]
fn a_commit_that_stalls_is_answered_in_time_with_what_is_known() {
    let postgres = Postgres::start();
    let store = format!("store: {{ postgres: \"{}\" }}\n", postgres.url());
    let gateway = Gateway::start(format!("{}{store}", hub("")));
    until("it is there", || gateway.wire().ask(PUBLISH).status() == 200);
    let before = events(&gateway);
    // No replica has this name, so every commit waits.
    postgres.sql("alter system set synchronous_standby_names = 'nobody'");
    postgres.sql("select pg_reload_conf()");
    let reload = postgres.sql("select pg_sleep(1), current_setting('synchronous_standby_names')");
    assert!(reload.ends_with("nobody"), "{reload}");
    let (first, second) = scope(|scope| {
        let first = scope.spawn(|| timed(&gateway));
        sleep(Duration::from_millis(500));
        let second = scope.spawn(|| timed(&gateway));
        (first.join().unwrap(), second.join().unwrap())
    });
    assert_eq!(first.0.status(), 503, "{:?}", first.0);
    // The gateway itself may be writing before the first event. Then the first event is not sent either, like the second.
    let is_sent = first.0.text().contains(UNKNOWN);
    assert_eq!(second.0.status(), 503, "{:?}", second.0);
    assert!(!second.0.text().contains(UNKNOWN), "{:?}", second.0);
    for (_, took) in [&first, &second] {
        assert!(*took < WRITE_MAX, "{took:?}");
    }
    postgres.sql("alter system reset synchronous_standby_names");
    postgres.sql("select pg_reload_conf()");
    until("it is back", || gateway.wire().ask(PUBLISH).status() == 200);
    // The event that was just stored, and the first one if it was sent and its commit happened.
    let after = events(&gateway);
    assert!((before + 1..=before + 1 + usize::from(is_sent)).contains(&after), "{before} {after}");
}

/// While another session blocks the writers, nothing is written, and waiting clients are answered within a bounded
/// time.
#[test]
fn a_store_that_is_locked_is_answered_in_time() {
    let postgres = Postgres::start();
    let store = format!("store: {{ postgres: \"{}\" }}\n", postgres.url());
    let gateway = Gateway::start(format!("{}{store}", hub("")));
    until("it is there", || gateway.wire().ask(PUBLISH).status() == 200);
    let before = events(&gateway);
    let held = postgres.hold("begin; select from tidegate.head where one for update");
    let (reply, took) = timed(&gateway);
    assert_eq!(reply.status(), 503, "{reply:?}");
    assert!(took < WRITE_MAX && !reply.text().contains(UNKNOWN), "{took:?} {reply:?}");
    drop(held);
    until("it is back", || gateway.wire().ask(PUBLISH).status() == 200);
    assert_eq!(events(&gateway), before + 1);
}

/// The server accepts the data, and its answers are lost.
#[test]
fn a_publisher_at_a_database_that_falls_silent_is_answered_in_time() {
    let postgres = Postgres::start();
    let way = Way::to(&postgres);
    let store = format!("store: {{ postgres: \"{}\" }}\n", way.url(&postgres));
    let gateway = Gateway::start(format!("{}{store}", hub("")));
    until("it is there", || gateway.wire().ask(PUBLISH).status() == 200);
    way.falls_silent();
    let (reply, took) = timed(&gateway);
    assert_eq!(reply.status(), 503, "{reply:?}");
    assert!(took < WRITE_MAX, "{took:?}");
    let (reply, took) = timed(&gateway);
    assert_eq!(reply.status(), 503, "{reply:?}");
    assert!(took < Duration::from_secs(2), "it is known to be away: {took:?}");
}

/// The number of events that are kept.
fn events(gateway: &Gateway) -> usize {
    crate::hubs::bodies(&crate::hubs::poll(gateway, "?after=0")).len()
}
