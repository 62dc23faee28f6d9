//! A new program takes the place of the one that serves (SIGUSR2), and nobody notices.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::harness::{Gateway, H2, Origin, Wire, full, program, tidegate, until, whole};

/// The processes that took over, which end with the test.
struct Successors<'g>(&'g Gateway);

impl Successors<'_> {
    /// The ids of those that serve or served.
    fn pids(&self) -> Vec<i32> {
        let log = self.0.log();
        let serving = log.lines().filter(|line| line.contains("this process serves in place"));
        let pid = |line: &str| line.split("pid=").nth(1)?.split_whitespace().next()?.parse().ok();
        serving.filter_map(pid).collect()
    }

    /// Asks a process to be replaced, and waits until it is.
    #[track_caller]
    fn replace(&self, pid: i32) -> i32 {
        let before = self.pids().len();
        kill_process(Pid::from_raw(pid).unwrap(), Signal::USR2).unwrap();
        until("another process serves", || self.pids().len() > before);
        *self.pids().last().unwrap()
    }
}

impl Drop for Successors<'_> {
    fn drop(&mut self) {
        for pid in self.pids() {
            // It may have ended.
            let _ended = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
        }
    }
}

fn is_alive(pid: i32) -> bool {
    test_kill_process(Pid::from_raw(pid).unwrap()).is_ok()
}

fn yaml(origin: &Origin, more: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }}, other: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nstatus: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         upstreams: {{ o: {{ targets: [\"{}\"] }} }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: o }} }}\n{more}",
        origin.url()
    )
}

/// Answers at once; below `/stream` it goes on with what the test sends by the counter.
fn origin(events: &Arc<AtomicUsize>) -> Origin {
    let events = events.clone();
    Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            if !request.target().starts_with("/stream") {
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
                continue;
            }
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n");
            let mut sent = 0;
            loop {
                until("there is another event", || events.load(Ordering::SeqCst) > sent);
                sent += 1;
                if !peer.try_send(format!("data: {sent}\n\n")) || sent == 100 {
                    return;
                }
            }
        }
    })
}

#[test]
fn a_new_program_takes_the_sockets_and_streams_stay() {
    let events: Arc<AtomicUsize> = Arc::default();
    let origin = origin(&events);
    let gateway = Gateway::start(yaml(&origin, ""));
    let successors = Successors(&gateway);
    let (public, other, admin) =
        (gateway.address("public"), gateway.address("other"), gateway.admin());
    let mut stream = Wire::connect(public);
    stream.send("GET /stream HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(stream.read_head().status(), 200);
    let mut h2 = H2::connect(public);
    let asked = hyper::Request::get(format!("http://{public}/stream")).body(full("")).unwrap();
    let sending = h2.sender.send_request(asked);
    let over_h2 = h2.block_on(sending).unwrap();
    let stop: Arc<AtomicBool> = Arc::default();
    let load = {
        let stop = stop.clone();
        thread::spawn(move || {
            let mut count = 0;
            while !stop.load(Ordering::SeqCst) {
                for address in [public, other] {
                    let reply = Wire::connect(address).get("/a");
                    assert_eq!((reply.status(), reply.text().as_str()), (200, "ok"));
                    count += 1;
                }
            }
            count
        })
    };
    let mut pid = gateway.pid().as_raw_nonzero().get();
    for _ in 0..3 {
        pid = successors.replace(pid);
        events.fetch_add(1, Ordering::SeqCst);
        let expected = format!("data: {}\n\n", events.load(Ordering::SeqCst));
        assert_eq!(String::from_utf8(stream.read_chunk().unwrap()).unwrap(), expected);
        let ready =
            Wire::connect(admin).ask(format!("GET /readyz HTTP/1.1\r\nHost: {admin}\r\n\r\n"));
        assert_eq!(ready.status(), 200, "{ready:?}");
    }
    stop.store(true, Ordering::SeqCst);
    let count = load.join().expect("no request failed");
    assert!(count > 10, "{count}");
    assert!(gateway.exit_status().is_none(), "its streams are open");
    events.store(100, Ordering::SeqCst);
    while stream.read_chunk().is_some() {}
    let body = h2.block_on(whole(over_h2)).unwrap().body;
    assert!(body.ends_with(b"data: 100\n\n"));
    drop((stream, h2));
    until("the first one has ended", || gateway.exit_status().is_some());
    assert_eq!(Wire::connect(public).get("/a").status(), 200);
    kill_process(Pid::from_raw(pid).unwrap(), Signal::TERM).unwrap();
    until("the last one has ended", || !is_alive(pid) || successors_are_gone(public));
}

/// The parent of a successor has ended, so that nobody of the test can wait for it.
fn successors_are_gone(address: std::net::SocketAddr) -> bool {
    std::net::TcpStream::connect(address).is_err()
}

fn script(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_new_program_that_fails_leaves_the_old_one_serving() {
    let origin = origin(&Arc::default());
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("tidegate");
    let path = std::fs::canonicalize(program()).unwrap();
    symlink(&path, &link).unwrap();
    let gateway = Gateway::start_by_path(&link, yaml(&origin, "upgrade: { timeout: 2s }\n"));
    let successors = Successors(&gateway);
    let pid = gateway.pid().as_raw_nonzero().get();
    let serves = || assert_eq!(gateway.wire().get("/a").text(), "ok");
    let failures = || gateway.log().matches("not replaced, this process goes on").count();
    for (text, why) in [
        ("#!/bin/sh\nexit 3\n", "it has ended: exit status: 3"),
        ("#!/bin/sh\nexec sleep 1000\n", "it did not serve in time"),
        ("not a program", "cannot be started"),
    ] {
        let before = failures();
        std::fs::remove_file(&link).unwrap();
        script(&link, text);
        gateway.signal(Signal::USR2);
        until("it is told", || failures() > before);
        assert!(gateway.log().contains(why), "{why}: {}", gateway.log());
        serves();
    }
    std::fs::remove_file(&link).unwrap();
    symlink(&path, &link).unwrap();
    // A configuration that cannot be read.
    let before = failures();
    gateway.put("tidegate.yaml", "listen: 7\n");
    gateway.signal(Signal::USR2);
    until("it is told", || failures() > before);
    serves();
    // A second signal meanwhile.
    gateway.put("tidegate.yaml", &yaml(&origin, "upgrade: { timeout: 20s }\n"));
    let run = tidegate(&["upgrade", &pid.to_string()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    gateway.wait_for_log("this process serves in place");
    serves();
    until("the old one has ended", || gateway.exit_status().is_some());
    assert_eq!(successors.pids().len(), 1);
    let missing = tidegate(&["upgrade", &pid.to_string()]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
}

#[test]
fn a_store_that_one_process_may_open_refuses_an_upgrade() {
    let origin = origin(&Arc::default());
    let more = "store: { path: data }\nhubs: { news: { topics: [a] } }\n";
    let yaml = yaml(&origin, more).replace(
        "routes: { all:",
        "routes: { hub: { match: { path: \"/news/**\" }, hub: news }, all:",
    );
    let gateway = Gateway::start(yaml);
    gateway.signal(Signal::USR2);
    gateway.wait_for_log("is for one process at a time");
    assert_eq!(gateway.wire().get("/a").text(), "ok");
}
