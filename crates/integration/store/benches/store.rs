//! Measures the embedded store on the disk of this folder: `cargo bench -p store`.
//!
//! Publishing is compared with the sync of a file, measured in the same run. Reading is measured by its own count, and the start
//! by the number of rows. A claim about these numbers names the machine and its disk.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench may panic, prints, and reads the clock"
)]

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use store::{Change, Embedded, Expect, Logs, ReadQuery, Tables};

const PUBLISHERS: usize = 64;
const RECORDS: u64 = 1_000_000;
const ROWS: usize = 100_000;

fn main() {
    let folder = tempfile::tempdir_in(".").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sync = syncs(folder.path());
    println!(
        "sync of 32 KiB appended: median {:?}, p99 {:?}",
        quantile(&sync, 50),
        quantile(&sync, 99)
    );
    runtime.block_on(publish(&folder.path().join("publish")));
    runtime.block_on(read(&folder.path().join("read")));
    runtime.block_on(start(&folder.path().join("rows")));
}

fn quantile(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(index).copied().unwrap_or_default()
}

/// How long the disk takes to make 32 KiB durable at the end of a growing file.
fn syncs(folder: &Path) -> Vec<Duration> {
    let mut file = std::fs::File::create(folder.join("file")).unwrap();
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            let started = Instant::now();
            file.write_all(&[7; 32 << 10]).unwrap();
            file.sync_data().unwrap();
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times
}

/// 64 publishers, each of which waits for its answer before the next publish.
async fn publish(folder: &Path) {
    let (store, _) = Embedded::open(folder).unwrap();
    let store = Arc::new(store);
    let started = Instant::now();
    let until = started + Duration::from_secs(5);
    let mut publishers = tokio::task::JoinSet::new();
    for publisher in 0..PUBLISHERS {
        let store = store.clone();
        publishers.spawn(async move {
            let log = format!("topic {}", publisher % 8);
            let mut times = Vec::new();
            while Instant::now() < until {
                let started = Instant::now();
                store.append(&log, vec![Bytes::from(vec![7; 400])], None).await.unwrap();
                times.push(started.elapsed());
            }
            times
        });
    }
    let mut times = publishers.join_all().await.concat();
    let rate = times.len() as f64 / started.elapsed().as_secs_f64();
    times.sort_unstable();
    println!(
        "publish by {PUBLISHERS}: {rate:.0}/s, median {:?}, p99 {:?}",
        quantile(&times, 50),
        quantile(&times, 99)
    );
}

/// Reads a log, which is in the page cache, from its beginning.
async fn read(folder: &Path) {
    let (store, _) = Embedded::open(folder).unwrap();
    for _ in 0..RECORDS / 1000 {
        store.append("log", vec![Bytes::from(vec![7; 100]); 1000], None).await.unwrap();
    }
    let (started, cpu) = (Instant::now(), cpu());
    let (mut after, mut count) = (0, 0);
    loop {
        let records = store.read("log", ReadQuery::after(after)).await.unwrap().records;
        let Some(last) = records.last() else { break };
        after = last.position;
        count += records.len();
    }
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "read {count} records of 100 bytes: {:.0}/s, {:?} of CPU",
        count as f64 / seconds,
        cpu_since(cpu)
    );
    drop(store);
    let started = Instant::now();
    let (_store, recovered) = Embedded::open(folder).unwrap();
    println!("start with {} records: {:?}", recovered.records, started.elapsed());
}

async fn start(folder: &Path) {
    let (store, _) = Embedded::open(folder).unwrap();
    for chunk in 0..ROWS / 1000 {
        let change = |index: usize| Change {
            table: "rows".into(),
            key: format!("subscription/{:08}", chunk * 1000 + index).into_bytes(),
            value: Some(Bytes::from(vec![7; 200])),
            expect: Expect::Nothing,
        };
        store.change((0..1000).map(change).collect(), None).await.unwrap();
    }
    drop(store);
    let started = Instant::now();
    let (store, _) = Embedded::open(folder).unwrap();
    println!("start with {ROWS} rows: {:?}", started.elapsed());
    // After a kill, the start writes the tables again.
    drop(store);
    std::fs::remove_file(folder.join("clean")).unwrap();
    let started = Instant::now();
    let (_store, _) = Embedded::open(folder).unwrap();
    println!("start with {ROWS} rows after a kill: {:?}", started.elapsed());
}

/// CPU time of this process, in ticks of 10 ms.
fn cpu() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    behind_name.split_whitespace().skip(11).take(2).filter_map(|n| n.parse::<u64>().ok()).sum()
}

fn cpu_since(before: u64) -> Duration {
    Duration::from_millis(10 * cpu().saturating_sub(before))
}
