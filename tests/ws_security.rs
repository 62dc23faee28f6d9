//! `ws_security`: UsernameToken and Timestamp of requests, and the gateway's own header blocks for upstreams.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

use crate::harness::{Backend, Gateway, Message, Origin, Plain, tidegate};

const WSSE: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
const WSU: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-utility-1.0.xsd";
const PROFILE: &str =
    "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-username-token-profile-1.0#";
const SOAP_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
const SOAP_12: &str = "http://www.w3.org/2003/05/soap-envelope";
/// `0123456789abcdef`.
const NONCE: &str = "MDEyMzQ1Njc4OWFiY2RlZg==";

/// The time in a number of seconds, as RFC 3339 writes it.
fn time(from_now: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let at = UNIX_EPOCH + Duration::from_secs(now.saturating_add_signed(from_now));
    let output = Command::new("date")
        .args(["-u", "-d", &format!("@{}", at.duration_since(UNIX_EPOCH).unwrap().as_secs())])
        .arg("+%Y-%m-%dT%H:%M:%SZ")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let group = |group: &[u8]| {
        let number =
            group.iter().chain(&[0, 0]).take(3).fold(0_usize, |n, b| n << 8 | usize::from(*b));
        let digit = |at: usize| {
            if at > group.len() { '=' } else { char::from(DIGITS[number >> (18 - 6 * at) & 63]) }
        };
        [digit(0), digit(1), digit(2), digit(3)]
    };
    bytes.chunks(3).flat_map(group).collect()
}

fn digest_of(created: &str, password: &str) -> String {
    let text = [b"0123456789abcdef", created.as_bytes(), password.as_bytes()].concat();
    base64(digest(&SHA1_FOR_LEGACY_USE_ONLY, &text).as_ref())
}

fn text_token(name: &str, password: &str) -> String {
    format!(
        "<w:UsernameToken><w:Username>{name}</w:Username><w:Password Type=\"{PROFILE}PasswordText\">{password}</w:Password></w:UsernameToken>"
    )
}

fn digest_token(name: &str, password: &str, created: &str) -> String {
    let digest = digest_of(created, password);
    format!(
        "<w:UsernameToken><w:Username>{name}</w:Username><w:Password Type=\"{PROFILE}PasswordDigest\">{digest}</w:Password><w:Nonce>{NONCE}</w:Nonce><u:Created>{created}</u:Created></w:UsernameToken>"
    )
}

fn envelope(soap: &str, header: &str) -> String {
    format!(
        "<s:Envelope xmlns:s=\"{soap}\"><s:Header><x:keep xmlns:x=\"urn:x\"/>{header}</s:Header><s:Body><a>hello</a></s:Body></s:Envelope>"
    )
}

fn security(content: &str) -> String {
    format!(
        "<w:Security xmlns:w=\"{WSSE}\" xmlns:u=\"{WSU}\" s:mustUnderstand=\"1\">{content}</w:Security>"
    )
}

fn secured(content: &str) -> String {
    envelope(SOAP_11, &security(content))
}

#[track_caller]
fn post(gateway: &Gateway, content_type: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /ws HTTP/1.1\r\nHost: a\r\nContent-Type: {content_type}\r\nSOAPAction: \"urn:act\"\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

#[track_caller]
fn ask(gateway: &Gateway, body: &str) -> Message {
    post(gateway, "text/xml; charset=utf-8", body)
}

#[track_caller]
fn gateway(origin: &Origin, keys: &str) -> Gateway {
    let route = format!(
        "policies: [{{ ws_security: {{ {keys} }} }}, {{ headers: {{ request: {{ set: {{ x-user: \"{{subject}}\" }} }} }} }}]"
    );
    Plain { route: &route, ..Plain::default() }.start(origin)
}

/// The reply refuses the message with this code.
#[track_caller]
fn refused(reply: &Message, status: u16, code: &str) {
    assert_eq!(reply.status(), status, "{code}: {reply:?}");
    let fault = format!("<faultcode xmlns:wsse=\"{WSSE}\">wsse:{code}</faultcode>");
    assert!(reply.text().contains(&fault), "{code}: {reply:?}");
}

#[test]
fn a_user_with_the_right_password_comes_in_and_the_header_goes() {
    let origin = Origin::saying("ok");
    let hash = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    let keys = format!("users: {{ alice: \"p&q\", bob: \"{hash}\" }}, passwords: [text]");
    let gateway = gateway(&origin, &keys);
    assert_eq!(ask(&gateway, &secured(&text_token("alice", "p&amp;q"))).status(), 200);
    assert_eq!(ask(&gateway, &secured(&text_token("bob", "abc"))).status(), 200);
    let sent = origin.requests();
    assert_eq!([sent[0].get("x-user"), sent[1].get("x-user")], [Some("alice"), Some("bob")]);
    assert_eq!(sent[0].text(), envelope(SOAP_11, ""));
    assert_eq!(sent[0].get("soapaction"), Some("\"urn:act\""));
    for (name, password) in [("alice", "p"), ("carol", "p&amp;q"), ("bob", hash)] {
        refused(&ask(&gateway, &secured(&text_token(name, password))), 401, "FailedAuthentication");
    }
    let created = time(0);
    let digested = secured(&digest_token("alice", "p&q", &created));
    refused(&ask(&gateway, &digested), 401, "FailedAuthentication");
    refused(&ask(&gateway, &secured("")), 401, "InvalidSecurity");
    refused(&ask(&gateway, &envelope(SOAP_11, "")), 401, "InvalidSecurity");
    assert_eq!(origin.requests().len(), 2);
    assert!(!gateway.log().contains("p&q"), "{}", gateway.log());
}

#[test]
fn a_digest_is_good_once_on_all_workers_and_while_it_is_new() {
    let origin = Origin::saying("ok");
    let route =
        "policies: [{ ws_security: { users: { alice: sesame }, max_age: 60s, clock_skew: 5s } }]";
    let yaml = Plain { route, ..Plain::default() }.yaml(&origin);
    let gateway = Gateway::start(yaml.replace("workers: 1", "workers: 2"));
    let created = time(-1);
    let good = secured(&digest_token("alice", "sesame", &created));
    assert_eq!(ask(&gateway, &good).status(), 200);
    // Connections are spread over the workers.
    for _ in 0..8 {
        refused(&ask(&gateway, &good), 401, "FailedAuthentication");
    }
    for bad in [
        digest_token("alice", "other", &created),
        digest_token("nobody", "", &created),
        digest_token("nobody", "sesame", &created),
        digest_token("alice", "sesame", &created).replace(NONCE, "MDEyMzQ1Njc4OWFiY2RlZw=="),
        digest_token("alice", "sesame", &created).replace("alice", "alice2"),
        digest_token("alice", "sesame", &created)
            .replace(&format!("<w:Nonce>{NONCE}</w:Nonce>"), ""),
        text_token("alice", "sesame"),
        "<w:UsernameToken><w:Username>alice</w:Username></w:UsernameToken>".to_owned(),
    ] {
        refused(&ask(&gateway, &secured(&bad)), 401, "FailedAuthentication");
    }
    refused(
        &ask(&gateway, &secured(&digest_token("alice", "sesame", &time(-90)))),
        401,
        "MessageExpired",
    );
    refused(
        &ask(&gateway, &secured(&digest_token("alice", "sesame", &time(60)))),
        401,
        "InvalidSecurity",
    );
    assert_eq!(ask(&gateway, &secured(&digest_token("alice", "sesame", &time(-3)))).status(), 200);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn a_reload_does_not_forget_what_was_used() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ ws_security: { users: { alice: sesame } } }]";
    let yaml = Plain { route, ..Plain::default() }.yaml(&origin);
    let gateway = Gateway::start(&yaml);
    let good = secured(&digest_token("alice", "sesame", &time(0)));
    assert_eq!(ask(&gateway, &good).status(), 200);
    gateway.rewrite(
        yaml.replace("routes: {", "routes: { b: { match: { path: /b }, respond: { body: b } }, "),
    );
    crate::harness::until("it serves", || gateway.wire().get("/b").text() == "b");
    refused(&ask(&gateway, &good), 401, "FailedAuthentication");
}

#[test]
fn a_timestamp_says_how_old_a_message_may_be() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "timestamp: required, clock_skew: 5s");
    let stamp = |created: i64, expires: i64| {
        let (created, expires) = (time(created), time(expires));
        secured(&format!(
            "<u:Timestamp><u:Created>{created}</u:Created><u:Expires>{expires}</u:Expires></u:Timestamp>"
        ))
    };
    assert_eq!(ask(&gateway, &stamp(-10, 60)).status(), 200);
    assert_eq!(ask(&gateway, &stamp(2, 60)).status(), 200);
    refused(&ask(&gateway, &stamp(-60, -20)), 401, "MessageExpired");
    refused(&ask(&gateway, &stamp(-600, 60)), 401, "MessageExpired");
    refused(&ask(&gateway, &stamp(60, 120)), 401, "InvalidSecurity");
    refused(&ask(&gateway, &stamp(0, -3)), 401, "InvalidSecurity");
    refused(&ask(&gateway, &secured("")), 401, "InvalidSecurity");
    let no_zone = time(0).replace('Z', "");
    let text = format!("<u:Timestamp><u:Created>{no_zone}</u:Created></u:Timestamp>");
    refused(&ask(&gateway, &secured(&text)), 401, "InvalidSecurity");
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn messages_that_cannot_be_read_safely_are_refused() {
    let origin = Origin::saying("ok");
    let gateway =
        gateway(&origin, "users: { alice: sesame }, passwords: [text], body_bytes_max: 64KiB");
    let good = text_token("alice", "sesame");
    let signed = secured(&format!("{good}<d:Signature xmlns:d=\"urn:d\"/>"));
    refused(&ask(&gateway, &signed), 401, "UnsupportedSecurityToken");
    let two = envelope(SOAP_11, &(security(&good) + &security(&good)));
    refused(&ask(&gateway, &two), 401, "InvalidSecurity");
    refused(&ask(&gateway, &secured(&(good.clone() + &good))), 401, "InvalidSecurity");
    // It is for another actor.
    let actor = security(&good).replace("s:mustUnderstand=\"1\"", "s:actor=\"urn:other\"");
    refused(&ask(&gateway, &envelope(SOAP_11, &actor)), 401, "InvalidSecurity");
    // It is in the body.
    let in_body = envelope(SOAP_11, "").replace("<a>hello</a>", &security(&good));
    refused(&ask(&gateway, &in_body), 401, "InvalidSecurity");
    let long = text_token(&"a".repeat(2000), "sesame");
    refused(&ask(&gateway, &secured(&long)), 401, "InvalidSecurity");
    for body in ["{}", "", "<a/>", "<s:Envelope>"] {
        assert_eq!(ask(&gateway, body).status(), 500, "{body}");
    }
    let doctype = format!(
        "<!DOCTYPE s:Envelope [<!ENTITY e \"sesame\">]>{}",
        secured(&text_token("alice", "&e;"))
    );
    assert_eq!(ask(&gateway, &doctype).status(), 500);
    let deep = secured(&good).replace("<a>hello</a>", &("<a>".repeat(9000) + &"</a>".repeat(9000)));
    assert_ne!(ask(&gateway, &deep).status(), 200);
    let large = secured(&good).replace("hello", &"a".repeat(70_000));
    assert_eq!(ask(&gateway, &large).status(), 413);
    assert_eq!(origin.requests().len(), 0);
    // A fault of SOAP 1.2 has the code as a subcode.
    let reply = post(&gateway, "application/soap+xml", &envelope(SOAP_12, ""));
    assert_eq!(reply.status(), 401);
    let code = format!("<env:Value xmlns:wsse=\"{WSSE}\">wsse:InvalidSecurity</env:Value>");
    assert!(reply.text().contains(&code), "{reply:?}");
    assert_eq!(ask(&gateway, &secured(&good)).status(), 200);
}

#[test]
fn with_forward_the_message_stays_as_it_is() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "users: { alice: sesame }, passwords: [text], forward: true");
    let body = secured(&(text_token("alice", "sesame") + "<d:Signature xmlns:d=\"urn:d\"/>"));
    assert_eq!(ask(&gateway, &body).status(), 200);
    assert_eq!(origin.request().text(), body);
}

/// A gateway that adds header blocks, before one that verifies them.
fn adding(origin: &Origin, keys: &str) -> Gateway {
    Plain { upstream: keys, ..Plain::default() }.start(origin)
}

#[test]
fn an_upstream_gets_a_header_that_another_gateway_accepts() {
    for (soap, kind) in [(SOAP_11, "text/xml; charset=utf-8"), (SOAP_12, "application/soap+xml")] {
        for form in ["digest", "text"] {
            let origin = Origin::saying("ok");
            let keys =
                format!("users: {{ \"a<b\": \"p&q\" }}, passwords: [{form}], timestamp: required");
            let verifying = gateway(&origin, &keys);
            let own = format!(
                "ws_security: {{ username: \"a<b\", password: \"p&q\", password_type: {form}, timestamp: 1m }}"
            );
            let targets = [format!("http://{}", verifying.address("public"))];
            let first =
                Plain { upstream: &own, targets: &targets, ..Plain::default() }.start(&origin);
            // The client's own header is replaced.
            let body = envelope(soap, &security(&text_token("mallory", "guess")));
            for body in [
                body.as_str(),
                &envelope(soap, ""),
                &format!("<Envelope xmlns=\"{soap}\"><Body/></Envelope>"),
            ] {
                let reply = post(&first, kind, body);
                assert_eq!(reply.status(), 200, "{soap} {form}: {reply:?}");
            }
            assert!(origin.requests().iter().all(|sent| sent.get("x-user") == Some("a<b")));
        }
    }
}

#[test]
fn the_header_is_for_soap_messages_alone() {
    let origin = Origin::saying("ok");
    let gateway = adding(&origin, "ws_security: { timestamp: 1m, body_bytes_max: 64KiB }");
    assert_eq!(gateway.wire().get("/ws?wsdl").status(), 200);
    assert_eq!(post(&gateway, "application/json", "{}").status(), 400);
    assert_eq!(post(&gateway, "text/xml", "<a/>").status(), 400);
    assert_eq!(post(&gateway, "text/xml", &envelope(SOAP_11, &"a".repeat(70_000))).status(), 413);
    assert_eq!(origin.requests().len(), 1);
    // In ISO 8859-1, which the gateway converts to UTF-8.
    let body = envelope(SOAP_11, "").replace("hello", "h\u{e9}");
    let latin: Vec<u8> = body.chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect();
    let mut request = format!(
        "POST /ws HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml; charset=iso-8859-1\r\nContent-Length: {}\r\n\r\n",
        latin.len()
    )
    .into_bytes();
    request.extend(latin);
    assert_eq!(gateway.wire().ask(request).status(), 200);
    let sent = &origin.requests()[1];
    assert_eq!(sent.get("content-type"), Some("text/xml; charset=utf-8"));
    assert!(
        sent.text().contains("<a>h\u{e9}</a>") && sent.text().contains("Timestamp"),
        "{sent:?}"
    );
    // A message with attachments: its root part gets the header.
    let multipart = format!(
        "--b\r\nContent-Type: text/xml\r\nContent-ID: <r>\r\n\r\n{}\r\n--b\r\nContent-Type: image/png\r\nContent-ID: <p>\r\n\r\nPNG\r\n--b--\r\n",
        envelope(SOAP_11, "")
    );
    let kind = "multipart/related; type=\"text/xml\"; start=\"<r>\"; boundary=b";
    assert_eq!(post(&gateway, kind, &multipart).status(), 200);
    let sent = &origin.requests()[2];
    assert_eq!(sent.get("content-type"), Some(kind));
    assert!(
        sent.text().contains("Timestamp") && sent.text().contains("\r\n\r\nPNG\r\n--b--"),
        "{sent:?}"
    );
}

#[test]
fn ws_addressing_says_where_a_message_goes_and_what_it_asks_for() {
    let origin = Origin::saying("ok");
    let gateway = adding(&origin, "ws_addressing: {}, ws_security: { timestamp: 1m }");
    let old = "<w:To xmlns:w=\"http://www.w3.org/2005/08/addressing\">urn:old</w:To>";
    assert_eq!(ask(&gateway, &envelope(SOAP_11, old)).status(), 200);
    let sent = origin.request().text();
    let namespace = "http://www.w3.org/2005/08/addressing";
    for block in [
        format!("<wsa:To xmlns:wsa=\"{namespace}\">{}/ws</wsa:To>", origin.url()),
        format!("<wsa:Action xmlns:wsa=\"{namespace}\">urn:act</wsa:Action>"),
        format!("<wsa:MessageID xmlns:wsa=\"{namespace}\">urn:uuid:"),
        format!("<wsa:Address>{namespace}/anonymous</wsa:Address>"),
        "<wsu:Timestamp".to_owned(),
        "<x:keep xmlns:x=\"urn:x\"/>".to_owned(),
    ] {
        assert!(sent.contains(&block), "{block}: {sent}");
    }
    assert!(!sent.contains("urn:old"), "{sent}");
    // SOAP 1.2 has the action in its content type.
    let kind = "application/soap+xml; charset=utf-8; action=\"urn:other\"";
    let body = envelope(SOAP_12, "");
    let length = body.len();
    let request = format!(
        "POST /ws HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    assert_eq!(gateway.wire().ask(&request).status(), 200);
    assert!(origin.requests()[1].text().contains(">urn:other</wsa:Action>"));
    let none = request.replace("; action=\"urn:other\"", "");
    assert_eq!(gateway.wire().ask(&none).status(), 400);
    let given = adding(
        &origin,
        "ws_addressing: { version: submission, to: \"http://real/\", action: \"urn:d\" }",
    );
    assert_eq!(given.wire().ask(&none).status(), 200);
    let sent = origin.requests()[2].text();
    let namespace = "http://schemas.xmlsoap.org/ws/2004/08/addressing";
    assert!(
        sent.contains(&format!("<wsa:Action xmlns:wsa=\"{namespace}\">urn:d</wsa:Action>")),
        "{sent}"
    );
    assert!(sent.contains(">http://real/</wsa:To>"), "{sent}");
}

#[test]
fn zeep_comes_in_with_its_token() {
    let calculator = Backend::start("calculator", &[]);
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ calculator: {{ targets: ["{}"] }} }}
routes:
  all:
    match: {{ path: "/**" }}
    policies: [{{ ws_security: {{ users: {{ alice: sesame }}, passwords: [digest, text], nonce_required: false }} }}]
    upstream: calculator
"#,
        calculator.url
    );
    let gateway = Gateway::start(yaml);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap();
    let clients = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("soap-clients");
    let run = Command::new(clients.join("zeep/bin/python"))
        .arg(root.join("tests/soap_clients/zeep_security.py"))
        .arg(root.join("examples/soap/calculator/calculator.wsdl"))
        .arg(format!("http://{}/", gateway.address("public")))
        .output()
        .unwrap_or_else(|error| panic!("zeep: {error}; run scripts/setup.sh tests"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(
        text(&run.stdout),
        "digest 12\ntext 12\nwrong wsse:FailedAuthentication\n",
        "{}",
        text(&run.stderr)
    );
}

#[test]
fn what_cannot_work_is_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let origin = Origin::saying("ok");
    let policy = |keys: &str| format!("policies: [{{ ws_security: {{ {keys} }} }}]");
    let (mut route, mut upstream);
    for (keys, is_policy, part) in [
        ("", true, "must require a user or a timestamp"),
        ("users: { a: b }, passwords: []", true, "no password form is accepted"),
        ("users: { a: \"$2y$10$xxxxxxxxxxxxxxxxxxxxxx\" }", true, "is a hash"),
        ("ws_security: {}", false, "the WS-Security header would be empty"),
        ("ws_security: { username: a }", false, "`username` needs `password`"),
        ("ws_security: { password: hunter2 }", false, "`password` needs `username`"),
        ("ws_addressing: { version: \"2.0\" }", false, "unknown value `2.0`"),
    ] {
        (route, upstream) = (String::new(), String::new());
        if is_policy {
            route = policy(keys);
        } else {
            upstream = keys.to_owned();
        }
        let plain = Plain { route: &route, upstream: &upstream, ..Plain::default() };
        std::fs::write(&file, plain.yaml(&origin)).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{keys}: {run:?}");
        assert!(run.stderr.contains(part) && !run.stderr.contains("hunter"), "{keys}: {run:?}");
    }
}
