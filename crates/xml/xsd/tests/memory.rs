//! A long document streams through the validator without growing memory, and a validator that has been used before allocates nothing.
//! This is a separate test binary, because it counts every allocation of the process.
#![allow(unsafe_code, reason = "an allocator cannot be written without")]
#![allow(clippy::string_slice, reason = "a test ends where something does not work")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

#[path = "../benches/calculator/mod.rs"]
mod calculator;

use xsd::{Bounds, Root, Validator};

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is forwarded to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Ordering::Relaxed);
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One test: two in parallel would count each other's allocations.
#[test]
fn memory_is_bounded_by_depth() {
    let mut limits = xml::Limits { bytes_max: u64::MAX, ..xml::Limits::default() };
    limits.tokens_max = u64::MAX;
    let options = xml::Options { limits, ..xml::Options::default() };
    let mut validator = Validator::new(calculator::schema(), Root::Declared, Bounds::default());
    let document = calculator::document(100_000);
    let (head, tail) = document.split_at(document.find("    </AddMany>").unwrap());
    let items = &head[head.find("      <item").unwrap()..];

    let mut parser = xml::Parser::new(options.clone());
    parser.feed(head.as_bytes(), &mut validator).unwrap();
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    for _ in 0..20_000_000 / items.len() {
        parser.feed(items.as_bytes(), &mut validator).unwrap();
    }
    let grown = PEAK.load(Ordering::Relaxed) - before;
    parser.feed(tail.as_bytes(), &mut validator).unwrap();
    parser.finish(&mut validator).unwrap();
    assert!(validator.is_valid(), "{:?}", validator.invalid());
    assert!(grown < 1 << 20, "20 MB made memory grow by {grown} bytes");

    // The validator is used again, and already has all the memory it needs.
    let calls = |validator: &mut Validator, bytes: &[u8]| {
        let before = CALLS.load(Ordering::Relaxed);
        validator.validate(bytes, &options).unwrap();
        CALLS.load(Ordering::Relaxed) - before
    };
    let (small, large) = (calculator::document(10_000), calculator::document(100_000));
    calls(&mut validator, large.as_bytes());
    let (few, many) =
        (calls(&mut validator, small.as_bytes()), calls(&mut validator, large.as_bytes()));
    assert!(
        many <= few + 4,
        "10 KB: {few} allocations, 100 KB: {many}: they grow with the document"
    );
}
