//! The memory of the process, and the bound on it.
//!
//! The program's allocator counts every block ([`count`]), so no owner of memory can be forgotten. Code whose memory grows with what a
//! peer sends asks [`has_room`] before it grows, and fails if the answer is no. [`watch`] reports to the runner of a step that this
//! happened, whatever the step made of it. A process without that allocator counts nothing, and always has room.

use std::cell::Cell;
use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::Once;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A worker adds its blocks to the count of the process once they make up this much. So workers rarely meet there, and the count is
/// wrong by at most this for each worker.
const BATCH_BYTES: usize = 64 << 10;

/// Workers whose memory is told apart.
const WORKERS_MAX: usize = 1024;

/// Bytes of all blocks, without those that workers have not added yet.
static HEAP: AtomicIsize = AtomicIsize::new(0);
/// The part of them that has its own bound ([`Held`]).
static HELD: AtomicIsize = AtomicIsize::new(0);
/// The least that the process has held since it began to serve, without that part. It does not count either. What compiling the
/// first plan needed is freed later, and must not become room for messages.
static BASE: AtomicIsize = AtomicIsize::new(0);
/// The bound of the rest.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The part of `HEAP` that each worker's thread added. A block that one thread makes and another frees counts in both.
static WORKERS: [AtomicIsize; WORKERS_MAX] = [const { AtomicIsize::new(0) }; WORKERS_MAX];
/// How often there was no room.
static REFUSED: AtomicU64 = AtomicU64::new(0);

struct ThreadCounts {
    /// Bytes that are not added to the count of the process, and half of `span`, so that one comparison finds both ends of the range.
    pending: Cell<isize>,
    /// Twice the bytes that may be pending.
    span: Cell<usize>,
    /// How often there was no room.
    refused: Cell<u64>,
    /// The worker whose thread this is; past the end of `WORKERS` for any other thread.
    worker: Cell<usize>,
}

thread_local! {
    // Without a destructor, so that the allocator may use it as long as the thread runs. A thread that may end adds each block at once.
    static COUNTS: ThreadCounts = const {
        ThreadCounts {
            pending: Cell::new(0),
            span: Cell::new(0),
            refused: Cell::new(0),
            worker: Cell::new(usize::MAX),
        }
    };
}

/// The bound as it is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Bytes(u64),
    /// Millionths of the memory of the machine, or of the process's cgroup if that has less.
    Share(u32),
}

/// Memory that has a bound of its own, such as that of a cache. It does not count until this is dropped.
#[derive(Debug, Default)]
pub struct Held(isize);

/// Counts a block that was made (its bytes), freed (less than nothing) or made larger or smaller (the difference).
#[inline]
pub fn count(bytes: isize) {
    COUNTS.with(|counts| {
        let pending = counts.pending.get().wrapping_add(bytes);
        let span = counts.span.get();
        if pending.cast_unsigned() <= span {
            counts.pending.set(pending);
        } else {
            let middle = (span / 2).cast_signed();
            counts.pending.set(middle);
            let moved = pending.wrapping_sub(middle);
            HEAP.fetch_add(moved, Relaxed);
            if let Some(worker) = WORKERS.get(counts.worker.get()) {
                worker.fetch_add(moved, Relaxed);
            }
        }
    });
}

/// From now on this thread, which runs as long as the process, counts in batches, and for this worker.
pub fn count_in_batches(worker: usize) {
    COUNTS.with(|counts| {
        counts.worker.set(worker);
        counts.pending.set(BATCH_BYTES.cast_signed());
        counts.span.set(2 * BATCH_BYTES);
    });
}

/// Sets the bound. What is allocated at the first call, and stays, is not part of what is bounded.
pub fn set_limit(limit: Limit) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| BASE.store(HEAP.load(Relaxed) - HELD.load(Relaxed), Relaxed));
    LIMIT.store(limit.bytes(), Relaxed);
}

/// Bytes that count.
pub fn used() -> usize {
    let held = HEAP.load(Relaxed).saturating_sub(HELD.load(Relaxed));
    let base = BASE.load(Relaxed);
    if held < base {
        BASE.fetch_min(held, Relaxed);
    }
    usize::try_from(held.saturating_sub(base)).unwrap_or(0)
}

/// Bytes that a worker's thread allocated less those that it freed.
pub fn of_worker(worker: usize) -> isize {
    WORKERS.get(worker).map_or(0, |bytes| bytes.load(Relaxed))
}

/// The bound. None if nothing set one.
pub fn limit() -> Option<usize> {
    Some(LIMIT.load(Relaxed)).filter(|limit| *limit != usize::MAX)
}

/// How often there was no room.
pub fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// True if so many bytes more are within the bound. If not, the caller has to fail.
#[inline]
pub fn has_room(bytes: usize) -> bool {
    might_have_room(bytes) || refuse()
}

/// The same for a caller that does without the memory and does not fail.
#[inline]
pub fn might_have_room(bytes: usize) -> bool {
    used().saturating_add(bytes) <= LIMIT.load(Relaxed)
}

#[cold]
fn refuse() -> bool {
    REFUSED.fetch_add(1, Relaxed);
    COUNTS.with(|counts| counts.refused.set(counts.refused.get().wrapping_add(1)));
    false
}

/// Exchanges the count that [`watch`] compares for that of a computation that pauses and continues: what other tasks are refused
/// meanwhile is not its own.
pub(crate) fn exchange_refused(refused: u64) -> u64 {
    COUNTS.with(|counts| counts.refused.replace(refused))
}

/// Runs work and tells if it found no room, whatever became of it. Work inside that is watched as well answers for itself.
pub async fn watch<T>(mut work: Pin<&mut impl Future<Output = T>>) -> (T, bool) {
    let mut is_short = false;
    let done = poll_fn(|cx| {
        let before = COUNTS.with(|counts| counts.refused.get());
        let polled = work.as_mut().poll(cx);
        is_short |= COUNTS.with(|counts| counts.refused.replace(before)) != before;
        polled
    });
    let done = done.await;
    (done, is_short)
}

impl Limit {
    fn bytes(self) -> usize {
        let bytes = match self {
            Limit::Bytes(bytes) => bytes,
            Limit::Share(millionths) => match machine_bytes() {
                Some(bytes) => bytes / 1_000_000 * u64::from(millionths),
                // Nothing says how much there is.
                None => return usize::MAX,
            },
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl Held {
    /// It is so many bytes now.
    pub fn set(&mut self, bytes: usize) {
        let bytes = isize::try_from(bytes).unwrap_or(isize::MAX);
        HELD.fetch_add(bytes - self.0, Relaxed);
        self.0 = bytes;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}

/// The memory of the machine, or of the process's cgroup (version 1 or 2) or one around it if that has less.
fn machine_bytes() -> Option<u64> {
    // Harmless: a file that is not there says nothing, and the others count.
    let read = |path: &Path| fs::read_to_string(path).ok();
    let of_machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    // Harmless: a process without groups has only the machine.
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    // Harmless: a group without a bound has none.
    let of_groups = cgroup_files(&groups).into_iter().filter_map(|file| {
        // `max` is not a number: it has no bound.
        // Harmless: `max` is not a number.
        read(Path::new(&file))?.trim().parse().ok()
    });
    of_groups.chain(of_machine).min()
}

/// The machine's memory by `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// The files with the bounds of the cgroups that `/proc/self/cgroup` names, and of those around them.
fn cgroup_files(groups: &str) -> Vec<String> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(group)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (root, file) = match controllers {
            "" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // A container may see its own group as the root, and be told its path outside.
        // Harmless: the path of a group is a text.
        let around = Path::new(group).ancestors().filter_map(Path::to_str);
        files.extend(around.map(|group| format!("{root}{}/{file}", group.trim_end_matches('/'))));
    }
    files
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<T>(work: impl Future<Output = T>) -> T {
        match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => done,
            Poll::Pending => panic!("it waits for nothing"),
        }
    }

    // One test, since the counts are those of the process.
    #[test]
    fn what_is_counted_is_bounded_and_who_found_no_room_is_known() {
        assert_eq!((limit(), has_room(1 << 40)), (None, true));
        count(1000);
        set_limit(Limit::Bytes(100));
        assert_eq!((limit(), used()), (Some(100), 0), "what was there does not count");
        count(60);
        assert!(has_room(40) && !has_room(41) && !might_have_room(41));
        assert_eq!(refused(), 1);
        let mut held = Held::default();
        held.set(50);
        assert_eq!((used(), has_room(90)), (10, true));
        drop(held);
        let fails = async || {
            let (inner, is_short) = watch(pin!(async { has_room(1000) })).await;
            assert!(!inner && is_short);
            7
        };
        count(-500);
        assert_eq!(used(), 0);
        count(60);
        assert_eq!(used(), 60, "what was freed since the start is not room");
        assert_eq!(now(watch(pin!(fails()))), (7, false), "the one inside answers for itself");
        assert_eq!(now(watch(pin!(async { has_room(41) }))), (false, true));
        assert_eq!(now(watch(pin!(async { might_have_room(41) }))), (false, false));
        let worker = std::thread::spawn(|| {
            count_in_batches(3);
            count(64);
            let before = used();
            count(BATCH_BYTES as isize);
            (before, used())
        });
        assert_eq!(worker.join().unwrap(), (60, 60 + 64 + BATCH_BYTES));
        assert_eq!((of_worker(3), of_worker(2)), ((64 + BATCH_BYTES).cast_signed(), 0));
    }

    #[test]
    fn the_memory_of_machines_and_cgroups_is_found() {
        assert_eq!(total("MemTotal:       16384 kB\nMemFree: 1 kB\n"), Some(16 << 20));
        assert_eq!(total("MemFree: 1 kB\n"), None);
        assert_eq!(
            cgroup_files("9:cpu,memory:/a/b\n3:cpuset:/\n0::/\nnonsense\n"),
            [
                "/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/a/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory.max",
            ]
        );
        assert!(machine_bytes().is_some_and(|bytes| bytes > 1 << 20));
        assert!(Limit::Share(500_000).bytes() > 1 << 19);
    }
}
