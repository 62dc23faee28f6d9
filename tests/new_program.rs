//! A new process replaces the one in service (SIGUSR2), without affecting clients.

use std::os::fd::{AsRawFd as _, IntoRawFd as _};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::harness::{Gateway, H2, Message, Origin, Wire, full, program, tidegate, until, whole};
use crate::hubs::{bodies, events, poll, publish, stream};
use crate::queues::put;
use crate::websub::{LOOPBACK, confirming, form, send_form, texts as delivered_texts};

/// The processes that took over, which end with the test.
pub(crate) struct Successors<'g>(pub(crate) &'g Gateway);

impl Successors<'_> {
    /// The ids of all processes that have served.
    pub(crate) fn pids(&self) -> Vec<i32> {
        let log = self.0.log();
        let serving = log.lines().filter(|line| line.contains("this process has replaced"));
        let pid = |line: &str| line.split("pid=").nth(1)?.split_whitespace().next()?.parse().ok();
        serving.filter_map(pid).collect()
    }

    /// Asks a process to be replaced, and waits until it is.
    #[track_caller]
    pub(crate) fn replace(&self, pid: i32) -> i32 {
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
            let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
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

/// Answers at once. Below `/stream`, it continues to send as many events as the test's counter allows.
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

/// The parent of a successor has ended, so the test cannot wait for it as a child.
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
    let failures =
        || gateway.log().matches("the new process failed, this process continues").count();
    for (text, why) in [
        ("#!/bin/sh\nexit 3\n", "it has ended: exit status: 3"),
        ("#!/bin/sh\nexec sleep 1000\n", "it did not begin to serve in time"),
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
    gateway.wait_for_log("this process has replaced the previous one");
    serves();
    until("the old one has ended", || gateway.exit_status().is_some());
    assert_eq!(successors.pids().len(), 1);
    let missing = tidegate(&["upgrade", &pid.to_string()]);
    assert_eq!(missing.code, Some(1), "{missing:?}");
}

/// A gateway with a hub and a queue in its own store.
fn with_store(origin: &Origin, more: &str) -> String {
    yaml(origin, &format!("store: {{ path: data }}\nhubs: {{ news: {{ topics: [sports], verify: false{LOOPBACK} }} }}\nflows:\n  keep: [{{ store: {{ queue: work }} }}]\n  send: [{{ call: o }}]\nqueues: {{ work: {{ flow: send }} }}\n{more}")).replace(
        "routes: { all:",
        "routes: { hub: { match: { path: \"/news/**\" }, hub: news }, in: { match: { path: \"/in/**\" }, strip_prefix: /in, flow: keep }, all:",
    )
}

pub(crate) fn subscribe(gateway: &Gateway, callback: &Origin) {
    let callback = format!("{}/c", callback.url());
    let reply = send_form(gateway, &form("subscribe", "sports", &callback, ""));
    assert_eq!(reply.status(), 202, "{reply:?}");
}

#[test]
fn a_store_goes_over_and_streams_of_the_old_process_go_on() {
    let (origin, early, late) = (origin(&Arc::default()), confirming(), confirming());
    let gateway = Gateway::start(with_store(&origin, ""));
    let successors = Successors(&gateway);
    subscribe(&gateway, &early);
    let (mut reader, head) = stream(&gateway, "?after=0", "");
    assert_eq!(head.status(), 200);
    publish(&gateway, "sports", "one");
    put(&gateway, "/first", "1");
    let mut pid = gateway.pid().as_raw_nonzero().get();
    for (number, body) in ["two", "three", "four"].into_iter().enumerate() {
        pid = successors.replace(pid);
        publish(&gateway, "sports", body);
        put(&gateway, "/more", body);
        if number == 0 {
            subscribe(&gateway, &late);
        }
    }
    // The stream is the first process's, and reads by way of the last one's store.
    let read = events(&mut reader, 4);
    let texts = |read: &str| -> Vec<String> {
        read.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    };
    assert_eq!(texts(&read), ["one", "two", "three", "four"]);
    assert!(gateway.exit_status().is_none(), "its stream is open");
    until("each event is delivered", || {
        let all = |texts: Vec<String>, expected: &[&str]| {
            expected.iter().all(|one| texts.iter().any(|text| text == one))
        };
        all(delivered_texts(&early), &["one", "two", "three", "four"])
            && all(delivered_texts(&late), &["three", "four"])
    });
    let messages = || {
        origin
            .requests()
            .iter()
            .filter(|request| request.method() == "PUT")
            .map(Message::text)
            .collect::<Vec<_>>()
    };
    until("each message is processed", || messages().len() >= 4);
    assert_eq!(messages(), ["1", "two", "three", "four"]);
    drop(reader);
    until("the first one has ended", || gateway.exit_status().is_some());
    assert_eq!(bodies(&poll(&gateway, "?after=0")), ["one", "two", "three", "four"]);
    let _ended = pid;
}

/// A program that takes over the work, and then follows a script instead of serving.
fn taker(path: &Path, then: &str) {
    let _ = std::fs::remove_file(path);
    let text = format!(
        r#"#!/usr/bin/env python3
import os, socket, struct, sys, time
s = socket.socket(socket.AF_UNIX)
s.connect("\0" + os.environ["TIDEGATE_UPGRADE"])
(count,) = struct.unpack(">I", s.recv(4, socket.MSG_WAITALL))
for _ in range(count):
    head, beside, _, _ = s.recvmsg(4, 1024)
    (length,) = struct.unpack(">I", head)
    s.recv(length, socket.MSG_WAITALL)
folder = os.path.join(os.getcwd(), "data").encode()
s.sendall(b"W" + struct.pack(">I", len(folder)) + folder)
told = s.recv(1)
# One write, so that no line of the gateway comes between.
os.write(2, b"TAKEN " + told + b"\n")
{then}
"#
    );
    script(path, &text);
}

#[test]
fn a_new_program_that_fails_gives_the_store_back() {
    let (origin, callback) = (origin(&Arc::default()), confirming());
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("tidegate");
    let path = std::fs::canonicalize(program()).unwrap();
    symlink(&path, &link).unwrap();
    let gateway = Gateway::start_by_path(&link, with_store(&origin, "upgrade: { timeout: 4s }\n"));
    let successors = Successors(&gateway);
    subscribe(&gateway, &callback);
    let mut published = Vec::new();
    let failures =
        || gateway.log().matches("the new process failed, this process continues").count();
    for (then, why) in [
        ("sys.exit(3)", "it has ended: exit status: 3"),
        ("os.abort()", "it has ended: signal: 6"),
        ("time.sleep(1000)", "it did not begin to serve in time"),
        ("s.sendall(b'?')\ntime.sleep(1000)", "which this program does not know"),
        ("s.sendall(b'W\\xff\\xff\\xff\\xff')\ntime.sleep(1000)", "a text is too long"),
    ] {
        let before = failures();
        taker(&link, then);
        gateway.signal(Signal::USR2);
        until("it has the store", || gateway.log().matches("TAKEN Y").count() > published.len());
        // It waits for the store, which is returned.
        let body = format!("event {}", published.len());
        publish(&gateway, "sports", &body);
        published.push(body);
        until("it is told", || failures() > before);
        assert!(gateway.log().contains(why), "{why}: {}", gateway.log());
        assert_eq!(bodies(&poll(&gateway, "?after=0")), published);
        put(&gateway, "/more", "x");
    }
    until("each event is delivered", || {
        published.iter().all(|body| delivered_texts(&callback).contains(body))
    });
    until("each message is processed", || {
        origin.requests().iter().filter(|request| request.method() == "PUT").count()
            >= published.len()
    });
    // A program that opens the store and then fails.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let admin = format!("admin: {{ address: \"{}\" }}", taken.local_addr().unwrap());
    let unusable = with_store(&origin, "upgrade: { timeout: 20s }\n")
        .replace("admin: { address: \"127.0.0.1:0\" }", &admin);
    std::fs::remove_file(&link).unwrap();
    symlink(&path, &link).unwrap();
    let before = failures();
    std::fs::write(gateway.path("tidegate.yaml"), unusable).unwrap();
    gateway.signal(Signal::USR2);
    until("it is told", || failures() > before);
    publish(&gateway, "sports", "still here");
    // Then one that succeeds.
    gateway.put("tidegate.yaml", &with_store(&origin, "upgrade: { timeout: 20s }\n"));
    successors.replace(gateway.pid().as_raw_nonzero().get());
    publish(&gateway, "sports", "at last");
    published.extend(["still here".to_owned(), "at last".to_owned()]);
    assert_eq!(bodies(&poll(&gateway, "?after=0")), published);
}

#[test]
fn a_schedule_has_each_of_its_times_once() {
    let origin = origin(&Arc::default());
    let more = "flows: { tick: [{ call: { upstream: o, path: /tick } }] }\nschedules: { t: { cron: \"* * * * * *\", flow: tick, message: { text: x } } }\n";
    let gateway = Gateway::start(yaml(&origin, more));
    let successors = Successors(&gateway);
    let ticks = || origin.requests().iter().filter(|request| request.target() == "/tick").count();
    until("it runs", || ticks() > 0);
    let (began, mut pid) = (std::time::Instant::now(), gateway.pid().as_raw_nonzero().get());
    let first = ticks();
    for _ in 0..3 {
        pid = successors.replace(pid);
        let before = ticks();
        until("it runs again", || ticks() > before);
    }
    let (ran, seconds) = (ticks() - first, began.elapsed().as_secs_f64());
    assert!((ran as f64 - seconds).abs() < 1.5, "{ran} runs in {seconds} s");
}

#[test]
fn streams_stay_for_the_shorter_of_both_times() {
    let events: Arc<AtomicUsize> = Arc::default();
    let origin = origin(&events);
    let short = "routes: { short: { match: { path: \"/stream/short\" }, streams: { drain: 1s }, upstream: o }, all:";
    let yaml = yaml(&origin, "upgrade: { drain: 5s }\n").replace("routes: { all:", short);
    let gateway = Gateway::start(yaml);
    let successors = Successors(&gateway);
    let open = |target: &str| {
        let mut wire = gateway.wire();
        wire.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(wire.read_head().status(), 200);
        wire
    };
    let (mut short, mut usual) = (open("/stream/short"), open("/stream/usual"));
    successors.replace(gateway.pid().as_raw_nonzero().get());
    let began = std::time::Instant::now();
    events.fetch_add(1, Ordering::SeqCst);
    for wire in [&mut short, &mut usual] {
        assert_eq!(wire.read_chunk().as_deref(), Some(&b"data: 1\n\n"[..]));
    }
    assert_eq!(short.read_chunk(), None);
    let took = began.elapsed();
    assert!(took.as_millis() >= 700 && took.as_secs() < 4, "{took:?}");
    events.fetch_add(1, Ordering::SeqCst);
    assert_eq!(usual.read_chunk().as_deref(), Some(&b"data: 2\n\n"[..]));
    assert_eq!(usual.read_chunk(), None);
    assert!(began.elapsed().as_millis() >= 4000, "{:?}", began.elapsed());
}

/// A service manager's socket: the program is started with it as the descriptor 3.
#[test]
fn sockets_of_a_service_manager_are_taken_by_address_or_name() {
    let origin = origin(&Arc::default());
    let (named, addressed) = (listener(), listener());
    let (by_name, by_address) = (named.local_addr().unwrap(), addressed.local_addr().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let start = folder.path().join("start");
    let program = std::fs::canonicalize(program()).unwrap();
    script(
        &start,
        &format!(
            "#!/bin/bash\nexport LISTEN_PID=$$ LISTEN_FDS=3 LISTEN_FDNAMES=public:unknown:spare\nexec {} \"$@\" 3<&{} 4<&{} 5<&{}\n",
            program.display(),
            named.as_raw_fd(),
            addressed.as_raw_fd(),
            listener().into_raw_fd(),
        ),
    );
    let yaml = yaml(&origin, "").replace(
        "other: { address: \"127.0.0.1:0\" }",
        &format!("other: {{ address: \"{by_address}\" }}"),
    );
    let gateway = Gateway::start_by_path(&start, yaml);
    assert_eq!((gateway.address("public"), gateway.address("other")), (by_name, by_address));
    drop((named, addressed));
    gateway.wait_for_log("a socket of the service manager is not used by this configuration");
    for address in [by_name, by_address] {
        for _ in 0..10 {
            assert_eq!(Wire::connect(address).get("/a").text(), "ok");
        }
    }
}

/// A listening socket that started programs inherit.
fn listener() -> std::net::TcpListener {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    // A number that no other descriptor has in the started program.
    let high = rustix::io::fcntl_dupfd_cloexec(&listener, 100).unwrap();
    rustix::io::fcntl_setfd(&high, rustix::io::FdFlags::empty()).unwrap();
    high.into()
}

#[test]
fn a_descriptor_that_is_no_listening_socket_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let start = folder.path().join("start");
    let program = std::fs::canonicalize(program()).unwrap();
    std::fs::write(
        folder.path().join("tidegate.yaml"),
        "listen: { public: { address: \"127.0.0.1:0\" } }\n",
    )
    .unwrap();
    script(
        &start,
        &format!(
            "#!/bin/sh\nexport LISTEN_PID=$$ LISTEN_FDS=1\nexec {} run tidegate.yaml 3</dev/null\n",
            program.display()
        ),
    );
    let run = std::process::Command::new(&start).current_dir(folder.path()).output().unwrap();
    assert_eq!(run.status.code(), Some(1));
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("descriptor 3") && said.contains("cannot be used"), "{said}");
}
