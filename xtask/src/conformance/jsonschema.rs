//! The draft 2020-12 of the JSON-Schema-Test-Suite, run with the schema compiler that validates bodies.
//!
//! The pack is any archive that contains the suite, such as the source archive of PyPI's `jsonschema`. Only the paths below
//! `tests/draft2020-12` and `remotes` are read.

use std::fmt::Write as _;
use std::fs::File;

use mediation::json_schema::{Document, Schemas};
use serde_json::Value;

use super::{Options, Outcome, pack};
use crate::Failure;

/// The server of the suite's remote documents, as its cases name it.
const REMOTES: &str = "http://localhost:1234/";

pub(super) fn run(options: &Options) -> Result<Outcome, Failure> {
    let broken = |error: String| Failure::Broken(format!("{}: {error}", options.pack.display()));
    let file = File::open(&options.pack).map_err(|error| broken(error.to_string()))?;
    let files = pack::unpack(file).map_err(|error| broken(error.to_string()))?;
    let mut remotes = Vec::new();
    let mut groups = Vec::new();
    for (path, bytes) in files.iter().filter(|(path, _)| path.ends_with(".json")) {
        let json = || {
            let read: Result<Value, _> = serde_json::from_slice(bytes);
            read.map_err(|error| broken(format!("{path}: {error}")))
        };
        if let Some((_, name)) = path.split_once("remotes/") {
            // No case refers to the remote documents of other drafts.
            if !name.starts_with("draft") || name.starts_with("draft2020-12") {
                remotes.push((format!("{REMOTES}{name}"), json()?));
            }
        } else if let Some((_, name)) = path.split_once("tests/draft2020-12/")
            && !name.contains('/')
        {
            groups.push((name.to_owned(), json()?));
        }
    }
    if groups.is_empty() {
        return Err(broken("it has no `tests/draft2020-12`".to_owned()));
    }
    let schemas = Schemas::new(remotes, false).map_err(broken)?;
    let mut outcome = Outcome {
        summary: String::new(),
        complaints: String::new(),
        passed: 0,
        failed: 0,
        scored: 0,
    };
    for (name, group) in &groups {
        for case in group.as_array().into_iter().flatten() {
            judge(name, case, &schemas, &options.only, &mut outcome);
        }
    }
    let _ = write!(outcome.summary, "{} files of cases", groups.len());
    Ok(outcome)
}

fn judge(name: &str, case: &Value, schemas: &Schemas, only: &str, outcome: &mut Outcome) {
    let text = |value: &Value, key: &str| {
        value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let compiled = schemas.compile(case.get("schema").unwrap_or(&Value::Null));
    for test in case.get("tests").and_then(Value::as_array).into_iter().flatten() {
        let id = format!("{name}: {}: {}", text(case, "description"), text(test, "description"));
        if !id.contains(only) {
            continue;
        }
        outcome.scored += 1;
        let wanted = test.get("valid").and_then(Value::as_bool);
        let data = test.get("data").unwrap_or(&Value::Null).to_string();
        let found = compiled.as_ref().map_err(Clone::clone).and_then(|schema| {
            let document = Document::read(data.as_bytes()).map_err(|error| error.to_string())?;
            Ok(schema.allows(&document))
        });
        match found {
            Ok(valid) if Some(valid) == wanted => outcome.passed += 1,
            found => {
                outcome.failed += 1;
                let _ = writeln!(outcome.complaints, "{id}: {found:?}");
            }
        }
    }
}
