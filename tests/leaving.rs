//! Open streams that have to end: their route changes, they are old, or the gateway stops. `routes.NAME.streams`.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::harness::{Gate, Gateway, H2, Origin, Peer, Wire, full, until, whole};
use crate::reload::put_ok;

/// A Close frame with 1001, as a server sends it.
const GOING_AWAY: [u8; 4] = [0x88, 2, 0x03, 0xe9];
/// A client's answer, with the mask 0.
const ANSWER: [u8; 8] = [0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9];
const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// At `/sse`, sends an event, and another one once the gate opens. At `/half`, sends an event and a half, and later the rest and more.
/// At `/late`, sends all of that only later. At `/call`, answers a call with one message and then nothing. Upgrades `/ws`, echoes data, and answers a Close frame. At `/deaf`, does not answer. At
/// `/parts`, sends the beginning of a message, and the rest with another message once the gate opens. `/raw` uses another protocol.
struct Service {
    origin: Origin,
    gate: Gate,
    /// The codes in the Close frames that came.
    closed: Arc<Mutex<Vec<u16>>>,
}

impl Service {
    fn start() -> Service {
        let (gate, closed) = (Gate::default(), Arc::<Mutex<Vec<u16>>>::default());
        let (opens, codes) = (gate.clone(), closed.clone());
        let origin = Origin::start(move |peer: &mut Peer| {
            let Some(request) = peer.request() else { return };
            let kind = request.target().rsplit('/').next().unwrap_or_default().to_owned();
            let protocol = if kind == "raw" { "raw" } else { "websocket" };
            let switch = format!(
                "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: {protocol}\r\n\r\n"
            );
            match kind.as_str() {
                "sse" => {
                    peer.send(format!("{EVENTS}9\r\ndata: 1\n\n\r\n"));
                    opens.wait();
                    // The stream may be over by then.
                    peer.try_send("9\r\ndata: 2\n\n\r\n");
                }
                "half" => {
                    peer.send(format!("{EVENTS}f\r\ndata: 1\n\ndata: \r\n"));
                    opens.wait();
                    peer.try_send("c\r\n2\n\ndata: 3\n\n\r\n");
                }
                "call" => {
                    peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n\0\0\0\0\0\r\n");
                    opens.wait();
                }
                "late" => {
                    opens.wait();
                    peer.send(format!("{EVENTS}9\r\ndata: 1\n\n\r\n"));
                }
                "parts" => {
                    peer.send(format!("{switch}\x01\x02ab"));
                    opens.wait();
                    peer.send([&[0x80, 2][..], b"cd", &[0x81, 2], b"ef"].concat());
                    answer(peer, &codes);
                }
                "ws" => {
                    peer.send(switch);
                    answer(peer, &codes);
                }
                _ => peer.send(switch),
            }
            peer.read_to_end();
        });
        Service { origin, gate, closed }
    }

    fn closed(&self) -> Vec<u16> {
        self.closed.lock().unwrap().clone()
    }
}

/// Sends back the payload of short messages, up to a Close frame, which it notes and answers.
fn answer(peer: &mut Peer, codes: &Mutex<Vec<u16>>) {
    while let Some(header) = peer.read_exact(6) {
        assert_eq!(header[1] & 0x80, 0x80, "a client's frame has a mask");
        let payload = peer.read_exact(usize::from(header[1] & 0x7f)).unwrap();
        let payload: Vec<u8> =
            payload.iter().zip(header[2..].iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        peer.send([&[header[0], header[1] & 0x7f], &payload[..]].concat());
        if header[0] == 0x88 {
            codes.lock().unwrap().push(u16::from_be_bytes([payload[0], payload[1]]));
            return;
        }
    }
}

/// Below `/a` a route that `change` is part of, below `/b` one that is always the same; both with these `streams`.
fn yaml(service: &Service, streams: &str, change: &str) -> String {
    let rest = format!("streams: {streams}, upstream: origin");
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         drain: {{ delay: 0s }}\nshutdown: {{ drain: 10m }}\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes:\n  \
         a: {{ match: {{ path: \"/a/**\" }}, policies: [{{ headers: {{ response: {{ set: {{ x-a: {change} }} }} }} }}], {rest} }}\n  \
         b: {{ match: {{ path: \"/b/**\" }}, {rest} }}\n",
        service.origin.url()
    )
}

fn events(gateway: &Gateway, path: &str, first: &str) -> Wire {
    let mut wire = gateway.wire();
    wire.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(wire.read_head().status(), 200);
    assert_eq!(wire.read_chunk().as_deref(), Some(first.as_bytes()));
    wire
}

fn tunnel(gateway: &Gateway, path: &str) -> Wire {
    let mut wire = gateway.wire();
    let protocol = if path.ends_with("raw") { "raw" } else { "websocket" };
    wire.send(format!(
        "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: {protocol}\r\n\r\n"
    ));
    assert_eq!(wire.read_head().status(), 101);
    wire
}

fn events_by_h2(h2: &H2, path: &str) -> hyper::Response<hyper::body::Incoming> {
    let request = hyper::Request::get(format!("http://a.test{path}")).body(full("")).unwrap();
    h2.block_on(h2.sender.clone().send_request(request)).unwrap()
}

/// A message goes there and back.
fn is_alive(websocket: &mut Wire) -> bool {
    websocket.send([&[0x81, 0x82, 0, 0, 0, 0][..], b"hi"].concat());
    websocket.read_exact(4).as_deref() == Some(&[0x81, 2, b'h', b'i'])
}

/// The client gets a Close frame, answers, and the connection ends.
#[track_caller]
fn goes_away(websocket: &mut Wire) {
    assert_eq!(websocket.read_exact(4).as_deref(), Some(&GOING_AWAY[..]));
    websocket.send(ANSWER);
    assert!(websocket.is_closed());
}

#[test]
fn streams_of_a_changed_route_are_kept() {
    // A later setting does not change a stream that began before.
    for streams in ["{}", "{ reload: keep }"] {
        let service = Service::start();
        let gateway = Gateway::start(yaml(&service, streams, "1"));
        let mut events = events(&gateway, "/a/half", "data: 1\n\ndata: ");
        let mut websocket = tunnel(&gateway, "/a/ws");
        put_ok(&gateway, &yaml(&service, "{ reload: close, drain: 1ms }", "2"));
        assert!(is_alive(&mut websocket));
        service.gate.open();
        assert_eq!(events.read_chunk().as_deref(), Some(&b"2\n\ndata: 3\n\n"[..]));
        assert!(events.is_silent_for(Duration::from_millis(50)) && is_alive(&mut websocket));
        assert!(service.closed().is_empty());
    }
}

#[test]
fn streams_of_a_changed_route_are_closed() {
    let close = "{ reload: close }";
    let service = Service::start();
    let same = yaml(&service, close, "1");
    let changed = yaml(&service, close, "2");
    let removed = same.replace("/a/**", "/c/**").replace("  a:", "  c:");
    let upstream = same.replace("targets", "timeout: { connect: 3s }, targets");
    // The last one changes both.
    for (name, after, is_other_kept) in
        [("changed", changed, true), ("removed", removed, true), ("upstream", upstream, false)]
    {
        let gateway = Gateway::start(&same);
        let mut ended = events(&gateway, "/a/sse", "data: 1\n\n");
        let mut kept = events(&gateway, "/b/sse", "data: 1\n\n");
        let (mut gone, mut stays) = (tunnel(&gateway, "/a/ws"), tunnel(&gateway, "/b/ws"));
        let h2 = H2::connect(gateway.address("public"));
        let reply = events_by_h2(&h2, "/a/sse");
        put_ok(&gateway, &same.replace("workers: 2", "workers: 2 # the same"));
        assert!(is_alive(&mut gone) && is_alive(&mut stays), "{name}");

        put_ok(&gateway, &after);
        assert_eq!(ended.read_chunk(), None, "{name}: a last chunk");
        let reply = h2.block_on(whole(reply)).expect("an end, and no reset");
        assert_eq!(&reply.body[..], b"data: 1\n\n");
        goes_away(&mut gone);
        if is_other_kept {
            assert!(is_alive(&mut stays) && kept.is_silent_for(Duration::from_millis(20)));
        } else {
            assert_eq!(kept.read_chunk(), None);
            goes_away(&mut stays);
        }
    }
    until("the service heard of each", || service.closed() == [1001; 4]);
}

#[test]
fn an_event_and_a_message_that_have_begun_end_first() {
    let service = Service::start();
    let gateway = Gateway::start(yaml(&service, "{ reload: close }", "1"));
    let mut half = events(&gateway, "/a/half", "data: 1\n\ndata: ");
    let mut parts = tunnel(&gateway, "/a/parts");
    assert_eq!(parts.read_exact(4).as_deref(), Some(&b"\x01\x02ab"[..]));
    // The client is within a frame.
    parts.send([0x81, 0x83, 0, 0, 0]);
    let mut late = gateway.wire();
    late.send("GET /a/late HTTP/1.1\r\nHost: a\r\n\r\n");
    service.origin.wait_for_requests(3);
    put_ok(&gateway, &yaml(&service, "{ reload: close }", "2"));
    for wire in [&mut half, &mut parts, &mut late] {
        assert!(wire.is_silent_for(Duration::from_millis(20)));
    }
    service.gate.open();
    assert_eq!(half.read_chunk().as_deref(), Some(&b"2\n\n"[..]));
    assert_eq!(half.read_chunk(), None);
    assert_eq!(parts.read_exact(4).as_deref(), Some(&b"\x80\x02cd"[..]));
    assert_eq!(parts.read_exact(4).as_deref(), Some(&GOING_AWAY[..]));
    // Bytes that its peer sends before its goodbye are not lost.
    assert!(service.closed().is_empty());
    parts.send(b"\0abc");
    parts.send(ANSWER);
    until("the service is told behind the message", || service.closed() == [1001]);
    assert!(parts.is_closed());
    // A stream that began before the change, and was answered after it, has no event in progress.
    assert_eq!(late.read_head().status(), 200);
    assert_eq!(late.read_chunk(), None);
}

/// A policy looks into what passes; below `/c` with these `streams`.
fn with_policy(service: &Service, streams: &str, change: &str) -> String {
    let policies = format!(
        "policies: [{{ websocket: {{ messages: 1000, per: 1h }} }}, {{ headers: {{ response: {{ set: {{ x-a: {change} }} }} }} }}]"
    );
    yaml(service, streams, "1")
        + &format!(
            "  c: {{ match: {{ path: \"/c/**\" }}, {policies}, streams: {streams}, upstream: origin }}\n"
        )
}

/// A frame of a client with two bytes, and the same as the service sends it back.
fn part(first: u8, payload: [u8; 2]) -> (Vec<u8>, Vec<u8>) {
    ([&[first, 0x82, 0, 0, 0, 0], &payload[..]].concat(), [&[first, 2], &payload[..]].concat())
}

#[test]
fn a_message_that_has_begun_ends_first_under_a_policy_too() {
    let service = Service::start();
    let gateway = Gateway::start(with_policy(&service, "{ reload: close, drain: 10m }", "1"));
    let mut websocket = tunnel(&gateway, "/c/ws");
    let ((begun, begun_back), (rest, rest_back)) = (part(1, *b"ab"), part(0x80, *b"cd"));
    websocket.send(begun);
    assert_eq!(websocket.read_exact(4), Some(begun_back));
    put_ok(&gateway, &with_policy(&service, "{ reload: close, drain: 10m }", "2"));
    assert!(websocket.is_silent_for(Duration::from_millis(20)));
    // No data follows the end of the message, which alone shows that a Close frame can be sent.
    websocket.send(rest);
    assert_eq!(websocket.read_exact(4), Some(rest_back));
    let (goodbye, reason) = (websocket.read_exact(2).unwrap(), websocket.read_exact(2).unwrap());
    assert_eq!((goodbye, reason), (vec![0x88, 2], vec![0x03, 0xe9]));
    websocket.send(ANSWER);
    assert!(websocket.is_closed());
    until("the service is told", || service.closed() == [1001]);
}

#[test]
fn what_is_cut_within_a_message_is_told_as_well() {
    let service = Service::start();
    let gateway = Gateway::start(with_policy(&service, "{ max_age: 1500ms, drain: 200ms }", "1"));
    for path in ["/a/ws", "/c/ws"] {
        let mut websocket = tunnel(&gateway, path);
        let (begun, back) = part(1, *b"ab");
        websocket.send(begun);
        assert_eq!(websocket.read_exact(4), Some(back), "{path}");
        assert_eq!(websocket.read_exact(4).as_deref(), Some(&GOING_AWAY[..]), "{path}");
        assert!(websocket.is_closed(), "{path}");
    }
    until("the service is told of both", || service.closed() == [1001; 2]);
}

#[test]
fn streams_end_at_their_age() {
    let age = Duration::from_millis(1500);
    let service = Service::start();
    let gateway = Gateway::start(yaml(&service, "{ max_age: 1500ms, drain: 100ms }", "1"));
    let start = Instant::now();
    let mut events = events(&gateway, "/a/sse", "data: 1\n\n");
    let (mut websocket, mut raw) = (tunnel(&gateway, "/a/ws"), tunnel(&gateway, "/a/raw"));
    assert_eq!(events.read_chunk(), None);
    assert!(start.elapsed() >= age);
    goes_away(&mut websocket);
    assert!(raw.is_closed());
    assert!(start.elapsed() >= age + Duration::from_millis(100));
    // Its connection stays open.
    assert_eq!(events.read_until(b"\n").as_deref(), Some(&b"\r\n"[..]));
    assert_eq!(events.get("/nothing").status(), 404);
}

#[test]
fn a_call_without_a_reply_leaves_a_changed_route() {
    let service = Service::start();
    let streams = "{ reload: close, drain: 1ms }";
    let gateway = Gateway::start(yaml(&service, streams, "1"));
    let call = |path: &str| {
        let mut wire = gateway.wire();
        let lines = "Host: a\r\nContent-Type: application/grpc\r\nContent-Length: 0";
        wire.send(format!("POST {path} HTTP/1.1\r\n{lines}\r\n\r\n"));
        wire
    };
    let (mut gone, mut stays) = (call("/a/late"), call("/b/late"));
    service.origin.wait_for_requests(2);
    put_ok(&gateway, &yaml(&service, streams, "2"));
    let head = gone.read_head();
    assert_eq!((head.status(), head.get("grpc-status")), (200, Some("14")));
    assert!(stays.is_silent_for(Duration::from_millis(20)));
    service.gate.open();
    assert_eq!(stays.read_head().status(), 200);
}

/// Over HTTP/1, the reply of a call is another task than the one that waited for it. Nothing passes that would wake it.
#[test]
fn a_silent_call_leaves_a_changed_route() {
    let service = Service::start();
    let streams = "{ reload: close, drain: 1ms }";
    let gateway = Gateway::start(yaml(&service, streams, "1"));
    let mut call = gateway.wire();
    let lines = "Host: a\r\nContent-Type: application/grpc\r\nContent-Length: 0";
    call.send(format!("POST /a/call HTTP/1.1\r\n{lines}\r\n\r\n"));
    assert_eq!(call.read_head().status(), 200);
    assert_eq!(call.read_chunk().as_deref(), Some(&[0; 5][..]));
    put_ok(&gateway, &yaml(&service, streams, "2"));
    let end = call.read_until(b"\r\n\r\n").expect("the end of the reply");
    let end = String::from_utf8_lossy(&end);
    assert!(end.starts_with("0\r\n") && end.contains("grpc-status: 14\r\n"), "{end}");
    service.gate.open();
}

#[test]
fn streams_end_at_a_shutdown() {
    let service = Service::start();
    let gateway = Gateway::start(yaml(&service, "{}", "1"));
    let mut events = events(&gateway, "/a/sse", "data: 1\n\n");
    let (mut websocket, mut gone) = (tunnel(&gateway, "/a/ws"), tunnel(&gateway, "/b/ws"));
    gateway.signal(Signal::TERM);
    assert_eq!(events.read_to_end(), b"0\r\n\r\n");
    goes_away(&mut websocket);
    assert_eq!(gone.read_exact(4).as_deref(), Some(&GOING_AWAY[..]));
    drop(gone);
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
    gateway.wait_for_log("all requests have ended");
    assert_eq!(service.closed(), [1001; 2]);
}

#[test]
fn what_does_not_end_is_cut_after_the_drain() {
    let drain = Duration::from_millis(1500);
    let service = Service::start();
    let streams = "{ reload: close, drain: 1500ms }";
    let gateway = Gateway::start(yaml(&service, streams, "1"));
    let mut half = events(&gateway, "/a/half", "data: 1\n\ndata: ");
    let (mut deaf, mut raw) = (tunnel(&gateway, "/a/deaf"), tunnel(&gateway, "/a/raw"));
    let h2 = H2::connect(gateway.address("public"));
    let reply = events_by_h2(&h2, "/a/half");
    let start = Instant::now();
    put_ok(&gateway, &yaml(&service, streams, "2"));
    // A tunnel with an unknown protocol continues until then.
    raw.send("still here");
    assert_eq!(deaf.read_exact(4).as_deref(), Some(&GOING_AWAY[..]));
    assert!(deaf.is_closed() && raw.is_closed());
    assert!(start.elapsed() >= drain);
    // A stream that was cut does not look complete.
    assert_eq!(half.read_to_end(), b"");
    h2.block_on(whole(reply)).expect_err("a reset");
    until("nothing is left at the service", || service.origin.open() <= 2);
    service.gate.open();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}
