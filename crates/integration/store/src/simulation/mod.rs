//! Simulations by seed: random operations on a bad disk, crashes, and checks of the invariants.
//!
//! The engine runs on this thread, so each seed is reproducible. `TIDEGATE_STORE_SEEDS=FROM..TO` selects the seeds.

mod disk;
mod model;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use kit::clock;
use tokio::sync::oneshot;

use crate::command::{Command, Done};
use crate::engine::{Engine, SharedView, Tuning};
use crate::frame::{HEAD, Head};
use crate::recovery::{self, RecoveryReport};
use crate::{Change, Error, Expect, Keep, LeaseAnswer, ReadQuery, Record, Scan, reader, tables};
use disk::BadDisk;
use model::Model;

/// Small segments, so that there are many.
const TUNING: Tuning = Tuning { segment_bytes: 6000 };
const LOGS: [&str; 4] = ["a", "b", "c", "a/d"];
const STEPS: usize = 60;

fn seeds() -> std::ops::Range<u64> {
    let given = std::env::var("TIDEGATE_STORE_SEEDS").ok();
    let range = given.as_deref().and_then(|given| {
        let (from, to) = given.split_once("..")?;
        Some(from.parse().ok()?..to.parse().ok()?)
    });
    range.unwrap_or(0..300)
}

#[test]
fn whatever_happens_nothing_that_was_acknowledged_is_lost() {
    for seed in seeds() {
        // The output names the seed, so that it can be run alone.
        let run = std::panic::catch_unwind(|| Simulation::new(seed).run());
        assert!(run.is_ok(), "TIDEGATE_STORE_SEEDS={seed}..{}", seed + 1);
    }
}

#[test]
fn a_torn_last_page_of_the_tables_is_not_damage() {
    let mut simulation = Simulation::new(1);
    simulation.batch();
    simulation.engine = None;
    // The crash left 512 bytes of a new page at the end of the file, and the file's header is old.
    let torn = [simulation.disk.bytes(tables::FILE), vec![7; 512]].concat();
    simulation.disk.put(tables::FILE, &torn);
    simulation.reopen();
}

#[test]
fn records_of_a_log_missing_from_the_tables_are_never_read_as_those_of_another_log() {
    for emptied in [false, true] {
        let mut simulation = Simulation::new(1);
        let before = simulation.disk.bytes(tables::FILE);
        while simulation.model.newest(LOGS[0]) == 0 {
            simulation.batch();
        }
        simulation.engine = None;
        let older = if emptied { Vec::new() } else { before };
        simulation.disk.put(tables::FILE, &older);
        let opened = open(&simulation.disk).map(|_| ());
        assert!(matches!(opened, Err(Error::Corrupt(_))), "{emptied}: {opened:?}");
    }
}

#[test]
fn the_last_record_is_damaged_by_a_flipped_bit_and_torn_where_sectors_are_missing() {
    // A payload contains at least one whole sector, wherever the record begins.
    let payload = 1500;
    let missing = |bytes: &mut Vec<u8>| {
        let sector = (bytes.len() - 600) / 512 * 512;
        bytes[sector..sector + 512].fill(0);
    };
    let cases: [(&str, bool, &Damage<'_>); 5] = [
        ("a bit of the payload", true, &|bytes| *bytes.last_mut().unwrap() ^= 1),
        ("a bit of the head", true, &|bytes| {
            let head = bytes.len() - payload - HEAD;
            bytes[head + 8] ^= 1;
        }),
        ("the end", false, &|bytes| bytes.truncate(bytes.len() - 1)),
        ("all but a piece of the head", false, &|bytes| bytes.truncate(bytes.len() - payload - 9)),
        ("a sector", false, &missing),
    ];
    for (what, is_damage, spoil) in cases {
        let disk = BadDisk::new(1);
        let append = |engine: &mut Engine| {
            let (done, answer) = oneshot::channel();
            let (log, records) = (LOGS[0].to_owned(), vec![Bytes::from(vec![7; payload])]);
            engine.run(vec![Command::Append { log, records, guard: None, done }]);
            now(answer).unwrap()
        };
        let (mut engine, _) = open(&disk).unwrap();
        assert_eq!((append(&mut engine), append(&mut engine)), (1..=1, 2..=2));
        drop(engine);
        let name = crate::segment::name(1);
        let mut bytes = disk.bytes(&name);
        spoil(&mut bytes);
        disk.put(&name, &bytes);

        let (mut engine, recovered) = open(&disk).unwrap();
        let read = |engine: &Engine| -> Vec<u64> {
            let found = read_all(&engine.shared, LOGS[0], 100, 100_000);
            found.iter().map(|record| record.position).collect()
        };
        assert_eq!(recovered.damage.is_empty(), !is_damage, "{what}: {recovered:?}");
        assert_eq!(recovered.torn_bytes > 0, !is_damage, "{what}: {recovered:?}");
        assert_eq!(read(&engine), [1], "{what}");
        // The position of a damaged record is not reused, since a reader may have received it. That of a torn one is.
        let next = *append(&mut engine).start();
        assert_eq!(next > 2, is_damage, "{what}: {next}");
        drop(engine);
        let (engine, recovered) = open(&disk).unwrap();
        assert_eq!(recovered.damage.is_empty(), !is_damage, "{what}: {recovered:?}");
        assert_eq!(read(&engine), [1, next], "{what}");
    }
}

#[test]
fn flipped_bits_are_never_read_as_something_else() {
    for seed in seeds().step_by(3) {
        let run = std::panic::catch_unwind(|| Simulation::new(seed).flip());
        assert!(run.is_ok(), "TIDEGATE_STORE_SEEDS={seed}..{}", seed + 1);
    }
}

#[test]
fn cut_and_exchanged_segments_are_never_read_as_something_else() {
    for seed in seeds().step_by(3) {
        let run = std::panic::catch_unwind(|| Simulation::new(seed).mangle());
        assert!(run.is_ok(), "TIDEGATE_STORE_SEEDS={seed}..{}", seed + 1);
    }
}

/// A change of a segment's bytes.
type Damage<'a> = dyn Fn(&mut Vec<u8>) + 'a;

struct Simulation {
    rng: fastrand::Rng,
    disk: BadDisk,
    engine: Option<Engine>,
    model: Model,
    /// A number that makes each payload different.
    payloads: u64,
}

/// An answer that must already be available.
fn now<T>(mut answer: oneshot::Receiver<Result<T, Error>>) -> Result<T, Error> {
    answer.try_recv().expect("every command of a batch is answered")
}

impl Simulation {
    fn new(seed: u64) -> Simulation {
        let rng = fastrand::Rng::with_seed(seed);
        let disk = BadDisk::new(seed ^ 0x5eed);
        let mut simulation =
            Simulation { rng, disk, engine: None, model: Model::default(), payloads: 0 };
        simulation.reopen();
        simulation
    }

    fn run(mut self) {
        for _ in 0..STEPS {
            self.step();
        }
        self.disk.set_error_rate(0);
        self.disk.set_room(None);
        self.reads();
        self.crash();
    }

    fn step(&mut self) {
        match self.rng.u32(..100) {
            0..50 => self.batch(),
            50..58 => self.trim(),
            58..70 => self.reads(),
            70..76 => self.disk.set_error_rate(if self.rng.bool() { 0 } else { 6 }),
            76..82 => {
                let room = self.rng.bool().then(|| self.rng.u64(..20_000));
                self.disk.set_room(room);
            }
            82..88 => {
                let (done, answer) = oneshot::channel();
                let all = self.rng.bool();
                self.engine().run(vec![Command::Compact { all, done }]);
                drop(now(answer));
            }
            88..94 => {
                self.disk.set_error_rate(0);
                self.disk.set_room(None);
                self.engine = None;
                self.reopen();
            }
            _ => self.crash(),
        }
    }

    fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("it is open")
    }

    /// Stops and starts the machine.
    fn crash(&mut self) {
        // The process ends before it can clean up.
        self.disk.set_error_rate(1);
        let old = self.engine.take();
        self.disk.crash();
        drop(old);
        self.disk.crash();
        self.reopen();
    }

    /// Opens the data on the disk, and compares it with the model.
    fn reopen(&mut self) {
        let (engine, recovered) =
            open(&self.disk).expect("the data left by the crash can be opened");
        self.engine = Some(engine);
        assert_eq!(recovered.damage, [], "no durable data was damaged");
        self.reads();
    }

    /// Compares all readable data with the model.
    fn reads(&mut self) {
        let Some(engine) = &self.engine else { return };
        for log in LOGS {
            let found =
                read_all(&engine.shared, log, self.rng.usize(1..50), self.rng.usize(1..3000));
            let span = engine.shared.log(log).map(|log| log.index().span());
            self.model.compare_log(log, &found, span);
        }
        let scan = Scan { rows_max: 1000, ..Scan::default() };
        if let Ok(rows) = engine.shared.tables.scan("t", &scan) {
            self.model.compare_rows(&rows.rows);
        }
    }

    /// Runs several commands at once.
    fn batch(&mut self) {
        let (mut commands, mut appends, mut changes, mut acquires) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.rng.usize(1..5) {
            match self.rng.u32(..10) {
                0..6 => {
                    let (log, records) = (self.log(), self.records());
                    let (done, answer) = oneshot::channel();
                    appends.push((log, records.clone(), answer));
                    let log = log.to_owned();
                    commands.push(Command::Append { log, records, guard: None, done });
                }
                6..9 => {
                    let list = self.changes();
                    let (done, answer) = oneshot::channel();
                    changes.push((list.clone(), answer));
                    commands.push(Command::Change { changes: list, guard: None, done });
                }
                _ => {
                    let (done, answer) = oneshot::channel();
                    acquires.push(answer);
                    commands.push(acquire(done));
                }
            }
        }
        self.run_watched(commands);
        for (log, records, answer) in appends {
            self.model.appended(log, records, now(answer));
        }
        for (list, answer) in changes {
            self.model.changed(&list, now(answer));
        }
        for answer in acquires {
            if let Ok(LeaseAnswer::Acquired(lease)) = now(answer) {
                self.model.leased(lease.token);
                let (done, answer) = oneshot::channel();
                self.engine().run(vec![Command::Release { lease, done }]);
                now(answer).expect("a release does not need the disk");
            }
        }
    }

    /// Runs commands on a slow disk. During each sync, readers check that they see no data that is not durable.
    fn run_watched(&mut self, commands: Vec<Command>) {
        let (shared, mut model) = (self.engine().shared.clone(), self.model.clone());
        let look = move || {
            for log in LOGS {
                let span = shared.log(log).map(|log| log.index().span());
                model.compare_log(log, &read_all(&shared, log, 1000, 100_000), span);
            }
        };
        self.disk.set_meanwhile(Some(Box::new(look)));
        self.engine().run(commands);
        self.disk.set_meanwhile(None);
    }

    fn trim(&mut self) {
        let log = self.log();
        let newest = self.model.newest(log);
        let keep = match self.rng.u32(..3) {
            0 => Keep { after: Some(self.rng.u64(..newest + 2)), ..Keep::default() },
            1 => Keep { bytes: Some(self.rng.u64(..8000)), ..Keep::default() },
            _ => Keep { age: Some(Duration::from_secs(3600)), ..Keep::default() },
        };
        let shared = self.engine().shared.clone();
        let Ok(Some((oldest, before))) = reader::kept(&shared, log, keep) else { return };
        let (done, answer) = oneshot::channel();
        let name = log.to_owned();
        self.engine().run(vec![Command::Trim { log: name, oldest, before, done }]);
        let answer = now(answer);
        let span = shared.log(log).map(|log| log.index().span());
        self.model.trimmed(log, keep, oldest, answer, span);
    }

    fn log(&mut self) -> &'static str {
        LOGS[self.rng.usize(..LOGS.len())]
    }

    fn records(&mut self) -> Vec<Bytes> {
        let count = self.rng.usize(1..4);
        let payload = |rng: &mut fastrand::Rng, number: u64| {
            let size = match rng.u32(..20) {
                0 => rng.usize(..40_000),
                1..5 => 0,
                _ => rng.usize(..700),
            };
            let mut payload = number.to_le_bytes().to_vec();
            payload.extend(std::iter::repeat_with(|| rng.u8(..)).take(size));
            Bytes::from(payload)
        };
        (0..count)
            .map(|_| {
                self.payloads += 1;
                payload(&mut self.rng, self.payloads)
            })
            .collect()
    }

    fn changes(&mut self) -> Vec<Change> {
        let count = self.rng.usize(1..4);
        (0..count)
            .map(|_| {
                self.payloads += 1;
                let key = vec![b'k', self.rng.u8(..6)];
                let expect = match self.rng.u32(..4) {
                    0 => Expect::Nothing,
                    1 => Expect::Version(self.model.version(&key)),
                    _ => Expect::Anything,
                };
                let fill = vec![7; self.rng.usize(..300)];
                let value = [self.payloads.to_le_bytes().to_vec(), fill].concat();
                let value = self.rng.bool().then(|| Bytes::from(value));
                Change { table: "t".into(), key, value, expect }
            })
            .collect()
    }

    /// Fills a store, closes it, and returns the names of its segments.
    fn fill(&mut self) -> Vec<String> {
        for _ in 0..STEPS / 3 {
            self.batch();
        }
        self.engine = None;
        self.reopen();
        self.engine = None;
        let names = crate::disk::Disk::list(&self.disk).unwrap();
        names.into_iter().filter(|name| name.ends_with(".seg")).collect()
    }

    /// Fills a store, flips one bit of a segment, and reads.
    fn flip(mut self) {
        let names = self.fill();
        let name = names.get(self.rng.usize(..names.len().max(1))).cloned();
        let Some(name) = name else { return };
        let flipped = self.disk.flip(&name);
        let Ok((engine, recovered)) = open(&self.disk) else { return };
        let mut missing = 0;
        for log in LOGS {
            let found = read_all(&engine.shared, log, 100, 10_000);
            missing += self.model.compare_damaged(log, &found);
        }
        let shown = !recovered.damage.is_empty() || recovered.torn_bytes > 0;
        assert!(shown || missing == 0, "byte {flipped:?} of {name}: {missing} records are missing");
    }

    /// Fills a store, truncates a segment, exchanges two or reorders the frames of one, and reads.
    fn mangle(mut self) {
        let names = self.fill();
        let (one, other) =
            (self.rng.usize(..names.len().max(1)), self.rng.usize(..names.len().max(1)));
        let (Some(one), Some(other)) = (names.get(one), names.get(other)) else { return };
        let (first, second) = (self.disk.bytes(one), self.disk.bytes(other));
        let at = self.rng.usize(..=first.len());
        let (front, back) = first.split_at(at);
        let kind = self.rng.u32(..5);
        match kind {
            0 => self.disk.put(one, front),
            1 => {
                self.disk.put(one, &second);
                self.disk.put(other, &first);
            }
            2 => self.disk.put(one, &second),
            3 => self.disk.put(one, &[front, &second, back].concat()),
            _ => {
                let mut frames = frames(&first);
                // The head is not moved.
                let last = frames.len().saturating_sub(1);
                if last > 0 {
                    let (from, to) = (self.rng.usize(1..=last), self.rng.usize(1..=last));
                    frames.swap(from, to);
                }
                self.disk.put(one, &frames.concat());
            }
        }
        let what = format!("{kind}: {one} at {at}, {other}");
        let Ok((engine, recovered)) = open(&self.disk) else { return };
        let mut missing = 0;
        for log in LOGS {
            let found = read_all(&engine.shared, log, 100, 10_000);
            assert!(found.is_sorted_by_key(|record| record.position), "{what}");
            missing += self.model.compare_damaged(log, &found);
        }
        let shown = !recovered.damage.is_empty() || recovered.torn_bytes > 0;
        let is_last = Some(one) == names.last() || Some(other) == names.last();
        // A truncated last segment looks as if the rest was never written, and no disk reorders whole frames. In both cases only
        // wrong data would be an error.
        let shows = kind != 4 && !is_last;
        assert!(shown || missing == 0 || !shows, "{what}: {missing} records are missing");
    }
}

/// The frames of a segment, with the head as the first.
fn frames(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some(head) = Head::read(bytes) {
        let (frame, rest) = bytes.split_at(usize::try_from(head.frame_len()).unwrap());
        frames.push(frame);
        bytes = rest;
    }
    frames
}

fn acquire(done: Done<LeaseAnswer>) -> Command {
    let ttl = Duration::from_secs(10);
    let until = clock::now() + ttl;
    Command::Acquire { lease: "l".into(), owner: "o".into(), ttl, until, done }
}

fn open(disk: &BadDisk) -> Result<(Engine, RecoveryReport), Error> {
    recovery::open(Arc::new(disk.clone()), TUNING, Arc::default())
}

fn read_all(shared: &SharedView, log: &str, records_max: usize, bytes_max: usize) -> Vec<Record> {
    let mut found: Vec<Record> = Vec::new();
    loop {
        let after = found.last().map_or(0, |record| record.position);
        let read = ReadQuery { after, records_max, bytes_max };
        let read = reader::read(shared, log, read).expect("a log can be read");
        if read.records.is_empty() {
            return found;
        }
        found.extend(read.records);
    }
}

/// The positions that an append was given.
type Positions = RangeInclusive<u64>;
