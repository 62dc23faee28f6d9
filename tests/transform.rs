//! The effect of `transform` on queries and JSON, and the parts that it leaves alone.

use crate::harness::{Gateway, Message, Origin, Plain, tidegate, until};

#[track_caller]
fn start(origin: &Origin, edits: &str) -> Gateway {
    let route = format!("policies: [{{ transform: {{ {edits} }} }}]");
    Plain { route: &route, ..Plain::default() }.start(origin)
}

#[track_caller]
fn post(gateway: &Gateway, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /p HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{lines}\r\n{body}"
    ))
}

const JSON: &str = "Content-Type: application/json\r\n";

fn replying(lines: &str, body: &str) -> Origin {
    let length = body.len();
    Origin::answering(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{lines}\r\n{body}"))
}

#[test]
fn a_query_is_edited_and_the_rest_stays_byte_for_byte() {
    let origin = Origin::saying("ok");
    let edits = "query: { rename: { q: search }, remove: [debug], set: { limit: 50 }, add: { via: \"{method} & {client}\" } }";
    for (edits, target, seen) in [
        (edits, "/p", "/p?limit=50&via=GET%20%26%20127.0.0.1"),
        (
            edits,
            "/p?a=%7e+b&&%64ebug=1&debug&q=%20x&search=y&LIMIT=1&limit=9",
            "/p?a=%7e+b&&search=%20x&LIMIT=1&limit=50&via=GET%20%26%20127.0.0.1",
        ),
        ("request: { query: { remove: [a] } }", "/p?a=1", "/p"),
        ("request: { query: { remove: [a] } }", "/p?b=%c3%A9+", "/p?b=%c3%A9+"),
    ] {
        let gateway = start(&origin, edits);
        assert_eq!(gateway.wire().get(target).status(), 200);
        assert_eq!(origin.requests().pop().unwrap().target(), seen, "{target}");
    }
}

#[test]
fn a_request_is_edited_and_its_numbers_keep_their_digits() {
    let origin = Origin::saying("ok");
    let gateway = start(
        &origin,
        "json: { rename: { /old: /new }, remove: [user.role, /tags/0], \
         set: { /limit: 1.10, user.address: { ip: \"{client}\", \"at\": [\"{path}\", ~, true] }, \"/a~1b\": \"{{client}}\" } }",
    );
    let digests = "Content-Digest: sha-256=:x:\r\nDigest: x\r\nContent-MD5: x\r\n";
    let body = r#"{ "n": 12345678901234567890.120, "old": [1e400], "user": {"role":"admin","name":"\u00e9"}, "tags": [1, 2] }"#;
    let edited = r#"{ "n": 12345678901234567890.120, "user": {"name":"\u00e9","address":{"ip":"127.0.0.1","at":["/p",null,true]}}, "tags": [2],"new":[1e400],"limit":1.10,"a/b":"{client}" }"#;
    assert_eq!(post(&gateway, &format!("{JSON}{digests}"), body).status(), 200);
    let seen = origin.requests().pop().unwrap();
    assert_eq!((seen.text().as_str(), seen.length()), (edited, Some(edited.len())));
    for name in ["content-digest", "digest", "content-md5"] {
        assert_eq!(seen.get(name), None);
    }
    // In chunks, and with another name of the type.
    let chunks = "POST /p HTTP/1.1\r\nHost: a\r\nContent-Type: application/x+JSON; a=b\r\n\
        Transfer-Encoding: chunked\r\n\r\n5\r\n{\"lim\r\n8\r\nit\": 2 }\r\n0\r\n\r\n";
    assert_eq!(gateway.wire().ask(chunks).status(), 200);
    let seen = origin.requests().pop().unwrap().text();
    assert!(seen.starts_with(r#"{"limit": 1.10,"user":{"address":{"ip":"#), "{seen}");
}

/// The text of a client cannot get out of its string.
#[test]
fn placeholders_are_escaped_in_json() {
    let origin = Origin::saying("ok");
    let gateway = start(&origin, "json: { set: { /q: \"<{query}>\", /n: 1 } }");
    let body = "{}";
    let head = "POST /p?\"}\\,x=1 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n";
    assert_eq!(gateway.wire().ask(format!("{head}{body}")).status(), 200);
    assert_eq!(origin.request().text(), r#"{"q":"<\"}\\,x=1>","n":1}"#);
}

#[test]
fn what_is_no_json_by_its_type_and_what_has_no_body_is_left_alone() {
    let origin = Origin::echo();
    let gateway = start(
        &origin,
        "body_bytes_max: 8B, request: { json: { set: { /a: 1 } }, query: { set: { b: 2 } } }, \
         response: { json: { set: { /c: 3 } } }",
    );
    let body = "{\"x\":1} and far more than is edited";
    for lines in ["", "Content-Type: text/plain\r\n", "Content-Type: application/jsonx\r\n"] {
        let digest = format!("{lines}Digest: x\r\n");
        let reply = post(&gateway, &digest, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, body), "{lines}");
        let seen = origin.requests().pop().unwrap();
        assert_eq!((seen.target(), seen.get("digest")), ("/p?b=2", Some("x")));
        assert_eq!(seen.length(), Some(body.len()));
    }
    assert_eq!(post(&gateway, JSON, "").status(), 200);
    let none = origin.requests().pop().unwrap();
    assert_eq!((none.body.len(), none.length()), (0, Some(0)));
}

#[test]
fn a_request_that_cannot_be_edited_is_refused() {
    let origin = Origin::saying("ok");
    let gateway =
        start(&origin, "body_bytes_max: 40B, json: { set: { /user/id: 1 }, remove: [/admin] }");
    let coded = format!("{JSON}Content-Encoding: gzip\r\n");
    let long = format!("{{\"x\":\"{}\"}}", "y".repeat(40));
    for (lines, body, status) in [
        (JSON, "{", 400),
        (JSON, "{\"user\":{},}", 400),
        (JSON, "\u{feff}{}", 400),
        (JSON, "{\"admin\":1,\"\\u0061dmin\":2}", 400),
        (JSON, "{\"user\":{},\"user\":{}}", 400),
        (JSON, "{\"user\":\"root\"}", 400),
        (JSON, "[]", 400),
        (JSON, &long, 413),
        (&coded, "{}", 415),
    ] {
        let reply = post(&gateway, lines, body);
        assert_eq!(reply.status(), status, "{body}: {reply:?}");
        assert!(!reply.text().contains("byte"), "{reply:?}");
    }
    assert!(origin.requests().is_empty());
    assert_eq!(post(&gateway, JSON, "{\"user\":null}").status(), 200);
    assert_eq!(origin.request().text(), "{\"user\":{\"id\":1}}");
}

#[test]
fn a_reply_is_edited_and_what_was_said_of_its_bytes_goes() {
    const LINES: &str = "Content-Type: application/json\r\nETag: \"a\"\r\nRepr-Digest: x\r\nAccept-Ranges: bytes\r\n";
    let edits =
        "response: { json: { remove: [secret], set: { /by: gateway, /id: \"{request_id}\" } } }";
    let origin = replying(LINES, "{\"a\": 0.10, \"secret\": {\"b\":1}}\n");
    let gateway = start(&origin, edits);
    let asked = "GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: r1\r\nAccept-Encoding: gzip\r\nRange: bytes=0-3\r\nIf-Range: \"a\"\r\n\r\n";
    let reply = gateway.wire().ask(asked);
    let edited = "{\"a\": 0.10,\"by\":\"gateway\",\"id\":\"r1\"}\n";
    assert_eq!((reply.text().as_str(), reply.length()), (edited, Some(edited.len())));
    for name in ["etag", "repr-digest", "accept-ranges"] {
        assert_eq!(reply.get(name), None, "{reply:?}");
    }
    let seen = origin.request();
    for name in ["accept-encoding", "range", "if-range"] {
        assert_eq!(seen.get(name), None, "{seen:?}");
    }
    // A body that is unchanged keeps its headers; a weak tag stays, since it is about the meaning.
    let origin = replying(LINES, "{\"a\":1}");
    let gateway = start(&origin, "response: { json: { remove: [secret] } }");
    assert_eq!(gateway.wire().get("/").get("etag"), Some("\"a\""));
    let origin = replying("Content-Type: application/json\r\nETag: W/\"a\"\r\n", "{\"secret\":1}");
    let gateway = start(&origin, "response: { json: { remove: [secret] } }");
    let reply = gateway.wire().get("/");
    assert_eq!((reply.get("etag"), reply.text().as_str()), (Some("W/\"a\""), "{}"));
}

#[test]
fn the_reply_to_head_promises_no_length_and_no_tag() {
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 30\r\nETag: \"a\"\r\n\r\n";
    let origin = Origin::answering(head);
    let gateway = start(&origin, "response: { json: { set: { /a: 1 } } }");
    let mut wire = gateway.wire();
    wire.send("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let reply = wire.read_head();
    assert_eq!((reply.status(), reply.get("content-length"), reply.get("etag")), (200, None, None));
}

#[test]
fn a_reply_that_cannot_be_edited_is_502() {
    let edits = "body_bytes_max: 40B, response: { json: { remove: [/secret], set: { /a/b: 1 } } }";
    let part = "HTTP/1.1 206 Partial Content\r\nContent-Type: application/json\r\nContent-Range: bytes 0-1/9\r\nContent-Length: 2\r\n\r\n{}";
    let ok = |lines: &str, body: &str| {
        let length = body.len();
        format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n{lines}\r\n{body}")
    };
    let coded = format!("{JSON}Content-Encoding: br\r\n");
    for reply in [
        ok(JSON, "{\"secret\""),
        ok(JSON, "{\"secret\":1,\"secret\":2}"),
        ok(JSON, "{\"a\":5}"),
        ok(JSON, &format!("[{}0]", "0,".repeat(30))),
        ok(&coded, "{}"),
        part.to_owned(),
    ] {
        let origin = Origin::answering(&reply);
        let told = start(&origin, edits).wire().get("/");
        assert_eq!(told.status(), 502, "{reply}");
        assert!(told.get("content-type") == Some("application/problem+json"), "{told:?}");
        assert!(!told.text().contains("\"a\""), "{told:?}");
    }
}

/// The gateway's own replies are not transformed, but a cached reply that replaces one is.
#[test]
fn a_stale_reply_in_the_place_of_a_fault_is_edited() {
    let origin = Origin::start(|peer| {
        if peer.request().is_some() && peer.number == 0 {
            peer.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nCache-Control: max-age=0\r\n\
                 ETag: \"a\"\r\nContent-Length: 18\r\n\r\n{\"a\":1,\"secret\":2}",
            );
        }
    });
    let route = "policies: [{ transform: { response: { json: { remove: [secret] } } } }, { cache: { stale_if_error: 1h } }]";
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    assert_eq!(gateway.wire().get("/").text(), "{\"a\":1}");
    until("the first connection has closed", || origin.open() == 0);
    let stale = gateway.wire().get("/");
    assert_eq!((stale.status(), stale.text().as_str()), (200, "{\"a\":1}"), "{stale:?}");
    let own = gateway.wire().get("/other");
    assert_eq!(own.status(), 502);
    assert!(own.text().contains("\"fault\""), "{own:?}");
}

#[test]
fn mistakes_in_edits_are_complaints() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let check = |edits: &str| {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes:\n  a: {{ match: {{ path: /a }}, policies: [{{ transform: {{ {edits} }} }}], respond: {{}} }}\n"
        );
        std::fs::write(&file, yaml).unwrap();
        tidegate(&["check", file.to_str().unwrap()])
    };
    for (edits, part) in [
        ("json: { set: { \"a[0]\": 1 } }", "`a[0]` is not a place in a document"),
        ("json: { remove: [\"/a~2\"] }", "`/a~2` is not a place in a document"),
        ("json: { rename: { a: \"\" } }", "`` is not a place in a document"),
        ("json: { set: { /a: 1 }, remove: [/a/b] }", "this place overlaps"),
        ("json: { rename: { /a: /b, /c: /b } }", "this place overlaps"),
        ("json: { set: { /a: { b: \"{subjct}\" } } }", "did you mean `subject`?"),
        ("response: { json: { set: { /a: \"{path}\" } } }", "cannot use values of the request"),
        ("query: {}, request: { query: {} }", "`query` is set both here and in `request`"),
        ("query: { rename: { a: c, b: c } }", "the name `c` is already in use"),
        ("query: { remove: [\"\"] }", "a parameter needs a name"),
        ("response: { query: {} }", "unknown key `query`"),
        ("request: { method: post }", "write `POST`"),
        ("request: { method: CONNECT }", "is a method that the gateway does not forward"),
    ] {
        let said = check(edits);
        assert_eq!(said.code, Some(1), "{edits}: {said:?}");
        assert!(said.stderr.contains(part), "{edits} should say {part:?}: {}", said.stderr);
        assert!(said.stderr.contains("help: "), "{}", said.stderr);
    }
    assert_eq!(check("json: { set: { /a/0: [1], a.b: ~ }, remove: [b] }").code, Some(0));
}

#[test]
fn explain_tells_what_a_transform_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let yaml = "listen: { public: { address: \"127.0.0.1:0\" } }\nroutes:\n  a: { match: { path: /a }, policies: [{ transform: { json: { set: { /pin/secret: 1.10 } }, response: { json: { remove: [b] } } } }], respond: {} }\n";
    std::fs::write(&file, yaml).unwrap();
    let file = file.to_str().unwrap();
    let said = tidegate(&["explain", file]).stdout;
    assert!(said.contains("policy transform: request: buffered, response: buffered"), "{said}");
    assert!(!said.contains("1.1"), "{said}");
    let said = tidegate(&["explain", file, "GET", "/a"]).stdout;
    assert!(said.contains("policy transform: passes"), "{said}");
    let typed = ["explain", file, "POST", "/a", "-H", "content-type: application/json"];
    let said = tidegate(&typed).stdout;
    assert!(said.contains("policy transform: depends on the body"), "{said}");
}

#[test]
fn a_transform_may_write_who_asks_below_what_finds_it_out() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ api_key: { header: x-key, keys: { alice: key-of-alice } } }, \
        { transform: { query: { set: { user: \"{subject}\" } }, json: { set: { /user: \"{subject}\" } } } }]";
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    let lines = format!("{JSON}X-Key: key-of-alice\r\n");
    assert_eq!(post(&gateway, &lines, "{\"user\":\"root\"}").status(), 200);
    let seen = origin.request();
    assert_eq!((seen.target(), seen.text().as_str()), ("/p?user=alice", "{\"user\":\"alice\"}"));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let key = "{ api_key: { header: k, keys: { a: b } } }";
    let transform = "{ transform: { query: { set: { u: \"{subject}\" } } } }";
    for (policies, part) in [
        (
            format!("[{transform}, {key}]"),
            "`transform` needs the subject, which only `api_key` below",
        ),
        (format!("[{key}, {{ cache: {{}} }}, {transform}]"), "`cache` is above `transform`"),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes:\n  a: {{ match: {{}}, policies: {policies}, respond: {{}} }}\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let said = tidegate(&["check", file.to_str().unwrap()]);
        assert!(said.stderr.contains(part), "{policies}: {said:?}");
    }
}

const PARTS: &str = "Content-Type: multipart/form-data; boundary=\"x y\"\r\n";

#[test]
fn fields_of_a_form_of_several_parts_are_edited_and_the_rest_stays_byte_for_byte() {
    let origin = Origin::echo();
    let gateway = start(
        &origin,
        "body_bytes_max: 1KiB, request: { form: { rename: { old: new }, remove: [gone], replace: { there: now, missing: never }, \
         set: { put: \"{headers.x-a}\" }, default: { put: never, given: yes }, add: { put: more } } }",
    );
    let part = |name: &str, more: &str, body: &str| {
        format!("--x y\r\nContent-Disposition: form-data; name={name}{more}\r\n\r\n{body}\r\n")
    };
    let file = "; filename=\"a;b.txt\"\r\nContent-Type: text/plain\r\nX-Own: 1";
    let body = [
        "preamble\r\n".to_owned(),
        part("\"old\"", file, "1\r\n--x yz\r\n2"),
        part("new", "", "dropped"),
        part("\"gone\"", "", "g"),
        part("kept", file, "\u{0}\r\n"),
        part("\"there\"", "", "before"),
        "--x y--\r\nepilogue".to_owned(),
    ]
    .concat();
    let reply = post(&gateway, &format!("{PARTS}X-A: v\r\nDigest: x\r\n"), &body);
    let edited = [
        part("\"new\"", file, "1\r\n--x yz\r\n2"),
        part("kept", file, "\u{0}\r\n"),
        part("\"there\"", "", "now"),
        part("\"put\"", "", "v"),
        part("\"given\"", "", "yes"),
        part("\"put\"", "", "more"),
        "--x y--\r\n".to_owned(),
    ]
    .concat();
    assert_eq!((reply.status(), reply.text()), (200, edited));
    let seen = origin.request();
    assert_eq!(seen.get("digest"), None);
    assert!(seen.get("content-type").unwrap().contains("boundary"));
    // Nothing to edit: the message stays as it came.
    let untouched =
        start(&origin, "request: { form: { remove: [other], replace: { missing: x } } }");
    assert_eq!(post(&untouched, PARTS, &body).text(), body);
    assert_eq!(post(&gateway, PARTS, "").text(), "");
    origin.forget();
    let boundary = "X-A: --x y--\r\n";
    let long = part("a", "", &"y".repeat(1_100));
    for (lines, body, status) in [
        ("", "no part".to_owned(), 400),
        ("", part("a", "", "unended"), 400),
        ("", "--x y\r\n\r\nnameless\r\n--x y--\r\n".to_owned(), 400),
        ("", part("a; name=b", "", "") + "--x y--", 400),
        ("", part("a; name*=utf-8''b", "", "") + "--x y--", 400),
        (boundary, part("a", "", "b") + "--x y--", 400),
        ("", long + "--x y--", 413),
        ("Content-Encoding: gzip\r\n", part("a", "", "b") + "--x y--", 415),
    ] {
        let reply = post(&gateway, &format!("{PARTS}{lines}"), &body);
        assert_eq!(reply.status(), status, "{body}: {reply:?}");
    }
    let unnamed = "Content-Type: multipart/form-data\r\n";
    assert_eq!(post(&gateway, unnamed, &body).status(), 400);
    assert!(origin.requests().is_empty());
}

#[test]
fn the_upstream_gets_another_method_and_the_client_the_reply_to_its_own() {
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let body = if request.method() == "HEAD" { "" } else { "four" };
            peer.try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n{body}"));
        }
    });
    for (method, asked, body, got) in [
        ("PUT", "POST", "body", "four"),
        ("POST", "GET", "", "four"),
        ("GET", "HEAD", "", ""),
        ("HEAD", "GET", "", ""),
        ("PURGE", "GET", "", "four"),
    ] {
        origin.forget();
        let gateway = start(&origin, &format!("request: {{ method: {method} }}"));
        let mut wire = gateway.wire();
        // The connection stays in step: the second reply is whole, too.
        for _ in 0..2 {
            let reply = wire.ask(format!(
                "{asked} /p HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            assert_eq!((reply.status(), reply.text().as_str()), (200, got), "{asked} {method}");
        }
        let seen = origin.requests();
        assert!(seen.iter().all(|seen| seen.method() == method && seen.text() == body), "{seen:?}");
        assert_eq!(seen.len(), 2, "{asked} {method}");
    }
}
