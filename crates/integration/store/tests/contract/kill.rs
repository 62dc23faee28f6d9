//! Real processes on real files, killed at any time. Acknowledged data has to be there.
//!
//! This test starts itself again as the process to be killed. The process prints what was acknowledged.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use store::{Change, Embedded, Expect, Keep, Logs, ReadQuery, Store, Tables};

const FOLDER: &str = "TIDEGATE_STORE_KILLED";
const LOGS: [&str; 3] = ["a", "b", "c"];

fn rounds() -> u64 {
    std::env::var("TIDEGATE_STORE_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(5)
}

/// The process that is killed. Without its environment it is a test that passes.
#[tokio::test]
async fn killed_process() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (store, recovered) = Embedded::open(Path::new(&folder)).unwrap();
    assert_eq!(recovered.damage, []);
    let store: Arc<dyn Store> = Arc::new(store);
    let mut publishers = tokio::task::JoinSet::new();
    for publisher in 0..8_usize {
        let store = store.clone();
        publishers.spawn(async move {
            let row = store.get("done", &[u8::try_from(publisher).unwrap()]).await.unwrap();
            let first = row.map_or(0, |row| number_in(&row.value) + 1);
            for number in first.. {
                let log = LOGS[publisher % LOGS.len()];
                let bytes = format!("{publisher} {number} {}", "x".repeat(publisher * 100));
                let position = store.append(log, vec![Bytes::from(bytes.clone())], None).await;
                let position = *position.unwrap().start();
                let change = Change {
                    table: "done".into(),
                    key: vec![u8::try_from(publisher).unwrap()],
                    value: Some(Bytes::from(number.to_string())),
                    expect: Expect::Anything,
                };
                let line = format!("log {log} {position} {bytes}\n");
                std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                if number % 16 == 0 {
                    store.change(vec![change], None).await.unwrap();
                    let line = format!("row {publisher} {number}\n");
                    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
                }
                if number % 200 == 199 {
                    let keep = Keep { bytes: Some(200_000), ..Keep::default() };
                    store.trim(log, keep).await.unwrap();
                }
            }
        });
    }
    publishers.join_next().await;
}

/// The output of the killed processes: the records by log and position, the rows by publisher.
#[derive(Default)]
struct Said {
    records: HashMap<String, HashMap<u64, String>>,
    rows: HashMap<u8, u64>,
}

impl Said {
    fn hear(&mut self, line: &str) {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("log"), Some(log), Some(position), Some(bytes)) => {
                let records = self.records.entry(log.to_owned()).or_default();
                let before = records.insert(position.parse().unwrap(), bytes.to_owned());
                assert_eq!(before, None, "position {position} of {log} was given twice");
            }
            (Some("row"), Some(publisher), Some(number), None) => {
                self.rows.insert(publisher.parse().unwrap(), number.parse().unwrap());
            }
            _ => {}
        }
    }
}

#[test]
fn killed_at_any_time_it_keeps_what_it_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut said = Said::default();
    let mut rng = fastrand::Rng::new();
    for _ in 0..rounds() {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::killed_process", "--nocapture"])
            .env(FOLDER, folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap());
        // It is killed after a number of lines, not after a time, so that it is at work even on a slow machine.
        let mut left = rng.u32(50..3000);
        let mut line = String::new();
        while lines.read_line(&mut line).unwrap() > 0 {
            // The kill has cut an incomplete line.
            if line.ends_with('\n') {
                // The output of the test runner comes before the first line.
                let at = line.find("log ").filter(|_| line.starts_with("test ")).unwrap_or(0);
                said.hear(line[at..].trim_end_matches('\n'));
            }
            line.clear();
            left = left.saturating_sub(1);
            if left == 0 {
                process.kill().unwrap();
            }
        }
        assert_eq!(left, 0, "it ended without being killed");
        process.wait().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(compare(folder.path(), &said));
    }
}

async fn compare(folder: &Path, said: &Said) {
    let (store, recovered) = Embedded::open(folder).unwrap();
    assert_eq!(recovered.damage, []);
    for (log, records) in &said.records {
        let oldest = store.span(log).await.unwrap().oldest;
        let mut found = HashMap::new();
        let mut after = 0;
        loop {
            let read = store.read(log, ReadQuery::after(after)).await.unwrap();
            let Some(last) = read.records.last() else { break };
            after = last.position;
            let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
            found.extend(read.records.iter().map(|r| (r.position, text(&r.bytes))));
        }
        for (position, bytes) in records.iter().filter(|(position, _)| **position >= oldest) {
            assert_eq!(found.get(position), Some(bytes), "record {position} of {log}");
        }
    }
    for (publisher, number) in &said.rows {
        let row = store.get("done", &[*publisher]).await.unwrap().unwrap();
        assert!(number_in(&row.value) >= *number, "{publisher}: {row:?} after {number}");
    }
}

fn number_in(value: &Bytes) -> u64 {
    std::str::from_utf8(value).unwrap().parse().unwrap()
}
