//! The embedded store on a slow disk: waiting writes are bounded, and cannot be read yet.

use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};

use bytes::Bytes;
use store::disk::{Disk, DiskFile, Folder};
use store::{Embedded, Error, Logs, ReadQuery, Tuning};

/// A folder whose syncs wait while the gate is shut.
#[derive(Debug)]
struct SlowDisk {
    folder: Folder,
    gate: Arc<Gate>,
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn DiskFile>,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

/// Opens the gate when it is dropped, so that a failed test ends.
struct GateGuard(Arc<Gate>);

impl Drop for GateGuard {
    fn drop(&mut self) {
        *self.0.is_shut.lock().unwrap() = false;
        self.0.opened.notify_all();
    }
}

impl Gate {
    fn pass(&self) {
        let is_shut = self.is_shut.lock().unwrap();
        drop(self.opened.wait_while(is_shut, |is_shut| *is_shut).unwrap());
    }
}

impl SlowDisk {
    fn open(path: &Path) -> (SlowDisk, Arc<Gate>) {
        let gate = Arc::new(Gate::default());
        (SlowDisk { folder: Folder::open(path).unwrap(), gate: gate.clone() }, gate)
    }
}

impl Disk for SlowDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.folder.open(name)?;
        Ok(Arc::new(SlowFile { file, gate: self.gate.clone() }))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.folder.list()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.folder.sync()
    }
}

impl DiskFile for SlowFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, into)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.file.set_size(size)
    }

    fn sync(&self) -> io::Result<()> {
        self.gate.pass();
        self.file.sync()
    }
}

/// Far more than may wait.
const APPENDS: usize = 40_000;

#[tokio::test]
async fn a_slow_disk_makes_callers_wait_or_go_and_readers_see_nothing_early() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, gate) = SlowDisk::open(folder.path());
    let (store, _) = Embedded::open_on(Arc::new(disk), Tuning::default()).unwrap();
    let text = |number: usize| Bytes::from(number.to_string());
    assert_eq!(store.append("l", vec![text(0)], None).await, Ok(1..=1));
    *gate.is_shut.lock().unwrap() = true;
    let shut = GateGuard(gate);
    let mut news = Box::pin(store.follow("l"));
    let mut answers: Vec<_> =
        (1..APPENDS).map(|number| store.append("l", vec![text(number)], None)).collect();
    // Appends above the limit are refused at once, and waiting ones cannot be read yet.
    let last = answers.pop().unwrap();
    assert_eq!(last.await, Err(Error::Busy));
    assert_eq!(store.read("l", ReadQuery::after(0)).await.unwrap().records.len(), 1);
    assert_eq!(store.span("l").await.unwrap().newest, 1);
    drop(shut);
    let mut accepted = vec![text(0)];
    for (number, answer) in (1..).zip(answers) {
        match answer.await {
            Ok(position) => {
                accepted.push(text(number));
                let position = usize::try_from(*position.start()).unwrap();
                assert_eq!(position, accepted.len(), "in the order of the calls");
            }
            Err(error) => assert_eq!(error, Error::Busy),
        }
    }
    assert!(accepted.len() > 1000 && accepted.len() < APPENDS - 1000, "{}", accepted.len());
    news.changed().await;
    let mut found = Vec::new();
    while found.len() < accepted.len() {
        let read = store.read("l", ReadQuery::after(found.len() as u64)).await.unwrap();
        assert!(!read.records.is_empty(), "{} of {}", found.len(), accepted.len());
        found.extend(read.records.into_iter().map(|record| record.bytes));
    }
    assert_eq!(found, accepted);
}
