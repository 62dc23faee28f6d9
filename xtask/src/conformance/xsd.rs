//! The `xsd` suite: schemas to accept or refuse, and documents that are valid or invalid against them.
//!
//! Owns the parsing of its cases and the scores by kind. Runs in process, on at most two threads. Every file comes from the
//! pack; nothing is fetched.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use xsd::{Bounds, Hints, Limits, ResolveError, Resolver, Root, Schema, SchemaSet, Validator};

use super::known::{Judged, close};
use super::pack::Pack;
use super::{Options, Outcome};
use crate::Failure;

/// Maximum number of threads. The cores of the machine are shared, and more threads would only wait for them.
const THREADS_MAX: usize = 2;

/// Maximum time of one case.
const CASE_MAX: Duration = Duration::from_secs(2);

/// One line of the manifest.
struct Case<'p> {
    id: String,
    schemas: Vec<&'p str>,
    instance: Option<&'p str>,
    valid: bool,
    nist: bool,
}

/// The files of the pack.
struct Files<'p>(&'p BTreeMap<String, Vec<u8>>);

impl Resolver for Files<'_> {
    fn load(&self, location: &str) -> Result<Vec<u8>, ResolveError> {
        self.0.get(location).cloned().ok_or(ResolveError::Absent)
    }
}

/// Runs all cases of the pack.
pub(crate) fn run(options: &Options) -> Result<Outcome, Failure> {
    let pack = Pack::open(&options.pack)?;
    let mut cases: Vec<Case<'_>> = pack.cases.iter().map(read).collect();
    cases.retain(|case| case.id.contains(&options.only));
    let judged = judge_all(&cases, &pack.files);
    let mut summary = String::new();
    for (name, keep) in [
        ("schemas", (|case| case.instance.is_none()) as fn(&Case<'_>) -> bool),
        ("instances", |case| case.instance.is_some()),
        ("without NIST", |case| !case.nist),
    ] {
        let kept = cases.iter().zip(&judged).filter(|(case, _)| keep(case));
        let (passed, all) = kept.fold((0, 0), |(passed, all), (_, judged)| {
            (passed + u32::from(judged.passed), all + 1)
        });
        let percent = f64::from(passed) * 100.0 / f64::from(all.max(1));
        writeln!(summary, "{name}: {passed} of {all} ({percent:.2} %)").ok();
    }
    close("xsd", &judged, summary)
}

fn read(line: &Value) -> Case<'_> {
    let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
    let schemas = line.get("schemas").and_then(Value::as_array);
    let id = [text("set"), text("group"), text("id"), text("kind")].join("/");
    Case {
        id: id.replace(char::is_whitespace, "_"),
        schemas: schemas.into_iter().flatten().filter_map(Value::as_str).collect(),
        instance: line.get("instance").and_then(Value::as_str),
        valid: text("expected") == "valid",
        nist: text("contributor") == "NIST",
    }
}

/// Judges the cases in groups of neighbours, which share schemas.
fn judge_all(cases: &[Case<'_>], files: &BTreeMap<String, Vec<u8>>) -> Vec<Judged> {
    const GROUP: usize = 64;
    let groups: Vec<&[Case<'_>]> = cases.chunks(GROUP).collect();
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(group) = groups.get(at) else { return done };
            let mut compiled = Compiled { schemas: Vec::new(), result: Err(String::new()) };
            let judged = group.iter().map(|case| judge(case, files, &mut compiled));
            done.push((at, judged.collect::<Vec<_>>()));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS_MAX).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect::<Vec<_>>()
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().flat_map(|(_, judged)| judged).collect()
}

/// The compiled schema of the previous case, which the next case may share.
struct Compiled<'p> {
    schemas: Vec<&'p str>,
    result: Result<Arc<Schema>, String>,
}

#[allow(clippy::disallowed_methods, reason = "the clock detects a case that takes too long")]
fn judge<'p>(
    case: &Case<'p>,
    files: &BTreeMap<String, Vec<u8>>,
    compiled: &mut Compiled<'p>,
) -> Judged {
    let started = Instant::now();
    let verdict = catch_unwind(AssertUnwindSafe(|| verdict(case, files, compiled)));
    let (passed, got) = match verdict {
        Ok(Ok(())) => (case.valid, "valid".to_owned()),
        Ok(Err(why)) => (!case.valid, why),
        Err(_) => (false, "a panic".to_owned()),
    };
    let late = started.elapsed() > CASE_MAX;
    let expected = if case.valid { "valid" } else { "invalid" };
    let complaint =
        if late { format!("over {CASE_MAX:?}") } else { format!("expected {expected}, got {got}") };
    Judged { id: case.id.clone(), passed: passed && !late, complaint }
}

fn verdict<'p>(
    case: &Case<'p>,
    files: &BTreeMap<String, Vec<u8>>,
    compiled: &mut Compiled<'p>,
) -> Result<(), String> {
    let Some(path) = case.instance else {
        return schema(case, files, compiled).map(drop);
    };
    let bytes = files.get(path).ok_or_else(|| format!("no file {path}"))?;
    let options = xml::Options { doctype: xml::Doctype::Internal, ..xml::Options::default() };
    let mut hints = Hints::default();
    xml::parse(bytes, &options, &mut hints).map_err(|error| format!("not XML: {error}"))?;
    if let Some(at) = hints.late {
        return Err(format!("{at}: a schemaLocation after an element it is for"));
    }
    let known =
        |location: &str| case.schemas.iter().any(|schema| *schema == xsd::join(path, location));
    let schema = if hints.found.iter().all(|(_, location)| known(location)) {
        schema(case, files, compiled)?
    } else {
        with_hints(case, files, path, &hints)?
    };
    let root = if case.schemas.is_empty() && schema.elements().next().is_none() {
        Root::Lax
    } else {
        Root::Declared
    };
    let mut validator =
        Validator::new(schema, root, Bounds { invalid_max: 1, ..Bounds::default() });
    validator.validate(bytes, &options).map_err(|error| format!("not XML: {error}"))?;
    match validator.invalid().first() {
        None => Ok(()),
        Some(invalid) => Err(invalid.to_string()),
    }
}

fn schema<'p>(
    case: &Case<'p>,
    files: &BTreeMap<String, Vec<u8>>,
    compiled: &mut Compiled<'p>,
) -> Result<Arc<Schema>, String> {
    if compiled.schemas != case.schemas || case.schemas.is_empty() {
        compiled.schemas.clear();
        let resolver = Files(files);
        let mut set = SchemaSet::new(&resolver, Limits::default());
        load(&mut set, case)?;
        compiled.result = finish(set);
        compiled.schemas.clone_from(&case.schemas);
    }
    compiled.result.clone()
}

fn with_hints(
    case: &Case<'_>,
    files: &BTreeMap<String, Vec<u8>>,
    path: &str,
    hints: &Hints,
) -> Result<Arc<Schema>, String> {
    let resolver = Files(files);
    let mut set = SchemaSet::new(&resolver, Limits::default());
    load(&mut set, case)?;
    for (namespace, location) in &hints.found {
        set.add_hint(namespace, location, path);
    }
    finish(set)
}

fn load(set: &mut SchemaSet<'_>, case: &Case<'_>) -> Result<(), String> {
    case.schemas.iter().try_for_each(|schema| {
        if set.add_location(schema) { Ok(()) } else { Err(format!("no file {schema}")) }
    })
}

fn finish(set: SchemaSet<'_>) -> Result<Arc<Schema>, String> {
    set.compile().map(Arc::new).map_err(|complaints| match complaints.first() {
        Some(first) => format!("{first} ({} in all)", complaints.len()),
        None => "no complaint".to_owned(),
    })
}
