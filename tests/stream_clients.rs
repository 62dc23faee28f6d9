//! Widely used clients of event streams and WebSockets: npm `ws` and `undici`, Python's `websockets` and `httpx-sse`, and Chromium, over
//! HTTP/1 and HTTP/2. All of them do what `clients/streams/cases.js` does, with the same results.
//!
//! `scripts/setup.sh tests` installs them below `clients` in the target folder, and Chromium on the machine.

use std::cell::RefCell;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Authority, Gateway, PATIENCE, Program, Wire, until};
use crate::reload::put_ok;
use crate::telemetry::metric;

/// The folder in which the clients are installed, and in which scripts find their modules.
pub(crate) fn installed() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("clients")
}

/// A proxy to a listener that a test can interrupt. Meanwhile nothing passes, and new connections wait.
struct ClientKind {
    address: SocketAddr,
    open: Arc<Open>,
}

#[derive(Default)]
struct Open {
    sockets: Mutex<Option<Vec<TcpStream>>>,
    changed: Condvar,
}

impl ClientKind {
    fn to(listener: SocketAddr) -> ClientKind {
        let entrance = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = entrance.local_addr().unwrap();
        let open = Arc::new(Open { sockets: Mutex::new(Some(Vec::new())), ..Open::default() });
        let shared = open.clone();
        // It ends with the process, when the test is over.
        thread::spawn(move || {
            for client in entrance.incoming() {
                let (client, open) = (client.unwrap(), shared.clone());
                thread::spawn(move || {
                    let gateway = TcpStream::connect(listener).unwrap();
                    {
                        let sockets = open.sockets.lock().unwrap();
                        let mut sockets =
                            open.changed.wait_while(sockets, |open| open.is_none()).unwrap();
                        let pair = [&client, &gateway].map(|end| end.try_clone().unwrap());
                        sockets.as_mut().unwrap().extend(pair);
                    }
                    let back = [&gateway, &client].map(|end| end.try_clone().unwrap());
                    thread::spawn(move || pass(back));
                    pass([client, gateway]);
                });
            }
        });
        ClientKind { address, open }
    }

    fn cut(&self) {
        let sockets = self.open.sockets.lock().unwrap().take();
        for socket in sockets.into_iter().flatten() {
            // It may have ended by itself.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }

    fn mend(&self) {
        *self.open.sockets.lock().unwrap() = Some(Vec::new());
        self.open.changed.notify_all();
    }
}

/// Forwards data up to the end.
fn pass([mut from, mut to]: [TcpStream; 2]) {
    let mut piece = [0; 16_384];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// A service, a gateway before it, and a way there.
struct Scene {
    service: Program,
    /// The requests that the service got, in order.
    seen: Receiver<String>,
    /// The data that it got by POST.
    told: Receiver<String>,
    url: String,
    gateway: Gateway,
    authority: Authority,
    way: ClientKind,
    /// True if the client reconnects by itself after its connection was cut.
    comes_back: bool,
    scripts: TempDir,
}

const SCRIPTS: [(&str, &str); 4] = [
    ("service.js", include_str!("clients/streams/service.js")),
    ("cases.js", include_str!("clients/streams/cases.js")),
    ("node.js", include_str!("clients/streams/node.js")),
    ("client.py", include_str!("clients/streams/client.py")),
];

fn yaml(service: &str, generation: usize) -> String {
    let limit = "messages: 4, per: 1h, on_limit: close";
    format!(
        r#"
listen:
  plain: {{ address: "127.0.0.1:0" }}
  secure: {{ address: "127.0.0.1:0", tls: {{ certificate: own.pem, key: own.key }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 2
telemetry: {{ access_log: {{ format: json, path: access.log }} }}
upstreams: {{ service: {{ targets: ["http://127.0.0.1:{service}"] }} }}
routes:
  all: {{ match: {{ path: "/**" }}, upstream: service }}
  policy: {{ match: {{ path: /ws/policy }}, upstream: service, policies: [websocket: {{ message_bytes_max: 1MiB }}] }}
  count: {{ match: {{ path: /ws/count }}, upstream: service, policies: [websocket: {{ {limit} }}] }}
  wso2: {{ match: {{ path: /ws/wso2 }}, errors: wso2, upstream: service, policies: [websocket: {{ {limit} }}] }}
  small: {{ match: {{ path: /ws/small }}, upstream: service, policies: [websocket: {{ message_bytes_max: 1KiB }}] }}
  pings: {{ match: {{ path: /ws/pings }}, upstream: service, policies: [websocket: {{ ping: 6s }}] }}
  nowhere: {{ match: {{ path: /ws/nowhere }}, respond: {{ status: 404 }} }}
  counted: {{ match: {{ path: /sse/count }}, upstream: service, policies: [sse: {{ events: 5, per: 1h }}] }}
  shared: {{ match: {{ path: /sse/shared }}, upstream: service, policies: [sse: {{ share: {{ linger: 1h }} }}] }}
  kept-ws: {{ match: {{ path: /ws/kept }}, upstream: service, policies: [websocket: {{ messages: {generation}00, per: 1h }}] }}
  kept-sse: {{ match: {{ path: /sse/kept }}, upstream: service, policies: [sse: {{ events: {generation}00, per: 1h }}] }}
"#
    )
}

impl Scene {
    /// With a proxy to this listener.
    fn set(listener: &str) -> Scene {
        let installed = installed();
        let scripts = tempfile::tempdir_in(&installed).unwrap_or_else(|error| {
            panic!("{}: {error}; run scripts/setup.sh tests", installed.display())
        });
        for (name, text) in SCRIPTS {
            std::fs::write(scripts.path().join(name), text).unwrap();
        }
        let mut service =
            Program::start(Command::new("node").arg(scripts.path().join("service.js")));
        let port = service.line();
        let (tell, told) = channel();
        let (see, seen) = channel();
        let lines = std::mem::replace(&mut service.lines, channel().1);
        thread::spawn(move || {
            lines.iter().try_for_each(|line| match line.strip_prefix("told ") {
                Some(line) => tell.send(line.to_owned()),
                None => see.send(line),
            })
        });
        let authority = Authority::new();
        let own = authority.issue("127.0.0.1");
        let files = [("own.pem", own.certificate.as_str()), ("own.key", &own.key)];
        let gateway = Gateway::start_beside(yaml(&port, 1), &files);
        let way = ClientKind::to(gateway.address(listener));
        let scheme = if listener == "secure" { "https" } else { "http" };
        let url = format!("{scheme}://{}", way.address);
        Scene { service, seen, told, url, gateway, authority, way, comes_back: true, scripts }
    }

    fn port(&self) -> String {
        let text = std::fs::read_to_string(self.gateway.path("tidegate.yaml")).unwrap();
        let (_, port) = text.split_once("http://127.0.0.1:").unwrap();
        port.split('"').next().unwrap().to_owned()
    }

    /// Waits until the service gets this. Returns what it got before.
    #[track_caller]
    fn sees(&self, line: &str) -> Vec<String> {
        let mut before = Vec::new();
        loop {
            let next = self.seen.recv_timeout(PATIENCE);
            let next = next.unwrap_or_else(|_| panic!("not seen: {line}, but {before:?}"));
            if next == line {
                return before;
            }
            before.push(next);
        }
    }

    /// Runs a scene with a client that prints these lines, and continues where it waits if `go` is called.
    #[track_caller]
    fn play(&mut self, said: impl Fn(&mut Scene) -> String, go: impl FnOnce(&mut Scene)) {
        let expect = |scene: &mut Scene, line: &str| assert_eq!(said(scene), line);
        // All clients offer an extension; the service accepts it if no policy reads the messages.
        expect(self, "/ws/bare grüße true chat.v2 permessage-deflate 1000");
        self.sees("socket /ws/bare permessage-deflate");
        expect(self, "/ws/policy grüße true chat.v2 - 1000");
        self.sees("socket /ws/policy -");
        expect(self, "/ws/count closed 1008 after 2");
        expect(self, "/ws/wso2 closed 4008 after 2");
        expect(self, "/ws/small closed 1009 after 0");
        expect(self, "/ws/nowhere refused");
        expect(self, "/sse/count 1 2 3 4 5");

        expect(self, "/sse/shared open");
        self.sees("stream /sse/shared -");
        let mut other = Wire::connect(self.gateway.address("plain"));
        other.send("GET /sse/shared HTTP/1.1\r\nHost: a\r\n\r\n");
        assert_eq!(other.read_head().status(), 200);
        (1..=3).for_each(|id| self.service.tell(&format!("event {id}")));
        expect(self, "/sse/shared 1 2 3");
        if self.comes_back {
            self.way.cut();
        }
        (4..=5).for_each(|id| self.service.tell(&format!("event {id}")));
        // The gateway has them once another client gets them.
        other.read_until(b"data: event 5\n\n").unwrap();
        if self.comes_back {
            self.way.mend();
        }
        self.service.tell("event 6");
        expect(self, "/sse/shared 1 2 3 4 5 6");

        expect(self, "kept open");
        let before = self.sees("stream /sse/kept -");
        let again = before.iter().any(|line| line.starts_with("stream /sse/shared"));
        assert!(!again, "one stream for all: {before:?}");
        put_ok(&self.gateway, &yaml(&self.port(), 2));
        go(self);
        self.service.tell("event 7");
        expect(self, "kept after 7");
        expect(self, "end");
        assert!(self.passed("/ws/policy").iter().all(|bytes| *bytes >= 70_000), "both ways");
        for kind in ["sse", "websocket"] {
            let open = format!("tidegate_streams_open{{route=\"kept-{kind}\",kind=\"{kind}\"}}");
            let open = open.replace("kept-websocket", "kept-ws");
            until("its streams have ended", || metric(&self.gateway, &open) == Some(0.0));
        }
    }

    /// The fields of the access log for exchanges at a path.
    fn logged(&self, path: &str) -> Vec<Value> {
        let log = std::fs::read_to_string(self.gateway.path("access.log")).unwrap_or_default();
        let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.filter(|line| line["path"] == path).collect()
    }

    fn protocols(&self, path: &str) -> Vec<String> {
        until("its exchange is over", || !self.logged(path).is_empty());
        let all = self.logged(path);
        all.iter().map(|line| line["protocol"].as_str().unwrap().to_owned()).collect()
    }

    /// The bytes that passed each way.
    fn passed(&self, path: &str) -> [u64; 2] {
        until("its exchange is over", || !self.logged(path).is_empty());
        ["request_bytes", "reply_bytes"].map(|key| self.logged(path)[0][key].as_u64().unwrap())
    }

    /// Runs a program with these arguments after the URL.
    #[track_caller]
    fn run(&mut self, program: &Path, script: &str, kind: &[&str], own: &[&str]) {
        let mut command = Command::new(program);
        command.arg(self.scripts.path().join(script)).arg(&self.url).args(kind);
        let client = Program::start(command.env("AUTHORITY", self.authority.pem()));
        let client = RefCell::new(client);
        let said = |scene: &mut Scene| {
            let line = client.borrow().lines.recv_timeout(PATIENCE);
            line.unwrap_or_else(|_| panic!("it says no more\n{}", scene.gateway.log()))
        };
        assert_eq!(said(self), "fetch 200");
        assert_eq!(self.told.recv_timeout(PATIENCE).unwrap(), "by fetch");
        for line in own {
            assert_eq!(said(self), *line);
        }
        self.play(said, |_| client.borrow_mut().tell("go"));
    }
}

/// undici 6.29 does not notice that the body of an event stream is incomplete, and waits without end.
const UNDICI_COMES_BACK: bool = false;

#[test]
fn npm_ws_and_undicis_event_source() {
    let mut scene = Scene::set("plain");
    scene.comes_back = UNDICI_COMES_BACK;
    scene.run(
        Path::new("node"),
        "node.js",
        &["ws"],
        &["pong are you there", "ping true still here"],
    );
    assert_eq!(scene.protocols("/sse/shared")[0], "HTTP/1.1");
}

#[test]
fn undicis_web_socket_and_event_source_over_http_2() {
    let mut scene = Scene::set("secure");
    scene.comes_back = UNDICI_COMES_BACK;
    scene.run(Path::new("node"), "node.js", &["undici"], &[]);
    for path in ["/sse/kept", "/told"] {
        assert_eq!(scene.protocols(path), ["HTTP/2"], "{path}");
    }
}

#[test]
fn pythons_websockets_and_httpx_sse() {
    for listener in ["plain", "secure"] {
        let mut scene = Scene::set(listener);
        let python = installed().join("python/bin/python");
        scene.run(&python, "client.py", &[], &["pong are you there"]);
    }
}

/// The name of the program on this system.
pub(crate) fn chromium() -> Command {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = names.into_iter().find(|name| {
        Command::new(name)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    });
    Command::new(found.expect("Chromium; scripts/setup.sh tests installs it"))
}

#[test]
fn chromium_over_both_versions() {
    for (listener, protocol) in [("plain", "HTTP/1.1"), ("secure", "HTTP/2")] {
        let mut scene = Scene::set(listener);
        let profile = tempfile::tempdir().unwrap();
        let mut browser = chromium();
        browser
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--no-proxy-server", "--disable-background-networking"])
            .args(["--ignore-certificate-errors", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .arg(format!("{}/page", scene.url))
            .stderr(Stdio::null());
        let _browser = Program::start(&mut browser);
        let last = RefCell::new(String::new());
        let said = |scene: &mut Scene| {
            loop {
                let line = scene.told.recv_timeout(PATIENCE);
                let line =
                    line.unwrap_or_else(|_| panic!("it says no more\n{}", scene.gateway.log()));
                // The page, and the browser, repeat a request that was cut before its answer arrived.
                if line != last.replace(line.clone()) {
                    return line;
                }
            }
        };
        scene.play(said, |scene| scene.service.tell("go"));
        for path in ["/sse/kept", "/ws/kept", "/page"] {
            assert_eq!(scene.protocols(path), [protocol], "{path}");
        }
    }
}
