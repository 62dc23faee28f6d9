//! Files that change while a gateway runs, or between two runs: truncated, with flipped bits, read-only, removed, or replaced. Events
//! that can be read are correct and in order, damage is reported, and ids are never reused.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::full_disk::small_disk;
use crate::harness::{Gateway, Origin, Plain, tidegate, until};
use crate::hubs::{bodies, poll, publish, start_in};
use crate::queues;
use crate::telemetry::metric;
use crate::websub::{LOOPBACK, confirming, delivered, subscribe};

const EVENTS: usize = 40;

fn text(number: usize) -> String {
    format!("event {number:03} {}", "filling ".repeat(20))
}

/// The segments of a store, oldest first.
fn segments(store: &Path) -> Vec<PathBuf> {
    let all = std::fs::read_dir(store).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|end| end == "seg")).collect();
    all.sort();
    all
}

/// The length of a segment without the zeros at its end.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)
}

/// The segment with the most bytes in use.
fn fullest(store: &Path) -> PathBuf {
    let length = |path: &PathBuf| used(&std::fs::read(path).unwrap());
    segments(store).into_iter().max_by_key(length).expect("a segment")
}

/// A store with events that were acknowledged.
fn filled(folder: &Path) -> Vec<String> {
    let gateway = start_in(folder, "");
    (0..EVENTS).for_each(|number| drop(publish(&gateway, "sports", &text(number))));
    gateway.signal(rustix::process::Signal::TERM);
    assert!(gateway.wait_for_exit().success());
    (0..EVENTS).map(text).collect()
}

fn copied(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    std::fs::create_dir(to.path().join("store")).unwrap();
    for entry in std::fs::read_dir(from.join("store")).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join("store").join(entry.file_name())).unwrap();
    }
    to
}

/// A gateway on a damaged store gives a part of the old events, in order, and new events come after them. Returns how many are lost.
#[track_caller]
fn is_a_part(folder: &Path, all: &[String], what: &str) -> usize {
    let gateway = start_in(folder, "");
    let read = poll(&gateway, "?after=0&limit=1000");
    let read_bodies = bodies(&read);
    let mut rest = all.iter();
    for body in &read_bodies {
        assert!(rest.any(|known| known == body), "{what}: {body} was changed, or is out of order");
    }
    let id: u64 = publish(&gateway, "sports", "new").parse().unwrap();
    assert!(id > EVENTS as u64, "{what}: the id {id} was given before");
    let again = poll(&gateway, &format!("?after={EVENTS}"));
    assert_eq!(bodies(&again), ["new"], "{what}");
    let lost = all.len() - read_bodies.len();
    if lost > 0 {
        gateway.wait_for_log("store: damaged");
        until("it is counted", || metric(&gateway, "tidegate_store_damaged_total") > Some(0.0));
    }
    lost
}

#[test]
fn a_bit_that_flips_costs_what_it_is_in_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let all = filled(folder.path());
    let segment = fullest(&folder.path().join("store"));
    let bytes = std::fs::read(&segment).unwrap();
    let end = used(&bytes);
    for part in 0..12 {
        let at = end * part / 12 + part;
        let copy = copied(folder.path());
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (part % 8);
        let name = segment.file_name().unwrap();
        std::fs::write(copy.path().join("store").join(name), changed).unwrap();
        let lost = is_a_part(copy.path(), &all, &format!("bit {part} of byte {at} of {end}"));
        // The head of a file is that of all its records.
        assert!(lost <= 2 || at < 64, "{lost} lost by a bit in byte {at}");
    }
}

#[test]
fn a_file_that_was_cut_costs_what_was_cut_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let all = filled(folder.path());
    let segment = fullest(&folder.path().join("store"));
    let bytes = std::fs::read(&segment).unwrap();
    let end = used(&bytes);
    for length in [end - 1, end - 200, end / 2, end / 3, 100, 10, 0] {
        let copy = copied(folder.path());
        let path = copy.path().join("store").join(segment.file_name().unwrap());
        std::fs::write(path, &bytes[..length]).unwrap();
        is_a_part(copy.path(), &all, &format!("cut to {length} of {end}"));
    }
    let copy = copied(folder.path());
    std::fs::remove_file(copy.path().join("store").join(segment.file_name().unwrap())).unwrap();
    is_a_part(copy.path(), &all, "the file is gone");
}

/// A subscriber's place is in the tables, and the events are in a file that was cut: the next events are still delivered.
#[test]
fn a_subscription_goes_on_after_a_file_that_was_cut() {
    let folder = tempfile::tempdir().unwrap();
    let origin = confirming();
    let gateway = start_in(folder.path(), LOOPBACK);
    subscribe(&gateway, &origin.url(), "");
    (0..EVENTS).for_each(|number| drop(publish(&gateway, "sports", &text(number))));
    until("all are delivered", || delivered(&origin).len() == EVENTS);
    // Time for the place to be written.
    std::thread::sleep(Duration::from_secs(2));
    drop(gateway);
    let segment = fullest(&folder.path().join("store"));
    let bytes = std::fs::read(&segment).unwrap();
    let end = used(&bytes);
    std::fs::write(&segment, &bytes[..end / 2]).unwrap();
    let gateway = start_in(folder.path(), LOOPBACK);
    origin.forget();
    for number in 0..3 {
        publish(&gateway, "sports", &format!("later {number}"));
    }
    until("the later ones are delivered", || {
        delivered(&origin).iter().filter(|event| event.text().starts_with("later")).count() == 3
    });
}

#[test]
fn messages_of_a_queue_around_a_damaged_one_are_processed() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let yaml = |origin: &Origin| {
        let store = serde_json::json!({ "path": store });
        let keys = ", retry: { attempts: 100, initial: 5m, max: 5m }";
        format!("{}store: {store}\n", queues::yaml(origin, keys))
    };
    let failing = queues::origin(|_, _| "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(yaml(&failing));
    (0..EVENTS).for_each(|number| queues::put(&gateway, "/x", &text(number)));
    failing.wait_for_requests(1);
    drop(gateway);
    let segment = fullest(&store);
    let mut bytes = std::fs::read(&segment).unwrap();
    let wanted = text(EVENTS / 2);
    let at = bytes.windows(wanted.len()).position(|part| part == wanted.as_bytes()).unwrap();
    bytes[at + 6] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
    let working = queues::origin(|_, _| "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(yaml(&working));
    let admin = gateway.admin();
    let waits =
        format!("POST /queues/work/resume HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n");
    crate::harness::Wire::connect(admin).ask(waits);
    // The first one waits for its next try, five minutes from the last.
    let came = || queues::texts(&working);
    gateway.wait_for_log("store: damaged");
    let before = Instant::now();
    while came().len() + 2 < EVENTS && before.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(100));
    }
    let known: Vec<String> = (0..EVENTS).map(text).collect();
    let mut rest = known.iter();
    for text in came() {
        assert!(rest.any(|known| *known == text), "{text} was changed, or is out of order");
    }
}

/// Makes the file system of a folder read-only, or writable again.
fn remount(folder: &Path, how: &str) -> bool {
    let mounted = std::process::Command::new("mount")
        .args(["-o", &format!("remount,{how}")])
        .arg(folder)
        .output()
        .unwrap();
    mounted.status.success()
}

#[test]
fn a_store_that_cannot_be_written_is_told_at_the_start() {
    let Some(folder) =
        small_disk("hostile_disks::a_store_that_cannot_be_written_is_told_at_the_start")
    else {
        return;
    };
    let all = filled(&folder);
    let file = folder.join("gateway.yaml");
    let store = serde_json::json!({ "path": folder.join("store") });
    std::fs::write(&file, format!("{}store: {store}\n", crate::hubs::hub(""))).unwrap();
    assert!(remount(&folder, "ro"));
    let began = Instant::now();
    let run = tidegate(&["run", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("Read-only file system"), "{run:?}");
    assert!(began.elapsed() < Duration::from_secs(20));
    assert!(remount(&folder, "rw"));
    let gateway = start_in(&folder, "");
    assert_eq!(bodies(&poll(&gateway, "?after=0&limit=1000")), all);
}

/// A file that the configuration names is gone, is a folder, leads nowhere, is a pipe without a writer, or has no end. The last good
/// configuration stays, the log has the reason, and the next good configuration replaces it.
#[test]
fn a_file_that_cannot_be_read_any_more_leaves_the_last_good_configuration() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ api_key: { header: x-api-key, keys: { file: keys.yaml } } }]";
    let more = "admin: { address: \"127.0.0.1:0\" }";
    let yaml = Plain { route, more, ..Plain::default() }.yaml(&origin);
    let gateway = Gateway::start_beside(&yaml, &[("keys.yaml", "alice: one\n")]);
    let status = |key: &str| {
        let ask = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Api-Key: {key}\r\n\r\n");
        gateway.wire().ask(ask).status()
    };
    assert_eq!(status("one"), 200);
    let path = gateway.path("keys.yaml");
    let ends: [(&str, &dyn Fn()); 5] = [
        ("is gone", &|| {}),
        ("is a folder", &|| std::fs::create_dir(&path).unwrap()),
        ("leads nowhere", &|| std::os::unix::fs::symlink("/none/at/all", &path).unwrap()),
        ("is a pipe", &|| {
            let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
            assert!(made.success());
        }),
        ("has no end", &|| std::os::unix::fs::symlink("/dev/zero", &path).unwrap()),
    ];
    for (number, (what, end)) in ends.into_iter().enumerate() {
        let logged = gateway.log().len();
        let gone = || {
            let _ = std::fs::remove_file(&path);
            let _ = std::fs::remove_dir(&path);
        };
        gone();
        end();
        let began = Instant::now();
        let admin = gateway.admin();
        let put = format!(
            "POST /config/check HTTP/1.1\r\nHost: {admin}\r\nContent-Type: application/yaml\r\nContent-Length: {}\r\n\r\n{yaml}",
            yaml.len()
        );
        let reply = crate::harness::Wire::connect(admin).ask(put);
        assert_ne!(reply.status(), 200, "{what}: {reply:?}");
        assert!(began.elapsed() < Duration::from_secs(10), "{what}");
        until(&format!("the log says why: {what}"), || {
            gateway.log()[logged..].contains("keys.yaml")
        });
        assert_eq!(status("one"), 200, "{what}");
        gone();
        let key = format!("key{number}");
        gateway.put("keys.yaml", &format!("alice: one\nbob: {key}\n"));
        until(&format!("the next one is taken: {what}"), || status(&key) == 200);
        let read: Value = serde_json::from_slice(&gateway.admin_get("/plan").body).unwrap();
        assert!(read.is_object(), "{what}");
    }
}
