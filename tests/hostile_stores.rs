//! Databases, brokers and stores of limits that lie, stall and break off: every wait has an end, nothing is taken from a number that a
//! peer names, and the gateway serves on.

use std::sync::{Arc, OnceLock};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::harness::{Gateway, Origin, Peer, Plain, until};
use crate::hubs::hub;

const PUBLISH: &str = "POST /news/publish?topic=sports HTTP/1.1\r\nHost: h\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx";

/// Waits until the other side has gone.
fn hold(peer: &mut Peer) {
    peer.read_to_end();
}

/// A server that says this to whoever connects, and then nothing.
fn saying(bytes: Vec<u8>) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        peer.try_send(&bytes);
        hold(peer);
    })
}

/// A server that goes on with this for ever.
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
    // An answer has a letter, a length and so many bytes.
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
                gateway.wait_for_log("store: away");
                refuses(&gateway, what);
            });
        }
    });
}

/// Answers each request of Kafka's protocol, by its kind, with what comes behind the length and its number.
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
