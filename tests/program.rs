//! The program on the command line: its help, its backends, its tokens, its demo.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::{Duration, Instant};

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::harness::{Authority, Backend, Gateway, Run, Wire, tidegate, tidegate_with, until};

/// A gateway that sends everything to a backend.
#[track_caller]
fn gateway_before(backend: &Backend, upstream: &str, files: &[(&str, &str)]) -> Gateway {
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ backend: {{ targets: [\"{}\"]{upstream} }} }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: backend }} }}\n",
        backend.url
    );
    Gateway::start_beside(yaml, files)
}

#[track_caller]
fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|e| panic!("{e}: {}", body.escape_ascii()))
}

#[test]
fn every_command_has_help_with_examples() {
    let help = tidegate(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    for command in ["run", "check", "explain", "demo", "backend", "token", "completions"] {
        assert!(
            help.stdout.lines().any(|line| line.trim().starts_with(command)),
            "{command} in {}",
            help.stdout
        );
        let help = tidegate(&[command, "--help"]);
        assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""), "{command}");
        let (_, examples) =
            help.stdout.split_once("\nExamples:\n").unwrap_or_else(|| panic!("none for {command}"));
        assert!(examples.contains(&format!("  tidegate {command}")), "{command}: {examples}");
        assert_eq!(tidegate(&["help", command]).stdout, help.stdout);
    }
    for example in [
        "tidegate demo",
        "tidegate check gateway.yaml",
        "Exit codes: 0 done, 1 failed, 2 wrong usage.",
    ] {
        assert!(help.stdout.contains(example), "{example} in {}", help.stdout);
    }
    assert!(tidegate(&["--version"]).stdout.starts_with("tidegate "));
}

#[test]
fn run_takes_the_file_of_the_folder_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let run = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .arg("run")
        .current_dir(folder.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("tidegate.yaml:1:1: "), "{run:?}");
}

#[test]
fn echo_sends_back_what_it_gets() {
    let backend = Backend::start("echo", &["--name", "one"]);
    let gateway = gateway_before(&backend, "", &[]);
    let mut wire = gateway.wire();
    let body = "x".repeat(100_000);
    let reply = wire.ask(format!(
        "PATCH /any/path?q=1 HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/x\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ));
    assert_eq!((reply.status(), reply.text() == body), (200, true));
    for (name, value) in [
        ("x-echo-method", "PATCH"),
        ("x-echo-path", "/any/path?q=1"),
        ("content-type", "text/x"),
        ("x-backend", "one"),
    ] {
        assert_eq!(reply.get(name), Some(value), "{reply:?}");
    }
    let text = wire.get("/").text();
    assert!(
        text.starts_with("GET / HTTP/1.1\n")
            && text.contains("\nhost: a.test\n")
            && text.contains("\nx-forwarded-for: 127.0.0.1\n"),
        "{text}"
    );
}

#[test]
fn a_backend_speaks_tls_with_files_or_by_itself() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let (server, client) = (authority.issue("127.0.0.1"), clients.issue("gateway"));
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).unwrap();
        folder.path().join(name).to_str().unwrap().to_owned()
    };
    let files = [
        put("cert.pem", &server.certificate),
        put("key.pem", &server.key),
        put("clients.pem", &clients.pem()),
    ];
    let backend = Backend::start(
        "echo",
        &["--certificate", &files[0], "--key", &files[1], "--client-ca", &files[2]],
    );
    assert!(backend.url.starts_with("https://"), "{}", backend.url);
    let beside = [
        ("ca.pem", authority.pem()),
        ("client.pem", client.certificate.clone()),
        ("client.key", client.key.clone()),
    ];
    let beside = beside.each_ref().map(|(name, text)| (*name, text.as_str()));
    let shows = ", tls: { ca: ca.pem, certificate: client.pem, key: client.key }";
    assert_eq!(gateway_before(&backend, shows, &beside).wire().get("/").status(), 200);
    // Without its own certificate, the gateway is refused.
    assert_eq!(
        gateway_before(&backend, ", tls: { ca: ca.pem }", &beside).wire().get("/").status(),
        502
    );

    let made = Backend::start("echo", &["--tls"]);
    assert_eq!(
        gateway_before(&made, ", tls: { verify: false }", &[]).wire().get("/").status(),
        200
    );
    assert_eq!(gateway_before(&made, "", &[]).wire().get("/").status(), 502);
}

#[test]
fn a_delay_does_not_hold_up_others() {
    const DELAY: Duration = Duration::from_secs(1);
    const CLIENTS: u32 = 10;
    let backend = Backend::start("echo", &["--delay", "1s"]);
    let gateway = gateway_before(&backend, "", &[]);
    let mut wires: Vec<Wire> = (0..CLIENTS).map(|_| gateway.wire()).collect();
    let start = Instant::now();
    wires.iter_mut().for_each(|wire| wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n"));
    wires.iter_mut().for_each(|wire| assert_eq!(wire.read_reply().status(), 200));
    let took = start.elapsed();
    assert!(took >= DELAY && took < DELAY * CLIENTS / 2, "{took:?}");
}

#[test]
fn httpbin_describes_the_request() {
    let backend = Backend::start("httpbin", &[]);
    let gateway = gateway_before(&backend, "", &[]);
    let mut wire = gateway.wire();
    let reply = wire.ask(
        "PUT /anything/below?a=1&b=2&a=3 HTTP/1.1\r\nHost: api.test:80\r\nX-Mine: yes\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{\"x\": [1, 2]}",
    );
    assert_eq!((reply.status(), reply.get("content-type")), (200, Some("application/json")));
    let said = json(&reply.body);
    let expected = [
        ("method", json!("PUT")),
        ("args", json!({ "a": ["1", "3"], "b": "2" })),
        ("data", json!("{\"x\": [1, 2]}")),
        ("json", json!({ "x": [1, 2] })),
        ("form", json!({})),
        ("files", json!({})),
        ("origin", json!("127.0.0.1")),
        ("url", json!("http://api.test:80/anything/below?a=1&b=2&a=3")),
    ];
    for (member, value) in expected {
        assert_eq!(said[member], value, "{member} in {said}");
    }
    assert_eq!(
        (&said["headers"]["X-Mine"], &said["headers"]["Host"]),
        (&json!("yes"), &json!("api.test:80"))
    );

    let form = wire.ask(
        "POST /post HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 9\r\n\r\nk=v%20w&l",
    );
    assert_eq!(json(&form.body)["form"], json!({ "k": "v w", "l": "" }));
    assert_eq!(json(&wire.get("/get?x=y").body)["args"], json!({ "x": "y" }));
    assert_eq!(json(&wire.get("/headers").body)["headers"]["Host"], "a.test");
}

#[test]
fn httpbin_has_sizes_and_statuses() {
    let backend = Backend::start("httpbin", &[]);
    let gateway = gateway_before(&backend, "", &[]);
    let mut wire = gateway.wire();
    for (size, bytes) in [("350B", 350), ("0B", 0), ("1KiB", 1024), ("100KiB", 102_400)] {
        let reply = wire.get(&format!("/size/{size}"));
        assert_eq!((reply.status(), reply.body.len(), reply.whole), (200, bytes, true), "{size}");
        assert_eq!(reply.get("content-type"), Some("text/plain; charset=utf-8"));
    }
    for status in [200, 201, 204, 304, 404, 418, 500, 503] {
        assert_eq!(wire.get(&format!("/status/{status}")).status(), status);
    }
    for bad in ["/size/x", "/status/99", "/status/x"] {
        assert_eq!(wire.get(bad).status(), 400, "{bad}");
    }
    assert_eq!(wire.get("/nosuch").status(), 404);
    assert_eq!(wire.get("/response-headers?x-a=b").get("x-a"), Some("b"));
}

#[test]
fn sse_events_come_one_by_one() {
    let backend = Backend::start("sse", &[]);
    let gateway = gateway_before(&backend, "", &[]);
    let mut wire = gateway.wire();
    // The second event is sent in an hour, so the first did not wait for it.
    wire.send("GET /?interval=1h HTTP/1.1\r\nHost: a\r\n\r\n");
    let head = wire.read_head();
    assert_eq!((head.status(), head.get("content-type")), (200, Some("text/event-stream")));
    // Without a size an event has the 82 bytes of the usual load.
    let event = wire.read_chunk().unwrap();
    assert!(event.starts_with(b"id: 1\nevent: tick\ndata: tick 1 x") && event.ends_with(b"x\n\n"));
    assert_eq!(event.len(), 82);
    drop(wire);

    let reply = gateway
        .wire()
        .ask("GET /?interval=1ms&count=3&size=4 HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 6\r\n\r\n");
    let event = |id: u32| format!("id: {id}\nevent: tick\ndata: tick {id} xxxx\n\n");
    assert_eq!((reply.text(), reply.whole), ([7, 8, 9].map(event).concat(), true));
}

#[test]
fn reverse_turns_each_message_round() {
    let backend = Backend::start("reverse", &[]);
    let gateway = gateway_before(&backend, "", &[]);
    let mut wire = gateway.wire();
    wire.send(
        "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    );
    let head = wire.read_head();
    assert_eq!(
        (head.status(), head.get("sec-websocket-accept")),
        (101, Some("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="))
    );
    for (sent, expected) in [
        ("abc", "cba"),
        ("größe", "eßörg"),
        ("日本語", "語本日"),
        ("e\u{301}x", "xe\u{301}"),
        ("🇩🇪🇫🇷", "🇫🇷🇩🇪"),
    ] {
        wire.send(frame(TEXT, sent.as_bytes()));
        assert_eq!(read_frame(&mut wire), (TEXT, expected.as_bytes().to_vec()));
    }
    wire.send(frame(BINARY, &[0, 1, 255]));
    assert_eq!(read_frame(&mut wire), (BINARY, vec![255, 1, 0]));
    wire.send(frame(PING, b"are you there"));
    assert_eq!(read_frame(&mut wire), (PONG, b"are you there".to_vec()));
    wire.send(frame(CLOSE, &1000u16.to_be_bytes()));
    assert_eq!(read_frame(&mut wire).0, CLOSE);
    assert!(wire.is_closed());
    // A client without the protocol gets an error.
    let reply = gateway.wire().get("/chat");
    assert_eq!((reply.status(), reply.get("sec-websocket-version")), (426, Some("13")));
}

/// Opcodes of WebSocket frames (RFC 6455, 5.2).
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A client's frame: whole, short and masked.
fn frame(opcode: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let length = u8::try_from(payload.len()).unwrap();
    assert!(length < 126);
    let masked = payload.iter().zip(MASK.iter().cycle()).map(|(byte, mask)| byte ^ mask);
    [0x80 | opcode, 0x80 | length].into_iter().chain(MASK).chain(masked).collect()
}

#[track_caller]
fn read_frame(wire: &mut Wire) -> (u8, Vec<u8>) {
    let head = wire.read_exact(2).expect("a frame");
    assert!(head[0] & 0x80 != 0 && head[1] < 126, "{head:?}");
    (head[0] & 0x0f, wire.read_exact(usize::from(head[1])).expect("a whole frame"))
}

#[test]
fn a_backend_ends_on_ctrl_c() {
    let mut backend = Backend::start("echo", &[]);
    assert_eq!(Wire::connect(backend.address()).get("/").status(), 200);
    kill_process(Pid::from_child(&backend.process), Signal::INT).unwrap();
    let mut status = None;
    until("it has ended", || {
        status = backend.process.try_wait().unwrap();
        status.is_some()
    });
    assert_eq!(status.unwrap().code(), Some(0));
}

#[test]
fn a_token_is_signed_by_a_key_of_its_jwks() {
    for (arguments, algorithm) in
        [(&["token"][..], "ES256"), (&["token", "--algorithm", "rs256"], "RS256")]
    {
        let Run { code, stdout, stderr } = tidegate(arguments);
        assert_eq!((code, stderr.as_str()), (Some(0), ""));
        let (token, jwks) = stdout.split_once('\n').unwrap();
        let jwks = json(jwks.as_bytes());
        let head = part(token, 0);
        assert_eq!((&head["alg"], &head["typ"]), (&json!(algorithm), &json!("JWT")));
        assert_eq!(head["kid"], jwks["keys"][0]["kid"]);
        assert!(verifies(token, &jwks["keys"][0]), "{stdout}");
        let forged = token.replacen('.', ".e", 1);
        assert!(!verifies(&forged, &jwks["keys"][0]));
    }
}

#[test]
fn a_key_file_is_made_once_and_claims_are_as_asked() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    let key_argument = ["token", "--key", key.to_str().unwrap()];
    let claims = [
        "--issuer",
        "https://idp.test",
        "--subject",
        "ann",
        "--audience",
        "a",
        "--audience",
        "b",
        "--scope",
        "orders:read orders:write",
        "--expires",
        "10m",
        "--claim",
        "tier=\"gold\"",
        "--claim",
        "plain=text",
        "--claim",
        "n=7",
    ];
    let token = tidegate(&[&key_argument[..], &claims].concat());
    assert_eq!((token.code, token.stdout.lines().count()), (Some(0), 1), "{token:?}");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    let said = part(token.stdout.trim(), 1);
    let expected = [
        ("iss", json!("https://idp.test")),
        ("sub", json!("ann")),
        ("aud", json!(["a", "b"])),
        ("scope", json!("orders:read orders:write")),
        ("tier", json!("gold")),
        ("plain", json!("text")),
        ("n", json!(7)),
    ];
    for (claim, value) in expected {
        assert_eq!(said[claim], value, "{claim} in {said}");
    }
    assert_eq!(said["exp"].as_u64().unwrap() - said["iat"].as_u64().unwrap(), 600);

    let jwks = tidegate(&[&key_argument[..], &["--jwks"]].concat());
    let jwks = json(jwks.stdout.as_bytes());
    assert!(verifies(token.stdout.trim(), &jwks["keys"][0]));
    assert!(jwks["keys"][0].get("d").is_none(), "the private part stays private");
    let over = tidegate(&[&key_argument[..], &["--expires", "-1m"]].concat());
    let over = part(over.stdout.trim(), 1);
    assert_eq!(over["iat"].as_u64().unwrap() - over["exp"].as_u64().unwrap(), 60, "{over}");
}

#[track_caller]
fn part(token: &str, index: usize) -> Value {
    json(&decoded(token.split('.').nth(index).unwrap()))
}

#[track_caller]
fn decoded(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// With only the published key set.
#[track_caller]
fn verifies(token: &str, key: &Value) -> bool {
    let (signed, signature) = token.rsplit_once('.').unwrap();
    let (signed, signature) = (signed.as_bytes(), decoded(signature));
    let member = |name: &str| decoded(key[name].as_str().unwrap());
    match key["kty"].as_str().unwrap() {
        "EC" => {
            let point = [vec![4], member("x"), member("y")].concat();
            UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
                .verify(signed, &signature)
                .is_ok()
        }
        "RSA" => {
            let key = RsaPublicKeyComponents { n: member("n"), e: member("e") };
            key.verify(&RSA_PKCS1_2048_8192_SHA256, signed, &signature).is_ok()
        }
        other => panic!("a key of the type {other}"),
    }
}

#[test]
fn the_demo_shows_itself_and_ends() {
    let demo = tidegate(&["demo", "--once", "--port", "0", "--admin-port", "0"]);
    assert_eq!(demo.code, Some(0), "{}\n{}", demo.stdout, demo.stderr);
    for part in [
        "gateway  http://127.0.0.1:",
        "All requests had the expected results",
        "/hello",
        "/metrics",
    ] {
        assert!(demo.stdout.contains(part), "{part} in {}", demo.stdout);
    }
}

#[test]
fn the_demo_takes_another_port_where_its_own_is_taken() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let demo = tidegate(&["demo", "--once", "--port", &port, "--admin-port", "0"]);
    assert_eq!(demo.code, Some(0), "{}\n{}", demo.stdout, demo.stderr);
    assert!(demo.stderr.contains(&format!("port {port} is taken")), "{}", demo.stderr);
}

#[test]
fn issue_19_the_file_may_be_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let yaml = "listen: { public: { address: \"127.0.0.1:0\" } }\nroutes: { a: { match: {}, respond: {} } }\n";
    for command in ["check", "explain"] {
        let run = || {
            let mut command_ = Command::new(env!("CARGO_BIN_EXE_tidegate"));
            command_.arg(command).current_dir(folder.path()).output().unwrap()
        };
        let _ = fs::remove_file(folder.path().join("tidegate.yaml"));
        let said = run();
        assert_eq!(said.status.code(), Some(1), "{said:?}");
        assert!(
            String::from_utf8_lossy(&said.stderr).starts_with("tidegate.yaml:1:1: "),
            "{said:?}"
        );
        fs::write(folder.path().join("tidegate.yaml"), yaml).unwrap();
        assert_eq!(run().status.code(), Some(0));
    }
}

#[test]
fn issue_19_a_reader_that_goes_away_is_no_mistake() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(["check", "--schema"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // Larger than a pipe's buffer, so that it is written after the reader has closed.
    drop(child.stdout.take());
    let said = child.wait_with_output().unwrap();
    assert_eq!(
        (said.status.code(), said.stderr.escape_ascii().to_string().as_str()),
        (Some(0), "")
    );
}

#[test]
fn issue_19_shells_complete_the_arguments() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let said = tidegate(&["completions", shell]);
        assert_eq!((said.code, said.stderr.as_str()), (Some(0), ""), "{shell}");
        assert!(
            said.stdout.contains("explain") && said.stdout.contains("--strict")
                || said.stdout.contains("strict"),
            "{shell}"
        );
    }
    assert_eq!(tidegate(&["completions", "basic"]).code, Some(2));
}

#[test]
fn issue_19_the_log_may_be_json_a_line_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    fs::write(&file, "listen: 1\nroutes: 2\n").unwrap();
    let run = ["run", file.to_str().unwrap()];
    let said = tidegate_with(&run, &[("TIDEGATE_LOG_FORMAT", "json")]);
    assert_eq!(said.code, Some(1));
    let records: Vec<Value> = said.stderr.lines().map(|line| json(line.as_bytes())).collect();
    let told = records.last().unwrap();
    assert_eq!(told["level"], "ERROR");
    let message = told["message"].as_str().unwrap();
    assert!(
        message.contains("gate.yaml:1:9: ") && message.contains("gate.yaml:2:9: "),
        "{message}"
    );
    let said = tidegate_with(&run, &[("TIDEGATE_LOG_FORMAT", "xml")]);
    assert_eq!(
        (said.code, said.stderr.as_str()),
        (Some(2), "TIDEGATE_LOG_FORMAT is `xml`: write text or json\n")
    );
}
