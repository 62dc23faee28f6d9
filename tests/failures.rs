//! Failures of the machine itself: no room for the log, no descriptors.

use std::process::{Child, Command, Stdio};

use crate::harness::{Gateway, Wire, until};

const PROGRAM: &str = env!("CARGO_BIN_EXE_tidegate");

#[test]
fn a_full_disk_costs_lines_of_the_log_and_no_request() {
    let gateway = Gateway::start(
        "listen: { public: { address: \"127.0.0.1:0\" } }\nadmin: { address: \"127.0.0.1:0\" }\n\
         telemetry: { access_log: { path: /dev/full } }\n\
         routes: { hello: { match: { path: /hello }, respond: { body: ok } } }\n",
    );
    let mut wire = gateway.wire();
    for _ in 0..10 {
        assert_eq!(wire.get("/hello").text(), "ok");
    }
    until("lost lines are counted", || {
        let metrics = gateway.admin_get("/metrics").text();
        let line =
            metrics.lines().find(|line| line.starts_with("tidegate_access_log_dropped_total "));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok())
            .is_some_and(|lost: u64| lost >= 10)
    });
    assert_eq!(wire.get("/hello").text(), "ok");
}

/// A gateway with this hard limit of descriptors, which it cannot raise.
struct Limited {
    _ended: Ended,
    log: std::path::PathBuf,
    address: std::net::SocketAddr,
    _folder: tempfile::TempDir,
}

impl Limited {
    fn start(descriptors: u32, limits: &str) -> Limited {
        let folder = tempfile::tempdir().unwrap();
        let text = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\"{limits} }} }}\nworkers: 1\n\
             routes: {{ hello: {{ match: {{ path: /hello }}, respond: {{ body: ok }} }} }}\n"
        );
        std::fs::write(folder.path().join("tidegate.yaml"), text).unwrap();
        let log = folder.path().join("log");
        let process = Command::new("bash")
            .args(["-c", &format!("ulimit -n {descriptors}; exec \"$0\" run"), PROGRAM])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        let ended = Ended(process);
        let label = "listening listener=\"public\" address=";
        let mut address = None;
        until("it listens", || {
            let said = std::fs::read_to_string(&log).unwrap();
            let after = said.split_once(label).and_then(|(_, after)| after.split_once('\n'));
            address = after.map(|(address, _)| address.trim().parse().unwrap());
            address.is_some()
        });
        Limited { _ended: ended, log, address: address.unwrap(), _folder: folder }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    /// Waits until a new connection is served.
    #[track_caller]
    fn serves(&self) {
        until("it serves", || {
            let mut wire = Wire::connect(self.address);
            wire.try_send("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                && wire.read_to_end().ends_with(b"ok")
        });
    }
}

#[test]
fn silent_connections_do_not_take_the_last_descriptors() {
    let gateway = Limited::start(64, "");
    // More connections than descriptors, and none of them sends anything.
    let crowd: Vec<Wire> = (0..100).map(|_| Wire::connect(gateway.address)).collect();
    (0..3).for_each(|_| gateway.serves());
    drop(crowd);
    assert!(!gateway.log().contains("accept: "), "{}", gateway.log());
}

/// The default limit causes no warning, since no operator asked for it.
#[test]
fn too_few_descriptors_are_a_warning_where_somebody_asked_for_more() {
    const WARNING: &str = "leaves room for 16 client connections";
    for (limits, warned) in [
        ("", false),
        (", limits: { headers_max: 100 }", false),
        (", limits: { connections_max: 16 }", false),
        (", limits: { connections_max: 17 }", true),
        (", limits: { connections_max: 65536 }", true),
    ] {
        let gateway = Limited::start(64, limits);
        // It warns after it listens, and before it serves.
        gateway.serves();
        let warns = || gateway.log().contains(WARNING);
        until(&format!("it warns or does not: {limits}"), || warns() == warned);
    }
}

/// Ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
