//! Widely used servers as targets: Node's and Go's own, and nginx, with TLS and HTTP/2, HTTP/1 or both, and with HTTP/2 without TLS.
//! `protocol: http2` and `auto` use what each supports.
//!
//! `scripts/setup.sh tests` installs them: the first below `clients` in the target folder, the second below `grpc-peers`.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::harness::{Authority, Gateway, H2, Program, full, pattern};
use crate::telemetry::metric;

fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(name)
}

/// Certificates of a test, as files for servers.
struct Keys {
    authority: Authority,
    folder: TempDir,
}

impl Keys {
    fn made() -> Keys {
        let (authority, folder) = (Authority::new(), tempfile::tempdir().unwrap());
        let own = authority.issue("127.0.0.1");
        std::fs::write(folder.path().join("own.pem"), own.certificate).unwrap();
        std::fs::write(folder.path().join("own.key"), own.key).unwrap();
        Keys { authority, folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A server that prints its port.
    #[track_caller]
    fn serve(&self, command: &mut Command) -> (Program, String) {
        let command = command.env("CERTIFICATE", self.path("own.pem"));
        let server = Program::start(command.env("KEY", self.path("own.key")));
        let port = server.line();
        (server, port)
    }

    fn node(&self, kind: &str) -> (Program, String) {
        let script = self.path("http2.mjs");
        std::fs::write(&script, include_str!("clients/http2.js")).unwrap();
        self.serve(Command::new("node").arg(script).arg(kind))
    }

    fn go(&self, kind: &str) -> (Program, String) {
        self.serve(Command::new(installed("grpc-peers").join("peer")).args(["web", kind]))
    }

    /// Before a server, asked in this protocol.
    fn gateway(&self, scheme: &str, port: &str, protocol: &str) -> Gateway {
        let tls = if scheme == "https" { "tls: { ca: ca.pem }" } else { "" };
        let yaml = format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ service: {{ targets: ["{scheme}://127.0.0.1:{port}"], protocol: {protocol}, {tls} }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: service }} }}
"#
        );
        Gateway::start_beside(yaml, &[("ca.pem", &self.authority.pem())])
    }
}

/// The protocol that a server reports, and bodies in both directions, many at once, with trailers over HTTP/2.
#[track_caller]
fn check(gateway: &Gateway, name: &str, version: &str) {
    assert_eq!(gateway.wire().get("/").text(), format!("{name} {version}"));
    let client = H2::connect(gateway.address("public"));
    let sent = pattern(300_000);
    let asked: Vec<_> = (0..20)
        .map(|_| {
            let (mut sender, body) = (client.sender.clone(), full(sent.clone()));
            client.spawn(async move {
                let request = hyper::Request::post("http://a.test/").header("te", "trailers");
                let reply = sender.send_request(request.body(body).unwrap()).await.unwrap();
                crate::harness::whole(reply).await.unwrap()
            })
        })
        .collect();
    for asked in asked {
        let reply = client.block_on(asked).unwrap();
        assert_eq!(reply.status, 200);
        assert!(reply.body == sent, "{} bytes", reply.body.len());
        assert_eq!(reply.trailers["x-length"], "300000");
    }
    let made = metric(gateway, "tidegate_upstream_connections_created_total{upstream=\"service\"}");
    match version {
        "HTTP/2.0" => assert_eq!(made, Some(1.0), "all share a connection"),
        _ => assert!(made >= Some(2.0), "{made:?}"),
    }
}

/// For the upstream's protocol and the server's: the version that is used, or none.
const PAIRS: [(&str, &str, Option<&str>); 7] = [
    ("http2", "h2", Some("HTTP/2.0")),
    ("http2", "both", Some("HTTP/2.0")),
    ("http2", "h2c", Some("HTTP/2.0")),
    ("http2", "h1", None),
    ("auto", "h2", Some("HTTP/2.0")),
    ("auto", "both", Some("HTTP/2.0")),
    ("auto", "h1", Some("HTTP/1.1")),
];

#[track_caller]
fn check_all(name: &str, serve: impl Fn(&Keys, &str) -> (Program, String)) {
    let keys = Keys::made();
    for (protocol, kind, version) in PAIRS {
        let (_server, port) = serve(&keys, kind);
        let scheme = if kind == "h2c" { "http" } else { "https" };
        let gateway = keys.gateway(scheme, &port, protocol);
        match version {
            Some(version) => check(&gateway, name, version),
            None => assert_eq!(gateway.wire().get("/").status(), 502, "{protocol} {kind}"),
        }
    }
}

#[test]
fn nodes_servers() {
    check_all("node", Keys::node);
}

#[test]
fn gos_servers() {
    check_all("go", Keys::go);
}

/// A running nginx.
struct Nginx(Child);

impl Nginx {
    /// Starts a server with this `listen` line. It inherits the socket, as in an upgrade, so that its port cannot be taken.
    fn start(keys: &Keys, listen: &str) -> (Nginx, String) {
        let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = socket.local_addr().unwrap();
        let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
        let temporary: String =
            temporary.iter().map(|what| format!("{what}_temp_path {what}; ")).collect();
        let root = keys.folder.path();
        let text = format!(
            "user root; daemon off; worker_processes 1; pid nginx.pid; error_log error.log;\nevents {{}}\n\
             http {{ access_log off; root {}; {temporary}\n\
             server {{ listen {address} {listen}; ssl_certificate own.pem; ssl_certificate_key own.key;\n\
             location = / {{ return 200 \"nginx $server_protocol\"; }} }} }}\n",
            root.display()
        );
        std::fs::write(root.join("nginx.conf"), text).unwrap();
        std::fs::write(root.join("large"), pattern(3_000_000)).unwrap();
        let program =
            ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|path| Path::new(path).exists());
        let spawned = Command::new(program.expect("nginx; scripts/setup.sh tests installs it"))
            .arg("-p")
            .arg(root)
            .args(["-e", "error.log", "-c", "nginx.conf"])
            .env("NGINX", "0:")
            .stdin(OwnedFd::from(socket))
            .spawn();
        (Nginx(spawned.unwrap()), address.port().to_string())
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // It tells its workers.
        let _ = kill_process(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn nginx() {
    let keys = Keys::made();
    for (protocol, scheme, listen, version) in [
        ("http2", "https", "ssl http2", Some("HTTP/2.0")),
        ("http2", "http", "http2", Some("HTTP/2.0")),
        ("http2", "https", "ssl", None),
        ("auto", "https", "ssl http2", Some("HTTP/2.0")),
        ("auto", "https", "ssl", Some("HTTP/1.1")),
    ] {
        let (_nginx, port) = Nginx::start(&keys, listen);
        let gateway = keys.gateway(scheme, &port, protocol);
        let Some(version) = version else {
            assert_eq!(gateway.wire().get("/").status(), 502, "{protocol} {listen}");
            continue;
        };
        assert_eq!(gateway.wire().get("/").text(), format!("nginx {version}"), "{listen}");
        let client = H2::connect(gateway.address("public"));
        for _ in 0..3 {
            let reply = client.get("http://a.test/large");
            assert!(reply.body == pattern(3_000_000), "{} bytes", reply.body.len());
        }
        assert_eq!(gateway.wire().get("/none").status(), 404);
    }
}
