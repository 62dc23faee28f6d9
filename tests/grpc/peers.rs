//! Peers that people use: grpcio and grpc-go, as clients and as services. `scripts/setup.sh tests` installs them below `grpc-peers` in
//! the target folder.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::harness::{Gateway, until};
use crate::telemetry::metric;

/// A service in a separate process, which ends with the test.
struct Service {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    port: String,
}

pub(super) fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("grpc-peers").join(name)
}

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/grpc").join(name)
}

fn python(name: &str) -> Command {
    let mut command = Command::new(installed("python/bin/python"));
    command.arg(script(name));
    command
}

fn go(role: &str) -> Command {
    let mut command = Command::new(installed("peer"));
    command.arg(role);
    command
}

impl Service {
    fn start(mut command: Command) -> Service {
        let spawned =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut process =
            spawned.unwrap_or_else(|e| panic!("{command:?}: {e}; run scripts/setup.sh tests"));
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut service = Service { process, input, output, port: String::new() };
        service.port = service.line();
        service
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "the service has ended: {line:?}");
        line.trim().to_owned()
    }

    /// Sends it a line, and waits for its answer.
    fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.line();
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The output of a client that went well.
fn printed(mut command: Command, gateway: &Gateway, cases: &[&str]) -> String {
    command.arg(gateway.address("public").to_string()).args(cases);
    let run = command.output().expect("scripts/setup.sh tests installs it");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(run.status.success(), "{}{}\n{}", text(&run.stdout), text(&run.stderr), gateway.log());
    text(&run.stdout)
}

/// Everything of one service goes to it; `more` are other keys of the upstream.
fn before(service: &Service, more: &str) -> Gateway {
    Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams:
  service: {{ targets: ["{}"], protocol: http2, {more} }}
  gone: {{ targets: ["http://127.0.0.1:1"], protocol: http2 }}
routes:
  interop: {{ match: {{ path: "/grpc.testing.TestService/**" }}, upstream: service }}
  unimplemented: {{ match: {{ path: "/grpc.testing.UnimplementedService/**" }}, upstream: service }}
  echo: {{ match: {{ path: "/tests.Echo/**" }}, upstream: service }}
  kept: {{ match: {{ path: "/tests.Kept/**" }}, upstream: service, policies: [api_key: {{ header: apikey, keys: {{ alice: sesame }} }}] }}
  gone: {{ match: {{ path: "/tests.Gone/Unary" }}, upstream: gone }}
"#,
        service.url()
    ))
}

const INTEROP: [&str; 14] = [
    "empty_unary",
    "large_unary",
    "client_streaming",
    "server_streaming",
    "ping_pong",
    "empty_stream",
    "timeout_on_sleeping_server",
    "cancel_after_begin",
    "cancel_after_first_response",
    "status_code_and_message",
    "special_status_message",
    "custom_metadata",
    "unimplemented_method",
    "unimplemented_service",
];

#[test]
fn grpc_go_passes_its_interop_cases() {
    let service = Service::start(go("server"));
    let gateway = before(&service, "");
    let said = printed(go("client"), &gateway, &INTEROP);
    assert_eq!(said.lines().collect::<Vec<_>>(), INTEROP);
    until("all calls are counted", || {
        let of = |status: u8| {
            let name =
                format!("tidegate_grpc_calls_total{{route=\"interop\",grpc_status=\"{status}\"}}");
            metric(&gateway, &name).unwrap_or_default()
        };
        // Cancelled ones and one that is late come as they end.
        of(0) >= 8.0 && of(2) >= 2.0 && of(12) >= 1.0 && of(1) + of(4) >= 3.0
    });
}

#[test]
fn grpcio_makes_calls_of_all_kinds() {
    let mut service = Service::start(python("service.py"));
    let gateway = before(&service, "");
    let said = printed(python("client.py"), &gateway, &["unary", "streams", "ends", "gateway"]);
    let expected = r"unary 1000000 it b'\x00\xff'
empty b''
gather b'0,1,2,3,4'
spread 1000 []
converse b'cba'
converse b'ed'
converse b''
converse [] OK
fail FAILED_PRECONDITION grün % 
 😀
cut DATA_LOSS half of it
unknown UNIMPLEMENTED Method not found!
late DEADLINE_EXCEEDED
cancel True
no route UNIMPLEMENTED No route matches this request.
no key UNAUTHENTICATED Credentials are required.
gone UNAVAILABLE The upstream cannot be reached.
";
    // The text depends on which side notices the deadline first.
    let said: String = said
        .lines()
        .map(|line| match line.strip_prefix("late DEADLINE_EXCEEDED ") {
            Some(_) => "late DEADLINE_EXCEEDED\n".to_owned(),
            None => format!("{line}\n"),
        })
        .collect();
    assert_eq!(said, expected);
    let left = service.line();
    let left: f64 = left.strip_prefix("left ").expect("the time left").parse().unwrap();
    // gRPC rounds up when it sends and when it reads.
    assert!(left > 0.0 && left <= 4.5, "{left}");
    // The service is notified of the cancellation. The call may have arrived before that.
    while service.line() != "over" {}
}

#[test]
fn calls_are_retried_by_their_status() {
    let service = Service::start(python("service.py"));
    let gateway = before(&service, "retry: { attempts: 2, on: [unavailable] }");
    let said = printed(python("client.py"), &gateway, &["flaky"]);
    assert_eq!(said, "flaky b'at last'\nflakier UNAVAILABLE not yet\n");
    let retries = metric(&gateway, "tidegate_upstream_retries_total{upstream=\"service\"}");
    assert_eq!(retries, Some(4.0));
    let gateway = before(&service, "retry: { attempts: 2, on: [internal, connect_failure] }");
    let said = printed(python("client.py"), &gateway, &["flaky"]);
    assert_eq!(said, "flaky UNAVAILABLE not yet\nflakier UNAVAILABLE not yet\n");
}

#[test]
fn services_tell_their_health() {
    let mut service = Service::start(go("server"));
    let health = |name: &str| {
        format!(
            "health: {{ grpc: {name:?}, interval: 20ms, unhealthy_after: 1, healthy_after: 1 }}"
        )
    };
    service.tell("serving shop");
    let shop = before(&service, &health("shop"));
    let whole = before(&service, &health(""));
    let target = service.url();
    let healthy = |gateway: &Gateway| {
        let name =
            format!("tidegate_upstream_target_healthy{{upstream=\"service\",target=\"{target}\"}}");
        metric(gateway, &name)
    };
    for (word, value) in [("serving", 1.0), ("not_serving", 0.0), ("serving", 1.0)] {
        service.tell(&format!("{word} shop"));
        until("the check has seen it", || healthy(&shop) == Some(value));
    }
    until("the whole server is well", || healthy(&whole) == Some(1.0));
    let unknown = before(&service, &health("nobody"));
    until("nobody serves that", || healthy(&unknown) == Some(0.0));
    until("the log says why", || unknown.log().contains("probe: grpc-status 5"));
}
