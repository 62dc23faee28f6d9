//! Whether a value in JSON is kept when this version reads it and writes it again.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Asserts that a `T` is read from `bytes`, and would be written with all of their content. A newer version may add members.
#[track_caller]
pub(crate) fn assert_kept<T: Serialize + DeserializeOwned>(bytes: &[u8]) {
    let before: Value = serde_json::from_slice(bytes).unwrap();
    let after = serde_json::to_value(serde_json::from_slice::<T>(bytes).unwrap()).unwrap();
    assert!(has(&after, &before), "{before}\nis written again as\n{after}");
}

fn has(after: &Value, before: &Value) -> bool {
    match (after, before) {
        (Value::Object(after), Value::Object(before)) => before
            .iter()
            .all(|(name, value)| after.get(name).is_some_and(|after| has(after, value))),
        (Value::Array(after), Value::Array(before)) => {
            after.len() == before.len() && after.iter().zip(before).all(|(a, b)| has(a, b))
        }
        (after, before) => after == before,
    }
}
