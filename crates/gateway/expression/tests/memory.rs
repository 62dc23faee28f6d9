//! Tests the memory limit. The limit applies to the whole process, so this test has a test program for itself.

use expression::{Budget, FailureKind};
use kit::memory::{self, Limit};

#[test]
fn a_full_process_is_named() {
    memory::set_limit(Limit::Bytes(0));
    assert_eq!(Budget::default().output(100_000), Err(FailureKind::MemoryFull));
    let said = FailureKind::MemoryFull.to_string();
    assert_eq!(said, "no memory is left within `limits.memory` of the process");
}
