//! `compress`: fewer bytes for clients that can read them, and untouched bytes for all others.

use std::io::Read;

use crate::harness::{Gate, Gateway, Message, Origin, Plain, tidegate};

const TEXT: &str = "{\"name\":\"tidegate\",\"name\":\"tidegate\",\"name\":\"tidegate\"}\n";

fn body() -> String {
    TEXT.repeat(100)
}

/// A gateway before an origin that answers with these lines and this body.
fn start(lines: &str, body: &str, compress: &str) -> (Origin, Gateway) {
    let length = body.len();
    let origin = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ));
    let gateway = before(&origin, compress);
    (origin, gateway)
}

fn before(origin: &Origin, compress: &str) -> Gateway {
    let route = format!("policies: [{{ compress: {{ {compress} }} }}]");
    Plain { route: &route, ..Plain::default() }.start(origin)
}

fn ask(gateway: &Gateway, method: &str, accept: &str) -> Message {
    gateway
        .wire()
        .ask(format!("{method} / HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: {accept}\r\n\r\n"))
}

fn decoded(reply: &Message) -> String {
    let body = reply.body.as_slice();
    let mut text = String::new();
    let read = match reply.get("content-encoding") {
        Some("gzip") => flate2::read::GzDecoder::new(body).read_to_string(&mut text),
        Some("br") => brotli::Decompressor::new(body, 4096).read_to_string(&mut text),
        Some("zstd") => zstd::stream::read::Decoder::new(body).unwrap().read_to_string(&mut text),
        other => panic!("{other:?}"),
    };
    read.unwrap();
    text
}

const JSON: &str =
    "Content-Type: application/json; charset=utf-8\r\nETag: \"a\"\r\nAccept-Ranges: bytes\r\n";

#[test]
fn a_reply_comes_in_the_encoding_the_client_likes_best() {
    let (_origin, gateway) = start(JSON, &body(), "");
    for (accept, encoding) in [
        ("gzip, br, zstd", "zstd"),
        ("gzip, br", "br"),
        ("gzip", "gzip"),
        ("br;q=0.1, gzip;q=0.2", "gzip"),
    ] {
        let reply = ask(&gateway, "GET", accept);
        assert_eq!(reply.get("content-encoding"), Some(encoding), "{accept}");
        assert!(reply.body.len() < body().len() / 5, "{accept}: {}", reply.body.len());
        assert!(reply.whole && decoded(&reply) == body(), "{accept}");
        assert_eq!(reply.get("etag"), Some("W/\"a\""));
        assert_eq!((reply.get("content-length"), reply.get("accept-ranges")), (None, None));
        assert!(reply.lists("vary", "accept-encoding"));
        // A HEAD gets the headers of a GET.
        let head = ask(&gateway, "HEAD", accept);
        assert_eq!(head.get("content-encoding"), Some(encoding), "{accept}");
        assert_eq!((head.get("content-length"), head.get("etag")), (None, Some("W/\"a\"")));
    }
    for accept in ["", "deflate", "gzip;q=0", "identity, *;q=0.5"] {
        let reply = ask(&gateway, "GET", accept);
        assert_eq!(reply.get("content-encoding"), None, "{accept}");
        assert_eq!((reply.text(), reply.get("etag")), (body(), Some("\"a\"")), "{accept}");
        assert!(reply.lists("vary", "accept-encoding"), "a cache still has to know");
    }
}

/// The length of a body that is at hand is not that of the compressed one.
#[test]
fn a_head_does_not_tell_a_length_that_a_get_would_not_have() {
    let text = body();
    let respond = format!(
        "respond: {{ body: {text:?}, headers: {{ content-type: text/plain, cache-control: max-age=600 }} }}"
    );
    let yaml = |end: &str| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ a: {{ match: {{ path: /a }}, policies: [{{ compress: {{}} }}, {{ cache: {{}} }}], {end} }} }}\n"
        )
    };
    let gateway = Gateway::start(yaml(&respond));
    for method in ["HEAD", "GET", "HEAD"] {
        let reply = gateway
            .wire()
            .ask(format!("{method} /a HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n"));
        assert_eq!(reply.get("content-encoding"), Some("gzip"), "{method}");
        assert_eq!(reply.get("content-length"), None, "{method}");
    }
}

#[test]
fn what_must_not_be_compressed_passes_byte_for_byte() {
    let json = "Content-Type: application/json\r\n";
    for lines in [
        "Content-Type: image/png\r\n",
        "",
        &format!("{json}Content-Encoding: gzip\r\n"),
        &format!("{json}Cache-Control: public, no-transform\r\n"),
        &format!("{json}Content-Range: bytes 0-1/2\r\n"),
        "Content-Type: text/event-stream\r\n",
    ] {
        let (_origin, gateway) = start(lines, &body(), "");
        let reply = ask(&gateway, "GET", "gzip, br, zstd");
        assert_eq!(reply.text(), body(), "{lines}");
        assert_eq!(reply.get("vary"), None, "{lines}");
        assert_eq!(reply.length(), Some(body().len()), "{lines}");
    }
    let (_origin, gateway) = start(json, "{}", "");
    assert_eq!(ask(&gateway, "GET", "gzip").text(), "{}", "too small");
    let origin = Origin::answering(format!("HTTP/1.1 204 No Content\r\n{json}ETag: \"a\"\r\n\r\n"));
    let reply = ask(&before(&origin, ""), "GET", "gzip");
    assert_eq!((reply.get("content-encoding"), reply.get("etag")), (None, Some("\"a\"")));
    let part =
        "HTTP/1.1 206 Partial Content\r\nContent-Length: 2\r\nContent-Type: text/plain\r\n\r\nab";
    let origin = Origin::answering(part);
    assert_eq!(ask(&before(&origin, "bytes_min: 0B"), "GET", "gzip").text(), "ab");
}

/// A 304 has the validators of the corresponding 200 (RFC 9110, 15.4.5).
#[test]
fn a_304_is_about_what_the_client_was_given() {
    for (lines, accept, etag, vary) in [
        ("", "gzip", "W/\"a\"", Some("Accept-Encoding")),
        ("Content-Type: application/json\r\n", "gzip", "W/\"a\"", Some("Accept-Encoding")),
        ("", "identity", "\"a\"", Some("Accept-Encoding")),
        ("Content-Type: image/png\r\n", "gzip", "\"a\"", None),
        ("Cache-Control: no-transform\r\n", "gzip", "\"a\"", None),
        ("Content-Encoding: br\r\n", "gzip", "\"a\"", None),
    ] {
        let origin =
            Origin::answering(format!("HTTP/1.1 304 Not Modified\r\n{lines}ETag: \"a\"\r\n\r\n"));
        let reply = ask(&before(&origin, ""), "GET", accept);
        assert_eq!((reply.get("etag"), reply.get("vary")), (Some(etag), vary), "{lines}{accept}");
    }
}

#[test]
fn a_slow_reply_is_not_held_back() {
    for accept in ["gzip", "br", "zstd"] {
        let gate = Gate::default();
        let held = gate.clone();
        let origin = Origin::start(move |peer| {
            peer.request();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
            peer.send(format!("{head}5\r\nfirst\r\n"));
            held.wait();
            peer.send("6\r\nsecond\r\n0\r\n\r\n");
        });
        let gateway = before(&origin, "");
        let mut wire = gateway.wire();
        wire.send(format!("GET / HTTP/1.1\r\nHost: a\r\nAccept-Encoding: {accept}\r\n\r\n"));
        let mut reply = wire.read_head();
        reply.body = wire.read_chunk().unwrap();
        gate.open();
        while let Some(chunk) = wire.read_chunk() {
            reply.body.extend(chunk);
        }
        assert_eq!(decoded(&reply), "firstsecond", "{accept}");
    }
}

#[test]
fn the_operator_says_what_and_how() {
    let (_origin, gateway) = start(
        "Content-Type: Application/VND.a+JSON\r\n",
        &body(),
        "encodings: [gzip], types: [\"*+json\"], bytes_min: 1B",
    );
    assert_eq!(ask(&gateway, "GET", "zstd, br, gzip;q=0.1").get("content-encoding"), Some("gzip"));
    let origin = Origin::saying("ok");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    for (compress, complaint) in [
        ("encodings: []", "no algorithm is listed"),
        ("encodings: [deflate]", "unknown value `deflate`"),
        ("types: [json]", "`json` is not a content type"),
    ] {
        let route = format!("policies: [{{ compress: {{ {compress} }} }}]");
        std::fs::write(&file, Plain { route: &route, ..Plain::default() }.yaml(&origin)).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        let said = run.stdout + &run.stderr;
        assert!(run.code == Some(1) && said.contains(complaint), "{compress}: {said}");
    }
}
