//! Whether a value in JSON is kept when a newer program reads it and writes it again.

use serde_json::Value;

/// Asserts that `after` has everything that `before` has. A newer program may add members.
#[track_caller]
pub(crate) fn assert_kept(before: &[u8], after: &[u8]) {
    let value = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
    let (before, after) = (value(before), value(after));
    assert!(has(&after, &before), "{before}\nis written again as\n{after}");
}

fn has(after: &Value, before: &Value) -> bool {
    match (after, before) {
        (Value::Object(after), Value::Object(before)) => before
            .iter()
            .all(|(name, value)| after.get(name).is_some_and(|after| has(after, value))),
        (Value::Array(after), Value::Array(before)) => {
            let pairs = || after.iter().zip(before);
            after.len() == before.len() && pairs().all(|(after, before)| has(after, before))
        }
        (after, before) => after == before,
    }
}
