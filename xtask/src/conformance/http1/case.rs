//! One line of the manifest, parsed into a type that cannot hold invalid cases.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::rule::Rule;

/// One case.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) rfc: String,
    pub(crate) level: String,
    pub(crate) description: String,
    /// True if the case is scored.
    pub(crate) scored: bool,
    /// The bytes to send, in order, over one connection.
    pub(crate) steps: Vec<Step>,
    pub(crate) rule: Rule,
}

/// The bytes to send before the connection is observed again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) parts: Vec<Part>,
}

/// Bytes to send at once, and the pause after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) bytes: Vec<u8>,
    pub(crate) pause: Duration,
}

impl Case {
    /// Parses a line of the manifest.
    pub(crate) fn read(line: &Value) -> Result<Self, String> {
        let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let id = text("id");
        let read = || {
            let rule = line.pointer("/expected/rule").ok_or("no expected.rule")?;
            let scored = line.get("scored").and_then(Value::as_bool).ok_or("no scored")?;
            Ok((scored, steps(line)?, Rule::read(rule)?))
        };
        let (scored, steps, rule) =
            read().map_err(|error: String| format!("case {id}: {error}"))?;
        let (rfc, level, description) = (text("rfc"), text("level"), text("description"));
        Ok(Self { id, rfc, level, description, scored, steps, rule })
    }
}

impl Step {
    /// All bytes of the step.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.parts.iter().flat_map(|part| part.bytes.iter().copied()).collect()
    }
}

fn steps(line: &Value) -> Result<Vec<Step>, String> {
    if let Some(steps) = line.get("steps").and_then(Value::as_array) {
        return steps.iter().map(step).collect();
    }
    let bytes = bytes(line.get("raw_request_base64").ok_or("neither steps nor a raw request")?)?;
    Ok(vec![Step { parts: vec![Part { bytes, pause: Duration::ZERO }] }])
}

fn step(step: &Value) -> Result<Step, String> {
    let parts = step.get("parts").and_then(Value::as_array).ok_or("a step without parts")?;
    let parts: Result<Vec<Part>, String> = parts.iter().map(part).collect();
    Ok(Step { parts: parts? })
}

fn part(part: &Value) -> Result<Part, String> {
    let bytes = bytes(part.get("base64").ok_or("a part without base64")?)?;
    let pause = part.get("delay_ms").and_then(Value::as_u64).unwrap_or_default();
    Ok(Part { bytes, pause: Duration::from_millis(pause) })
}

fn bytes(value: &Value) -> Result<Vec<u8>, String> {
    let text = value.as_str().ok_or("bytes that are not text")?;
    STANDARD.decode(text).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let line = serde_json::json!({
            "id": "A", "scored": true, "steps": null, "raw_request_base64": "R0VU",
            "expected": { "rule": "pass" },
        });
        let case = Case::read(&line).unwrap();
        assert_eq!(
            case.steps,
            [Step { parts: vec![Part { bytes: b"GET".to_vec(), pause: Duration::ZERO }] }]
        );
        let line = serde_json::json!({
            "id": "B", "scored": false, "expected": { "rule": "warn" },
            "steps": [{ "label": "x", "parts": [{ "base64": "R0", "delay_ms": 5 }] }],
        });
        assert!(Case::read(&line).unwrap_err().starts_with("case B: "));
        let line = serde_json::json!({
            "id": "C", "scored": false, "expected": { "rule": "warn" },
            "steps": [{ "parts": [{ "base64": "Rw==", "delay_ms": 5 }, { "base64": "RQ==" }] }, { "parts": [] }],
        });
        let case = Case::read(&line).unwrap();
        assert_eq!(
            case.steps.iter().map(Step::bytes).collect::<Vec<_>>(),
            [b"GE".to_vec(), vec![]]
        );
        assert_eq!(case.steps[0].parts[0].pause, Duration::from_millis(5));
    }

    #[test]
    fn broken_lines() {
        for line in [
            serde_json::json!({}),
            serde_json::json!({ "id": "A", "scored": true, "expected": { "rule": "pass" } }),
            serde_json::json!({ "id": "A", "scored": true, "raw_request_base64": "R0VU" }),
            serde_json::json!({ "id": "A", "raw_request_base64": "", "expected": { "rule": "pass" } }),
        ] {
            assert!(Case::read(&line).is_err(), "{line}");
        }
    }
}
