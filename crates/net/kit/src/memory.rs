//! Counts and bounds the memory of the process.
//!
//! The program's allocator counts every block ([`count`]), so that no use of memory is missed. Code whose memory grows with a peer's input
//! calls [`has_room`] before it allocates, and fails if that returns false. [`watch`] reports such failures to the caller that runs a step,
//! however the step handled them. A process without this allocator counts nothing, and always has room.

use std::cell::Cell;
use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::Once;
use std::sync::atomic::{AtomicIsize, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// A worker adds its allocations to the count of the process in batches of this size. This way, workers rarely contend for the count, which
/// is off by at most this much per worker.
const BATCH_BYTES: usize = 64 << 10;

/// The maximum number of workers whose memory is counted separately.
const WORKERS_MAX: usize = 1024;

/// Bytes of all blocks, except those that workers have not added yet.
static HEAP: AtomicIsize = AtomicIsize::new(0);
/// The part of `HEAP` that has a separate bound ([`Held`]).
static HELD: AtomicIsize = AtomicIsize::new(0);
/// The minimum of `HEAP` without `HELD` since the process began to serve, which does not count towards the limit. Memory used to compile
/// the first plan is freed later, and must not add to the room for messages.
static BASE: AtomicIsize = AtomicIsize::new(0);
/// The bound on the memory that counts: `HEAP` without `HELD` and `BASE`.
static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The part of `HEAP` added by each worker's thread. A block allocated by one thread and freed by another affects both counts.
static WORKERS: [AtomicIsize; WORKERS_MAX] = [const { AtomicIsize::new(0) }; WORKERS_MAX];
/// The number of refusals in the whole process.
static REFUSED: AtomicU64 = AtomicU64::new(0);

struct ThreadCounts {
    /// The bytes not added to the count of the process yet, plus half of `span`, so that one comparison checks both ends of the range.
    pending: Cell<isize>,
    /// Twice the number of bytes that may be pending.
    span: Cell<usize>,
    /// The number of refusals on this thread, see [`watch`].
    refused: Cell<u64>,
    /// The index of the worker whose thread this is. For other threads, it is beyond the end of `WORKERS`.
    worker: Cell<usize>,
}

thread_local! {
    // It has no destructor, so that the allocator can use it for as long as the thread runs. A thread that may end adds each block
    // immediately.
    static COUNTS: ThreadCounts = const {
        ThreadCounts {
            pending: Cell::new(0),
            span: Cell::new(0),
            refused: Cell::new(0),
            worker: Cell::new(usize::MAX),
        }
    };
}

/// The configured bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Bytes(u64),
    /// Millionths of the memory of the machine, or of the process's cgroup if that is smaller.
    Share(u32),
}

/// Memory that has a separate bound, such as that of a cache. While this value exists, the memory does not count towards the limit.
#[derive(Debug, Default)]
pub struct Held(isize);

/// Counts a block: positive bytes for an allocation, negative bytes for a deallocation, and the difference for a reallocation.
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

/// Makes this thread count in batches, and attributes its memory to this worker. The thread must run as long as the process.
pub fn count_in_batches(worker: usize) {
    COUNTS.with(|counts| {
        counts.worker.set(worker);
        counts.pending.set(BATCH_BYTES.cast_signed());
        counts.span.set(2 * BATCH_BYTES);
    });
}

/// Sets the bound. Memory that is allocated at the first call and never freed does not count.
pub fn set_limit(limit: Limit) {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| BASE.store(HEAP.load(Relaxed) - HELD.load(Relaxed), Relaxed));
    LIMIT.store(limit.bytes(), Relaxed);
}

/// Returns the number of bytes that count towards the limit.
pub fn used() -> usize {
    let held = HEAP.load(Relaxed).saturating_sub(HELD.load(Relaxed));
    let base = BASE.load(Relaxed);
    if held < base {
        BASE.fetch_min(held, Relaxed);
    }
    usize::try_from(held.saturating_sub(base)).unwrap_or(0)
}

/// Returns the bytes that a worker's thread has allocated, minus those that it has freed.
pub fn of_worker(worker: usize) -> isize {
    WORKERS.get(worker).map_or(0, |bytes| bytes.load(Relaxed))
}

/// Returns the bound, or `None` if none was set.
pub fn limit() -> Option<usize> {
    Some(LIMIT.load(Relaxed)).filter(|limit| *limit != usize::MAX)
}

/// Returns the number of times that [`has_room`] returned false.
pub fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Returns true if `bytes` more bytes are within the bound. If not, the caller must fail.
#[inline]
pub fn has_room(bytes: usize) -> bool {
    might_have_room(bytes) || refuse()
}

/// Like [`has_room`], for a caller that can do without the memory. A false result does not count as a refusal.
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

/// Replaces the count that [`watch`] compares. A computation that pauses uses this, so that refusals of other tasks during the pause are
/// not attributed to it.
pub(crate) fn exchange_refused(refused: u64) -> u64 {
    COUNTS.with(|counts| counts.refused.replace(refused))
}

/// Runs work, and reports whether it was refused memory, even if it handled the refusal. A refusal in a nested call of `watch` is reported
/// only by the nested call.
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
                // The total memory is unknown.
                None => return usize::MAX,
            },
        };
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl Held {
    /// Sets the number of bytes held.
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

/// Returns the memory of the machine, or of the process's cgroup (version 1 or 2) or an enclosing one if that is smaller.
fn machine_bytes() -> Option<u64> {
    // Harmless: a file that cannot be read sets no bound, and the other files still do.
    let read = |path: &Path| fs::read_to_string(path).ok();
    let of_machine = read(Path::new("/proc/meminfo")).and_then(|text| total(&text));
    // Harmless: without cgroups, the memory of the machine applies.
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    // Harmless: only groups with a bound matter.
    let of_groups = cgroup_files(&groups).into_iter().filter_map(|file| {
        // Harmless: the text is a number or `max`, which means no bound.
        read(Path::new(&file))?.trim().parse().ok()
    });
    of_groups.chain(of_machine).min()
}

/// Returns the machine's memory from `/proc/meminfo`.
fn total(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

/// Returns the files with the memory bounds of the cgroups that are listed in `groups` (`/proc/self/cgroup`), and of the enclosing
/// cgroups.
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
        // A container may see its own group as the root, while the file has the path outside of the container. Harmless: the path of a
        // group is UTF-8.
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

    // There is only one test, since the counts are global to the process.
    #[test]
    fn counted_memory_is_bounded_and_refusals_are_reported() {
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
