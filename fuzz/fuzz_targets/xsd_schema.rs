//! Schema documents of any bytes, compiled within small budgets: no panic, no hang.
#![no_main]

use libfuzzer_sys::fuzz_target;
use xsd::{Limits, Map, SchemaSet};

fuzz_target!(|bytes: &[u8]| {
    // The document can include, import and redefine itself.
    let mut files = Map::default();
    files.insert("a.xsd", bytes);
    let limits = Limits {
        documents_max: 8,
        components_max: 2_000,
        states_max: 500,
        restriction_steps_max: 5_000,
        ..Limits::default()
    };
    let mut set = SchemaSet::new(&files, limits);
    set.add_location("a.xsd");
    if let Err(complaints) = set.compile() {
        assert!(!complaints.is_empty());
    }
});
