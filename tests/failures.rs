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

#[test]
fn silent_connections_do_not_take_the_last_descriptors() {
    let folder = tempfile::tempdir().unwrap();
    let text = "listen: { public: { address: \"127.0.0.1:0\" } }\nworkers: 1\n\
         routes: { hello: { match: { path: /hello }, respond: { body: ok } } }\n";
    std::fs::write(folder.path().join("tidegate.yaml"), text).unwrap();
    let log = folder.path().join("log");
    // The hard limit, which the program cannot raise.
    let limited = "ulimit -n 64; exec \"$0\" run";
    let process = Command::new("bash")
        .args(["-c", limited, PROGRAM])
        .current_dir(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let _ended = Ended(process);
    let label = "listening listener=\"public\" address=";
    let mut address = None;
    until("it listens", || {
        let said = std::fs::read_to_string(&log).unwrap();
        let after = said.split_once(label).and_then(|(_, after)| after.split_once('\n'));
        address = after.map(|(address, _)| address.trim().parse().unwrap());
        address.is_some()
    });
    let address = address.unwrap();
    // More than there are descriptors for, and none of them says anything.
    let crowd: Vec<Wire> = (0..100).map(|_| Wire::connect(address)).collect();
    for _ in 0..3 {
        until("others are served", || {
            let mut wire = Wire::connect(address);
            wire.try_send("GET /hello HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                && wire.read_to_end().ends_with(b"ok")
        });
    }
    drop(crowd);
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("leaves room for 16 client connections"), "{said}");
    assert!(!said.contains("accept: "), "{said}");
}

/// Ends with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _killed = self.0.kill();
        let _reaped = self.0.wait();
    }
}
