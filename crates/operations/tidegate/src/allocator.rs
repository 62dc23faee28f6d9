//! The program's allocator: mimalloc. Requests without a special alignment use mimalloc's functions without an
//! alignment.
//!
//! The `mimalloc` crate passes the alignment of every value. mimalloc treats such a call as an ordinary one only if the size class has
//! a free block available; otherwise it allocates a larger block. If nothing else fills a size class whose size is not a power of two,
//! that class never gets a page, and each call for it takes the slow path, which costs about 110 more instructions.
//!
//! A very large block has its own mapping. Growing it moves page table entries instead of copying bytes. Copying a tree of 100 MB would
//! block a worker for tens of milliseconds, since neither mimalloc nor a computation can yield within a copy.
//!
//! It counts every block in `kit::memory` by the requested size.
#![allow(unsafe_code, reason = "an allocator needs unsafe code")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use libmimalloc_sys as mimalloc;

// The crate's binding needs a feature that adds a dependency.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
    // A `long`, which has 64 bits on targets of 64 bits.
    safe fn mi_option_get(option: c_int) -> i64;
    safe fn mi_option_set(option: c_int, value: i64);
}

/// `mi_option_purge_delay` of `mimalloc.h`: the milliseconds for which the process keeps free memory.
const PURGE_DELAY: c_int = 15;

/// For each block of at least this size, the allocator checks how much of `limits.memory` is used. Messages that exhaust it need such
/// blocks.
const LARGE_BYTES: usize = 256 << 10;

/// A block of at least this size has its own mapping. Copying half of it, as happens when it grows to this size, takes about as long
/// as one turn of a long computation. mimalloc also gets such blocks from the system.
const MAPPED_BYTES: usize = 16 << 20;

/// The smallest page of a system.
const PAGE_BYTES: usize = 4096;

/// The delay with which mimalloc started. It is unknown until the delay is first changed.
static DELAY: AtomicI64 = AtomicI64::new(-1);
/// True while more than half of `limits.memory` is used.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// mimalloc releases memory that has been free for a second, so a shorter interval would have no effect.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// Returns free memory to the system. mimalloc itself does so only when a page is freed a second later. After a start with much input,
/// or after thousands of clients have left at once, no page is freed, and their memory would be kept.
pub(crate) async fn give_back() {
    loop {
        tokio::time::sleep(GIVE_BACK_EVERY).await;
        mi_collect(false);
        let is_short = is_short();
        IS_SHORT.store(is_short, Relaxed);
        set_delay(is_short);
    }
}

fn is_short() -> bool {
    kit::memory::limit().is_some_and(|limit| kit::memory::used() > limit / 2)
}

/// Sets for how long free memory is kept. Usually it is kept for a while, which saves time. Near the limit it is returned at once:
/// otherwise the memory freed for one message would add to that allocated for the next, and the total was measured as 1.7 times the limit.
#[cold]
fn settle() {
    let is_short = is_short();
    if IS_SHORT.swap(is_short, Relaxed) != is_short {
        set_delay(is_short);
    }
}

fn set_delay(is_short: bool) {
    if is_short {
        let began = mi_option_get(PURGE_DELAY);
        // Harmless: it fails if the delay is already known.
        let _ = DELAY.compare_exchange(-1, began, Relaxed, Relaxed);
        mi_option_set(PURGE_DELAY, 0);
    } else if DELAY.load(Relaxed) >= 0 {
        mi_option_set(PURGE_DELAY, DELAY.load(Relaxed));
    }
}

/// See the module.
pub(crate) struct Allocator;

/// Every block of at least this size is aligned to this: mimalloc's `MI_MAX_ALIGN_SIZE`, and the requirement of C for `malloc` on
/// 64-bit targets.
const PROMISED: usize = 16;

fn is_promised(align: usize, size: usize) -> bool {
    align <= PROMISED && align <= size
}

/// Counts a block that changes from `before` to `now` bytes. The size of a layout fits an `isize`. An allocation that fails is counted as
/// if it had succeeded, since the process then ends.
#[inline]
fn count(before: usize, now: usize) {
    kit::memory::count(now.wrapping_sub(before).cast_signed());
}

// SAFETY: all blocks of a layout are allocated in the same way, which gives each the size and alignment of its layout. A null pointer
// means that there is no memory. The code does not unwind, and does not allocate from itself.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        if layout.size() >= LARGE_BYTES { large(layout) } else { small(layout) }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(0, layout.size());
        if layout.size() >= LARGE_BYTES { large_zeroed(layout) } else { small_zeroed(layout) }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        if layout.size() >= LARGE_BYTES {
            // SAFETY: the caller passes a block of this allocator, with its layout.
            unsafe { free_large(block, layout) }
        } else {
            // SAFETY: the caller passes a block of this allocator, and a block of this size is mimalloc's.
            unsafe { mimalloc::mi_free(block.cast()) }
        }
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        if layout.size().max(size) >= LARGE_BYTES {
            // SAFETY: the caller passes a block of this allocator, with its layout.
            unsafe { resize_large(block, layout, size) }
        } else {
            // SAFETY: the caller passes a block of this allocator, and blocks of these sizes are mimalloc's.
            unsafe { resize(block, layout.align(), size) }
        }
    }
}

#[inline]
fn small(layout: Layout) -> *mut u8 {
    let (size, align) = (layout.size(), layout.align());
    if is_promised(align, size) {
        // SAFETY: any size is allowed.
        unsafe { mimalloc::mi_malloc(size) }.cast()
    } else {
        // SAFETY: the alignment of a layout is a power of two.
        unsafe { mimalloc::mi_malloc_aligned(size, align) }.cast()
    }
}

#[inline]
fn small_zeroed(layout: Layout) -> *mut u8 {
    let (size, align) = (layout.size(), layout.align());
    if is_promised(align, size) {
        // SAFETY: any size is allowed.
        unsafe { mimalloc::mi_zalloc(size) }.cast()
    } else {
        // SAFETY: the alignment of a layout is a power of two.
        unsafe { mimalloc::mi_zalloc_aligned(size, align) }.cast()
    }
}

/// The caller passes a block of mimalloc.
#[inline]
unsafe fn resize(block: *mut u8, align: usize, size: usize) -> *mut u8 {
    if is_promised(align, size) {
        // SAFETY: the caller passes a block of mimalloc.
        unsafe { mimalloc::mi_realloc(block.cast(), size) }.cast()
    } else {
        // SAFETY: the caller passes a block of mimalloc, and the alignment of a layout is a power of two.
        unsafe { mimalloc::mi_realloc_aligned(block.cast(), size, align) }.cast()
    }
}

#[cold]
fn large(layout: Layout) -> *mut u8 {
    settle();
    if is_mapped(layout.align(), layout.size()) { map(layout.size()) } else { small(layout) }
}

#[cold]
fn large_zeroed(layout: Layout) -> *mut u8 {
    settle();
    if is_mapped(layout.align(), layout.size()) {
        // A new mapping is full of zeros.
        map(layout.size())
    } else {
        small_zeroed(layout)
    }
}

/// The caller passes a block of this allocator, with its layout.
#[cold]
unsafe fn free_large(block: *mut u8, layout: Layout) {
    settle();
    if is_mapped(layout.align(), layout.size()) {
        // SAFETY: the block is an unused mapping of this size.
        unsafe { unmap(block, layout.size()) }
    } else {
        // SAFETY: any other block is mimalloc's.
        unsafe { mimalloc::mi_free(block.cast()) }
    }
}

/// The caller passes a block of this allocator, with its layout.
#[cold]
unsafe fn resize_large(block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
    settle();
    let (align, before) = (layout.align(), layout.size());
    match (is_mapped(align, before), is_mapped(align, size)) {
        // SAFETY: the block is a mapping of the old size.
        (true, true) => unsafe { remap(block, before, size) },
        // SAFETY: a block that is not mapped is mimalloc's.
        (false, false) => unsafe { resize(block, align, size) },
        (_, to_mapping) => {
            let new = if to_mapping {
                map(size)
            } else {
                // SAFETY: the caller passes a size that is valid with this alignment.
                small(unsafe { Layout::from_size_align_unchecked(size, align) })
            };
            if !new.is_null() {
                // SAFETY: both blocks have this many bytes and do not overlap.
                unsafe { ptr::copy_nonoverlapping(block, new, before.min(size)) };
                // SAFETY: the block is the caller's, with its layout, and is not used any more.
                unsafe { free_large(block, layout) };
            }
            new
        }
    }
}

fn is_mapped(align: usize, size: usize) -> bool {
    size >= MAPPED_BYTES && align <= PAGE_BYTES
}

/// Maps this many bytes, rounded up to pages.
fn map(size: usize) -> *mut u8 {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the system chooses the address, so that no other memory is touched.
    or_null(unsafe { libc::mmap(ptr::null_mut(), size, access, kind, -1, 0) })
}

/// The caller passes a mapping of `before` bytes, and uses the result instead of it, unless the result is null.
unsafe fn remap(block: *mut u8, before: usize, now: usize) -> *mut u8 {
    // SAFETY: the caller passes a mapping of this size, and does not use the old address again.
    or_null(unsafe { libc::mremap(block.cast(), before, now, libc::MREMAP_MAYMOVE) })
}

/// The caller passes a mapping of this size.
unsafe fn unmap(block: *mut u8, size: usize) {
    // SAFETY: the caller passes a mapping of this size.
    let unmapped = unsafe { libc::munmap(block.cast(), size) };
    debug_assert_eq!(unmapped, 0, "the mapping can be removed");
}

fn or_null(mapping: *mut libc::c_void) -> *mut u8 {
    if mapping == libc::MAP_FAILED { ptr::null_mut() } else { mapping.cast() }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, LocalOptions};

    use super::*;

    /// Runs a test in a separate process, since allocations of other tests would count.
    fn alone(test: &str) {
        const MARK: &str = "TIDEGATE_TEST_ALONE";
        if std::env::var_os(MARK).is_some() {
            return give_back_all();
        }
        let program = std::env::current_exe().unwrap();
        let output = std::process::Command::new(program)
            .args(["--exact", test, "--nocapture"])
            .env(MARK, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && said.contains("1 passed"), "{said}");
    }

    #[test]
    fn free_memory_is_returned_even_if_no_more_is_freed() {
        alone("allocator::tests::free_memory_is_returned_even_if_no_more_is_freed");
    }

    fn give_back_all() {
        let blocks: Vec<Vec<u8>> = (0..64 << 10).map(|_| vec![1; 1000]).collect();
        let with = resident_pages();
        drop(blocks);
        let goes_back = async {
            // Of 16,000 pages.
            while resident_pages() + 8_000 > with {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let mut runtime = Builder::new_current_thread();
        let runtime = runtime.enable_time().build_local(LocalOptions::default()).unwrap();
        let gone = runtime.block_on(async {
            kit::spawn(give_back());
            tokio::time::timeout(Duration::from_secs(60), goes_back).await
        });
        assert!(gone.is_ok(), "of {with} pages there are still {}", resident_pages());
    }

    fn resident_pages() -> usize {
        let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
        pages.split(' ').nth(1).unwrap().parse().unwrap()
    }

    /// Blocks of every size and alignment, enough that each size class has more than one page.
    #[test]
    fn blocks_have_the_alignment_that_was_asked_for() {
        for align in [1, 2, 4, 8, 16, 32, 64, 128, 4096] {
            for size in (1..=256).chain([500, 1000, 1024, 1025, 3000, 5000, 10_000, 100_000]) {
                let layout = Layout::from_size_align(size, align).unwrap();
                let blocks: Vec<*mut u8> = (0..20)
                    .map(|at| unsafe {
                        let block = match at % 2 {
                            0 => Allocator.alloc(layout),
                            _ => Allocator.alloc_zeroed(layout),
                        };
                        assert!(at % 2 == 0 || *block.add(size - 1) == 0, "{size} {align}");
                        *block.add(size - 1) = 7;
                        block
                    })
                    .collect();
                for (at, block) in blocks.into_iter().enumerate() {
                    assert!(block.addr().is_multiple_of(align), "{size} {align}");
                    let larger = Layout::from_size_align(size + at * 10, align).unwrap();
                    unsafe {
                        let moved = Allocator.realloc(block, layout, larger.size());
                        assert!(moved.addr().is_multiple_of(align), "{size} {align}");
                        assert_eq!(*moved.add(size - 1), 7);
                        Allocator.dealloc(moved, larger);
                    }
                }
            }
        }
    }

    /// The page faults of this thread without disk access.
    fn faults() -> i64 {
        // SAFETY: all zeros are a value of this type, which the call fills.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: it is a place for one value of its type.
        assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) }, 0);
        usage.ru_minflt
    }

    /// A copy would touch each page of the new block.
    #[test]
    fn a_very_large_block_grows_without_a_copy() {
        let size = 2 * MAPPED_BYTES;
        let mut block = vec![7_u8; size];
        let before = faults();
        block.reserve_exact(2 * size);
        let touched = faults() - before;
        assert!(block.capacity() >= 3 * size && block.iter().all(|byte| *byte == 7));
        assert!(touched < 100, "{touched} pages were touched");
    }

    #[test]
    fn blocks_keep_their_bytes_on_the_way_into_a_mapping_and_back() {
        for align in [1, 16, 4096, 8192] {
            let layout = |size| Layout::from_size_align(size, align).unwrap();
            let sizes = [
                LARGE_BYTES - 1,
                LARGE_BYTES,
                MAPPED_BYTES - 1,
                MAPPED_BYTES,
                3 * MAPPED_BYTES + 1,
                MAPPED_BYTES + 1,
                LARGE_BYTES + 1,
                1000,
                2 * MAPPED_BYTES,
            ];
            let mut now = layout(100);
            let mut block = unsafe { Allocator.alloc(now) };
            unsafe { block.write_bytes(7, 100) };
            for size in sizes {
                block = unsafe { Allocator.realloc(block, now, size) };
                now = layout(size);
                assert!(!block.is_null() && block.addr().is_multiple_of(align), "{size} {align}");
                let kept = unsafe { std::slice::from_raw_parts(block, 100) };
                assert!(kept.iter().all(|byte| *byte == 7), "{size} {align}");
                unsafe { block.add(size - 1).write(1) };
            }
            unsafe { Allocator.dealloc(block, now) };
            let zeros = unsafe { Allocator.alloc_zeroed(now) };
            let all = unsafe { std::slice::from_raw_parts(zeros, now.size()) };
            assert!(all.iter().all(|byte| *byte == 0) && zeros.addr().is_multiple_of(align));
            unsafe { Allocator.dealloc(zeros, now) };
        }
    }
}
