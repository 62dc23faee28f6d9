//! JSON onto a tape: no panic, the same texts refused as by `serde_json`, entries that lie within one another, and strings
//! that mean the same.

#![no_main]

use json::{Kind, Limits};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { depth_max: 127, entries_max: usize::MAX };

fuzz_target!(|text: &str| {
    let mut tape = Vec::new();
    let read = json::read(text, &LIMITS, &mut tape);
    let known = serde_json::from_str::<serde_json::Value>(text);
    match (&read, &known) {
        (Ok(()), Ok(_)) | (Err(_), Err(_)) => {}
        (Ok(()), Err(error)) if error.to_string().contains("out of range") => {}
        (read, known) => panic!("{read:?}, but {known:?}"),
    }
    if read.is_err() {
        return;
    }
    for (at, entry) in tape.iter().enumerate() {
        assert!(at < entry.next as usize && entry.next as usize <= tape.len());
        let span = &text[entry.from as usize..entry.to as usize];
        if matches!(entry.kind, Kind::Plain | Kind::Escaped) {
            let known: String = serde_json::from_str(&format!("\"{span}\"")).unwrap();
            assert_eq!(
                known,
                if entry.kind == Kind::Plain { span.into() } else { json::unescaped(span) }
            );
        }
    }
});
