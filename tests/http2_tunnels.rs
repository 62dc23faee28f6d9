//! WebSockets over HTTP/2 (RFC 8441): streams that become tunnels, to upstreams of HTTP/1.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::{Gate, Gateway, H2, Origin, Peer, Plain, Wire, until};
use crate::http2_hostile::{ALL, DATA, HEAD, HEADERS, SETTINGS, frame, greet, next};
use crate::reload::put_ok;

const RST_STREAM: u8 = 3;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;

const SWITCH: &str = "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
     Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\nSec-WebSocket-Protocol: chat\r\n\r\n";

/// Lines as a block of literals that are not indexed.
fn lines(lines: &[(&str, &str)]) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()][..], text.as_bytes()].concat();
    let line = |(name, value): &(&str, &str)| [&[0][..], &text(name), &text(value)].concat();
    lines.iter().flat_map(line).collect()
}

const CONNECT: [(&str, &str); 7] = [
    (":method", "CONNECT"),
    (":protocol", "websocket"),
    (":scheme", "http"),
    (":path", "/ws?a=b"),
    (":authority", "a.test"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-protocol", "chat"),
];

/// A connection whose streams may be tunnels.
struct Client(Wire);

/// A frame of a stream: its type, its flags, and its payload.
type ReceivedFrame = (u8, u8, Vec<u8>);

impl Client {
    fn connect(gateway: &Gateway) -> Client {
        let mut wire = greet(gateway);
        let settings = next(&mut wire, SETTINGS).unwrap();
        assert!(settings.chunks(6).any(|setting| setting == [0, 8, 0, 0, 0, 1]), "{settings:?}");
        Client(wire)
    }

    fn send(&mut self, stream: u32, bytes: &[u8]) {
        self.0.send(frame(DATA, 0, stream, bytes));
    }

    fn ask(&mut self, stream: u32, asked: &[(&str, &str)]) {
        self.0.send(frame(HEADERS, HEAD, stream, &lines(asked)));
    }

    /// The next frame of this stream.
    fn came(&mut self, stream: u32) -> ReceivedFrame {
        loop {
            let head = self.0.read_exact(9).expect("a frame");
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let payload = self.0.read_exact(usize::try_from(len).unwrap()).unwrap();
            let of = u32::from_be_bytes(head[5..9].try_into().unwrap());
            if of == stream && head[3] != WINDOW_UPDATE {
                return (head[3], head[4], payload);
            }
            assert_ne!(head[3], 7, "GOAWAY: {}", String::from_utf8_lossy(&payload));
        }
    }

    #[track_caller]
    fn open(&mut self, stream: u32, asked: &[(&str, &str)]) {
        self.ask(stream, asked);
        let (kind, flags, block) = self.came(stream);
        assert_eq!((kind, flags), (HEADERS, HEAD), "open, and not at its end");
        assert!(block.contains(&0x88), "200: {block:?}");
    }

    /// Exactly this many bytes from the tunnel.
    #[track_caller]
    fn read(&mut self, stream: u32, len: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let (kind, flags, data) = self.came(stream);
            assert_eq!((kind, flags), (DATA, 0), "after {bytes:?}");
            bytes.extend(data);
        }
        assert_eq!(bytes.len(), len);
        bytes
    }

    /// The code of a Close frame that comes next.
    #[track_caller]
    fn close_code(&mut self, stream: u32) -> u16 {
        let (kind, _, data) = self.came(stream);
        assert_eq!((kind, data[0]), (DATA, 0x88), "{data:?}");
        u16::from_be_bytes([data[2], data[3]])
    }

    /// Reads to the reset, and gives its code.
    #[track_caller]
    fn reset(&mut self, stream: u32) -> u32 {
        loop {
            let (kind, _, payload) = self.came(stream);
            if kind == RST_STREAM {
                return u32::from_be_bytes(payload.try_into().unwrap());
            }
        }
    }
}

/// Switches protocols, and echoes until the end, with a Close frame.
fn echo(peer: &mut Peer) {
    peer.request_head();
    peer.send(SWITCH);
    while let Some(byte) = peer.read_exact(1) {
        if !peer.try_send(byte) {
            return;
        }
    }
    peer.try_send("bye");
}

/// A text as a client sends it, with the mask 0, and as a server does.
fn text(of_client: bool, text: &str) -> Vec<u8> {
    let len = u8::try_from(text.len()).unwrap();
    if of_client {
        [&[0x81, 0x80 | len, 0, 0, 0, 0][..], text.as_bytes()].concat()
    } else {
        [&[0x81, len][..], text.as_bytes()].concat()
    }
}

#[test]
fn streams_become_tunnels_and_both_sides_end() {
    let origin = Origin::start(echo);
    let gateway = Gateway::before(&origin);
    let mut client = Client::connect(&gateway);
    for stream in [1, 3] {
        client.open(stream, &CONNECT);
    }
    for request in origin.requests() {
        assert_eq!((request.method(), request.target()), ("GET", "/ws?a=b"));
        assert!(request.lists("connection", "upgrade"));
        assert_eq!(
            (request.get("upgrade"), request.get("host")),
            (Some("websocket"), Some("a.test"))
        );
        assert_eq!(request.get("sec-websocket-version"), Some("13"));
        assert_eq!(request.get("sec-websocket-protocol"), Some("chat"));
        let key = request.get("sec-websocket-key").unwrap();
        assert!(key.len() == 24 && key.ends_with("A=="), "16 bytes in base64: {key}");
    }
    let keys: Vec<_> =
        origin.requests().iter().map(|r| r.get("sec-websocket-key").map(str::to_owned)).collect();
    assert!(keys.len() == 2 && keys[0] != keys[1]);
    for (stream, message) in [(1, &b"one"[..]), (3, b"\0\xff"), (1, &[7; 10_000])] {
        client.send(stream, message);
        assert_eq!(client.read(stream, message.len()), message);
    }
    // The client has ended its side; the origin still sends.
    client.0.send(frame(DATA, END_STREAM, 1, b""));
    assert_eq!(client.read(1, 3), b"bye");
    assert_eq!(client.came(1), (DATA, END_STREAM, Vec::new()));
    until("one is left", || origin.open() == 1);
    client.send(3, b"still");
    assert_eq!(client.read(3, 5), b"still");
    // A reset ends both ways at once.
    client.0.send(frame(RST_STREAM, 0, 3, &8u32.to_be_bytes()));
    until("none is left", || origin.open() == 0);
    client.open(5, &CONNECT);
}

#[test]
fn an_upstream_that_ends_first_ends_its_side() {
    let origin = Origin::start(|peer: &mut Peer| {
        let abort = peer.request_head().is_some_and(|request| request.target() == "/abort");
        peer.send(SWITCH);
        peer.send("last words");
        if abort {
            peer.reset_on_close();
            // Data that a reset overtakes is lost.
            peer.read_exact(1);
        }
    });
    let gateway = Gateway::before(&origin);
    let mut client = Client::connect(&gateway);
    client.open(1, &CONNECT);
    assert_eq!(client.read(1, 10), b"last words");
    assert_eq!(client.came(1), (DATA, END_STREAM, Vec::new()));
    client.0.send(frame(DATA, END_STREAM, 1, b""));

    let abort = CONNECT.map(|line| if line.0 == ":path" { (":path", "/abort") } else { line });
    client.open(3, &abort);
    assert_eq!(client.read(3, 10), b"last words");
    client.send(3, b"x");
    assert_eq!(client.reset(3), 8, "CANCEL");
}

#[test]
fn windows_hold_back_both_sides() {
    const ALL_OF_IT: usize = 30_000_000;
    let gate = Gate::default();
    let opens = gate.clone();
    let origin = Origin::start(move |peer: &mut Peer| {
        let takes = peer.request_head().is_some_and(|request| request.target() == "/take");
        peer.send(SWITCH);
        if takes {
            opens.wait();
            let mut came = 0;
            while peer.read_exact(1000).is_some() {
                came += 1000;
            }
            peer.try_send(came.to_string());
            return;
        }
        let mut sent = 0;
        while sent < ALL_OF_IT && peer.try_send([b'x'; 10_000]) {
            sent += 10_000;
        }
    });
    let gateway = Gateway::before(&origin);
    let mut client = Client::connect(&gateway);
    client.open(1, &CONNECT);
    client.read(1, 65_535);
    assert!(client.0.is_silent_for(Duration::from_millis(50)), "the window is used up");
    // Another stream has its own window once the connection has one.
    client.0.send(frame(WINDOW_UPDATE, 0, 0, &0x4000_0000_u32.to_be_bytes()));
    let take = CONNECT.map(|line| if line.0 == ":path" { (":path", "/take") } else { line });
    client.open(3, &take);

    // The client's data is not read: its window and the sockets limit it.
    let mut sent = 0;
    while sent < 256_000 {
        client.send(3, &[b'y'; 16_000]);
        sent += 16_000;
    }
    gate.open();
    client.0.send(frame(DATA, END_STREAM, 3, b""));
    assert_eq!(client.read(3, 6), b"256000");
    assert_eq!(client.came(3), (DATA, END_STREAM, Vec::new()));

    client.0.send(frame(WINDOW_UPDATE, 0, 1, &0x4000_0000_u32.to_be_bytes()));
    let mut came = 65_535;
    while came < ALL_OF_IT {
        let (kind, _, data) = client.came(1);
        assert_eq!(kind, DATA);
        came += data.len();
    }
    assert_eq!(came, ALL_OF_IT);
}

#[test]
fn what_opens_no_tunnel_is_an_ordinary_reply() {
    let origin = Origin::start(|peer: &mut Peer| {
        let Some(request) = peer.request_head() else { return };
        let status = request.target().trim_start_matches('/').to_owned();
        peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 4\r\n\r\nbody"));
    });
    let gateway = Gateway::before(&origin);
    let mut client = Client::connect(&gateway);
    let status = |client: &mut Client, stream: u32, asked: &[(&str, &str)]| {
        client.ask(stream, asked);
        let (kind, _, block) = client.came(stream);
        assert_eq!(kind, HEADERS, "{asked:?}");
        let at = block.iter().position(|byte| matches!(byte, 0x08 | 0x48 | 0x88..=0x8e));
        let (first, rest) = block[at.unwrap()..].split_first().unwrap();
        match first {
            0x88..=0x8e => [200, 204, 206, 304, 400, 404, 500][usize::from(first - 0x88)],
            _ => {
                let digits = &rest[1..1 + usize::from(rest[0] & 0x7f)];
                match rest[0] & 0x80 {
                    0 => std::str::from_utf8(digits).unwrap().parse().unwrap(),
                    _ => huffman(digits),
                }
            }
        }
    };
    let with = |name: &str, value: &'static str| -> Vec<(&str, &str)> {
        CONNECT.iter().map(|line| if line.0 == name { (line.0, value) } else { *line }).collect()
    };
    assert_eq!(status(&mut client, 1, &with(":path", "/404")), 404);
    assert_eq!(status(&mut client, 3, &with(":path", "/200")), 502, "it would open one");
    let accepted = origin.accepted();
    assert_eq!(status(&mut client, 5, &with(":protocol", "connect-udp")), 501);
    assert_eq!(origin.accepted(), accepted);
    let plain = [(":method", "CONNECT"), (":authority", "a.test:1")];
    assert!(status(&mut client, 7, &plain) >= 400);

    // Malformed requests are reset: PROTOCOL_ERROR.
    for (stream, asked) in [
        (9, [&CONNECT[..], &[("content-length", "1")]].concat()),
        (11, with(":method", "GET")),
        (13, CONNECT.iter().copied().filter(|line| line.0 != ":path").collect()),
    ] {
        client.ask(stream, &asked);
        assert_eq!(client.reset(stream), 1, "{asked:?}");
    }
}

/// A number of three digits, by the code of HPACK.
fn huffman(bytes: &[u8]) -> u16 {
    let mut bits =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |at| u16::from(byte >> at & 1)));
    let mut number = 0;
    for _ in 0..3 {
        let five = (0..5).fold(0, |code, _| code << 1 | bits.next().unwrap());
        let digit = match five {
            0..=2 => five,
            _ => (five << 1 | bits.next().unwrap()) - 0x19 + 3,
        };
        number = number * 10 + digit;
    }
    number
}

#[test]
fn nothing_but_data_follows() {
    let origin = Origin::start(echo);
    let gateway = Gateway::before(&origin);
    let mut client = Client::connect(&gateway);
    client.open(1, &CONNECT);
    client.0.send(frame(HEADERS, ALL, 1, &lines(&[("a", "b")])));
    assert_eq!(client.reset(1), 1, "PROTOCOL_ERROR");
    until("the upstream is left", || origin.open() == 0);
    client.open(3, &CONNECT);
}

#[test]
fn policies_look_into_it() {
    let origin = Origin::start(echo);
    let route = "policies: [{ websocket: { messages: 2, per: 1h, message_bytes_max: 10B } }]";
    let more = "admin: { address: \"127.0.0.1:0\" }";
    let gateway = Plain { route, more, ..Plain::default() }.start(&origin);
    let mut client = Client::connect(&gateway);
    let asked = [&CONNECT[..], &[("sec-websocket-extensions", "permessage-deflate")]].concat();
    client.open(1, &asked);
    assert_eq!(origin.request().get("sec-websocket-extensions"), None);
    client.send(1, &text(true, "hello"));
    // The echo is a client's frame, which a server may not send: 1002.
    assert_eq!(client.close_code(1), 1002);
    assert_eq!(client.came(1), (DATA, END_STREAM, Vec::new()));
    client.0.send(frame(DATA, END_STREAM, 1, b""));
    until("the upstream is left", || origin.open() == 0);

    client.open(3, &CONNECT);
    client.send(3, &text(true, "far too long"));
    assert_eq!(client.close_code(3), 1009);
    let ends = "tidegate_stream_ends_total{route=\"all\",reason=\"too_large\"}";
    until("it is counted", || crate::telemetry::metric(&gateway, ends) == Some(1.0));
}

#[test]
fn a_reload_that_closes_says_goodbye() {
    let origin = Origin::start(echo);
    let yaml = |change: u32| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\n\
             upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes:\n  all: {{ match: {{ path: \"/**\" }}, \
             policies: [{{ headers: {{ response: {{ set: {{ x-a: {change} }} }} }} }}], \
             streams: {{ reload: close }}, upstream: origin }}\n",
            origin.url()
        )
    };
    let gateway = Gateway::start(yaml(1));
    let mut client = Client::connect(&gateway);
    client.open(1, &CONNECT);
    client.send(1, &text(true, "hi"));
    client.read(1, 8);
    put_ok(&gateway, &yaml(2));
    assert_eq!(client.read(1, 4), [0x88, 2, 0x03, 0xe9], "1001");
    client.send(1, &[0x88, 0x82, 0, 0, 0, 0, 0x03, 0xe9]);
    let (kind, flags, rest) = client.came(1);
    assert_eq!((kind, flags, rest.len()), (DATA, END_STREAM, 0));
    client.open(3, &CONNECT);
}

#[test]
fn a_client_of_others_has_its_tunnel() {
    let origin = Origin::start(echo);
    let gateway = Gateway::before(&origin);
    let h2 = H2::connect(gateway.address("public"));
    let request = hyper::Request::connect("http://a.test/ws")
        .extension(hyper::ext::Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .body(Empty::<Bytes>::new().map_err(|never| match never {}).boxed())
        .unwrap();
    let mut sender = h2.sender.clone();
    h2.block_on(async {
        let reply = sender.send_request(request).await.unwrap();
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.headers().get("sec-websocket-accept"), None);
        assert_eq!(reply.headers().get("sec-websocket-protocol").unwrap(), "chat");
        let mut tunnel = hyper_util::rt::TokioIo::new(hyper::upgrade::on(reply).await.unwrap());
        let message = vec![b'm'; 1_000_000];
        let (mut reads, mut writes) = tokio::io::split(&mut tunnel);
        let sending = async {
            writes.write_all(&message).await.unwrap();
            writes.shutdown().await.unwrap();
        };
        let reading = async {
            let mut came = Vec::new();
            reads.read_to_end(&mut came).await.unwrap();
            came
        };
        let ((), came) = tokio::join!(sending, reading);
        assert!(came.len() == 1_000_003 && came.ends_with(b"bye"));
    });
}
