//! `store` on a disk that fills up and has room again: a small file system of this test's own.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Gateway, Message, tidegate, until};
use crate::hubs::{json_of, publish, start_in};
use crate::telemetry::metric;
use crate::websub::{LOOPBACK, confirming, delivered, subscribe};

/// The size of the file system, and of the file that fills it.
const DISK_MIB: usize = 32;
const BALLAST_MIB: usize = 14;

/// Bytes of an event.
const EVENT_BYTES: usize = 60_000;

/// A folder that is a separate file system. None if this test was run in one and has passed.
pub(crate) fn small_disk(test: &str) -> Option<PathBuf> {
    const WITHIN: &str = "TIDEGATE_SMALL_DISK";
    if let Some(folder) = std::env::var_os(WITHIN) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    let script = format!(
        "mount -t tmpfs -o size={DISK_MIB}m tmpfs \"${WITHIN}\" && exec \"$0\" --exact \"$1\" --nocapture"
    );
    let run = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env(WITHIN, folder.path())
        .output()
        .expect("`unshare` of util-linux: make setup-tests installs it");
    let said = String::from_utf8_lossy(&run.stdout);
    let wrong = String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success() && said.contains("1 passed"), "{said}{wrong}");
    None
}

/// Publishes an event with a number.
fn try_publish(gateway: &Gateway, number: usize) -> Message {
    let body = format!("{number} {}", "x".repeat(EVENT_BYTES));
    gateway.wire().ask(format!(
        "POST /news/publish?topic=sports HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn number_of(body: &str) -> usize {
    body.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

/// The numbers of all events that are kept, in order.
fn kept(gateway: &Gateway) -> Vec<usize> {
    let (mut after, mut numbers) = ("0".to_owned(), Vec::new());
    loop {
        let target = format!("/news/topics/sports?after={after}&limit=50");
        let read: Value = json_of(&gateway.wire().get(&target));
        let events = read["events"].as_array().unwrap();
        if events.is_empty() {
            return numbers;
        }
        let bodies = events.iter().map(|event| event["body"].as_str().unwrap());
        for body in bodies {
            let (number, filling) = body.split_once(' ').unwrap_or((body, ""));
            assert!(filling.is_empty() || filling == "x".repeat(EVENT_BYTES), "{number}");
            numbers.push(number_of(number));
        }
        after = read["next"].as_str().unwrap().to_owned();
    }
}

/// Publishes until three in a row are refused. Returns the numbers of the accepted ones.
fn fill(gateway: &Gateway, from: usize) -> Vec<usize> {
    let mut taken = Vec::new();
    let mut refused = 0;
    for number in from..from + 2000 {
        let reply = try_publish(gateway, number);
        match reply.status() {
            200 => {
                taken.push(number);
                refused = 0;
            }
            503 | 507 => refused += 1,
            status => panic!("{status}: {reply:?}"),
        }
        if refused == 3 {
            return taken;
        }
    }
    panic!("the disk of {DISK_MIB} MiB took {} events", taken.len());
}

fn whole(store: &Path) {
    let run = tidegate(&["store", "check", store.to_str().unwrap()]);
    assert_eq!((run.code, run.stdout.lines().last()), (Some(0), Some("intact")), "{}", run.stdout);
}

#[test]
fn a_full_disk_refuses_publishers_loses_nothing_and_is_over_once_there_is_room() {
    let test =
        "full_disk::a_full_disk_refuses_publishers_loses_nothing_and_is_over_once_there_is_room";
    let Some(folder) = small_disk(test) else { return };
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![7; BALLAST_MIB << 20]).unwrap();
    let origin = confirming();
    let keys = format!("{LOOPBACK}, delivery: {{ retries: 20, initial: 200ms, max: 500ms }}");
    let gateway = start_in(&folder, &keys);
    subscribe(&gateway, &origin.url(), "");

    let mut expected = fill(&gateway, 0);
    assert!(expected.len() > 20, "{}", expected.len());
    assert_eq!(kept(&gateway), expected, "what was acknowledged is there, and nothing else");
    assert_eq!(gateway.admin_get("/healthz").status(), 200);

    // Room again, without a word to the gateway.
    std::fs::remove_file(&ballast).unwrap();
    let mut number = 10_000;
    until("it takes events again", || {
        number += 1;
        let is_taken = try_publish(&gateway, number).status() == 200;
        expected.extend(is_taken.then_some(number));
        is_taken
    });
    let numbers = || delivered(&origin).iter().map(|event| number_of(&event.text())).collect();
    until("all are delivered", || {
        let mut numbers: Vec<usize> = numbers();
        numbers.dedup();
        numbers == expected
    });
    assert_eq!(metric(&gateway, "tidegate_store_damaged_total"), Some(0.0));

    // Full once more, and killed there. Tables that were not closed are mended first, which takes room.
    expected.extend(fill(&gateway, 20_000));
    drop(gateway);
    whole(&folder.join("store"));
    let filling = std::fs::write(folder.join("filling"), vec![7; DISK_MIB << 20]);
    assert!(filling.is_err(), "there was room left");
    let gateway = start_in(&folder, &keys);
    assert_eq!(kept(&gateway), expected, "what was acknowledged last is there as well");
    drop(gateway);

    // The removal of old events frees space.
    let gateway = start_in(&folder, &format!("{keys}, retention: {{ bytes: 1MiB }}"));
    until("old events have made room", || try_publish(&gateway, 30_000).status() == 200);
    publish(&gateway, "weather", "rain");
    drop(gateway);
    whole(&folder.join("store"));
}
