//! gRPC-Web over both versions of HTTP. The service is scripted in HTTP/1.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Request;

use crate::harness::{Gateway, H2, Message, Origin, Plain, full};

/// A message with its prefix.
const MESSAGE: &[u8] = b"\0\0\0\0\x02ok";

/// Replies with the message that came, in pieces, and trailers.
fn echo(status: &'static str) -> Origin {
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n");
            for byte in &request.body {
                peer.send([b"1\r\n", &[*byte][..], b"\r\n"].concat());
            }
            peer.send(format!("0\r\n{status}\r\n"));
        }
    })
}

fn start(origin: &Origin, policies: &str) -> Gateway {
    Plain { route: &format!("policies: [{policies}]"), ..Plain::default() }.start(origin)
}

fn ask(gateway: &Gateway, content_type: &str, body: &[u8]) -> Message {
    let head = format!(
        "POST /a.B/C HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nOrigin: https://a.test\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    gateway.wire().ask([head.as_bytes(), body].concat())
}

/// Base64 that may be padded anywhere.
fn decoded(text: &[u8]) -> Vec<u8> {
    let groups = text.chunks(4).map(|group| STANDARD.decode(group).expect("Base64"));
    groups.collect::<Vec<_>>().concat()
}

fn with_trailers(lines: &str) -> Vec<u8> {
    let len = u8::try_from(lines.len()).unwrap();
    [MESSAGE, &[0x80, 0, 0, 0, len], lines.as_bytes()].concat()
}

#[test]
fn calls_of_browsers_reach_services() {
    let origin = echo("grpc-status: 0\r\nGrpc-Message: fine\r\n");
    let gateway = start(&origin, "grpc_web: {}");
    let expected = with_trailers("grpc-status:0\r\ngrpc-message:fine\r\n");
    let text = STANDARD.encode(MESSAGE);
    for (asked, body, answered) in [
        ("application/grpc-web+proto", MESSAGE, "application/grpc-web+proto"),
        ("application/grpc-web", MESSAGE, "application/grpc-web+proto"),
        ("application/grpc-web-text+proto", text.as_bytes(), "application/grpc-web-text+proto"),
    ] {
        let is_text = asked.contains("text");
        let reply = ask(&gateway, asked, body);
        let sent = origin.requests().pop().unwrap();
        assert_eq!(sent.body, MESSAGE, "{asked}");
        let format = if asked.ends_with("+proto") { "+proto" } else { "" };
        assert_eq!(sent.get("content-type"), Some(&*format!("application/grpc{format}")));
        assert_eq!((reply.status(), reply.get("content-type")), (200, Some(answered)));
        let read = if is_text { decoded(&reply.body) } else { reply.body.clone() };
        assert_eq!(read, expected, "{asked}");

        let client = H2::connect(gateway.address("public"));
        let request = Request::post("http://a.test/a.B/C").header("content-type", asked);
        let reply = client.ask(request.body(full(body.to_vec())).unwrap());
        let read = if is_text { decoded(&reply.body) } else { reply.body.to_vec() };
        assert_eq!(read, expected, "{asked}");
        assert!(reply.trailers.is_empty(), "they are in the body");
    }
}

#[test]
fn others_pass_as_they_are() {
    let origin = echo("grpc-status: 0\r\n");
    let gateway = start(&origin, "grpc_web: {}");
    let client = H2::connect(gateway.address("public"));
    let request = Request::post("http://a.test/a.B/C").header("content-type", "application/grpc");
    let reply = client.ask(request.body(full(MESSAGE)).unwrap());
    assert_eq!((&reply.body[..], &reply.trailers["grpc-status"]), (MESSAGE, &"0".parse().unwrap()));
    assert_eq!(reply.headers["content-type"], "application/grpc");
}

#[test]
fn faults_are_told_in_the_dialect_of_the_client() {
    let origin = echo("grpc-status: 0\r\n");
    let gateway = start(
        &origin,
        "cors: { origins: [\"https://a.test\"], expose: [grpc-status, grpc-message] }, grpc_web: {}, authorize: { rule: \"request.headers['x-in'] == 'yes'\" }",
    );
    for dialect in ["application/grpc-web", "application/grpc-web-text"] {
        let reply = ask(&gateway, dialect, b"");
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.get("content-type"), Some(&*format!("{dialect}+proto")));
        assert_eq!((reply.get("grpc-status"), &*reply.body), (Some("7"), &b""[..]));
        assert_eq!(reply.get("access-control-allow-origin"), Some("https://a.test"));
        assert!(reply.lists("access-control-expose-headers", "grpc-status"), "{reply:?}");
    }
    assert!(origin.requests().is_empty());
}

#[test]
fn a_service_that_breaks_off_is_told_in_the_body() {
    let origin = Origin::start(|peer| {
        let _ = peer.request();
        peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n7\r\n\0\0\0\0\u{2}ok\r\n");
    });
    let gateway = start(&origin, "grpc_web: {}");
    let reply = ask(&gateway, "application/grpc-web+proto", MESSAGE);
    let message = "The upstream closed the connection before it replied.";
    assert_eq!(reply.body, with_trailers(&format!("grpc-status:14\r\ngrpc-message:{message}\r\n")));
}

#[test]
fn what_is_not_base64_is_refused() {
    let origin = echo("grpc-status: 0\r\n");
    let gateway = start(&origin, "grpc_web: {}");
    for body in ["AAA", "AA A", "A===", "\u{ff}"] {
        let reply = ask(&gateway, "application/grpc-web-text", body.as_bytes());
        assert_eq!((reply.status(), reply.get("grpc-status")), (200, Some("3")), "{body}");
    }
}
