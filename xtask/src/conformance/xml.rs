//! The `xml` suite: documents that a non-validating processor has to accept or refuse.
//!
//! Owns the parsing of its cases and the three scores: all cases, those without faults in external entities, and with every
//! document type declaration refused. Runs in process.

mod canonical;

use std::fmt::Write as _;

use serde_json::Value;
use xml::{Doctype, Document, Error, ErrorKind, Limits, Options as XmlOptions};

use super::known::{Judged, close};
use super::pack::Pack;
use super::{Options, Outcome};
use crate::Failure;

/// One line of the manifest.
struct Case<'p> {
    id: String,
    document: &'p [u8],
    expected: Expected,
    /// The place of the fault in a document that has to be refused.
    error_in: String,
    has_doctype: bool,
    namespaces: bool,
    canonical: Option<&'p [u8]>,
    note: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Accept,
    Reject,
    /// Not scored.
    Either,
}

/// Runs all cases of the pack.
pub(crate) fn run(options: &Options) -> Result<Outcome, Failure> {
    let pack = Pack::open(&options.pack)?;
    let cases: Result<Vec<Case<'_>>, Failure> =
        pack.cases.iter().map(|line| read(line, &pack)).collect();
    let mut cases = cases?;
    cases.retain(|case| case.id.contains(&options.only) && case.expected != Expected::Either);
    let judged: Vec<Judged> = cases.iter().map(judge).collect();
    let mut summary = String::new();
    let of = |keep: &dyn Fn(&Case<'_>) -> bool| {
        let kept = cases.iter().zip(&judged).filter(|(case, _)| keep(case));
        let (passed, all) = kept.fold((0, 0), |(passed, all), (_, judged)| {
            (passed + usize::from(judged.passed), all + 1)
        });
        format!("{passed} of {all}")
    };
    let (canonical, differences) = compare_canonical(&cases);
    writeln!(summary, "fault not in an external entity: {}", of(&|c| c.error_in != "external"))
        .ok();
    writeln!(summary, "without a DOCTYPE: {}", of(&|c| !c.has_doctype)).ok();
    writeln!(summary, "with DOCTYPE refused: {}", refusing(&cases)).ok();
    writeln!(summary, "canonical output: {canonical}").ok();
    let mut outcome = close("xml", &judged, summary)?;
    outcome.complaints.push_str(&differences);
    Ok(outcome)
}

fn read<'p>(line: &Value, pack: &'p Pack) -> Result<Case<'p>, Failure> {
    let text = |key: &str| line.get(key).and_then(Value::as_str).unwrap_or_default();
    let file = |path: &str| {
        let found = pack.files.get(path).map(Vec::as_slice);
        found.ok_or_else(|| Failure::Broken(format!("the pack has no file `{path}`")))
    };
    Ok(Case {
        id: format!("{}/{}", text("set"), text("id")),
        document: file(text("path"))?,
        expected: match text("expected") {
            "accept" => Expected::Accept,
            "reject" => Expected::Reject,
            "either" => Expected::Either,
            other => return Err(Failure::Broken(format!("unknown type of case `{other}`"))),
        },
        error_in: text("error_in").to_owned(),
        has_doctype: text("doctype") != "none",
        namespaces: line.get("namespaces_off") != Some(&Value::Bool(true)),
        canonical: match text("canonical_output") {
            "" => None,
            path => Some(file(path)?),
        },
        note: text("note").split_whitespace().collect::<Vec<_>>().join(" "),
    })
}

fn parse(case: &Case<'_>, doctype: Doctype) -> Result<Document, Error> {
    // One case has every letter in a single name. The length of a name does not make a document malformed.
    let limits = Limits { name_bytes_max: 64 << 10, ..Limits::default() };
    let options = XmlOptions { namespaces: case.namespaces, doctype, limits };
    Document::parse(case.document, &options)
}

fn judge(case: &Case<'_>) -> Judged {
    let parsed = parse(case, Doctype::Internal);
    let (expected, passed) = match case.expected {
        Expected::Accept => ("accept", parsed.is_ok()),
        Expected::Reject => ("reject", parsed.is_err()),
        Expected::Either => ("either", true),
    };
    let got = parsed.map_or_else(|error| format!("refused: {error}"), |_| "accepted".to_owned());
    let complaint = format!(
        "expected {expected} ({}), got {got}\n  {}",
        if case.error_in.is_empty() { "no fault" } else { &case.error_in },
        case.note
    );
    Judged { id: case.id.clone(), passed, complaint }
}

/// Returns the score with every document type declaration refused. Documents without a declaration are scored, and those with a fault
/// outside it. The others must be refused because of the declaration, and those that are not are counted.
fn refusing(cases: &[Case<'_>]) -> String {
    let (mut passed, mut scored, mut strange) = (0, 0, 0);
    for case in cases {
        let parsed = parse(case, Doctype::Refuse);
        let refused = matches!(&parsed, Err(error) if error.kind == ErrorKind::DoctypeRefused);
        if case.has_doctype && case.error_in != "document" {
            strange += usize::from(!refused);
        } else {
            let right = parsed.is_ok() == (case.expected == Expected::Accept);
            passed += usize::from(right);
            scored += 1;
        }
    }
    format!("{passed} of {scored}; of the others {strange} not refused for their DOCTYPE")
}

/// Returns how many trees have the expected canonical form, and the differences of the others.
fn compare_canonical(cases: &[Case<'_>]) -> (String, String) {
    let (mut same, mut all, mut differences) = (0, 0, String::new());
    for case in cases {
        let Some(expected) = case.canonical else { continue };
        let Ok(document) = parse(case, Doctype::Internal) else { continue };
        let got = canonical::write(&document);
        all += 1;
        if got.as_bytes() == canonical::without_doctype(expected) {
            same += 1
        } else {
            let expected = String::from_utf8_lossy(expected);
            writeln!(differences, "{} canonical\n  expected {expected:?}\n  got {got:?}", case.id)
                .ok();
        }
    }
    (format!("{same} of {all} that were accepted"), differences)
}
