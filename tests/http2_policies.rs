//! Policies for HTTP/2 clients: the same as over HTTP/1, in all states of streams.

use std::io::Read;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::{HeaderMap, Request};
use serde_json::{Value, json};

use crate::harness::{Gateway, H2, Origin, Plain, full, whole};

fn start(origin: &Origin, route: &str) -> (Gateway, H2) {
    let gateway = Plain { route, ..Plain::default() }.start(origin);
    let client = H2::connect(gateway.address("public"));
    (gateway, client)
}

fn get(headers: &[(&str, &str)]) -> Request<crate::harness::Sent> {
    let request = Request::get("http://a.test/x");
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(full("")).unwrap()
}

fn value<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn pages_of_other_origins_are_let_in_and_read_faults() {
    let origin = Origin::saying("ok");
    let (_gateway, client) = start(
        &origin,
        "policies: [{ cors: { origins: [\"https://page.test\"], methods: [PUT], headers: [x-a], credentials: true } }, { api_key: { header: x-key, keys: { ann: k } } }]",
    );
    let preflight = Request::options("http://a.test/x")
        .header("origin", "https://page.test")
        .header("access-control-request-method", "PUT")
        .header("access-control-request-headers", "x-a");
    let reply = client.ask(preflight.body(full("")).unwrap());
    assert_eq!(reply.status / 100, 2, "{reply:?}");
    assert_eq!(value(&reply.headers, "access-control-allow-origin"), Some("https://page.test"));
    assert!(origin.requests().is_empty());
    for (key, status) in [("wrong", 401), ("k", 200)] {
        let reply = client.ask(get(&[("origin", "https://page.test"), ("x-key", key)]));
        assert_eq!(reply.status, status);
        assert_eq!(value(&reply.headers, "access-control-allow-origin"), Some("https://page.test"));
    }
    let reply = client.ask(get(&[("origin", "https://other.test"), ("x-key", "k")]));
    assert_eq!(value(&reply.headers, "access-control-allow-origin"), None);
}

#[test]
fn replies_are_compressed_by_stream() {
    let text = "a text that comes again and again; ".repeat(2000);
    let length = text.len();
    let origin = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{text}"
    ));
    let (_gateway, client) = start(&origin, "policies: [{ compress: {} }]");
    let asked: Vec<_> = ["gzip", "zstd", "br", "identity", "gzip"]
        .map(|coding| {
            let mut sender = client.sender.clone();
            client.spawn(async move {
                let reply = sender.send_request(get(&[("accept-encoding", coding)])).await.unwrap();
                (coding, whole(reply).await.unwrap())
            })
        })
        .into();
    for asked in asked {
        let (coding, reply) = client.block_on(asked).unwrap();
        let told = value(&reply.headers, "content-encoding");
        assert_eq!(told, (coding != "identity").then_some(coding));
        let mut read = String::new();
        match coding {
            "gzip" => {
                flate2::read::GzDecoder::new(&reply.body[..]).read_to_string(&mut read).unwrap();
            }
            "identity" => read = String::from_utf8(reply.body.to_vec()).unwrap(),
            // The texts of both are tested elsewhere; here, that they come whole.
            _ => assert!(reply.body.len() < length / 10, "{coding}: {}", reply.body.len()),
        }
        assert!(read.is_empty() || read == text, "{coding}");
        if coding != "identity" {
            assert_ne!(value(&reply.headers, "content-length"), Some(length.to_string().as_str()));
        }
    }
}

#[test]
fn what_was_kept_for_one_protocol_serves_the_other() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nETag: \"1\"\r\nContent-Length: 4\r\n\r\nkept",
    );
    let (gateway, client) = start(&origin, "policies: [{ cache: {} }]");
    let first = client.ask(get(&[]));
    assert_eq!((first.status, &first.body[..]), (200, &b"kept"[..]));
    let again = client.ask(get(&[]));
    assert_eq!((again.status, &again.body[..]), (200, &b"kept"[..]));
    assert!(again.headers.contains_key("age"), "{again:?}");
    let known = client.ask(get(&[("if-none-match", "\"1\"")]));
    assert_eq!((known.status, known.body.len()), (304, 0));
    let over_1 = gateway.wire().ask("GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(over_1.text(), "kept");
    assert_eq!(origin.requests().len(), 1);
}

/// An interceptor that converts every request's body to capitals, and returns the trailers that it received.
fn interceptor() -> Origin {
    Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let told: Value = serde_json::from_str(&request.text()).unwrap();
            let body = STANDARD.decode(told["requestBody"].as_str().unwrap()).unwrap();
            let answer = json!({
                "headersToAdd": { "x-trailers": told["requestTrailers"].to_string() },
                "body": STANDARD.encode(body.to_ascii_uppercase()),
            })
            .to_string();
            peer.send(format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}",
                answer.len()
            ));
        }
    })
}

#[test]
fn an_interceptor_changes_bodies_and_reads_trailers_of_streams() {
    let origin = Origin::echo();
    let service = interceptor();
    let (_gateway, client) = start(
        &origin,
        &format!(
            "policies: [{{ interceptor: {{ request: {{ url: \"{}\", includes: [request_body, request_trailers] }} }} }}]",
            service.url()
        ),
    );
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), "7".parse().unwrap())]);
    let body = full("a body").with_trailers(async move { Some(Ok(trailers)) }).boxed();
    let reply = client.ask(Request::post("http://a.test/x").body(body).unwrap());
    assert_eq!((reply.status, reply.body), (200, Bytes::from("A BODY")));
    let seen = origin.request();
    assert_eq!(seen.get("x-trailers"), Some("{\"x-sum\":\"7\"}"));
}

#[test]
fn streams_of_one_connection_share_a_limit_and_are_told_so() {
    let origin = Origin::saying("ok");
    let (_gateway, client) = start(&origin, "policies: [{ rate_limit: { requests: 5, per: 1h } }]");
    let asked: Vec<_> = (0..12)
        .map(|_| {
            let mut sender = client.sender.clone();
            client.spawn(async move {
                whole(sender.send_request(get(&[])).await.unwrap()).await.unwrap()
            })
        })
        .collect();
    let replies: Vec<_> = asked.into_iter().map(|one| client.block_on(one).unwrap()).collect();
    assert_eq!(replies.iter().filter(|reply| reply.status == 200).count(), 5);
    for reply in replies.iter().filter(|reply| reply.status != 200) {
        assert_eq!(reply.status, 429);
        assert!(reply.headers.contains_key("retry-after"), "{reply:?}");
    }
    assert!(replies.iter().all(|reply| value(&reply.headers, "ratelimit-policy").is_some()));
}
