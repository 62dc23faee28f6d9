//! Judges whole exchanges: whatever a client sends, the replies to it and the requests to the upstream can be parsed strictly.

use std::path::Path;

use http1::{Decoder, Limits, parse_request};

use crate::{Client, Gateway, Message, ServiceAnswer, ServiceRequest, Services, run};

/// The only paths that are routed to the upstream. A request for any other path was smuggled.
const PREFIX: &str = "/public/";

/// The longest request head, small enough for a fuzzer to reach.
const HEAD_BYTES_MAX: usize = 2048;

const CONFIGURATION: &str = r#"
listen: { public: { address: "127.0.0.1:0", http2: false, limits: { head_bytes_max: 2KiB } } }
workers: 1
upstreams: { origin: { targets: ["http://192.0.2.10"], breaker: { connections: 1, requests: 1 } } }
routes:
  public:
    match: { path: "/public/**" }
    upstream: origin
    limits: { body_bytes_max: 1KiB }
    policies:
      - cors: { origins: ["*"] }
      - compress: { encodings: [gzip], bytes_min: 1B }
      - headers: { request: { set: { X-User: gateway } }, response: { set: { X-Told: gateway } } }
      - concurrency: { requests: 1 }
      - transform: { query: { remove: [q] }, json: { set: { a: 1 } }, response: { json: { set: { b: 2 } } }, body_bytes_max: 512B }
  fixed: { match: { path: /fixed, methods: [GET, POST] }, respond: { body: "fixed\n" } }
"#;

thread_local! {
    static GATEWAY: Gateway = gateway();
}

fn gateway() -> Gateway {
    let json = "Content-Type: application/json\r\n";
    let services = Services::new(move |asked| match asked.request.method_or_status.as_str() {
        "HEAD" => ServiceAnswer::Reply(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n".to_vec()),
        _ => ServiceAnswer::with(200, json, r#"{"a":"b"}"#),
    });
    Gateway::new(CONFIGURATION, Path::new("/nowhere"), services).expect("it compiles")
}

/// Runs one connection of a client. The first byte selects how the other bytes are sent: 0 sends them only at once; 1 to 16 also sends
/// them in pieces of that size, and a larger number also in two parts, split at that position.
pub fn exchange(bytes: &[u8]) {
    let Some((way, bytes)) = bytes.split_first() else { return };
    GATEWAY.with(|gateway| run(converse(gateway, *way, bytes)));
}

async fn converse(gateway: &Gateway, way: u8, bytes: &[u8]) {
    let heads = heads(bytes);
    let whole = answered(gateway, &Client::sending(bytes), &heads).await;
    let client = match usize::from(way) {
        0 => return,
        piece @ 1..=16 => Client { piece: Some(piece), ..Client::sending(bytes) },
        at => {
            let (front, back) = bytes.split_at(at.min(bytes.len()));
            let sends = vec![front.to_vec(), back.to_vec()];
            Client { sends, piece: Some(usize::MAX), ..Client::default() }
        }
    };
    let pieces = answered(gateway, &client, &heads).await;
    // Later replies may depend on which bytes had arrived when the gateway decided whether to close the connection.
    let first = |replies: &[Message]| replies.first().map(|reply| reply.method_or_status.clone());
    assert_eq!(first(&pieces), first(&whole), "it depends on the pieces: {}", bytes.escape_ascii());
}

/// Returns the replies to a client, after judging all messages to both sides.
async fn answered(gateway: &Gateway, client: &Client, heads: &[bool]) -> Vec<Message> {
    let before = gateway.gauges();
    let outcome = gateway.exchange(client).await;
    let after = gateway.gauges();
    let sent = client.sends.concat();
    let sent = sent.escape_ascii();
    let replies = outcome.replies(heads);
    let replies = replies.unwrap_or_else(|why| panic!("no reply: {why}; to {sent}"));
    assert!(replies.iter().all(|reply| reply.whole), "{replies:?} to {sent}");
    let broken = gateway.services().broken();
    assert!(broken.is_empty(), "the upstream cannot read {broken:?}; of {sent}");
    for asked in gateway.services().take_requests() {
        judge(&asked).unwrap_or_else(|why| panic!("{why}: {asked:?}; of {sent}"));
    }
    assert_eq!((&*after.left, after.panics), (&[][..], 0), "{sent}");
    let records = after.records - before.records;
    assert!(records >= replies.len() as u64, "{records} records of {replies:?} to {sent}");
    replies
}

/// Returns, for each request that the codec can parse in these bytes, whether it is HEAD.
fn heads(mut bytes: &[u8]) -> Vec<bool> {
    let limits = Limits { head_bytes_max: HEAD_BYTES_MAX, ..Limits::default() };
    let mut heads = Vec::new();
    let mut lines = Vec::new();
    while let Ok(Some(head)) = parse_request(bytes, &limits, &mut lines) {
        heads.push(head.method.of(bytes) == b"HEAD");
        let mut decoder = Decoder::new(head.framing);
        let rest = bytes.get(head.head_len..).unwrap_or_default();
        let Ok(taken) = decoder.decode(rest, &mut Vec::new()) else { break };
        bytes = rest.get(taken..).unwrap_or_default();
    }
    heads
}

/// Checks a request that an upstream received.
fn judge(asked: &ServiceRequest) -> Result<(), &'static str> {
    let request = &asked.request;
    // Some servers treat `_` as `-`.
    let count =
        |name: &str| request.lines.iter().filter(|(n, _)| n.replace('_', "-") == name).count();
    let own =
        |name: &str| matches!(request.values(name).collect::<Vec<_>>().as_slice(), [b"gateway"]);
    // Harmless: trailers of tests are ASCII.
    let trailers = String::from_utf8_lossy(&request.trailers).to_lowercase();
    if !request.target.starts_with(PREFIX) {
        Err("a path that no route takes")
    } else if count("content-length") + count("transfer-encoding") > 1 {
        Err("framed twice")
    } else if count("host") != 1 {
        Err("not for one host")
    } else if count("x-user") != 1 || !own("x-user") {
        Err("the client's own x-user")
    } else if trailers.contains("x-user") {
        Err("x-user after the body")
    } else if request.body.len() > 1024 {
        Err("a body over the limit")
    } else {
        Ok(())
    }
}
