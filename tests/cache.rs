//! `cache`: the rules of RFC 9111 for a shared cache, from the outside.

use std::time::Duration;

use hyper::Request;

use crate::harness::{Gate, Gateway, H2, Message, Origin, Plain, Wire, full, tidegate, until};
use crate::http2_hostile::{ALL, GET, HEADERS, SETTINGS, frame, next};
use crate::reload::{put, put_ok};

fn start(origin: &Origin, cache: &str) -> Gateway {
    let route = format!("policies: [{{ cache: {{ {cache} }} }}]");
    Plain { route: &route, ..Plain::default() }.start(origin)
}

/// An origin whose body is the number of the request, with these lines.
fn counting(lines: &str) -> Origin {
    answering("200 OK", lines)
}

fn answering(status: &str, lines: &str) -> Origin {
    let front = format!("HTTP/1.1 {status}\r\n{lines}");
    let count = std::sync::atomic::AtomicUsize::new(0);
    Origin::start(move |peer| {
        while peer.request().is_some() {
            let body = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst).to_string();
            let length = body.len();
            peer.try_send(format!("{front}Content-Length: {length}\r\n\r\n{body}"));
        }
    })
}

fn ask(gateway: &Gateway, request: &str, lines: &str) -> Message {
    gateway.wire().ask(format!("{request} HTTP/1.1\r\nHost: a.test\r\n{lines}\r\n"))
}

/// A reply is kept while it passes; it is there once its last byte was read.
#[test]
fn what_may_be_kept_is_given_again_and_nothing_else() {
    const LONG: &str = "Cache-Control: max-age=600\r\n";
    for (lines, request, keys, kept) in [
        (LONG, "", "", true),
        ("Cache-Control: s-maxage=600, max-age=0\r\n", "", "", true),
        ("Cache-Control: max-age=600, s-maxage=0\r\n", "", "", false),
        ("Expires: Fri, 01 Jan 2100 00:00:00 GMT\r\n", "", "", true),
        ("Expires: 0\r\n", "", "", false),
        ("Expires: Fri, 01 Jan 2100 00:00:00 GMT\r\nCache-Control: max-age=0\r\n", "", "", false),
        ("", "", "", false),
        ("", "", "ttl: 1h", true),
        ("Cache-Control: max-age=0\r\n", "", "ttl: 1h", false),
        ("Cache-Control: no-store, max-age=600\r\n", "", "", false),
        ("Cache-Control: private, max-age=600\r\n", "", "", false),
        ("Cache-Control: no-cache, max-age=600\r\n", "", "", false),
        ("Cache-Control: max-age=600\r\nSet-Cookie: a=b\r\n", "", "", false),
        ("Cache-Control: max-age=600\r\nVary: *\r\n", "", "", false),
        // Headers that the gateway adds for each client are not part of the examined request.
        ("Cache-Control: max-age=600\r\nVary: X-Forwarded-For\r\n", "", "", false),
        ("Cache-Control: max-age=600\r\nVary: Accept, via\r\n", "", "", false),
        ("Cache-Control: max-age=600\r\nVary: X-Forwarded-Proto\r\n", "", "", true),
        ("Cache-Control: max-age=600\r\nAge: 600\r\n", "", "", false),
        ("Cache-Control: max-age=600\r\nDate: Thu, 01 Jan 2015 00:00:00 GMT\r\n", "", "", false),
        (LONG, "Authorization: Bearer x\r\n", "", false),
        ("Cache-Control: public, max-age=600\r\n", "Authorization: Bearer x\r\n", "", true),
        ("Cache-Control: s-maxage=600\r\n", "Authorization: Bearer x\r\n", "", true),
        (LONG, "Cache-Control: no-store\r\n", "", false),
        (LONG, "Cache-Control: no-cache\r\n", "", false),
        (LONG, "Pragma: no-cache\r\n", "", false),
        (LONG, "Cache-Control: max-age=0\r\n", "", false),
        (LONG, "Cache-Control: max-age=60, foo\r\n", "", true),
        (LONG, "Cache-Control: min-fresh=1000\r\n", "", false),
        (LONG, "Range: bytes=0-0\r\n", "", false),
        (LONG, "", "entry_bytes_max: 0B", false),
    ] {
        let origin = counting(lines);
        let gateway = start(&origin, keys);
        let first = ask(&gateway, "GET /a?b", request);
        assert_eq!(first.text(), "0");
        assert_eq!(first.length(), Some(1), "a miss passes as it came: {first:?}");
        let second = ask(&gateway, "GET /a?b", request);
        let hit = second.get("cache-status").is_some_and(|s| s.starts_with("tidegate; hit"));
        assert_eq!(
            (second.text() == "0", hit),
            (kept, kept),
            "{lines} {request} {keys} {second:?}"
        );
        assert_eq!(second.get("age").is_some() && hit, kept, "{second:?}");
    }
}

/// Issue 18, 6: a request that bypasses the cache is not answered from it, and its reply is not shared.
#[test]
fn requests_that_say_more_than_the_key_holds_go_past_the_cache() {
    const BODY: &str = "Content-Length: 4\r\n\r\nevil";
    const CHUNKS: &str = "Transfer-Encoding: chunked\r\n\r\n4\r\nevil\r\n0\r\n";
    for (method, lines, keys, detail) in [
        ("GET", BODY, "", Some("body")),
        ("GET", CHUNKS, "", Some("body")),
        ("HEAD", BODY, "", Some("body")),
        ("GET", "Content-Length: 0\r\n", "", None),
        ("GET", "X-HTTP-Method-Override: DELETE\r\n", "", Some("method-override")),
        ("GET", "X_HTTP_Method_Override: DELETE\r\n", "", Some("method-override")),
        ("GET", "X-HTTP-Method: PUT\r\n", "", Some("method-override")),
        ("HEAD", "X-Method-Override: PUT\r\n", "", Some("method-override")),
        ("GET", "Cookie: session=a\r\n", "", Some("cookie")),
        ("GET", "Cookie: session=a\r\n", "cookies: bypass", Some("cookie")),
        ("GET", "Cookie: session=a\r\n", "cookies: ignore", None),
        ("GET", "Cookie: session=a\r\nCookie: b=c\r\n", "cookies: ignore", None),
    ] {
        let origin = counting("Cache-Control: max-age=600\r\n");
        let gateway = start(&origin, keys);
        let request = format!("{method} /a HTTP/1.1\r\nHost: a.test\r\n{lines}");
        let end = if lines.ends_with("evil") { "" } else { "\r\n" };
        // Before anything is kept, and after.
        for asked_before in [0, 2] {
            let sent = gateway.wire().ask(format!("{request}{end}"));
            let expected = detail.map(|why| format!("tidegate; fwd=bypass; detail={why}"));
            if let Some(expected) = expected {
                assert_eq!(sent.get("cache-status"), Some(&*expected), "{request}");
                assert_eq!(origin.requests().len(), asked_before + 1, "{request}");
            }
            let plain = ask(&gateway, "GET /a", "");
            let text = if detail.is_some() { "1" } else { "0" };
            assert_eq!(plain.text(), text, "{request} {keys} {plain:?}");
        }
        assert_eq!(origin.requests().len(), if detail.is_some() { 3 } else { 1 }, "{request}");
    }
}

/// Issue 3.7: operators can see why nothing is cached.
#[test]
fn a_reply_that_is_not_kept_says_why() {
    const LONG: &str = "Cache-Control: max-age=600\r\n";
    let miss = |why: &str| format!("tidegate; fwd=uri-miss; stored=?0; detail={why}");
    let past = |why: &str| format!("tidegate; fwd=bypass; detail={why}");
    for (method, lines, request, keys, told) in [
        ("GET", LONG, "", "", "tidegate; fwd=uri-miss; stored".to_owned()),
        ("GET", "", "", "", miss("no-freshness")),
        ("GET", "Cache-Control: max-age=0\r\n", "", "", miss("never-fresh")),
        ("GET", "Cache-Control: no-store\r\n", "", "", miss("no-store")),
        ("GET", "Cache-Control: private, max-age=9\r\n", "", "ttl: 9s", miss("private")),
        ("GET", "Cache-Control: max-age=9\r\nSet-Cookie: a=b\r\n", "", "", miss("set-cookie")),
        ("GET", "Cache-Control: max-age=9\r\nVary: *\r\n", "", "", miss("vary")),
        ("GET", LONG, "Authorization: Bearer x\r\n", "", miss("authorization")),
        ("GET", LONG, "", "entry_bytes_max: 0B", miss("too-large")),
        ("GET", LONG, "Cookie: a=b\r\n", "", past("cookie")),
        ("GET", LONG, "Range: bytes=0-0\r\n", "", past("range")),
        ("GET", LONG, "Cache-Control: no-store\r\n", "", past("no-store")),
        ("HEAD", LONG, "", "", past("head")),
        ("POST", LONG, "", "", "tidegate; fwd=method".to_owned()),
    ] {
        let origin = counting(lines);
        let gateway = start(&origin, keys);
        let mut wire = gateway.wire();
        wire.send(format!("{method} /a HTTP/1.1\r\nHost: a\r\n{request}\r\n"));
        let reply = wire.read_head();
        assert_eq!(reply.get("cache-status"), Some(&*told), "{method} {lines} {request} {keys}");
    }
    let origin = Origin::answering(
        "HTTP/1.1 418 Teapot\r\nCache-Control: max-age=600\r\nContent-Length: 0\r\n\r\n",
    );
    let told = start(&origin, "").wire().get("/a");
    assert_eq!(told.get("cache-status"), Some(&*miss("status")));
}

/// HTTP/2 indicates a body only by a flag.
#[test]
fn a_body_over_http2_goes_past_the_cache() {
    let origin = counting("Cache-Control: max-age=600\r\n");
    let gateway = start(&origin, "");
    let client = H2::connect(gateway.address("public"));
    let get = |body: &'static str| {
        let request = Request::get("http://a.test/a").body(full(body)).unwrap();
        let reply = client.ask(request);
        let status = reply.headers.get("cache-status").unwrap().to_str().unwrap().to_owned();
        (String::from_utf8(reply.body.to_vec()).unwrap(), status)
    };
    let past = || "tidegate; fwd=bypass; detail=body".to_owned();
    assert_eq!(get("evil"), ("0".to_owned(), past()));
    assert_eq!(get("").0, "1");
    assert_eq!(get("evil"), ("2".to_owned(), past()));
    assert_eq!(get("").0, "1");
}

/// Issue 18, 6: `ttl` is for successful replies, unless `statuses` says otherwise.
#[test]
fn a_reply_that_says_nothing_is_kept_where_its_status_is_listed() {
    const LISTED: &str = "ttl: 1h, statuses: [200, 404]";
    for (status, lines, keys, kept) in [
        ("200 OK", "", "ttl: 1h", true),
        ("203 Non-Authoritative Information", "", "ttl: 1h", true),
        ("301 Moved Permanently", "Location: /b\r\n", "ttl: 1h", true),
        ("308 Permanent Redirect", "Location: /b\r\n", "ttl: 1h", true),
        ("302 Found", "Location: /b\r\n", "ttl: 1h", false),
        ("307 Temporary Redirect", "Location: /b\r\n", "ttl: 1h", false),
        ("404 Not Found", "", "ttl: 1h", false),
        ("405 Method Not Allowed", "", "ttl: 1h", false),
        ("410 Gone", "", "ttl: 1h", false),
        ("414 URI Too Long", "", "ttl: 1h", false),
        ("501 Not Implemented", "", "ttl: 1h", false),
        ("405 Method Not Allowed", "ETag: \"a\"\r\n", "ttl: 1h", false),
        ("404 Not Found", "", LISTED, true),
        ("203 Non-Authoritative Information", "", LISTED, false),
        ("405 Method Not Allowed", "Cache-Control: max-age=600\r\n", LISTED, true),
    ] {
        let origin = answering(status, lines);
        let gateway = start(&origin, keys);
        let bodies = [0, 1].map(|_| ask(&gateway, "GET /", "").text());
        assert_eq!(bodies[1] == bodies[0], kept, "{status} {lines} {keys}");
    }
}

/// Issue 18, 6: an upstream makes links and redirects of the request's origin as trusted proxies report it.
#[test]
fn what_trusted_proxies_say_of_the_url_is_part_of_it() {
    for (line, trusted, is_part) in [
        ("X-Forwarded-Host: b.test", true, true),
        ("X-Forwarded-Proto: https", true, true),
        ("X-Forwarded-Port: 81", true, true),
        ("X-Forwarded-Prefix: /p", true, true),
        ("X-Original-URL: /p", true, true),
        ("Forwarded: for=192.0.2.1;host=b.test", true, true),
        // Different for each client, but not part of a URL.
        ("X-Forwarded-For: 192.0.2.1", true, false),
        ("Forwarded: for=192.0.2.1", true, false),
        // The upstream does not get to see them.
        ("X-Forwarded-Host: b.test", false, false),
        ("X-Forwarded-Proto: https", false, false),
    ] {
        let origin = counting("Cache-Control: max-age=600\r\n");
        let listener = if trusted { "trusted_proxies: [127.0.0.1]" } else { "" };
        let route = "policies: [{ cache: {} }]";
        let gateway = Plain { listener, route, ..Plain::default() }.start(&origin);
        let lines = |client: &str| match line.split_once("192.0.2.1") {
            Some((front, rest)) => format!("{front}192.0.2.{client}{rest}\r\n"),
            None => format!("{line}\r\n"),
        };
        let base = match line {
            "Forwarded: for=192.0.2.1" => "Forwarded: for=192.0.2.9\r\n",
            _ => "",
        };
        assert_eq!(ask(&gateway, "GET /a", base).text(), "0", "{line}");
        let said = if is_part { "1" } else { "0" };
        for client in ["1", "2"] {
            assert_eq!(ask(&gateway, "GET /a", &lines(client)).text(), said, "{line} {trusted}");
        }
        assert_eq!(ask(&gateway, "GET /a", base).text(), "0", "{line}");
    }
}

#[test]
fn writing_forgets_what_is_kept_under_the_same_name_of_the_url() {
    let origin = counting("Cache-Control: max-age=600\r\nContent-Location: /other\r\n");
    let listener = "trusted_proxies: [127.0.0.1]";
    let route = "policies: [{ cache: {} }]";
    let gateway = Plain { listener, route, ..Plain::default() }.start(&origin);
    let text = |request: &str| ask(&gateway, request, "X-Forwarded-Host: b.test\r\n").text();
    assert_eq!([text("GET /a"), text("GET /other"), text("GET /a")], ["0", "1", "0"]);
    text("DELETE /a");
    assert_eq!([text("GET /a"), text("GET /other")], ["3", "4"]);
}

/// The upstream gets the host unchanged, and may answer another spelling differently.
#[test]
fn a_host_of_another_spelling_is_another_url() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let host = request.get("host").unwrap().to_owned();
            let length = host.len();
            peer.try_send(format!(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {length}\r\n\r\n{host}"
            ));
        }
    });
    let gateway = start(&origin, "");
    for host in ["a.test", "A.test", "a.test.", "a.test:80"] {
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert_eq!(reply.text(), host);
    }
}

#[test]
fn statuses_that_are_kept() {
    for (status, kept) in [
        ("404 Not Found", true),
        ("301 Moved Permanently", true),
        ("500 Internal Server Error", false),
        ("206 Partial Content", false),
        ("403 Forbidden", false),
    ] {
        let origin = answering(status, "Cache-Control: max-age=600\r\n");
        let gateway = start(&origin, "");
        let bodies = [0, 1].map(|_| ask(&gateway, "GET /", "").text());
        assert_eq!(bodies[1] == bodies[0], kept, "{status}");
    }
}

#[test]
fn a_reply_without_a_body_is_kept_as_it_says() {
    let origin = Origin::answering(
        "HTTP/1.1 204 No Content\r\nCache-Control: max-age=600\r\nX-A: b\r\n\r\n",
    );
    let gateway = start(&origin, "");
    for told in ["tidegate; fwd=uri-miss; stored", "tidegate; hit; ttl="] {
        let reply = ask(&gateway, "GET /", "");
        assert_eq!((reply.status(), reply.get("x-a")), (204, Some("b")));
        assert!(reply.get("cache-status").unwrap().starts_with(told), "{reply:?}");
    }
}

#[test]
fn variants_are_told_apart_and_a_url_is_host_and_target() {
    let origin = counting("Cache-Control: max-age=600\r\nVary: Accept, X-A\r\n");
    let gateway = start(&origin, "");
    let text = |target: &str, lines: &str| ask(&gateway, &format!("GET {target}"), lines).text();
    for _ in 0..2 {
        assert_eq!(text("/a", "Accept: b\r\n"), "0");
        assert_eq!(text("/a", "Accept: c\r\n"), "1");
        assert_eq!(text("/a", "Accept: b\r\nX-A: 1\r\n"), "2");
        assert_eq!(text("/a?", "Accept: b\r\n"), "3");
        assert_eq!(text("/b", "Accept: b\r\n"), "4");
    }
    let other = gateway.wire().ask("GET /a HTTP/1.1\r\nHost: b.test\r\nAccept: b\r\n\r\n");
    assert_eq!(other.text(), "5");
}

/// RFC 9111, 4: of several that fit, the most recent.
#[test]
fn a_later_variant_is_not_hidden_by_an_earlier_one() {
    let missing = "HTTP/1.1 404 No\r\nCache-Control: max-age=1\r\nAge: 1\r\nETag: \"a\"\r\nContent-Length: 2\r\n\r\nno";
    let found = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nVary: Accept-Encoding\r\nContent-Length: 3\r\n\r\nyes";
    let count = std::sync::atomic::AtomicUsize::new(0);
    let origin = Origin::start(move |peer| {
        while peer.request().is_some() {
            let first = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0;
            peer.try_send(if first { missing } else { found });
        }
    });
    let gateway = start(&origin, "");
    assert_eq!(ask(&gateway, "GET /", "").status(), 404);
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "GET /", "").text(), "yes");
    }
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_head_is_answered_from_what_a_get_brought_and_brings_nothing_itself() {
    let origin = counting("Cache-Control: max-age=600\r\n");
    let gateway = start(&origin, "");
    ask(&gateway, "HEAD /", "");
    assert_eq!(origin.requests().len(), 1);
    assert_eq!(ask(&gateway, "GET /", "").text(), "1");
    let head = ask(&gateway, "HEAD /", "");
    assert_eq!((head.status(), head.length(), origin.requests().len()), (200, Some(1), 2));
}

#[test]
fn clients_that_have_it_are_told_so() {
    let origin = counting(
        "Cache-Control: max-age=600\r\nETag: \"a\"\r\nLast-Modified: Thu, 01 Jan 2015 00:00:00 GMT\r\n",
    );
    let gateway = start(&origin, "");
    assert_eq!(ask(&gateway, "GET /", "").status(), 200);
    for (condition, status) in [
        ("If-None-Match: \"a\"", 304),
        ("If-None-Match: \"x\", W/\"a\"", 304),
        ("If-None-Match: *", 304),
        ("If-None-Match: \"b\"", 200),
        ("If-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT", 304),
        ("If-Modified-Since: Wed, 31 Dec 2014 00:00:00 GMT", 200),
        ("If-None-Match: \"b\"\r\nIf-Modified-Since: Thu, 01 Jan 2015 00:00:00 GMT", 200),
    ] {
        let reply = ask(&gateway, "GET /", &format!("{condition}\r\n"));
        assert_eq!((reply.status(), reply.get("etag")), (status, Some("\"a\"")), "{condition}");
    }
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn what_is_stale_is_asked_about_and_the_answer_holds() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let reply = match request.get("if-none-match") {
                Some("\"a\"") => {
                    "HTTP/1.1 304 Not Modified\r\nCache-Control: max-age=0\r\nX-New: 1\r\n\r\n"
                }
                _ => {
                    "HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"a\"\r\nX-New: 0\r\nContent-Length: 4\r\n\r\nbody"
                }
            };
            peer.try_send(reply);
        }
    });
    let gateway = start(&origin, "");
    assert_eq!(ask(&gateway, "GET /", "").get("x-new"), Some("0"));
    // The client has another version, or the same; the upstream is asked about ours.
    for (lines, status) in
        [("", 200), ("If-None-Match: \"z\"\r\n", 200), ("If-None-Match: \"a\"\r\n", 304)]
    {
        let reply = ask(&gateway, "GET /", lines);
        assert_eq!((reply.status(), reply.get("x-new")), (status, Some("1")), "{reply:?}");
        assert_eq!(reply.text(), if status == 200 { "body" } else { "" });
        assert!(reply.get("cache-status").unwrap().contains("fwd-status=304"), "{reply:?}");
    }
    let asked: Vec<_> =
        origin.requests().iter().map(|r| r.get("if-none-match").map(str::to_owned)).collect();
    assert_eq!(asked[1..], vec![Some("\"a\"".to_owned()); 3]);
}

/// RFC 9110, 6.6.1: a message without a date is of the moment at which it came, a 304 as well.
#[test]
fn an_answer_without_a_date_makes_fresh_what_is_old() {
    const OLD: &str = "Thu, 01 Jan 2015 00:00:00 GMT";
    let origin = Origin::start(|peer| {
        const KEPT: &str = "Cache-Control: max-age=600\r\nETag: \"a\"\r\n";
        while let Some(request) = peer.request() {
            let reply = match request.get("if-none-match") {
                Some(_) => format!("HTTP/1.1 304 Not Modified\r\n{KEPT}\r\n"),
                None => {
                    format!("HTTP/1.1 200 OK\r\n{KEPT}Date: {OLD}\r\nContent-Length: 4\r\n\r\nbody")
                }
            };
            peer.try_send(reply);
        }
    });
    let gateway = start(&origin, "");
    for how in ["fwd=uri-miss; stored", "fwd=stale; fwd-status=304; ttl=", "hit; ttl="] {
        let reply = ask(&gateway, "GET /", "");
        let status = reply.get("cache-status").unwrap();
        assert!(status.starts_with(&format!("tidegate; {how}")), "{how}: {status}");
        assert_eq!(reply.get("date") == Some(OLD), how.contains("miss"), "{reply:?}");
        assert_eq!(reply.text(), "body");
    }
}

/// RFC 9111, 4.3.4 and 3: a 304 applies to the reply that it names, and may make that reply private.
#[test]
fn an_answer_for_one_client_or_about_another_reply_is_not_given_to_others() {
    for (says, etag) in [
        ("Cache-Control: private, max-age=600\r\nSet-Cookie: sid=alice\r\n", "\"a\""),
        ("Cache-Control: max-age=600\r\nSet-Cookie: sid=alice\r\n", "\"a\""),
        ("Cache-Control: no-store\r\n", "\"a\""),
        ("Cache-Control: max-age=600\r\n", "\"b\""),
    ] {
        let unchanged = format!("HTTP/1.1 304 Not Modified\r\n{says}ETag: {etag}\r\n\r\n");
        let origin = Origin::start(move |peer| {
            while let Some(request) = peer.request() {
                match request.get("if-none-match") {
                    Some(_) => peer.try_send(&unchanged),
                    None => peer.try_send("HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\nbody"),
                };
            }
        });
        let gateway = start(&origin, "");
        ask(&gateway, "GET /", "");
        let first = ask(&gateway, "GET /", "");
        assert_eq!((first.status(), first.text().as_str()), (200, "body"), "{says}");
        let next = ask(&gateway, "GET /", "");
        let status = next.get("cache-status").unwrap();
        assert!(status.starts_with("tidegate; fwd=uri-miss"), "{says}: {next:?}");
        assert_eq!(next.get("set-cookie"), None, "{says}");
    }
}

/// The target of a policy is part of a cache's key.
#[test]
fn replies_of_one_place_are_not_given_for_another() {
    let origin = counting("Cache-Control: max-age=600\r\n");
    let other = Origin::answering(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\nother",
    );
    // It sends those with this line elsewhere.
    let service = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let answer = if request.text().contains("\"x-go\"") {
                "{\"dynamicEndpoint\":{\"endpointName\":\"other\"}}"
            } else {
                "{\"pathToRewrite\":\"/r\"}"
            };
            let length = answer.len();
            peer.try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}"));
        }
    });
    let interceptor = format!(
        "{{ interceptor: {{ request: {{ url: \"{}\", includes: [request_headers] }} }} }}",
        service.url()
    );
    let start = |policies: &str| {
        let route = format!("policies: [{policies}]");
        let yaml = Plain { route: &route, ..Plain::default() }.yaml(&origin);
        let yaml = yaml.replace(
            "upstreams: {",
            &format!("upstreams: {{ other: {{ targets: [\"{}\"] }},", other.url()),
        );
        Gateway::start(yaml)
    };
    let below = start(&format!("{interceptor}, {{ cache: {{}} }}"));
    let text = |gateway: &Gateway, lines: &str| ask(gateway, "GET /a", lines).text();
    for _ in 0..2 {
        assert_eq!(text(&below, "X-Go: 1\r\n"), "other");
        assert_eq!(text(&below, ""), "0");
    }
    assert_eq!((origin.requests().len(), other.requests().len()), (1, 1));
    // Above it, a reply from elsewhere is not cached.
    let above = start(&format!("{{ cache: {{}} }}, {interceptor}"));
    assert_eq!(text(&above, "X-Go: 1\r\n"), "other");
    assert_eq!((text(&above, ""), text(&above, "")), ("1".into(), "2".into()));
}

/// A cached reply of one upstream is never used for another, whatever a reload changes in between.
#[test]
fn a_reload_gives_no_upstream_what_another_replied() {
    const KEPT: &str = "Cache-Control: max-age=600\r\n";
    let [one, two] = ["one", "two"].map(|body| {
        Origin::answering(format!(
            "HTTP/1.1 200 OK\r\n{KEPT}Content-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    });
    let service = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let name = if request.text().contains("\"x-go\":\"one\"") { "one" } else { "two" };
            let answer = format!("{{\"dynamicEndpoint\":{{\"endpointName\":\"{name}\"}}}}");
            let length = answer.len();
            peer.try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}"));
        }
    });
    let (a, b) = ("one: { upstream: one }", "two: { upstream: two }");
    let yaml = |first: &str, second: &str, upstream: &str, ending: &str| {
        format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ one: {{ targets: ["{}"] }}, two: {{ targets: ["{}"] }} }}
routes:
  diverted:
    match: {{ path: /d }}
    upstream: one
    policies:
      - interceptor: {{ request: {{ url: "{}", includes: [request_headers] }}, endpoints: {{ {first}, {second} }} }}
      - cache: {{ }}
  straight: {{ match: {{ path: /s }}, upstream: {upstream}, policies: [{{ cache: {{}} }}] }}
  fixed:
    match: {{ path: /f }}
    respond: {{ body: {upstream}, headers: {{ Cache-Control: max-age=600 }} }}
    policies: [{{ cache: {{}} }}]
  same: {{ match: {{ path: /same }}, upstream: one, {ending} policies: [{{ cache: {{}} }}] }}
"#,
            one.url(),
            two.url(),
            service.url()
        )
    };
    let gateway = Gateway::start(yaml(a, b, "one", ""));
    let text = |path: &str, lines: &str| ask(&gateway, &format!("GET {path}"), lines).text();
    let all = || {
        let [one, two] = ["one", "two"].map(|to| text("/d", &format!("X-Go: {to}\r\n")));
        [one, two, text("/s", ""), text("/f", ""), text("/same", "")]
    };
    assert_eq!(all(), ["one", "two", "one", "one", "one"]);
    let before = (one.requests().len(), two.requests().len());
    assert_eq!(put(&gateway, &yaml(b, a, "two", "")).status(), 200);
    assert_eq!(all(), ["one", "two", "two", "two", "one"]);
    let after = (one.requests().len(), two.requests().len());
    assert_eq!((after.0 - before.0, after.1 - before.1), (0, 1), "what still holds is kept");
    assert_eq!(put(&gateway, &yaml(b, a, "two", "rewrite: /other,")).status(), 200);
    assert_eq!(text("/same", ""), "one");
    assert_eq!(one.requests().last().unwrap().target(), "/other");
}

/// A cached reply is dropped when a reload changes what would make it now: a policy below the cache, or a flow.
#[test]
fn a_reload_drops_replies_that_would_be_made_differently() {
    const KEPT: &str = "Cache-Control: max-age=600";
    let origin =
        Origin::answering(format!("HTTP/1.1 200 OK\r\n{KEPT}\r\nContent-Length: 1\r\n\r\na"));
    let yaml = |above: &str, below: &str, inner: &str, other: &str| {
        format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ one: {{ targets: ["{}"] }} }}
flows:
  outer: [{{ call: {{ upstream: one, method: GET, into: a }} }}, {{ sequence: inner }}]
  inner: [{{ respond: {{ text: {inner}, headers: {{ Cache-Control: max-age=600 }} }} }}]
  other: [{{ respond: {{ text: {other} }} }}]
routes:
  policy:
    match: {{ path: /p }}
    upstream: one
    policies:
      - headers: {{ response: {{ set: {{ x-above: {above} }} }} }}
      - cache: {{}}
      - headers: {{ response: {{ set: {{ x-below: {below} }} }} }}
  flow: {{ match: {{ path: /f }}, flow: outer, policies: [{{ cache: {{}} }}] }}
  other: {{ match: {{ path: /o }}, flow: other }}
"#,
            origin.url()
        )
    };
    let gateway = Gateway::start(yaml("a", "a", "a", "a"));
    let all = || {
        let reply = ask(&gateway, "GET /p", "");
        let line = |name: &str| reply.get(name).unwrap_or_default().to_owned();
        let made = [line("x-above"), line("x-below"), ask(&gateway, "GET /f", "").text()].join(" ");
        (made, origin.requests().len())
    };
    assert_eq!(all(), ("a a a".to_owned(), 2));
    assert_eq!(all(), ("a a a".to_owned(), 2));
    // Policies above the cache, and flows that the route does not run, have no effect on cached replies.
    put_ok(&gateway, &yaml("b", "a", "a", "b"));
    assert_eq!(all(), ("b a a".to_owned(), 2));
    put_ok(&gateway, &yaml("b", "b", "a", "b"));
    assert_eq!(all(), ("b b a".to_owned(), 3));
    put_ok(&gateway, &yaml("b", "b", "b", "b"));
    assert_eq!(all(), ("b b b".to_owned(), 4));
}

/// Validators of a cached reply are only for the upstream that it came from. Another one would answer them wrongly.
#[test]
fn a_request_that_goes_elsewhere_asks_what_its_client_asked() {
    const KEPT: &str = "Cache-Control: max-age=0\r\nETag: \"v1\"\r\n";
    let place = |body: &'static str| {
        Origin::start(move |peer| {
            while let Some(request) = peer.request() {
                let is_known = request.get("if-none-match") == Some("\"v1\"");
                if is_known {
                    peer.try_send(format!("HTTP/1.1 304 Not Modified\r\n{KEPT}\r\n"))
                } else {
                    peer.try_send(format!(
                        "HTTP/1.1 200 OK\r\n{KEPT}Content-Length: 5\r\n\r\n{body}"
                    ))
                };
            }
        })
    };
    let (origin, other) = (place("first"), place("other"));
    let service = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let answer = match request.text() {
                text if text.contains("\"x-go\"") => {
                    "{\"dynamicEndpoint\":{\"endpointName\":\"other\"}}"
                }
                text if text.contains("\"x-path\"") => "{\"pathToRewrite\":\"/r\"}",
                _ => "{}",
            };
            let length = answer.len();
            peer.try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}"));
        }
    });
    let interceptor = format!(
        "{{ interceptor: {{ request: {{ url: \"{}\", includes: [request_headers] }} }} }}",
        service.url()
    );
    let route = format!("policies: [{{ cache: {{}} }}, {interceptor}]");
    let yaml = Plain { route: &route, ..Plain::default() }.yaml(&origin);
    let yaml = yaml.replace(
        "upstreams: {",
        &format!("upstreams: {{ other: {{ targets: [\"{}\"] }},", other.url()),
    );
    let gateway = Gateway::start(yaml);
    assert_eq!(ask(&gateway, "GET /p", "").text(), "first");
    for (lines, status, text) in [
        ("X-Go: 1\r\n", 200, "other"),
        ("X-Path: 1\r\n", 200, "first"),
        ("X-Go: 1\r\nIf-None-Match: \"v1\"\r\n", 304, ""),
        ("X-Go: 1\r\nIf-None-Match: \"v0\"\r\n", 200, "other"),
        ("", 200, "first"),
    ] {
        let reply = ask(&gateway, "GET /p", lines);
        assert_eq!((reply.status(), reply.text().as_str()), (status, text), "{lines} {reply:?}");
    }
    // The last request went to the source of the cached reply, and was about that.
    assert_eq!(origin.requests().last().unwrap().get("if-none-match"), Some("\"v1\""));
}

#[test]
fn writing_makes_what_is_kept_untrue() {
    let origin = counting("Cache-Control: max-age=600\r\nContent-Location: /other\r\n");
    let gateway = start(&origin, "");
    let text = |request: &str| ask(&gateway, request, "").text();
    assert_eq!(
        (text("GET /a"), text("GET /other"), text("GET /a")),
        ("0".into(), "1".into(), "0".into())
    );
    text("DELETE /a");
    assert_eq!((text("GET /a"), text("GET /other")), ("3".to_owned(), "4".to_owned()));
}

#[test]
fn a_stale_reply_stands_in_for_a_failing_upstream_where_that_is_allowed() {
    for (said, keys, stands_in) in [
        ("max-age=0", "stale_if_error: 1h", true),
        ("max-age=0, stale-if-error=60", "", true),
        ("max-age=0", "", false),
        ("max-age=0, must-revalidate", "stale_if_error: 1h", false),
    ] {
        let lines = format!(
            "HTTP/1.1 200 OK\r\nCache-Control: {said}\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\ngood"
        );
        let origin = Origin::start(move |peer| {
            if peer.request().is_some() {
                let reply = match peer.number {
                    0 => lines.as_str(),
                    _ => "HTTP/1.1 503 No\r\nConnection: close\r\nContent-Length: 3\r\n\r\nbad",
                };
                peer.try_send(reply);
            }
        });
        let gateway = start(&origin, keys);
        assert_eq!(ask(&gateway, "GET /", "").text(), "good");
        until("the first connection has closed", || origin.open() == 0);
        let reply = ask(&gateway, "GET /", "");
        let expected = if stands_in { (200, "good") } else { (503, "bad") };
        assert_eq!((reply.status(), reply.text().as_str()), expected, "{said} {keys} {reply:?}");
    }
}

#[test]
fn only_if_cached_asks_nobody() {
    let origin = counting("Cache-Control: max-age=600\r\n");
    let gateway = start(&origin, "");
    assert_eq!(ask(&gateway, "GET /", "Cache-Control: only-if-cached\r\n").status(), 504);
    assert!(origin.requests().is_empty());
    ask(&gateway, "GET /", "");
    assert_eq!(ask(&gateway, "GET /", "Cache-Control: only-if-cached\r\n").text(), "0");
}

#[test]
fn a_reply_that_breaks_off_is_not_kept_and_the_store_is_bounded() {
    let origin = Origin::start(|peer| {
        peer.request();
        let body = if peer.number == 0 { "ha" } else { "half-whole" };
        peer.try_send(format!(
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 10\r\nConnection: close\r\n\r\n{body}"
        ));
    });
    let gateway = start(&origin, "");
    assert!(!ask(&gateway, "GET /", "").whole);
    assert_eq!(ask(&gateway, "GET /", "").text(), "half-whole");
    assert_eq!(ask(&gateway, "GET /", "").text(), "half-whole");
    assert_eq!(origin.accepted(), 2);

    let origin = counting("Cache-Control: max-age=600\r\n");
    let gateway = start(&origin, "entries_max: 20");
    let targets = || (0..100).map(|n| format!("GET /{n}"));
    targets().for_each(|target| drop(ask(&gateway, &target, "")));
    let kept = targets().filter(|t| {
        let reply = ask(&gateway, t, "Cache-Control: only-if-cached\r\n");
        reply.status() == 200
    });
    let kept = kept.count();
    assert!((1..=36).contains(&kept), "{kept}");
}

/// Answers with these lines, but only when the gate opens; how many were asked is how many requests there are.
fn held(lines: &str, gate: &Gate) -> Origin {
    let (reply, gate) =
        (format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 5\r\n\r\nhello"), gate.clone());
    Origin::start(move |peer| {
        while peer.request().is_some() {
            gate.wait();
            peer.try_send(&reply);
        }
    })
}

const SAME: &str = "GET /same HTTP/1.1\r\nHost: a.test\r\n\r\n";

/// Sends the request, which does not get an answer for now.
fn waiting(gateway: &Gateway) -> Wire {
    let mut wire = gateway.wire();
    wire.send(SAME);
    assert!(wire.is_silent_for(Duration::from_millis(50)));
    wire
}

fn first(gateway: &Gateway, origin: &Origin) -> Wire {
    let mut wire = gateway.wire();
    wire.send(SAME);
    origin.wait_for_requests(1);
    wire
}

#[test]
fn requests_for_the_same_at_once_ask_once() {
    let gate = Gate::default();
    let origin = held("Cache-Control: max-age=600\r\n", &gate);
    let gateway = start(&origin, "");
    let mut leader = first(&gateway, &origin);
    let followers: Vec<Wire> = (0..4).map(|_| waiting(&gateway)).collect();
    // A request for something else, or with `no-cache`, does not wait for the first.
    for other in ["GET /other", "GET /same?a", "HEAD /same"] {
        gateway.wire().send(format!("{other} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
    }
    gateway.wire().send(SAME.replace("\r\n\r\n", "\r\nCache-Control: no-cache\r\n\r\n"));
    origin.wait_for_requests(5);
    gate.open();
    let told = leader.read_reply();
    assert_eq!((told.status(), told.text().as_str()), (200, "hello"));
    assert_eq!(told.get("cache-status"), Some("tidegate; fwd=uri-miss; stored"));
    for mut follower in followers {
        let told = follower.read_reply();
        assert_eq!((told.status(), told.text().as_str()), (200, "hello"));
        let status = told.get("cache-status").unwrap();
        assert!(status.starts_with("tidegate; fwd=uri-miss; collapsed; ttl="), "{status}");
        assert!(told.get("age").is_some(), "{told:?}");
    }
    assert_eq!(origin.accepted(), 5, "nobody else asked");
}

/// The reply may depend on a credential that a policy above has removed.
#[test]
fn a_reply_that_varies_by_what_was_taken_out_is_not_kept() {
    for (vary, kept) in [("Authorization", false), ("Accept", true)] {
        let lines = format!("Cache-Control: public, max-age=600\r\nVary: {vary}\r\n");
        let origin = counting(&lines);
        let users = "basic: { users: { ann: a-long-password, bob: b-long-password } }";
        let route = format!("policies: [{{ {users} }}, {{ cache: {{}} }}]");
        let gateway = Plain { route: &route, ..Plain::default() }.start(&origin);
        for _ in 0..2 {
            let ann = "Authorization: Basic YW5uOmEtbG9uZy1wYXNzd29yZA==\r\n";
            assert_eq!(ask(&gateway, "GET /", ann).status(), 200);
        }
        assert_eq!(origin.requests().len(), if kept { 1 } else { 2 }, "{vary}");
    }
}

/// The cache does not see lines that are written for each client below it.
#[test]
fn a_reply_is_not_kept_that_varies_by_what_is_written_below() {
    const VARY: &str = "Cache-Control: max-age=600\r\nVary: Accept, X_Who\r\n";
    const FRESH: &str = "Cache-Control: max-age=600\r\n";
    let service = Origin::start(|peer| {
        let mut asked = 0;
        while peer.request().is_some() {
            asked += 1;
            let answer =
                format!("{{\"headersToReplace\":{{\"x-who\":\"{}{asked}\"}}}}", peer.number);
            let length = answer.len();
            peer.try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{answer}"));
        }
    });
    let interceptor = format!("{{ interceptor: {{ request: {{ url: \"{}\" }} }} }}", service.url());
    let headers = |edits: &str| format!("{{ headers: {{ request: {{ {edits} }} }} }}");
    let client = headers("set: { x-who: \"{client}\" }");
    let id = headers("add: { x-who: \"a {request_id}\" }");
    let parameter = headers("set: { x-who: \"{rest} {client}\" }");
    let same = headers("set: { x-who: somebody, x-path: \"{path}\" }");
    let removed = headers("remove: [x-who]");
    for (below, lines, keys, kept) in [
        (&client, VARY, "", false),
        (&client, FRESH, "", true),
        (&client, "", "ttl: 1h", false),
        (&id, VARY, "", false),
        (&id, "", "ttl: 1h", false),
        (&parameter, VARY, "", false),
        (&same, VARY, "", true),
        (&same, "", "ttl: 1h", true),
        (&removed, VARY, "", false),
        (&interceptor, VARY, "", false),
        (&interceptor, "Cache-Control: max-age=600\r\nVary: Accept\r\n", "", false),
        (&interceptor, FRESH, "", true),
        (&interceptor, "", "ttl: 1h", false),
    ] {
        let origin = counting(lines);
        let route = format!("policies: [{{ cache: {{ {keys} }} }}, {below}]");
        let listener = "trusted_proxies: [127.0.0.1]";
        let matched = if below == &parameter { "/{rest}" } else { "/**" };
        let yaml = Plain { listener, route: &route, ..Plain::default() }.yaml(&origin);
        let gateway = Gateway::start(yaml.replace("/**", matched));
        let texts = ["192.0.2.1", "192.0.2.2"].map(|client| {
            ask(&gateway, "GET /a", &format!("X-Forwarded-For: {client}\r\n")).text()
        });
        assert_eq!(texts[1] == texts[0], kept, "{below} {lines} {keys}");
    }
    // Above it, the cache sees the same as the upstream.
    let origin = counting("Cache-Control: max-age=600\r\nVary: X-Who\r\n");
    let route = format!("policies: [{client}, {{ cache: {{}} }}]");
    let listener = "trusted_proxies: [127.0.0.1]";
    let gateway = Plain { listener, route: &route, ..Plain::default() }.start(&origin);
    for _ in 0..2 {
        for (client, text) in [("192.0.2.1", "0"), ("192.0.2.2", "1")] {
            let reply = ask(&gateway, "GET /a", &format!("X-Forwarded-For: {client}\r\n"));
            assert_eq!(reply.text(), text);
        }
    }
}

#[test]
fn a_cache_above_what_makes_replies_differ_is_a_complaint() {
    const ABOVE: &str = "`cache` is above";
    const TTL: &str = "`ttl` is not applied";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    let basic = "basic: { users: { ann: a-long-password } }";
    let (cache, ttl) = ("cache: {}", "cache: { ttl: 10s }");
    for (cache, below, respond, code, said) in [
        (cache, "headers: { request: { set: { x-user: \"{subject}\" } } }", "", 1, Some(ABOVE)),
        (cache, "headers: { request: { add: { x-a: \"{id} {tier}\" } } }", "", 1, Some(ABOVE)),
        (cache, "headers: { response: { set: { x-c: \"{client}\" } } }", "", 1, Some(ABOVE)),
        (cache, "headers: { request: { set: { x-user: static } } }", "", 0, None),
        (cache, "headers: { request: { set: { x-c: \"{client}\" } } }", "", 0, None),
        (ttl, "headers: { request: { set: { x-c: \"{client}\" } } }", "", 0, Some(TTL)),
        (ttl, "headers: { response: { set: { x-a: \"{id}\" } } }", "", 0, None),
        (ttl, "interceptor: { request: { url: \"http://127.0.0.1:1\" } }", "", 0, Some(TTL)),
        (ttl, "interceptor: { response: { url: \"http://127.0.0.1:1\" } }", "", 0, None),
        (cache, "jwt: { issuers: [a], claims_to_headers: { x-user: sub } }", "", 1, Some(ABOVE)),
        (cache, "backend_jwt: { keys: [own.pem] }", "", 1, Some(ABOVE)),
        (cache, "cache: { ttl: 1s }", "", 1, Some("is above another `cache`")),
        (
            ttl,
            "compress: {}",
            "body: \"{client}\"",
            1,
            Some("a reply that `respond` makes for one client"),
        ),
        (ttl, "compress: {}", "body: \"{path} {id}\"", 0, None),
    ] {
        let policies = format!("[{{ {basic} }}, {{ {cache} }}, {{ {below} }}]");
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes:\n  a: {{ match: {{ path: \"/{{id}}\" }}, respond: {{ {respond} }}, policies: {policies} }}\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(code), "{below}: {run:?}");
        match said {
            Some(said) => assert!(run.stderr.contains(said), "{below}: {run:?}"),
            None => assert!(!run.stderr.contains("`cache`"), "{below}: {run:?}"),
        }
    }
}

/// RFC 9111, 4.3.4: a 304 may be the first to name the lines that the reply varies by.
#[test]
fn what_varies_by_the_word_of_a_304_is_kept_for_its_variant_alone() {
    for (vary, kept) in [("X-A", true), ("Accept, *", false), ("Via", false)] {
        let unchanged = format!(
            "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nCache-Control: max-age=600\r\nVary: {vary}\r\n\r\n"
        );
        let origin = Origin::start(move |peer| {
            while let Some(request) = peer.request() {
                match request.get("if-none-match") {
                    Some(_) => peer.try_send(&unchanged),
                    None => peer.try_send("HTTP/1.1 200 OK\r\nCache-Control: max-age=0\r\nETag: \"a\"\r\nContent-Length: 4\r\n\r\nbody"),
                };
            }
        });
        let gateway = start(&origin, "");
        let how = |line: &str| {
            let reply = ask(&gateway, "GET /", &format!("X-A: {line}\r\n"));
            assert_eq!((reply.status(), reply.text().as_str()), (200, "body"));
            reply.get("cache-status").unwrap().to_owned()
        };
        assert_eq!(how("1"), "tidegate; fwd=uri-miss; stored");
        assert!(how("1").starts_with("tidegate; fwd=stale; fwd-status=304"));
        let again = how("1");
        assert_eq!(again.starts_with("tidegate; hit"), kept, "{vary}: {again}");
        let other = how("2");
        assert!(!other.starts_with("tidegate; hit"), "{vary}: {other}");
    }
}

/// One request with a credential was not cached, and for a minute no request waited for a reply that could be cached.
#[test]
fn a_credential_of_one_client_does_not_send_all_others_to_the_upstream() {
    let gate = Gate::default();
    let held = gate.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            if request.get("authorization").is_none() {
                held.wait();
            }
            peer.try_send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\nhello",
            );
        }
    });
    let gateway = start(&origin, "");
    let known = ask(&gateway, "GET /same", "Authorization: Basic YTpi\r\n");
    let why = "tidegate; fwd=uri-miss; stored=?0; detail=authorization";
    assert_eq!(known.get("cache-status"), Some(why));
    let mut leader = gateway.wire();
    leader.send(SAME);
    origin.wait_for_requests(2);
    let mut follower = waiting(&gateway);
    gate.open();
    assert_eq!(leader.read_reply().text(), "hello");
    let told = follower.read_reply();
    let status = told.get("cache-status").unwrap();
    assert!(status.starts_with("tidegate; fwd=uri-miss; collapsed"), "{status}");
    assert_eq!(origin.requests().len(), 2);
}

/// They continue at the head of a reply that cannot be cached, not at the end of its body. Later requests of this
/// kind do not wait.
#[test]
fn who_waited_for_a_reply_that_is_not_kept_asks() {
    for (lines, keys) in [
        ("Cache-Control: no-store\r\n", ""),
        ("Cache-Control: max-age=600\r\nVary: *\r\n", ""),
        ("Cache-Control: max-age=600\r\n", "entry_bytes_max: 1B"),
    ] {
        let (gate, body) = (Gate::default(), Gate::default());
        let (head_gate, body_gate) = (gate.clone(), body.clone());
        let front = format!("HTTP/1.1 200 OK\r\n{lines}Content-Length: 5\r\n\r\nhe");
        let origin = Origin::start(move |peer| {
            while peer.request().is_some() {
                head_gate.wait();
                peer.try_send(&front);
                body_gate.wait();
                peer.try_send("llo");
            }
        });
        let gateway = start(&origin, keys);
        let mut wires = vec![first(&gateway, &origin)];
        wires.extend((0..2).map(|_| waiting(&gateway)));
        assert_eq!(origin.accepted(), 1, "{lines}");
        gate.open();
        origin.wait_for_requests(3);
        // The first is still on its way, and this one does not wait for it.
        wires.push(gateway.wire());
        wires.last_mut().unwrap().send(SAME);
        origin.wait_for_requests(4);
        body.open();
        for mut wire in wires {
            assert_eq!(wire.read_reply().text(), "hello", "{lines}");
        }
    }
}

/// Its reply is mostly not kept, and ten that had waited for it all asked then.
#[test]
fn nobody_waits_for_the_reply_to_a_credential() {
    const KNOWN: &str = "Authorization: Basic YTpi\r\n";
    let gates = [Gate::default(), Gate::default()];
    let [known_gate, plain_gate] = gates.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            match request.get("authorization") {
                Some(_) => known_gate.wait(),
                None => plain_gate.wait(),
            }
            peer.try_send(
                "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: 5\r\n\r\nhello",
            );
        }
    });
    let gateway = start(&origin, "wait: 1h");
    let known = || {
        let mut wire = gateway.wire();
        wire.send(SAME.replace("\r\n\r\n", &format!("\r\n{KNOWN}\r\n")));
        wire
    };
    let mut alone = known();
    origin.wait_for_requests(1);
    let mut leader = gateway.wire();
    leader.send(SAME);
    origin.wait_for_requests(2);
    let mut followers = [waiting(&gateway), known()];
    assert!(followers[1].is_silent_for(Duration::from_millis(50)));
    gates[1].open();
    assert_eq!(leader.read_reply().text(), "hello");
    for follower in &mut followers {
        let told = follower.read_reply();
        let status = told.get("cache-status").unwrap();
        assert!(status.starts_with("tidegate; fwd=uri-miss; collapsed"), "{status}");
    }
    assert_eq!(origin.requests().len(), 2);
    gates[0].open();
    assert_eq!(
        alone.read_reply().get("cache-status"),
        Some("tidegate; fwd=uri-miss; stored=?0; detail=authorization")
    );
}

/// A reply whose client takes nothing of it does not end, and the others do not wait for it.
#[test]
fn a_client_that_takes_nothing_holds_nobody_up() {
    const NO_WINDOW: &[u8] = &[0, 4, 0, 0, 0, 0];
    let body = "x".repeat(512 << 10);
    let origin = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    let listener = "timeout: { body: 1h }";
    let route = "policies: [{ cache: { wait: 1h } }]";
    let gateway = Plain { listener, route, ..Plain::default() }.start(&origin);
    let mut idle = gateway.wire();
    let settings = frame(SETTINGS, 0, 0, NO_WINDOW);
    let preface = &b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..];
    idle.send([preface, &settings, &frame(HEADERS, ALL, 1, GET)].concat());
    assert!(next(&mut idle, HEADERS).is_some());
    for requests in [2, 2] {
        assert_eq!(ask(&gateway, "GET /", "").text(), body);
        assert_eq!(origin.requests().len(), requests);
    }
}

#[test]
fn nobody_waits_for_a_client_that_is_gone_or_for_too_long() {
    let gate = Gate::default();
    let origin = held("Cache-Control: max-age=600\r\n", &gate);
    let gateway = start(&origin, "wait: 1h");
    let leader = first(&gateway, &origin);
    let mut follower = waiting(&gateway);
    leader.reset();
    origin.wait_for_requests(2);
    gate.open();
    assert_eq!(follower.read_reply().text(), "hello");

    for keys in ["wait: 10ms", "wait: 0s"] {
        let gate = Gate::default();
        let origin = held("Cache-Control: max-age=600\r\n", &gate);
        let gateway = start(&origin, keys);
        let mut leader = first(&gateway, &origin);
        let mut late = gateway.wire();
        late.send(SAME);
        origin.wait_for_requests(2);
        gate.open();
        assert_eq!(
            (leader.read_reply().text(), late.read_reply().text()),
            ("hello".into(), "hello".into())
        );
    }
}

/// CGI programs cannot distinguish `X_A` and `X-A`, so the reply to such a request is not shared.
#[test]
fn a_line_in_another_spelling_poisons_no_variant() {
    let origin = counting("Cache-Control: public, max-age=600\r\nVary: X-A\r\n");
    let gateway = start(&origin, "");
    for (lines, body) in [
        ("X_A: evil\r\n", "0"),
        ("X-A: 1\r\nX_A: evil\r\n", "1"),
        ("", "2"),
        ("X-A: 1\r\n", "3"),
        ("", "2"),
        ("X-A: 1\r\n", "3"),
    ] {
        assert_eq!(ask(&gateway, "GET /twin", lines).text(), body, "{lines}");
    }
}
