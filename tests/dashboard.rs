//! The dashboard, in Chromium: what operators see and do there is in `clients/dashboard/cases.js`.
//!
//! `scripts/setup.sh tests` installs Chromium, and the client of its protocol below `clients` in the target folder. With
//! `TIDEGATE_PICTURES=FOLDER` each page is kept as a picture there.

use std::process::Stdio;

use crate::harness::{Authority, Gateway, Origin, Wire, until};
use crate::queues::origin;
use crate::stream_clients::{chromium, installed};

const SCRIPTS: [(&str, &str); 2] = [
    ("browser.js", include_str!("clients/dashboard/browser.js")),
    ("cases.js", include_str!("clients/dashboard/cases.js")),
];

/// A gateway with one of each thing, and a queue whose messages fail.
fn yaml(origin: &Origin, more: &str) -> String {
    format!(
        r#"
listen:
  public: {{ address: "127.0.0.1:0" }}
  secure: {{ address: "127.0.0.1:0", tls: {{ certificate: own.pem, key: own.key }} }}
admin:
  address: "127.0.0.1:0"
  users: {{ ann: {{ token: writer-token, role: write }}, bob: {{ token: reader-token, role: read }} }}
workers: 2
store: {{ path: var }}
upstreams:
  origin: {{ targets: ["{}"] }}
  gone: {{ targets: ["http://127.0.0.1:1"], health: {{ path: /, interval: 100ms, unhealthy_after: 1 }} }}
flows:
  keep: [{{ store: {{ queue: work }} }}]
  send: [{{ call: {{ upstream: origin, fault_on: [5xx] }} }}]
  beat: [{{ respond: {{}} }}]
queues: {{ work: {{ flow: send, retry: {{ attempts: 2, initial: 10ms }} }} }}
hubs: {{ news: {{ topics: [sports] }} }}
schedules: {{ beat: {{ every: 1h, flow: beat, message: {{ json: '{{}}' }} }} }}
routes:
  all: {{ match: {{ path: "/in/**" }}, strip_prefix: /in, flow: keep }}
  news: {{ match: {{ path: "/news/**" }}, hub: news }}
  gone: {{ match: {{ path: /gone }}, upstream: gone }}
  guarded: {{ match: {{ path: /guarded }}, policies: [api_key: {{ header: x-key, keys: {{ a: k }} }}], upstream: origin }}
  fixed: {{ match: {{ path: /fixed }}, respond: {{ status: 201 }} }}
  "<script>alert(1)</script>": {{ match: {{ path: /hostile }}, respond: {{ status: 200 }} }}
{more}"#,
        origin.url()
    )
}

fn start(origin: &Origin, more: &str) -> Gateway {
    let own = Authority::new().issue("gateway.test");
    Gateway::start_beside(
        yaml(origin, more),
        &[("own.pem", &own.certificate), ("own.key", &own.key)],
    )
}

/// Runs a case of `cases.js` and returns its output.
#[track_caller]
fn run(gateway: &Gateway, case: &str) -> String {
    let installed = installed();
    let scripts = tempfile::tempdir_in(&installed).unwrap_or_else(|error| {
        panic!("{}: {error}; run scripts/setup.sh tests", installed.display())
    });
    for (name, text) in SCRIPTS {
        std::fs::write(scripts.path().join(name), text).unwrap();
    }
    let ran = std::process::Command::new("node")
        .arg(scripts.path().join("cases.js"))
        .arg(case)
        .env("ADMIN", format!("http://{}", gateway.admin()))
        .env("GATEWAY", format!("http://{}", gateway.address("public")))
        .env("CHROMIUM", chromium().get_program())
        .env("PICTURES", std::env::var("TIDEGATE_PICTURES").unwrap_or_default())
        .stdin(Stdio::null())
        .output()
        .expect("node; scripts/setup.sh tests installs it");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(ran.status.success(), "{case}: {}\n{}", text(&ran.stderr), gateway.log());
    text(&ran.stdout)
}

/// Traffic of each kind, and two dead messages.
fn fill(gateway: &Gateway) {
    for body in ["the first message", "the second message"] {
        let length = body.len();
        let reply = gateway.wire().ask(format!(
            "POST /in/a?b=c HTTP/1.1\r\nHost: a\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        assert_eq!(reply.status(), 202);
    }
    for path in ["/fixed", "/fixed", "/guarded", "/gone", "/hostile", "/nowhere"] {
        gateway.wire().get(path);
    }
    until("both messages are dead", || {
        let admin = gateway.admin();
        let queue = Wire::connect(admin).ask(format!(
            "GET /queues/work HTTP/1.1\r\nHost: {admin}\r\nAuthorization: Bearer writer-token\r\n\r\n"
        ));
        queue.text().contains("\"dead\":2")
    });
}

#[track_caller]
fn case(name: &str) -> String {
    let origin = origin(|_, _| "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let gateway = start(&origin, "");
    fill(&gateway);
    run(&gateway, name)
}

#[test]
fn the_page_asks_for_a_token_and_takes_no_wrong_one() {
    case("sign_in");
}

#[test]
fn each_page_can_be_read_in_any_colours_and_on_a_phone() {
    case("pages");
}

#[test]
fn who_may_only_read_sees_no_control() {
    case("reader");
}

#[test]
fn targets_are_weighed_and_drained() {
    case("upstreams");
}

#[test]
fn dead_messages_are_viewed_retried_and_removed() {
    case("dead");
}

#[test]
fn a_change_is_checked_compared_applied_and_rolled_back() {
    case("configuration");
}

#[test]
fn exchanges_are_tailed_traced_and_explained() {
    case("exchanges");
}

#[test]
fn all_of_it_works_by_keyboard() {
    case("keyboard");
}

/// Prints the time; `bench` measures it where the machine has nothing else to do.
#[test]
fn five_hundred_routes_are_painted() {
    let routes: String = (0..500)
        .map(|at| format!("  r{at}: {{ match: {{ path: /r{at} }}, respond: {{ status: 200 }} }}\n"))
        .collect();
    let origin = origin(|_, _| "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let gateway = start(&origin, &routes);
    println!("{}", run(&gateway, "paint"));
}
