//! Regular expressions of XML Schema: no panic, no time lost, and what has to mean the same matches the same.
//!
//! The first line is the expression, the rest is the text.

#![no_main]

use libfuzzer_sys::fuzz_target;
use xsd::regex::{Regex, Steps};

fuzz_target!(|input: &str| {
    let (pattern, text) = input.split_once('\n').unwrap_or((input, ""));
    let Ok(regex) = Regex::compile(pattern) else {
        assert!(Regex::any(&[pattern]).is_err(), "refused alone, taken as one of many");
        return;
    };
    let Ok(found) = regex.matches(text, &Steps::default()) else { return };
    for (same, expected) in [
        (format!("({pattern})"), found),
        (format!("({pattern})|({pattern})"), found),
        (format!("({pattern})?"), found || text.is_empty()),
        (format!("({pattern}){{0}}"), text.is_empty()),
    ] {
        // The longer form may be over a limit that the shorter one keeps.
        let compiled = Regex::compile(&same);
        if let Ok(Ok(other)) = compiled.map(|regex| regex.matches(text, &Steps::default())) {
            assert_eq!(other, expected, "{same:?} differs from {pattern:?}");
        }
    }
});
