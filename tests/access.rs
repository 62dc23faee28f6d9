//! Access control of the admin API: users, roles, certificates, web pages, and the audit log.

use serde_json::Value;

use crate::harness::{Authority, Gateway, Identity, Message, Wire, tidegate, until};

const ROUTES: &str = "\
listen: { public: { address: \"127.0.0.1:0\" } }
workers: 1
routes: { hello: { match: { path: /hello }, respond: { body: hi } } }
";

fn yaml(admin: &str) -> String {
    format!("{ROUTES}admin: {{ address: \"127.0.0.1:0\", {admin} }}\n")
}

fn users() -> String {
    let hash = sha256("writers-token");
    format!(
        "users: {{ ann: {{ token: readers-token }}, bob: {{ token_sha256: {hash}, role: write }} }}"
    )
}

fn sha256(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A request with header lines, and the reply.
#[track_caller]
fn ask(gateway: &Gateway, request: &str, headers: &str, body: &str) -> Message {
    let (admin, length) = (gateway.admin(), body.len());
    Wire::connect(admin).ask(format!(
        "{request} HTTP/1.1\r\nHost: {admin}\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    ))
}

#[track_caller]
fn json(reply: &Message) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|e| panic!("{e}: {reply:?}"))
}

const READER: &str = "Authorization: Bearer readers-token\r\n";
const OLD: &str = "Authorization: Bearer old-token\r\n";
const WRITER: &str = "Authorization: bearer writers-token\r\n";

#[test]
fn every_operation_asks_for_the_role_that_the_document_tells() {
    let with_old = users().replace("users: {", "users: { eve: { token: old-token, role: write },");
    let gateway = Gateway::start(yaml(&with_old));
    // A token that was good once.
    assert_eq!(ask(&gateway, "GET /plan", OLD, "").status(), 200);
    gateway.rewrite(yaml(&users()));
    gateway.wait_for_log("generation=2");
    let document = json(&ask(&gateway, "GET /openapi.json", READER, ""));
    let mut operations = 0;
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in ["get", "head", "post", "put", "patch", "delete"] {
            let operation = match method {
                "head" => &methods["get"],
                method => &methods[method],
            };
            let role = operation["x-role"].as_str();
            operations += usize::from(role.is_some());
            // Operations that the document lacks need a role too.
            let role = role.unwrap_or(if method == "head" { "read" } else { "write" });
            let role = if operation.is_null() && method == "get" { "read" } else { role };
            let request = format!("{} {path}", method.to_uppercase());
            for (headers, read, write) in [
                ("", false, false),
                ("Authorization: Bearer wrong\r\n", false, false),
                (OLD, false, false),
                ("Authorization: Bearer \r\n", false, false),
                ("Authorization: Bearer readers-token-and-more\r\n", false, false),
                ("Authorization: Basic cmVhZGVycy10b2tlbg==\r\n", false, false),
                (
                    "Authorization: Bearer readers-token\r\nAuthorization: Bearer writers-token\r\n",
                    false,
                    false,
                ),
                (READER, true, false),
                (WRITER, true, true),
            ] {
                let reply = ask(&gateway, &request, headers, "nonsense");
                let (status, what) = (reply.status(), format!("{request} {headers}{reply:?}"));
                match role {
                    "none" => assert!(![401, 403].contains(&status), "{what}"),
                    _ if !read => {
                        assert_eq!(
                            (status, reply.get("www-authenticate")),
                            (401, Some("Bearer")),
                            "{what}"
                        );
                    }
                    "write" if !write => assert_eq!(status, 403, "{what}"),
                    _ => assert!(![401, 403].contains(&status), "{what}"),
                }
            }
        }
    }
    assert!(operations > 60, "{operations}");
    assert_eq!(ask(&gateway, "GET /no/such/path", "", "").status(), 401);
    assert_eq!(ask(&gateway, "GET /no/such/path", READER, "").status(), 404);
    // A name that the machine is not known by tells nothing either.
    assert_eq!(ask(&gateway, "GET /config?secrets=true", READER, "").status(), 403);
}

#[test]
fn an_open_address_is_refused_unless_it_is_wanted() {
    let hash = sha256("x");
    let cases: &[(&str, Option<&str>)] = &[
        ("address: \"127.0.0.1:1\"", None),
        ("address: \"127.8.0.1:1\"", None),
        ("address: \"[::1]:1\"", None),
        ("address: \"[::ffff:127.0.0.1]:1\"", None),
        ("address: \"0.0.0.0:1\"", Some("anyone who can connect to 0.0.0.0:1")),
        ("address: \"[::]:1\"", Some("anyone who can connect to [::]:1")),
        ("address: \"10.0.0.1:1\", users: {}", Some("anyone who can connect")),
        ("address: \"10.0.0.1:1\", users: { a: { token: t } }", None),
        (
            "address: \"127.0.0.1:1\", users: { a: {} }",
            Some("one of `token`, `token_sha256` and `subject`"),
        ),
        (
            "address: \"127.0.0.1:1\", users: { a: { token: t, subject: CN=a } }",
            Some("one of `token`"),
        ),
        ("address: \"127.0.0.1:1\", users: { a: { token: \"\" } }", Some("the token is empty")),
        (
            "address: \"127.0.0.1:1\", users: { a: { token: \"a b\" } }",
            Some("the token is empty or has"),
        ),
        (
            "address: \"127.0.0.1:1\", users: { a: { token: t }, b: { token: t } }",
            Some("`a` and `b` have the same credentials"),
        ),
        ("address: \"127.0.0.1:1\", users: { a: { token_sha256: abc } }", Some("not a SHA-256")),
        (
            "address: \"127.0.0.1:1\", users: { a: { subject: CN=a } }",
            Some("client certificates are not requested"),
        ),
        ("address: \"127.0.0.1:1\", origins: [\"*\"]", Some("not the origin of a web page")),
        (
            "address: \"127.0.0.1:1\", origins: [\"https://a.test/x\"]",
            Some("not the origin of a web page"),
        ),
        ("address: \"127.0.0.1:1\", hosts: [\"a:1\"]", Some("not the name of a host")),
    ];
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let check = |admin: &str| {
        std::fs::write(&file, format!("{ROUTES}admin: {{ {admin} }}\n")).unwrap();
        tidegate(&["check", file.to_str().unwrap()])
    };
    for (admin, complaint) in cases {
        let run = check(admin);
        assert_eq!(run.code, Some(i32::from(complaint.is_some())), "{admin}: {run:?}");
        assert!(run.stderr.contains(complaint.unwrap_or("")), "{admin}: {run:?}");
    }
    let both = format!(
        "address: \"127.0.0.1:1\", users: {{ a: {{ token: x }}, b: {{ token_sha256: {hash} }} }}"
    );
    assert!(check(&both).stderr.contains("have the same credentials"));
    let open = check("address: \"0.0.0.0:1\", open: true");
    assert_eq!(open.code, Some(0), "{open:?}");
    assert!(
        open.stderr.contains("warning") && open.stderr.contains("can operate the gateway"),
        "{open:?}"
    );
}

#[test]
fn users_follow_a_reload() {
    let gateway = Gateway::start(yaml(&users()));
    let status = |headers| ask(&gateway, "GET /plan", headers, "").status();
    assert_eq!((status(READER), status(WRITER)), (200, 200));
    gateway.rewrite(yaml("users: { bob: { token: writers-token, role: read } }"));
    until("ann is out", || status(READER) == 401);
    assert_eq!(ask(&gateway, "POST /trace", WRITER, "").status(), 403);
    gateway.rewrite(yaml("users: { ann: { token: readers-token, role: write } }"));
    until("bob is out", || status(WRITER) == 401);
    assert_eq!(ask(&gateway, "POST /trace", READER, "").status(), 200);
}

#[test]
fn pages_and_names_that_are_listed_may_call() {
    let gateway = Gateway::start(yaml(&format!(
        "{}, origins: [\"https://ops.example.com\"], hosts: [gate.example.com]",
        users()
    )));
    let admin = gateway.admin();
    let listed = "Origin: https://ops.example.com\r\n";
    let asked = "Access-Control-Request-Method: PUT\r\n";
    let reply = ask(&gateway, "OPTIONS /config", &format!("{listed}{asked}"), "");
    assert_eq!(reply.status(), 204, "{reply:?}");
    assert_eq!(reply.get("access-control-allow-origin"), Some("https://ops.example.com"));
    assert!(reply.lists("access-control-allow-methods", "PUT"));
    assert!(reply.lists("access-control-allow-headers", "authorization"));
    let stranger = format!("Origin: https://evil.example\r\n{asked}");
    let reply = ask(&gateway, "OPTIONS /config", &stranger, "");
    assert_eq!((reply.status(), reply.get("access-control-allow-origin")), (403, None));
    for (request, headers, status) in [
        ("PUT /config", format!("{listed}{WRITER}Sec-Fetch-Site: cross-site\r\n"), 422),
        ("PUT /config", format!("{listed}{READER}"), 403),
        ("PUT /config", listed.to_owned(), 401),
        ("PUT /config", format!("Origin: https://evil.example\r\n{WRITER}"), 403),
        ("GET /plan", format!("{listed}{READER}"), 200),
    ] {
        let reply = ask(&gateway, request, &headers, "nonsense");
        assert_eq!(reply.status(), status, "{request} {headers}: {reply:?}");
        let exposed = reply.get("access-control-allow-origin");
        assert_eq!(exposed.is_some(), headers.contains("ops.example.com"), "{headers}");
    }
    for (host, status) in [
        ("gate.example.com", 200),
        ("GATE.example.com:9901", 200),
        ("localhost:1", 200),
        ("evil.example", 403),
    ] {
        let reply =
            Wire::connect(admin).ask(format!("GET /plan HTTP/1.1\r\nHost: {host}\r\n{READER}\r\n"));
        assert_eq!(reply.status(), status, "{host}");
    }
}

fn certificate(authority: &Authority, organization: &str, name: &str) -> Identity {
    authority.issue_as("ops.test", |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, organization);
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
    })
}

#[test]
fn certificates_are_users_by_their_subject() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let server = ours.issue("gate.test");
    let tls = "tls: { certificate: a.pem, key: a.key, client_ca: ca.pem }";
    let start = |users: &str| {
        Gateway::start_beside(
            yaml(&format!("{tls}, {users}")),
            &[("a.pem", &server.certificate), ("a.key", &server.key), ("ca.pem", &ours.pem())],
        )
    };
    let get = |gateway: &Gateway, trust: &crate::harness::Trust, path: &str, headers: &str| {
        let mut wire = Wire::connect_tls(gateway.admin(), "gate.test", trust);
        wire.ask(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")).status()
    };
    let gateway = start(
        "users: { ops: { subject: \"CN=ops,O=Tide\", role: write }, ann: { token: readers-token } }",
    );
    let shows = |identity| ours.trust().showing(identity);
    let cases = [
        (shows(certificate(&ours, "Tide", "ops")), "", 200),
        (shows(certificate(&ours, "Tide", "else")), "", 401),
        (shows(certificate(&ours, "Tide", "else")), READER, 200),
        (shows(certificate(&ours, "Tide", "ops")), "Authorization: Bearer wrong\r\n", 401),
        (ours.trust(), "", 401),
        (ours.trust(), READER, 200),
    ];
    for (trust, headers, status) in &cases {
        assert_eq!(get(&gateway, trust, "/plan", headers), *status, "{headers}");
        assert_eq!(get(&gateway, trust, "/healthz", ""), 200);
    }
    let refused = |gateway: &Gateway, trust| {
        let wire = Wire::try_tls(gateway.admin(), "gate.test", trust);
        let said = wire.map(|mut wire| {
            wire.try_send("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
            wire.read_to_end()
        });
        said.map_or(true, |said| said.is_empty())
    };
    let forged = ours.trust().showing(certificate(&theirs, "Tide", "ops"));
    assert!(refused(&gateway, &forged));
    let over = ours.issue_as("ops.test", |params| {
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::OrganizationName, "Tide");
        params.distinguished_name.push(rcgen::DnType::CommonName, "ops");
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2021, 1, 1);
    });
    let expired = shows(over);
    assert!(refused(&gateway, &expired), "it has expired");
    drop(gateway);

    // Without users, a certificate of the authority is required, and each one has all rights.
    let gateway = start("users: {}");
    assert_eq!(get(&gateway, &cases[1].0, "/plan", ""), 200);
    assert!(refused(&gateway, &ours.trust()));
}

#[test]
fn probes_have_a_socket_of_their_own() {
    let yaml = format!("{}status: {{ address: \"127.0.0.1:0\" }}\n", yaml(&users()));
    let gateway = Gateway::start(&yaml);
    let address = || {
        gateway.wait_for_log("status address=");
        let log = gateway.log();
        let after = log.rsplit("status address=").next().unwrap().to_owned();
        after.split_whitespace().next().unwrap().parse::<std::net::SocketAddr>().unwrap()
    };
    let first = address();
    for (request, status) in [
        ("GET /healthz", 200),
        ("HEAD /healthz", 200),
        ("GET /readyz", 200),
        ("GET /metrics", 200),
        ("POST /metrics", 405),
        ("DELETE /healthz", 405),
        ("GET /plan", 404),
        ("PUT /config", 404),
        ("GET /", 404),
    ] {
        let mut wire = Wire::connect(first);
        let head =
            format!("{request} HTTP/1.1\r\nHost: any.name.test\r\nContent-Length: 0\r\n\r\n");
        wire.send(head);
        let reply = wire.read_head();
        assert_eq!(reply.status(), status, "{request}");
        assert_eq!(reply.get("cache-control"), Some("no-store"));
    }
    // Another plan with the same address keeps the socket; one without it closes it.
    gateway.rewrite(yaml.replace("body: hi", "body: ho"));
    until("the plan is in service", || gateway.wire().get("/hello").text() == "ho");
    let alive = |address| {
        let stream = std::net::TcpStream::connect(address);
        stream.is_ok()
    };
    assert!(alive(first));
    gateway.rewrite(yaml.replace("status:", "#"));
    until("the socket is closed", || !alive(first));
    // An address that is taken refuses the plan.
    let taken = format!("{{ address: \"{}\" }}", gateway.admin());
    gateway.rewrite(
        yaml.replace("{ address: \"127.0.0.1:0\" }\n", &format!("{taken}\n"))
            .replace("body: hi", "body: hu"),
    );
    gateway.wait_for_log("status: ");
    assert_eq!(gateway.wire().get("/hello").text(), "hi");
}

#[test]
fn the_audit_log_has_changes_and_refusals_and_no_reads() {
    let yaml = format!("{}telemetry: {{ audit_log: {{ to: audit.log }} }}\n", yaml(&users()));
    let gateway = Gateway::start(&yaml);
    let id = "X-Request-Id: one-two\r\n";
    let cases = [
        ("GET /plan", READER.to_owned(), "", 200, None),
        ("POST /config/check", READER.to_owned(), &*yaml, 200, None),
        ("GET /plan", id.to_owned(), "", 401, Some((None, None))),
        ("PUT /config", READER.to_owned(), "", 403, Some((Some("ann"), Some("read")))),
        ("PUT /config", WRITER.to_owned(), "nonsense", 422, Some((Some("bob"), Some("write")))),
        ("DELETE /revoked/x", WRITER.to_owned(), "", 404, Some((Some("bob"), Some("write")))),
        (
            "GET /config?secrets=true",
            WRITER.to_owned(),
            "",
            200,
            Some((Some("bob"), Some("write"))),
        ),
        ("GET /no/such", READER.to_owned(), "", 404, None),
    ];
    let mut noted = Vec::new();
    for (request, headers, body, status, line) in cases {
        let reply = ask(&gateway, request, &headers, body);
        assert_eq!(reply.status(), status, "{request} {headers}: {reply:?}");
        let id = reply.get("x-request-id").unwrap().to_owned();
        assert_eq!(headers.contains("one-two"), id == "one-two", "{id}");
        noted.extend(line.map(|line| (request, status, line, id)));
    }
    let text = std::fs::read_to_string(gateway.path("audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), noted.len(), "{text}");
    for (line, (request, status, (user, role), id)) in lines.iter().zip(&noted) {
        let (method, path) = request.split_once(' ').unwrap();
        assert_eq!((&line["method"], &line["path"]), (&method.into(), &(*path).into()), "{line}");
        assert_eq!(
            (&line["status"], &line["request_id"]),
            (&(*status).into(), &id.as_str().into())
        );
        assert_eq!((line["user"].as_str(), line["role"].as_str()), (*user, *role), "{line}");
        assert_eq!(line["client"], "127.0.0.1");
        assert!(line["time"].as_str().unwrap().ends_with('Z') && line.get("changes").is_some());
    }
    assert!(!text.contains("token"), "{text}");
    use std::os::unix::fs::PermissionsExt as _;
    let mode = std::fs::metadata(gateway.path("audit.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn without_a_place_of_its_own_the_audit_log_is_the_programs() {
    let gateway = Gateway::start(yaml(&users()));
    assert_eq!(ask(&gateway, "PUT /config", "", "").status(), 401);
    gateway.wait_for_log("an operator's request");
    gateway.wait_for_log("\"status\":401");
}
