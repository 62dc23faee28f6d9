//! The program's allocator: mimalloc, called for what has no alignment of its own by the calls that know of none.
//!
//! The `mimalloc` crate asks for the alignment of every value. mimalloc takes such a call for a usual one only where the size class
//! has a free block at hand; otherwise it asks itself for a larger block instead. That leaves a size class whose size is no power of
//! two without a page for ever, if nobody else fills it: each call for it goes the long way, about 110 instructions longer.
//!
//! It counts every block in `kit::memory`, by the bytes that were asked for.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]

use std::alloc::{GlobalAlloc, Layout};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};
use std::time::Duration;

use libmimalloc_sys as mimalloc;

// Their binding is behind a feature that brings a dependency.
unsafe extern "C" {
    safe fn mi_collect(force: bool);
    // A `long`, which has 64 bits on targets of 64 bits.
    safe fn mi_option_get(option: c_int) -> i64;
    safe fn mi_option_set(option: c_int, value: i64);
}

/// `mi_option_purge_delay` of `mimalloc.h`: for how many milliseconds free memory stays with the process.
const PURGE_DELAY: c_int = 15;

/// With each block of at least this size the allocator looks at how much of `limits.memory` is used. What exhausts it has such blocks.
const LARGE_BYTES: usize = 256 << 10;

/// The delay with which mimalloc began; none is known until it is first changed.
static DELAY: AtomicI64 = AtomicI64::new(-1);
/// True while more than half of `limits.memory` is used.
static IS_SHORT: AtomicBool = AtomicBool::new(false);

/// mimalloc lets go of memory that was free for a second, so more often would find nothing.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// Gives memory that is free back to the system. mimalloc does that by itself only where a page is freed a second later: after a start
/// that read much, or thousands of clients that left at once, nothing is, and all that they needed would stay.
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

/// Free memory stays with the process for a while, which saves time. Of a process near its bound it goes back to the system at once: what
/// was freed for one message would otherwise stay beside what is allocated for the next, and both were measured to need 1.7 times the
/// bound.
#[cold]
fn settle() {
    let is_short = is_short();
    if IS_SHORT.swap(is_short, Relaxed) != is_short {
        set_delay(is_short);
    }
}

fn set_delay(is_short: bool) {
    match is_short {
        true => {
            let began = mi_option_get(PURGE_DELAY);
            // Harmless: it fails where the delay is known already.
            let _known = DELAY.compare_exchange(-1, began, Relaxed, Relaxed);
            mi_option_set(PURGE_DELAY, 0);
        }
        false if DELAY.load(Relaxed) >= 0 => {
            mi_option_set(PURGE_DELAY, DELAY.load(Relaxed));
        }
        false => {}
    }
}

/// See the module.
pub(crate) struct Allocator;

/// The alignment that every block has which is at least as large: mimalloc's `MI_MAX_ALIGN_SIZE`, and what C wants of `malloc` on
/// targets of 64 bits.
const PROMISED: usize = 16;

fn is_promised(align: usize, size: usize) -> bool {
    align <= PROMISED && align <= size
}

/// Counts a block that had `before` bytes and has `now`. The size of a layout fits an `isize`. A call that finds no memory is counted as if
/// it had found some; the process ends then.
#[inline]
fn count(before: usize, now: usize) {
    kit::memory::count(now.wrapping_sub(before).cast_signed());
    if before.max(now) >= LARGE_BYTES {
        settle();
    }
}

// SAFETY: all blocks are of one allocator, which gives each the size and alignment of its layout; a null pointer says that there is
// no memory left. It neither unwinds nor allocates by this one.
unsafe impl GlobalAlloc for Allocator {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        count(0, size);
        match is_promised(align, size) {
            // SAFETY: any size may be asked for.
            true => unsafe { mimalloc::mi_malloc(size) }.cast(),
            // SAFETY: the alignment of a layout is a power of two.
            false => unsafe { mimalloc::mi_malloc_aligned(size, align) }.cast(),
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let (size, align) = (layout.size(), layout.align());
        count(0, size);
        match is_promised(align, size) {
            // SAFETY: any size may be asked for.
            true => unsafe { mimalloc::mi_zalloc(size) }.cast(),
            // SAFETY: the alignment of a layout is a power of two.
            false => unsafe { mimalloc::mi_zalloc_aligned(size, align) }.cast(),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(layout.size(), 0);
        // SAFETY: the caller gives a block of this allocator.
        unsafe { mimalloc::mi_free(block.cast()) };
    }

    #[inline]
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(layout.size(), size);
        match is_promised(layout.align(), size) {
            // SAFETY: the caller gives a block of this allocator.
            true => unsafe { mimalloc::mi_realloc(block.cast(), size) }.cast(),
            // SAFETY: the same, and the alignment of a layout is a power of two.
            false => {
                let block = block.cast();
                unsafe { mimalloc::mi_realloc_aligned(block, size, layout.align()) }.cast()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::{Builder, LocalOptions};

    use super::*;

    #[test]
    fn free_memory_goes_back_though_nothing_more_is_freed() {
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

    /// Blocks of every size and alignment, so many at once that each size class has more than a page.
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
}
