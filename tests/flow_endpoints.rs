//! `call: { url }`: addresses that are known only when a message comes, and what may be called.

use crate::harness::{Gateway, Message, Origin, tidegate};

fn yaml(endpoints: &str, url: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n{endpoints}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows:\n  main: {{ steps: [{{ call: {{ url: '{url}', headers: {{ remove: [authorization] }} }} }}], catch: [{{ respond: {{ status: 500, text: '{{{{ $error.kind }}}}' }} }}] }}\n"
    )
}

fn get(gateway: &Gateway, query: &str) -> Message {
    let lines = "Host: client.test\r\nAuthorization: Bearer x\r\nX-Own: 1";
    gateway.wire().ask(format!("GET /in?{query} HTTP/1.1\r\n{lines}\r\n\r\n"))
}

#[test]
fn a_url_that_is_allowed_is_called() {
    let origin = Origin::saying("hello");
    let port = origin.address().port();
    for (allow, url, query, target) in [
        (
            format!("\"{}\"", origin.url()),
            "{{ $query.u }}".to_owned(),
            format!("u={}/a%3Fb%3Dc", origin.url()),
            "/a?b=c",
        ),
        (
            "127.0.0.0/8".to_owned(),
            format!("http://127.0.0.1:{port}/x/{{{{ $query.id }}}}?q={{{{ $query.id }}}}"),
            "id=a%2Fb%3F".to_owned(),
            "/x/a%2Fb%3F?q=a%2Fb%3F",
        ),
        (
            "\"127.0.0.1\"".to_owned(),
            format!("http://{{{{ $query.h }}}}:{port}"),
            "h=127.0.0.1".to_owned(),
            "/",
        ),
        ("127.0.0.0/8".to_owned(), format!("http://localhost:{port}/name"), String::new(), "/name"),
    ] {
        origin.forget();
        let gateway = Gateway::start(yaml(&format!("endpoints: {{ allow: [{allow}] }}"), &url));
        let reply = get(&gateway, &query);
        assert_eq!((reply.status(), &*reply.text()), (200, "hello"), "{url}: {}", gateway.log());
        let request = origin.request();
        assert_eq!(request.target(), target);
        let host = request.get("host").unwrap();
        assert!(host.ends_with(&format!(":{port}")) && !host.contains("client"), "{host}");
        assert_eq!((request.get("x-own"), request.get("authorization")), (Some("1"), None));
    }
}

#[test]
fn what_is_not_allowed_is_not_called() {
    let origin = Origin::saying("secret");
    let port = origin.address().port();
    let whole = "{{ $query.u }}";
    let in_host = format!("http://{{{{ $query.u }}}}.example.com:{port}/a");
    let below = format!("\"http://*.example.com:{port}\", \"http://*.localhost:{port}\"");
    for (allow, url, values) in [
        // Only public addresses of these names.
        (
            below.as_str(),
            whole,
            vec![
                format!("http://127.0.0.1:{port}/"),
                format!("http://a.localhost:{port}/"),
                format!("http://example.com:{port}/"),
                format!("http://xexample.com:{port}/"),
                format!("http://a.example.com.:{port}@127.0.0.1:{port}/"),
                format!("http://a.example.com%40127.0.0.1:{port}/"),
                format!("http://[::ffff:127.0.0.1]:{port}/"),
                format!("http://2130706433:{port}/"),
                format!("http://0x7f000001:{port}/"),
                format!("http://0177.0.0.1:{port}/"),
                format!("http://127.1:{port}/"),
                "file:///etc/passwd".to_owned(),
                "gopher://a.example.com/".to_owned(),
                "http://a.example.com:0/".to_owned(),
                String::new(),
            ],
        ),
        // Another scheme, port or network.
        (
            "10.0.0.0/8",
            whole,
            vec![
                format!("http://127.0.0.1:{port}/"),
                format!("http://localhost:{port}/"),
                "http://8.8.8.8/".to_owned(),
            ],
        ),
        (
            below.as_str(),
            &in_host,
            vec![
                format!("127.0.0.1:{port}/"),
                format!("127.0.0.1:{port}?"),
                format!("127.0.0.1:{port}%23"),
                format!("a%40127.0.0.1:{port}/"),
            ],
        ),
    ] {
        let gateway =
            Gateway::start(yaml(&format!("endpoints: {{ allow: [{allow}], timeout: 2s }}"), url));
        for value in values {
            let reply = get(&gateway, &format!("u={value}"));
            let kind = reply.text();
            assert_eq!(reply.status(), 500, "{value}: {reply:?}");
            assert!(
                ["endpoint_refused", "connect_failure", "template"].contains(&&*kind),
                "{value}: {kind}"
            );
        }
    }
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn a_redirect_is_a_reply() {
    let other = Origin::saying("other");
    let location =
        format!("HTTP/1.1 302 Found\r\nLocation: {}/\r\nContent-Length: 0\r\n\r\n", other.url());
    let origin = Origin::answering(location);
    let gateway = Gateway::start(yaml("endpoints: { allow: [127.0.0.0/8] }", "{{ $query.u }}"));
    assert_eq!(get(&gateway, &format!("u={}", origin.url())).status(), 302);
    assert_eq!(other.accepted(), 0);
}

#[test]
fn what_cannot_be_called_is_complained_about() {
    for (endpoints, url, said) in [
        ("", "https://a.test/", "`url` needs `endpoints`"),
        ("endpoints: { allow: [] }", "https://a.test/", "`endpoints` allows nothing"),
        (
            "endpoints: { allow: [\"https://b.test\"] }",
            "https://a.test/",
            "is not in `endpoints.allow`",
        ),
        (
            "endpoints: { allow: [\"https://a.*.test\"] }",
            "https://a.test/",
            "allowed only as the whole first label",
        ),
        (
            "endpoints: { allow: [\"https://a.test/x\"] }",
            "https://a.test/",
            "after its host and port",
        ),
        ("endpoints: { allow: [\"ftp://a.test\"] }", "https://a.test/", "neither http nor https"),
        ("endpoints: { allow: [everything] }", "https://a.test/", "expected a URL or a network"),
        ("endpoints: { allow: [\"https://a.test\"] }", "a.test/x", "a URL must begin with"),
        ("endpoints: {}", "https://a.test/", "the key `allow` is missing"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        std::fs::write(&file, yaml(endpoints, url)).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        assert_eq!(run.code, Some(1), "{endpoints} {url}: {run:?}");
        assert!(run.stderr.contains(said), "{endpoints} {url}: {run:?}");
    }
}
