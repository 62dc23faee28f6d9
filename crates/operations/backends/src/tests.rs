// These measure waits, so they use the real clock.
#![allow(clippy::disallowed_methods)]

use super::*;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use http::Request;
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::{Value, json};
use tokio_websockets::{ClientBuilder, Message};

fn start(kind: Kind) -> Backend {
    spawn_thread(kind, Options::default()).unwrap()
}

/// Sends the request with `Connection: close` and returns head and body.
fn ask(
    backend: &Backend,
    method: &str,
    target: &str,
    headers: &str,
    body: &str,
) -> (String, String) {
    let mut stream = TcpStream::connect(backend.address()).unwrap();
    let length =
        if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    write!(
        stream,
        "{method} {target} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}{length}\r\n{body}"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

fn ask_json(backend: &Backend, method: &str, target: &str, headers: &str, body: &str) -> Value {
    serde_json::from_str(&ask(backend, method, target, headers, body).1).unwrap()
}

#[test]
fn echo_sends_the_body_back_with_its_type() {
    let backend = start(Kind::Echo);
    let (head, body) = ask(&backend, "PUT", "/a?b=c", "Content-Type: text/x\r\n", "hello");
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    for line in ["content-type: text/x", "x-echo-method: PUT", "x-echo-path: /a?b=c"] {
        assert!(head.contains(line), "{head}");
    }
    assert_eq!(body, "hello");
}

#[test]
fn echo_describes_a_request_without_a_body() {
    let (_, body) = ask(&start(Kind::Echo), "GET", "/a", "X-One: 1\r\n", "");
    assert_eq!(body, "GET /a HTTP/1.1\nhost: test\nconnection: close\nx-one: 1\n");
}

#[test]
fn echo_streams_and_passes_trailers() {
    let backend = start(Kind::Echo);
    let mut stream = TcpStream::connect(backend.address()).unwrap();
    let head = "POST / HTTP/1.1\r\nHost: test\r\nConnection: close\r\nTE: trailers\r\n\
                Trailer: x-sum\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(b"5\r\nfirst\r\n").unwrap();
    let mut seen = String::new();
    // The first piece comes back before the last one is sent.
    while !seen.contains("first") {
        let mut piece = [0; 1024];
        let count = stream.read(&mut piece).unwrap();
        assert!(count > 0, "{seen}");
        seen.push_str(str::from_utf8(&piece[..count]).unwrap());
    }
    stream.write_all(b"4\r\nlast\r\n0\r\nx-sum: 9\r\n\r\n").unwrap();
    stream.read_to_string(&mut seen).unwrap();
    assert!(seen.ends_with("4\r\nlast\r\n0\r\nx-sum: 9\r\n\r\n"), "{seen}");
}

#[test]
fn a_delay_does_not_delay_other_requests_and_each_reply_has_the_name() {
    let options = Options {
        delay: Duration::from_millis(200),
        name: Some("one".to_owned()),
        ..Options::default()
    };
    let backend = spawn_thread(Kind::Echo, options).unwrap();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for _ in 0..20 {
            scope.spawn(|| {
                let (head, _) = ask(&backend, "GET", "/", "", "");
                assert!(head.contains("x-backend: one"), "{head}");
            });
        }
    });
    let elapsed = started.elapsed();
    assert!(elapsed >= Duration::from_millis(200), "{elapsed:?}");
    assert!(elapsed < Duration::from_secs(4), "one after the other: {elapsed:?}");
}

#[test]
fn httpbin_shows_the_request() {
    let backend = start(Kind::Httpbin);
    let headers = "Content-Type: application/json\r\nX-Request-Id: 7\r\n";
    let said = ask_json(&backend, "POST", "/anything/x?a=1&b=2&a=3", headers, r#"{"k":[1]}"#);
    let expected = json!({
        "args": { "a": ["1", "3"], "b": "2" },
        "data": "{\"k\":[1]}",
        "files": {},
        "form": {},
        "headers": {
            "Connection": "close",
            "Content-Length": "9",
            "Content-Type": "application/json",
            "Host": "test",
            "X-Request-Id": "7",
        },
        "json": { "k": [1] },
        "method": "POST",
        "origin": "127.0.0.1",
        "url": "http://test/anything/x?a=1&b=2&a=3",
    });
    assert_eq!(said, expected);
}

#[test]
fn httpbin_reads_forms() {
    let headers = "Content-Type: application/x-www-form-urlencoded\r\nX-Forwarded-Proto: https\r\n";
    let said = ask_json(&start(Kind::Httpbin), "POST", "/post", headers, "a=1&b=x+y");
    assert_eq!(said["form"], json!({ "a": "1", "b": "x y" }));
    assert_eq!(said["data"], "");
    assert_eq!(said["url"], "https://test/post");
    assert_eq!(said.get("method"), None);
}

#[test]
fn httpbin_statuses() {
    let backend = start(Kind::Httpbin);
    let cases = [
        ("/status/418", "418"),
        ("/status/204", "204"),
        ("/status/101", "400"),
        ("/status/x", "400"),
        ("/size/65MiB", "400"),
        ("/size/x", "400"),
        ("/post", "405"),
        ("/get", "200"),
        ("/delay/0.001", "200"),
        ("/delay/-1", "400"),
        ("/nothing", "404"),
        ("/response-headers?x-a=b", "200"),
        ("/response-headers?bad%20name=b", "400"),
    ];
    for (target, status) in cases {
        let (head, _) = ask(&backend, "GET", target, "", "");
        assert_eq!(head.split(' ').nth(1), Some(status), "{target}");
    }
}

#[test]
fn httpbin_sizes_are_exact() {
    let backend = start(Kind::Httpbin);
    for (target, length) in [("/size/350B", 350), ("/size/1KiB", 1024), ("/size/100KiB", 102_400)] {
        let (head, body) = ask(&backend, "GET", target, "", "");
        assert!(head.contains("content-type: text/plain; charset=utf-8"), "{head}");
        assert_eq!(body.len(), length);
    }
}

#[test]
fn events_come_one_by_one_and_end_after_the_count() {
    let backend = start(Kind::Sse);
    let target = "/?interval=20ms&count=3&size=4";
    let started = Instant::now();
    let (head, body) = ask(&backend, "GET", target, "Last-Event-ID: 6\r\n", "");
    assert!(started.elapsed() >= Duration::from_millis(40));
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    let events: Vec<&str> = body.split("\r\n").filter(|part| part.starts_with("id")).collect();
    let expected = [7, 8, 9].map(|id| format!("id: {id}\nevent: tick\ndata: tick {id} xxxx\n\n"));
    assert_eq!(events, expected);
    let (head, _) = ask(&backend, "GET", "/?interval=soon", "", "");
    assert!(head.starts_with("HTTP/1.1 400"), "{head}");
}

#[tokio::test]
async fn messages_are_reversed_until_the_client_closes() {
    let backend = start(Kind::Reverse);
    let uri = format!("ws://{}/any", backend.address()).parse().unwrap();
    let stream = tokio::net::TcpStream::connect(backend.address()).await.unwrap();
    let (mut socket, reply) = ClientBuilder::from_uri(uri).connect_on(stream).await.unwrap();
    assert_eq!(reply.status(), 101);
    socket.send(Message::text("größe 🇩🇪")).await.unwrap();
    assert_eq!(socket.next().await.unwrap().unwrap().as_text(), Some("🇩🇪 eßörg"));
    socket.send(Message::binary(&b"\x00\x01\xff"[..])).await.unwrap();
    assert_eq!(&**socket.next().await.unwrap().unwrap().as_payload(), b"\xff\x01\x00");
    socket.send(Message::ping(&b"p"[..])).await.unwrap();
    let pong = socket.next().await.unwrap().unwrap();
    assert!(pong.is_pong() && **pong.as_payload() == b"p"[..]);
    socket.close().await.unwrap();
    assert!(socket.next().await.is_none_or(|message| message.is_ok_and(|m| m.is_close())));
}

#[test]
fn reverse_asks_for_an_upgrade() {
    let (head, _) = ask(&start(Kind::Reverse), "GET", "/", "", "");
    assert!(head.starts_with("HTTP/1.1 426"), "{head}");
}

#[tokio::test]
async fn http2_by_prior_knowledge() {
    let backend = start(Kind::Echo);
    let stream = tokio::net::TcpStream::connect(backend.address()).await.unwrap();
    assert_eq!(post_http2(stream, "http").await, "hello over 2");
}

#[tokio::test]
async fn http2_by_alpn() {
    let certificate = Certificate::self_signed(&["localhost"]).unwrap();
    let tls = Some(Tls::Pem(certificate.clone()));
    let backend = spawn_thread(Kind::Echo, Options { tls, ..Options::default() }).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    let pem = certificate.certificate_pem.as_bytes();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = tokio::net::TcpStream::connect(backend.address()).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(client));
    let stream = connector.connect(name, stream).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    assert_eq!(post_http2(stream, "https").await, "hello over 2");
}

async fn post_http2<S>(stream: S, scheme: &str) -> Bytes
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(connection);
    let uri = format!("{scheme}://localhost/");
    let request = Request::post(uri).body(Full::new(Bytes::from("hello over 2"))).unwrap();
    let reply = sender.send_request(request).await.unwrap();
    assert_eq!(reply.status(), 200);
    reply.into_body().collect().await.unwrap().to_bytes()
}

#[test]
fn dropping_a_backend_closes_its_connections() {
    let backend = start(Kind::Sse);
    let mut stream = TcpStream::connect(backend.address()).unwrap();
    stream.write_all(b"GET /?interval=1h HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut first = [0; 16];
    stream.read_exact(&mut first).unwrap();
    drop(backend);
    // It returns at once, not after an hour.
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn an_address_in_use_is_an_error() {
    let backend = start(Kind::Echo);
    let options = Options { address: backend.address(), ..Options::default() };
    assert!(spawn_thread(Kind::Echo, options).is_err());
}

#[test]
fn kinds_by_name() {
    assert_eq!("sse".parse(), Ok(Kind::Sse));
    let complaint = "soap".parse::<Kind>().unwrap_err();
    assert!(complaint.contains("echo, httpbin, sse, reverse"), "{complaint}");
}
